"""The isolated registry: for tests of components that are not installed."""

from __future__ import annotations

import pytest

from dicore import register
from dicore.errors import UnknownComponentError
from dicore.testing import checks_of
from dicore.testing.registry import isolated, isolated_registry
from dicore_registry import LOCAL, Registry, default

__all__ = ["isolated_registry"]


def test_nothing_installed_is_in_it(
    isolated_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICORE_PLUGINS", "/nowhere.py")
    assert default() is isolated_registry
    assert "policy" in isolated_registry.kinds()
    assert not isolated_registry.entries("policy")
    assert isolated_registry.find("command", "list")


def test_what_is_registered_in_it_is_gone_after_it() -> None:
    with isolated() as registry:

        @register("env", "only_here")
        class Mine:
            """My own."""

        assert registry.find("env", "only_here").dist == LOCAL
        assert {check.component.label for check in checks_of(registry=registry, kinds=["env"])} == {
            "env/only_here"
        }
    with pytest.raises(UnknownComponentError):
        default().find("env", "only_here")


def test_packages_may_be_let_in() -> None:
    with isolated(["Dicore_Plugins"]) as registry:
        assert registry.find("policy", "dqn").dist == "dicore-plugins"
        assert not registry.entries("env")
