"""Actors and critics of teams with a memory: sequences, and what each part learns from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore_agents.policies.memory import acting_steps, as_steps
from tests.agents.policies.recall import MortalRecall, Recall
from tests.agents.policies.remembering import Remembering, by_steps, component, made, played
from tests.plugins.policies.resuming import same_after_resume

HOME = "tests.agents.policies.recall"
SIZES = ("policy.model.hidden_size_list=[16]", "policy.model.critic_hidden_size_list=[32]",
         "policy.model.rnn_hidden_size=16")  # fmt: skip
MEMORY = ("policy.model.rnn=gru", "policy.collect.unroll_len=4")
NAMES = ("maddpg", "matd3", "masac")


class TestDeterministic(Remembering, half=0):
    component = component("matd3")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 3, "burn_in": 2}


class TestStochastic(Remembering, half=1):
    component = component("masac")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 3, "burn_in": 2}


class Moving(MortalRecall):
    """The same for continuous actions: above 0 is action 1."""

    action_space: Any = Box(-1.0, 1.0, (2, 1), np.float32)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        return super().step((np.asarray(action)[:, 0] > 0).astype(np.int64))


def remembering(name: str, env: Any = MortalRecall, **collect: int) -> Any:
    model = {"rnn": "lstm", "rnn_hidden_size": 4, "hidden_size_list": [6]}
    return made(name, env(), nstep=2, model=model, collect={"unroll_len": 3, **collect})


@pytest.mark.parametrize(("name", "burn_in"), [("matd3", 0), ("masac", 2)])
def test_sequences_remember_what_single_steps_do(name: str, burn_in: int) -> None:
    """Of both parts; those that actors learn from are the same steps."""
    policy = remembering(name, burn_in=burn_in)
    block, tail, _ = played(policy, MortalRecall, 14)
    batch = policy.collect_mode.get_train_sample(block, tail).to_torch()
    model, cfg = policy.get_attribute("model"), policy.get_attribute("cfg")
    steps, rows = as_steps(batch, model, model, cfg), len(batch)
    acting = acting_steps(batch, model, cfg)
    torch.testing.assert_close(acting["obs"], steps["obs"])
    assert torch.equal(acting["action"], steps["action"])
    for index in range(rows):
        now, later = by_steps(policy, batch, index)
        for t in range(3):
            row, at = t * rows + index, burn_in + t
            last = at + int(batch["bridge"][index, at])
            torch.testing.assert_close(steps["obs"]["memory"][row], now[at])
            torch.testing.assert_close(steps["next_obs"]["memory"][row], later[last])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("env", [MortalRecall, Moving])
def test_agents_that_do_not_act_are_not_learned_from(name: str, env: Any) -> None:
    """What they see (here NaN, or 7), and are said to do, changes no parameter."""
    found = []
    for seen, action in ((np.nan, 0), (7.0, 1)):
        policy = remembering(name, env)
        block, tail, _ = played(policy, env, 14)
        samples = policy.collect_mode.get_train_sample(block, tail)
        for key in ("obs", "next_obs"):
            samples[key]["obs"][samples[key]["alive"] == 0] = seen
        samples["action"][samples["obs"]["alive"] == 0] = action
        for _ in range(2):
            assert torch.isfinite(policy.learn_mode.forward(samples)["total_loss"])
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


@pytest.mark.parametrize("name", ["maddpg", "masac"])
def test_each_part_learns_by_its_own_loss(name: str) -> None:
    """The critics' loss leaves the actors alone, memory included, and the actors' the critics."""
    policy = remembering(name)
    block, tail, _ = played(policy, MortalRecall, 14)
    batch = policy.collect_mode.get_train_sample(block, tail).to_torch()
    model = policy.get_attribute("model")

    def moved() -> dict[str, bool]:
        names = ("actor.rnn", "actor.head", "critic.memory.rnn", "critic.parts")
        return {
            each: any(
                bool(value.grad.any())
                for key, value in model.named_parameters()
                if key.startswith(each) and value.grad is not None
            )
            for each in names
        }

    for part in policy.get_attribute("flats").values():
        part.grad.zero_()
    policy._critic_loss(batch, None)[0].backward()
    assert [*moved().values()] == [False, False, True, True]
    for part in policy.get_attribute("flats").values():
        part.grad.zero_()
    policy._step = lambda name, loss: loss.backward()
    policy._update_actor(batch)
    assert [*moved().values()] == [True, True, False, False]


def test_present_actors_and_earlier_critics_value_what_follows_in_masac() -> None:
    policy = remembering("masac")
    block, tail, _ = played(policy, MortalRecall, 14)
    batch = policy.collect_mode.get_train_sample(block, tail).to_torch()
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    with torch.no_grad():
        for each in target.parameters():
            each.add_(0.1)
    steps = as_steps(batch, model, target, policy.get_attribute("cfg"))
    seen = policy._next_obs(steps)["memory"]
    assert torch.equal(seen[..., :4], steps["chooser_obs"]["memory"][..., :4])
    assert torch.equal(seen[..., 4:], steps["next_obs"]["memory"][..., 4:])
    assert not torch.equal(seen[..., :4], steps["next_obs"]["memory"][..., :4])


@pytest.mark.parametrize(
    ("name", "env"), [("matd3", "MortalRecall"), ("masac", "test_memory:Moving")]
)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, env: str, tmp_path: Path) -> None:
    options = [*MEMORY, *SIZES, "policy.nstep=2", "policy.priority=true",
               "policy.collect.burn_in=1", "policy.learn.batch_size=8",
               "policy.collect.random_collect_size=8",
               "policy.learn.update_per_step=0.25"]  # fmt: skip
    home = "tests.agents.policies.continuous." + env if ":" in env else f"{HOME}:{env}"
    one, two = same_after_resume(name, home, options, tmp_path, 120)
    assert all(torch.equal(one[key], two[key]) for key in one)


def best(name: str, folder: Path, *options: str) -> float:
    few = ["env.collector_env_num=8", "env.evaluator_env_num=8", "env.n_evaluator_episode=40",
           "env.stop_value=inf", "pipeline.logger=[]", "policy.learn.learning_rate=0.003",
           "policy.learn.batch_size=32", "policy.learn.target_theta=0.02",
           "policy.learn.update_per_step=null"]  # fmt: skip
    run = launch(
        env=f"{HOME}:{Recall.__name__}", policy=name, seed=0, exp_name=str(folder),
        max_env_step=4000, overrides=[*few, *SIZES, *options],
    ).run  # fmt: skip
    return float(run.result.best_return)


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.parametrize("name", ["maddpg", "masac"])
def test_what_was_seen_long_ago_is_remembered(name: str, tmp_path: Path) -> None:
    """Of two agents, each is paid for what its first observation told; by chance half as much."""
    updates = "policy.learn.update_per_collect={}".format
    assert best(name, tmp_path / "memory", *MEMORY, updates(6)) > 1.9
    assert best(name, tmp_path / "none", updates(2)) < 1.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": {"rnn": "gru"}}, "unroll_len: a recurrent network learns from sequences"),
        ({"collect": {"unroll_len": 4}}, "unroll_len: masac learns from single steps"),
        ({"collect": {"burn_in": 4}}, "burn_in: masac learns from single steps"),
        (
            {"model": {"rnn": "gru"}, "collect": {"unroll_len": 4}, "learn": {"compile": True}},
            "learn.compile: recurrent networks are not trained so",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made("masac", Recall(), **options)
