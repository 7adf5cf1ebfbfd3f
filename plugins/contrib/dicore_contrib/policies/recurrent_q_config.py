"""Options of recurrent SAC and TD3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import ComponentConfig, OtherConfig, component, frozen, option, section
from dicore_plugins.policies import (
    SACConfig,
    SACLearnConfig,
    TD3Config,
    TD3LearnConfig,
    builds,
    unused_options,
)

__all__ = [
    "RecurrentSACConfig", "RecurrentSACLearnConfig", "RecurrentTD3Config",
    "RecurrentTD3LearnConfig",
]  # fmt: skip

_REPLAY = {
    "type": "sequence",
    "replay_buffer_size": 100_000,
    "burn_in": 8,
    "unroll_len": 32,
    "stride": 8,
    "state_keys": ("prev_state",),
}
_REQUIRES: Mapping[str, tuple[object, str]] = {
    "priority": (False, "draws sequences uniformly; set it to False"),
    "priority_IS_weight": (False, "draws sequences uniformly; set it to False"),
    "traj_len_inf": (False, "learns from pieces of episodes; set it to False"),
    "nstep": (1, "learns from single rewards; set it to 1"),
    "collect.unroll_len": (1, "has its sequences from other.replay_buffer; set it to 1"),
    "collect.act_by_numpy": (True, "acts by torch; leave it out"),
    "learn.compile": (False, "has losses of varying size; leave it out"),
    "learn.autocast": (None, "computes in float32; leave it out"),
}


def _buffer_problems(buffer: ComponentConfig | None) -> Iterator[tuple[str, str]]:
    place = "other.replay_buffer"
    if buffer is None:  # it is no run
        return
    if buffer.get("state_keys") is None:
        yield place, "must be 'sequence', which makes sequences of steps"
    elif tuple(buffer["state_keys"]) != ("prev_state",):
        yield f"{place}.state_keys", 'must be ["prev_state"], from which sequences go on'
    elif buffer["state_every"]:
        yield f"{place}.state_every", "must be 0: a sequence goes on from its first state"
    elif buffer["unroll_len"] < 2:
        yield f"{place}.unroll_len", "must be 2 or more, or nothing is learned to be remembered"
    elif (buffer["stride"] or 0) > buffer["unroll_len"]:
        longest = buffer["unroll_len"]
        yield f"{place}.stride", f"must be <= unroll_len = {longest}, or steps are left out"
    names = ("alpha", "beta", "anneal_step", "eta")
    yield from unused_options(buffer, "priority", *names, place=f"{place}.")


@frozen(kw_only=True)
class RecurrentSACLearnConfig(SACLearnConfig):
    """Options of learning."""

    batch_size: int = option(32, "sequences per gradient update", ge=1)


@frozen(kw_only=True)
class RecurrentSACConfig(SACConfig):
    """SAC over recurrent networks, for environments that hide their state (Ni et al. 2022)."""

    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = {
        **_REQUIRES,
        "collect.sde_sample_freq": (32, "has no model.gsde; leave it out"),
    }

    model: ComponentConfig = component(
        "model", default="recurrent_qac", help="recurrent actor and Q networks"
    )
    learn: RecurrentSACLearnConfig = section(RecurrentSACLearnConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_REPLAY)

    build = builds("dicore_contrib.policies.recurrent_q:RecurrentSACPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        yield from _buffer_problems(self.other.replay_buffer)


@frozen(kw_only=True)
class RecurrentTD3LearnConfig(TD3LearnConfig):
    """Options of learning."""

    batch_size: int = option(32, "sequences per gradient update", ge=1)
    learning_rate: float = option(3e-4, "learning rate of actor and critics", gt=0, lt=float("inf"))
    output_weight: float = option(
        0.003,
        "weight of the squared outputs of the actor before tanh, beside the mean of its Q values;"
        " raise it if its actions are all extreme; 0: none",
        ge=0,
    )


@frozen(kw_only=True)
class RecurrentTD3Config(TD3Config):
    """TD3 over recurrent networks, for environments that hide their state (Ni et al. 2022)."""

    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = _REQUIRES

    model: ComponentConfig = component(
        "model",
        default={"type": "recurrent_qac", "stochastic": False},
        help="recurrent actor and Q networks",
    )
    learn: RecurrentTD3LearnConfig = section(RecurrentTD3LearnConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_REPLAY)

    build = builds("dicore_contrib.policies.recurrent_q:RecurrentTD3Policy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        yield from _buffer_problems(self.other.replay_buffer)
