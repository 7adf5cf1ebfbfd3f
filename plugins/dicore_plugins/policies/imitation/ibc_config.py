"""Options of implicit behavioural cloning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import LearnConfig
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.policies.imitation.bc_config import CloningConfig


@frozen(kw_only=True)
class IBCLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(128, "samples per gradient update", ge=1)
    negatives: int = option(
        64, "random actions that each action shown is compared with, if actions are continuous",
        ge=1,
    )  # fmt: skip
    max_grad_norm: float | None = option(
        None, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )


@frozen(kw_only=True)
class IBCConfig(CloningConfig):
    """Implicit behavioural cloning: acts by the lowest energy (Florence et al. 2021)."""

    offline: ClassVar[bool] = True
    formerly: ClassVar[Mapping[str, object]] = {}  # it has always scaled

    model: ComponentConfig = component(
        "model", default="ebm", help="scores observations with actions"
    )
    candidates: int = option(
        256, "candidates among which a continuous action is searched; raise for more dimensions",
        ge=1,
    )  # fmt: skip
    iterations: int = option(3, "times that candidates are drawn again near good ones", ge=0)
    search_std: float = option(
        0.33,
        "standard deviation of the first new candidates around old ones, as a part of half the"
        " width of the action space; it halves in each iteration",
        gt=0,
    )
    learn: IBCLearnConfig = section(IBCLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.imitation.ibc:IBCPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if not self.action_scaling:
            name = self.type or "ibc"
            yield "action_scaling", f"{name} searches actions between the bounds; set it to True"

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are neither one discrete choice nor bounded real numbers, or
                the model does not take the observations.
        """
        found = super().bind(spec)
        if found["model.continuous"]:
            from dicore_plugins.models.shapes import box_options

            box_options(spec.action, algorithm=self.type or "ibc")
        elif found.get("hybrid") or not isinstance(found["model.action_shape"], int):
            from dicore_plugins.policies.fitting import hint_for

            raise ConfigError(
                f"policy.type: '{self.type or 'ibc'}' needs one discrete action or bounded real"
                f" numbers; this env has {spec.action}",
                hint=hint_for(spec.action),
            )
        return found
