"""Says which component an exception comes from, and leaves the exception what it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper, wraps
from types import CellType, FunctionType
from typing import Any

__all__ = ["blaming"]

_BEGIN = "while building "


def blaming(build: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]:
    """Wraps a `build` so that what it raises gets one note: component, distribution, version.

    Args:
        build: A function whose first argument is the config.
        owner: The class it is a method of; what its `super()` refers to.
    """
    build = getattr(build, "__blamed__", build)  # attrs makes a class anew to give it slots
    if owner is not None:
        build = _rebound(build, owner)

    @wraps(build)
    def blamed(self: Any, *args: Any, **parts: Any) -> Any:
        try:
            return build(self, *args, **parts)
        except Exception as error:
            if not any(note.startswith(_BEGIN) for note in getattr(error, "__notes__", ())):
                error.add_note(f"{_BEGIN}{_label(self)}")
            raise

    blamed.__blamed__ = build  # type: ignore[attr-defined] # a mark on our own function
    return blamed


def _rebound(method: Callable[..., Any], owner: type) -> Callable[..., Any]:
    """Returns a method whose `super()` means that of `owner`; attrs does not look into wrappers."""
    if not isinstance(method, FunctionType) or "__class__" not in method.__code__.co_freevars:
        return method
    names, cells = method.__code__.co_freevars, method.__closure__ or ()
    kept = (
        CellType(owner) if name == "__class__" else cell
        for name, cell in zip(names, cells, strict=True)
    )
    defaults = method.__defaults__
    found = FunctionType(
        method.__code__, method.__globals__, method.__name__, defaults, tuple(kept)
    )
    found.__kwdefaults__ = method.__kwdefaults__
    return update_wrapper(found, method)


def _label(config: Any) -> str:
    """Returns `policy 'dqn' (dicore-plugins 0.1.0)`; of an unregistered class, its name."""
    from dicore_registry import default

    cls = type(config)
    target = getattr(cls, "_target", cls)
    name = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"
    try:
        found = [entry for entry in default().entries() if entry.target == name]
    except Exception:
        found = []  # what is raised already matters more
    said = getattr(config, "type", "").rpartition("/")[2]
    found.sort(key=lambda entry: entry.name != said)
    return found[0].label if found else name.replace(":", ".")
