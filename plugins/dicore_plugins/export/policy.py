"""Exports a trained policy, and compares the file with the policy on observations of its env."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np

from dicore.data import EnvBatch, Tree
from dicore.data.tree import tree_stack
from dicore.errors import DicoreError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import EvalMode
from dicore.run.env_factory import BuildContext, EnvFactory
from dicore_plugins.env_managers.adapt import StatefulLayers
from dicore_plugins.export.formats import FORMATS, Array, Format, Inputs, tensors
from dicore_plugins.export.greedy_module import GreedyModule, greedy_module
from dicore_plugins.export.page import write_page
from dicore_registry.public_names import public_name

if TYPE_CHECKING:
    from dicore.config.sections import Compiled

__all__ = ["Export", "export_policy"]

_STEPS: Final = 256
"""Observations on which file and policy are compared."""
_TOLERANCE: Final = 1e-5
_HYBRID: Final = ("action_type", "action_args")
"""Parts of a hybrid action."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written.

    Args:
        file: The policy.
        readme: A page about it, beside it.
        steps: Number of observations on which it was compared with the policy.
        largest_difference: Largest difference between numbers in actions; 0 for discrete ones.
        groups: Files that act for one group of agents each, by its name.
    """

    file: Path
    readme: Path
    steps: int
    largest_difference: float
    groups: Mapping[str, Export] = field(default_factory=dict)


def export_policy(
    where: str | Path,
    out: str | Path,
    *,
    load_path: str | None = None,
    seed: int = 0,
    trust: bool = False,
) -> Export:
    """Writes the policy of a run to a file that runs without dicore, and checks it.

    A policy of several groups of agents also gets a file for each, with its name before the suffix.

    Args:
        where: A run, or one of its checkpoints.
        out: The file: `.onnx`, `.pt2` (torch.export) or `.ts` (TorchScript).
        load_path: Name of a checkpoint; None takes `best`, else the latest valid one.
        seed: Seed of the episode whose observations are compared.
        trust: Run code that `config.json` names by path.

    Raises:
        UsageError: the suffix is unknown, a package is missing, the policy cannot be exported, the
            file selects other actions than the policy, or cannot be written.
    """
    out = Path(out)
    if out.suffix not in FORMATS:
        suffixes = ", ".join(FORMATS)
        raise UsageError(f"{out}: unknown format '{out.suffix}'", hint=f"use one of {suffixes}")
    form = FORMATS[out.suffix]
    find = public_name("find_policy", "dicore export")
    trained = find(where, load_path, trust=trust, overrides=["policy.cuda=false"])
    compiled = trained.compiled
    env = EnvFactory(compiled.env, BuildContext())()
    try:
        policy, state = trained.build(BuildContext(EnvSpec.of(env)))
        measured = _go_on(env, state.env_states.get("evaluator") or ())
        module = greedy_module(policy)
        acted = _acted(env, policy.eval_mode, seed)
        module.parts = tuple(acted.actions)
    finally:
        env.close()
    about = _About(form, compiled, state.name or trained.name, measured)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        done = _written(module, acted, out, about)
        groups = {
            name: _written(
                part, _Acted(obs, {"action": action}, acted.first), _of(out, name), about
            )
            for name, part, obs, action in _groups(policy, acted)
        }
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    return replace(done, groups=groups)


def _groups(policy: Any, acted: _Acted) -> Iterable[tuple[str, GreedyModule, Tree, Array]]:
    """Returns the groups of a policy that has some; see `exported_groups` of such policies."""
    find = getattr(policy, "exported_groups", None)
    return () if find is None else find(acted.obs, acted.actions["action"])


def _of(out: Path, group: str) -> Path:
    """Returns the file of a group beside that of all."""
    return out.with_name(f"{out.stem}.{quote(group, safe='')}{out.suffix}")


class _About(NamedTuple):
    """What all files have in common: their format, and what their pages say."""

    form: Format
    compiled: Compiled
    checkpoint: str
    measured: Sequence[Any]


def _written(module: GreedyModule, acted: _Acted, out: Path, about: _About) -> Export:
    """Writes a module and its page, and compares it with what the policy did.

    Raises:
        UsageError: the format does not allow it, or the file selects other actions.
    """
    form = about.form
    obs, module.layout = _flat(acted.obs)
    inputs: Inputs = (obs, *_first_state(module, obs))
    with tempfile.TemporaryDirectory(prefix=".export-", dir=out.parent) as folder:
        made = Path(folder) / out.name  # takes its place only if it does what the policy does
        try:
            form.write(module, inputs, made)
            difference = _compared(form, made, module, inputs, acted)
        except DicoreError:
            raise
        except Exception as error:
            raise UsageError(
                f"{out}: this network cannot be written as {form.name}: {_summary(error)}",
                hint=f"try another format ({', '.join(sorted({*FORMATS} - {out.suffix}))})",
            ) from error
        made.replace(out)
    readme = write_page(
        out, form, about.compiled, about.checkpoint, inputs, acted.actions, difference,
        about.measured,
    )  # fmt: skip
    return Export(out, readme, len(acted.first), difference)


def _go_on(env: Any, stored: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Gives an environment what the first one of the evaluations remembers; returns it."""
    layers = StatefulLayers({0: env})
    if not stored or len(layers.now(0)) != len(stored[0]):
        return ()
    layers.load(0, stored[0])
    return stored[0]


class _Acted(NamedTuple):
    """What the policy did: observations, the parts of its actions by name; `first`: a reset came.

    All are arrays [B, ...], `first` bool [B].
    """

    obs: Tree
    actions: dict[str, Array]
    first: Array


