"""Options of R2D2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.required import PIECES, Required
from dicore_plugins.policies.value.dqn_config import (
    DQNCollectConfig,
    DQNConfig,
    DQNLearnConfig,
    DQNOtherConfig,
)


@frozen(kw_only=True)
class R2D2LearnConfig(DQNLearnConfig):
    """Options of learning."""

    batch_size: int = option(32, "sequences per gradient update", ge=1)
    value_rescale: bool = option(
        True, "learn h(Q), which grows with the root of the return, for returns of any size"
    )
    priority_eta: float = option(
        0.9, "weight of the largest TD error of a sequence in its priority, beside the mean",
        ge=0, le=1,
    )  # fmt: skip


@frozen(kw_only=True)
class R2D2CollectConfig(DQNCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        8, "sequences per collect; use a multiple of env.collector_env_num", ge=1
    )
    unroll_len: int = option(
        20, "steps of a sequence that are learned from, after burn_in", ge=1, unit="env steps"
    )
    burn_in: int = option(
        10, "steps before them, which only warm up the recurrent state", ge=0, unit="env steps"
    )


@frozen(kw_only=True)
class R2D2Config(DQNConfig):
    """Recurrent Q-learning from replayed sequences with burn-in (Kapturowski et al. 2019)."""

    reduces: ClassVar[bool] = False
    requires: ClassVar[Required] = {**PIECES, "collect.unroll_len": None}

    priority: bool = option(True, "prioritized replay; needs a buffer that supports it")
    priority_IS_weight: bool = option(True, "weight losses by importance-sampling weights")  # noqa: N815 - the documents' name
    nstep: int = option(
        5, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    discount_factor: float = option(
        0.997, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    model: ComponentConfig = component("model", default="drqn", help="recurrent Q network")
    learn: R2D2LearnConfig = section(R2D2LearnConfig)
    collect: R2D2CollectConfig = section(R2D2CollectConfig)
    other: DQNOtherConfig = section(
        DQNOtherConfig,
        replay_buffer={"type": "advanced", "alpha": 0.9, "beta": 0.6, "anneal_step": 0},
    )

    build = builds("dicore_plugins.policies.value.r2d2:R2D2Policy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from self.common_problems()
        buffer = self.other.replay_buffer
        if "state_keys" not in buffer:
            return
        wanted = {
            "state_keys": ("prev_state",),
            "burn_in": self.collect.burn_in,
            "unroll_len": self.collect.unroll_len + self.nstep,
            "stride": self.collect.unroll_len,
        }
        for name, value in wanted.items():
            if buffer[name] != value:
                given = "unroll_len + nstep" if name == "unroll_len" else f"collect.{name}"
                yield f"other.replay_buffer.{name}", f"must be {value!r}, see {given}"
