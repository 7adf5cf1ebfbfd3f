"""Entries of rl-zoo3's files become configs with the defaults of Stable-Baselines3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dicore.cli import main
from dicore.config import compile_config
from dicore.errors import ConfigError, UsageError
from dicore_compat.migrate.convert import Migrated, migrate

PPO = """
default:
  n_timesteps: !!float 1e6
  policy: MlpPolicy
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  n_steps: 32
  batch_size: 256
  gae_lambda: 0.8
  learning_rate: lin_0.001
  clip_range: 0.1
  policy_kwargs: "dict(net_arch=[32, 16], ortho_init=False, activation_fn=nn.ReLU)"
Pendulum-v1:
  normalize: true
  curiosity: 3
"""
OFF = """
Pendulum-v1:
  n_timesteps: 20000
  learning_rate: !!float 1e-3
  ent_coef: {ent}
  train_freq: 8
  gradient_steps: -1
  use_sde: True
  policy_kwargs: "dict(log_std_init=-3, net_arch=dict(pi=[64], qf=[48, 48]))"
"""
DQN = """
CartPole-v1:
  n_timesteps: !!float 5e4
  train_freq: 256
  gradient_steps: 128
  target_update_interval: 10
  exploration_fraction: 0.16
  exploration_final_eps: 0.04
"""


def made(folder: Path, name: str, text: str, entry: str) -> Migrated:
    file = folder / name
    file.write_text(text)
    return migrate(file, entry)


def test_ppo(tmp_path: Path) -> None:
    result = made(tmp_path, "ppo.yml", PPO, "CartPole-v1")
    assert not result.problems
    cfg = compile_config(result.tree)
    learn, model = cfg.policy.learn, cfg.policy.model
    assert (cfg.env.type, cfg.env.collector_env_num, cfg.policy.collect.n_sample) == (
        "cartpole", 8, 256,
    )  # fmt: skip
    assert (learn.learning_rate, learn.learning_rate_end, learn.anneal) == (1e-3, 0.0, 100_000)
    assert (learn.clip_ratio, learn.clip_ratio_end, learn.epoch_per_collect) == (0.1, 1.0, 10)
    assert (model.encoder_hidden_size_list, model.activation) == ((32, 16), "relu")
    assert cfg.pipeline.max_env_step == 100_000
    assert model.initial_weights == "uniform"
    assert not [each.path for each in result.changes if each.verdict == "lost"]


def test_what_has_no_counterpart_is_named(tmp_path: Path) -> None:
    result = made(tmp_path, "ppo.yml", PPO, "Pendulum-v1")
    assert not result.problems
    verdicts = {each.path: each.verdict for each in result.changes}
    assert (verdicts["curiosity"], verdicts["normalize"]) == ("lost", "changed")


@pytest.mark.parametrize(
    ("ent", "auto", "alpha"), [("auto", True, 1.0), ("auto_0.1", True, 0.1), ("0.2", False, 0.2)]
)
def test_sac(tmp_path: Path, ent: str, auto: bool, alpha: float) -> None:
    result = made(tmp_path, "sac.yml", OFF.format(ent=ent), "Pendulum-v1")
    assert not result.problems
    cfg = compile_config(result.tree)
    learn, model = cfg.policy.learn, cfg.policy.model
    assert (learn.auto_alpha, learn.alpha, learn.update_per_collect) == (auto, alpha, 8)
    assert (model.gsde, model.log_std_init, model.actor_hidden_size_list) == (True, -3, (64,))
    assert model.critic_hidden_size_list == (48, 48)
    assert cfg.policy.collect.random_collect_size == 100


def test_dqn_counts_updates_where_sb3_counts_steps(tmp_path: Path) -> None:
    result = made(tmp_path, "dqn.yml", DQN, "CartPole-v1")
    assert not result.problems
    cfg = compile_config(result.tree)
    assert (cfg.policy.learn.target_update_freq, cfg.policy.learn.target_theta) == (5, None)
    assert (cfg.policy.learn.update_per_collect, cfg.policy.collect.n_sample) == (128, 256)
    assert (cfg.policy.other.eps.decay, cfg.policy.other.eps.end) == (8000, 0.04)


def test_a_frequency_in_steps_is_a_number(tmp_path: Path) -> None:
    text = OFF.format(ent="auto").replace("train_freq: 8", 'n_envs: 2\n  train_freq: [8, "step"]')
    result = made(tmp_path, "sac.yml", text.replace("steps: -1", "steps: 4"), "Pendulum-v1")
    cfg = compile_config(result.tree)
    assert (cfg.policy.collect.n_sample, cfg.policy.learn.update_per_collect) == (16, 4)
    assert "train_freq" not in {each.path for each in result.changes if each.verdict == "lost"}


@pytest.mark.parametrize(
    "name", ["a2c", "crossq", "ddpg", "dqn", "ppo_lstm", "qrdqn", "td3", "tqc"]
)
def test_the_defaults_of_each_algorithm_compile(tmp_path: Path, name: str) -> None:
    env = "CartPole-v1" if name in ("dqn", "qrdqn", "ppo_lstm") else "Pendulum-v1"
    result = made(tmp_path, f"{name}.yml", f"{env}: {{n_timesteps: 1000}}", env)
    assert not result.problems
    assert result.losses == 0


@pytest.mark.parametrize(
    ("name", "text", "entry", "error", "message"),
    [
        ("ppo.yml", PPO, "CartPole-v0", UsageError, "no entry 'CartPole-v0'.*CartPole-v1"),
        ("ars.yml", PPO, "CartPole-v1", UsageError, "no counterpart of 'ars'"),
        ("ppo.yml", "a: [1", "a", ConfigError, "ppo.yml"),
        ("ppo.yml", "- 1", "a", ConfigError, "not a file of hyper-parameters"),
        ("ppo.yml", "a: {policy_kwargs: 'dict(a=f())(('}", "a", ConfigError, "policy_kwargs"),
        ("ppo.txt", PPO, "a", ConfigError, "expected"),
    ],
)
def test_bad_files_are_one_error(
    tmp_path: Path, name: str, text: str, entry: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        made(tmp_path, name, text, entry)


@pytest.mark.parametrize(
    ("text", "observations", "told"),
    [
        ("true", True, "obs_norm"),
        ('"dict(norm_obs=True, norm_reward=False)"', True, "obs_norm"),
        ("\"{'norm_obs': False, 'norm_reward': True}\"", None, "reward_norm: each env"),
        ("false", None, ""),
    ],
)
def test_what_is_normalised(
    tmp_path: Path, text: str, observations: bool | None, told: str
) -> None:
    result = made(tmp_path, "ppo.yml", f"Pendulum-v1: {{normalize: {text}}}", "Pendulum-v1")
    assert result.tree["policy"]["model"].get("obs_norm") is observations
    found = [each.text for each in result.changes if each.path == "normalize"]
    assert bool(told) == bool(found)
    assert told in "".join(found)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ppo", "learning_rate: null", "learning_rate: expected a number, got None"),
        ("ppo", "learning_rate: lin_x", "learning_rate: expected a number, got 'lin_x'"),
        ("a2c", "n_envs: 0", "n_envs: must be >= 1, got 0"),
        ("a2c", "n_steps: .nan", "n_steps: expected a finite number"),
        ("dqn", "train_freq: 0", "train_freq: must be >= 1"),
        ("dqn", "gradient_steps: some", "gradient_steps: expected a number"),
        ("sac", "ent_coef: auto_x", "ent_coef: expected a number, got 'auto_x'"),
        ("sac", "net_arch: 64", "net_arch: expected a list of layer sizes, got 64"),
        ("ppo", "normalize_advantage: 1", "expected true or false, got 1"),
        ("ppo", "normalize: 'dict('", "normalize: neither a bool nor a dict"),
    ],
)
def test_values_of_other_forms_are_named(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(tmp_path, f"{name}.yml", f"Pendulum-v1: {{{value}}}", "Pendulum-v1")


HER = """
FetchReach-v4:
  n_timesteps: 20000
  buffer_size: 1000000
  replay_buffer_class: HerReplayBuffer
  replay_buffer_kwargs: "dict(goal_selection_strategy='final', n_sampled_goal=3)"
