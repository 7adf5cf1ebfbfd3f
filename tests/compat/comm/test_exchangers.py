"""Exchangers against another process's message queue, and the stores that they use."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.cli import main
from dicore.data import Batch
from dicore.errors import UsageError
from dicore.task import OnlineRLContext, task
from dicore_compat.comm import (
    ContextExchanger,
    EventRouter,
    FileModelLoader,
    FileStorageLoader,
    ModelExchanger,
    PeriodicalModelExchanger,
    SharedMemoryLoader,
    TcpQueue,
)
from dicore_plugins.messages import pack, unpack

TOKEN = "a token of the tests"


@pytest.fixture
def other() -> Iterator[TcpQueue]:
    """The queue of another process; the global task is connected with it."""
    queue = TcpQueue(token=TOKEN, node=1)
    queue.listen()
    router = EventRouter(TcpQueue("", [queue.address], TOKEN))
    task.router = router
    router.listen()
    yield queue
    task.router = type(task).router
    router.stop()
    queue.stop()


def sent(queue: TcpQueue, event: str, payload: Any) -> None:
    """Emits an event as the other process."""
    end = time.monotonic() + 60
    while not queue.is_wanted(event):
        assert time.monotonic() < end
        time.sleep(0.005)
    queue.publish(event, pack({"args": (payload,), "kwargs": {}}))


def test_a_learner_merges_the_samples_of_collectors(other: TcpQueue) -> None:
    seen: list[Any] = []
    with task.start(ctx=OnlineRLContext()):
        task.add_role(task.role.LEARNER)
        task.use(ContextExchanger())
        task.use(lambda ctx: seen.append((len(ctx.trajectories), ctx.env_step, ctx.env_episode)))
        task.use(lambda ctx: setattr(task, "finish", sum(each[0] for each in seen) == 8))
        for count in (3, 5):
            block = Batch({"obs": np.zeros((count, 2))})
            samples = {"trajectories": block, "trajectory_end_idx": [count - 1]}
            facts = {"env_step": count, "env_episode": 1, "samples": samples}
            sent(other, "context_of_collector", facts)
        task.run(max_step=2)
    assert (seen[-1][1], seen[-1][2]) == (8, 2)


def test_ends_of_trajectories_stay_with_their_block(
    other: TcpQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """A block without an end, from one collector, before one with an end."""
    ends: list[int] = []
    with task.start(ctx=OnlineRLContext()):
        task.add_role(task.role.LEARNER)
        exchanger = ContextExchanger(timeout=0.1)
        for count, found in ((3, []), (5, [4])):
            samples = {"trajectories": Batch({"obs": np.zeros((count, 2))})}
            if found:
                samples["trajectory_end_idx"] = found
            sent(other, "context_of_collector", {"samples": samples})
        while len(exchanger._inbox._items) < 2:
            time.sleep(0.01)
        task.use(exchanger)
        task.use(lambda ctx: ends.extend(ctx.trajectory_end_idx))
        task.run(max_step=1)
        assert ends == [3 + 4]
        later = {"trajectories": Batch({"obs": np.zeros((1, 2))})}
        timer = threading.Timer(0.3, sent, (other, "context_of_collector", {"samples": later}))
        timer.start()
        task.run(max_step=1)
        timer.join()
    assert "no samples within 0.1 s, connected processes: 1; waiting" in caplog.text


def test_a_task_that_starts_when_the_others_have_finished_ends(other: TcpQueue) -> None:
    steps: list[int] = []
    sent(other, "finish", True)
    end = time.monotonic() + 60
    while not task.router._finished_before:
        assert time.monotonic() < end
        time.sleep(0.005)
    with task.start(ctx=OnlineRLContext()):
        task.use(lambda ctx: steps.append(ctx.total_step))
        task.run(max_step=1000)
    assert steps == []
    with task.start(ctx=OnlineRLContext()):  # the next one is another matter
        task.use(lambda ctx: steps.append(ctx.total_step))
        task.run(max_step=3)
    assert steps == [0, 1, 2]


@pytest.mark.parametrize("kind", ["ModelExchanger", "PeriodicalModelExchanger"])
def test_parameters_are_loaded_as_a_whole_before_a_step(other: TcpQueue, kind: str) -> None:
    model = torch.nn.Linear(2, 1)
    with task.start(ctx=OnlineRLContext()):
        task.add_role(task.role.COLLECTOR)
        exchanger: Any = ModelExchanger(model)
        if kind == "PeriodicalModelExchanger":
            exchanger = PeriodicalModelExchanger(model, mode="receive", id_=3, stale_toleration=0)
            state = {name: value + 9 for name, value in model.state_dict().items()}
            sent(other, "model_exchanger", {"version": 1, "id": 4, "state": state})
        state = {name: torch.ones_like(value) for name, value in model.state_dict().items()}
        sent(other, "model_exchanger", {"version": 7, "id": 3, "state": state})
        task.use(exchanger)
        end = time.monotonic() + 60
        while exchanger.version < 0:
            assert time.monotonic() < end
            task.run(max_step=1)
    assert exchanger.version == 7
    assert all(bool((value == 1).all()) for value in model.state_dict().values())


def test_a_sender_sends_every_period(other: TcpQueue) -> None:
    other.subscribe("weights")
    model = torch.nn.Linear(2, 1)
    with task.start(ctx=OnlineRLContext()):
        end = time.monotonic() + 60
        while not task.router.bus.is_wanted("weights"):
            assert time.monotonic() < end
            time.sleep(0.005)
        task.use(PeriodicalModelExchanger(model, period=3, id_=2, event_name="weights"))
        task.run(max_step=7)
    found = [unpack(other.recv()[1])["args"][0] for _ in range(3)]
    assert [each["version"] for each in found] == [0, 1, 2]
    assert {each["id"] for each in found} == {2}


@pytest.mark.parametrize("options", [{"mode": "both"}, {"period": 0}])
def test_wrong_options_of_a_periodical_exchanger_are_refused(options: dict[str, Any]) -> None:
    with task.start(ctx=OnlineRLContext()), pytest.raises(UsageError):
        PeriodicalModelExchanger(torch.nn.Linear(2, 1), **options)


def _read_elsewhere(handle: Mapping[str, Any]) -> bytes:
    """Reads a block of shared memory in an independent process; returns its complaints."""
    code = (
        f"from dicore_compat.comm import SharedMemoryLoader; SharedMemoryLoader().load({handle!r})"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stderr


def test_stores_return_what_was_saved_and_leave_nothing(tmp_path: Path) -> None:
    content = {"x": np.arange(1000), "y": ["text"]}
    stores = [FileStorageLoader(tmp_path), SharedMemoryLoader()]
    for store in stores:
        handle = store.save(content)
        back = store.load(unpack(pack(handle)))
        assert back["y"] == ["text"]
        assert (back["x"] == content["x"]).all()
        if isinstance(store, SharedMemoryLoader):
            assert _read_elsewhere(handle) == b""
            assert store.load(handle)["y"] == ["text"]  # the reader's end did not remove it
        store.close()
        with pytest.raises(FileNotFoundError):
            store.load(handle)
    assert list(tmp_path.iterdir()) == []
    model = torch.nn.Linear(2, 1)
    loader = FileModelLoader(model, tmp_path)
    assert loader.load(loader.save()).keys() == model.state_dict().keys()
    with pytest.raises(UsageError, match="not the name"):
        loader.load({"file": "../../etc/passwd"})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--main", "main"], "MODULE.FUNCTION"),
        (["--main", "absent_module.main"], "no module"),
        (["--main", "json.absent"], "has no function"),
        (["--main", "json.dumps", "--ports", "x"], "expected numbers"),
        (["--main", "json.dumps", "--platform", "slurm"], "SLURM_PROCID"),
        (["--main", "json.dumps", "--platform", "slurm", "--node-ids", "1"], "--node-ids has no"),
        (["--main", "json.dumps", "--platform", "slurm", "--parallel-workers", "2"], "--ntasks"),
    ],
)
def test_ditask_names_what_is_wrong(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ditask", *words]) == 2
    assert text in capsys.readouterr().err
