"""Both supplies of demonstrations (L4), the modes of K11, and what bad demonstrations get."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore.cli import main
from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError, NonFiniteError, SchemaError, UsageError
from dicore.run.checkpoint_store import read_state
from dicore.run.launch import launch
from dicore.task import OnlineRLContext
from dicore_plugins.buffers import BufferGroup, NaiveReplayBuffer
from dicore_plugins.datasets import NpzDataset, write_npz
from dicore_plugins.middleware import demo_loader, pretrainer
from dicore_plugins.pipelines import ExpertSteps, steps_of
from dicore_plugins.policies import RLPDPolicy
from tests.plugins.datasets.test_offline import cartpole, pendulum

FAST = [
    "pipeline.logger=[]", "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
    "env.collector_env_num=2", "policy.collect.n_sample=16", "policy.learn.update_per_collect=2",
    "env.stop_value=inf", "policy.learn.batch_size=16",
]  # fmt: skip
HAND = '''
"""Balances a pole by its angle and angular velocity."""
from dicore_plugins.policies import FixedPolicy
from dicore.data import EnvBatch


class Balance(FixedPolicy):
    def _forward_collect(self, obs, **kwargs):
        batch = EnvBatch.of(obs)
        lean = batch.value[:, 2] + 0.5 * batch.value[:, 3]
        return batch.with_value({"action": (lean > 0).astype("int64")})

    _forward_eval = _forward_collect
'''


def train(policy: str, *options: str, **more: Any) -> Any:
    budget = {"max_train_iter": 9} if policy == "bc" else {"max_env_step": 64}
    return launch(
        env="cartpole", policy=policy, seed=0, overrides=[*FAST, *options], **{**budget, **more}
    )


@pytest.mark.parametrize(
    ("policy", "mode"),
    [("sqil", "serial_sqil"), ("dqfd", "serial_dqfd"), ("r2d3", "serial_demos"),
     ("bco", "serial"), ("rbc", "serial")],
)  # fmt: skip
def test_a_data_set_fills_the_buffer_of_demonstrations(
    policy: str, mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """From the command line; nothing is asked."""
    path = cartpole(tmp_path / "demo.npz", 6)
    words = ["train", "-m", mode, "-e", "cartpole", "-p", policy, f"pipeline.dataset.path={path}"]
    quick = ["policy.learn.pretrain=5"] if policy in ("dqfd", "r2d3") else []
    short = ["policy.collect.burn_in=1", "policy.collect.unroll_len=3"] if policy == "r2d3" else []
    words += [*FAST, *quick, *short, "--max-env-step", "64", "--exp-name", str(tmp_path / "run")]
    assert main(words) == 0, capfd.readouterr().err
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["result"]["env_step"] >= 64
    assert record["result"]["train_iter"] > (5 if quick else 0)
    data = NpzDataset({"path": path})
    assert record["dataset"] == {"samples": len(data), "fingerprint": data.fingerprint}


def test_half_of_each_batch_of_rlpd_is_of_the_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    forward = RLPDPolicy._forward_learn

    def recorded(policy: Any, data: Any, **more: Any) -> Any:
        seen.append(float(np.mean([row["demo"] for row in data])))
        return forward(policy, data, **more)

    monkeypatch.setattr(RLPDPolicy, "_forward_learn", recorded)
    path = pendulum(tmp_path / "demo.npz")
    outcome = launch(
        env="Pendulum-v1", policy="rlpd", seed=0, max_env_step=40, exp_name=str(tmp_path / "run"),
        overrides=[
            "pipeline.logger=[]", f"pipeline.dataset.path={path}", "policy.learn.batch_size=8",
            "policy.collect.random_collect_size=8", "policy.model.critic_hidden_size_list=[8]",
            "policy.learn.update_per_step=2", "env.n_evaluator_episode=1",
            "policy.eval.evaluator.max_episode_steps=5", "env.evaluator_env_num=1",
        ],
    )  # fmt: skip
    assert outcome.run.result.train_iter == len(seen) > 40
    assert set(seen) == {0.5}


TWO = {
    "agent": {"type": "naive"},
    "demo": {"type": "naive", "share": 0.5, "share_updates": 40},
}
"""Buffers of fine-tuning: the share of the data set falls to 0 in 40 updates."""


@pytest.mark.parametrize("nstep", [1, 3])
def test_an_off_policy_algorithm_is_tuned_with_a_share_that_falls(
    tmp_path: Path, nstep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its samples are those of the data set, then its own; a resumed run goes on exactly."""
    seen: list[tuple[int, int]] = []
    draw = BufferGroup.sample_batch

    def spied(group: BufferGroup, size: int, iteration: int = 0, *more: Any, **options: Any) -> Any:
        batch = draw(group, size, iteration, *more, **options)
        seen.append((iteration, group.counts(size)["demo"]))
        return batch

    monkeypatch.setattr(BufferGroup, "sample_batch", spied)
    path = pendulum(tmp_path / "demo.npz")
    options = [
        *FAST, f"pipeline.dataset.path={path}", f"policy.nstep={nstep}",
        {"policy.other.replay_buffer": TWO}, "policy.collect.random_collect_size=32",
    ]  # fmt: skip
    wishes = {"env": "pendulum", "policy": "sac", "seed": 0, "overrides": options}
    whole = launch(**wishes, exp_name=str(tmp_path / "a"), max_env_step=512)
    assert seen[0] == (0, 8)
    assert all(demo == round(8 * max(1 - at / 40, 0)) for at, demo in seen)
    assert seen[-1][1] == 0
    if nstep > 1:
        return
    launch(**wishes, exp_name=str(tmp_path / "b"), max_env_step=128)
    resumed = launch(resume=str(tmp_path / "b"), max_env_step=512)
    one, other = (
        read_state(each.run.folder.path / "ckpt/final")["learner"]["policy"]["model"]
        for each in (whole, resumed)
    )
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"policy.priority": True, "policy.other.replay_buffer": TWO},
         "share_updates; expected False"),
        ({"policy.other.replay_buffer": {"type": "naive", "share_updates": 4}},
         "share_updates: has no effect with a single buffer"),
        ({"policy.other.replay_buffer": {"agent": {"type": "naive"}, "demo": {"type": "naive"}}},
         "pipeline.dataset: required"),
    ],
)  # fmt: skip
def test_wrong_buffers_of_tuning_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        launch(
            env="pendulum", policy="sac", exp_name="never", max_env_step=1,
            overrides=[*FAST, change],
        )  # fmt: skip


