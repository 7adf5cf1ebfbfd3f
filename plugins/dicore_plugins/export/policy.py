"""Exports a trained policy, and compares the file with the policy on observations of its env."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dicore.data.tree import tree_stack
from dicore.errors import DicoreError, UsageError
from dicore.run.atomic import write_file
from dicore.run.env_factory import BuildContext, EnvFactory
from dicore_plugins.export.formats import FORMATS, Array, Format, Observations, named, tensors
from dicore_plugins.export.greedy_module import greedy_module
from dicore_registry.public_names import public_name

__all__ = ["Export", "export_policy"]

_STEPS: Final = 256
"""Observations on which file and policy are compared."""
_TOLERANCE: Final = 1e-5
_README: Final = """\
# {title}

Trained by dicore {version}: `{policy}` on `{env}`, checkpoint `{checkpoint}`. The file has the
network with its normalisation and the conversion to actions of the environment; dicore is not
needed to run it.

Input: {inputs}
Output: `action`, {output}

```python
{usage}```

Compared with the policy on {steps} observations: {agreement}.
"""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written.

    Args:
        file: The policy.
        readme: A page about it, beside it.
        steps: Number of observations on which it was compared with the policy.
        largest_difference: Largest difference between numbers in actions; 0 for discrete ones.
    """

    file: Path
    readme: Path
    steps: int
    largest_difference: float


def export_policy(
    where: str | Path,
    out: str | Path,
    *,
    load_path: str | None = None,
    seed: int = 0,
    trust: bool = False,
) -> Export:
    """Writes the policy of a run to a file that runs without dicore, and checks it.

    Args:
        where: A run, or one of its checkpoints.
        out: The file: `.onnx`, `.pt2` (torch.export) or `.ts` (TorchScript).
        load_path: Name of a checkpoint; None takes `best`, else the latest valid one.
        seed: Seed of the episode whose observations are compared.
        trust: Run code that `config.json` names by path.

    Raises:
        UsageError: the suffix is unknown, a package is missing, the policy cannot be exported, or
            the file selects other actions than the policy.
    """
    out = Path(out)
    if out.suffix not in FORMATS:
        suffixes = ", ".join(FORMATS)
        raise UsageError(f"{out}: unknown format '{out.suffix}'", hint=f"use one of {suffixes}")
    form = FORMATS[out.suffix]
    trained = public_name("find_policy", "dicore export")(where, load_path, trust=trust)
    compiled = trained.compiled
    env = EnvFactory(compiled.env, BuildContext())()
    try:
        context = BuildContext(
            observation_space=env.observation_space, action_space=env.action_space
        )
        policy, state = trained.build(context)
        rows, actions = _episode(env, policy.eval_mode, seed)
    finally:
        env.close()
    obs = _plain(tree_stack(rows))
    module = greedy_module(policy)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=out.parent) as folder:
        made = Path(folder) / out.name  # takes its place only if it does what the policy does
        try:
            form.write(module, obs, made)
        except DicoreError:
            raise
        except Exception as error:
            raise UsageError(
                f"{out}: this network cannot be written as {form.name}: {_first_line(error)}",
                hint=f"try another format ({', '.join(FORMATS)})",
            ) from error
        difference = _compared(form, made, module, obs, actions)
        made.replace(out)
    name = state.name or trained.name
    readme = _write_readme(out, form, compiled, name, obs, actions, difference)
    return Export(out, readme, len(actions), difference)


def _episode(env: Any, mode: Any, seed: int) -> tuple[list[Any], Array]:
    """Runs the policy; returns observations and the actions that it selects."""
    from dicore.data import EnvBatch

    rows: list[Any] = []
    actions: list[Array] = []
    obs, _ = env.reset(seed=seed)
    while len(rows) < _STEPS:
        rows.append(obs)
        found = mode.forward(EnvBatch.of({0: obs}))[0]["action"]
        actions.append(np.asarray(found))
        obs, _, terminated, truncated, _ = env.step(found)
        if terminated or truncated:
            obs, _ = env.reset()
    return rows, np.stack(actions)


