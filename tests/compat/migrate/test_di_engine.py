"""Configs in the form of DI-engine become configs that compile, and each difference is named."""

from __future__ import annotations

import copy
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dicore.cli import main
from dicore.config import compile_config
from dicore.errors import ConfigError, ConfigWarning, MissingPackageError, UsageError
from dicore_compat.migrate.command import command
from dicore_compat.migrate.convert import Migrated, migrate
from dicore_compat.migrate.di_engine import convert
from dicore_compat.migrate.di_engine_names import DROPPED, LOST
from dicore_compat.migrate.process import config_dicts
from dicore_registry import default, using
from tests.registry.world import World

_HEAD = """
from copy import deepcopy
from easydict import EasyDict
import torch.nn as nn
from ding.entry import serial_pipeline
from dizoo.box2d.lunarlander.envs import Anything

class Net(nn.Module):
    pass
"""

_TAIL = """
main_config = EasyDict(main_config)
create_config = EasyDict(create_config)
main_config.policy.learn.batch_size = main_config.policy.learn.batch_size * 2
if __name__ == "__main__":
    serial_pipeline((main_config, create_config), seed=0)
"""


def written(folder: Path, main: str, create: str, name: str = "some_config.py") -> Path:
    file = folder / name
    file.write_text(f"{_HEAD}\nmain_config = {main}\ncreate_config = {create}\n{_TAIL}")
    return file


PENDULUM = """dict(
    exp_name="pendulum_td3_seed0",
    env=dict(collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=-250,
             act_scale=True),
    policy=dict(
        cuda=False, random_collect_size=800,
        model=dict(obs_shape=3, action_shape=1, twin_critic=True, action_space="regression",
                   actor_head_hidden_size=128, actor_head_layer_num=2,
                   critic_head_hidden_size=64),
        learn=dict(update_per_collect=2, batch_size=64, learning_rate_actor=1e-3,
                   learning_rate_critic=1e-3, noise=True, noise_sigma=0.1,
                   noise_range=dict(min=-0.5, max=0.5), discount_factor=0.98),
        collect=dict(n_sample=48, noise_sigma=0.2),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=20000, max_use=10)),
    ),
)"""
PENDULUM_CREATE = """dict(
    env=dict(type="pendulum", import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
    replay_buffer=dict(type="naive"),
)"""


def verdicts(made: Migrated) -> dict[str, str]:
    return {each.path: each.verdict for each in made.changes}


