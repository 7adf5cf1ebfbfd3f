"""What `estimate` of a reward model costs beside its bare networks, on the same rows.

`python -m benchmarks.reward_models` prints one line per reward model and batch size.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore_plugins.reward_models import GAIL, ICM, RED, RND, TREX

OBS, ACTION = spaces.Box(-10.0, 10.0, (17,), np.float32), spaces.Box(-1.0, 1.0, (6,), np.float32)
SIZES = (64, 256, 2048)
REPEATS, CALLS = 15, 40


def samples(count: int) -> Batch:
    """Returns rows as a collector makes them, with episodes."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(count + 1, 17)).astype(np.float32)
    return Batch({
        "obs": obs[:-1], "next_obs": obs[1:].copy(), "reward": np.zeros(count, np.float32),
        "action": rng.uniform(-1, 1, (count, 6)).astype(np.float32),
        "done": np.arange(count) % 50 == 49, "env_id": np.arange(count) % 8,
    })  # fmt: skip


def models() -> dict[str, Any]:
    """Returns trained reward models with their default networks."""
    found: dict[str, Any] = {}
    for cls, options in (
        (RND, {}), (ICM, {}), (GAIL, {}), (RED, {"expert_updates": 5}),
        (TREX, {"expert_updates": 5}),
    ):  # fmt: skip
        model = cls(options, observation_space=OBS, action_space=ACTION)
        data = samples(512)
        data.columns["reward"] = data["obs"][:, 0].copy()
        if hasattr(model, "load_expert_data"):
            model.load_expert_data(data)
        model.collect_data(data)
        model.train()
        found[cls.__name__.lower()] = model
    return found


def bare(name: str, model: Any, data: Batch) -> Callable[[], Any]:
    """Returns the forward pass of the networks alone, on inputs that are tensors already."""
    net = model._net  # noqa: SLF001 - what is compared
    columns = {key: torch.from_numpy(data[key]) for key in ("obs", "action", "next_obs")}
    if name == "rnd":
        x = net.encoder.forward(columns["next_obs"])
        return lambda: (net.predictor.mlp(x), net.target.mlp(x))
    if name == "icm":
        return lambda: net.forward_error(*net.encode(columns))
    if name == "trex":
        return lambda: net.forward(columns["obs"])
    x = net.encoder.forward({"obs": columns["obs"], "action": columns["action"]})
    if name == "red":
        return lambda: (net.predictor.mlp(x), net.target.mlp(x))
    return lambda: net.mlp(x)


def seconds(call: Callable[[], Any]) -> float:
    """Returns the CPU time of one call, the mean of some."""
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS


def main() -> None:
    """Prints the medians of paired ratios."""
    torch.set_num_threads(1)
    for name, model in models().items():
        for count in SIZES:
            data = samples(count)
            with torch.no_grad():
                alone, whole = bare(name, model, data), lambda d=data, m=model: m.estimate(d)
                pairs = [(seconds(alone), seconds(whole)) for _ in range(REPEATS)]
            ratio = statistics.median(whole / alone for alone, whole in pairs)
            us = statistics.median(alone for alone, _ in pairs) * 1e6
            print(f"{name:5} {count:5} rows: network {us:7.1f} us, estimate {ratio:.2f} x")


if __name__ == "__main__":
    main()
