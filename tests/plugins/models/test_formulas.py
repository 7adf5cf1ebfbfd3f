"""A loss has the formula of its gradient; an override of it, or of what it calls, has none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dicore_plugins.models.formulas import formula_of, with_formula

CAN = SimpleNamespace(differentiable=lambda: True)


class Plain:
    def _gradient(self, x: int) -> tuple[int, str]:
        return self._square(x), "formula"

    def _square(self, x: int) -> int:
        return x * x

    @with_formula(_gradient, "_square")
    def _loss(self, x: int) -> tuple[int, str]:
        return self._square(x), "autograd"


class OtherLoss(Plain):
    def _loss(self, x: int) -> tuple[int, str]:
        return -x, "autograd"


class OtherPart(Plain):
    def _square(self, x: int) -> int:
        return x


class Unrelated(Plain):
    def more(self) -> None: ...


@pytest.mark.parametrize("cls", [Plain, Unrelated])
def test_the_formula_takes_the_policy_first(cls: type[Plain]) -> None:
    policy = cls()
    formula = formula_of(policy, "_loss", CAN)
    assert formula is not None
    assert formula(policy, 3) == (9, "formula")
    assert policy._loss(3) == (9, "autograd")


@pytest.mark.parametrize("cls", [OtherLoss, OtherPart])
def test_an_override_has_none(cls: type[Plain]) -> None:
    assert formula_of(cls(), "_loss", CAN) is None


@pytest.mark.parametrize("model", [SimpleNamespace(differentiable=lambda: False), object()])
def test_a_network_that_cannot_has_none(model: object) -> None:
    assert formula_of(Plain(), "_loss", model) is None


def test_a_loss_replaced_in_the_policy_has_none() -> None:
    policy = Plain()
    policy._loss = lambda x: (x, "compiled")  # type: ignore[method-assign]
    assert formula_of(policy, "_loss", CAN) is None
