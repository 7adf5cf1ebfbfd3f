"""Learners: they call a policy's learn mode and run hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.learners.base.config import BaseLearnerConfig
    from dicore_plugins.learners.base.learner import BaseLearner

__all__ = [
    "BaseLearner",
    "BaseLearnerConfig",
]

_HOMES = {
    ".base.config": ("BaseLearnerConfig",),
    ".base.learner": ("BaseLearner",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
