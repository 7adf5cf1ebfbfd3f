"""A training that begins with what another run has learnt (`dicore train --from RUN`).

Taken are the networks with the statistics in them, the learnt temperature of maximum-entropy
policies, and what env wrappers have measured. Optimizers, counters and buffers begin anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Protocol

import numpy as np

from dicore.config import bind
from dicore.data import State, StateDict, Tree
from dicore.errors import UsageError
from dicore.interfaces.hook import LearnerHook
from dicore.interfaces.policy import LearnMode
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.random import seeded
from dicore.run.request import TrainRequest, compile_request, folder_name
from dicore.run.run import Run, Stateful
from dicore_tools.evaluation.env_states import EnvStates, fit
from dicore_tools.evaluation.policy_loader import PolicyState, saved

__all__ = ["FromRunHook", "begun_from", "taken"]


class _Learner(Protocol):
    """What is used of a learner."""

    policy: LearnMode
    run: Run | None


_log = logging.getLogger(__name__)
_OPTION = "policy.learn.learner.hook.from_run_before_run"
_SHOWN = 3


def begun_from(request: TrainRequest, run: str | Path) -> TrainRequest:
    """Returns a request for a training that begins with the policy of a run.

    Args:
        request: The training.
        run: Folder of a run, which gives its best checkpoint, or of one of its checkpoints.

    Raises:
        UsageError: a run is resumed, or a layer of the network does not fit.
        CheckpointError: the run has no valid checkpoint.
    """
    if request.resume is not None:
        raise UsageError(
            f"--from {run}: a resumed run has its own weights", hint="drop --from, or --resume"
        )
    if request.config is None and None in (request.env, request.policy):
        raise UsageError(
            f"--from {run}: not given what is trained",
            hint=f"as that run: dicore train {quote(str(Path(run, 'config.json')))} --from {run}",
        )
    source = _state_of(run)
    compiled = compile_request(request)
    folder = Path(folder_name(compiled, request)).resolve()
    if request.exist == "overwrite" and Path(run).resolve().is_relative_to(folder):
        raise UsageError(
            f"--from {run}: --exist overwrite would delete it",
            hint="name another folder: --exp-name",
        )
    spec = spec_of(compiled.env, compiled.seed)
    with seeded(compiled.seed):
        policy = bind(compiled, spec).policy.build(BuildContext(spec, seed=compiled.seed))
    taken(policy.learn_mode.state_dict(), source.policy, str(run))
    return replace(request, overrides=[*request.overrides, {_OPTION: str(Path(run).absolute())}])


class FromRunHook(LearnerHook):
    """Loads networks and statistics of another run before training.

    A resumed run restores its own instead.

    Args:
        name: Name in logs and messages.
        priority: Hooks with lower values run first.
        position: When the hook runs: `before_run`.
        run: Folder of the run, or of one of its checkpoints.
    """

    def __init__(
        self,
        name: str = "from_run",
        *,
        priority: int = 20,
        position: str = "before_run",
        run: str = "",
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self.run = run
        self._resumed = False

    @classmethod
    def from_value(cls, value: object, position: str) -> FromRunHook | None:
        """Creates the hook from the simple form; the value is the folder.

        Raises:
            TypeError: the value is not a path.
        """
        if value and not isinstance(value, str):
            raise TypeError("expected the folder of a run")
        return cls(position=position, run=str(value)) if value else None

    def resume(self, engine: object) -> None:
        """Loads nothing later: the learner has been restored."""
        self._resumed = True

    def __call__(self, engine: _Learner) -> None:
        """Loads the networks into the learner's policy.

        Raises:
            UsageError: a layer does not fit.
            CheckpointError: there is no valid checkpoint.
        """
        if not self.run or self._resumed:
            return
        source, mode = _state_of(self.run), engine.policy
        mode.load_state_dict(taken(mode.state_dict(), source.policy, self.run))
        if source.env_states and engine.run is not None:
            _go_on(engine.run.parts, source.env_states)


def taken(state: State, source: State, run: str) -> StateDict:
    """Returns the state of a learn mode with the networks of another one.

    Networks that follow the first, such as targets, get the same weights; those that follow a part
    of it, the weights that they have there.

    Args:
        state: State of the policy that is trained.
        source: State of the policy that gives its networks.
        run: Where that is from, for messages.

    Raises:
        UsageError: a layer is missing, too many, or has another shape.
    """
    own, theirs = dict(_leaves(state["model"])), dict(_leaves(source["model"]))
    problems = [*_differences(own, theirs)]
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise UsageError(
            f"--from {run}: another network: {'; '.join(problems[:_SHOWN])}{more}",
            hint="set policy.model as config.json of that run has it (dicore config show RUN);"
            " its environment needs the same spaces",
        )
    found = dict(state)
    for name, each in state.items():
        if isinstance(each, Mapping):
            leaves, other = dict(_leaves(each)), {}
            if leaves.keys() == own.keys():
                other = source["model"]
            elif _is_part(leaves, own):
                other = source.get(name, {})
            if other and not [*_differences(leaves, dict(_leaves(other)))]:
                found[name] = other
        elif name in source and _is_array(each) and np.shape(source[name]) == np.shape(each):
            found[name] = source[name]
    if "log_alpha" in state and "alpha" not in state.get("optimizers", ("alpha",)):
        found["log_alpha"] = state["log_alpha"]  # a temperature that is not learnt is the config's
    return found


def _is_part(leaves: Mapping[str, Tree], network: Mapping[str, Tree]) -> bool:
    """Returns whether all layers are, by name, those of one part of a network."""
    first = next(iter(leaves), None)
    ends = () if first is None else [path for path in network if path.endswith(f".{first}")]
    parts = [path.removesuffix(str(first)) for path in ends]
    return any(all(f"{part}{name}" in network for name in leaves) for part in parts)


def _state_of(run: str | Path) -> PolicyState:
    """Reads the best checkpoint of a run; its config, which may name code, is not read."""
    state = saved(run)[2]()
    if not isinstance(state.policy.get("model"), Mapping):
        raise UsageError(
            f"--from {run}: its policy has no one network",
            hint="begin from a run whose policy has the state `model`",
        )
    return state


def _go_on(parts: Mapping[str, Stateful], states: EnvStates) -> None:
    """Gives the environments of a training what those of another one have measured."""
    manager, evaluator = parts.get("collector_env"), parts.get("evaluator")
    stored = states.get("collector") or next(iter(states.values()))
    state: StateDict = {} if manager is None else dict(manager.state_dict())
    fresh = state.get("layers") or ()
    given = [stored[each % len(stored)] for each in range(len(fresh))]
    if manager is None or not given or not all(map(fit, fresh, given)):
        _log.warning(
            "the environments have other wrappers than those of the run to begin from: what they"
            " measure begins anew"
        )
        return
    running = state.get("running")
    if running is not None:  # episodes that have begun, with what was measured before them
        running = [{**each, "layers": one} for each, one in zip(running, given, strict=True)]
    manager.load_state_dict({**state, "layers": given, "running": running})
    own: StateDict = {} if evaluator is None else dict(evaluator.state_dict())
    env = own.get("env")
    if evaluator is not None and isinstance(env, Mapping) and "finished" in env:
        layers = [given[each % len(given)] for each in range(len(env["finished"]))]
        evaluator.load_state_dict({**own, "env": {**env, "layers": layers}})


def _differences(own: Mapping[str, Tree], theirs: Mapping[str, Tree]) -> Iterator[str]:
    """Yields how the layers of two networks differ."""
    for name in own:
        if name not in theirs:
            yield f"it has no layer {name} {[*np.shape(own[name])]}"
        elif np.shape(own[name]) != np.shape(theirs[name]):
            here, there = [*np.shape(own[name])], [*np.shape(theirs[name])]
            yield f"layer {name} is {there} there, {here} here"
    for name in theirs:
        if name not in own:
            yield f"its layer {name} {[*np.shape(theirs[name])]} is not here"


def _leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, Tree]]:
    """Yields path and array of each leaf of nested dicts; other values are left out."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif _is_array(tree):
        yield path, tree


def _is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
