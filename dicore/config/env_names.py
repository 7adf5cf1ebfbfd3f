"""Reads what people write for an environment: name, id, `module:Id`, `module:Class`, file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dicore.config.schema import ComponentConfig, fields_of
from dicore.config.signature import config_class
from dicore.errors import ConfigError, PluginLoadError, RegistryError, UnknownComponentError
from dicore_registry import Entry, code_paths
from dicore_registry.explain import brief
from dicore_registry.importing import importable

if TYPE_CHECKING:
    from dicore.config.resolver import RegistryView

__all__ = ["EnvChoice", "EnvNames"]


@dataclass(frozen=True, slots=True)
class EnvChoice:
    """What a text means.

    Args:
        type: The `env.type`: a registered name or an import path.
        env_id: The id that a registered environment is made from; None: its own.
        name: The registered name of the same environment, which presets begin with; "" if none.
        tried: What the text is not, in the order tried, if nothing fits.
    """

    type: str
    env_id: str | None = None
    name: str = ""
    tried: tuple[str, ...] = ()


@dataclass(slots=True)
class EnvNames:
    """Tells what a text means as an environment; every entrance of the package asks here."""

    registry: RegistryView
    _tried: list[str] = field(default_factory=list)

    def read(self, text: str, *, imports: bool = True) -> EnvChoice:
        """Returns what a text means; `tried` is not empty if nothing fits.

        Args:
            text: As written.
            imports: Import modules that the text names, to see what they have.
        """
        self._tried = []
        choice = self._with_colon(text, imports) if ":" in text else self._plain(text, imports)
        unfit = EnvChoice(text, tried=tuple(self._tried))
        left, colon, right = text.partition(":")
        if choice is None and colon and self._entry(left):
            return EnvChoice(left, right)  # it takes no ids, which is said later
        return choice or unfit

    def _plain(self, text: str, imports: bool) -> EnvChoice | None:
        if self._entry(text):
            return EnvChoice(text, name="" if "/" in text else text)
        choice = self._known_id(text)
        if choice is None and text.endswith(".py"):
            found, why = code_paths.class_of(text)
            if found and imports:
                return EnvChoice(found)
            self._tried.append(f"a class of a file ({why})")
        return choice

    def _with_colon(self, text: str, imports: bool) -> EnvChoice | None:
        place = text.rpartition(":")[0]
        left, _, right = text.partition(":")
        if place.endswith(".py") or "/" in place or "\\" in place:
            return EnvChoice(text)
        if self._takes_ids(left):
            return EnvChoice(left, right)
        if not imports:
            return EnvChoice(text)
        return self._import_path(text) or self._module_id(text, place)

    def _entry(self, name: str) -> Entry | Literal[True] | None:
        """Returns what is declared under a name; True if it cannot be used, which is said later."""
        try:
            return self.registry.find("env", name)
        except UnknownComponentError:
            self._tried.append("a registered name (dicore list env)")
            return None
        except RegistryError:
            return True

    def _class(self, name: str) -> type[ComponentConfig] | None:
        try:
            return config_class(self.registry.resolve("env", name, "env.type").target, "env")
        except (RegistryError, ConfigError):
            return None

    def _takes_ids(self, name: str) -> bool:
        if self._entry(name) is None:
            self._tried[-1] = f"ENV:ID ('{name}' is no registered environment)"
            return False
        cls = self._class(name)
        return cls is None or "env_id" in fields_of(cls)

    def _known_id(self, env_id: str) -> EnvChoice | None:
        """Returns the environment of an id: one that is named like it, or the default for ids."""
        name = self._namesake(env_id)
        if name:
            return EnvChoice(name, env_id, name)
        provider = ""
        with suppress(RegistryError):
            provider = self.registry.default("env") or ""
        known = getattr(self._class(provider), "knows", None) if provider else None
        found = known(env_id) if known is not None else False
        if not found:
            if known is not None:
                self._tried.append(f"an id of {provider} (another package's: PACKAGE:{env_id})")
            return None
        if not isinstance(found, str):
            return EnvChoice(provider, env_id)
        fits = getattr(self._class(found), "presets_for_all", False)
        return EnvChoice(found, env_id, found if fits or self._own_id(found) == env_id else "")

    def _namesake(self, env_id: str) -> str:
        """Returns the environment whose own id this is and that has the letters of its name."""
        letters = _letters(env_id.rpartition("-v")[0] or env_id)
        for entry in self.registry.entries("env"):
            if _letters(entry.name) == letters and self._own_id(entry.name) == env_id:
                return str(entry.name)
        return ""

    def _own_id(self, name: str) -> object:
        cls = self._class(name)
        options = fields_of(cls) if cls is not None else {}
        return options["env_id"].default() if "env_id" in options else None

    def _import_path(self, text: str) -> EnvChoice | None:
        try:
            self.registry.resolve("env", text)
        except UnknownComponentError as error:
            self._tried.append(f"module:Class ({error.message})")
            return None
        except RegistryError:  # which is said when it is built
            pass
        return EnvChoice(text)

    def _module_id(self, text: str, module: str) -> EnvChoice | None:
        try:
            code_paths.check(module, "env.type")
            importable(os.getcwd())  # noqa: PTH109 - as for module:Class
            code_paths.import_module(module)
        except ImportError as error:
            self._tried.append(f"module:ID ({error})")
            return None
        except Exception as error:
            text = f"importing '{module}' failed: {brief(error)}"
            raise PluginLoadError(text) from error
        found = self._known_id(text)
        if found is None:
            self._tried[-1] = f"module:ID (importing '{module}' registers no such id)"
        return found


def _letters(name: str) -> str:
    last = name.rpartition(":")[2].rpartition("/")[2]
    return "".join(sign for sign in last.lower() if sign.isalnum())
