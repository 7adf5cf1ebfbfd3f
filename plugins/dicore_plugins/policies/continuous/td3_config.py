"""Options of TD3 and DDPG."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.functional.exploration import get_schedule
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQCollectConfig,
    ContinuousQLearnConfig,
    ContinuousQPolicyConfig,
)
from dicore_plugins.policies.required import unused_options

_NOISE = "standard deviation of the exploration noise; the range of actions is [-1, 1]"


@frozen(kw_only=True)
class TD3LearnConfig(ContinuousQLearnConfig):
    """Options of learning."""

    learning_rate: float = option(1e-3, "learning rate of actor and critics", gt=0, lt=float("inf"))
    actor_update_freq: int = option(
        2, "critic updates between updates of the actor and the target network", ge=1
    )
    target_noise: float = option(
        0.2, "standard deviation of the noise of target actions (smoothing); 0: none", ge=0
    )
    target_noise_clip: float = option(0.5, "largest noise of target actions", ge=0)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if not self.target_noise:
            yield from unused_options(self, "target_noise", "target_noise_clip")


@frozen(kw_only=True)
class TD3CollectConfig(ContinuousQCollectConfig):
    """Options of collecting."""

    noise: float = option(0.1, _NOISE, ge=0)
    noise_end: float | None = option(
        None, "noise after noise_decay; None: noise throughout", ge=0, lt=float("inf")
    )
    noise_decay: int = option(
        10_000, "length of the linear decay to noise_end", ge=1, unit="env steps"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if self.noise_end is None:
            yield from unused_options(self, "noise_end", "noise_decay")

    def noise_at(self, env_step: float | None) -> float:
        """Returns the standard deviation of the exploration noise; None: at the end."""
        if self.noise_end is None:
            return self.noise
        if env_step is None:
            return self.noise_end
        return get_schedule("linear", self.noise, self.noise_end, self.noise_decay)(env_step)


@frozen(kw_only=True)
class TD3Config(ContinuousQPolicyConfig):
    """TD3 for continuous actions: twin critics, delayed actor (Fujimoto et al. 2018)."""

    model: ComponentConfig = component(
        "model", default={"type": "qac", "stochastic": False}, help="actor and Q networks"
    )
    learn: TD3LearnConfig = section(TD3LearnConfig)
    collect: TD3CollectConfig = section(TD3CollectConfig)

    build = builds("dicore_plugins.policies.continuous.td3:TD3Policy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        model = self.model  # networks of other types may be stochastic by themselves
        if model is not None and model.type == "qac" and model.get("stochastic"):
            yield "model.stochastic", "the actor is deterministic; leave it out"


@frozen(kw_only=True)
class DDPGConfig(TD3Config):
    """DDPG for continuous actions: one critic, no smoothing (Lillicrap et al. 2016)."""

    model: ComponentConfig = component(
        "model",
        default={"type": "qac", "stochastic": False, "num_critics": 1},
        help="actor and Q network",
    )
    learn: TD3LearnConfig = section(TD3LearnConfig, actor_update_freq=1, target_noise=0.0)
