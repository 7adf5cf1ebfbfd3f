"""The logger contract: a good logger passes, and each check catches a planted fault."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from dicore.interfaces.logger import LogTarget
from dicore.testing.logger import LoggerContract

from .faults import Fault, catches


class GoodLogger:
    """Keeps lines, and writes them to a file when flushed."""

    target: LogTarget | None = None
    lines: Any = ()

    def open(self, target: LogTarget) -> None:
        self.target = target

    def write(self, line: str) -> None:
        self.lines = (*self.lines, line)

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        self.write(json.dumps(dict(scalars)))

    def log_text(self, text: str, *, channel: str = "run") -> None:
        self.write(text)

    def flush(self) -> None:
        if self.target is not None and self.lines:
            (self.target.folder / "log.txt").write_text("\n".join(self.lines))

    def close(self) -> None:
        self.flush()
        self.target = None


def needs_numbers(self: Any, scalars: Any, *, env_step: int, train_iter: int) -> None:
    self.write(json.dumps(dict(scalars), allow_nan=False))


def takes_them_out(self: Any, scalars: Any, *, env_step: int, train_iter: int) -> None:
    scalars.pop("b", None)


def beside(self: Any, target: LogTarget) -> None:
    (target.folder.parent / "elsewhere.txt").write_text("x")


def start_thread(self: Any, target: LogTarget) -> None:
    threading.Thread(target=threading.Event().wait, args=(0.5,), daemon=True).start()


def closes_once(self: Any) -> None:
    GoodLogger.close(self)
    del self.lines


FAULTS: list[Fault] = [
    ("has_the_methods", {"flush": None}),
    ("logs_a_whole_run", {"flush": lambda self: "flushed"}),
    ("logs_a_whole_run", {"log_scalars": needs_numbers}),
    ("logs_a_whole_run", {"log_scalars": takes_them_out}),
    ("logs_a_whole_run", {"open": beside}),
    ("accepts_a_run_without_entries", {"flush": lambda self: self.lines[-1] and None}),
    ("close_ends_it", {"close": closes_once}),
    ("close_ends_it", {"open": start_thread}),
]
PLANTED = {LoggerContract: [check for check, _ in FAULTS]}


class TestGoodLogger(LoggerContract):
    def make(self) -> GoodLogger:
        return GoodLogger()


class Hasty(LoggerContract):
    grace = 0.05


test_each_check_catches_its_fault = catches(Hasty, GoodLogger, FAULTS)
