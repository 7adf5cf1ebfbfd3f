"""Groups of agents that learn by different algorithms: each as in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.cli import main
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore_agents import group_spec
from tests.agents.policies.actor_critic.games import Mortals, MovingMortals
from tests.agents.policies.remembering import made, played
from tests.plugins.policies.resuming import same_after_resume

HOME = "tests.agents.policies.actor_critic.games"
AGENTS = {"outer": ["left", "right"], "inner": ["mid*"]}
SMALL = {"hidden_size_list": [8]}


def groups(outer: Any = "mappo", inner: Any = "ippo", env: Any = Mortals, **more: Any) -> Any:
    parts = {"outer": outer, "inner": inner}
    named = {key: {"type": each} if isinstance(each, str) else each for key, each in parts.items()}
    named = {key: each for key, each in named.items() if each}
    return made("groups", env(), groups=named, agents=AGENTS, **more)


def test_a_group_learns_as_in_an_environment_of_its_own() -> None:
    """From its rows of what happened, whatever the others' algorithm is."""
    policy = groups("mappo", "ippo")
    block, tail, _ = played(policy, Mortals, 12)
    samples = policy.collect_mode.get_train_sample(block, tail)
    part, index = policy.get_attribute("parts")["outer"], [0, 2]

    def seen(obs: Any, axis: int) -> Any:
        return {key: each if key == "state" else each.take(index, axis)
                for key, each in obs.items()}  # fmt: skip

    own = {key: block[key] for key in ("done", "end", "valid", "env_id")}
    own |= {"obs": seen(block["obs"], 2), **block["outer"]}
    own |= {"action": block["action"][:, :, index], "reward": block["reward"][:, :, index]}
    alone = part.collect_mode.get_train_sample(
        Batch(own, 12), tail._replace(obs=seen(tail.obs, 1), final_obs=seen(tail.final_obs, 1))
    )
    assert set(samples["outer"]) == set(alone.columns)
    for key in ("advantage", "target", "log_prob", "action"):
        np.testing.assert_array_equal(samples["outer"][key], alone[key])
    result = policy.learn_mode.forward(samples)
    assert {"outer_total_loss", "inner_total_loss", "outer_approx_kl"} <= set(result[0])
    assert float(result[0]["total_loss"]) == pytest.approx(
        float(result[0]["outer_total_loss"] + result[0]["inner_total_loss"])
    )


def test_a_step_in_which_a_group_is_gone_is_none_of_its_samples() -> None:
    """Its episode has ended, even if that of the others goes on."""
    parts = {"outer": {"type": "vdn"}, "inner": {"type": "qmix"}}
    policy = groups(**parts)
    block, tail, _ = played(policy, Mortals, 14)
    samples = policy.collect_mode.get_train_sample(block, tail)
    inner = samples["inner"]
    acts = inner["obs"]["alive"][:, 0] != 0
    goes_on = inner["next_obs"]["alive"][:, 0] != 0
    over = block["done"].reshape(-1) != 0
    np.testing.assert_array_equal((inner["done"] == 1)[acts], (over | ~goes_on)[acts])
    gone = acts & ~goes_on & ~over
    assert gone.any()
    assert not acts.all()
    found = []
    for reward in (0.0, 100.0):
        policy = groups(**parts)
        inner["reward"][~acts] = reward
        policy.learn_mode.forward(samples)
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])
    nobody = np.flatnonzero(~acts)
    result = policy.learn_mode.forward(samples[nobody])
    assert "inner_total_loss" not in result
    assert "outer_total_loss" in result


