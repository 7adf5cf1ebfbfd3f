"""Logger and service together, over a real socket."""

import http.client
import json
import logging
import math
import platform
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from postbox_rl.command import command
from postbox_rl.logger import TOKEN, Postbox
from postbox_rl.service import Service
from postbox_rl.store import Store

from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "metrics.sqlite")
    yield store
    store.close()


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    service = Service(store)
    threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
    yield service
    service.shutdown()
    service.server_close()


def opened(url: str, tmp_path: Path, resumed_at: tuple[int, int] | None = None) -> Postbox:
    logger = Postbox(url=url, close_s=30.0)
    logger.open(LogTarget(tmp_path / "log", title="runs/a", resumed_at=resumed_at))
    return logger


def name_of(folder: Path) -> str:
    return f"{platform.node()}:{folder}"


def post(service: Service, body: bytes, **headers: str) -> tuple[int, str]:
    return request(service, "POST", "/entries", body, headers)


def request(service: Service, *asked: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", service.server_port, timeout=30)
    with closing(connection):
        connection.request(*asked)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_what_is_logged_is_stored(service: Service, store: Store, tmp_path: Path) -> None:
    logger = opened(service.url, tmp_path)
    logger.log_scalars({"evaluator/return_mean": 21.0, "x": math.nan}, env_step=8, train_iter=3)
    logger.log_scalars({"evaluator/return_mean": 9.0, "x": math.inf}, env_step=16, train_iter=6)
    logger.close()
    told = {"env_step": 16, "train_iter": 6, "metrics": 4, "best_return": 21.0}
    assert list(store.runs()) == [{"run": name_of(tmp_path), **told}]


def test_runs_of_one_relative_name_in_two_folders_are_two(
    service: Service, store: Store, tmp_path: Path
) -> None:
    for folder, step in (("first", 1), ("second", 2)):
        logger = opened(service.url, tmp_path / folder)
        logger.log_scalars({"x": 1.0}, env_step=step, train_iter=1)
        logger.close()
    assert {each["run"]: each["env_step"] for each in store.runs()} == {
        name_of(tmp_path / "first"): 1,
        name_of(tmp_path / "second"): 2,
    }


def test_a_run_that_replaces_another_has_none_of_its_metrics(
    service: Service, store: Store, tmp_path: Path
) -> None:
    for step in (8, 3):
        logger = opened(service.url, tmp_path)
        logger.log_scalars({"x": 1.0}, env_step=step, train_iter=1)
        logger.close()
    assert [(each["env_step"], each["metrics"]) for each in store.runs()] == [(3, 1)]


class Slow(Store):
    """Stores nothing until it may."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.asked, self.may = threading.Event(), threading.Event()

    def add(self, run: str, entries: list[Mapping[str, Any]]) -> None:
        self.asked.set()
        assert self.may.wait(30)
        super().add(run, entries)


def test_an_overflow_during_a_request_loses_the_oldest_that_wait_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("postbox_rl.logger._MOST_WAITING", 4)
    store = Slow(tmp_path / "slow.sqlite")
    service = Service(store)
    threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
    try:
        logger = opened(service.url, tmp_path)
        logger.log_scalars({"x": 0.0}, env_step=0, train_iter=0)
        logger.flush()
        assert store.asked.wait(30)
        for step in range(1, 7):
            logger.log_scalars({"x": 0.0}, env_step=step, train_iter=0)
        store.may.set()
        logger.close()
    finally:
        service.shutdown()
        service.server_close()
    found = store._base.execute("SELECT env_step FROM metrics ORDER BY env_step").fetchall()
    store.close()
    assert [step for (step,) in found] == [0, 3, 4, 5, 6]
    assert "misses the oldest of 4" in caplog.text


@pytest.mark.parametrize("bad", ["count", "size"])
def test_a_refused_entry_stops_no_other(
    bad: str, service: Service, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = opened(service.url, tmp_path)
    for step in range(20):
        tag, count = "x", step
        if step == 7:
            tag, count = ("x", 1 << 70) if bad == "count" else ("x" * (5 << 20), step)
        logger.log_scalars({tag: 1.0}, env_step=count, train_iter=0)
    logger.close()
    assert [(each["metrics"], each["env_step"]) for each in store.runs()] == [(19, 19)]
    assert caplog.text.count("refuses entries") == 1


def test_the_list_of_runs_is_json_whatever_the_returns_are(service: Service, store: Store) -> None:
    for run, value in (("a", math.inf), ("b", -math.inf), ("c", math.nan), ("d", 2.0)):
        scalars = {"evaluator/return_mean": value}
        store.add(run, [{"env_step": 1, "train_iter": 1, "scalars": scalars}])
    _, text = request(service, "GET", "/runs")
    found = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert [each["best_return"] for each in found] == ["inf", "-inf", None, 2.0]


def test_a_resumed_run_goes_on_after_its_checkpoint(
    service: Service, store: Store, tmp_path: Path
) -> None:
    logger = opened(service.url, tmp_path)
    for step in (1, 2, 3):
        logger.log_scalars({"x": float(step)}, env_step=step, train_iter=step)
    logger.close()
    opened(service.url, tmp_path, resumed_at=(2, 2)).close()
    assert [each["env_step"] for each in store.runs()] == [2]


def test_a_service_that_is_away_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = opened("http://127.0.0.1:9", tmp_path)
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            logger.log_scalars({"x": 1.0}, env_step=step, train_iter=0)
            logger.flush()
        until = time.monotonic() + 20
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.01)
        monkeypatch.setattr("postbox_rl.logger._MOST_WAITING", len(logger._waiting))
        logger.log_scalars({"x": 1.0}, env_step=3, train_iter=0)
        logger.close()
    assert len(caplog.records) == 1
    assert "does not take metrics" in caplog.text


def test_a_token_is_needed_where_there_is_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(store, token="secret")  # noqa: S106 - of this test
    threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
    try:
        body = json.dumps({"run": "b", "entries": []}).encode()
        assert post(service, body)[0] == 401
        assert post(service, body, Authorization="Bearer wrong")[0] == 401
        monkeypatch.setenv(TOKEN, "secret")
        logger = opened(service.url, tmp_path)
        logger.log_scalars({"x": 1.0}, env_step=1, train_iter=1)
        logger.close()
    finally:
        service.shutdown()
        service.server_close()
    assert [each["run"] for each in store.runs()] == [name_of(tmp_path)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        b'{"run": "a", "entries": [1]}',
        b'{"run": "a", "entries": [{"env_step": 1}]}',
        b'{"run": "a", "entries": [{"env_step": 1e999, "train_iter": 1, "scalars": {}}]}',
        b'{"run": "a", "entries": [{"env_step": 99999999999999999999, "train_iter": 1,'
        b' "scalars": {"x": 1}}]}',
    ],
)
def test_anything_else_is_refused_and_stores_nothing(
    body: bytes, service: Service, store: Store
) -> None:
    assert post(service, body)[0] == 400
    assert list(store.runs()) == []


def test_too_much_is_refused_before_it_is_read(service: Service) -> None:
    headers = {"Content-Length": "99999999999999"}
    assert post(service, b"", **headers)[0] == 413


def test_wrong_addresses_and_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected http"):
        Postbox(url="ftp://somewhere")
    (tmp_path / "text").write_text("no base" * 100)
    with pytest.raises(UsageError, match="not a database"):
        Store(tmp_path / "text")


def test_the_command_lists_runs_and_guards_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    file = tmp_path / "metrics.sqlite"
    store = Store(file)
    store.add("runs/a", [{"env_step": 5, "train_iter": 1, "scalars": {"x": 1.0}}])
    store.close()
    shown = CliRunner().invoke(command, ["runs", "--file", str(file)])
    assert (shown.exit_code, "runs/a" in shown.output) == (0, True)
    refused = CliRunner().invoke(command, ["serve", "--host", "192.0.2.1", "--file", str(file)])
    assert isinstance(refused.exception, UsageError)
