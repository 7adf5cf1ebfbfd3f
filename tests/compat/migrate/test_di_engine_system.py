"""DI-engine's `system_config`, and the parts of a parallel `create_config`."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import compile_config
from dicore.errors import ConfigError

MAIN = {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}}
CREATE = {
    "pipeline": "dist",
    "commander": {"type": "solo"},
    "comm_learner": {"type": "flask_fs", "import_names": ["ding.worker.learner.comm"]},
    "comm_collector": {"type": "flask_fs"},
}
SYSTEM = {
    "coordinator": {
        "operator_server": {"system_addr": "http://operator:8080", "api_version": "v1"},
        "port": "auto",
        "collector_task_timeout": 30,
        "learner_task_timeout": 600,
    },
    "path_data": "./run/data",
    "path_policy": "./run/policy",
    "communication_mode": "auto",
    "learner_gpu_num": 1,
    "learner0": {"host": "10.0.0.1", "port": 22000},
    "collector0": {"host": "10.0.0.2", "port": 22270},
    "collector1": {"host": "10.0.0.3", "port": 22271},
    "max_retries": 7,
}


def refused(system: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        compile_config([MAIN, CREATE, system])
    return str(caught.value)


def test_a_third_dict_says_where_the_processes_are() -> None:
    for form in (
        [MAIN, CREATE, SYSTEM],
        {"main_config": MAIN, "create_config": CREATE, "system_config": SYSTEM},
    ):
        found = compile_config(form).pipeline.system
        assert (found.operator, found.task_timeout, found.max_retries) == ("operator:8080", 600, 7)
        assert (found.path_data, found.path_policy) == ("./run/data", "./run/policy")
        assert (found.learner_host, found.learner_port) == ("10.0.0.1", 22000)
        assert (found.collector_num, found.collector_port) == (2, 22270)
        assert found.collector_host == "10.0.0.2,10.0.0.3"


def test_commander_and_comm_parts_of_a_create_config_belong_to_the_system() -> None:
    found = compile_config([MAIN, CREATE]).pipeline.system
    assert found.commander.type == "solo"
    assert found.comm == ("flask_fs", "flask_fs")
    names = {"comm_learner": "ray", "comm_collector": "ray"}
    both = [MAIN, {"pipeline": "dist", **names}, {"start": "threads"}]
    assert compile_config(both).pipeline.system.comm == ("ray", "ray")


def test_all_entries_of_a_system_config_that_mean_nothing_are_told_together() -> None:
    text = refused(
        {
            "comunication_mode": "auto",
            "coordinator": {"operator_sever": {}, "port": 80},
            "learner0": {"hst": "here"},
            "learner1": {},
            "collector0": {"port": 5},
            "collector1": {"port": 9},
            "learner_gpu_num": 2,
        }
    )
    for each in (
        "system_config.comunication_mode: unknown key; did you mean 'communication_mode'?",
        "coordinator.operator_sever: unknown key; did you mean 'operator_server'?",
        "coordinator.port: nothing connects to the coordinator; leave it out",
        "learner0.hst: unknown key; did you mean 'host'?",
        "learner1: there is one learner; expected learner0",
        "collector0.port: expected ports that follow each other",
        "learner_gpu_num: one learner is trained",
    ):
        assert each in text
    assert "did you mean 'path_data'" in refused({"path_dta": "x"})
