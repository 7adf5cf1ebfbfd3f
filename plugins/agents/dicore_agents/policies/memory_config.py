"""Options of policies of teams that learn from a replay buffer, whose agents may remember.

Importing this needs neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dicore.config.schema import option

if TYPE_CHECKING:
    from dicore.config.sections import PolicyConfig

__all__ = ["burn_in_option", "memory_problems", "unroll_len_option"]


def unroll_len_option() -> Any:
    """Returns the option of the steps of a sequence."""
    return option(
        1, "steps of a sequence that are learned from, with model.rnn, after burn_in; 1: single"
        " steps", ge=1, unit="env steps",
    )  # fmt: skip


def burn_in_option() -> Any:
    """Returns the option of the steps before them."""
    return option(
        0, "steps before them, which only warm up the recurrent states", ge=0, unit="env steps"
    )


def memory_problems(cfg: PolicyConfig, name: str) -> Iterator[tuple[str, str]]:
    """Yields the options that contradict each other of a policy called `name`."""
    remembers = cfg.model is not None and cfg.model.get("rnn") is not None
    if remembers and cfg.collect.unroll_len == 1:
        yield (
            "collect.unroll_len",
            "a recurrent network learns from sequences; set the steps of one, for example 32",
        )
    for path, least in () if remembers else (("unroll_len", 1), ("burn_in", 0)):
        if cfg.collect.get(path, least) != least:
            yield (
                f"collect.{path}",
                f"{name} learns from single steps; set it to {least}, or set model.rnn",
            )
    if "state_keys" in (cfg.other.replay_buffer or ()):
        yield (
            "other.replay_buffer",
            f"{name} makes sequences while it collects; choose naive or advanced",
        )
