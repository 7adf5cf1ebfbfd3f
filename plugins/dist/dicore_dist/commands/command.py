"""`dicore -m dist`: the commands of a training in several processes, on one machine or many.

`--module config` writes a file that the others read: the compiled config, as JSON, and the token.
"""

from __future__ import annotations

import os
import re
import runpy
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from dicore.cli.train import Announcer
from dicore.config import compile_config
from dicore.config.writer import saved_tree
from dicore.console import own_process, say, verbosity
from dicore.data.json_codec import dumps, loads
from dicore.errors import ConfigError, UsageError
from dicore.run.atomic import read_json
from dicore.run.launch import TrainRequest, compile_request, launch
from dicore.run.request import folder_name
from dicore_dist.coordinator.journal import is_finished
from dicore_dist.links.channel import TOKEN_VARIABLE, token_of
from dicore_plugins.private import opener
from dicore_registry import code_paths
from dicore_registry.public_names import public_name

__all__ = ["command"]

_MODULES: Final = ("config", "learner", "collector", "coordinator")
_FORMAT: Final = "dicore-dist"
_EPILOG = """\b
One training on this machine:
  dicore -m dist -e cartpole -p dqn -s 0
\b
Its processes one by one:
  dicore -m dist --module config -p local -c cartpole_dqn_config.py -s 0
  dicore -m dist --module learner --module-name learner0 -c cartpole_dqn_config.py.pkl -s 0 &
  dicore -m dist --module collector --module-name collector0 -c cartpole_dqn_config.py.pkl -s 0 &
  dicore -m dist --module collector --module-name collector1 -c cartpole_dqn_config.py.pkl -s 0 &
  dicore -m dist --module coordinator -p local -c cartpole_dqn_config.py.pkl -s 0

The file is JSON, whatever its name says, and holds the token of the training: keep it private.
Values of -lh, -lp, -clh and -clp come from the command line, else from DICORE_LEARNER_HOST,
DICORE_LEARNER_PORT, DICORE_COLLECTOR_HOST and DICORE_COLLECTOR_PORT, else from the config.
"""

_ADDRESSES: Final = {
    "learner_host": ("-lh", "--learner-host"),
    "learner_port": ("-lp", "--learner-port"),
    "collector_host": ("-clh", "--collector-host"),
    "collector_port": ("-clp", "--collector-port"),
    "coordinator_host": ("-cdh", "--coordinator-host"),
    "coordinator_port": ("-cdp", "--coordinator-port"),
    "aggregator_host": ("-agh", "--aggregator-host"),
    "aggregator_port": ("-agp", "--aggregator-port"),
}


_CONNECTS = "the coordinator connects to the others"
_UNUSED: Final = {
    "coordinator_host": _CONNECTS,
    "coordinator_port": _CONNECTS,
    "aggregator_host": "there is no aggregator",
    "aggregator_port": "there is no aggregator",
}


def _address_options(function: Any) -> Any:
    for name, flags in reversed(_ADDRESSES.items()):
        kind, _, what = name.partition("_")
        numeric = what == "port"
        text = f"{what.capitalize()} of the {kind}."
        if name in _UNUSED:
            text = f"{what.capitalize()} of the {kind}; no effect: {_UNUSED[name]}."
        option = click.option(
            *flags,
            name,
            type=click.IntRange(0, 65535) if numeric else str,
            metavar="PORT" if numeric else "HOST",
            help=text,
        )
        function = option(function)
    return function


