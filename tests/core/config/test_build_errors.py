"""What a constructor raises is what surfaces, with one note that says whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import ComponentConfig, compile_section, config_class, frozen
from dicore_registry import Registry, using


@frozen(kw_only=True)
class InnerConfig(ComponentConfig):
    """Fails."""

    size: int = 1

    def build(self, ctx: Any, **parts: Any) -> Any:
        return {}["missing"]


@frozen(kw_only=True)
class OuterConfig(ComponentConfig):
    """Builds another."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        return InnerConfig(type="inner").build(ctx)


@frozen(kw_only=True)
class LaterConfig(InnerConfig):
    """Adds to what its base does."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        return super().build(ctx, **parts)


class Plain:
    """Registered as itself."""

    def __init__(self, size: int = 1) -> None:
        raise KeyError("missing")


@pytest.mark.parametrize("cls", [InnerConfig, OuterConfig, LaterConfig])
def test_one_note_and_the_very_exception(cls: type[ComponentConfig]) -> None:
    with pytest.raises(KeyError) as caught:
        cls().build(None)
    assert type(caught.value) is KeyError
    assert caught.value.args == ("missing",)
    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].startswith(
        "while building tests.core.config.test_build_errors."
    )


def test_a_registered_component_is_named(tmp_path: Any) -> None:
    registry = Registry()
    registry.register("buffer", "inner")(InnerConfig)
    registry.register("buffer", "plain")(Plain)
    with using(registry):
        for name, target in (("inner", InnerConfig), ("plain", Plain)):
            made = compile_section(config_class(target, "buffer"), {"type": name, "size": 3})
            with pytest.raises(KeyError) as caught:
                made.build(None)
            (note,) = caught.value.__notes__
            assert note.startswith(f"while building buffer '{name}' (local, {__file__}:")


def test_what_works_is_not_touched() -> None:
    class Fine:
        def __init__(self, size: int = 1) -> None:
            self.size = size

    made = compile_section(config_class(Fine, "buffer"), {"size": 3})
    assert made.build(None).size == 3
