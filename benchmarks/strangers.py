"""Rate of requests and messages of honest processes, alone and among 64 strangers on the port.

python -m benchmarks.strangers            # 5 rounds of 2 s for HTTP and for the message queue
python -m benchmarks.strangers --quick    # one round of 0.5 s
python -m benchmarks.strangers --flood    # strangers come again without a pause

Strangers are a process of their own: of 64 connections, some end at once, some are silent, some
drip a byte, some send garbage or announce huge lengths; each comes again 50 ms after its end. With
several cores they have the last one, and server and honest peers the first: rates are per second of
the clock then, and per second of CPU on one core.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.measure import compare, emit
from dicore_compat.comm import TcpQueue
from dicore_dist.links.http import HttpTransport

TOKEN = "a token of the benchmark"  # noqa: S105 - of no use elsewhere
COUNT, AGAIN_S, DRIP_S = 64, 0.05, 0.1
_SIGNED = b"X-Dicore-Request: " + b"0" * 32 + b"\r\nX-Dicore-Signature: " + b"0" * 64 + b"\r\n"
_HUGE = b"POST /task HTTP/1.1\r\nContent-Length: 268435456\r\n" + _SIGNED
SENT = (None, b"", b"P", b"\x00\xff" * 400, _HUGE, _HUGE + b"\r\n" + bytes(4096))


class Rounds(NamedTuple):
    """How often and how long is measured, the core of the strangers, and their pause."""

    number: int
    seconds: float
    core: int | None
    again_s: float


def cores() -> list[int]:
    """Returns the cores of this machine that may be chosen; one or none: they may not."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []


def strangers(port: int, ready: Any, core: int | None, again_s: float) -> None:
    """Holds 64 connections to a port until this process is ended."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    waiting = selectors.DefaultSelector()
    due = dict.fromkeys(range(COUNT), 0.0)
    open_: dict[int, socket.socket] = {}
    dripped = 0.0
    while True:
        now = time.monotonic()
        for number in [each for each, at in due.items() if at <= now]:
            del due[number]
            sent = SENT[number % len(SENT)]
            try:
                made = socket.create_connection(("127.0.0.1", port), 1.0)
                made.setblocking(False)
                made.send(sent or b"")
            except OSError:
                due[number] = now + again_s
                continue
            if sent is None:
                made.close()
                due[number] = now + again_s
                continue
            open_[number] = made
            waiting.register(made, selectors.EVENT_READ, number)
        ready.set()
        ended = [key.data for key, _ in waiting.select(min(0.02, again_s))]
        if now - dripped > DRIP_S:
            dripped = now
            ended += [number for number in open_ if number % 2 == 0 and not _drips(open_[number])]
        for number in {*ended}:
            made = open_.pop(number)
            waiting.unregister(made)
            made.close()
            due[number] = time.monotonic() + again_s


def _drips(made: socket.socket) -> bool:
    try:
        made.send(b"x")
    except OSError:
        return False
    return True


def rate(call: Callable[[], Any], seconds: float, *, by_cpu: bool) -> float:
    """Returns calls per second of the clock, or of CPU, which other programs do not change."""
    begin, count, used = time.perf_counter(), 0, time.process_time()
    while (passed := time.perf_counter() - begin) < seconds:
        call()
        count += 1
    return count / (time.process_time() - used if by_cpu else passed)


def compared(name: str, port: int, call: Callable[[], Any], rounds: Rounds) -> None:
    """Prints the rates of a call alone and among strangers, and their ratio."""
    context = multiprocessing.get_context("spawn")
    alone, among, seconds, by_cpu = [], [], rounds.seconds, rounds.core is None
    rate(call, 0.2, by_cpu=by_cpu)
    for _ in range(rounds.number):
        alone.append(rate(call, seconds, by_cpu=by_cpu))
        ready = context.Event()
        given = port, ready, rounds.core, rounds.again_s
        process = context.Process(target=strangers, args=given, daemon=True)
        process.start()
        ready.wait(30)
        among.append(rate(call, seconds, by_cpu=by_cpu))
        process.kill()
        process.join()
        time.sleep(0.2)
    unit = "1/s of CPU" if by_cpu else "1/s"
    emit(f"{name} alone", alone, unit)
    emit(f"{name} among {COUNT} strangers", among, unit)
    compare(f"{name}: among strangers,", among, alone, "alone", 0.8)


def main(*, quick: bool = False, flood: bool = False) -> None:
    """Measures both listening faces."""
    mine, *others = cores() or [0]
    number, seconds = (1, 0.5) if quick else (5, 2.0)
    rounds = Rounds(number, seconds, others[-1] if others else None, 0.0 if flood else AGAIN_S)
    if others:
        os.sched_setaffinity(0, {mine})
    with_http(rounds)
    with_queue(rounds)


def with_http(rounds: Rounds) -> None:
    """Measures requests, each on a connection of its own."""
    server = HttpTransport(token=TOKEN)
    server.serve("task", lambda data: {"x": data["x"]})
    asked = HttpTransport(peer=server.address, token=TOKEN)
    call = lambda: asked.request("task", {"x": 1}, timeout=30)  # noqa: E731 - a benchmark
    compared("requests", server.port, call, rounds)
    begin = time.perf_counter()
    server.close()
    emit("close of the server", [time.perf_counter() - begin], "s")


def with_queue(rounds: Rounds) -> None:
    """Measures messages there and back; the connection is made among the strangers' first."""
    first, heard = TcpQueue(token=TOKEN), threading.Semaphore(0)
    first.listen()
    first.subscribe("a")
    second = TcpQueue("", [first.address], TOKEN, node=1)
    second.listen()
    second.wait_for_peers(1, 10)

    def listen() -> None:
        while True:
            try:
                first.recv()
            except Exception:
                return
            heard.release()

    threading.Thread(target=listen, daemon=True).start()
    while not second.is_wanted("a"):
        time.sleep(0.01)

    def call() -> None:
        second.publish("a", b"x" * 100)
        heard.acquire()

    compared("messages", int(first.address.rpartition(":")[2]), call, rounds)
    first.stop()
    second.stop()


if __name__ == "__main__":
    main(quick="--quick" in sys.argv, flood="--flood" in sys.argv)
