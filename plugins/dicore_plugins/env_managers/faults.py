"""Errors of environments that failed: which environment, at which step, and from which line."""

from __future__ import annotations

import builtins
import logging
import random
import re
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from dicore import errors
from dicore.console import without_secrets
from dicore.errors import DicoreError, EnvResetError, EnvStepError, NonFiniteError
from dicore.values import Tree

__all__ = [
    "LARGEST", "STEP_HINT", "RemoteError", "after_failures", "all_of", "data_error", "described",
    "flag_fault", "info_fault", "no_reset", "reset_error", "retry_wait", "reward_fault",
    "step_error", "warn_no_effect",
]  # fmt: skip

_LOG = logging.getLogger("dicore.env")
LARGEST = float(np.finfo(np.float32).max)
STEP_HINT = (
    "--debug shows the traceback; env.manager.restart_budget=N replaces N such episodes (in Python,"
    " the manager's reset({env_id: None}) starts a new one)"
)
_LONGEST_WAIT_S = 30.0
_LONGEST_TEXT = 10_000
"""Characters of the text of an exception that are kept."""
_EPISODE = re.compile(
    r"^env \d+: |the reset with seed \d+"
    r"|step \d+ of the episode with seed \d+( failed on action [^:]*)?"
)
_JITTER = random.SystemRandom()


class Fault(NamedTuple):
    """Why an observation or reward is invalid.

    Args:
        error: The error class to raise.
        text: The message, which begins with the path: `observation camera.rgb …`.
        context: Context of the error: `path`, `index`.
    """

    error: type[DicoreError]
    text: str
    context: dict[str, object]


@cache
def warn_no_effect(name: str) -> None:
    """Warns of a time limit that this manager cannot enforce; once per process."""
    _LOG.warning(
        "env.manager.%s has no effect: environments run in this process and cannot be interrupted;"
        " choose a manager that uses processes (dicore list env_manager)",
        name,
    )


def step_error(
    env_id: int, where: str, seed: int, action: Tree, error: BaseException
) -> EnvStepError:
    """Returns the error for a step that raised; the caller chains the cause.

    Args:
        env_id: The environment.
        where: `step 3 of the episode with seed 17`.
        seed: Of the episode.
        action: The action of the step.
        error: The exception of the step.
    """
    context = {"env_id": env_id, "action": action, "seed": seed}
    if _of_unpacking(error):
        return EnvStepError(
            f"env {env_id}: {where} returned an invalid result: {getattr(error, 'message', error)}",
            hint="step(action) returns obs, reward, terminated, truncated, info (gymnasium's API)",
            context=context,
        )
    return EnvStepError(
        f"env {env_id}: {where} failed on action {action}: {described(error)}",
        hint=STEP_HINT,
        context=context,
    )


def _of_unpacking(error: BaseException) -> bool:
    """Returns whether an error was raised where the result of `step` is unpacked, not within."""
    if isinstance(error, RemoteError):
        return error.kind in ("ValueError", "TypeError") and not error.origin
    frames = traceback.extract_tb(error.__traceback__)
    return len(frames) == 1 and isinstance(error, ValueError | TypeError)


def reset_error(env_id: int, seed: int, tries: int, error: BaseException) -> EnvResetError:
    """Returns the error for a reset of which every attempt failed."""
    times = f"{tries} times" if tries > 1 else "once"
    failed = EnvResetError(
        f"env {env_id}: reset failed {times} (seed {seed}): {described(error)}",
        hint=getattr(error, "hint", "") or "--debug shows the traceback",
        context={"env_id": env_id, "seed": seed, "tries": tries},
    )
    failed.__cause__ = error
    return failed


def data_error(env_id: int, where: str, seed: int, fault: Fault) -> DicoreError:
    """Returns the error for an invalid observation or reward."""
    return fault.error(
        f"env {env_id}: {fault.text}, at {where}",
        hint="fix the env or the wrapper that computes it; dicore check ENV finds what else is"
        " wrong",
        context={"env_id": env_id, "seed": seed, **fault.context},
    )


