"""Options of the base learner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dicore.config.declare import ComponentConfig, Section, frozen, option, section

_HOOKS: Final = {
    "load_ckpt_before_run": "",
    "log_show_after_iter": 100,
    "save_ckpt_after_iter": 10_000,
    "save_ckpt_after_run": True,
}


@frozen(kw_only=True)
class DataloaderConfig(Section):
    """How `start` gets its data."""

    num_workers: int = option(0, "0: fetch in turn; 1: fetch ahead in a thread", ge=0, le=1)
    prefetch: int = option(2, "batches fetched ahead", ge=1)


@frozen(kw_only=True)
class BaseLearnerConfig(ComponentConfig):
    """Calls the learn mode, counts updates, and runs hooks in order of priority."""

    train_iterations: int = option(
        1_000_000_000, "updates after which `start` ends", ge=1, unit="updates"
    )
    dataloader: DataloaderConfig = section(DataloaderConfig)
    log_policy: bool = option(True, "write the policy's description to the log at the start")
    hook: dict[str, Any] | list[Any] = option(
        _HOOKS,
        "simple form `<hook>_<position>: value`, or a list of"
        " {type, name, priority, position, ext_args}",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Finds hooks that do not exist or are described wrongly."""
        from dicore_plugins.hooks.hook_config import hook_problems

        return hook_problems(self.hook, trusted=_HOOKS)

    def mentions(self) -> Iterator[tuple[str, str, str]]:
        """Names the hooks, so that it is recorded who supplies them."""
        from dicore_plugins.hooks.hook_config import hook_types

        return ((path, "learner_hook", name) for path, name in hook_types(self.hook))

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the learner; `parts` are `policy` (a learn mode) and `run`."""
        from dicore_plugins.learners.base.learner import BaseLearner

        return BaseLearner(self, **parts)
