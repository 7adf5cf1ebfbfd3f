"""Two policies in one environment (self-play, leagues): modes that act for both sides.

The environment has two agents: observations [2, ...] (of each leaf), actions [2, ...], rewards [2].

Shapes: K ready environments, T steps, N environments, `...` one item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dicore.data import Batch, Columns, EnvBatch, State, StateDict, TimestepBatch, Tree, tree_map
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import CollectMode, EvalMode, Tail, facts_of
from dicore_plugins.collectors.base import chosen_actions
from dicore_plugins.collectors.block import obs_changed
from dicore_plugins.policies.base import mode_attribute

__all__ = ["SIDES", "are_two", "joint_collect_mode", "joint_eval_mode", "sides_of"]

SIDES = ("side_0", "side_1")
"""Columns that hold what belongs to each side."""

Samples = Callable[[Any, Batch, Tail], Any]
"""Makes samples of a side's block: (collect mode, block, tail) -> samples."""


def are_two(policy: object) -> bool:
    """Returns whether a collector or evaluator was given a policy for each side.

    Raises:
        UsageError: it is a list of another length.
    """
    if not isinstance(policy, list | tuple) or hasattr(policy, "_fields"):
        return False
    if len(policy) != 2:
        raise UsageError(f"a battle has 2 policies, got {len(policy)}", hint="pass [one, other]")
    return True


def sides_of(batch: Batch) -> tuple[Batch, Batch]:
    """Returns the samples of each side, with the columns that both share."""
    shared = {key: each for key, each in batch.items() if key not in SIDES}
    one, other = (Batch({**batch[side], **shared}, len(batch)) for side in SIDES)
    return one, other


def joint_eval_mode(modes: Sequence[CollectMode]) -> EvalMode:
    """Returns an eval mode that acts by one mode for each side."""
    functions = _Joint(modes)
    return EvalMode(
        forward=functions.forward,
        reset=functions.reset,
        get_attribute=functions.get_attribute,
        set_attribute=functions.set_attribute,
        state_dict=functions.state_dict,
        load_state_dict=functions.load_state_dict,
    )


def joint_collect_mode(modes: Sequence[CollectMode], make: Samples | None = None) -> CollectMode:
    """Returns a collect mode that acts by one mode for each side.

    Args:
        modes: Two collect modes, whose samples bridge the same rows.
        make: Makes the samples of a side; None: its `get_train_sample`.

    Raises:
        UsageError: the samples of the modes bridge different rows.
    """
    both = [facts_of(mode) for mode in modes]
    for name in ("sample_len", "sample_stride"):
        one, other = (getattr(facts, name) for facts in both)
        if one != other:
            raise UsageError(
                f"the samples of the two policies have {name} {one!r} and {other!r}",
                hint="give both the same nstep, unroll_len and traj_len_inf",
            )
    functions = _Joint(modes, make)
    return CollectMode(
        forward=functions.forward,
        process_transition=functions.process_transition,
        get_train_sample=functions.get_train_sample,
        reset=functions.reset,
        get_attribute=functions.get_attribute,
        set_attribute=functions.set_attribute,
        state_dict=functions.state_dict,
        load_state_dict=functions.load_state_dict,
    )


