"""What families of policies require of their options; see `dicore.config.schema.Section`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dicore.config.schema import fields_of

__all__ = [
    "IN_REPLAY", "NO_DOUBLE", "NO_REPLAY", "ONE_PROCESS", "PIECES", "SAMPLES", "SINGLE_STEPS",
    "Required", "unused_options",
]  # fmt: skip

Required = Mapping[str, tuple[Any, str] | None]

ONE_PROCESS: Required = {
    "multi_gpu": (
        False,
        "learns in one process; set it to False; several learners: -m parallel"
        " pipeline.system.learner_num=2",
    )
}
PIECES: Required = {"traj_len_inf": (False, "learns from pieces of episodes; set it to False")}
SAMPLES: Required = {"collect.n_episode": (None, "collects samples; use collect.n_sample")}
SINGLE_STEPS: Required = {"collect.unroll_len": (1, "learns from single steps; set it to 1")}

IN_REPLAY: Required = {"on_policy": (False, "learns from a replay buffer; set it to False")}
NO_REPLAY: Required = {
    "on_policy": (True, "trains on samples of the current policy; set it to True")
}
NO_DOUBLE: Required = {
    "learn.double": (False, "has no greedy action in its target; set it to False")
}


def unused_options(
    section: Any, without: str, *names: str, place: str = ""
) -> Iterator[tuple[str, str]]:
    """Yields the options that are set, and have no effect without another one; as `check` does."""
    fields = fields_of(type(section))
    for name in names:
        if name in fields and section[name] != fields[name].default():
            yield f"{place}{name}", f"has no effect without {without}; leave it out"
