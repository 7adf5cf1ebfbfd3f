"""`Parallel.runner`: the same main function in several processes, with events between them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from dicore.errors import UsageError
from dicore_compat.comm import Parallel, TcpQueue
from dicore_compat.comm.parallel import _check_peers, _Node, _token
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.coordinator.supervisor import Job, Supervisor
from dicore_dist.links.errors import WorkerError
from dicore_dist.links.slurm import hosts_of
from tests import warm
from tests.compat.comm import programs


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No process and no socket file is left, however the job ended."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "out").mkdir()
    before = set(psutil.Process().children(recursive=True))
    yield
    tracker = "resource_tracker"
    after = set(psutil.Process().children(recursive=True))
    left = [each.cmdline() for each in after - before if each.pid not in warm.pids()]
    assert [words for words in left if not any(tracker in word for word in words)] == []
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("dicore-")] == []
    monkeypatch.setattr("tempfile.tempdir", None)


def test_an_emit_reaches_the_two_others_and_a_killed_process_is_restarted(tmp_path: Path) -> None:
    """FEATURES J14, J16: labels, mesh, auto_recover."""
    folder = tmp_path / "out"
    runner = Parallel.runner(3, labels=["job"], auto_recover=True)
    runner(programs.greet, str(folder), 3, fails=2)
    assert {each.name: each.read_text() for each in folder.iterdir() if "heard" in each.name} == {
        "heard_0": "[1, 2] ['distributed', 'job', 'node.0']",
        "heard_1": "[0, 2] ['distributed', 'job', 'node.1']",
        "heard_2": "[0, 1] ['distributed', 'job', 'node.2']",
    }
    assert (folder / "failed").exists()


def test_a_barrier_holds_for_processes_that_are_connected_by_another_one(tmp_path: Path) -> None:
    Parallel.runner(3, topology="star")(programs.pass_barriers, str(tmp_path / "out"), 3, 5)
    lines = (tmp_path / "out" / "steps").read_text().split()
    assert lines == sorted(lines)
    assert len(lines) == 3 * 5


@pytest.mark.soak  # the next test is one of the kind
def test_the_error_of_a_process_ends_all_and_is_raised_with_its_text(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"(?s)node 1 ended with exit code 1.*bad luck in node 1"):
        Parallel.runner(2, protocol="tcp")(programs.raise_in_two, str(tmp_path))


def test_the_error_of_a_listener_is_raised_in_the_main_loop(tmp_path: Path) -> None:
    """RELIABILITY I11."""
    with pytest.raises(WorkerError, match=r"(?s)node 1.*a listener failed.*event 'event'"):
        Parallel.runner(2)(programs.raise_in_listener, str(tmp_path))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_parallel_workers": 0}, "n_parallel_workers"),
        ({"topology": "ring"}, "expected mesh, star, alone"),
        ({"protocol": "udp"}, "expected ipc, tcp"),
        ({"ports": 50515}, "no ports"),
        ({"node_ids": [1, 1]}, "2 different numbers"),
        ({"attach_to": ["tcp://127.0.0.1:1"]}, "DICORE_TOKEN|token"),
        ({"attach_to": ["somewhere"], "token": "shared"}, "not an address: 'somewhere'"),
    ],
)
def test_wrong_arguments_are_refused_before_a_process_starts(
    options: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DICORE_TOKEN", raising=False)
    if token := options.pop("token", None):
        monkeypatch.setenv("DICORE_TOKEN", token)
    with pytest.raises(UsageError, match=text):
        Parallel.runner(**{"n_parallel_workers": 2, **options})


def test_a_token_is_not_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DICORE_TOKEN", raising=False)
    token = _token(None, opened=True)
    said = capfd.readouterr()
    assert len(token) == 32
    assert token not in said.out + said.err
    assert "set DICORE_TOKEN" in said.out


def test_two_commands_make_one_job(tmp_path: Path) -> None:
    """FEATURES J17: `ditask` in two terminals, the second attached to the first."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = Path(__file__).parents[3]
    program = tmp_path / "job.py"
    program.write_text(
        "from tests.compat.comm.programs import greet\n"
        f"def main():\n    greet({str(tmp_path / 'out')!r}, 2)\n"
    )
    env = {**os.environ, "DICORE_TOKEN": "shared", "PYTHONPATH": str(root), warm.NESTED: "1"}
    base = [sys.executable, "-m", "dicore_compat.comm.ditask", "--package", str(tmp_path)]
    base += ["--main", "job.main", "--topology", "star"]
    first = subprocess.Popen([*base, "--ports", str(port)], env=env)
    attach = ["--node-ids", "1", "--attach-to", f"tcp://127.0.0.1:{port}"]
    second = subprocess.Popen([*base, *attach], env=env)
    assert (first.wait(400), second.wait(400)) == (0, 0)
    assert (tmp_path / "out" / "heard_0").read_text().startswith("[1]")
    assert (tmp_path / "out" / "heard_1").read_text().startswith("[0]")


