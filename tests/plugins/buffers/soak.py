"""Runs the state machines of all buffers for many operations, each beside its list model.

python -m tests.plugins.buffers.soak --operations 1000000    # make soak
python -m tests.plugins.buffers.soak --operations 200000 --only file

Ctrl-C ends it with the numbers so far.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from dicore_compat.deque import DequeBuffer
from tests.compat.deque import test_deque
from tests.plugins.buffers import test_advanced, test_episode, test_file, test_sequence

MODULES = (test_advanced, test_deque, test_episode, test_file, test_sequence)
COUNTED = ("push", "sample", "sample_batch", "update")
EXAMPLES, STEPS = 200, 50
"""Machines of one round, and operations of each at most."""


class Counts:
    """Counts calls of a buffer's methods, not those that its methods make of each other."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._inside = False

    def watch(self, cls: type[Any]) -> None:
        """Counts the calls of instances of a class."""
        for name in filter(partial(hasattr, cls), COUNTED):
            setattr(cls, name, self._counted(name, getattr(cls, name)))

    def _counted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return method(*args, **kwargs)
            self._inside = True
            self.calls[name] += 1
            try:
                return method(*args, **kwargs)
            finally:
                self._inside = False

        return call


def soak(module: Any, operations: int, first_seed: int) -> Counter[str]:
    """Runs the state machine of a test module until its buffer did so many operations."""
    machine: type[RuleBasedStateMachine] = module.AgainstAList
    options = settings(
        max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    counts, number = COUNTS[module], first_seed
    while sum(counts.calls.values()) < operations:
        run_state_machine_as_test(seed(number)(machine), settings=options)
        number += 1
    return counts.calls


def watched(module: Any) -> Counts:
    """Returns the counts of the buffer of a test module."""
    counts = Counts()
    if module is test_deque:
        counts.watch(DequeBuffer)
    else:
        names = {test_advanced: "AdvancedReplayBuffer", test_episode: "EpisodeReplayBuffer",
                 test_file: "FileReplayBuffer", test_sequence: "SequenceReplayBuffer"}  # fmt: skip
        counts.watch(getattr(module, names[module]))
    return counts


COUNTS = {module: watched(module) for module in MODULES}


def say(text: str) -> None:
    """Writes a line to the terminal or log at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Shares the operations among the machines and prints what was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    names = {module.__name__.rpartition("test_")[2]: module for module in MODULES}
    parser.add_argument("--only", nargs="+", choices=names, default=list(names))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    each, stopped = options.operations // len(options.only), False
    for name in options.only:
        start = time.perf_counter()
        try:
            soak(names[name], each, options.seed)
        except KeyboardInterrupt:
            stopped = True
        calls = COUNTS[names[name]].calls
        counts = ", ".join(f"{count} {what}" for what, count in sorted(calls.items()))
        say(f"{name}: {counts}; {time.perf_counter() - start:.0f} s, no difference")
        if stopped:
            break
    total = sum(sum(each.calls.values()) for each in COUNTS.values())
    say(f"{total} operations without a difference from the models{', stopped' * stopped}")
    return 130 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
