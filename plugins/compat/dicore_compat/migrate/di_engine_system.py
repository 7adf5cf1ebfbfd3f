"""DI-engine's `system_config`: where the processes of a run are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dicore.errors import ConfigError
from dicore_registry.explain import nearest

__all__ = ["system_of_di_engine"]

_KEYS = ("communication_mode", "coordinator", "learner", "learner_gpu_num", "learner_num")
_COORDINATOR = "operator_server", "collector_task_timeout", "learner_task_timeout", "host", "port"
_PROCESS = re.compile(r"(learner|collector)[0-9]*")
_OPTIONS = (
    *("address", "commander", "comm_collector", "comm_learner", "operator", "start"),
    *("collector_host", "collector_num", "collector_port", "learner_host", "learner_port"),
    *("path_data", "path_policy", "task_timeout"),
)


def system_of_di_engine(system: Mapping[str, Any]) -> dict[str, object]:
    """Returns the options of `pipeline.system` of a `system_config`.

    The names of dicore's options remain. `auto` is a free port or this machine.

    Args:
        system: `coordinator`, `path_data`, `path_policy`, `communication_mode`, `learner_gpu_num`,
            and `host` and `port` of `learner0`, `collector0`, ….

    Raises:
        ConfigError: all entries that dicore cannot follow.
    """
    made: dict[str, Any] = {}
    processes = {name: each for name, each in system.items() if _PROCESS.fullmatch(name)}
    problems = [
        f"system_config.{problem}"
        for name, value in system.items()
        if name not in processes
        for problem in _entry(name, value, made)
    ]
    problems += [f"system_config.{problem}" for problem in _processes(processes, made)]
    if problems:
        raise ConfigError(sorted(problems))
    return made


def _entry(name: str, value: Any, made: dict[str, Any]) -> Iterator[str]:
    """Sets the options of an entry of all processes; yields what dicore cannot follow."""
    if name == "communication_mode":
        if value != "auto":
            yield f"{name}: expected 'auto', got {value!r}"
    elif name == "learner_gpu_num":
        if value not in (0, 1):
            yield f"{name}: one learner is trained, on one GPU; expected 0 or 1"
    elif name == "learner_num":
        if value != 1:
            yield f"{name}: expected 1, got {value!r}; for several: -m parallel"
    elif name == "coordinator":
        yield from _coordinator(value, made)
    else:
        near = "" if name in _OPTIONS else nearest(name, (*_KEYS, *_OPTIONS))
        if near in _KEYS:
            yield f"{name}: unknown key; did you mean '{near}'?"
        else:
            made[name] = value  # dicore's own options, whose names the config checks


def _processes(processes: Mapping[str, Any], made: dict[str, Any]) -> Iterator[str]:
    """Sets where learner and collectors are; yields what dicore cannot follow."""
    collectors: dict[int, Mapping[str, Any]] = {}
    for name, value in processes.items():
        problem = _process_problem(name, value)
        digits = name.removeprefix("collector")
        if problem:
            yield problem
        elif digits != name:
            collectors[int(digits or 0)] = value
        elif name in ("learner", "learner0"):
            made |= {f"learner_{key}": each for key, each in _given(value).items()}
        else:
            yield f"{name}: there is one learner; expected learner0"
    yield from _collectors(collectors, made)


def _given(process: Mapping[str, Any]) -> dict[str, object]:
    return {key: value for key, value in process.items() if value not in (None, "auto")}


def _process_problem(name: str, value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return f"{name}: expected a dict of host and port, got {value!r}"
    unknown = next((key for key in value if key not in ("host", "port")), None)
    if unknown is None:
        return None
    near = nearest(unknown, ("host", "port"))
    return f"{name}.{unknown}: unknown key; " + (
        f"did you mean '{near}'?" if near else "expected host or port"
    )


def _coordinator(value: Any, made: dict[str, Any]) -> Iterator[str]:
    """Sets the options that replace those of a coordinator; yields what none replaces."""
    if not isinstance(value, Mapping):
        yield f"coordinator: expected a dict, got {value!r}"
        return
    for key, each in value.items():
        at = f"coordinator.{key}"
        if key not in _COORDINATOR:
            near = nearest(key, _COORDINATOR)
            yield f"{at}: unknown key; " + (f"did you mean '{near}'?" if near else "remove it")
        elif key in ("host", "port"):
            if each not in (None, "auto"):
                yield f"{at}: nothing connects to the coordinator; leave it out"
        elif key == "operator_server":
            address = each.get("system_addr") if isinstance(each, Mapping) else each
            if each and not isinstance(address, str):
                yield f"{at}.system_addr: expected host:port, got {address!r}"
            made |= {"operator": re.sub(r"^https?://", "", address)} if address else {}
        elif isinstance(each, bool) or not isinstance(each, int | float):
            yield f"{at}: expected a number of seconds, got {each!r}"
        else:
            made["task_timeout"] = max(float(each), made.get("task_timeout", 0.0))


def _collectors(found: Mapping[int, Mapping[str, Any]], made: dict[str, Any]) -> Iterator[str]:
    """Sets number, hosts and first port of the collectors; yields what one port cannot tell."""
    if not found:
        return
    if sorted(found) != list(range(len(found))):
        yield f"collector{max(found)}: expected collector0 to collector{len(found) - 1}"
        return
    made["collector_num"] = len(found)
    each = [_given(found[index]) for index in range(len(found))]
    hosts = [str(one["host"]) for one in each if "host" in one]
    if hosts and len(hosts) < len(each):
        yield "collector0.host: name the hosts of all collectors, or of none"
    elif hosts:
        made["collector_host"] = ",".join(hosts) if len(set(hosts)) > 1 else hosts[0]
    ports = [one.get("port") for one in each]
    first = ports[0]
    if any(port is not None for port in ports):
        if not isinstance(first, int) or ports != [first + i for i in range(len(ports))]:
            yield f"collector0.port: expected ports that follow each other, or 'auto'; got {ports}"
        else:
            made["collector_port"] = first