def test_a_process_with_the_number_of_another_one_is_refused() -> None:
    """Two commands of one job, and `--node-ids` of the second one forgotten."""
    first = TcpQueue(token="shared")
    first.listen()
    second = TcpQueue("", [first.address], "shared")
    second.listen()
    node = _Node(0, "", (first.address,), "shared", (), "tcp")
    with pytest.raises(UsageError, match="another process is node 0, too"):
        _check_peers(second, node)
    second.stop()
    first.stop()


def test_a_process_that_nobody_answers_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dicore_compat.comm.parallel._CONNECT_S", 0.1)
    bus = TcpQueue("", ["tcp://127.0.0.1:9"], "shared")
    bus.listen()
    _check_peers(bus, _Node(0, "", ("tcp://127.0.0.1:9",), "shared", (), "tcp"))
    bus.stop()
    assert "0 of 1 processes to connect to answer after 0.1 s" in caplog.text


def test_a_process_is_replaced_as_often_as_it_delivered_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    restarts = Restarts(1)
    supervisor = Supervisor([Job("role", time.sleep, (600,))], restarts=restarts)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    seen: list[int] = []
    try:
        while len(seen) < 3:
            if (pid := supervisor.pids.get("role")) is not None and pid not in seen:
                seen.append(pid)
                restarts.delivered("role")
                supervisor.replace("role", older_than=600)  # it is younger
                assert supervisor.pids["role"] == pid
                supervisor.replace("role")
            time.sleep(0.01)
            assert thread.is_alive()
    finally:
        supervisor.end()
        thread.join(60)
    assert not supervisor.pids
    assert "role ended by SIGKILL, because it was silent; restart 1" in caplog.text


def test_an_error_that_says_what_to_change_is_raised_instead_of_a_restart() -> None:
    """A port in use, for instance, would be in use after a restart, too."""
    jobs = [Job("learner0", hosts_of, ("a,,b",))]
    with pytest.raises(WorkerError, match=r"^learner0: not a list of hosts: 'a,,b'$"):
        Supervisor(jobs, restarts=Restarts(10), tells_errors=True).run()


def test_an_exit_code_of_0_does_not_say_that_the_work_is_done() -> None:
    """A library may end the process of an environment: `exit(0)` in C."""
    jobs = [Job("done", sys.exit, (0,)), Job("lost", os._exit, (0,), "log/lost/output.txt")]
    with pytest.raises(WorkerError, match="lost ended with exit code 0, after 0 r") as caught:
        Supervisor(jobs, restarts=Restarts(0)).run()
    assert caught.value.hint == "see log/lost/output.txt"


@pytest.mark.slow
def test_learner_and_two_collectors_train_cartpole_and_survive_a_kill(tmp_path: Path) -> None:
    """FEATURES N16, J45: versions rise on the collectors, one of which is killed."""
    folder = tmp_path / "out"
    start = time.monotonic()
    Parallel.runner(3, topology="star", auto_recover=True)(programs.train, str(folder), dies=2)
    assert (folder / "failed").exists()
    env_step, value = map(float, (folder / "result_0").read_text().split())
    assert value >= 195, f"{env_step} env steps, {time.monotonic() - start:.0f} s"
    versions = eval((folder / "versions_1").read_text())
    assert versions == sorted(versions)
    assert versions[-1] > 0
