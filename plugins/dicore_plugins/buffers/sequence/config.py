"""Options of the sequence buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.buffers.naive.config import (
    alpha_option,
    anneal_option,
    beta_option,
    debug_option,
    eps_option,
    kernels_option,
    share_option,
    share_updates_option,
)

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer


__all__ = ["SequenceConfig"]


@frozen(kw_only=True)
class SequenceConfig(ComponentConfig):
    """Samples sequences of steps, each within one episode, uniformly or by priority (R2D2)."""

    keeps_origin: ClassVar[bool] = True
    """Needs all steps of each environment, in order."""

    replay_buffer_size: int = option(
        100_000, "capacity in steps; when full, the oldest step is overwritten", ge=1, unit="steps"
    )
    unroll_len: int = option(
        1, "steps of a sequence to learn from; 1: samples are single steps", ge=1, unit="steps"
    )
    burn_in: int = option(
        0, "steps before them, which only warm up the recurrent state", ge=0, unit="steps"
    )
    stride: int | None = option(
        None,
        "steps between the starts of two sequences of an episode; below unroll_len they overlap;"
        " None: unroll_len",
        ge=1,
        unit="steps",
    )
    padding: bool | Literal["all"] = option(
        True,
        "also sample the last steps of an episode that do not fill a sequence, with `valid` False"
        " after the end; all: those that are in full sequences, too; False: only full sequences",
    )
    state_keys: tuple[str, ...] = option(
        (), "columns of the recurrent state, returned for the first step of a sequence only"
    )
    state_every: int = option(
        0, "also return the recurrent state of every k-th step; 0: only of the first", ge=0
    )
    newest: int = option(
        0, "sequences of each batch that are the newest ones, its last; 0: all are drawn", ge=0
    )
    time_major: bool = option(
        False,
        "lay out memory as [T, B], so that `column.transpose(0, 1)` is contiguous; the columns are"
        " [B, T, ...] in both cases",
    )
    alpha: float = alpha_option(0.9)
    beta: float = beta_option(0.6)
    anneal_step: int = anneal_option(0)
    eta: float = option(
        0.9,
        "priority of a sequence from those of its steps: eta * max + (1 - eta) * mean",
        ge=0,
        le=1,
    )
    priority_eps: float = eps_option()
    kernels: Literal["auto", "numba", "numpy"] = kernels_option()
    periodic_thruput_seconds: float | None = option(
        60.0,
        "interval of throughput logs: steps pushed and sequences sampled per second; None: off",
        gt=0,
        unit="s",
    )
    debug: bool = debug_option()
    share: float | None = share_option()
    share_updates: int | None = share_updates_option()

    @property
    def length(self) -> int:
        """Steps of a sample: burn_in + unroll_len."""
        return self.burn_in + self.unroll_len

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        if self.length > self.replay_buffer_size:
            yield (
                "replay_buffer_size",
                f"must be >= {self.length}, the steps of one sequence (burn_in + unroll_len), got"
                f" {self.replay_buffer_size}",
            )
        if self.state_every and not self.state_keys:
            yield "state_every", "has no effect without state_keys; set it to 0"

    def build(self, ctx: BuildContext | None, **parts: Any) -> IBuffer:
        """Creates the buffer."""
        from dicore_plugins.buffers.sequence.buffer import SequenceReplayBuffer

        run = getattr(ctx, "run", None)
        return SequenceReplayBuffer(self, log=None if run is None else run.log, **parts)
