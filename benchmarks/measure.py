"""Measures figures: contenders take turns in one run; medians, and ratios round by round.

Every figure is one JSON line with name, value, unit, runs, min and max; a ratio also has a target.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
ROUND_S = float(os.environ.get("BENCH_ROUND_S", "0.25"))


@functools.cache
def machine() -> str:
    """Returns processor, cores and Python in one line."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


@functools.cache
def commit() -> str:
    """Returns the short revision of the checkout, or ''."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - whatever git the machine has
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


_COLLECTED: list[list[dict[str, object]]] = []


def collect(figures: list[dict[str, object]]) -> None:
    """Appends every figure that is printed from now on to `figures`."""
    _COLLECTED.append(figures)


def emit(name: str, values: list[float], unit: str, **facts: object) -> float:
    """Prints one figure and returns its median."""
    median = statistics.median(values)
    line = {
        "name": name,
        "value": _round(median),
        "unit": unit,
        "runs": len(values),
        "min": _round(min(values)),
        "max": _round(max(values)),
        **facts,
        "commit": commit(),
        "machine": machine(),
    }
    print(json.dumps(line), flush=True)
    for figures in _COLLECTED:
        figures.append(line)
    return median


def at_most(name: str, values: list[float], unit: str, most: float) -> float:
    """Prints a figure with the upper limit `most` and returns its median."""
    reached = statistics.median(values) <= most
    return emit(name, values, unit, target=most, reached=reached, better="less")


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def contest(
    row: str,
    contenders: Mapping[str, Callable[[], object]],
    units: float,
    unit: str,
    *,
    against: Mapping[str, float],
    ours: str = "dicore",
    rounds: int | None = None,
    round_s: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Runs contenders A B C, A B C, … and prints each rate and our ratio to each other contender.

    Args:
        row: Name of the target (`P6`).
        contenders: Functions by name; each call does `units` units of work.
        units: Units of work in one call.
        unit: Name of the rate.
        against: Minimum ratio by contender; missing contenders are skipped.
        ours: The contender whose ratios are printed.
        rounds: Number of timings per contender; None: `ROUNDS`.
        round_s: Seconds per timing; None: `ROUND_S`.
        clock: `time.process_time` for work of one thread, which other processes then do not slow.
    """
    rounds, round_s = rounds or ROUNDS, round_s or ROUND_S
    counts = {name: _calls(fn, round_s) for name, fn in contenders.items()}
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, fn in contenders.items():
            start = clock()
            for _ in range(counts[name]):
                fn()
            rates[name].append(counts[name] * units / (clock() - start))
    for name, values in rates.items():
        emit(f"{row} {name}", values, unit)
    for name, target in against.items():
        if name in rates:
            compare(row, rates[ours], rates[name], name, target)
    return rates


def compare(row: str, ours: list[float], theirs: list[float], name: str, target: float) -> float:
    """Prints the ratio of two rates (median over the rounds) and whether it reaches the target."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    reached = statistics.median(ratios) >= target
    return emit(f"{row} dicore / {name}", ratios, "x", target=target, reached=reached)


def _calls(fn: Callable[[], object], round_s: float) -> int:
    """Returns the number of calls that fill a round, after a warm-up."""
    fn()
    count, spent = 1, 0.0
    while spent < round_s * 0.3:
        start = time.perf_counter()
        for _ in range(count):
            fn()
        spent = time.perf_counter() - start
        if spent < round_s * 0.3:
            count *= 2
    return max(1, int(count * round_s / max(spent, 1e-9)))


def missing(row: str, peer: str) -> None:
    """Prints that a peer is not installed."""
    print(f"{row}: {peer} is not installed; install benchmarks/peers.txt", file=sys.stderr)
