"""Samples of a team's return cross steps in which nobody acts, also from block to block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiBinary

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from tests.agents.policies.absences import AllLeave, LongPause, Pause, learned_return
from tests.agents.policies.actor_critic.games import drawn, made, team_spec
from tests.plugins.policies.resuming import same_after_resume

T, N, A, GAMMA = 40, 3, 2, 0.9
SPEC = team_spec(alive=MultiBinary(A))


def stream(shape: tuple[int, ...] = ()) -> tuple[Batch, Any]:
    """Steps [T, N] whose actions are their numbers, and what follows each; agents come and go.

    An episode of environment 1 failed.
    """
    rng = np.random.default_rng(3)
    obs = drawn(SPEC, (T + 1) * N)
    obs["alive"] = (rng.random(((T + 1) * N, A)) < 0.4).astype(np.int8)
    obs = {key: each.reshape(T + 1, N, *each.shape[1:]) for key, each in obs.items()}
    end = rng.random((T, N)) < 0.15
    after = {key: each[1:].copy() for key, each in obs.items()}
    for key, each in drawn(SPEC, T * N, 9).items():
        after[key] = np.where(end.reshape(T, N, *(1,) * (each.ndim - 1)),
                              each.reshape(T, N, *each.shape[1:]), after[key])  # fmt: skip
    reward = rng.standard_normal((T, N, *shape)).astype(np.float32)
    over = np.flatnonzero(end[:, 1])
    valid = np.ones((T, N), np.bool_)
    valid[over[0] + 1 : over[1] + 1, 1] = False
    reward[~valid] = np.nan
    columns = {
        "obs": {key: each[:-1] for key, each in obs.items()}, "reward": reward, "end": end,
        "action": np.arange(T * N).reshape(T, N, 1).repeat(A, 2),
        "done": end & (rng.random((T, N)) < 0.6), "valid": valid,
        "env_id": np.tile(np.arange(N), (T, 1)),
    }  # fmt: skip
    return Batch({**columns, "next_obs": after}, T), after


def expected(steps: Batch, after: Any, nstep: int, number: int) -> tuple[Any, int, int] | None:
    """Returns return, last step and number of steps of a sample; None: there is none."""
    t, n = divmod(number, N)
    acts, later = steps["obs"]["alive"].any(-1), after["alive"].any(-1)
    if not acts[t, n] or not steps["valid"][t, n]:
        return None
    total, last = np.zeros(steps["reward"].shape[2:]), t
    while True:
        total = total + GAMMA ** (last - t) * steps["reward"][last, n]
        if steps["end"][last, n] or (last - t + 1 >= nstep and later[last, n]):
            return total, last, last - t + 1
        last += 1
        if last == T:
            return None


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("length", [1, 4, T])
@pytest.mark.parametrize("name", ["vdn", "masac"])
def test_samples_are_the_same_in_blocks_of_any_length(name: str, length: int, nstep: int) -> None:
    shape = (A,) if name == "vdn" else ()
    steps, after = stream(shape)
    policy = made(name, SPEC, nstep=nstep, discount_factor=GAMMA)
    found: dict[int, Any] = {}
    for first in range(0, T, length):
        rows = np.arange(max(0, first - nstep + 1), min(T, first + length))
        if len(rows) < nstep:
            continue
        starts, carried = len(rows) - nstep + 1, int(first - rows[0])
        block = Batch({key: each[rows] if not isinstance(each, dict) else
                       {name: leaf[rows] for name, leaf in each.items()}
                       for key, each in steps.items()}, len(rows))  # fmt: skip
        tail = Tail({}, np.empty(0, np.int64), {}, starts, carried)
        samples = policy.collect_mode.get_train_sample(block, tail)
        state = policy.get_attribute("collect_state")
        policy.collect_mode.reset()
        assert not policy.get_attribute("collect_state")
        policy.set_attribute("collect_state", state)
        teaching = samples["obs"]["alive"].any(-1)
        for at in np.flatnonzero(teaching).tolist():
            number = int(samples["action"][at, 0])
            assert number not in found
            found[number] = {key: samples[key][at] for key in ("reward", "done", "value_gamma")}
            found[number]["next"] = samples["next_obs"]["obs"][at]
        assert (samples["reward"][~teaching] == 0).all()
    wanted = {number: expected(steps, after, nstep, number) for number in range(T * N)}
    wanted = {number: each for number, each in wanted.items() if each is not None}
    assert {*found} == {*wanted}
    bridged = 0
    for number, (total, last, count) in wanted.items():
        sample, n = found[number], number % N
        np.testing.assert_allclose(sample["reward"], total, rtol=1e-4, atol=1e-5)
        assert sample["value_gamma"] == pytest.approx(GAMMA**count, rel=1e-5)
        assert sample["done"] == steps["done"][last, n]
        np.testing.assert_array_equal(sample["next"], after["obs"][last, n])
        bridged += count > nstep
    assert bridged > 5


def test_a_sample_that_waits_is_dropped_with_its_episode() -> None:
    """If it failed, or another begins unseen."""
    alive = np.zeros((2, 1, A), np.int8)
    alive[0] = 1

    def block(t: int, **more: Any) -> Batch:
        seen = {"obs": np.zeros((1, 1, A, 3), np.float32), "alive": alive[t : t + 1]}
        flag = np.zeros((1, 1), np.bool_)
        columns = {"obs": seen, "next_obs": {**seen, "alive": alive[1:]}, "done": flag, "end": flag,
                   "action": np.full((1, 1, A), 5), "reward": np.ones((1, 1), np.float32),
                   "valid": ~flag, "env_id": np.zeros((1, 1), np.int64)}  # fmt: skip
        return Batch({**columns, **more}, 1)

    over, none = np.ones((1, 1), np.bool_), Tail({}, np.empty(0, np.int64), {}, 1)
    for more, wanted in (
        ({"end": over}, [5]), ({"end": over, "valid": ~over}, []),
        ({"end": over, "obs": block(0)["obs"]}, [5]),
    ):  # fmt: skip
        policy = made("vdn", SPEC, discount_factor=GAMMA)
        first = policy.collect_mode.get_train_sample(block(0), none)
        assert not first["obs"]["alive"].any()
        second = policy.collect_mode.get_train_sample(block(1, **more), none)
        assert second["action"][second["obs"]["alive"].any(-1), 0].tolist() == wanted
        if "obs" in more:
            assert second["reward"].tolist() == [1]  # of the new episode alone


RATE = "policy.learn.learning_rate=0.005"
ACTORS = (RATE, "policy.learn.update_per_step=0.5", "policy.learn.batch_size=64")


@pytest.mark.parametrize(
    ("name", "env", "more"),
    [
        ("vdn", Pause, (RATE, "policy.collect.n_sample=8")),
        ("independent_q", AllLeave, (RATE,)),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in (
            ("vdn", AllLeave, (RATE,)),
            ("vdn", LongPause, (RATE, "policy.nstep=3", "policy.learn.update_per_collect=20")),
            ("independent_q", Pause, (RATE,)), ("maddpg", AllLeave, ACTORS),
            ("matd3", Pause, ACTORS), ("masac", Pause, ACTORS),
        )),
    ],
)  # fmt: skip
def test_what_is_paid_while_nobody_acts_is_learned(
    name: str, env: type[Any], more: tuple[str, ...], tmp_path: Path
) -> None:
    assert learned_return(name, env, tmp_path / "run", 2000, *more) == 1


@pytest.mark.parametrize("name", ["vdn", "groups"])
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    """Also where nobody acts when it stops, after six of the eight steps."""
    more = ["policy.groups={a: vdn, b: qmix}", "policy.agents={a: [hero], b: [other]}"]
    home = f"{LongPause.__module__}:{LongPause.__name__}"
    options = ["policy.collect.n_sample=8", "policy.learn.batch_size=8",
               *(more if name == "groups" else ())]  # fmt: skip
    one, two = same_after_resume(name, home, options, tmp_path, 96)
    assert all(torch.equal(one[key], two[key]) for key in one)
