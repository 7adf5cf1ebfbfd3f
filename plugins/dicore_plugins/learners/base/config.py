"""Options of the base learner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from dicore.config.schema import ComponentConfig, Section, frozen, option, section
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.learner import ILearner


_HOOKS: Final = {
    "load_ckpt_before_run": "",
    "log_show_after_iter": 100,
    "save_ckpt_after_iter": 10_000,
    "save_ckpt_after_run": True,
}


@frozen(kw_only=True)
class DataloaderConfig(Section):
    """How `learner.start()` loads batches."""

    num_workers: int = option(
        0, "0: load batches synchronously; n: prefetch in n background threads", ge=0
    )
    prefetch: int = option(2, "batches to prefetch, with num_workers >= 1", ge=1)
    device: str | None = option(
        None, "device to which batches are moved when they are loaded; None: the policy moves them"
    )


@frozen(kw_only=True)
class BaseLearnerConfig(ComponentConfig):
    """Runs gradient updates with the policy's learn mode, and hooks before and after them."""

    train_iterations: int = option(
        1_000_000_000,
        "gradient updates after which `learner.start()` returns",
        ge=1,
        unit="updates",
    )
    dataloader: DataloaderConfig = section(DataloaderConfig)
    log_policy: bool = option(True, "log the policy's description before training (shown by -v)")
    hook: dict[str, Any] | list[Any] = option(
        _HOOKS,
        "hooks: `<hook>_<position>: value`; the value is an interval in updates, `true`, or a"
        " checkpoint to load; `false` or '': off; or a list of"
        " {type, name, priority, position, ext_args}",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the problems of the `hook` option."""
        from dicore_plugins.hooks.hook_config import hook_problems

        return hook_problems(self.hook, trusted=_HOOKS)

    def mentions(self) -> Iterator[tuple[str, str, str]]:
        """Yields the hooks, so that the packages they come from are recorded."""
        from dicore_plugins.hooks.hook_config import hook_types

        return ((path, "learner_hook", name) for path, name in hook_types(self.hook))

    def build(self, ctx: BuildContext | None, **parts: Any) -> ILearner:
        """Creates the learner; `parts` are `policy` (a learn mode) and `run`."""
        from dicore_plugins.learners.base.learner import BaseLearner

        return BaseLearner(self, **parts)
