"""Options of the random policy."""

from __future__ import annotations

from typing import Any, ClassVar

from dicore.config.declare import frozen, option, section
from dicore.config.sections import CollectConfig, PolicyConfig


@frozen(kw_only=True)
class RandomCollectConfig(CollectConfig):
    """How the random policy collects."""

    n_sample: int | None = option(8, "training samples per collect", ge=1)


@frozen(kw_only=True)
class RandomConfig(PolicyConfig):
    """Uniformly random actions: the warm-up before training, and the floor to compare with."""

    learns: ClassVar[bool] = False

    on_policy: bool = option(False, "learn only from data of the present policy")
    collect: RandomCollectConfig = section(RandomCollectConfig)

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the policy for the action space of `ctx`."""
        from dicore_plugins.policies.random.policy import RandomPolicy

        return RandomPolicy(self, action_space=ctx.action_space, **parts)
