"""Time to compile and bind a preset, and to report 300 misspelt options.

The wrong options are those of the preset with an additional letter, so that each must be compared
with all others to find the nearest name. Imports are not included.

    python -m benchmarks.config
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from benchmarks.measure import ROUNDS, at_most
from dicore.config import bind, compile_config, flatten
from dicore.errors import ConfigError
from dicore.run.env_factory import spec_of

PRESET = "cartpole_dqn"
WRONG = 300
REPORT_MS, COMPILE_MS = 50.0, 20.0


def misspelt(number: int) -> list[str]:
    """Returns `number` overrides of options with an additional letter."""
    paths = [path for path in flatten(compile_config(preset=PRESET).cfg) if "[" not in path]
    wrong: list[str] = []
    for turn in count():
        for path in paths:
            above, dot, key = path.rpartition(".")
            at = turn % len(key)
            wrong.append(f"{above}{dot}{key[:at]}{'x' * (turn // len(key) + 1)}{key[at:]}=1")
            if len(wrong) == number:
                return wrong
    raise AssertionError("unreachable")


def report(wrong: list[str]) -> int:
    """Compiles a wrong config and returns the number of reported errors."""
    try:
        compile_config(preset=PRESET, overrides=wrong)
    except ConfigError as error:
        return len(error.problems)
    raise AssertionError("the config is wrong")


def times(act: Callable[[], object]) -> list[float]:
    """Returns the milliseconds of each call."""
    act()
    taken = []
    for _ in range(3 * ROUNDS):
        start = time.perf_counter()
        act()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def main() -> None:
    wrong = misspelt(WRONG)
    assert report(wrong) >= WRONG - 5, "too few errors: some misspelt options may be equal"
    at_most("config report of 300 wrong keys", times(lambda: report(wrong)), "ms", REPORT_MS)
    compiled = compile_config(preset=PRESET)
    spaces = spec_of(compiled.env, compiled.seed)
    made = times(lambda: bind(compile_config(preset=PRESET), spaces))
    at_most("config compile and bind", made, "ms", COMPILE_MS)


if __name__ == "__main__":
    main()
