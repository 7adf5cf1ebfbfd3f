"""Pickles the factories of environments; finds what does not pickle, or takes long to import."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import forkserver
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

from dicore.errors import EnvCreateError
from dicore.run.env_factory import EnvFactory
from dicore.values import Tree
from dicore_plugins.env_managers.faults import described

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["pickled", "preload"]

_DEEPEST = 6
_PRELOADED = ["gymnasium", "cloudpickle", "dicore_plugins.env_managers.subprocess.worker"]


def pickled(env_fn: Mapping[int, Callable[[], Env]]) -> bytes:
    """Pickles factories, functions without a name and of the main script by value.

    Args:
        env_fn: A factory per env id.

    Raises:
        EnvCreateError: one does not pickle; names the part.
    """
    try:
        data: bytes = cloudpickle.dumps(list(env_fn.values()))
    except Exception as error:
        env_id, make = next(
            (each for each in env_fn.items() if _fault(each[1]) is not None), (0, None)
        )
        path = _culprit(make, f"env_fn[{env_id}]", _DEEPEST)
        raise EnvCreateError(
            f"env {env_id}: its factory cannot be sent to a worker: {path}: {described(error)}",
            hint="create locks, files and connections in the environment's __init__",
            context={"env_id": env_id, "path": path},
        ) from error
    return data


def preload(env_fn: Iterable[Callable[[], Env]]) -> None:
    """Lets the fork server import what every worker needs, unless it runs or somebody chose.

    That is torch, too, if the factories use it: each worker would import it again, which takes 1 s
    of CPU time and 150 MB.
    """
    server: Any = forkserver._forkserver  # noqa: SLF001
    if server._forkserver_pid is None and server._preload_modules == ["__main__"]:  # noqa: SLF001
        torch = ["torch"] if _uses_torch(env_fn) else []
        server.set_forkserver_preload(["__main__", *_PRELOADED, *torch])


def _uses_torch(env_fn: Iterable[object]) -> bool:
    """Returns whether an environment, a module of one, or the main script, has a name of torch."""
    places = {"__main__"}  # workers import it, too
    for each in env_fn:
        for made in _made_by(each):
            places.add(getattr(made, "__module__", None) or "")
            code = getattr(getattr(made, "build", made), "__code__", None)
            if "torch" in getattr(code, "co_names", ()):
                return True
    modules = [sys.modules[each] for each in places if each in sys.modules]
    for value in (value for module in modules for value in list(vars(module).values())):
        kind = type(value)  # not isinstance, which runs code of proxies
        name = value.__name__ if kind is ModuleType else ""
        if issubclass(kind, type) or kind is FunctionType:
            name = value.__module__
        if str(name).partition(".")[0] == "torch":
            return True
    return False


def _made_by(make: object) -> Iterator[object]:
    """Yields a factory; of one by config, classes and functions of environment and wrappers."""
    while isinstance(make, functools.partial):
        make = make.func
    yield make
    if isinstance(make, EnvFactory):
        for section in map(type, (make.env, *make.env.env_wrapper)):
            yield section
            yield getattr(section, "_target", None)


def _fault(value: Tree) -> Exception | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return error
    return None


def _culprit(value: Tree, path: str, depth: int) -> str:
    """Returns the path of the innermost part that does not pickle."""
    if depth:
        for name, part in _parts(value):
            if _fault(part) is not None:
                return _culprit(part, f"{path}{name}", depth - 1)
    return f"{path} ({type(value).__name__})"


def _parts(value: Tree) -> Iterator[tuple[str, object]]:
    """Yields the parts of a function, partial, collection or object, with their paths."""
    if isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{at}]", each) for at, each in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", each) for name, each in value.keywords.items())
    elif isinstance(value, Mapping):
        yield from ((f"[{name!r}]", each) for name, each in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from ((f"[{at}]", each) for at, each in enumerate(value))
    elif hasattr(value, "__code__"):
        cells = value.__closure__ or ()
        for name, cell in zip(value.__code__.co_freevars, cells, strict=True):
            yield f".{name}", cell.cell_contents
        for name in value.__code__.co_names:
            if name in value.__globals__:
                yield f".{name}", value.__globals__[name]
    elif hasattr(value, "__self__"):
        yield ".__self__", value.__self__
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        yield from ((f".{name}", each) for name, each in vars(value).items())
