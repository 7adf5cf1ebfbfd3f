"""Helpers of the checks of policies: building, acting, and samples for training.

Shapes: N environments, K of them ready, T steps, B rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicore.data import Batch, EnvBatch, TimestepBatch, tree_map, tree_row, tree_stack
from dicore.data.tree import loaded_torch
from dicore.errors import ConfigError, ModeError
from dicore.interfaces.policy import CollectMode, EvalMode, LearnMode, Tail
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.env_factory import BuildContext
from dicore.run.random import ambient_streams, seed_everything
from dicore.testing.compare import array
from dicore.testing.suite import Suite, expect, folder, skip

__all__ = [
    "MODES",
    "PolicyChecks",
    "leaves_of",
    "modes_of",
    "random_state",
    "restored",
    "results_of",
]

MODES: dict[str, Any] = {"learn": LearnMode, "collect": CollectMode, "eval": EvalMode}


class PolicyChecks(Suite):
    """Base class of the checks of policies."""

    collect_kwargs: Mapping[str, Any] = {}
    """Keyword arguments of `collect_mode.forward`."""

    def spaces(self) -> tuple[Any, Any]:
        """Returns an observation and an action space that fit the policy."""
        from gymnasium.spaces import Box, Discrete

        observation_space = Box(-1.0, 1.0, (4,), np.float32)
        problem: Exception | None = None
        for action_space in (Discrete(3), Box(-1.0, 1.0, (2,), np.float32)):
            try:
                self.registered.config().bind(observation_space, action_space)  # type: ignore[attr-defined]
            except ConfigError as error:
                problem = error
            else:
                return observation_space, action_space
        raise problem or ConfigError("no space")

    def make(self, enable_field: Sequence[str] | None = None) -> Any:
        """Returns a policy (`IPolicy`) for `spaces`, always with the same parameters."""
        seed_everything(0)
        spaces = self.spaces()
        options: dict[str, Any] = {}
        for path, value in self.registered.config().bind(*spaces).items():  # type: ignore[attr-defined]
            *above, name = path.split(".")
            section = options
            for key in above:
                section = section.setdefault(key, {})
            section[name] = value
        parts = {} if enable_field is None else {"enable_field": enable_field}
        return self.registered.build(options, ctx=BuildContext(*spaces), **parts)

    def learner(self) -> Any:
        policy = self.make()
        try:
            policy.learn_mode  # noqa: B018 - asking is how one finds out
        except ModeError:
            skip("it does not learn")
        return policy

    def obs(self, count: int, ids: Sequence[int] | None = None) -> EnvBatch[Any]:
        space, _ = self.spaces()
        rng = np.random.default_rng(count)
        obs = rng.uniform(-1, 1, (count, *space.shape)).astype(space.dtype)
        return EnvBatch(np.arange(count) if ids is None else np.array(ids, np.int64), obs)

    def act(self, policy: Any, name: str, obs: EnvBatch[Any]) -> Any:
        mode = getattr(policy, f"{name}_mode")
        return mode.forward(obs, **(self.collect_kwargs if name == "collect" else {}))

    def transition(
        self, policy: Any, count: int, obs: Any = None, after: Any = None
    ) -> dict[str, Any]:
        """One step: the first environment terminates, the second is truncated."""
        seen = self.obs(count) if obs is None else EnvBatch(np.arange(count), obs)
        output = EnvBatch.of(self.act(policy, "collect", seen))
        terminated, truncated = np.zeros((2, count), np.bool_)
        terminated[0] = truncated[1] = True
        reward = np.linspace(-1, 1, count, dtype=np.float32)
        later = self.obs(count).value if after is None else after
        step = TimestepBatch(later, reward, terminated, truncated, [{} for _ in range(count)])
        columns: dict[str, Any] = policy.collect_mode.process_transition(
            seen.value, output.value, step
        )
        return columns

    def block(self, policy: Any, num_envs: int = 4) -> tuple[Batch, Tail]:
        """Steps of environments, the first two of which end an episode in every step.

        With `sample_len` "episode" it is one step of one environment.
        """
        get = policy.collect_mode.get_attribute
        length, stride = (
            fact(get, "sample_len", fact(get, "nstep", 1)),
            fact(get, "sample_stride", 1),
        )
        if length == "episode":
            num_envs = length = stride = steps = 1
        else:
            steps = length + stride * (7 // stride)
        states = [self.obs(num_envs + t).value for t in range(steps + 1)]
        states = [tree_row(state, slice(0, num_envs)) for state in states]
        finals = [self.obs(num_envs + 50 + t).value for t in range(steps)]
        rows = []
        for t in range(steps):
            after = tree_map(np.copy, states[t + 1])
            for env in range(min(2, num_envs)):
                tree_map(lambda to, value, i=env: to.__setitem__(i, value[i]), after, finals[t])
            rows.append(self.transition(policy, num_envs, states[t], after))
        columns: dict[str, Any] = tree_stack([tree_map(array, row) for row in rows])
        columns["end"] = np.tile(np.arange(num_envs) < 2, (steps, 1))
        columns["valid"] = np.ones((steps, num_envs), np.bool_)
        columns["env_id"] = np.tile(np.arange(num_envs), (steps, 1))
        ended = [(t, env) for t in range(steps) for env in range(min(2, num_envs))]
        tail = Tail(
            states[-1],
            np.array([t * num_envs + env for t, env in ended], np.int64),
            tree_stack([tree_row(finals[t], env) for t, env in ended]),
            steps - (length - stride),
        )
        return Batch(columns, steps), tail

    def samples(self, policy: Any) -> Batch:
        """The samples of `block`."""
        samples: Batch = policy.collect_mode.get_train_sample(*self.block(policy))
        return samples


def fact(get_attribute: Any, name: str, default: Any) -> Any:
    """Returns an attribute of a mode, or `default` if it has none of this name."""
    try:
        return get_attribute(name)
    except (AttributeError, KeyError):
        return default


def modes_of(policy: Any) -> dict[str, Any]:
    """Returns the modes of a policy with default `enable_field`."""
    found = {}
    for name in MODES:
        try:
            found[name] = getattr(policy, f"{name}_mode")
        except ModeError:
            expect(name == "learn", f"a policy needs its {name}_mode")
    return found


def results_of(output: Any) -> list[dict[str, Any]]:
    """Returns a list of the results of each update."""
    return output if isinstance(output, list) else [output]


def leaves_of(tree: Any, path: str) -> list[tuple[str, Any]]:
    """Returns every leaf of nested data with its path."""
    if isinstance(tree, Mapping):
        return [each for key, value in tree.items() for each in leaves_of(value, f"{path}.{key}")]
    if isinstance(tree, list | tuple):
        return [each for i, value in enumerate(tree) for each in leaves_of(value, f"{path}[{i}]")]
    return [(path.lstrip("."), tree)]


def restored(state: Any) -> Any:
    """Returns a copy of a state, as loaded from a checkpoint."""
    with folder() as place:
        write_state(place / "state", state)
        return read_state(place / "state")


def random_state() -> dict[str, Any]:
    """Returns the states of all random number generators of the process."""
    torch = loaded_torch()
    return {
        "streams": ambient_streams().state_dict(),
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - to see whether it is used
        "torch": torch.get_rng_state() if torch is not None else None,
    }