def reward_fault(reward: Tree, shape: tuple[int, ...] = ()) -> tuple[Tree, Fault | None]:
    """Converts a reward of any form: a bool, an array of shape (1,), a torch scalar.

    Returns:
        The float64 array of that shape, and its fault or None.
    """
    given: Tree = np.zeros(())
    try:
        detach = getattr(reward, "detach", None)  # of a tensor, which may require a gradient
        given = np.asarray(reward if detach is None else detach())
        if given.dtype.kind == "O":  # as numpy would make None a NaN
            given = np.array([float(each) for each in given.flat])
        bad = given.dtype.kind in "USc"
        value = np.zeros(()) if bad else given.astype(np.float64).reshape(shape)
    except OverflowError:  # of an int
        value = np.full(shape, np.inf)
        bad = False
    except (TypeError, ValueError, RuntimeError):
        bad = True
    if bad:
        form = f"an array of shape {shape}" if shape else "a number"
        text = f"reward {reward!r} is not {form}"
        if given.size > 1 and not shape:
            text = f"reward of shape {given.shape} is not a number; several need a reward_space"
        fault = Fault(EnvStepError, text, {"reward": reward})
        return np.zeros(shape), fault
    if (abs(value) <= LARGEST).all():
        return value, None
    what = "is too large for float32" if np.isfinite(value).all() else "is not finite"
    text = f"reward {value.tolist()} {what}"
    return np.zeros(shape), Fault(NonFiniteError, text, {"reward": value.tolist()})


def info_fault(info: object) -> Fault | None:
    """Returns why an info is invalid, or None."""
    if isinstance(info, Mapping):
        return None
    text = f"info is a {type(info).__name__}, not a dict"
    return Fault(EnvStepError, text, {})


def flag_fault(flags: tuple[Tree, Tree]) -> tuple[tuple[bool, bool], Fault | None]:
    """Converts (terminated, truncated): bools, 0 or 1, or arrays of one such value.

    Returns:
        The two as bools, and their fault or None.
    """
    for name, flag in zip(("terminated", "truncated"), flags, strict=True):
        try:
            legal = flag is None or float(np.asarray(flag).item()) in (0.0, 1.0)
            legal = legal and not isinstance(flag, str)
        except (ArithmeticError, TypeError, ValueError, RuntimeError):
            legal = False
        if not legal:
            text = f"{name} is {flag!r}, which is neither True nor False"
            return (False, False), Fault(EnvStepError, text, {name: flag})
    return (bool(flags[0]), bool(flags[1])), None


def all_of(errors: Sequence[DicoreError]) -> DicoreError:
    """Returns one error that has the messages of all, each text once."""
    first = errors[0]
    if len(errors) == 1:
        return first
    alike: dict[str, list[tuple[str, str]]] = {}
    for error in errors:
        who, _, text = error.message.partition(": ")
        alike.setdefault(cause_of(text), []).append((who, text))
    joined = type(first)(
        "\n".join(map(_of_several, alike.values())),
        hint=first.hint,
        context={**first.context, "env_ids": [error.context.get("env_id") for error in errors]},
    )
    joined.__cause__ = first.__cause__
    return joined


def cause_of(text: str) -> str:
    """Returns what a message says beside environment, step, seed and action."""
    return _EPISODE.sub("", text)


def _of_several(group: list[tuple[str, str]]) -> str:
    """Returns one text of several environments, with the seed of the first one."""
    (first, text), *others = group
    if all(other == text for _, other in others):
        return f"{', '.join(who for who, _ in group)}: {text}"
    return f"{first}: {text}; likewise {', '.join(who for who, _ in others)}"