def _acted(env: Any, mode: EvalMode, seed: int) -> _Acted:
    """Runs the policy.

    Raises:
        UsageError: its actions are neither one array nor a type with arguments.
    """
    rows: list[Tree] = []
    actions: list[dict[str, Array]] = []
    first: list[bool] = []
    over, given = True, {"seed": seed}
    while len(rows) < _STEPS:
        first.append(over)
        if over:
            obs, _ = env.reset(**given)
            mode.reset([0])
            given = {}
        rows.append(obs)
        found = mode.forward(EnvBatch.of({0: obs}))[0]["action"]
        parts = dict(found) if isinstance(found, Mapping) else {"action": found}
        if isinstance(found, Mapping) and set(parts) != set(_HYBRID):
            raise UsageError(
                f"actions of the parts {', '.join(map(str, parts))} cannot be exported",
                hint="use it with dicore: dicore enjoy RUN, or dicore.Agent in Python",
            )
        names = _HYBRID if isinstance(found, Mapping) else ("action",)
        actions.append({name: np.asarray(parts[name]) for name in names})
        obs, _, terminated, truncated, _ = env.step(found)
        over = bool(terminated or truncated)
    stacked = {name: np.stack([each[name] for each in actions]) for name in actions[0]}
    return _Acted(tree_stack(rows), stacked, np.array(first))


def _flat(obs: Tree) -> tuple[Tree, Tree]:
    """Returns observations as one array, or as a dict of arrays by name with their layout.

    Names are the keys of nested dicts, or places in tuples, joined by `.`. float64 becomes float32,
    as the policy sees it.

    Raises:
        UsageError: two names are equal.
    """
    if not isinstance(obs, Mapping | tuple):
        return _plain(obs), None
    parts: dict[str, Array] = {}

    def named(tree: Tree, name: str) -> Tree:
        if isinstance(tree, Mapping):
            return {key: named(each, f"{name}{key}.") for key, each in tree.items()}
        if isinstance(tree, tuple):
            return tuple(named(each, f"{name}{place}.") for place, each in enumerate(tree))
        name = name.removesuffix(".")
        if name in parts:
            raise UsageError(f"two parts of the observations have the name '{name}'")
        parts[name] = _plain(tree)
        return name

    layout = named(obs, "")
    return parts, layout


def _plain(leaf: Tree) -> Array:
    array: Array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _first_state(module: GreedyModule, obs: Tree) -> tuple[Array, ...]:
    """Returns the states before the first step, zeros [B, S]; none without a memory."""
    import torch

    with torch.no_grad():
        hidden = module.outputs(*tensors((obs,))).get("hidden")
    return () if hidden is None else (np.zeros(tuple(hidden.shape), np.float32),)


def _compared(
    form: Format, file: Path, module: GreedyModule, inputs: Inputs, acted: _Acted
) -> float:
    """Runs the file on all observations, and on one; returns the largest difference.

    A file with a memory is run step by step instead.

    Raises:
        UsageError: it selects other actions.
    """
    run, count = form.load(file), len(acted.actions)
    found, first, after = run(*inputs)[:count], *_split(run(*_rows(inputs, 0)), count)
    for name, one, each in zip(acted.actions, first, found, strict=True):
        wanted = acted.actions[name].shape
        if each.shape != wanted or one.shape != (1, *wanted[1:]):
            problem = f"{name}: the shape is {each.shape}, that of the policy {wanted}"
            raise _differs(file, form, problem)
    used = [_rows(inputs, row) for row in range(len(acted.first))]
    if after:
        steps = []
        for row, reset in enumerate(acted.first):
            if not reset:
                used[row] = (used[row][0], *after)
            step, after = _split(run(*used[row]), count)
            steps.append(step)
        found = tuple(np.concatenate(each) for each in zip(*steps, strict=True))
    differences = []
    for each, actions in zip(found, acted.actions.values(), strict=True):
        if actions.dtype.kind in "iub":
            problem = _odd_choices(module, used, each, actions)
        else:
            differences.append(float(np.abs(each - actions).max()))
            near = differences[-1] <= _TOLERANCE * max(1.0, float(np.abs(actions).max()))
            problem = "" if near else f"actions differ by up to {differences[-1]:.2g}"
        if problem:
            raise _differs(file, form, problem)
    return max(differences, default=0.0)


def _split(outputs: tuple[Array, ...], count: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Returns the parts of the actions, and the next state."""
    return outputs[:count], outputs[count:]


def _odd_choices(module: GreedyModule, used: Sequence[Inputs], found: Array, actions: Array) -> str:
    """Returns what is wrong with discrete actions; ties may be broken in any way."""
    odd = np.flatnonzero((found != actions).reshape(len(actions), -1).any(1)).tolist()
    wrong = [row for row in odd if not _is_tie(module, used[row])]
    if not wrong:
        return ""
    return f"{len(wrong)} of {len(actions)} actions differ, first in observation {wrong[0]}"


def _is_tie(module: GreedyModule, inputs: Inputs) -> bool:
    """Returns whether two actions are worth the same, up to rounding."""
    import torch

    with torch.no_grad():
        logit = module.outputs(*tensors(inputs))["logit"]
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


def _rows(inputs: Inputs, row: int) -> Inputs:
    """Returns one row of the inputs, with its axis."""
    obs, *state = inputs
    rows = slice(row, row + 1)
    one = {key: each[rows] for key, each in obs.items()} if isinstance(obs, Mapping) else obs[rows]
    return (one, *(each[rows] for each in state))


def _summary(error: Exception) -> str:
    """Returns the line of an error that says what is wrong; that of TorchScript is the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1 if "TorchScript" in lines[0] else 0] if lines else type(error).__name__
