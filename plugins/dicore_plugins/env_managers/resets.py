"""Beginning the next episodes where a manager leaves that to who steps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dicore.interfaces.env_manager import EnvState

__all__ = ["reset_ended"]


def reset_ended(manager: Any, env_ids: Iterable[int]) -> None:
    """Resets those environments whose episode ended and that wait for it (`auto_reset=False`)."""
    state_of = getattr(manager, "env_state", None)
    if state_of is None:
        return
    waiting = [env_id for env_id in env_ids if state_of(env_id) is EnvState.NEED_RESET]
    if waiting:
        manager.reset(waiting)
