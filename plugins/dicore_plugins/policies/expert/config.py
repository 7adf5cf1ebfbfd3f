"""Options of the expert policy."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import REQUIRED, frozen, option, section
from dicore_plugins.policies.random import FixedConfig, RandomCollectConfig


@frozen(kw_only=True)
class ExpertCollectConfig(RandomCollectConfig):
    """Options of collecting."""

    greedy: bool = option(
        True, "act as in evaluation; False: sample actions as in training, without extra noise"
    )


@frozen(kw_only=True)
class ExpertConfig(FixedConfig):
    """Acts as a trained policy, for demonstrations and comparisons; does not learn."""

    run: str = option(REQUIRED, "run folder, or folder of a checkpoint, with the trained policy")
    checkpoint: str | None = option(
        None, "name of the checkpoint; None: best, else the latest complete one"
    )
    trust: bool = option(False, "run code that the config of the run names by path")
    collect: ExpertCollectConfig = section(ExpertCollectConfig)

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the policy for the spaces of `ctx`."""
        from dicore_plugins.policies.expert.policy import ExpertPolicy

        return ExpertPolicy(self, context=ctx, **parts)
