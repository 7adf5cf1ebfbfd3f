"""Errors of environments that failed: which environment, at which step, and from which line."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from dicore.errors import DicoreError, EnvResetError, EnvStepError, NonFiniteError
from dicore_plugins.env_managers.observations import Fault

__all__ = ["all_of", "data_error", "reset_error", "reward_fault", "step_error"]

_LARGEST = float(np.finfo(np.float32).max)


def step_error(env_id: int, where: str, seed: int, action: Any, error: Exception) -> EnvStepError:
    """Returns the error for a step that raised; the caller chains the cause.

    Args:
        env_id: The environment.
        where: `step 3 of the episode with seed 17`.
        seed: Of the episode.
        action: The action of the step.
        error: The exception of the step.
    """
    frames = traceback.extract_tb(error.__traceback__)
    context = {"env_id": env_id, "action": action, "seed": seed}
    if len(frames) == 1 and isinstance(error, ValueError | TypeError):  # unpacking failed
        return EnvStepError(
            f"env {env_id}: {where} returned an invalid result: {error}",
            hint="step(action) returns obs, reward, terminated, truncated, info (gymnasium's API)",
            context=context,
        )
    return EnvStepError(
        f"env {env_id}: {where} failed on action {action}: {_described(error, frames)}",
        hint="see the exception above; call reset({env_id: None}) to start a new episode",
        context=context,
    )


def reset_error(env_id: int, seed: int, tries: int, error: Exception) -> EnvResetError:
    """Returns the error for a reset of which every attempt failed; the caller chains the cause."""
    frames = traceback.extract_tb(error.__traceback__)
    times = f"{tries} times" if tries > 1 else "once"
    return EnvResetError(
        f"env {env_id}: reset failed {times} (seed {seed}): {_described(error, frames)}",
        hint=getattr(error, "hint", "") or "see the exception above",
        context={"env_id": env_id, "seed": seed, "tries": tries},
    )


def data_error(env_id: int, where: str, seed: int, fault: Fault) -> DicoreError:
    """Returns the error for an invalid observation or reward."""
    return fault.error(
        f"env {env_id}: {fault.text}, at {where}",
        hint="fix the env or the wrapper that computes it; test it with dicore.testing.env",
        context={"env_id": env_id, "seed": seed, **fault.context},
    )


def reward_fault(reward: Any) -> tuple[float, Fault | None]:
    """Converts a reward of any form: a bool, an array of shape (1,), a torch scalar.

    Returns:
        The number, and its fault or None.
    """
    try:
        value = float(np.asarray(reward).item())
    except (TypeError, ValueError, RuntimeError):
        return 0.0, Fault(EnvStepError, f"reward {reward!r} is not a number", {"reward": reward})
    if abs(value) <= _LARGEST:
        return value, None
    what = "is not finite" if not np.isfinite(value) else "is too large for float32"
    return 0.0, Fault(NonFiniteError, f"reward {value} {what}", {"reward": value})


def all_of(errors: Sequence[DicoreError]) -> DicoreError:
    """Returns one error that has the messages of all."""
    first = errors[0]
    if len(errors) == 1:
        return first
    joined = type(first)(
        "\n".join(error.message for error in errors),
        hint=first.hint,
        context={**first.context, "env_ids": [error.context.get("env_id") for error in errors]},
    )
    joined.__cause__ = first.__cause__
    return joined


def _described(error: Exception, frames: traceback.StackSummary) -> str:
    message = getattr(error, "message", None) or str(error)
    text = f"{type(error).__name__}: {message}"
    if not frames:
        return text
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name})"
