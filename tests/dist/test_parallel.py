"""Parallel training with real processes: results, faults, resuming, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from dicore.config import bind, compile_config
from dicore.errors import (
    ClosedError,
    ConfigError,
    ConfigWarning,
    DicoreError,
    EnvError,
    UsageError,
)
from dicore.interfaces.evaluator import EvalResult
from dicore.run.env_factory import spec_of
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore_dist import ParallelParts, RayRuntime, parallel_pipeline
from dicore_dist.coordinator.collectors import CollectorGroup
from dicore_dist.coordinator.crew import Call, Crew, StalledError, Worker
from dicore_dist.coordinator.evaluation import RemoteEvaluator
from dicore_dist.coordinator.status import StatusFile
from dicore_dist.links import ray_runtime as runtime
from dicore_dist.links.ray_runtime import _remove_abandoned
from dicore_dist.parallel.config import SystemConfig
from dicore_dist.workers.roles import RoleSpec
from dicore_plugins.evaluators import InteractionEvaluator
from dicore_plugins.pipelines.parts import Parts
from dicore_plugins.policies import DQNPolicy
from tests.named_memory import named_memory

SMALL = {
    "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 1,
            "n_evaluator_episode": 1, "stop_value": float("inf")},
    "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [16]},
               "learn": {"batch_size": 16, "update_per_collect": 2},
               "collect": {"n_sample": 32, "random_collect_size": 0}},
    "pipeline": {"type": "parallel", "logger": [],
                 "system": {"collector_num": 2, "heartbeat_timeout": 60.0}},
}  # fmt: skip


def train(folder: Path, *overrides: str, **wishes: Any) -> Any:
    """Trains for a few steps; returns the run."""
    chosen = {"config": SMALL, "exp_name": str(folder / "run"), "max_env_step": 320, **wishes}
    return launch(**chosen, overrides=list(overrides)).run


class Run:
    """The folder of a run."""

    def __init__(self, path: Path) -> None:
        self.folder = self
        self.log = path
        self.device = "cpu"

    def register(self, *args: Any, **options: Any) -> None:
        """There are no checkpoints."""


@pytest.fixture
def parts(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ParallelParts]:
    compiled = compile_config(SMALL, overrides=getattr(request, "param", []))
    cfg = bind(compiled, spec_of(compiled.env, 0)).cfg
    made = ParallelParts(cfg, Run(tmp_path))
    made._log = None
    yield made
    made.close()


def collect(group: Any, version: int = 0, eps: float | None = 0.1) -> Any:
    """Collects once, with the arguments of the training loop."""
    limit = time.monotonic() + 150
    kwargs = {} if eps is None else {"eps": eps}
    return group.collect_batch(
        n_sample=32, train_iter=version, policy_kwargs=kwargs,
        should_stop=lambda: time.monotonic() > limit,
    )  # fmt: skip


@pytest.mark.ray
def test_a_parallel_run_and_its_continuation(tmp_path: Path) -> None:
    main = {key: SMALL[key] for key in ("env", "policy")}
    folder, system = str(tmp_path / "run"), {"collector_num": 2, "heartbeat_timeout": 60.0}
    policy = parallel_pipeline(
        [main, {"pipeline": {"logger": []}}, system],
        0,
        max_env_step=320,
        exp_name=folder,
    )
    assert isinstance(policy, DQNPolicy)
    result = json.loads((tmp_path / "run" / "run.json").read_text())["result"]
    assert (result["env_step"], result["train_iter"]) == (320, 20)
    log = tmp_path / "run" / "log"
    assert {each.name for each in log.glob("*/output.txt*")} == {"output.txt"}
    roles = {each.parent.name for each in log.glob("*/output.txt")}
    assert {"evaluator"} < roles <= {"collector-0", "collector-1", "evaluator"}  # one may be late
    again = launch(resume=str(tmp_path / "run"), max_env_step=500).run
    assert again.result.env_step == 500
    assert again.result.train_iter > 20
    lines = read_metrics(log / "metrics.jsonl")
    steps = [line["step"] for line in lines if "collector/reward_mean" in line]
    assert steps == sorted(steps)
    status = json.loads((log / "status.json").read_text())
    assert status["ended"]
    assert status["evaluator"]["pid"]
    assert status["learner"]["env_step"] == again.result.env_step
    assert len(status["collectors"]) == 2


@pytest.mark.ray
def test_on_policy_all_collect_with_the_present_parameters(tmp_path: Path) -> None:
    ppo = {"type": "ppo", "collect": {"n_sample": 70}, "learn": {"batch_size": 32}}
    config = {**SMALL, "policy": {**ppo, "model": {"encoder_hidden_size_list": [8]}}}
    run = train(tmp_path, "policy.learn.epoch_per_collect=1", config=config, max_env_step=200)
    assert run.result.env_step == 70 + 70 + 60  # shares are multiples of the environments
    lags = [line.get("parallel/lag") for line in read_metrics(run.folder.log / "metrics.jsonl")]
    assert {lag for lag in lags if lag is not None} == {0}


@pytest.mark.ray
def test_what_is_collected_ahead_is_what_the_plain_collector_collects(tmp_path: Path) -> None:
    """Bit for bit where the parameters are the same; each sample says by which it was collected."""
    ppo = {"type": "ppo", "model": {"encoder_hidden_size_list": [8]}}
    options = ["pipeline.system.collector_num=1", "pipeline.system.ahead=true"]
    compiled = compile_config({**SMALL, "policy": ppo}, overrides=options)
    cfg = bind(compiled, spec_of(compiled.env, 0)).cfg
    made = ParallelParts(cfg, Run(tmp_path))
    made._log = None
    try:
        found = [collect(made.collector, version, eps=None) for version in (0, 3, 6)]
        state = made.policy.collect_mode.state_dict()
    finally:
        made.close()
    assert [set(np.ravel(each["collect_iter"]).tolist()) for each in found] == [{0}, {0}, {3}]
    plain = Parts(RoleSpec(cfg, index=0, epoch=1).seeded("collector"))
    plain.collect_mode.load_state_dict(state)
    for batch in found:
        wanted = plain.collector.collect_batch(n_sample=32)
        assert batch.keys() == wanted.keys()
        for key in ("obs", "action", "log_prob", "reward", "advantage", "target"):
            np.testing.assert_array_equal(batch[key], wanted[key])
    plain.close()


@pytest.mark.ray
def test_a_training_that_collects_ahead_is_one_update_behind_and_repeats_itself(
    tmp_path: Path,
) -> None:
    ppo = {"type": "ppo", "collect": {"n_sample": 64}, "learn": {"batch_size": 32}}
    config = {**SMALL, "policy": {**ppo, "model": {"encoder_hidden_size_list": [8]}}}
    options = ["policy.learn.epoch_per_collect=1", "pipeline.system.ahead=true",
               "policy.collect.collector.collect_print_freq=1"]  # fmt: skip
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        run = train(folder, *options, config=config, max_env_step=256)
        assert (run.result.env_step, run.result.train_iter) == (256, 8)
        lines = read_metrics(run.folder.log / "metrics.jsonl")
        lags = [line["parallel/lag"] for line in lines if "parallel/lag" in line]
        assert lags == [0, 2, 2, 2]
        learner = run.store.load("final")["learner"]["policy"]["model"]
        found.append({key: np.asarray(value) for key, value in learner.items()})
    for key, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][key])


@pytest.mark.ray
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "parts", [["pipeline.system.heartbeat_timeout=1.5"]], indirect=True, ids=["beat"]
)
def test_a_collector_that_dies_or_hangs_is_replaced(parts: Any, number: int) -> None:
    group = parts.collector
    assert len(collect(group)) == 32
    first, second = group.crew.workers
    gone = first.process.pid
    os.kill(gone, number)
    until = time.monotonic() + 150
    while not (first.restarts and first.version >= 2) and time.monotonic() < until:
        assert len(collect(group, version=2)) == 32
    assert (first.restarts, second.restarts) == (1, 0)
    assert first.process.pid not in (0, gone)
    assert not psutil.pid_exists(gone)


class Results:
    """A runtime with results by address; an error: of a process that had died before."""

    def __init__(self, **results: Any) -> None:
        self.results = results

    def ready(self, addresses: list[str]) -> list[str]:
        return [each for each in addresses if each in self.results]

    def get(self, addresses: list[str]) -> list[Any]:
        found = [self.results[each] for each in addresses]
        for error in (each for each in found if isinstance(each, Exception)):
            raise error
        return found

    def is_death(self, error: BaseException) -> bool:
        return isinstance(error, EOFError)


def test_what_a_lost_collector_has_collected_is_used(tmp_path: Path) -> None:
    """And it counts as delivered: only losses with nothing in between end the run."""
    results = Results(a="facts", b="columns", c=EOFError(), d=EOFError(), e="under way")
    options = ["pipeline.system.max_restarts=1"]
    said: list[str] = []
    crew = Crew(
        compile_config(SMALL, overrides=options).cfg, results, model=None, say=said.append,
        folder=tmp_path,
    )  # type: ignore[arg-type]  # fmt: skip
    crew._start = lambda worker: None  # type: ignore[method-assign]
    worker = Worker(0)
    for _ in range(3):
        calls = Call("a", "b"), Call("c", "d"), Call("e", "f")
        worker.calls = deque(calls)
        crew.lost(worker, "its process ended")
        assert [*worker.calls] == [calls[0]]
        assert "2 collects under way are lost" in said.pop()
    worker.calls.clear()
    with pytest.raises(DicoreError, match="ended; lost 2 times, with nothing collected in between"):
        crew.lost(worker, "its process ended")


@pytest.mark.ray
def test_collectors_come_and_go(parts: Any) -> None:
    group = parts.collector
    first = collect(group)
    assert set(first["env_id"]) == {0, 1}
    time.sleep(0.5)  # training pauses: collectors end what they were told, and wait
    group.crew.workers[0].process.silence(time.monotonic() + 2)
    assert [len(each.calls) <= 2 for each in group.crew.workers] == [True, True]
    group.crew.resize(1)
    assert {each for _ in range(3) for each in collect(group)["env_id"]} == {0, 1}
    group.crew.resize(2)
    seen: set[int] = set()
    until = time.monotonic() + 150
    while 5 not in seen and time.monotonic() < until:
        seen |= set(collect(group)["env_id"])
    assert seen == {0, 1, 4, 5}  # the third process that was ever started has envs 4 and 5


@pytest.mark.ray
@pytest.mark.parametrize(
    "parts", [["pipeline.system.stall_timeout=0.01"]], indirect=True, ids=["limit"]
)
def test_a_wait_ends_with_an_error_that_says_what_for(parts: Any) -> None:
    with pytest.raises(StalledError, match=r"no samples for 0 s: collector 0 .*; collector 1 "):
        collect(parts.collector)


@pytest.mark.ray
def test_another_version_of_dicore_is_refused(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dicore.__version__", "9.9")
    with pytest.raises(DicoreError, match=r"collector [01] runs dicore 0\.1\.0, this process 9\.9"):
        collect(parts.collector)


@pytest.mark.ray
@pytest.mark.parametrize(
    "parts",
    [[
        "policy.priority=true",
        "policy.other.replay_buffer.type=advanced",
        "pipeline.system.eps_spread=7",
    ]],
    indirect=True,
    ids=["apex"],
)  # fmt: skip
def test_collectors_compute_priorities_and_explore_differently(parts: Any) -> None:
    data = collect(parts.collector)
    assert data["priority"].shape == (32,)
    assert (data["priority"] > 0).all()
    workers = parts.collector.crew.workers
    eps = [parts.collector._spread(each, {"policy_kwargs": {"eps": 0.4}}) for each in workers]
    assert [each["policy_kwargs"]["eps"] for each in eps] == [0.4, pytest.approx(0.4**8)]
    parts.buffer.push(data)
    drawn = parts.buffer.sample_batch(16)
    assert set(drawn["priority"]) <= set(np.float32(data["priority"].astype(np.float64) + 1e-5))


@pytest.mark.ray
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    "parts", [["pipeline.system.heartbeat_timeout=1.5"]], indirect=True, ids=["beat"]
)
def test_an_evaluation_is_lost_with_its_process(parts: Any, number: int) -> None:
    evaluator = parts.evaluator
    assert evaluator.should_eval(0)
    evaluator.prepare()
    while not evaluator.process.is_ready():
        time.sleep(0.05)
    gone = evaluator.process.pid
    os.kill(gone, number)
    evaluator.begin(0, 0)
    while evaluator.busy and not evaluator.missing:
        evaluator.poll(0.1)
    assert evaluator.last_result is None or not evaluator.missing
    assert evaluator.best_return == float("-inf") or not evaluator.missing
    names: list[str] = []
    result = evaluator.eval(names.append, train_iter=1, envstep=1, n_episode=5)
    assert result.mean_return > 0
    assert len(result.returns) == 5
    assert names == ["ckpt_best.pth.tar"] or not evaluator.missing
    assert not psutil.pid_exists(gone)
    evaluator.close()
    with pytest.raises(ClosedError, match="the evaluator is closed"):
        evaluator.eval()


@pytest.mark.ray
def test_an_error_of_an_environment_ends_the_run(tmp_path: Path) -> None:
    file = tmp_path / "breaks.py"
    file.write_text(
        "import gymnasium\n\n\nclass Breaks(gymnasium.Wrapper):\n"
        "    def __init__(self):\n        super().__init__(gymnasium.make('CartPole-v1'))\n"
        "    def step(self, action):\n        raise ValueError('no such gear')\n"
    )
    env = {**SMALL["env"], "type": f"{file}:Breaks", "manager": {"restart_budget": 0}}
    with pytest.raises(EnvError, match=r"(?s)collector [01]: .*no such gear"):
        train(tmp_path, config={**SMALL, "env": env})


def test_what_parallel_training_cannot_do(tmp_path: Path) -> None:
    config = {**SMALL, "policy": {**SMALL["policy"], "reward_model": "rnd"}}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"policy\.reward_model: needs samples"):
        train(tmp_path, config=config)
    with pytest.raises(ConfigError, match=r"system\.ahead: 'dqn' replays samples; expected False"):
        train(tmp_path, "pipeline.system.ahead=true")
    learn = {"learn": {"autocast": "auto"}}
    config = {**SMALL, "policy": {**SMALL["policy"], **learn}}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"policy\.learn\.autocast: 'auto' is measured by"):
        train(tmp_path, config=config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGINT, "learner"),
        pytest.param(signal.SIGKILL, "learner", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, "raylet", marks=pytest.mark.slow),
    ],
)
def test_the_end_of_training_leaves_nothing(tmp_path: Path, number: int, name: str) -> None:
    folder = tmp_path / "run"
    code = "import sys; from dicore.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["-m", "parallel", "-e", "cartpole", "-p", "dqn", "env.stop_value=inf"]
    options = ["--exp-name", str(folder), "pipeline.system.collector_num=1", "pipeline.logger=[]"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, *options],
        start_new_session=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    metrics = folder / "log" / "metrics.jsonl"
    until = time.monotonic() + 120
    while not metrics.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    inside = psutil.Process(process.pid).children(recursive=True)
    assert not named_memory(inside)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    elif name == "raylet":
        next(each for each in inside if each.name() == name).kill()
    else:
        process.send_signal(number)
    text, _ = process.communicate(timeout=200)
    if number == signal.SIGINT:
        assert process.returncode == 130, text
        assert (folder / "ckpt" / "final").is_dir()
    gone, alive = psutil.wait_procs(inside, 60)
    assert (bool(gone), alive) == (True, [])
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == ("interrupted" if number == signal.SIGINT else "failed")
    if number == signal.SIGINT:
        assert record["result"]["cpu_s"] > 0


def test_what_a_killed_process_started_is_ended(tmp_path: Path) -> None:
    folder, record = tmp_path / "ray", tmp_path / "run.json"
    folder.mkdir()
    code = (
        "import json, os, pathlib, subprocess, sys, time\n"
        "from dicore_dist.links.watcher import Watcher\n"
        "folder, record = map(pathlib.Path, sys.argv[1:])\n"
        "record.write_text(json.dumps({'pid': os.getpid(), 'status': 'running'}))\n"
        "Watcher(folder, record)\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(60)', str(folder)]\n"
        "print(subprocess.Popen(child, stdout=subprocess.DEVNULL).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(record)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    watcher = next(each for each in psutil.Process(parent.pid).children() if each != child)
    parent.kill()
    parent.communicate()
    assert psutil.wait_procs([child, watcher], 60)[1] == []
    assert not folder.exists()
    assert json.loads(record.read_text())["status"] == "failed"


def test_folders_of_killed_runs_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    mine, theirs = f"dicore-ray-{os.getpid()}-a", f"dicore-ray-{ended.pid}-b"
    for name in (mine, theirs, "dicore-ray-own"):
        (tmp_path / name).mkdir()
    _remove_abandoned()
    assert {each.name for each in tmp_path.iterdir()} == {mine, "dicore-ray-own"}


def test_a_worker_says_what_it_does() -> None:
    assert Worker(3, start_at=12.0).doing(10.0) == "collector 3 is started again in 2 s"


def test_an_error_of_a_role_keeps_its_class() -> None:
    from dicore_dist.workers.processes import raise_failure

    failure = {"class": "EnvError", "text": "it broke", "hint": "mend it", "trace": "…"}
    with pytest.raises(EnvError, match="collector 1: it broke") as caught:
        raise_failure("collector 1", failure)
    assert caught.value.hint == "mend it"
    with pytest.raises(DicoreError, match="collector 1: it broke"):
        raise_failure("collector 1", {**failure, "class": "KeyError"})


def test_samples_side_by_side_or_one_after_the_other() -> None:
    from dicore.data import Batch
    from dicore_plugins.collectors.block import joined_blocks

    flat = [Batch({"env_id": np.full(2, i), "obs": np.full((2, 3), i)}) for i in range(2)]
    assert joined_blocks(flat)["obs"][:, 0].tolist() == [0, 0, 1, 1]
    block = [Batch({"env_id": np.full((4, 1), i), "obs": np.full((4, 1, 3), i)}) for i in range(2)]
    assert joined_blocks(block)["obs"].shape == (4, 2, 3)


@pytest.mark.parametrize(
    ("count", "number", "size", "shares"),
    [(7, 3, 1, [3, 2, 2]), (70, 2, 2, [36, 34]), (10, 3, 4, [4, 4, 2]), (3, 4, 4, [3, 0, 0, 0])],
)
def test_shares_are_multiples_of_the_environments(
    count: int, number: int, size: int, shares: list[int]
) -> None:
    from dicore_dist.coordinator.collectors import _shares

    assert _shares(count, number, size) == shares


def test_a_cluster_that_is_not_there_is_told_before_a_folder_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"no Ray cluster answers at {address}"):
            train(tmp_path, f"pipeline.system.address={address}")
    assert not (tmp_path / "run").exists()


@pytest.mark.ray
def test_another_cluster_than_the_one_of_this_process_is_refused() -> None:
    with pytest.raises(UsageError, match=r"expected 127.*, the Ray cluster that this process"):
        RayRuntime(address="127.0.0.1:1")
    RayRuntime(address="auto").close()


@pytest.mark.ray
def test_a_cluster_of_this_machine_may_be_called_by_any_of_its_names() -> None:
    runtime = RayRuntime()
    try:
        port = runtime.ray.get_runtime_context().gcs_address.rpartition(":")[2]
        for name in ("127.0.0.1", "localhost"):
            RayRuntime(address=f"{name}:{port}").close()
        with pytest.raises(UsageError, match="expected 127"):
            RayRuntime(address=f"192.0.2.77:{port}")
    finally:
        runtime.close()


def test_a_system_config_of_a_file_is_not_dropped_silently(tmp_path: Path) -> None:
    file = tmp_path / "dqn.py"
    main, create = {"env": {"type": "cartpole"}, "policy": {"type": "random"}}, {}  # type: ignore[var-annotated]
    file.write_text(f"main_config = {main}\ncreate_config = {create}\nsystem_config = {{}}\n")
    with (
        pytest.raises(ConfigError, match="'random' cannot be trained"),
        pytest.warns(ConfigWarning, match=r"dqn.py: system_config has no effect in parallel runs"),
    ):
        train(tmp_path, config=str(file), mode="parallel")


def test_the_folder_of_ray_is_short_and_for_this_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY E08: Ray lets all users write into its own folder."""
    long = tmp_path / "a temporary folder as macOS has"
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    seen: list[Path] = []

    def init(**given: Any) -> None:
        seen.append(Path(given["_temp_dir"]))
        assert stat.S_IMODE(seen[0].parent.stat().st_mode) == 0o700
        raise OSError

    runtime.import_ray()
    monkeypatch.setattr("ray.is_initialized", lambda: False)  # other tests may have begun one
    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr(runtime, "_ATTEMPTS", 1)
    with pytest.raises(DicoreError, match="Ray does not start"):
        runtime.RayRuntime()
    assert len(str(seen[0])) < 40
    assert not seen[0].parent.exists()


