"""Helpers of the checks of policies: building, acting, and samples for training.

Shapes: N environments, K of them ready, T steps, B rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, cast

import numpy as np

from dicore.config.checks import derived_options
from dicore.config.sections import PolicyConfig
from dicore.data import (
    Batch,
    Columns,
    EnvBatch,
    TimestepBatch,
    Tree,
    tree_map,
    tree_row,
    tree_stack,
)
from dicore.data.tree import loaded_torch
from dicore.errors import ConfigError, ContractError, ModeError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import CollectMode, EvalMode, IPolicy, LearnMode, Tail, facts_of
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.env_factory import BuildContext
from dicore.run.random import ambient_streams, seed_everything
from dicore.testing.compare import array
from dicore.testing.component import Component
from dicore.testing.policy.spaces import draw, pairs, teams
from dicore.testing.suite import Suite, expect, folder, skip

__all__ = [
    "MODES",
    "Played",
    "PolicyChecks",
    "leaves_of",
    "modes_of",
    "random_state",
    "restored",
    "results_of",
]

MODES: dict[str, Any] = {"learn": LearnMode, "collect": CollectMode, "eval": EvalMode}


@cache  # every check of a component asks; the config is compiled for each pair
def _accepted(component: Component) -> list[tuple[Any, ...]]:
    found, problem = _fitting(component, pairs())
    if not found:
        found, _ = _fitting(component, teams())
    if not found:
        raise problem or ConfigError("no space")
    return found


def _fitting(
    component: Component, offered: Iterator[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], ConfigError | None]:
    """Returns the spaces that fit a policy, and the last error of those that do not."""
    config, problem = cast(PolicyConfig, component.config()), None
    found: list[tuple[Any, ...]] = []
    for pair in offered:
        try:
            component.config(_bound(config, pair))
        except ConfigError as error:
            problem = error
        except Exception as error:
            raise ContractError(
                f"bind of {pair[0]} and {pair[1]} raised {type(error).__name__}: {error}; a policy"
                " that cannot act in these spaces raises ConfigError"
            ) from error
        else:
            found.append(pair)
            if type(config).bind is PolicyConfig.bind:
                break
    return found, problem


def _bound(policy: PolicyConfig, pair: tuple[Any, ...]) -> dict[str, object]:
    options: dict[str, Any] = {}
    for path, value in derived_options(policy, EnvSpec(*pair)).items():
        *above, name = path.split(".")
        section = options
        for key in above:
            section = section.setdefault(key, {})
        section[name] = value
    return options


class PolicyChecks(Suite):
    """Base class of the checks of policies."""

    collect_kwargs: Mapping[str, object] = {}
    """Keyword arguments of `collect_mode.forward`."""

    pair: tuple[Any, ...] | None = None
    """The arguments of `EnvSpec` to try; None: the first of `space_pairs`."""

    def space_pairs(self) -> list[tuple[Any, ...]]:
        """Returns the arguments of `EnvSpec` that the policy accepts, of those it is tried with.

        They are an observation and an action space; of teams, all arguments.

        A policy whose config has no `bind` of its own is tried with one pair.

        Raises:
            ConfigError: it accepts none.
        """
        return list(_accepted(self.registered))

    def spaces(self) -> tuple[Any, Any]:
        """Returns an observation and an action space that fit the policy."""
        if self.pair is None:  # finding them compiles the config for each
            self.pair = self.space_pairs()[0]
        return self.pair[0], self.pair[1]

    def spec(self) -> EnvSpec:
        """Returns the spaces that fit the policy, and what a team has besides."""
        spaces = self.spaces()  # maybe overridden
        found = EnvSpec(*spaces if self.pair is None else self.pair)
        return found if found.observation is spaces[0] else EnvSpec(*spaces)

    def others(self) -> Iterator[tuple[str, Self]]:
        """Yields a suite for each further pair of spaces, and what the pair is."""
        one = self.component is None and type(self).space_pairs is PolicyChecks.space_pairs
        for pair in () if one else self.space_pairs()[1:]:
            each = type(self)()
            each.pair = pair
            yield f"{pair[0]} and {pair[1]}", each

    def bound(self, pair: tuple[Any, ...]) -> dict[str, object]:
        """Returns the options that the config derives from spaces, nested."""
        return _bound(cast(PolicyConfig, self.registered.config()), pair)

    def make(self, enable_field: Sequence[str] | None = None) -> Any:
        """Returns a policy (`IPolicy`) for `spaces`, always with the same parameters."""
        spec = self.spec()
        given = (spec.observation, spec.action, spec.reward, spec.state, spec.agents)
        options = self.bound(given)
        parts = {} if enable_field is None else {"enable_field": enable_field}
        if loaded_torch() is None:  # whoever imports torch first also seeds it first
            self.registered.build(options, ctx=BuildContext(spec), **parts)
        seed_everything(0)
        return self.registered.build(options, ctx=BuildContext(spec), **parts)

    def learner(self) -> Any:
        policy = self.make()
        try:
            policy.learn_mode  # noqa: B018 - asking is how one finds out
        except ModeError:
            skip("it does not learn")
        return policy

    def obs(self, count: int, ids: Sequence[int] | None = None) -> EnvBatch[Any]:
        obs = draw(self.spaces()[0], count, np.random.default_rng(count))
        return EnvBatch(np.arange(count) if ids is None else np.array(ids, np.int64), obs)

    def act(self, policy: IPolicy, name: str, obs: EnvBatch[Tree]) -> Tree:
        mode = getattr(policy, f"{name}_mode")
        return mode.forward(obs, **(self.collect_kwargs if name == "collect" else {}))

    def transition(
        self,
        policy: Any,
        count: int,
        obs: Tree = None,
        after: Any = None,
        ends: Any = None,
        *,
        gain: float = 0.0,
    ) -> dict[str, Any]:
        """One step: the first environment terminates, the second is truncated.

        Args:
            policy: The policy that acts.
            count: Number of environments.
            obs: Their observations; None: drawn.
            after: Their next observations; None: drawn.
            ends: Environments whose episode ends, in this order; None: the first two.
            gain: What is added to their rewards, -1 to 1.
        """
        seen = self.obs(count) if obs is None else EnvBatch(np.arange(count), obs)
        output = EnvBatch.of(self.act(policy, "collect", seen))
        terminated, truncated = np.zeros((2, count), np.bool_)
        for env in (0, 1) if ends is None else ends:
            (truncated if env else terminated)[env : env + 1] = True
        reward = np.linspace(-1, 1, count, dtype=np.float32) + np.float32(gain)
        reward = reward.reshape(-1, *(1,) * len(shape := self.spec().reward_shape))
        reward = np.broadcast_to(reward, (count, *shape)).copy()
        later = self.obs(count).value if after is None else after
        step = TimestepBatch(later, reward, terminated, truncated, [{} for _ in range(count)])
        columns: dict[str, object] = policy.collect_mode.process_transition(
            seen.value, output.value, step
        )
        return columns

    def played(self, policy: Any, num_envs: int = 4, gain: float = 0.0) -> Played:
        """Steps of environments, the first two of which end an episode in every step.

        With `sample_len` "episode" it is one episode of one environment, which terminates. `gain`
        is added to each reward.
        """
        length, stride = facts_of(policy.collect_mode)[:2]
        whole = length == "episode"
        if length == "episode":
            num_envs, steps, starts = 1, 6, 6
        else:
            starts = stride * max(2, 1 + 7 // stride)
            steps = length + starts - stride
        states = [self.obs(num_envs + t).value for t in range(steps + 1)]
        states = [tree_row(state, slice(0, num_envs)) for state in states]
        finals = [tree_row(self.obs(num_envs + 50 + t).value, slice(0, 2)) for t in range(steps)]
        ended = [(steps - 1, 0)] if whole else [(t, env) for t in range(steps) for env in (0, 1)]
        rows = []
        for t in range(steps):
            after = tree_map(np.copy, states[t + 1])
            ends = [env for step, env in ended if step == t and env < num_envs]
            for env in ends:
                tree_map(lambda to, value, i=env: to.__setitem__(i, value[i]), after, finals[t])
            rows.append(self.transition(policy, num_envs, states[t], after, ends, gain=gain))
        columns: dict[str, Tree] = tree_stack([tree_map(array, row) for row in rows])
        columns["end"] = np.zeros((steps, num_envs), np.bool_)
        for t, env in ended:
            columns["end"][t, env] = True
        columns["valid"] = np.ones((steps, num_envs), np.bool_)
        columns["env_id"] = np.tile(np.arange(num_envs), (steps, 1))
        last = {(t, env): tree_row(finals[t], env) for t, env in ended}
        return Played(Batch(columns, steps), states, last, starts)

    def block(self, policy: IPolicy, num_envs: int = 4) -> tuple[Batch, Tail]:
        """The block of `played`, and its tail."""
        return self.played(policy, num_envs).part()

    def samples(self, policy: IPolicy) -> Batch:
        """The samples of `block`; with it, those of the other episodes of a collect.

        The latter if the policy learns on-policy from whole episodes; each has another return.
        """
        mode, facts = policy.collect_mode, facts_of(policy.collect_mode)
        samples: Batch = mode.get_train_sample(*self.block(policy))
        if not facts.on_policy or facts.sample_len != "episode":
            return samples
        parts = [samples]
        for gain in range(1, facts.n_episode or 1):
            mode.reset([0])
            parts.append(mode.get_train_sample(*self.played(policy, gain=gain).part()))
        return Batch.concat(parts)


@dataclass(frozen=True)
class Played:
    """Steps of N environments.

    Args:
        columns: [T, N, ...].
        states: T + 1 observations [N, ...]; those before each step and after the last one.
        finals: Last observations of the episodes that end, by step and environment.
        starts: Rows at which samples begin.
    """

    columns: Batch
    states: list[Any]
    finals: dict[tuple[int, int], Any]
    starts: int

    def part(
        self, first: int = 0, rows: int | None = None, starts: int = 0, envs: slice = slice(None)
    ) -> tuple[Batch, Tail]:
        """Returns `rows` rows from `first` on as a block of its own, and its tail."""
        total, num_envs = self.columns["end"].shape
        rows = total - first if rows is None else rows
        chosen = range(num_envs)[envs]
        block = tree_map(lambda leaf: leaf[first : first + rows, envs].copy(), self.columns.columns)
        ended = [(t, env) for t, env in self.finals if env in chosen and first <= t < first + rows]
        index = [(t - first) * len(chosen) + chosen.index(env) for t, env in ended]
        obs = tree_row(self.states[first + rows], envs)
        final = (
            tree_stack([self.finals[each] for each in ended])
            if ended
            else tree_map(lambda leaf: leaf[:0], obs)
        )
        tail = Tail(obs, np.array(index, np.int64), final, starts or self.starts)
        return Batch(block, rows), tail


def modes_of(policy: IPolicy) -> dict[str, Any]:
    """Returns the modes of a policy with default `enable_field`."""
    found = {}
    for name in MODES:
        try:
            found[name] = getattr(policy, f"{name}_mode")
        except ModeError:
            expect(name == "learn", f"a policy needs its {name}_mode")
    return found


def results_of(output: Tree) -> list[Columns]:
    """Returns a list of the results of each update."""
    return output if isinstance(output, list) else [output]


def leaves_of(tree: object, path: str) -> list[tuple[str, Tree]]:
    """Returns every leaf of nested data with its path."""
    if isinstance(tree, Mapping):
        return [each for key, value in tree.items() for each in leaves_of(value, f"{path}.{key}")]
    if isinstance(tree, list | tuple):
        return [each for i, value in enumerate(tree) for each in leaves_of(value, f"{path}[{i}]")]
    return [(path.lstrip("."), tree)]


def restored(state: Any) -> Tree:
    """Returns a copy of a state, as loaded from a checkpoint."""
    with folder() as place:
        write_state(place / "state", state)
        return read_state(place / "state")


def random_state() -> dict[str, object]:
    """Returns the states of all random number generators of the process."""
    torch = loaded_torch()
    return {
        "streams": ambient_streams().state_dict(),
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - to see whether it is used
        "torch": torch.get_rng_state() if torch is not None else None,
    }
