"""`dicore -m dist`: the documents' five commands, precedence of hosts and ports, bad input."""

from __future__ import annotations

import json
import os
import pickle  # noqa: TID251 - to see that it is refused
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dicore.cli import main
from dicore.config import compile_config
from dicore.data.json_codec import loads
from dicore.run.checkpoint_store import read_state
from dicore_dist.commands import command as dist
from dicore_dist.commands.pipeline import _processes
from dicore_dist.coordinator.dist_status import DistStatus, Doing
from dicore_dist.coordinator.observed import Observed
from dicore_dist.coordinator.restarts import Restarts
from dicore_tools.evaluation.policy_loader import find_policy

CONFIG = """
main_config = dict(
    exp_name="job",
    env=dict(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, stop_value=195),
    policy=dict(
        model=dict(encoder_hidden_size_list=[16]), cuda=False,
        learn=dict(batch_size=16, update_per_collect=4), collect=dict(n_sample=16),
    ),
)
create_config = dict(env=dict(type="cartpole"), policy=dict(type="dqn"))
system_config = dict(coordinator=dict(), path_data="./{}_exchange/data".format("job"),
                     communication_mode="auto", learner_gpu_num=1, learner_host="from-config",
                     collector_port=1000)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DICORE_TOKEN", raising=False)
    Path("cartpole_dqn_config.py").write_text(CONFIG)
    return tmp_path


def test_a_training_that_starts_no_processes_says_what_it_waits_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dicore train -m dist` waits for processes that may never come."""
    config = compile_config(
        {"pipeline": {"type": "dist"}, "env": {"type": "cartpole"}, "policy": {"type": "dqn"}}
    )
    with _processes(config, {}, None, here, [], Restarts(0)):  # type: ignore[arg-type]
        said = capsys.readouterr().out
    assert "waiting for learner0 and 2 collectors" in said
    assert "pipeline.system.start=processes starts them here" in said


def written(*words: str) -> dict[str, Any]:
    command = ["-m", "dist", "--module", "config", "-p", "local", "-s", "0"]
    assert main([*command, "-c", "cartpole_dqn_config.py", *words]) == 0
    found: dict[str, Any] = loads(Path("cartpole_dqn_config.py.pkl").read_text())
    return found


def test_the_token_of_a_job_is_for_its_user_alone(here: Path) -> None:
    """A file or a link that was there is replaced, and what it led to stays as it was."""
    target, elsewhere = here / "cartpole_dqn_config.py.pkl", here / "elsewhere"
    target.write_text("old")
    target.chmod(0o644)
    written()
    assert target.stat().st_mode & 0o777 == 0o600
    elsewhere.write_text("mine")
    target.unlink()
    target.symlink_to(elsewhere)
    written()
    assert not target.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert elsewhere.read_text() == "mine"
    assert [each.name for each in here.iterdir() if each.name.endswith(".part")] == []


