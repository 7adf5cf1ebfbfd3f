"""P10 and P11: advantages and n-step returns compared with tianshou.

The contenders compute from arrays that are ready in their own layout: [T, N] in float32, or one
axis in float64 with the indices that tianshou needs.

python benchmarks/functions.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import contest, missing
from dicore_plugins.functional import gae, nstep_return

GAMMA, LAMBDA, NSTEP = 0.99, 0.95, 5
TARGETS = {(128, 8): 1.8, (2048, 64): 2.0}
"""P10, the ratio to tianshou by steps and environments."""


def columns(steps: int, envs: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    reward, value, after = rng.standard_normal((3, steps, envs)).astype(np.float32)
    end = rng.random((steps, envs)) < 0.01
    return {"reward": reward, "value": value, "next_value": after, "done": end, "end": end}


def of_tianshou(given: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Returns tianshou's compiled loops over the same numbers, environment after environment."""
    try:
        from tianshou.algorithm import algorithm_base as peer
    except ImportError:
        missing("P10", "tianshou")
        return {}
    flat = {key: each.T.reshape(-1) for key, each in given.items()}
    reward, value, after = (
        flat[key].astype(np.float64) for key in ("reward", "value", "next_value")
    )
    end = flat["end"]
    steps, envs = given["end"].shape
    last = np.tile(np.arange(steps) == steps - 1, envs)
    after, stop = after * (1 - end), end | last
    rows = [np.arange(len(end))]
    for _ in range(NSTEP - 1):
        rows.append(np.where(stop[rows[-1]], rows[-1], rows[-1] + 1))
    indices = np.stack(rows)
    target = after[indices[-1]][:, None]
    return {
        "gae": lambda: peer._gae(value, after, reward, stop, GAMMA, LAMBDA),  # noqa: SLF001
        "nstep": lambda: peer._nstep_return(reward, stop, target, indices, GAMMA, NSTEP),  # noqa: SLF001
    }


def check(name: str, contenders: dict[str, Callable[[], Any]], shape: tuple[int, int]) -> None:
    """Raises an error unless all contenders compute the same."""
    found = {each: np.asarray(fn()) for each, fn in contenders.items()}
    if "tianshou" in found:
        found["tianshou"] = found["tianshou"].reshape(shape[::-1]).T
    for each, numbers in found.items():
        np.testing.assert_allclose(
            numbers, found["dicore"], rtol=1e-3, atol=1e-4, err_msg=name + each
        )


def of_dicore(given: dict[str, Any], kernels: Any) -> dict[str, Callable[[], Any]]:
    reward, value, after, done, end = given.values()
    return {
        "gae": lambda: gae(
            reward, value, after, done, end, gamma=GAMMA, gae_lambda=LAMBDA, kernels=kernels
        ),
        "nstep": lambda: nstep_return(
            reward, after, done, end, nstep=NSTEP, gamma=GAMMA, kernels=kernels
        ),
    }


def main() -> None:
    for shape, target in TARGETS.items():
        given, size = columns(*shape), "x".join(map(str, shape))
        systems = {
            "dicore": of_dicore(given, "numba"),
            "tianshou": of_tianshou(given),
            "dicore numpy": of_dicore(given, "numpy"),
        }
        rows = {"gae": (f"P10 GAE {size}", target), "nstep": (f"P11 {NSTEP}-step {size}", 5.0)}
        for name, (row, ratio) in rows.items():
            contenders = {each: found[name] for each, found in systems.items() if name in found}
            check(name, contenders, shape)
            contest(row, contenders, math.prod(shape) / 1e6, "M elements/s",
                    against={"tianshou": ratio}, clock=time.process_time)  # fmt: skip


if __name__ == "__main__":
    main()