def test_an_expert_policy_fills_it_with_whole_episodes(tmp_path: Path) -> None:
    """A policy written by hand; it acts in environments of its own."""
    (tmp_path / "hand.py").write_text(HAND)
    outcome = train(
        "sqil", f"pipeline.expert.type={tmp_path}/hand.py:Balance", "pipeline.expert_episodes=3",
        exp_name=str(tmp_path / "run"),
    )  # fmt: skip
    assert outcome.run.result.env_step == 64
    demo = Batch(read_state(tmp_path / "run/ckpt/final")["buffer"]["demo"]["columns"])
    lean = demo["obs"][:, 2] + 0.5 * demo["obs"][:, 3]
    np.testing.assert_array_equal(demo["action"], lean > 0)
    assert (demo["reward"] == 1).all()
    starts = (demo["obs"][1:] != demo["next_obs"][:-1]).any(1)
    assert starts.sum() == 2


def test_an_expert_policy_is_the_data_set_of_cloning(tmp_path: Path) -> None:
    (tmp_path / "hand.py").write_text(HAND)
    outcome = train(
        "bc", f"pipeline.expert.type={tmp_path}/hand.py:Balance", "pipeline.expert_episodes=4",
        "policy.eval.evaluator.eval_freq=1200", "policy.learn.batch_size=64", max_train_iter=800,
        exp_name=str(tmp_path / "run"),
    )  # fmt: skip
    assert outcome.run.result.env_step == 0
    assert outcome.run.result.best_return > 150


