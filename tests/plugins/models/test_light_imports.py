"""What may be imported without torch: config classes, and the packages on the way to them."""

from __future__ import annotations

import pytest

from tests.conftest import printed

LIGHT = [
    "dicore_plugins.models",
    "dicore_plugins.models.dqn.config",
    "dicore_plugins.model_wrappers",
    "dicore_plugins.model_wrappers.base",
    "dicore_plugins.model_wrappers.base",
    "dicore_plugins.model_wrappers.target",
    "dicore_plugins.functional",
    "dicore_plugins.functional.samples",
    "dicore_plugins.functional.exploration",
]


@pytest.mark.parametrize(
    ("names", "heavy"), [(LIGHT, "torch"), (["dicore_plugins.models.dqn.config"], "numpy")]
)
def test_light_modules_do_not_import(names: list[str], heavy: str) -> None:
    program = f"import sys, {', '.join(names)}; print({heavy!r} in sys.modules)"
    assert printed(program).strip() == "False"


def test_public_names_are_there() -> None:
    import dicore_plugins.functional
    import dicore_plugins.model_wrappers
    import dicore_plugins.models

    for module in (
        dicore_plugins.functional,
        dicore_plugins.model_wrappers,
        dicore_plugins.models,
    ):
        assert all(callable(getattr(module, name)) for name in module.__all__)
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            module.nothing  # noqa: B018 - looking is the point
