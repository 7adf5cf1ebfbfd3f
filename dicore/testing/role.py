"""The contract of roles without a suite of their own: the members of the Protocol exist.

For kinds without first-party components.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dicore.data.tree import to_tensor
from dicore.testing.compare import copied, difference
from dicore.testing.suite import Suite, expect, expect_members, members_of, skip
from dicore_registry.importing import import_target

__all__ = ["RoleContract"]


class RoleContract(Suite):
    """Conformance suite of a Protocol: subclass it and override `make` and `contract`."""

    def make(self) -> Any:
        """Returns the component."""
        return self.registered.build(**self.parts())

    def parts(self) -> Mapping[str, Any]:
        """Returns the arguments of `build`; for an optimizer, parameters of a small network."""
        kind = "" if self.component is None else self.component.entry.kind
        return {"params": _parameters()} if kind == "optimizer" else {}

    def contract(self) -> type:
        """Returns the Protocol of its kind."""
        kind = self.registered.registry.kinds()[self.registered.entry.kind]
        module, _, name = kind.contract.partition(":")
        found: type[Any] = import_target(module, name)
        return found

    def test_has_the_members_of_the_protocol(self) -> None:
        """It has all methods and attributes of the Protocol."""
        expect_members(self.make(), self.contract())

    def test_accepts_the_arguments_of_the_protocol(self) -> None:
        """Every method accepts the arguments of the Protocol."""
        made, contract = self.make(), self.contract()
        for name in members_of(contract):
            wanted = inspect.getattr_static(contract, name, None)
            found = getattr(made, name, None)
            if not inspect.isfunction(wanted) or not callable(found):
                continue
            parameters = list(inspect.signature(wanted).parameters.values())[1:]
            by_place = [None for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
            by_name = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
            try:
                inspect.signature(found).bind(*by_place, **by_name)
            except TypeError as error:
                said = ", ".join(each.name for each in parameters)
                expect(False, f"{name}({said}) cannot be called: {error}")

    def test_state_round_trip(self) -> None:
        """A component with a loaded state returns the same state."""
        if "state_dict" not in members_of(self.contract()):
            skip("it has no state")
        made, twin = self.make(), self.make()
        state = copied(made.state_dict())
        twin.load_state_dict(copied(state))
        wrong = difference(copied(twin.state_dict()), state)
        expect(not wrong, f"the state differs after loading: {wrong}")


def _parameters() -> Iterator[object]:
    """Yields tensors lazily, because the caller imports torch."""
    for shape in ((4, 2), (2,)):
        yield to_tensor(np.zeros(shape, np.float32)).requires_grad_()