class _Joint:
    """The functions of a mode that acts for both sides."""

    def __init__(self, modes: Sequence[CollectMode], make: Samples | None = None) -> None:
        self._modes = tuple(modes)
        self._make = (lambda mode, *rows: mode.get_train_sample(*rows)) if make is None else make
        self._changed = [False, False]

    def forward(self, obs: EnvBatch[Tree], **kwargs: object) -> EnvBatch[Any]:
        """Acts for both sides: `action` [K, 2, ...], and the output of each side."""
        found = []
        for index, mode in enumerate(self._modes):
            seen = EnvBatch(obs.env_id, _side(obs.value, index))
            found.append(chosen_actions(seen, mode.forward(seen, **kwargs)).value)
        action = tree_map(lambda *both: np.stack(both, 1), *(each["action"] for each in found))
        return EnvBatch(obs.env_id, {"action": action, **dict(zip(SIDES, found, strict=True))})

    def process_transition(
        self, obs: Tree, output: Tree, timestep: TimestepBatch
    ) -> dict[str, Any]:
        """Selects the columns of each side."""
        columns: Columns = {}
        for index, (name, mode) in enumerate(zip(SIDES, self._modes, strict=True)):
            seen = _side(obs, index)
            columns[name] = dict(
                mode.process_transition(seen, output[name], _timestep(timestep, index))
            )
            self._changed[index] = self._changed[index] or obs_changed(columns[name], seen)
        return columns

    def get_train_sample(self, block: Batch, tail: Tail) -> Batch:
        """Makes the samples of each side, which are equally many."""
        shared = {key: each for key, each in block.items() if key not in SIDES}
        made = []
        for index, (name, mode) in enumerate(zip(SIDES, self._modes, strict=True)):
            rows = Batch({**block[name], **shared}, len(block))
            after = tail._replace(
                obs=_side(tail.obs, index),
                final_obs=_side(tail.final_obs, index) if len(tail.final_index) else tail.final_obs,
                changed=self._changed[index],
            )
            made.append(self._make(mode, rows, after))
        one, other = made
        if len(one) != len(other):
            raise SchemaError(
                f"the policies of the two sides made {len(one)} and {len(other)} samples of the"
                " same steps",
                hint="collect for each side with policies whose samples bridge the same rows",
            )
        marks = {key: one[key] for key in ("end", "env_id") if key in one}
        parts = {name: {key: each for key, each in rows.items() if key not in marks}
                 for name, rows in zip(SIDES, made, strict=True)}  # fmt: skip
        return Batch({**parts, **marks}, len(one))

    def reset(self, data_id: Sequence[int] | None = None) -> None:
        """Clears the memory of running episodes of both."""
        for mode in self._modes:
            mode.reset(data_id)

    def get_attribute(self, name: str) -> Any:
        """Returns an attribute of the first mode; the memory of running episodes of both."""
        if name == "collect_state":
            return {
                side: mode_attribute(mode, name, None)
                for side, mode in zip(SIDES, self._modes, strict=True)
            }
        return self._modes[0].get_attribute(name)

    def set_attribute(self, name: str, value: Tree) -> None:
        """Sets an attribute of both modes; each its own memory."""
        for side, mode in zip(SIDES, self._modes, strict=True):
            if name != "collect_state":
                mode.set_attribute(name, value)
            elif value[side] is not None:
                mode.set_attribute(name, value[side])

    def state_dict(self) -> StateDict:
        """Returns the states of both."""
        return {side: mode.state_dict() for side, mode in zip(SIDES, self._modes, strict=True)}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        for side, mode in zip(SIDES, self._modes, strict=True):
            mode.load_state_dict(state[side])


def _side(tree: Tree, index: int) -> Tree:
    """Returns what belongs to one agent, of arrays [K, 2, ...]."""

    def part(leaf: Tree) -> Tree:
        if leaf.ndim < 2 or leaf.shape[1] != 2:
            raise SchemaError(
                f"a battle needs observations of two agents [2, ...], got {[*leaf.shape[1:]]}",
                hint="stack the observations of both agents in the environment",
            )
        return leaf[:, index]

    return tree_map(part, tree)


def _timestep(timestep: TimestepBatch, index: int) -> TimestepBatch:
    if timestep.reward.ndim < 2:
        raise SchemaError(
            "a battle needs a reward for each of two agents, got one for both",
            hint="return rewards [2] in the environment (reward_space)",
        )
    return TimestepBatch(
        _side(timestep.obs, index), timestep.reward[:, index], timestep.terminated,
        timestep.truncated, timestep.info, timestep.abnormal,
    )  # fmt: skip