"""


def test_hindsight_is_the_reward_model_that_draws_from_whole_episodes(tmp_path: Path) -> None:
    result = made(tmp_path, "tqc.yml", HER, "FetchReach-v4")
    assert not result.problems
    assert result.tree["policy"]["reward_model"] == {
        "type": "her", "strategy": "final", "replay_k": 3,
    }  # fmt: skip
    assert result.tree["policy"]["other"]["replay_buffer"]["type"] == "episode"
    assert "replay_buffer_class: policy.reward_model=her; " in "\n".join(map(str, result.changes))


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json", ".py"])
def test_the_suffix_names_the_format_that_is_written(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ppo.yml").write_text(PPO)
    out = tmp_path / f"c{suffix}"
    words = ["migrate", str(tmp_path / "ppo.yml"), "--env", "CartPole-v1", "-o", str(out)]
    assert main(words) == 0
    assert f"train it: dicore train {out}" in capsys.readouterr().out
    cfg = compile_config(str(out))
    assert cfg.cfg == compile_config(made(tmp_path, "ppo.yml", PPO, "CartPole-v1").tree).cfg


def test_what_cannot_be_written_or_trained_is_not_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tqc.yml").write_text(HER.replace("FetchReach-v4", "NoSuch-v4"))
    words = ["migrate", str(tmp_path / "tqc.yml"), "--env", "NoSuch-v4", "-o"]
    for name in ("c.toml", "c"):
        assert main([*words, str(tmp_path / name)]) == 2
        assert "hint: name a file that ends in .yaml, .yml, .json or .py" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
    assert main([*words, str(tmp_path / "c.yaml")]) == 1
    out = capsys.readouterr().out
    assert "it cannot be trained here: env.env_id: gymnasium has no 'NoSuch-v4'" in out
    assert "train it" not in out


def test_two_files_with_one_name_have_a_row_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("dqn.yml", "dqn.yaml"):
        (tmp_path / name).write_text(DQN)
    assert main(["migrate", str(tmp_path), "-o", str(tmp_path / "made"), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [bool(each["path"]) for each in rows] == [True, False]
    assert "exists" in rows[1]["problem"]


def test_a_folder_of_hyper_parameter_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "hyperparams"
    folder.mkdir()
    (folder / "ppo.yml").write_text(PPO)
    (folder / "tqc.yml").write_text(HER)
    (folder / "notes.yml").write_text("hello: 1")
    assert main(["migrate", str(folder), "-o", str(tmp_path / "made")]) == 0
    assert "3 of 3 configs converted" in capsys.readouterr().out
    names = [
        "dicore.schema.json",
        "ppo_CartPole-v1.yaml",
        "ppo_Pendulum-v1.yaml",
        "tqc_FetchReach-v4.yaml",
    ]
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == names