def test_the_learner_waits_for_at_most_all_of_its_time(tmp_path: Path) -> None:
    """RELIABILITY I05."""
    group = SimpleNamespace(waited=0.0, envstep=0, crew=SimpleNamespace(workers=[]))
    learner = SimpleNamespace(train_iter=0)
    status = StatusFile(tmp_path, group, evaluator=None, learner=learner, buffer=None)
    status.facts(1.0)
    group.waited = 2.55
    assert status.facts(2.0)["learner"]["waited"] == 1.0


def test_a_resumed_run_says_what_it_lacks(caplog: pytest.LogCaptureFixture) -> None:
    """RELIABILITY C11: with 3-step samples, the first two steps of an episode complete none."""
    overrides = ["policy.nstep=3", "pipeline.max_env_step=6000"]
    compiled = compile_config(SMALL, overrides=overrides)
    cfg = bind(compiled, spec_of(compiled.env, 0)).cfg
    crew = SimpleNamespace(workers=[1, 2])
    group: Any = SimpleNamespace(_cfg=cfg, crew=crew, _first=2, envstep=4216)
    with caplog.at_level("WARNING", "dicore.parallel"):
        CollectorGroup._tell_lost(group)
        assert "resumed at env step 4216" in caplog.text
        assert "next 8 env steps complete no sample" in caplog.text
        assert "about 1 updates" in caplog.text
        caplog.clear()
        group._first = 0
        CollectorGroup._tell_lost(group)
    assert not caplog.records