class TestFile:
    def test_a_file_that_imports_absent_packages_compiles(self, tmp_path: Path) -> None:
        made = migrate(written(tmp_path, PENDULUM, PENDULUM_CREATE))
        assert not made.problems
        cfg = compile_config(made.tree)
        learn, model = cfg.policy.learn, cfg.policy.model
        assert (learn.batch_size, learn.learning_rate, cfg.policy.discount_factor) == (
            128, 1e-3, 0.98,
        )  # fmt: skip
        assert (learn.target_noise, learn.target_noise_clip) == (0.1, 0.5)
        assert (model.actor_hidden_size_list, model.critic_hidden_size_list) == (
            (128, 128, 128), (64, 64),
        )  # fmt: skip
        assert (model.num_critics, cfg.policy.collect.noise) == (2, 0.2)
        assert cfg.policy.collect.random_collect_size == 800
        assert cfg.policy.other.replay_buffer.max_use == 10
        assert made.losses == 0
        assert verdicts(made)["policy.learn.learning_rate_critic"] == "moved"
        assert verdicts(made)["env.import_names"] == "dropped"

    def test_it_trains_as_it_is_where_nothing_is_lost(self, tmp_path: Path) -> None:
        file = written(tmp_path, PENDULUM, PENDULUM_CREATE)
        with pytest.warns(ConfigWarning, match="act_scale: policies with continuous actions"):
            cfg = compile_config(str(file))
        assert cfg.policy.learn.target_noise == 0.1

    def test_it_is_refused_where_something_is_lost(self, tmp_path: Path) -> None:
        main = PENDULUM.replace("act_scale=True", "termination_penalty=-100")
        file = written(tmp_path, main, PENDULUM_CREATE)
        with pytest.raises(ConfigError, match=r"env\.termination_penalty") as caught:
            compile_config(str(file))
        assert f"dicore migrate {file}" in caught.value.hint

    def test_what_dicore_does_not_know_is_left_out_and_named(self, tmp_path: Path) -> None:
        main = PENDULUM.replace("cuda=False", "cuda=False, curiosity=3, other_part=dict(a=1)")
        made = migrate(written(tmp_path, main, PENDULUM_CREATE))
        assert not made.problems
        assert (verdicts(made)["policy.curiosity"], made.losses) == ("lost", 2)

    def test_a_part_that_dicore_lacks_is_the_problem(self, tmp_path: Path) -> None:
        made = migrate(written(tmp_path, PENDULUM, PENDULUM_CREATE.replace('"td3"', '"atoc"')))
        assert len(made.problems) == 1
        assert "no policy named 'atoc'" in made.problems[0]

    def test_other_configs_beside_it_can_be_imported(self, tmp_path: Path) -> None:
        folder = tmp_path / "dizoo" / "pendulum" / "config"
        folder.mkdir(parents=True)
        written(folder, PENDULUM, PENDULUM_CREATE, "pendulum_config.py")
        second = folder / "second_config.py"
        second.write_text(
            "from dizoo.pendulum.config.pendulum_config import main_config, create_config\n"
            "main_config.policy.cuda = True\n"
        )
        assert migrate(second).tree["policy"]["cuda"] is True


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("main_config = dict(a=1 / 0)", ":1: ZeroDivisionError"),
        ("main_config = dict(\n", "SyntaxError|was never closed"),
        ("import os\nos._exit(3)", "it ended the process"),
        ("print('main_config')", "no 'main_config'"),
        ("main_config = dict()", "no 'create_config'"),
        ("a_config = b_config = dict(); create_config = dict()", "it has a_config, b_config"),
        ("from stable_baselines3 import PPO\nwhile True: pass", "a program of Stable-Baselines3"),
        ("import os, json\nimport tianshou as ts", "a program of tianshou, not a config"),
    ],
)
def test_a_file_without_configs_is_one_error(tmp_path: Path, code: str, message: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(code)
    with pytest.raises(ConfigError, match=message):
        migrate(file)


def test_a_file_that_does_not_end_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "endless.py"
    file.write_text("while True: pass")
    begun = time.monotonic()
    with pytest.raises(ConfigError, match="still running after 1 s"):
        config_dicts(file, time_limit=1)
    assert time.monotonic() - begun < 60


@pytest.mark.skipif(sys.platform == "win32", reason="there are no groups of processes")
@pytest.mark.parametrize("started", ["", "start_new_session=True"])
def test_what_a_file_started_is_ended_too(tmp_path: Path, started: str) -> None:
    """Also in a session of its own, and though it holds the streams of the process."""
    file, told = tmp_path / "starts.py", tmp_path / "pid"
    file.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(200)'],\n"
        f"    {started})\n"
        f"open({str(told)!r}, 'w').write(str(child.pid))\n"
        "main_config = create_config = dict()\n"
    )
    assert config_dicts(file, 60.0)["main_config"] == {}
    pid, until = int(told.read_text()), time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and "Z" not in _state(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return "Z"


def test_what_it_prints_is_no_config(tmp_path: Path) -> None:
    file = tmp_path / "prints.py"
    file.write_text("print('{}')\nmain_config = create_config = dict(a=float('inf'))\n")
    assert config_dicts(file)["main_config"] == {"a": float("inf")}


@pytest.mark.parametrize(
    ("env", "policy", "expected"),
    [
        ({"type": "mujoco", "env_id": "Walk2d-v3"}, "sac", {"env.type": "walker2d"}),
        ({"type": "lunarlander", "env_id": "LunarLander-v2"}, "dqn",
         {"env.env_id": "LunarLander-v3"}),
        ({"type": "lunarlander", "env_id": "LunarLanderContinuous-v2"}, "sac",
         {"env.type": "lunarlander_continuous"}),
        ({"type": "atari", "env_id": "QbertNoFrameskip-v4", "frame_stack": 4}, "dqn",
         {"env.env_id": "ALE/Qbert-v5", "env.repeat_action_probability": 0.0}),
        ({"type": "bitflip", "n_bits": 5}, "dqn_command",
         {"env.type": "bit_flip", "env.step_reward": 0.0}),
        ({"type": "gym_hybrid", "env_id": "Moving-v0"}, "pdqn", {"env.type": "moving"}),
        ({"type": "frozen_lake", "is_slippery": False}, "dqn",
         {"env.make_kwargs": {"is_slippery": False}}),
        ({"type": "pendulum", "continuous": False}, "dqn",
         {"env.env_wrapper.0.bins": 11}),
    ],
)  # fmt: skip
def test_environments_and_policies_have_their_names_here(
    env: dict[str, Any], policy: str, expected: dict[str, Any]
) -> None:
    main = {"env": {**env, "evaluator_env_num": 2}, "policy": {}}
    tree, _ = convert(main, {"policy": {"type": policy}})
    cfg = compile_config(tree)
    for path, value in expected.items():
        found: Any = cfg
        for key in path.split("."):
            found = found[int(key)] if key.isdigit() else getattr(found, key)
        assert found == value


@pytest.mark.parametrize("several", [True, False])
def test_the_mask_of_several_passes_is_that_of_the_arguments(several: bool) -> None:
    mask = [[1, 0], [0, 1], [0, 0]]
    main = {
        "env": {"type": "gym_hybrid", "env_id": "Moving-v0", "evaluator_env_num": 2},
        "policy": {"model": {"multi_pass": several, "action_mask": mask}},
    }
    tree, changes = convert(main, {"policy": {"type": "pdqn"}})
    assert not [each for each in changes if each.verdict == "lost"]
    found = compile_config(tree).cfg.policy.model.args_mask
    assert found == (tuple(map(tuple, mask)) if several else None)


def test_hindsight_is_a_reward_model() -> None:
    her = {"her_strategy": "final", "her_replay_k": 2, "episode_size": 32, "sample_per_episode": 4}
    main = {"env": {"type": "bitflip", "n_bits": 5}, "policy": {"other": {"her": her}}}
    create = {"policy": {"type": "dqn"}, "replay_buffer": {"type": "episode"}}
    tree, _ = convert(main, create)
    cfg = compile_config(tree).cfg.policy
    model = cfg.reward_model
    assert (model.type, model.strategy, model.replay_k) == ("her", "final", 2)
    assert (model.episode_size, model.sample_per_episode) == (32, 4)
    assert cfg.other.replay_buffer.type == "episode"


@pytest.mark.parametrize(
    ("policy", "main", "expected"),
    [
        ("sac", {}, {"collect.random_collect_size": 10_000, "learn.update_per_collect": 1,
                     "learn.alpha": 0.2, "other.replay_buffer.replay_buffer_size": 1_000_000,
                     "model.actor_hidden_size_list": (64, 64)}),
        ("sac", {"random_collect_size": 0, "learn": {"alpha": 1.0, "update_per_collect": 64},
                 "collect": {"n_sample": 64}, "model": {"actor_head_hidden_size": 32}},
         {"collect.random_collect_size": 0, "learn.alpha": 1.0, "learn.update_per_collect": 64,
          "collect.n_sample": 64, "model.actor_hidden_size_list": (32, 32)}),
        ("dqn", {"model": {"encoder_hidden_size_list": [32, 16]}},
         {"learn.criterion": "mse", "model.dueling": True, "model.head_hidden_size_list": (16,)}),
        ("dqn", {"model": {"dueling": False, "head_layer_num": 2}, "learn": {"target_theta": 0.01}},
         {"model.dueling": False, "model.head_hidden_size_list": (64, 64),
          "learn.target_theta": None, "learn.target_update_freq": 100}),
        ("ppo", {"learn": {"value_norm": False}},
         {"model.value_norm": False, "learn.recompute_adv": True, "model.share_encoder": True,
          "model.actor_head_hidden_size_list": (64,), "model.activation": "relu"}),
        ("ppo", {"model": {"sigma_type": "fixed", "fixed_sigma_value": 0.5}},
         {"model.log_std_init": -0.6931}),
        ("ppo", {"model": {"sigma_type": "independent", "actor_head_layer_num": 0}},
         {"model.actor_head_hidden_size_list": ()}),
        ("ppo", {"on_policy": False}, {"learn.update_per_collect": 5, "learn.adv_norm": False}),
        ("r2d2", {}, {"learn.target_theta": 0.001, "collect.unroll_len": 80}),
        ("bc", {"learn": {"optimizer": "Adam", "weight_decay": 0.1, "momentum": 0.9}},
         {"learn.optimizer.type": "adam", "learn.optimizer.weight_decay": 0.1}),
        ("bc", {}, {"learn.optimizer.type": "sgd", "learn.optimizer.momentum": 0.9}),
        ("pg", {"collect": {"n_episode": 8, "collector": {"type": "episode"}}},
         {"collect.n_episode": 8, "collect.collector.get_train_sample": True}),
        ("td3", {"learn": {"noise": False}}, {"learn.target_noise": 0.0}),
        ("sql", {"learn": {"alpha": 0.3}},
         {"type": "sql", "learn.alpha": 0.3, "other.eps.start": 0.95, "model.dueling": True}),
    ],
)  # fmt: skip
def test_what_a_config_leaves_out_is_what_di_engine_takes(
    policy: str, main: dict[str, Any], expected: dict[str, Any]
) -> None:
    env = {"evaluator_env_num": 2, "stop_value": 195}
    name = "pendulum" if policy in ("sac", "td3") else "cartpole"
    tree, changes = convert(
        {"env": env, "policy": main}, {"env": {"type": name}, "policy": {"type": policy}}
    )
    cfg: Any = compile_config(tree)
    for path, value in expected.items():
        found = cfg.policy
        for key in path.split("."):
            found = getattr(found, key)
        assert found == value, path
    told = {each.path for each in changes if "default of DI-engine" in each.text}
    assert told <= {each.path for each in changes if each.verdict == "changed"}


@pytest.mark.parametrize(
    ("policy", "main", "expected"),
    [
        ("td3_bc", {"learn": {"alpha": 2.5, "train_epoch": 3}, "collect": {"data_path": "d.hdf5"}},
         {"pipeline.dataset.path": "d.hdf5", "policy.learn.alpha": 2.5}),
        ("cql", {"learn": {"min_q_weight": 5.0, "data_path": None}},
         {"pipeline.dataset.path": "data.npz", "policy.learn.conservative_weight": 5.0}),
        ("dt", {"context_len": 9, "rtg_target": 200, "clip_grad_norm_p": 0.5,
                "model": {"h_dim": 32, "n_blocks": 1, "state_dim": 3}},
         {"policy.collect.unroll_len": 9, "policy.eval.target_return": 200.0,
          "policy.learn.max_grad_norm": 0.5, "policy.model.hidden_size": 32,
          "pipeline.dataset.derived": ("return_to_go", "timestep"),
          "pipeline.dataset.unroll_len": 9}),
        ("dt", {}, {"policy.collect.unroll_len": 20, "pipeline.dataset.unroll_len": 20}),
        ("edac", {"learn": {"eta": 5.0}, "model": {"ensemble_num": 7}},
         {"policy.learn.diversity": 5.0, "policy.model.num_critics": 7}),
    ],
)  # fmt: skip
def test_offline_algorithms(policy: str, main: dict[str, Any], expected: dict[str, Any]) -> None:
    env = {"evaluator_env_num": 2, "stop_value": -200, "env_id": "hopper-expert-v2"}
    tree, changes = convert({"env": env, "policy": main}, {
        "env": {"type": "d4rl"}, "policy": {"type": policy},
    })  # fmt: skip
    cfg: Any = compile_config(tree)
    assert cfg.env.type == "hopper"
    for path, value in expected.items():
        found = cfg
        for key in path.split("."):
            found = getattr(found, key)
        assert found == value, path
    lost = {each.path for each in changes if each.verdict == "lost"}
    assert lost == ({"policy.learn.train_epoch"} if policy == "td3_bc" else set())


def test_the_entry_function_says_which_algorithm(tmp_path: Path) -> None:
    main = PENDULUM.replace("act_scale=True", "act_scale=True").replace("noise=True, ", "")
    create = PENDULUM_CREATE.replace('"td3"', '"sac"')
    file = written(tmp_path, main, create)
    file.write_text(file.read_text().replace("serial_pipeline", "serial_pipeline_sqil"))
    made = migrate(file)
    assert (made.tree["policy"]["type"], made.problems) == ("sqil_sac", ())


@pytest.mark.parametrize(("learn", "temperature"), [({}, 0.1), ({"alpha": 0.3}, 0.3)])
def test_imitation_by_sql_is_sqil_with_its_temperature(
    learn: dict[str, Any], temperature: float
) -> None:
    main = {"env": {"evaluator_env_num": 2, "stop_value": 195}, "policy": {"learn": learn}}
    create = {"env": {"type": "cartpole"}, "policy": {"type": "sql"}}
    cfg: Any = compile_config(convert(main, create, "serial_pipeline_sqil")[0])
    assert (cfg.policy.type, cfg.policy.model.temperature) == ("sqil", temperature)


@pytest.mark.parametrize(
    ("policy", "learn", "option", "value"),
    [("dqfd", {"lambda2": 3.0, "lambda1": 0.5}, "margin_weight", 3.0),
     ("r2d3", {"margin_function": 0.6}, "margin", 0.6)],
)  # fmt: skip
def test_demonstrations_have_a_buffer_of_their_own(
    policy: str, learn: dict[str, Any], option: str, value: float
) -> None:
    main = {
        "env": {"evaluator_env_num": 2, "stop_value": 195},
        "policy": {"learn": learn, "other": {"replay_buffer": {"replay_buffer_size": 77}}},
    }
    tree, _ = convert(main, {"env": {"type": "cartpole"}, "policy": {"type": policy}})
    cfg: Any = compile_config(tree)
    assert getattr(cfg.policy.learn, option) == value
    assert cfg.policy.other.replay_buffer.agent.replay_buffer_size == 77
    assert cfg.policy.other.replay_buffer.demo is not None


def test_the_commands_that_the_tables_name_exist() -> None:
    """What a reason tells the reader to type has the options of that command."""
    told = "\n".join([*DROPPED.values(), *LOST.values()])
    named = re.findall(r"dicore (\w+)[^;\n]*?(--[\w-]+)", told)
    assert ("eval", "--replay-path") in named
    for name, option in named:
        known = default().resolve("command", name).target
        assert option in {each for param in known.params for each in param.opts}, (name, option)


def test_a_python_file_has_no_entries(tmp_path: Path) -> None:
    file = written(tmp_path, PENDULUM, PENDULUM_CREATE)
    with pytest.raises(UsageError, match="leave them out"):
        migrate(file, "CartPole-v1")


class TestCommand:
    def test_a_file_is_written_once(self, tmp_path: Path) -> None:
        file, out = written(tmp_path, PENDULUM, PENDULUM_CREATE), tmp_path / "config.yaml"
        assert main(["migrate", str(file), "-o", str(out)]) == 0
        text = out.read_text()
        assert "# moved   policy.learn.noise_sigma: policy.learn.target_noise = 0.1" in text
        assert yaml.safe_load(text)["policy"]["type"] == "td3"
        assert compile_config(str(out)).policy.learn.target_noise == 0.1
        again = CliRunner().invoke(copy.copy(command), [str(file), "-o", str(out)])
        assert "exists" in str(again.exception)

    def test_a_folder_is_converted_file_by_file(self, tmp_path: Path) -> None:
        source = tmp_path / "zoo"
        (source / "config").mkdir(parents=True)
        written(source / "config", PENDULUM, PENDULUM_CREATE, "good_config.py")
        bad = PENDULUM_CREATE.replace('"td3"', '"atoc"')
        written(source / "config", PENDULUM, bad, "bad_config.py")
        (source / "config" / "env.py").write_text("raise SystemExit('not a config')")
        result = CliRunner().invoke(copy.copy(command), [str(source), "-o", str(tmp_path / "out")])
        assert result.exit_code == 1
        assert "1 of 2 configs converted" in result.output
        assert "no policy named 'atoc'" in result.output
        assert [each.name for each in (tmp_path / "out").rglob("*.yaml")] == ["good_config.yaml"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("env.type", [], "env.type: expected a name, got"),
        ("policy.eval.evaluator.eval_freq", None, "eval_freq: expected a number, got None"),
        ("policy.other.eps.decay", float("nan"), "eps.decay: expected a number, got nan"),
        ("policy.model.encoder_hidden_size_list", -1, "expected a list of layer sizes, got -1"),
        ("policy.model.fixed_sigma_value", 0, "fixed_sigma_value: expected a number above 0"),
        ("policy.learn.noise_range", {}, "noise_range: expected {min: …, max: …}, got {}"),
        ("reward_model", None, "reward_model: expected a dict, got None"),
    ],
)
def test_values_of_other_forms_are_named(path: str, value: Any, message: str) -> None:
    main: dict[str, Any] = {"policy": {"model": {"sigma_type": "fixed"}, "learn": {"noise": True}}}
    *above, last = path.split(".")
    at = main
    for key in above:
        at = at.setdefault(key, {})
    at[last] = value
    with pytest.raises(ConfigError) as error:
        convert(main, {"policy": {"type": "td3"}})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("span", "verdict", "text"),
    [
        ({"min": -0.2, "max": 0.5}, "lost", "min was -0.2"),
        ({"max": 0.5}, "moved", "target_noise_clip = 0.5"),
    ],
)
def test_an_uneven_range_of_noise_is_told(span: dict[str, float], verdict: str, text: str) -> None:
    learn = {"noise": True, "noise_range": span}
    _, changes = convert({"policy": {"learn": learn}}, {"policy": {"type": "td3"}})
    (found,) = [each for each in changes if each.path == "policy.learn.noise_range"]
    assert found.verdict == verdict
    assert text in found.text


def test_without_this_package_its_name_is_told(tmp_path: Path) -> None:
    world = World(tmp_path / "site", tmp_path / "house")
    world.own("dicore", "dicore-tools")
    file = tmp_path / "pole.py"
    file.write_text("from easydict import EasyDict\n")
    text = "pole.py, of DI-engine' comes with dicore-compat: pip install dicore-compat"
    with using(world.registry()), pytest.raises(MissingPackageError, match=text):
        compile_config(str(file))
