"""Middleware that learns from episodes with replaced goals: hindsight experience replay.

Shapes: E episodes, B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dicore.config.sections import RunConfig
from dicore.data import Batch
from dicore.errors import UsageError
from dicore.interfaces.policy import LearnMode
from dicore.task import OnlineRLContext, middleware
from dicore_plugins.middleware.learn import OffPolicyLearner, Settings

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore.interfaces.learner import ILearner
    from dicore.run import Run
    from dicore_plugins.reward_models.her import HER


__all__ = ["HERLearner", "her_data_enhancer"]


@middleware(reads=["train_iter", "env_step"], writes=["train_output", "train_iter"])
class HERLearner(OffPolicyLearner):
    """Samples episodes, replaces goals and runs a gradient update, several times per step.

    See `OffPolicyLearner`; training begins with the first complete episode.

    Args:
        cfg: The whole compiled config; `policy.learn` is used.
        policy: Learn mode of the policy, or a learner.
        buffer_: Replay buffer of whole episodes (`episode`).
        her_reward_model: Replaces goals; see `HER.relabel`.
        run: Run for the hooks' logs and checkpoints; None: no run.
        settings: `get_setting_learn` of the policy's command mode; None: no annealed settings.
    """

    def __init__(
        self,
        cfg: RunConfig,
        policy: LearnMode | ILearner,
        buffer_: IBuffer,
        her_reward_model: HER,
        *,
        run: Run | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(cfg, policy, buffer_, run=run, settings=settings)
        self._her = checked(her_reward_model)
        self._size = self._her.episodes_per_batch(self._batch_size)
        self._least = 1

    def _batches(self, count: int) -> Iterator[Batch]:
        """Yields the batches of this step."""
        if self._max_train_iter is not None:
            count = min(count, self._max_train_iter - self.learner.train_iter)
        few = self._buffer.count() < self._size
        for _ in range(count):
            drawn: Any = self._buffer.sample_batch(self._size, replace=few)
            yield self._her.relabel(drawn)


def her_data_enhancer(
    cfg: RunConfig, buffer_: IBuffer, her: HER
) -> Callable[[OnlineRLContext], None]:
    """Samples episodes from the buffer, and replaces goals of their samples.

    Args:
        cfg: The whole compiled config; the batch size is `policy.learn.batch_size`.
        buffer_: Replay buffer of whole episodes (`episode`).
        her: Replaces goals; see `HER.relabel`.

    Returns:
        A middleware: -> train_data, `sample_per_episode` samples of each episode; None as long as
        the buffer is empty.
    """
    size = checked(her).episodes_per_batch(cfg.policy.learn.batch_size)

    @middleware(reads=["train_iter"], writes=["train_data"])
    def enhance(ctx: OnlineRLContext) -> None:
        count = buffer_.count()
        if count:
            drawn: Any = buffer_.sample_batch(size, ctx.train_iter, replace=count < size)
            ctx.train_data = her.relabel(drawn)

    return enhance


def checked(her: HER) -> HER:
    """Returns a reward model that replaces goals.

    Raises:
        UsageError: it cannot.
    """
    if not callable(getattr(her, "relabel", None)):
        raise UsageError(
            f"{type(her).__name__} does not replace goals: it has no relabel",
            hint="set policy.reward_model=her",
        )
    return her
