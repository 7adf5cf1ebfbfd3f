"""Suites of policies of teams with a memory, and blocks that they acted in."""

from __future__ import annotations

from functools import wraps
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from dicore.config import bind, compile_config
from dicore.data import Batch, tree_map
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import Tail
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything
from dicore.testing.component import Component
from dicore.testing.policy import PolicyContract
from dicore.testing.policy.spaces import teams
from dicore_registry import default
from tests.agents.policies.actor_critic.games import Mortals


def component(name: str) -> Component:
    """Returns a policy under test."""
    return Component(default().find("policy", name), default())


@pytest.mark.usefixtures("hints_are_kept")
class Remembering(PolicyContract):
    """Suite of a policy of teams with a memory; a subclass sets `component`.

    With `half`, 0 or 1, it makes every second check; all in a soak. Their code is that of base
    classes, so that another subclass makes the others.
    """

    collect: ClassVar[dict[str, int]] = {"unroll_len": 3}

    def __init_subclass__(cls, *, half: int | None = None) -> None:
        names = sorted(name for name in dir(cls) if name.startswith("test_") and getattr(cls, name))
        for name in () if half is None else names[1 - half :: 2]:
            setattr(cls, name, _of_a_soak(getattr(cls, name)))

    def bound(self, pair: tuple[Any, ...]) -> dict[str, object]:
        """Returns the options of the spaces, with a recurrent layer."""
        found: dict[str, Any] = super().bound(pair)
        return {**found, "model": {**found["model"], "rnn": "gru"}, "collect": self.collect}


def _of_a_soak(inherited: Any) -> Any:
    """Returns a check that pytest runs in a soak alone; other checks may call it."""

    @pytest.mark.soak
    @wraps(inherited)
    def check(self: PolicyContract) -> None:
        inherited(self)

    return check


class TwoGroups(PolicyContract):
    """Suite of `groups`: one agent, and the others."""

    component = component("groups")

    def space_pairs(self) -> list[tuple[Any, ...]]:
        """Returns what `EnvSpec` takes of three agents, one of whom may die."""
        spec = EnvSpec.of(Mortals())
        return [(spec.observation, spec.action, spec.reward, spec.state, spec.agents)]

    def bound(self, pair: tuple[Any, ...]) -> dict[str, object]:
        """Returns the options of the spaces, with a policy for each group."""
        found: dict[str, Any] = {
            "agents": {"first": [pair[4][0]], "rest": [*pair[4][1:]]},
            "groups": {"first": {"type": "ippo"}, "rest": {"type": "mappo"}},
        }
        return bound_too(self.registered, found, pair)


class Collaborating(PolicyContract):
    """Suite of `collaq`: of what agents see, two numbers tell of the two others."""

    component = component("collaq")
    model: ClassVar[dict[str, Any]] = {"others": [[1, 2], [2, 3]]}
    collect: ClassVar[dict[str, int]] = {}

    def space_pairs(self) -> list[tuple[Any, ...]]:
        """Returns what `EnvSpec` takes of teams with discrete actions."""
        return [each for each in teams() if type(each[1]).__name__ == "MultiDiscrete"]

    def bound(self, pair: tuple[Any, ...]) -> dict[str, object]:
        """Returns the options of the spaces, and which numbers tell of others."""
        found = {"model": {"type": "collaq", **self.model}, "collect": {**self.collect}}
        return bound_too(self.registered, found, pair)


def bound_too(
    registered: Component, options: dict[str, Any], pair: tuple[Any, ...]
) -> dict[str, Any]:
    """Returns options, nested, with those that are derived from spaces."""
    policy: Any = registered.config(options)
    for path, value in policy.bind(EnvSpec(*pair)).items():
        *above, name = path.split(".")
        section = options
        for key in above:
            section = section.setdefault(key, {})
        section[name] = value
    return options


def made(name: str, env: Any, **options: Any) -> Any:
    """Returns a policy for an environment."""
    spec = EnvSpec.of(env)
    cfg = compile_config({"env": {"type": "cartpole"}, "policy": {"type": name, **options}})
    seed_everything(0)
    return bind(cfg, spec).cfg.policy.build(BuildContext(spec))


def played(policy: Any, env_class: Any, steps: int, envs: int = 3) -> tuple[Batch, Tail, Any]:
    """Plays environments that are out of step.

    Returns:
        The block that the policy acted in, its tail, and the observations after each step.
    """
    games = [env_class() for _ in range(envs)]
    policy.collect_mode.reset()
    obs = [game.reset(seed=number)[0] for number, game in enumerate(games)]
    rows, finals, at, after = [], [], [], []
    for t in range(steps):
        seen = {key: np.stack([each[key] for each in obs]) for key in obs[0]}
        output = policy.collect_mode.forward(dict(enumerate(obs))).value
        results = [game.step(output["action"][n]) for n, game in enumerate(games)]
        done = np.array([each[2] for each in results])
        rows.append({
            "obs": seen, **output, "reward": np.stack([each[1] for each in results]),
            "done": done, "end": done,
        })  # fmt: skip
        after.append([each[0] for each in results])
        obs = [each[0] for each in results]
        for n in np.flatnonzero(done).tolist():
            at.append(t * envs + n)
            finals.append(obs[n])
            obs[n] = games[n].reset()[0]
        policy.collect_mode.reset(np.flatnonzero(done).tolist())
    columns: dict[str, Any] = _stacked(
        [{key: each for key, each in row.items() if key != "hidden"} for row in rows]
    )
    columns["valid"] = np.ones((steps, envs), np.bool_)
    columns["env_id"] = np.tile(np.arange(envs), (steps, 1))
    tail = Tail(_stacked(obs), np.array(at), _stacked(finals), steps)
    return Batch(columns, steps), tail, after


def by_steps(policy: Any, batch: Any, index: int) -> tuple[Any, Any]:
    """Returns what one sequence remembers, by single steps: in each of them, and after it."""
    model = policy.get_attribute("model")
    hidden = batch["prev_state"][index][None]
    now, later = [], []
    with torch.no_grad():
        for t in range(batch["end"].shape[1]):
            obs, after = (
                tree_map(lambda leaf, t=t: leaf[index, t][None], batch[key])
                for key in ("obs", "next_obs")
            )
            memory, hidden = model.remember(obs, hidden)
            now.append(memory[0])
            later.append(model.remember(after, hidden)[0][0])
            if batch["end"][index, t]:
                hidden = torch.zeros_like(hidden)
    return now, later


def _stacked(rows: Any) -> Any:
    if not isinstance(rows[0], dict):
        return np.stack(rows)
    return {key: _stacked([each[key] for each in rows]) for key in rows[0]}