def test_options_of_a_system_config_are_not_dropped_silently(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written()
    assert "system_config.learner_gpu_num has no effect: policy.cuda" in capsys.readouterr().out
    text = CONFIG.replace("learner_gpu_num=1", "learner_num=2")
    Path("cartpole_dqn_config.py").write_text(text)
    assert main(["-m", "dist", "--module", "config", "-c", "cartpole_dqn_config.py"]) == 2
    assert "system_config.learner_num: expected 1, got 2" in capsys.readouterr().err


def test_processes_and_times_of_a_system_config_are_those_of_di_engine(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The third dict of a file means what it means to `compile_config`."""
    processes = "collector0=dict(port=7001), collector1=dict(port=7002), learner0=dict(port=7000)"
    Path("cartpole_dqn_config.py").write_text(
        CONFIG.replace("coordinator=dict()", "coordinator=dict(learner_task_timeout=30)")
        .replace('learner_host="from-config",', f"{processes})")
        .replace("collector_port=1000)", "")
    )
    system = written()["config"]["pipeline"]["system"]
    assert (system["learner_port"], system["collector_port"], system["task_timeout"]) == (
        7000,
        7001,
        30,
    )
    assert system["collector_num"] == 2
    Path("cartpole_dqn_config.py").write_text(CONFIG.replace("coordinator", "cordinator"))
    assert main(["-m", "dist", "--module", "config", "-c", "cartpole_dqn_config.py"]) == 2
    error = capsys.readouterr().err
    assert "cartpole_dqn_config.py: system_config.cordinator: unknown key; did you mean" in error


def test_hosts_and_ports_of_the_command_line_precede_environment_and_config(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FEATURES E21, K8, K10."""
    monkeypatch.setenv("DICORE_LEARNER_HOST", "from-environment")
    monkeypatch.setenv("DICORE_COLLECTOR_PORT", "2000")
    job = written("-clp", "3000", "-clh", "10-10-10-[11-12]", "-cdp", "4000")
    system = job["config"]["pipeline"]["system"]
    assert system["learner_host"] == "from-environment"
    assert (system["collector_port"], system["collector_host"]) == (3000, "10-10-10-[11-12]")
    assert system["path_data"] == str(here / "job_exchange" / "data")
    assert system["path_policy"] == str(here / "job_exchange" / "policy")
    assert job["config"]["seed"] == 0
    monkeypatch.delenv("DICORE_LEARNER_HOST")
    monkeypatch.delenv("DICORE_COLLECTOR_PORT")
    system = written()["config"]["pipeline"]["system"]
    assert (system["learner_host"], system["collector_port"]) == ("from-config", 1000)


def test_the_file_is_json_with_a_token_and_private(here: Path) -> None:
    job = written()
    file = here / "cartpole_dqn_config.py.pkl"
    assert json.loads(file.read_text())["format"] == "dicore-dist"
    assert len(job["token"]) == 32
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--module", "learner"], "needs the file"),
        (["--module", "learner", "-c", "absent.pkl"], "absent.pkl: no such file"),
        (["--module", "learner", "-c", "pickled.pkl"], "not a file that --module config"),
        (["--module", "collector", "--module-name", "x1", "-c", "FILE"], "expected collector0"),
        (
            ["--module", "collector", "--module-name", "collector9", "-c", "FILE"],
            "has 2 collectors with ports",
        ),
        (["--module", "config", "-p", "moon"], "expected local, slurm"),
        (["--module", "learner", "-c", "FILE", "-lp", "7"], "--learner-port would have no effect"),
        (["--module", "collector", "-c", "FILE", "-s", "3"], "--seed 3 would have no effect"),
        (["--module", "learner", "-c", "FILE", "policy.nstep=3"], "policy.nstep=3 would have no"),
        (["--module", "coordinator", "-c", "FILE", "-e", "pendulum"], "--env would have no effect"),
    ],
)
def test_bad_commands_say_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    written()
    Path("pickled.pkl").write_bytes(pickle.dumps({"a": 1}))
    given = ["cartpole_dqn_config.py.pkl" if each == "FILE" else each for each in words]
    assert main(["-m", "dist", *given]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("module", ["learner", "collector", "coordinator"])
@pytest.mark.parametrize(
    "lacking",
    ["token", "code", "config", "pipeline", "system", "path_policy", "collector_num", "address"],
)
def test_a_file_that_lacks_something_is_one_error(
    here: Path, capsys: pytest.CaptureFixture[str], module: str, lacking: str
) -> None:
    job = written()
    system = job["config"]["pipeline"]["system"]
    for section in (job, job["config"], job["config"]["pipeline"], system):
        section.pop(lacking, None)
    Path("half.pkl").write_text(json.dumps(job))
    assert main(["-m", "dist", "--module", module, "-c", "half.pkl"]) == 2
    error = capsys.readouterr().err
    told = "config" if lacking in ("pipeline", "system") else lacking
    assert f"half.pkl: it lacks {told}" in error
    assert "write it again" in error


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["policy=discrete_cql"], "'discrete_cql' learns from a dataset"),
        (["policy.reward_model=rnd"], "policy.reward_model: needs samples before"),
        (["policy.other.replay_buffer=deque"], "expected naive or advanced"),
        (["policy.learn.autocast=auto"], "policy.learn.autocast: 'auto' is measured by pipelines"),
        (["pipeline.system.comm_learner=pigeon"], "pipeline.system.comm_learner: "),
        (["pipeline.system.address=127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
    ],
)
def test_what_it_cannot_train_is_told_before_a_folder_is_made(
    here: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], text: str
) -> None:
    policy = overrides.pop(0).partition("=")[2] if overrides[0].startswith("policy=") else "dqn"
    words = ["-m", "dist", "-e", "cartpole", "-p", policy, "-s", "0", *overrides]
    assert main(words) == 2
    assert text in capsys.readouterr().err
    assert not (here / "runs").exists()


