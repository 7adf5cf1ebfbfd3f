"""What is said of an environment that failed: which, where, and by whose line."""

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
    """Returns the error of a step that raised; the caller chains the cause.

    Args:
        env_id: Which environment.
        where: `step 3 of the episode with seed 17`.
        seed: Of the episode.
        action: What it was given.
        error: What it raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    context = {"env_id": env_id, "action": action, "seed": seed}
    if len(frames) == 1 and isinstance(error, ValueError | TypeError):  # not in the env itself
        return EnvStepError(
            f"env {env_id}: {where} returned what cannot be used: {error}",
            hint="step(action) returns obs, reward, terminated, truncated, info (gymnasium's API)",
            context=context,
        )
    return EnvStepError(
        f"env {env_id}: {where} failed on action {action}: {_told(error, frames)}",
        hint="the cause is chained; reset({env_id: None}) begins a new episode",
        context=context,
    )


def reset_error(env_id: int, seed: int, tries: int, error: Exception) -> EnvResetError:
    """Returns the error of a reset that failed at every try; the caller chains the cause."""
    frames = traceback.extract_tb(error.__traceback__)
    times = f"{tries} times" if tries > 1 else "once"
    return EnvResetError(
        f"env {env_id}: reset failed {times} (seed {seed}): {_told(error, frames)}",
        hint=getattr(error, "hint", "") or "the cause is chained",
        context={"env_id": env_id, "seed": seed, "tries": tries},
    )


def data_error(env_id: int, where: str, seed: int, fault: Fault) -> DicoreError:
    """Returns the error of an observation or a reward that cannot be learned from."""
    return fault.error(
        f"env {env_id}: {fault.text}, at {where}",
        hint="the env, or a wrapper of it, computes it; see dicore.testing.env",
        context={"env_id": env_id, "seed": seed, **fault.context},
    )


def reward_fault(reward: Any) -> tuple[float, Fault | None]:
    """Reads a reward of whatever form, be it a bool, of shape (1,) or a torch scalar.

    Returns:
        The number, and what is wrong with it.
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
    """Returns one error for all that failed in one step; it names each."""
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


def _told(error: Exception, frames: traceback.StackSummary) -> str:
    text = getattr(error, "message", None) or str(error)
    told = f"{type(error).__name__}: {text}"
    if not frames:
        return told
    return f"{told} ({frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name})"