@pytest.mark.parametrize("copies", [True, False])
def test_samples_of_a_single_process_are_copied_where_they_are_kept(copies: bool) -> None:
    obs = np.zeros((4, 2), np.float32)
    group: Any = SimpleNamespace(_copies=copies, _log=None, _count=lambda *_: None)
    found: Any = [(None, {"count": 4, "ends": [3]}, {"obs": obs})]
    batch = CollectorGroup._used(group, found, 0)
    assert np.shares_memory(batch["obs"], obs) != copies


def test_an_evaluation_under_way_is_due_in_a_checkpoint() -> None:
    """RELIABILITY C16: a resumed run makes it; one that is lost with its process is left out."""
    local = InteractionEvaluator({"eval_freq": 10, "n_episode": 1, "stop_value": 1e9})
    remote = RemoteEvaluator(
        local, SimpleNamespace(), None, lambda state: None, log=None, system=SystemConfig()
    )  # type: ignore[arg-type]
    assert remote.should_eval(0)
    remote._pending = object()
    assert local.state_dict()["last_eval_iter"] == -1
    assert not remote.should_eval(5)
    remote._lost("its process ended")
    assert local.state_dict()["last_eval_iter"] == 0
    assert not remote.should_eval(5)
    assert remote.should_eval(10)


def test_an_evaluator_that_always_dies_ends_the_run() -> None:
    local = InteractionEvaluator({"eval_freq": 1, "n_episode": 1, "stop_value": 1e9})
    system = SystemConfig(max_restarts=2)
    remote = RemoteEvaluator(
        local, SimpleNamespace(), None, lambda state: None, log=None, system=system
    )  # type: ignore[arg-type]
    for _ in range(2):
        remote._lost("its process ended")
    found = {"result": EvalResult(False, []), "state": local.state_dict(), "log": [], "best": False}
    remote._finished(found)
    for _ in range(2):
        remote._lost("its process ended")
    with pytest.raises(DicoreError, match="lost 3 times, with no evaluation in between") as told:
        remote._lost("its process ended")
    assert "evaluator/output.txt" in told.value.hint
    assert remote.missing == 5