@click.command(
    name="dist", epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.argument("words", nargs=-1, metavar="[FILE|manifest] [a.b=c]...")
@click.option("--module", type=click.Choice(_MODULES),
              help="What to run; without it, the whole training runs on this machine.")  # fmt: skip
@click.option("--module-name", metavar="NAME",
              help="Name of the process: learner0, collector0, collector1, …")  # fmt: skip
@click.option("-c", "--config", metavar="FILE",
              help="Config file; for processes, the file that --module config wrote.")  # fmt: skip
@click.option("-e", "--env", metavar="NAME", help="Environment, or a Gymnasium id.")
@click.option("-p", "--platform", "platform", metavar="PLATFORM|POLICY",
              help="local or slurm; without --module, the algorithm.")  # fmt: skip
@click.option("--policy", metavar="NAME", help="Algorithm (dicore list policy).")
@click.option("-s", "--seed", type=click.IntRange(0), help="Random seed.")
@click.option("--exp-name", "--exp_name", metavar="DIR", help="Run folder.")
@click.option("--trust", is_flag=True, help="Run code that a run or its config.json names by path.")
@click.option("-n", "--steps", "--max-env-step", "--env-step", "max_env_step",
              type=click.IntRange(1), help="Stop after this number of env steps.")  # fmt: skip
@click.option("--max-train-iter", "--train-iter", type=click.IntRange(1),
              help="Stop after this number of gradient updates.")  # fmt: skip
@click.option("--image", metavar="IMAGE", default="dicore:latest",
              help="With manifest: container image with dicore and Ray.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), default=2,
              help="With manifest: worker pods, one collector each.  [default: 2]")  # fmt: skip
@click.option("--gpus", type=click.IntRange(0), default=0,
              help="With manifest: GPUs of the head pod.  [default: 0]")  # fmt: skip
@click.option("--namespace", default="default", metavar="NAME",
              help="With manifest: Kubernetes namespace.  [default: default]")  # fmt: skip
@_address_options
@verbosity
@click.pass_context
def command(ctx: click.Context, /, words: Sequence[str], **given: Any) -> None:
    """Trains with a learner, collectors and a coordinator as processes of their own."""
    own_process()
    if words[:1] == ("manifest",):
        _print_manifest(words[1:], given)
        return
    files = [*filter(None, [given["config"]]), *(word for word in words if "=" not in word)]
    if len(files) > 1:
        raise UsageError(f"expected at most one config file, got {', '.join(files)}")
    file = files[0] if files else None
    overrides = [word for word in words if "=" in word]
    module = given["module"]
    if module is None:
        ctx.exit(_train_here(file, overrides, given))
    if given["platform"] not in (None, "local", "slurm"):
        raise UsageError(
            f"unknown platform '{given['platform']}'; expected local, slurm",
            hint="for Kubernetes: dicore dist manifest",
        )
    if module == "config":
        _write_config(file, overrides, given)
        return
    if file is None:
        raise UsageError(f"--module {module} needs the file that --module config wrote: -c FILE")
    job = _read_job(Path(file))
    _check_words(module, overrides, given, job["config"])
    if module == "coordinator":
        ctx.exit(_coordinate(job, overrides, given))
    _serve(module, given["module_name"], job)


def _check_words(
    module: str, overrides: Sequence[str], given: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """Refuses what only the first command decides, whose file all processes read."""
    names = ["env", "policy", *(name for name in _ADDRESSES if name not in _UNUSED)]
    told: list[str] = []
    if module != "coordinator":
        names += ["exp_name", "max_env_step", "max_train_iter"]
        told += overrides
        if given["seed"] not in (None, config.get("seed")):
            told.append(f"--seed {given['seed']}")
    told += [f"--{name.replace('_', '-')}" for name in names if given[name] is not None]
    if told:
        raise UsageError(
            f"--module {module}: {', '.join(told)} would have no effect",
            hint="give it to --module config, whose file all processes read",
        )


def _print_manifest(words: Sequence[str], given: Mapping[str, Any]) -> None:
    """Prints a RayJob that trains by `-m parallel`."""
    from dicore_dist.commands.manifest import ray_job, to_yaml

    policy = given["policy"] or given["platform"]
    if given["env"] is None or policy is None:
        raise UsageError("dist manifest needs the environment and the algorithm: -e ENV -p POLICY")
    command = ["dicore", "train", "-m", "parallel", "-e", given["env"], "-p", policy]
    command += [] if given["seed"] is None else ["-s", str(given["seed"])]
    command += [f"pipeline.system.collector_num={given['workers']}", *words]
    command += ["pipeline.system.address=auto"]
    options = {name: given[name] for name in ("image", "workers", "gpus", "namespace")}
    sys.stdout.write(to_yaml(ray_job(command, **options)))


def _request(file: str | None, overrides: Sequence[str], given: Mapping[str, Any]) -> TrainRequest:
    """Returns the request of `--module config` or of a whole training."""
    system = {f"pipeline.system.{path}": value for path, value in _addresses(given).items()}
    told = _system_of_file(file)
    policy = given["policy"]
    if given["module"] is None and policy is None:
        policy = given["platform"]
    layers = [{f"pipeline.system.{key}": value for key, value in told.items()}, system]
    return TrainRequest(
        config=file,
        mode="dist",
        env=given["env"],
        policy=policy,
        seed=given["seed"],
        exp_name=given["exp_name"],
        max_env_step=given["max_env_step"],
        max_train_iter=given["max_train_iter"],
        overrides=[*filter(None, layers), *overrides],
        trust=given["trust"],
        argv=sys.argv,
        own_process=True,
    )


def _addresses(given: Mapping[str, Any]) -> dict[str, object]:
    """Returns hosts and ports by option: of the command line, else of the environment."""
    found: dict[str, Any] = {}
    for name in _ADDRESSES:
        value = given[name]
        variable = f"DICORE_{name.upper()}"
        if value is None and (text := os.environ.get(variable)):
            if name.endswith("port") and not text.isdecimal():
                raise UsageError(f"{variable}={text}: expected a number")
            value = int(text) if name.endswith("port") else text
        if value is not None and name in _UNUSED:
            say(f"{name} has no effect: {_UNUSED[name]}")
        elif value is not None:
            found[name] = value
    return found


def _system_of_file(file: str | None) -> dict[str, object]:
    """Returns `system_config` of a Python file (DI-engine's third dict), if there is one."""
    if file is None or not file.endswith(".py") or not Path(file).is_file():
        return {}
    if not re.search(r"^\w*system_config\s*=", Path(file).read_text("utf-8"), re.MULTILINE):
        return {}
    names = runpy.run_path(file)
    found = names.get("system_config")
    if not isinstance(found, Mapping):
        raise ConfigError(f"{file}: system_config is not a dict")
    try:
        system: dict[str, Any] = public_name("system_of_di_engine", "system_config")(found)
    except ConfigError as error:
        raise ConfigError([f"{file}: {problem}" for problem in error.problems]) from error
    if found.get("learner_gpu_num"):
        say(f"{file}: system_config.learner_gpu_num has no effect: policy.cuda chooses the device")
    return system


def _write_config(file: str | None, overrides: Sequence[str], given: Mapping[str, Any]) -> None:
    """Compiles the config and writes it for the other processes."""
    request = _request(file, overrides, given)
    compiled = compile_request(request)
    tree = saved_tree(compiled)
    folder = Path(folder_name(compiled, request)).absolute()
    tree["exp_name"] = str(folder)
    system = tree["pipeline"]["system"]
    exchange = folder.with_name(f"{folder.name}_exchange")  # the coordinator makes the run folder
    for name in ("data", "policy"):
        path = system[f"path_{name}"] or str(exchange / name)
        system[f"path_{name}"] = str(Path(path).absolute())
    token = token_of() or secrets.token_hex(16)
    target = Path(f"{file or compiled.policy.type + '_config'}.pkl")
    code = list(code_paths.state()[1])
    content = dumps({"format": _FORMAT, "token": token, "code": code, "config": tree})
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "x", encoding="utf-8", opener=opener) as stream:
            stream.write(content + "\n")
        part.replace(target)  # a file or link that was there, whoever could read it, is gone
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    names = ["learner0", *(f"collector{index}" for index in range(system["collector_num"]))]
    say(f"{target}: written; start {', '.join(names)} and the coordinator with -c {target}")


def _read_job(file: Path) -> dict[str, Any]:
    """Reads the file that `--module config` wrote; it is JSON and never unpickled."""
    try:
        found = read_json(file, loads)
    except FileNotFoundError:
        raise UsageError(
            f"{file}: no such file", hint="dicore -m dist --module config -c CONFIG writes it"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file}: not a file that --module config of dicore wrote: {error}",
            hint="pickled files of other programs are not read",
        ) from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise UsageError(f"{file}: not a file that --module config wrote")
    from dicore_dist.commands.config import DistSystemConfig

    system: Any = found.get("config")
    for name in ("pipeline", "system"):
        system = system.get(name) if isinstance(system, Mapping) else None
    options = {each.name for each in attrs.fields(DistSystemConfig)}
    lacking = sorted(options - system.keys()) if isinstance(system, Mapping) else ["config"]
    token = found.get("token")
    lacking += ["token"] if not isinstance(token, str) or not token else []
    lacking += [] if isinstance(found.get("code"), list) else ["code"]
    if lacking:
        raise UsageError(
            f"{file}: it lacks {', '.join(lacking)}",
            hint="write it again: dicore -m dist --module config -c CONFIG",
        )
    code_paths.restore((True, found["code"]))  # those of the first command, and no others
    return found