def _plain(obs: Any) -> Observations:
    """Returns arrays and dicts; float64 as float32, as the policy sees it."""
    if isinstance(obs, Mapping):
        return {str(key): _plain(each) for key, each in obs.items()}
    if isinstance(obs, tuple | list):
        raise UsageError("observations that are tuples cannot be exported", hint="use a dict space")
    array: Array = np.asarray(obs)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _compared(form: Format, file: Path, module: Any, obs: Observations, actions: Array) -> float:
    """Runs the file on all observations, and on one; returns the largest difference.

    Raises:
        UsageError: it selects other actions.
    """
    run = form.load(file)
    found = run(obs)
    first = run(_rows(obs, slice(0, 1)))
    if found.shape != actions.shape or first.shape != actions[:1].shape:
        problem = f"actions have the shape {found.shape}, those of the policy {actions.shape}"
        raise _differs(file, form, problem)
    if actions.dtype.kind in "iub":
        odd = np.flatnonzero((found != actions).reshape(len(actions), -1).any(1)).tolist()
        wrong = [row for row in odd if not _is_tie(module, _rows(obs, slice(row, row + 1)))]
        if wrong:
            problem = (
                f"{len(wrong)} of {len(actions)} actions differ, first in observation {wrong[0]}"
            )
            raise _differs(file, form, problem)
        return 0.0
    difference = float(np.abs(found - actions).max())
    scale = max(1.0, float(np.abs(actions).max()))
    if not difference <= _TOLERANCE * scale:
        raise _differs(file, form, f"actions differ by up to {difference:.2g}")
    return difference


def _is_tie(module: Any, obs: Observations) -> bool:
    """Returns whether two actions are worth the same, up to rounding."""
    import torch

    with torch.no_grad():
        logit = module.model(tensors(obs))["logit"]
    for head in logit if isinstance(logit, list | tuple) else [logit]:
        two = head.topk(2, -1).values
        if float(two[..., 0] - two[..., 1]) <= _TOLERANCE * max(1.0, float(two.abs().max())):
            return True
    return False


def _differs(file: Path, form: Format, problem: str) -> UsageError:
    return UsageError(
        f"{file.name}: the {form.name} file does not do what the policy does: {problem}",
        hint="the policy does more than its network: export it with an own module",
    )


def _rows(obs: Observations, rows: slice) -> Observations:
    if isinstance(obs, Mapping):
        return {key: _rows(each, rows) for key, each in obs.items()}
    return obs[rows]


def _write_readme(
    out: Path,
    form: Format,
    compiled: Any,
    checkpoint: str,
    obs: Observations,
    actions: Array,
    difference: float,
) -> Path:
    from dicore import __version__

    parts = dict(named(obs))
    inputs = "; ".join(
        f"`{name}`, {each.dtype} {['batch', *each.shape[1:]]}".replace("'", "")
        for name, each in parts.items()
    )
    examples = {
        name: f"np.zeros({(1, *each.shape[1:])}, np.{each.dtype})" for name, each in parts.items()
    }
    single = list(parts) == ["obs"]
    listed = ", ".join(f'"{name}": {each}' for name, each in examples.items())
    fields = {
        "{file}": out.name,
        "{example}": examples["obs"] if single else f"{{{listed}}}",
        "{given}": "torch.from_numpy(obs)"
        if single
        else "{key: torch.from_numpy(each) for key, each in obs.items()}",
        "{inputs}": '{"obs": obs}' if single else "obs",
    }
    usage = form.usage
    for field, text in fields.items():
        usage = usage.replace(field, text)
    exact = actions.dtype.kind in "iub"
    text = _README.format(
        title=out.name,
        version=__version__,
        policy=compiled.policy.type,
        env=compiled.env.get("env_id") or compiled.env.type,
        checkpoint=checkpoint,
        inputs=inputs,
        output=f"{actions.dtype} {['batch', *actions.shape[1:]]}".replace("'", ""),
        usage=usage,
        steps=len(actions),
        agreement="all actions are equal" if exact else f"they differ by at most {difference:.1e}",
    )
    readme = out.with_suffix(out.suffix + ".md")
    write_file(readme, text.encode())
    return readme


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