def test_a_restarted_coordinator_uses_the_run_folder_of_the_first(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY I03: unless the training of its journal is finished."""
    written("pipeline.system.collector_num=1")
    asked: list[Any] = []

    def started(request: Any, **_: Any) -> Any:
        asked.append(request)
        return SimpleNamespace(exit_code=0)

    monkeypatch.setattr(dist, "launch", started)
    journal = here / "job_exchange" / "policy" / "journal.jsonl"
    command = ["-m", "dist", "--module", "coordinator", "-c", "cartpole_dqn_config.py.pkl"]
    for text in ("", '{"event": "updates", "train_iter": 1}', '{"event": "finished"}'):
        if text:
            journal.parent.mkdir(parents=True, exist_ok=True)
            journal.write_text(text + "\n")
        assert main(command) == 0
    assert [each.exist for each in asked] == ["new", "resume", "new"]


def test_updates_that_a_new_learner_makes_again_are_logged_once(tmp_path: Path) -> None:
    logged: list[tuple[int, float]] = []

    def log(scalars: dict[str, float], *, train_iter: int, env_step: int) -> None:
        logged.append((train_iter, scalars["loss"]))

    observed = Observed.__new__(Observed)
    observed._lock = threading.Lock()
    observed._run = SimpleNamespace(log=SimpleNamespace(log_scalars=log))  # type: ignore[assignment]
    observed.policy = SimpleNamespace(collect_mode=None)
    budget = SimpleNamespace(of=lambda mode: None)
    observed.of(SimpleNamespace(train_iter=130, env_step=7, budget=budget, observers=[]))  # type: ignore[arg-type]
    for step in (100, 200, 100, 200, 300):
        observed.learned({"shown": [(step, {"loss": float(len(logged))})]})
    assert logged == [(200, 0.0), (300, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["", "learner0", "collector1", "coordinator"])
def test_the_five_commands_of_the_documents_train(here: Path, killed: str) -> None:
    """FEATURES K7, I40: solved, with a process that is killed and started again; nothing left."""
    quick = (
        ("[16]", "[64, 64]"),
        ("evaluator_env_num=2, n_evaluator_episode=2",
         "evaluator_env_num=4, n_evaluator_episode=8"),
        ("update_per_collect=4), collect=dict(n_sample=16)",
         "update_per_collect=8, learning_rate=0.001), collect=dict(n_sample=32), nstep=3"),
        ("batch_size=16", "batch_size=64"),
    )  # fmt: skip
    config_text = CONFIG
    for old, new in quick:  # as in programs.SMALL, which learns
        assert old in config_text
        config_text = config_text.replace(old, new)
    Path("cartpole_dqn_config.py").write_text(
        config_text.replace('learner_host="from-config"', "collector_num=2").replace(
            "collector_port=1000", 'commander=dict(type="solo", eval_interval=3)'
        )
    )
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    base = [str(Path(sys.executable).parent / "dicore"), "-m", "dist", "--module"]
    config = [*base, "config", "-p", "local", "-c", "cartpole_dqn_config.py", "-s", "0"]
    assert subprocess.run(config, env=env, check=False).returncode == 0
    file = ["-c", "cartpole_dqn_config.py.pkl", "-s", "0"]

    def start(name: str) -> subprocess.Popen[bytes]:
        kind = name.rstrip("0123456789")
        named = ["-p", "local"] if name == "coordinator" else ["--module-name", name]
        return subprocess.Popen([*base, kind, *named, *file], env=env)

    processes = {name: start(name) for name in ("learner0", "collector0", "collector1")}
    processes["coordinator"] = start("coordinator")
    journal = Path("job_exchange/policy/journal.jsonl")
    try:
        if killed:
            while not journal.exists() or '"updates"' not in journal.read_text():
                assert processes["coordinator"].poll() is None
                time.sleep(0.2)
            processes[killed].kill()
            processes[killed].wait()
            processes[killed] = start(killed)
        assert processes["coordinator"].wait(600) == 0
        assert [each.wait(30) for each in processes.values()] == [0, 0, 0, 0]
    finally:
        for each in processes.values():
            each.kill()
            each.wait()
    folder = "job"
    assert not Path("job-1").exists()
    result = json.loads(Path(folder, "run.json").read_text())["result"]
    assert result["stop"]
    assert result["best_return"] >= 195
    losses = [
        line["train_iter"]
        for line in map(json.loads, Path(folder, "log/metrics.jsonl").read_text().splitlines())
        if "learner/total_loss" in line
    ]
    assert losses == sorted(set(losses))
    lines = [
        *map(
            json.loads,
            filter(None, Path("job_exchange/policy/journal.jsonl").read_text().split("\n")),
        )
    ]
    blocks = [each for each in lines if each["event"] == "block"]
    assert len({each["file_path"] for each in blocks}) == len(blocks)
    assert sum(each["env_step"] for each in blocks) == result["env_step"]
    finished = [each for each in lines if each["event"] == "finished"]
    assert [each["train_iter"] for each in finished] == [result["train_iter"]]
    assert not [*Path("job_exchange/data").iterdir()]
    left = {each.name for each in Path("job_exchange/policy").iterdir()}
    assert left == {"journal.jsonl", "policy.frame", "policy.epoch", "policy.learner.frame"}
    assert {each.name for each in Path(folder, "log").iterdir()} >= {"learner0", "collector0"}
    assert not Path("default_experiment").exists()


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_manifest_is_a_ray_job(capsys: pytest.CaptureFixture[str], gpus: int) -> None:
    """FEATURES K9: read back by a YAML parser; the fields are those of KubeRay's RayJob v1."""
    yaml = pytest.importorskip("yaml")
    words = ["dist", "manifest", "-e", "cartpole", "-p", "dqn", "-s", "0", "--workers", "3"]
    assert main([*words, "--image", "a.b/c:1", "--gpus", str(gpus), "policy.nstep=3"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", "RayJob")
    assert "policy.nstep=3" in found["spec"]["entrypoint"].split()
    cluster = found["spec"]["rayClusterSpec"]
    head = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["resources"]["limits"].get("nvidia.com/gpu") == (str(gpus) if gpus else None)
    group = cluster["workerGroupSpecs"][0]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (3, 3, 3)
    assert group["template"]["spec"]["containers"][0]["image"] == "a.b/c:1"
    assert cluster["headGroupSpec"]["rayStartParams"] == {"dashboard-host": "0.0.0.0"}


def test_a_namespace_that_kubernetes_refuses_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dist", "manifest", "-e", "cartpole", "-p", "dqn", "--namespace", "My_NS"]
    assert main(words) == 2
    assert "--namespace 'My_NS': expected" in capsys.readouterr().err


def test_eval_goes_on_with_the_statistics_of_the_environments_that_evaluated(here: Path) -> None:
    """As after a serial run; the policy would see other observations."""
    words = ["-e", "cartpole", "-p", "dqn", "-s", "0", "--max-env-step", "300", "--exp-name", "run"]
    options = ['env.env_wrapper=[{"type":"obs_norm"}]', "env.evaluator_env_num=2",
               "env.n_evaluator_episode=4", "pipeline.system.start=threads"]  # fmt: skip
    assert main(["-m", "dist", *words, *options]) == 0
    read = find_policy("run", "final").read
    assert read is not None
    state = read().env_states["evaluator"]
    assert len(state) == 2
    assert all(float(layers[0]["count"]) > 10 for layers in state)
    assert {np.shape(layers[0]["mean"]) for layers in state} == {(4,)}
    assert np.abs(state[0][0]["mean"]).max() > 0


def test_a_given_checkpoint_adds_no_debt_and_the_last_one_is_whole(here: Path) -> None:
    """Its updates are not due again; `final` has the learner's target networks and optimizer."""
    words = ["-e", "cartpole", "-p", "dqn", "-s", "0"]
    options = ["policy.learn.update_per_collect=4", "policy.learn.batch_size=32",
               "policy.collect.n_sample=32", "policy.collect.random_collect_size=32"]  # fmt: skip
    options.append("policy.learn.learner.hook.log_show_after_iter=10")
    assert main(["train", *words, *options, "--max-env-step", "320", "--exp-name", "first"]) == 0
    before = json.loads(Path("first/run.json").read_text())["result"]["train_iter"]
    hook = "policy.learn.learner.hook.load_ckpt_before_run=first/ckpt/final"
    more = [*options, hook, "pipeline.system.start=threads", "policy.learn.target_update_freq=7"]
    assert main(["-m", "dist", *words, *more, "--max-env-step", "320", "--exp-name", "run"]) == 0
    result = json.loads(Path("run/run.json").read_text())["result"]
    assert before > 20
    assert 2 * before - 4 <= result["train_iter"] <= 2 * before + 4
    first, last = (
        read_state(Path(run) / "ckpt" / "final")["learner"]["policy"] for run in ("first", "run")
    )
    counts = [int(each["update_count"]) for each in (first, last)]
    assert counts == [before, result["train_iter"]]
    weight = "encoder.layers.1.weight"  # of a network that was never trained: about 0
    pair = [np.ravel(last[part][weight]) for part in ("model", "target_model")]
    assert np.corrcoef(*pair)[0, 1] > 0.7
    logged = {}
    for run in ("first", "run"):
        lines = Path(run, "log", "metrics.jsonl").read_text().splitlines()
        logged[run] = {tag for line in lines for tag in json.loads(line)}
    assert {"evaluator/return_mean", "learner/total_loss"} <= logged["first"]
    missing = {each for each in logged["first"] - logged["run"] if "/total_" not in each}
    assert missing == {"env/restarts"}


def test_status_shows_the_processes_of_dist(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_dist.coordinator.coordinator._LOOK_S", 0.1)
    seen: list[Any] = []
    facts = DistStatus.facts
    monkeypatch.setattr(DistStatus, "facts", lambda self: seen.append(facts(self)) or seen[-1])
    words = ["-e", "cartpole", "-p", "dqn", "-s", "0", "--max-env-step", "2000"]
    options = ["pipeline.system.start=threads", "policy.learn.update_per_collect=4"]
    assert main(["-m", "dist", *words, *options, "--exp-name", "run"]) == 0
    capsys.readouterr()
    assert main(["status", "run"]) == 0
    first, _, learner, *collectors = capsys.readouterr().out.splitlines()
    result = json.loads(Path("run/run.json").read_text())["result"]
    assert first.startswith("ended")
    assert f"{result['env_step']} env steps" in first
    assert str(result["train_iter"]) in learner
    assert [each.split()[:2] for each in collectors] == [["collector", "0"], ["collector", "1"]]
    steps = [each["env_step"] for each in seen[-1]["collectors"]]
    assert sum(steps) == result["env_step"]
    assert all(each["learner"]["pid"] == os.getpid() for each in seen[1:-1])
    assert any(each["learner"]["updates_per_s"] > 0 for each in seen)
    assert main(["status", "run", "--collectors", "3"]) == 2
    assert "come and go by their commands" in capsys.readouterr().err


def test_a_wait_counts_while_it_goes_on() -> None:
    """RELIABILITY I05: it was added to the second in which it ended, which then had 255%."""
    doing = Doing()
    with doing.waiting("learner0", "samples"):
        time.sleep(0.02)
        within = doing.waited
        assert within >= 0.02
    assert doing.waited >= within
    after = doing.waited
    time.sleep(0.01)
    assert doing.waited == after
