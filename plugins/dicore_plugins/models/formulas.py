"""Losses whose gradient a formula computes where that takes less time than autograd.

The formula is attached to the loss, a method of a policy, so that an override of it has none:

    @with_formula(_critic_gradient, "_q_taken", "_squared_loss")
    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> ...:
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["formula_of", "with_formula"]

Loss = TypeVar("Loss", bound=Callable[..., Any])


def with_formula(formula: Callable[..., Any], *uses: str) -> Callable[[Loss], Loss]:
    """Attaches the formula of its gradient to a loss.

    Args:
        formula: Takes and returns what the family of the policy says. Of `ContinuousQPolicy`, that
            is what the loss does, and `grad` of the parameters is overwritten; of
            `ActorCriticPolicy`, see `_loss_parts`.
        *uses: Methods whose work the formula does, too: an override of one is not in it.
    """

    def attach(loss: Loss) -> Loss:
        vars(loss)["formula"] = formula, uses
        return loss

    return attach


def formula_of(policy: object, name: str, model: object) -> Callable[..., Any] | None:
    """Returns the formula of a loss of a policy, which takes the policy first; None: autograd.

    Args:
        policy: Has the loss as a method; one that is compiled or runs in reduced precision has no
            formula.
        name: Name of the loss.
        model: Its network; a formula needs one that is `differentiable()`.
    """
    formula, uses = getattr(getattr(policy, name), "formula", (None, ()))
    if formula is None:
        return None
    cls = type(policy)
    owner = next(each for each in cls.__mro__ if name in vars(each))
    same = all(getattr(cls, used) is getattr(owner, used) for used in uses)
    can = getattr(model, "differentiable", None)
    found: Callable[..., Any] = formula
    return found if same and can is not None and can() else None
