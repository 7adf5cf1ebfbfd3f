"""Returns of a team go on when an agent has left; own returns end there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from tests.agents.policies.absences import AllLeave, HeroLeaves, LongPause, learned_return
from tests.agents.policies.actor_critic.games import drawn, made, team_spec

T, N, A = 12, 3, 2
ENDS = {(4, 0): True, (7, 1): True, (5, 2): False}
"""Last steps of episodes, and whether they terminate."""


class Sacrifice(gymnasium.Env[Any, Any]):
    """An agent may leave for good: it then forgoes 0.1, and the other is paid 1 a step later."""

    agent_ids = ("hero", "other")
    observation_space: Any = Dict(obs=Box(0, 1, (2, 3), np.float32), alive=MultiBinary(2))
    action_space: Any = MultiDiscrete([2, 2])
    reward_space: Any = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.steps, self.gone = 0, False
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        reward = np.zeros(2, np.float32)
        if self.steps == 0:
            self.gone = bool(action[0] == 1)
            reward[0] = 0.0 if self.gone else 0.1
        elif self.gone:
            reward[1] = 1.0
        self.steps += 1
        return self._seen(), reward, self.steps == 2, False, {}

    def _seen(self) -> Any:
        over = self.steps == 2
        alive = np.array([not (self.gone or over), not over], np.int8)
        rows = np.zeros((2, 3), np.float32)
        rows[:, self.steps] = alive
        return {"obs": rows, "alive": alive}


class SacrificeOfTeam(Sacrifice):
    """The same, with one reward for the team."""

    reward_space: Any = Box(-1, 1, (), np.float32)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        obs, reward, *more = super().step(action)
        return obs, float(reward.sum()), *more


RATE = "policy.learn.learning_rate=0.01"
MEMORY = ("policy.model.rnn=gru", "policy.collect.unroll_len=2", "policy.collect.n_sample=16",
          "policy.model.hidden_size_list=[16]")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "env", "more"),
    [
        ("happo", Sacrifice, ()),
        ("coma", Sacrifice, ()),
        ("mappo", SacrificeOfTeam, ()),
        ("mappo", SacrificeOfTeam, MEMORY),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in (
            ("happo", SacrificeOfTeam, ()), ("coma", SacrificeOfTeam, ()),
            ("ippo", SacrificeOfTeam, ()), ("happo", Sacrifice, MEMORY),
            ("coma", Sacrifice, MEMORY),
        )),
    ],
)  # fmt: skip
def test_an_agent_leaves_for_what_the_team_earns_later(
    name: str, env: type[Any], more: tuple[str, ...], tmp_path: Path
) -> None:
    assert learned_return(name, env, tmp_path / "run", 600, RATE, *more) == 1


@pytest.mark.parametrize(
    ("name", "env", "more"),
    [
        ("mappo", LongPause, ()), ("happo", LongPause, ()), ("coma", LongPause, ()),
        ("ippo", AllLeave, ()),
        ("mappo", LongPause, ("policy.collect.n_sample=8", "policy.learn.adv_norm=false",
                              "policy.learn.learning_rate=0.003")),
        ("mappo", LongPause, (*MEMORY, "policy.collect.unroll_len=4", "policy.collect.n_sample=8")),
    ],
)  # fmt: skip
@pytest.mark.soak
def test_what_is_paid_while_nobody_acts_is_learned_of_parts_of_episodes(
    name: str, env: type[Any], more: tuple[str, ...], tmp_path: Path
) -> None:
    """The critic knows what a block of four steps does not show."""
    explore = ("policy.learn.learning_rate=0.005", "policy.learn.entropy_weight=0.1")
    assert learned_return(name, env, tmp_path / "run", 6000, *explore, *more) == 1


EXPLORE = "learn.entropy_weight=0.05"


@pytest.mark.parametrize(
    ("kind", "env", "option"),
    [
        ("mappo", HeroLeaves, EXPLORE), ("vdn", HeroLeaves, "nstep=1"),
        ("qmix", SacrificeOfTeam, "nstep=1"),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in (
            *((name, HeroLeaves, EXPLORE) for name in ("ippo", "happo", "coma")),
            ("independent_q", HeroLeaves, "nstep=1"), ("qplex", SacrificeOfTeam, "nstep=1"),
            ("vdn", HeroLeaves, "nstep=3"), ("masac", HeroLeaves, "learn.batch_size=64"),
        )),
    ],
)  # fmt: skip
def test_a_group_leaves_for_what_all_are_paid_later(
    kind: str, env: type[Any], option: str, tmp_path: Path
) -> None:
    """The episode goes on for a group that has left, if one number pays all."""
    more = (f"policy.groups={{'a': '{kind}', 'b': '{kind}'}}",
            "policy.agents={'a': ['hero'], 'b': ['other']}",
            *(f"policy.groups.{name}.{each}" for name in "ab"
              for each in ("learn.learning_rate=0.01", option)))  # fmt: skip
    assert learned_return("groups", env, tmp_path / "run", 2500, *more) == 1


def played(shape: tuple[int, ...], alive: Any = None) -> tuple[Batch, Tail, Any]:
    """A block whose episodes end by `ENDS`, the tail, and who acts after each step.

    Agents leave and come back; in steps 2 and 3 of environment 2 nobody acts.
    """
    rng = np.random.default_rng(1)
    rows = [drawn(team_spec(alive=MultiBinary(A)), N, seed) for seed in range(T + 1)]
    if alive is None:
        alive = (rng.random((T + 1, N, A)) < 0.7).astype(np.int8)
        alive[2:4, 2] = 0
        alive[0] = 1
    obs = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    obs["alive"] = alive
    end, done = np.zeros((T, N), np.bool_), np.zeros((T, N), np.bool_)
    later = alive[1:].copy()
    finals = drawn(team_spec(alive=MultiBinary(A)), len(ENDS), 99)
    index = sorted(step * N + env for step, env in ENDS)
    for (step, env), over in ENDS.items():
        end[step, env], done[step, env] = True, over
        finals["alive"][index.index(step * N + env)] = later[step, env] = [0, 0] if over else [1, 0]
    columns = {
        "obs": {key: each[:-1] for key, each in obs.items()},
        "action": rng.integers(0, 3, (T, N, A)),
        "logit": rng.standard_normal((T, N, A, 3)).astype(np.float32),
        "reward": rng.standard_normal((T, N, *shape)).astype(np.float32),
    }
    last = {key: each[-1] for key, each in obs.items()}
    block = Batch({**columns, "done": done, "end": end}, T)
    return block, Tail(last, np.array(index), finals, T), later


def expected(block: Batch, value: Any, after: Any, later: Any, gamma: float, lam: float) -> Any:
    """Computes G [T, N, A] of the team by recursion, one step of one agent after another."""
    alive, reward = block["obs"]["alive"], block["reward"]
    if reward.ndim > 2:
        reward = np.where(alive != 0, reward, 0).sum(-1)

    def after_step(t: int, n: int, a: int) -> tuple[float, float]:
        """Returns V and G of what follows a step."""
        if block["done"][t, n]:
            return 0.0, 0.0
        acts = np.flatnonzero(later[t, n])
        goes_on = t + 1 < T and not block["end"][t, n]
        if later[t, n, a]:
            v = float(after[t, n, a])
        elif len(acts):
            v = float(after[t, n, acts].mean())
        elif goes_on:
            v = float(reward[t + 1, n]) + gamma * after_step(t + 1, n, a)[0]
        else:
            v = float(after[t, n, a])
        return v, of(t + 1, n, a) if goes_on else v

    def of(t: int, n: int, a: int) -> float:
        v, g = after_step(t, n, a)
        return float(reward[t, n]) + gamma * ((1 - lam) * v + lam * g)

    return np.array([[[of(t, n, a) for a in range(A)] for n in range(N)] for t in range(T)])


@pytest.mark.parametrize(
    ("name", "shape"),
    [("ippo", ()), ("mappo", ()), ("happo", ()), ("happo", (A,)), ("coma", ()), ("coma", (A,))],
)
def test_returns_of_a_team_are_those_of_one_that_stays(name: str, shape: tuple[int, ...]) -> None:
    spec = team_spec(alive=MultiBinary(A))
    policy = made(name, spec, discount_factor=0.9, collect={"gae_lambda": 0.7})
    block, tail, later = played(shape)
    found = policy._block_values(block, tail)
    policy._block_values = lambda *_: found  # COMA draws the actions that follow
    samples = policy.collect_mode.get_train_sample(block, tail)
    wanted = expected(block, *found, later, 0.9, 0.7)
    acts = block["obs"]["alive"] != 0
    target, advantage = (samples[key].reshape(T, N, A)[acts] for key in ("target", "advantage"))
    assert not acts.all()
    np.testing.assert_allclose(target, wanted[acts], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(advantage, (wanted - found[0])[acts], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (A,)])
@pytest.mark.parametrize("name", ["ippo", "mappo", "happo", "coma"])
def test_where_nobody_leaves_nothing_changes(name: str, shape: tuple[int, ...]) -> None:
    """The samples are those of an environment without `alive`, bit by bit."""
    block, tail, _ = played(shape, np.ones((T + 1, N, A), np.int8))
    tail.final_obs["alive"][:] = 1
    found = []
    for mortal in (True, False):
        policy = made(name, team_spec(**({"alive": MultiBinary(A)} if mortal else {})))
        seen = [block["obs"], tail.obs, tail.final_obs]
        if not mortal:
            seen = [{"obs": each["obs"]} for each in seen]
        values = policy._block_values(
            Batch({**block.columns, "obs": seen[0]}, T), Tail(seen[1], tail.final_index, seen[2], T)
        )
        policy._block_values = lambda *_, values=values: values
        samples = policy.collect_mode.get_train_sample(
            Batch({**block.columns, "obs": seen[0]}, T), Tail(seen[1], tail.final_index, seen[2], T)
        )
        found.append({key: samples[key] for key in ("value", "advantage", "target")})
    for key, each in found[0].items():
        np.testing.assert_array_equal(each, found[1][key], err_msg=key)
