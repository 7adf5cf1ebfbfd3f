"""Options of QGPO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import ComponentConfig, component, frozen, option, section
from dicore_plugins.policies import (
    ContinuousQLearnConfig,
    ContinuousQPolicyConfig,
    builds,
    unused_options,
)

__all__ = ["QGPOConfig", "QGPOLearnConfig"]


@frozen(kw_only=True)
class QGPOLearnConfig(ContinuousQLearnConfig):
    """Options of learning."""

    learning_rate: float = option(3e-4, "learning rate of all networks", gt=0, lt=float("inf"))
    update_per_collect: int | None = option(1, "no effect: one update per batch of the dataset")
    update_per_step: float | None = option(None, "no effect: no env steps are collected", gt=0)
    behaviour_updates: int = option(
        3_000,
        "updates of the model of the recorded actions alone, before energies and Q networks learn,"
        " too; less than pipeline.max_train_iter, at best half of it; 0: all learn from the start",
        ge=0,
        unit="updates",
    )
    end_updates: int | None = option(
        None, "updates of the whole training, which behaviour_updates stay below", ge=1,
        unit="updates", follows="pipeline.max_train_iter",
    )  # fmt: skip
    n_action: int = option(16, "support actions that are drawn for each state; K", ge=2)
    support_steps: int = option(8, "steps in which a support action is drawn", ge=2)
    target_beta: float = option(
        1.0,
        "inverse temperature of the values in targets; 0: their mean; larger: the best of the"
        " support",
        ge=0,
    )
    beta: float = option(
        3.0,
        "inverse temperature of the values that energies follow, in units of returns; lower it if"
        " returns are large, or scale rewards",
        gt=0,
    )


@frozen(kw_only=True)
class QGPOConfig(ContinuousQPolicyConfig):
    """Q-guided policy optimization: a guided diffusion model of a dataset (Lu et al. 2023)."""

    offline: ClassVar[bool] = True
    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = {
        "priority": (False, "draws a dataset uniformly; set it to False"),
        "priority_IS_weight": (False, "draws a dataset uniformly; set it to False"),
        "learn.compile": (False, "draws actions within its losses; set it to False"),
        "learn.autocast": (None, "draws actions within its losses; leave it out"),
        "collect.act_by_numpy": (True, "acts by torch; leave it out"),
    }

    model: ComponentConfig = component(
        "model", default="qgpo", help="networks of noise and energies, and Q networks"
    )
    guidance_scale: float = option(
        1.0, "weight of the slope of the energies when acting; 0: acts as the dataset", ge=0
    )
    sample_steps: int = option(15, "steps in which an action is drawn; fewer are faster", ge=2)
    learn: QGPOLearnConfig = section(QGPOLearnConfig)

    build = builds("dicore_contrib.policies.qgpo:QGPOPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if not self.guidance_scale:
            yield from unused_options(self.learn, "guidance_scale", "beta", place="learn.")
        end = self.learn.end_updates
        if end is not None and self.learn.behaviour_updates >= end:
            yield (
                "learn.behaviour_updates",
                f"energies and Q networks never learn: expected less than the {end} updates of"
                f" learn.end_updates, which is pipeline.max_train_iter, got"
                f" {self.learn.behaviour_updates}",
            )
