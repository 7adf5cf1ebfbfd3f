"""What the serial pipeline refuses: parts that contradict each other or lack methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dicore import register
from dicore.config import bind, compile_config, frozen, option
from dicore.errors import ConfigError, ConfigWarning, UsageError
from dicore.run.env_factory import BuildContext, make_env_manager, spec_of
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.pipelines import serial_pipeline
from dicore_plugins.pipelines.parts import Parts, build_parts
from dicore_plugins.policies.value.dqn_config import DQNConfig
from dicore_registry import Registry, using

CARTPOLE = ["env=cartpole", "policy=dqn"]


def check(main: Path | None, *overrides: str) -> Any:
    said = overrides if main is not None else [*CARTPOLE, *overrides]
    compiled = compile_config(main, overrides=list(said))
    compiled = bind(compiled, spec_of(compiled.env, compiled.seed))
    compiled.pipeline.build(BuildContext(seed=0)).check(compiled)
    return compiled


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["policy.priority=true", "replay_buffer=naive"],
            "policy.priority: buffer 'naive' samples uniformly; expected False",
        ),
        (
            ["policy.priority_IS_weight=true"],
            "policy.priority_IS_weight: has no effect without policy.priority; expected False",
        ),
        (
            ["policy.on_policy=true"],
            "policy.on_policy: dqn learns from a replay buffer; set it to False",
        ),
        (["policy=random"], "policy.type: 'random' cannot be trained"),
        (
            ["pipeline.logger=[csv,console,csv]"],
            "pipeline.logger[2]: 'csv' is there already; leave it out",
        ),
        (
            ["replay_buffer.mine.type=naive", "replay_buffer.demo.type=naive"],
            "policy.other.replay_buffer: one of several buffers must be named 'agent'; it gets the"
            " collected samples",
        ),
        (
            ["replay_buffer.agent.share=0.5", "replay_buffer.older.share=0.75"],
            "policy.other.replay_buffer: the shares of all buffers sum up to 1.25; expected 1",
        ),
        (
            ["replay_buffer.share=0.5"],
            "policy.other.replay_buffer.share: has no effect with a single buffer; remove it",
        ),
    ],
)
def test_what_would_train_nothing_or_not_as_it_says(overrides: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(None, *overrides)
    assert caught.value.problems == (problem,)


def test_all_of_it_at_once_with_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "env:\n  type: cartpole\npipeline:\n  expert: random\npolicy:\n  type: dqn\n"
        "  priority: true\n  replay_buffer: naive\n"
    )
    with pytest.raises(ConfigError) as caught:
        check(file)
    told = [(line.partition(":")[0], line.rpartition(" ")[2]) for line in caught.value.problems]
    assert told == [
        ("pipeline.expert", f"({file}:4)"),
        ("policy.priority", f"({file}:7)"),
    ]


def test_what_fits_is_accepted() -> None:
    check(None, "env.evaluator_env_num=2", "env.n_evaluator_episode=2")


def test_a_buffer_derived_from_the_uniform_one_may_keep_priorities() -> None:
    with using(Registry()):

        @register("buffer", "prioritized")
        class Prioritized(NaiveReplayBuffer):
            """Samples by priority."""

        check(None, "policy.other.replay_buffer.type=prioritized", "policy.priority=true")


def test_updates_per_step_of_an_on_policy_policy_are_refused() -> None:
    with using(Registry()):

        @register("policy", "fresh")
        @frozen(kw_only=True)
        class FreshConfig(DQNConfig):
            """Learns on-policy."""

            on_policy: bool = option(True, "True: it learns from the samples of the last collect")

            def check(self) -> Any:
                return ()

        check(None, "policy.type=fresh")
        with pytest.raises(ConfigError, match=r"update_per_step: has no effect: 'fresh' learns on"):
            check(None, "policy.type=fresh", "policy.learn.update_per_step=1")


# ---- parts that are not what their role says


SECTIONS = {
    "collector": ("policy.collect.collector", "collect_batch, reset_policy, close"),
    "evaluator": ("policy.eval.evaluator", "should_eval, eval, close"),
    "learner": ("policy.learn.learner", "train, register_hook, call_hook, close"),
    "buffer": ("policy.other.replay_buffer", "push, count, sample_batch, state_dict"),
}


@pytest.mark.parametrize("role", SECTIONS)
def test_a_part_without_the_methods_of_its_role_is_refused(role: str) -> None:
    path, missing = SECTIONS[role]
    main: dict[str, Any] = {
        "env": {"type": "cartpole", "n_evaluator_episode": 2, "evaluator_env_num": 2},
        "policy": {"type": "dqn"},
    }
    with using(Registry()):

        @register(role, "odd")
        class Odd:
            """Has nothing of it."""

            def __init__(self, **parts: Any) -> None: ...

        compiled = compile_config(main, overrides=[f"{path}.type=odd"])
        compiled = bind(compiled, spec_of(compiled.env, compiled.seed))
        with pytest.raises(UsageError, match=f"Odd is not a {role}: it lacks {missing}") as told:
            build_parts(compiled.cfg)
    assert f"--kind {role}" in told.value.hint


def test_one_seed_for_all_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = check(None, "env.manager.dynamic_seed=false", "env.collector_env_num=2")
    seeds: dict[str, list[Any]] = {"collector": [], "evaluator": []}
    for role, seen in seeds.items():
        manager = make_env_manager(compiled.cfg.env, role, 3)
        manager.launch()
        for _ in range(3):
            seen.append(manager.ready_obs.value[0].tolist())
            manager.reset()
        manager.close()
    assert seeds["collector"][0] == seeds["collector"][1] == seeds["collector"][2]
    assert seeds["evaluator"][0] != seeds["evaluator"][1]


def test_env_setting_is_refused() -> None:
    with pytest.raises(UsageError, match="from its config alone"):
        serial_pipeline({}, env_setting=(None, [], []))


@pytest.mark.parametrize("pipeline", ["serial_onpolicy", "parallel", "dist"])
def test_every_pipeline_refuses_a_logger_that_is_named_twice(pipeline: str) -> None:
    with pytest.raises(ConfigError, match="'usage' is there already"):
        compile_config(None, overrides=[
            "env=cartpole", "policy=ppo", f"pipeline={pipeline}", "pipeline.logger=[usage,usage]",
        ])  # fmt: skip


def test_a_logger_may_be_there_twice_with_other_options() -> None:
    loggers = "pipeline.logger=[csv,{type: csv, name: other.csv}]"
    assert len(compile_config(None, overrides=[*CARTPOLE, loggers]).pipeline.logger) == 2


def test_arguments_by_position_are_those_of_the_documents(tmp_path: Path) -> None:
    """serial_pipeline(cfg, seed, env_setting, model, max_train_iter, max_env_step)."""
    config = {
        "exp_name": str(tmp_path / "run"),
        "env": {"type": "cartpole", "evaluator_env_num": 1, "n_evaluator_episode": 1},
        "policy": {"type": "dqn"}, "pipeline": {"logger": []},
    }  # fmt: skip
    serial_pipeline(config, 0, None, None, 3.0, 400)
    result = json.loads((tmp_path / "run/run.json").read_text())["result"]
    assert result["train_iter"] == 3
    with pytest.raises(UsageError, match=r"max_train_iter must be a whole number, got 1\.5"):
        serial_pipeline(config, 0, None, None, 1.5)


DING_MAIN = {
    "exp_name": "cartpole_dqn_seed0",
    "env": {"collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1,
            "stop_value": 195},
    "policy": {
        "cuda": False, "nstep": 1, "discount_factor": 0.97,
        "model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16]},
        "learn": {"batch_size": 8, "learning_rate": 0.001, "update_per_collect": 2},
        "collect": {"n_sample": 8},
        "other": {"eps": {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000},
                  "replay_buffer": {"replay_buffer_size": 100}},
    },
}  # fmt: skip
DING_CREATE = {
    "env": {"type": "cartpole", "import_names": ["dizoo.classic_control.cartpole.envs"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "dqn"},
}


def test_configs_of_di_engine_are_converted_as_on_the_command_line(tmp_path: Path) -> None:
    target = str(tmp_path / "run")
    with pytest.warns(ConfigWarning, match="a config of DI-engine, read as"):
        serial_pipeline([DING_MAIN, DING_CREATE], 0, max_env_step=50, exp_name=target)
    assert compile_config(tmp_path / "run/config.json").policy.discount_factor == 0.97
    assert DING_CREATE["env"]["import_names"], "what was passed is not changed"


def test_there_are_no_more_environments_than_episodes() -> None:
    cfg = check(None, "env.evaluator_env_num=3", "env.n_evaluator_episode=2").cfg
    envs = Parts(cfg, collects=False).evaluator_env
    assert envs.env_num == 2
    envs.close()