@pytest.mark.parametrize("nstep", [1, 3])
def test_returns_of_a_group_end_with_it(nstep: int) -> None:
    parts = {name: {"type": "vdn", "nstep": nstep, "discount_factor": 1.0} for name in AGENTS}
    policy = groups(**parts)
    block, tail, _ = played(policy, Mortals, 14)
    reward = np.where((block["obs"]["alive"][:, :, 1] != 0), 1, 100).astype(np.float32)
    block = Batch({**block.columns, "reward": reward}, len(block))
    inner = policy.collect_mode.get_train_sample(block, tail)["inner"]
    acts = inner["obs"]["alive"][:, 0] != 0
    assert not acts.all()
    assert set(inner["reward"][acts].tolist()) == set(range(1, nstep + 1))


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"discount_factor": 0.5}, r"policy.discount_factor: .*groups.NAME.discount_factor"),
        ({"learn": {"ignore_done": True}}, r"policy.learn.ignore_done: .*each group"),
    ],
)
def test_options_that_no_group_reads_are_refused(option: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        groups(**option)


@pytest.mark.parametrize("name", ["logit", "value", "obs"])
def test_a_group_is_not_called_like_a_column(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"policy.groups.{name}: samples have a column"):
        made("groups", Mortals(), agents={name: ["*"]}, groups={name: {"type": "ippo"}})


def test_in_sequences_too_a_step_without_the_group_teaches_nothing() -> None:
    remember = {"model": {"rnn": "gru"}, "collect": {"unroll_len": 3}}
    parts = {"outer": {"type": "vdn", **remember}, "inner": {"type": "qmix", **remember}}
    policy = groups(**parts)
    samples = policy.collect_mode.get_train_sample(*played(policy, Mortals, 14)[:2])
    inner, found = samples["inner"], []
    gone = (inner["obs"]["alive"] == 0).all(-1)[:, :3]
    assert gone.any()
    assert not gone.all()
    for reward in (0.0, 100.0):
        policy = groups(**parts)
        inner["reward"][gone] = reward
        policy.learn_mode.forward(samples)
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


def test_actions_are_those_of_the_groups_in_the_order_of_the_agents() -> None:
    policy = groups(env=MovingMortals)
    env = MovingMortals()
    obs = EnvBatch.of({0: env.reset(seed=0)[0], 3: env.reset(seed=1)[0]})
    found = policy.eval_mode.forward(obs).value
    np.testing.assert_array_equal(found["action"][:, [0, 2]], found["outer"]["action"])
    np.testing.assert_array_equal(found["action"][:, [1]], found["inner"]["action"])
    assert found["action"].shape == (2, 3, 2)


def test_each_group_explores_by_its_own_schedule() -> None:
    policy = groups("vdn", {"type": "qmix", "other": {"eps": {"start": 0.5}}})
    settings = policy.command_mode.get_setting_collect({"envstep": 0, "learner_step": 0})
    assert settings["outer"]["eps"] == 0.95
    assert settings["inner"]["eps"] == 0.5
    obs = EnvBatch.of({0: Mortals().reset(seed=0)[0]})
    assert policy.collect_mode.forward(obs, **settings).value["action"].shape == (1, 3)
    with pytest.raises(UsageError, match=r"unknown argument 'eps'.*outer, inner"):
        policy.collect_mode.forward(obs, eps=0.1)


def test_what_a_group_is_told_of_an_environment() -> None:
    spec = group_spec(EnvSpec.of(Mortals()), (0, 2))
    assert spec.agents == ("left", "right")
    assert spec.reward_shape == (2,)
    parts: Any = spec.observation
    assert {key: parts[key].shape for key in parts} == {
        "obs": (2, 4), "alive": (2,), "action_mask": (2, 3), "state": (2,),
    }  # fmt: skip
    assert spec.action.nvec.tolist() == [3, 3]  # type: ignore[attr-defined]


def test_one_learns_from_a_buffer_as_the_first_group_says() -> None:
    policy = groups({"type": "vdn", "learn": {"batch_size": 24}}, "maddpg")
    cfg = policy.get_attribute("cfg")
    assert (cfg.on_policy, cfg.learn.batch_size) == (False, 24)
    assert cfg.collect.n_sample == cfg.groups.outer.collect.n_sample == 8
    assert cfg.learn.update_per_collect == cfg.groups.outer.learn.update_per_collect


@pytest.mark.parametrize(
    ("outer", "learn", "wanted"),
    [
        ("maddpg", {}, (None, 1.0, 100)),
        ("vdn", {}, (3, None, 0)),
        ("maddpg", {"update_per_collect": 1}, (1, None, 100)),
        ("maddpg", {"update_per_step": 0.5}, (None, 0.5, 100)),
        ("vdn", {"update_per_step": 1.0}, (None, 1.0, 0)),
    ],
)
def test_updates_and_random_steps_are_those_of_the_first_group_unless_set(
    outer: str, learn: Any, wanted: Any
) -> None:
    cfg = groups(outer, "qmix", learn=learn).get_attribute("cfg")
    found = cfg.learn.update_per_collect, cfg.learn.update_per_step
    assert (*found, cfg.collect.random_collect_size) == wanted


SMALL_BUFFER = {"replay_buffer": {"type": "naive", "replay_buffer_size": 500}}


@pytest.mark.parametrize(
    ("outer", "inner", "more", "told"),
    [
        (
            "vdn",
            {"type": "qmix", "learn": {"batch_size": 8, "update_per_step": 2.0},
             "collect": {"n_sample": 16, "random_collect_size": 9}, "other": SMALL_BUFFER},
            {},
            [f"groups.inner.{path}: has no effect: groups have it alike; set policy.{path}"
             for path in ("learn.batch_size", "learn.update_per_step", "collect.n_sample",
                          "collect.random_collect_size")]
            + ["groups.inner.other.replay_buffer: has no effect: one buffer"],
        ),
        ({"type": "vdn", "other": {"replay_buffer": "advanced"}}, "maddpg", {},
         ["groups.outer.other.replay_buffer: has no effect: one buffer"]),
        (
            "mappo", {"type": "ippo", "learn": {"batch_size": 8}, "collect": {"n_sample": 16}},
            {"learn": {"batch_size": 8, "update_per_collect": 2},
             "collect": {"random_collect_size": 9}},
            ["groups.inner.collect.n_sample: has no effect: groups have it alike",
             "learn.batch_size: has no effect: these groups learn from current samples; set groups",
             "learn.update_per_collect: has no effect: these groups",
             "collect.random_collect_size: has no effect: these groups"],
        ),
        *((each, {"type": "qmix", "learn": {"batch_size": 8}}, {"learn": {"batch_size": 8}}, [])
          for each in ("vdn", "maddpg")),
    ],
)  # fmt: skip
def test_options_that_groups_have_alike_are_refused_of_one(
    outer: Any, inner: Any, more: Any, told: list[str]
) -> None:
    if not told:
        groups(outer, inner, **more)
        return
    with pytest.raises(ConfigError) as refused:
        groups(outer, inner, **more)
    for each in told:
        assert f"policy.{each}" in str(refused.value)
    assert str(refused.value).count("has no effect") == len(told)


OPTIONS = {
    "on": ("{outer: mappo, inner: {type: ippo, model: {rnn: null}}}", ()),
    "memory": (
        "{outer: {type: mappo, model: {rnn: gru}, collect: {unroll_len: 4},"
        " learn: {epoch_per_collect: 2}}, inner: {type: ippo, model: {rnn: gru},"
        " collect: {unroll_len: 4}, learn: {epoch_per_collect: 2}}}", (),
    ),
    "off": ("{outer: qmix, inner: {type: maddpg, model: {hidden_size_list: [8]}}}",
            ("policy.learn.batch_size=8",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", [pytest.param("on", marks=pytest.mark.soak), "memory", "off"])
def test_a_resumed_run_equals_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    parts, more = OPTIONS[kind]
    options = [f"policy.groups={parts}", f"policy.agents={AGENTS}",
               "policy.collect.n_sample=16", "env.collector_env_num=4", *more]  # fmt: skip
    one, two = same_after_resume("groups", f"{HOME}:Mortals", options, tmp_path, 128)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_commands_take_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exported file acts as the policies of all groups, and others for each group alone."""
    monkeypatch.chdir(tmp_path)
    trained = launch(
        env=f"{HOME}:MovingMortals", policy="groups", seed=0, exp_name=str(tmp_path / "run"),
        max_env_step=80, overrides=[
            "policy.groups={outer: mappo, inner: ippo}", f"policy.agents={AGENTS}",
            "policy.collect.n_sample=40", "env.collector_env_num=4", "env.evaluator_env_num=2",
            "env.n_evaluator_episode=2", "env.stop_value=inf", "pipeline.logger=[]",
        ],
    )  # fmt: skip
    best = trained.run.result.best_return
    assert main(["eval", "run", "--trust", "-n", "2"]) == 0
    assert f"mean return {best:.2f}" in capsys.readouterr().out
    assert main(["export", "run", "--trust", "--load-path", "final", "-o", "policy.pt2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [each.partition(":")[0] for each in lines] == [
        "policy.pt2", "policy.outer.pt2", "policy.inner.pt2",
    ]  # fmt: skip
    assert "[batch, 2, " in Path("policy.outer.pt2.md").read_text()
    env = MovingMortals()
    obs = env.reset(seed=3)[0]
    action = trained.policy.eval_mode.forward({0: obs})[0]["action"]
    for name, members in (("outer", [0, 2]), ("inner", [1])):
        module = torch.export.load(f"policy.{name}.pt2").module()
        seen = {key: torch.from_numpy(np.asarray(each if key == "state" else each[members]))[None]
                for key, each in obs.items()}  # fmt: skip
        np.testing.assert_allclose(module(seen)[0].detach(), action[members], atol=1e-5)


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        ({"outer": [], "inner": ["*"]}, r"policy.agents.outer: the group has no agents"),
        ({"outer": ["l*"], "inner": ["left", "middle", "right"]},
         r"policy.agents.inner: left is in the group 'outer' already"),
        ({"outer": ["left"], "inner": ["middle"]}, r"policy.agents: right is in no group"),
        ({"outer": ["left", "top"], "inner": ["middle"]}, r"agents.outer: .* no agent 'top'"),
        ({"outer": ["*"]}, r"policy.agents.inner: is missing"),
        ({**AGENTS, "third": ["left"]}, r"policy.groups.third: is missing"),
    ],
)  # fmt: skip
def test_agents_that_are_not_shared_out_are_refused(agents: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made("groups", Mortals(), agents=agents,
             groups={"outer": {"type": "mappo"}, "inner": {"type": "ippo"}})  # fmt: skip


@pytest.mark.parametrize(
    ("outer", "inner", "problem"),
    [
        (None, None, r"policy.groups: there are no groups"),
        ("mappo", "qmix", r"policy.groups.inner: 'qmix' learns from replayed samples and 'mappo'"),
        ("dqn", "qmix", r"policy.groups.outer: 'dqn' trains no team"),
        ("vdn", {"type": "qmix", "nstep": 3}, r"policy.groups.inner.nstep: must be 1"),
        ("vdn", {"type": "qmix", "priority": True}, r"policy.groups.inner.priority"),
        ({"type": "mappo", "model": {"obs_shape": 7}}, "ippo", r"groups.outer.model.obs_shape"),
    ],
)
def test_policies_that_do_not_go_together_are_refused(outer: Any, inner: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        groups(outer, inner)
