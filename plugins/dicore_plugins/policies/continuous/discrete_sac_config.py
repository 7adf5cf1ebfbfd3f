"""Options of SAC for discrete actions."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import PolicyConfig
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.base_config import ActorQPolicyConfig
from dicore_plugins.policies.continuous.sac_config import SACLearnConfig


@frozen(kw_only=True)
class DiscreteSACConfig(ActorQPolicyConfig):
    """SAC for discrete actions, with exact expectations over actions (Christodoulou 2019)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (*PolicyConfig.fixed_by_spaces, "action_start")

    model: ComponentConfig = component("model", default="discrete_sac", help="actor and Q networks")
    action_start: int = option(0, "lowest action index (`Discrete.start`); read from the env")
    learn: SACLearnConfig = section(
        SACLearnConfig,
        target_entropy=option(
            None,
            "entropy that the learned temperature keeps; lower it for a greedier policy; None: 0.98"
            " of that of uniform actions (of those that a mask allows)",
        ),
    )

    build = builds("dicore_plugins.policies.continuous.discrete_sac:DiscreteSACPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are not one discrete choice, or the model does not take the
                observations.
        """
        from dicore_plugins.models.shapes import action_start, discrete_shape

        name = self.type or "discrete_sac"
        shape = discrete_shape(spec.action, algorithm=name)
        if not isinstance(shape, int):
            raise ConfigError(
                f"policy.type: '{name}' needs one discrete action; this env has {spec.action}",
                hint="choose a policy with a head per action: dqn, ppo",
            )
        return {
            **self.seen(spec),
            "model.action_shape": shape,
            "action_start": action_start(spec.action),
        }