def test_steps_of_a_data_set_without_episode_numbers() -> None:
    """They end where the next step has another observation."""
    obs = np.arange(6, dtype=np.float32)[:, None]
    after = obs + 1
    after[2] = 50
    steps = Batch({"obs": obs, "next_obs": after, "done": np.eye(6, dtype=np.float32)[4],
                   "action": np.zeros(6), "reward": np.zeros(6)})  # fmt: skip
    assert steps_of(ExpertSteps(steps))["end"].tolist() == [0, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("policy", ["bc", "sqil"])
def test_without_demonstrations_the_error_names_the_command(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"dicore collect RUN --episodes 10 -o demo\.npz"):
        train(policy)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"nowhere\.npz: no such file.*dicore collect RUN"):
        train(policy, "pipeline.dataset.path=nowhere.npz", exp_name="run")
    assert not any(tmp_path.iterdir())
    (tmp_path / "empty").mkdir()
    (tmp_path / "steps.csv").touch()
    for name, text in (("empty", "no samples in this folder"), ("steps.csv", "reads .csv files")):
        with pytest.raises(ConfigError, match=f"{name}: .*{text}"):
            train(policy, f"pipeline.dataset.path={name}", exp_name="run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"reward": np.nan}, NonFiniteError, "episode 0, reward: nan in step 3"),
        ({"obs": "wide"}, SchemaError, r"obs: has the shape \[5\], the environment \[4\]"),
        ({"action": "cut"}, SchemaError, "action: cut off after"),
        ({"obs": "none"}, UsageError, "0 episodes with a complete step"),
    ],
)
def test_bad_demonstrations_are_refused_with_their_place(
    change: dict[str, Any], error: Any, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with np.load(cartpole(tmp_path / "good.npz", 2)) as file:
        columns = {name: file[name] for name in file if not name.endswith("_space")}
    for name, how in change.items():
        if how == "wide":
            wide = [np.pad(columns[each], ((0, 0), (0, 1))) for each in ("obs", "next_obs")]
            columns["obs"], columns["next_obs"] = wide
        elif how == "cut":
            columns[name] = columns[name][:-3]
        elif how == "none":
            columns = {key: each[:0] for key, each in columns.items()}
        else:
            columns[name][3] = how
    write_npz("bad.npz", columns)
    with pytest.raises(error, match=text):
        train("sqil", "pipeline.dataset.path=bad.npz", exp_name="run")


def test_demonstrations_that_do_not_fit_are_not_dropped(tmp_path: Path) -> None:
    path = cartpole(tmp_path / "demo.npz", 6)
    with pytest.raises(UsageError, match="do not fit in their buffer of 50 samples") as caught:
        train(
            "sqil", f"pipeline.dataset.path={path}",
            "policy.other.replay_buffer.demo.replay_buffer_size=50",
            exp_name=str(tmp_path / "run"),
        )  # fmt: skip
    assert "policy.other.replay_buffer.demo.replay_buffer_size" in caught.value.hint


@pytest.mark.parametrize(
    ("policy", "options", "text"),
    [
        ("dqn", ("pipeline.expert.type=random",), "pipeline.expert: has no effect: 'dqn'"),
        ("sqil", ("pipeline.expert.type=random", "pipeline.dataset.path=x.npz"),
         "has no effect beside pipeline.dataset"),
        ("sqil", ("pipeline.type=serial_offline", "pipeline.expert.type=random"),
         "'sqil' learns from demonstrations and its own steps"),
        ("dqn", ("pipeline.type=serial_demos",), "'serial_demos' trains a policy that learns from"),
        ("sqil", (f"pipeline.dataset.path={__file__}", "pipeline.dataset.unroll_len=4"),
         "dataset.unroll_len: 'sqil' cuts its samples itself"),
        ("sqil", (f"pipeline.dataset.path={__file__}", "pipeline.dataset.nstep=4"),
         "dataset.nstep: has no effect: 'sqil' has policy.nstep"),
        ("dqfd", (f"pipeline.dataset.path={__file__}", "pipeline.dataset.reward_scale=0.1"),
         "dataset.reward_scale: collected rewards are not scaled"),
    ],
)  # fmt: skip
def test_combinations_without_sense_are_refused(
    policy: str, options: tuple[str, ...], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        train(policy, *options)


class Counting:
    """A learner that counts the updates, and is stopped after some of them."""

    train_iter = 0

    def __init__(self, run: Any, stop_at: int) -> None:
        self.run, self.stop_at, self.sizes = run, stop_at, set[int]()

    def register_hook(self, hook: Any) -> None:
        """Marks it as a learner."""

    def train(self, data: Any, env_step: int) -> None:
        self.train_iter += 1
        self.sizes.add(len(data))
        self.run.stop_requested = self.train_iter == self.stop_at


def test_demonstrations_are_loaded_once_and_learned_from_first() -> None:
    """A stopped run makes the rest of the updates when it goes on."""
    cfg = compile_config(
        {"env": "cartpole", "policy": {"type": "dqfd", "learn": {"batch_size": 4, "pretrain": 10}}}
    ).cfg
    buffer, calls = NaiveReplayBuffer({"replay_buffer_size": 20}), list[int]()

    def samples() -> Batch:
        calls.append(1)
        return Batch({"obs": np.zeros((3, 2), np.float32)})

    load, run = demo_loader(cfg, buffer, samples), SimpleNamespace(stop_requested=False)
    learner, ctx = Counting(run, 6), OnlineRLContext()
    pretrain = pretrainer(cfg, learner, buffer, run=run)
    for wanted in (6, 10, 10):
        run.stop_requested = False
        load(ctx)
        pretrain(ctx)
        assert learner.train_iter == ctx.train_iter == wanted
    assert learner.sizes == {4}
    assert calls == [1]
    assert buffer.count() == 6, "the demonstrations twice, for a batch of 4"


def test_fewer_demonstrations_than_a_batch_are_learned_from(tmp_path: Path) -> None:
    """No training waits for samples that never come."""
    path = cartpole(tmp_path / "demo.npz", 1)
    outcome = train(
        "sqil", f"pipeline.dataset.path={path}", "policy.learn.batch_size=128",
        "policy.other.replay_buffer.demo.share=0.9", exp_name=str(tmp_path / "run"),
        max_env_step=160,
    )  # fmt: skip
    assert outcome.run.result.train_iter > 0
