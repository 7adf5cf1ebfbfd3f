"""Options that policies which learn from demonstrations alone share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import ComponentConfig, LearnConfig, PolicyConfig, component, frozen, option
from dicore_plugins.optimizers import optimizer_problems

__all__ = ["ImitationConfig", "ImitationLearnConfig"]


@frozen(kw_only=True)
class ImitationLearnConfig(LearnConfig):
    """Options of learning."""

    max_grad_norm: float | None = option(
        None, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )


@frozen(kw_only=True)
class ImitationConfig(PolicyConfig):
    """Options of a policy without rewards and values."""

    offline: ClassVar[bool] = True
    requires: ClassVar[Mapping[str, tuple[object, str] | None]] = {
        "on_policy": (False, "learns from demonstrations; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "priority": (False, "draws demonstrations uniformly; set it to False"),
        "priority_IS_weight": (False, "draws demonstrations uniformly; set it to False"),
        "nstep": (1, "learns from what was recorded, not from returns; set it to 1"),
        "discount_factor": (0.97, "learns without rewards; leave it out"),
        "learn.ignore_done": (False, "learns without values; leave it out"),
    }

    on_policy: bool = option(False, "False: learns from demonstrations")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
