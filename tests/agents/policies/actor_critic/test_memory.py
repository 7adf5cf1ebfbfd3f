"""PPO of agents with a memory: values, sequences, and what is learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from dicore.data import tree_map
from dicore.errors import ConfigError
from dicore.run.launch import launch
from tests.agents.policies.recall import MortalRecall, Recall
from tests.agents.policies.remembering import Remembering, component, made, played
from tests.plugins.policies.resuming import same_after_resume

HOME = "tests.agents.policies.recall"
FEW = {"happo": ("policy.learn.epoch_per_collect=4",)}
"""Fewer passes, of which each agent has its own."""
NAMES = ("ippo", "mappo", "happo", "coma")
MEMORY = ("policy.model.rnn=gru", "policy.collect.unroll_len=4", "policy.model.rnn_hidden_size=16")


class TestIndependent(Remembering, half=0):
    component = component("ippo")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 2, "n_sample": 4}


class TestOneAfterAnother(Remembering, half=1):
    component = component("happo")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 2, "n_sample": 4}


class TestCounterfactual(Remembering, half=0):
    component = component("coma")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 2, "n_sample": 4}
    # it draws the actions after the last step
    test_environments_are_apart_in_samples = None  # type: ignore[assignment]


class TestCommonCritic(Remembering, half=1):
    component = component("mappo")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 2, "n_sample": 4}


def remembering(name: str, **learn: Any) -> Any:
    model = {"rnn": "lstm", "rnn_hidden_size": 4, "hidden_size_list": [6]}
    passes = "critic_epoch_per_collect" if name == "coma" else "epoch_per_collect"
    learn = {"batch_size": None, passes: 1, **learn}
    return made(name, MortalRecall(), model=model, learn=learn, collect={"unroll_len": 3})


@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_values_and_log_probabilities_are_those_of_single_steps(name: str) -> None:
    """States end with episodes; agents that do not act have none, and come with a new one."""
    policy = remembering(name)
    block, tail, after = played(policy, MortalRecall, 12)
    model, gamma = policy.get_attribute("model"), policy.get_attribute("cfg").discount_factor
    samples = policy.collect_mode.get_train_sample(block, tail)
    assert samples["value"].shape == (12, 3, 2)
    value, later = (np.zeros((12, 3, 2), np.float32) for _ in range(2))
    for env in range(3):
        hidden = torch.from_numpy(block["prev_state"][0, env])[None]
        for t in range(12):
            now = tree_map(lambda leaf, t=t, env=env: torch.from_numpy(leaf[t, env])[None],
                           block["obs"])  # fmt: skip
            then = {key: torch.from_numpy(each)[None] for key, each in after[t][env].items()}
            with torch.no_grad():
                output = model(now, hidden)
                hidden = output["hidden"]
                value[t, env], later[t, env] = output["value"][0], model(then, hidden)["value"][0]
            if block["end"][t, env]:
                hidden = torch.zeros_like(hidden)
            sample = samples[t // 3 * 3 + env]
            chosen = output["logit"][0].log_softmax(-1).gather(-1, torch.from_numpy(
                block["action"][t, env])[:, None])[:, 0]  # fmt: skip
            np.testing.assert_allclose(sample["value"][t % 3], value[t, env], atol=1e-5)
            np.testing.assert_allclose(sample["log_prob"][t % 3], chosen, atol=1e-5)
    alive = np.stack([np.stack([each["alive"] for each in row]) for row in after]) != 0
    ends = ~alive | block["end"][..., None]
    acts = block["obs"]["alive"] != 0
    delta = np.where(acts, block["reward"], 0) + gamma * later * ~ends - value
    wanted, total = np.zeros_like(delta), np.zeros((3, 2))
    for t in reversed(range(12)):
        total = delta[t] + gamma * 0.95 * total * ~ends[t]
        wanted[t] = total
    found = samples["advantage"].reshape(4, 3, 3, 2).swapaxes(1, 2).reshape(12, 3, 2)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_ratios_of_sequences_begin_at_one(name: str) -> None:
    policy = remembering(name)
    block, tail, _ = played(policy, MortalRecall, 12)
    result = policy.learn_mode.forward(policy.collect_mode.get_train_sample(block, tail))[0]
    assert abs(float(result["approx_kl"])) < 1e-6
    assert float(result["clipfrac"]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_agents_that_do_not_act_are_not_learned_from(name: str) -> None:
    found = []
    for seen, action in ((np.nan, 0), (7.0, 1)):
        policy = remembering(name)
        block, tail, _ = played(policy, MortalRecall, 12)
        samples = policy.collect_mode.get_train_sample(block, tail)
        dead = samples["obs"]["alive"] == 0
        samples["obs"]["obs"][dead], samples["action"][dead] = seen, action
        for key in ("value", "advantage", "target", "log_prob"):
            samples[key][dead] = seen
        policy.learn_mode.forward(samples)
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])
    assert all(torch.isfinite(each).all() for each in found[0].values())


@pytest.mark.parametrize(
    "name", [pytest.param("ippo", marks=pytest.mark.soak), "mappo", "happo", "coma"]
)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    passes = "critic_epoch_per_collect" if name == "coma" else "epoch_per_collect"
    options = [*MEMORY, "policy.learn.batch_size=4", "policy.collect.n_sample=8",
               f"policy.learn.{passes}=2"]  # fmt: skip
    one, two = same_after_resume(name, f"{HOME}:MortalRecall", options, tmp_path, 128)
    assert all(torch.equal(one[key], two[key]) for key in one)


def best(name: str, folder: Path, *options: str) -> float:
    few = ["env.collector_env_num=8", "env.evaluator_env_num=8", "env.n_evaluator_episode=40",
           "env.stop_value=inf", "pipeline.logger=[]", "policy.learn.learning_rate=0.005",
           "policy.model.hidden_size_list=[16]", *FEW.get(name, ())]  # fmt: skip
    run = launch(
        env=f"{HOME}:{Recall.__name__}", policy=name, seed=0, exp_name=str(folder),
        max_env_step=8000, overrides=[*few, *options],
    ).run  # fmt: skip
    return float(run.result.best_return)


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_was_seen_long_ago_is_remembered(name: str, tmp_path: Path) -> None:
    """Of two agents, each is paid for what its first observation told; by chance half as much."""
    memory = (*MEMORY, "policy.collect.n_sample=64", "policy.learn.batch_size=16")
    assert best(name, tmp_path / "memory", *memory) > 1.9
    assert best(name, tmp_path / "none", "policy.collect.n_sample=256") < 1.5


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mappo", {"model": {"rnn": "gru"}}, "unroll_len: a recurrent network learns from"),
        ("ippo", {"collect": {"unroll_len": 4}}, "unroll_len: ippo learns from single steps"),
        ("happo", {"model": {"rnn": "gru"}}, "unroll_len: a recurrent network learns from"),
        ("coma", {"model": {"rnn": "lstm"}}, "unroll_len: a recurrent network learns from"),
        ("coma", {"collect": {"unroll_len": 4}}, "unroll_len: coma learns from single steps"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(name, Recall(), **options)