def after_failures(error: DicoreError, failures: Sequence[tuple[float, str]]) -> DicoreError:
    """Returns the error that ends the restarts of an environment, with the causes of the last two.

    Args:
        error: The failure that is one too many.
        failures: When the environment failed before, and why.
    """
    if not failures:
        return error
    times = "once" if len(failures) == 1 else f"{len(failures)} times"
    causes = [why for _, why in failures[-2:]]
    if set(map(cause_of, causes)) == {cause_of(error.message)}:
        told = " in the same way"
    else:
        told = ", the last time" + "s" * (len(failures) > 1) + " by:\n- " + "\n- ".join(causes)
    text = f"{error.message}\nit failed {times} before{told}"
    raised = type(error)(text, hint=error.hint, context=error.context)
    raised.__cause__ = error.__cause__
    return raised


def retry_wait(first_s: float, attempt: int) -> float:
    """Returns the seconds to wait after attempt 1, 2, …: twice as many each time, at most 30.

    A quarter more or less at random, so that environments that failed together do not ask a server
    again together. Random numbers of the run are not used.
    """
    wait = min(first_s * 2.0 ** (attempt - 1), max(first_s, _LONGEST_WAIT_S))
    return wait * _JITTER.uniform(0.75, 1.25)


class RemoteError(Exception):
    """An exception of an environment in another process; it pickles.

    Args:
        kind: Name of its class.
        message: Its message.
        origin: File, line and function.
        trace: Its traceback.
        hint: Its hint.
    """

    def __init__(
        self, kind: str, message: str, origin: str = "", trace: str = "", hint: str = ""
    ) -> None:
        message, trace = without_secrets(message), without_secrets(trace)
        super().__init__(kind, message, origin, trace, hint)
        self.kind, self.message, self.origin, self.trace = kind, message, origin, trace
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:  # it is made anew where the secrets are known
        return RemoteError, self.args

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Returns what another process is to know of an exception."""
        message = _message(error)
        trace = _cut("".join(traceback.format_exception(error)))
        hint = getattr(error, "hint", None) or ""
        origin = "" if _of_unpacking(error) else _origin(error)
        return cls(type(error).__name__, message, origin, trace, hint)

    def restored(self) -> Exception:
        """Returns the exception itself if its class is built in or dicore's, else this one."""
        kind: object = getattr(errors, self.kind, None) or getattr(builtins, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            return self
        known = hasattr(errors, self.kind)
        error: Exception = kind(self.message, **({"hint": self.hint} if known else {}))
        error.__cause__ = self
        return error

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}\n\n{self.trace}".rstrip()


def described(error: BaseException) -> str:
    """Returns type, message and origin of an exception in one line."""
    kind = getattr(error, "kind", "") or type(error).__name__
    message, origin = _message(error), _origin(error)
    text = f"sys.exit({message}) was called" if kind == "SystemExit" else f"{kind}: {message}"
    return f"{text} ({origin})" if origin else text


def _message(error: BaseException) -> str:
    """Returns the text of an exception, shortened if it is long, also if its `str` fails."""
    message = getattr(error, "message", None)
    if isinstance(message, str) and (message or isinstance(error, RemoteError)):
        return _cut(without_secrets(message))
    try:
        return _cut(without_secrets(str(error)))
    except Exception as failed:
        return f"(no text: its str() raises {type(failed).__name__})"


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2 - 50  # the result is not shortened again
    left_out = len(text) - 2 * half
    return f"{text[:half]} … ({left_out} characters) … {text[-half:]}"


def _origin(error: BaseException) -> str:
    if isinstance(error, RemoteError):
        return error.origin
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}"


def no_reset(env_id: int, seed: int, result: Tree) -> EnvResetError:
    """Returns the error of a reset that returned something else than observation and info."""
    return EnvResetError(
        f"env {env_id}: reset returned {type(result).__name__}",
        hint="reset(seed=…) returns observation and info (gymnasium's API)",
        context={"env_id": env_id, "seed": seed},
    )
