"""Options of the expert policy."""

from __future__ import annotations

from dicore.config.schema import REQUIRED, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.random_config import FixedConfig, RandomCollectConfig


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

    build = builds("dicore_plugins.policies.imitation.expert:ExpertPolicy", takes="context")
