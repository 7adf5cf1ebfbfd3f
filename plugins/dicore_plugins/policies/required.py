"""What families of policies require of their options; see `dicore.config.schema.Section`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "IN_REPLAY", "NO_DOUBLE", "NO_REPLAY", "ONE_PROCESS", "PIECES", "SAMPLES", "SINGLE_STEPS",
    "Required",
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
