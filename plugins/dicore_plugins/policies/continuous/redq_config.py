"""Options of REDQ, and of algorithms that are REDQ with other networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.sac_config import (
    SACCollectConfig,
    SACConfig,
    SACLearnConfig,
)

_EACH = "samples per collect: one step of each environment"


@frozen(kw_only=True)
class REDQLearnConfig(SACLearnConfig):
    """Options of learning."""

    update_per_step: float | None = option(
        20.0, "gradient updates of the Q networks per collected env step", gt=0
    )
    target_critics: int | None = option(
        2,
        "Q networks, drawn for each update, of which the target takes the minimum; raise it if"
        " values are overestimated; None: all",
        ge=1,
    )
    actor_value: Literal["mean", "min"] = option(
        "mean", "what the actor maximizes: mean or minimum of the Q networks"
    )
    actor_update_freq: int = option(
        20, "updates of the Q networks between updates of actor and temperature", ge=1
    )


@frozen(kw_only=True)
class REDQConfig(SACConfig):
    """SAC with ten Q networks, of which targets take random ones (Chen et al. 2021)."""

    model: ComponentConfig = component(
        "model", default={"type": "qac", "num_critics": 10}, help="actor and Q networks"
    )
    learn: REDQLearnConfig = section(REDQLearnConfig)
    collect: SACCollectConfig = section(
        SACCollectConfig, n_sample=option(1, _EACH, ge=1, follows="env.collector_env_num")
    )

    build = builds("dicore_plugins.policies.continuous.redq:REDQPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        wanted, count = self.learn.target_critics, getattr(self.model, "num_critics", None)
        if wanted is not None and count is not None and wanted > count:
            yield "learn.target_critics", f"must be <= {count}, model.num_critics, got {wanted}"


@frozen(kw_only=True)
class DroQConfig(REDQConfig):
    """SAC with dropout and normalised layers in two Q networks (Hiraoka et al. 2022): `redq`."""

    model: ComponentConfig = component(
        "model",
        default={"type": "qac", "critic_layer_norm": True, "critic_dropout": 0.01},
        help="actor and Q networks",
    )


@frozen(kw_only=True)
class SimBaConfig(REDQConfig):
    """SAC with large residual networks that are normalised (Lee et al. 2025): model `simba`."""

    model: ComponentConfig = component("model", default="simba", help="actor and Q networks")
    learn: REDQLearnConfig = section(
        REDQLearnConfig,
        update_per_step=2.0,
        learning_rate=1e-4,
        optimizer="adamw",
        alpha=0.01,
        target_critics=None,
        actor_value="min",
        actor_update_freq=1,
    )
