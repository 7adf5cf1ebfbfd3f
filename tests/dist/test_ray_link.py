"""The link `ray`: tasks through mailboxes, samples and parameters in the object store."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore_dist.commands.pipeline import flow_of
from dicore_dist.coordinator.commander import NaiveCommander
from dicore_dist.coordinator.coordinator import Coordinator
from dicore_dist.coordinator.journal import Journal
from dicore_dist.links.errors import AuthenticationError, PeerError, RemoteTaskError
from dicore_dist.links.ray_link import RayStore, RayTransport
from dicore_dist.workers.ray_roles import RayCollector, RayLearner
from tests.dist.test_roles import Known, compiled, info_of


@pytest.fixture
def token() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def store(token: str) -> Iterator[RayStore]:
    made = RayStore(token)
    yield made
    made.clear("job")


@pytest.mark.ray
def test_requests_through_a_mailbox(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    served = RayTransport(token=token)
    asks = RayTransport(served.address, token)
    with pytest.raises(PeerError, match="no process answers"):
        asks.request("double", {"x": 1})
    blocked = threading.Event()
    served.serve("double", lambda data: {"x": data["x"] * 2})
    served.serve("fail", lambda data: {"x": 1 / 0})
    served.serve("hang", lambda data: {"x": blocked.wait(60)})
    try:
        assert asks.request("double", {"x": np.arange(2)})["x"].tolist() == [0, 2]
        with pytest.raises(PeerError, match=r"did not answer 'hang' within 0\.3 s"):
            asks.request("hang", {}, timeout=0.3)
        assert asks.request("double", {"x": 2})["x"] == 4  # beside the one that hangs
        with pytest.raises(RemoteTaskError, match="ZeroDivisionError: division by zero"):
            asks.request("fail", {})
        with pytest.raises(RemoteTaskError, match="'dance' is not served; expected double, fail"):
            asks.request("dance", {})
        _answer = served._answer
        monkeypatch.setattr(served, "_answer", lambda version, *rest: _answer("0.0.0", *rest))
        with pytest.raises(AuthenticationError, match=r"versions differ: .* the other 0\.0\.0"):
            asks.request("double", {"x": 1})
        assert not served.lost
        served._ray.kill(served._mailbox)
        until = time.monotonic() + 60
        while not served.lost:  # its process then ends, and is started again
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        blocked.set()
        served.close()
    with pytest.raises(PeerError, match="no process answers"):
        asks.request("double", {"x": 1})


@pytest.mark.ray
def test_what_is_stored_belongs_to_the_training(token: str, store: RayStore) -> None:
    batch = Batch({"obs": np.arange(6.0).reshape(3, 2), "inner": {"a": np.arange(3)}})
    store.save("block", batch)
    store.save("policy", {"version": 1, "state": {"w": np.ones(2)}})
    first = store.stamp("policy")
    store.save("policy", {"version": 2, "state": {"w": np.zeros(2)}})
    assert None not in (first, store.stamp("policy"))
    assert store.stamp("policy") != first
    again = RayStore(token)
    assert again.load("policy")["version"] == 2
    loaded = again.load("block")
    assert loaded["obs"].tolist() == batch["obs"].tolist()
    loaded["obs"][:] = 0.0  # a learner may write to it
    again.remove("block")
    with pytest.raises(FileNotFoundError, match="block"):
        store.load("block")
    assert RayStore(uuid.uuid4().hex).stamp("policy") is None  # of another training


@pytest.mark.ray
def test_a_training_over_ray(token: str, store: RayStore, tmp_path: Path) -> None:
    """FEATURES I22-I36: the tasks are those of `flask_fs`, and the same ratio is kept."""
    config = compiled("pipeline.max_train_iter=20", "pipeline.system.collector_num=1")
    learner = RayLearner(None, str(tmp_path), 1, 5, token=token)
    collector = RayCollector(token=token)
    made: dict[str, Any] = {"learner0": learner, "collector0": collector}
    for each in made.values():
        each.start()
    try:
        journal = Journal(tmp_path / "journal.jsonl")
        peers = Known({name: each.address for name, each in made.items()}, token)
        job = {**info_of(config), "job_id": journal.job_id}
        flow = flow_of(config.cfg, store, journal.blocks)
        commander = NaiveCommander()
        coordinator = Coordinator(config.cfg, job, flow, commander, journal, peers)
        coordinator.run(lambda: False)
        assert coordinator.train_iter == 20
        assert flow.ratio.samples + 5 * 4 + 16 >= 20 * 4
        assert store.load("policy.frame")["version"] == 20
        assert all(each.wait(60) for each in made.values())
        with pytest.raises(UsageError, match="samples of this training are gone"):
            flow_of(config.cfg, store, [{"file_path": "lost", "count": 1, "env_step": 1}])
    finally:
        for each in made.values():
            each.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["comm_learner=ray"], "system.address: expected host:port of a Ray cluster"),
        (["comm_learner=ray", "comm_collector=flask_fs", "start=threads"], "expected ray for"),
        (["address=127.0.0.1:1", "learner_port=7000"], "learner_port: has no effect with ray"),
        (["max_restarts=1", "max_retries=2"], "max_retries: has no effect beside max_restarts"),
    ],
)
def test_what_does_not_fit_is_told(options: list[str], text: str) -> None:
    overrides = [f"pipeline.system.{each}" for each in options]
    tree = {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}, "pipeline": {"type": "dist"}}
    with pytest.raises(ConfigError, match=text):
        compile_config(tree, overrides=overrides)


def test_a_cluster_that_is_missing_is_told(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(UsageError, match="no Ray cluster is given"):
        RayStore(token).stamp("x")
    monkeypatch.delenv("DICORE_TOKEN", raising=False)
    with pytest.raises(UsageError, match="need a token"):
        _ = RayTransport().address