def _coordinate(job: Mapping[str, Any], overrides: Sequence[str], given: Mapping[str, Any]) -> int:
    os.environ[TOKEN_VARIABLE] = job["token"]
    request = TrainRequest(
        config=compile_config(job["config"], saved=True),
        seed=given["seed"],
        exp_name=given["exp_name"],
        max_env_step=given["max_env_step"],
        max_train_iter=given["max_train_iter"],
        overrides=overrides,
        exist="resume" if _goes_on(job["config"]) else "new",
        argv=sys.argv,
        own_process=True,
    )
    return launch(request, observer=Announcer()).exit_code


def _goes_on(config: Mapping[str, Any]) -> bool:
    """Returns whether an earlier coordinator began this training: its run folder is used again."""
    journal = Path(config["pipeline"]["system"]["path_policy"]) / "journal.jsonl"
    return journal.is_file() and not is_finished(journal)


def _train_here(file: str | None, overrides: Sequence[str], given: Mapping[str, Any]) -> int:
    """Runs a whole training on this machine."""
    here = ["pipeline.system.start=processes", *overrides]
    return launch(_request(file, here, given), observer=Announcer()).exit_code


def _serve(module: str, name: str | None, job: Mapping[str, Any]) -> None:
    """Runs a learner or a collector until the coordinator closes it."""
    from dicore_dist.commands.config import comm_of
    from dicore_dist.workers.serving import Place, serve

    found = re.fullmatch(rf"{module}(\d+)", name or f"{module}0")
    if found is None:
        raise UsageError(f"--module-name {name}: expected {module}0, {module}1, …")
    system, index = job["config"]["pipeline"]["system"], int(found[1])
    if module == "learner" and index:
        raise UsageError(f"--module-name {name}: there is one learner; expected learner0")
    if index >= system["collector_num"] and system["collector_port"]:
        raise UsageError(
            f"--module-name {name}: the config has {system['collector_num']} collectors with ports",
            hint="raise pipeline.system.collector_num, or let collectors choose ports: -clp 0",
        )
    names = comm_of(system["comm_learner"], system["comm_collector"], system["address"])
    system = {**system, "comm_learner": names[0], "comm_collector": names[1]}
    place = Place(system["path_data"], system["path_policy"], job["token"])
    serve(module, system, place, index)
