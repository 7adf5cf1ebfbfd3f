"""Every exception class of dicore. Each carries `.hint` (what to do) and `.context` (the facts)."""

from __future__ import annotations

from collections.abc import Sequence

from dicore_registry.errors import (
    DicoreError,
    MissingDependencyError,
    MissingPackageError,
    PluginConflictError,
    PluginLoadError,
    PluginVersionError,
    RegistryError,
    UnknownComponentError,
)

__all__ = [
    "ActionError",
    "CheckpointCorruptError",
    "CheckpointError",
    "CheckpointUnsafeError",
    "CheckpointVersionError",
    "CheckpointWriteError",
    "ClosedError",
    "ConfigError",
    "ConfigWarning",
    "ContextError",
    "ContractError",
    "DicoreError",
    "EnvCreateError",
    "EnvError",
    "EnvResetError",
    "EnvSpaceError",
    "EnvStateError",
    "EnvStepError",
    "HookError",
    "MissingDependencyError",
    "MissingPackageError",
    "ModeError",
    "NonFiniteError",
    "PluginConflictError",
    "PluginLoadError",
    "PluginVersionError",
    "RegistryError",
    "ReplayCapacityError",
    "ReplayError",
    "ReplayPriorityError",
    "ReplayUnderflowError",
    "RunLockedError",
    "SchemaError",
    "TaskError",
    "UnknownComponentError",
    "UsageError",
]


class UsageError(DicoreError):
    """A command or a call was put together wrongly."""

    exit_code = 2


class ConfigError(DicoreError):
    """A config cannot be compiled; holds every mistake found, sorted by path.

    Args:
        problems: One line each: `path: what is wrong; did you mean ...`.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str], *, hint: str = "") -> None:
        lines = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(lines), hint=hint, context={"problems": lines})

    @property
    def problems(self) -> tuple[str, ...]:
        """One line per mistake, each beginning with the key path."""
        return tuple(self.context["problems"])


class ConfigWarning(UserWarning):
    """A config says something that has no effect."""


class ModeError(DicoreError):
    """A policy mode was used that this policy was built without."""


class SchemaError(DicoreError, ValueError):
    """Rows do not have the keys, dtypes or shapes that were declared or seen before."""


class NonFiniteError(DicoreError):
    """A NaN or an infinity reached a place where it would spoil the training."""


class ActionError(DicoreError, ValueError):
    """An action is not in the action space."""


class EnvError(DicoreError):
    """An environment or its manager failed; `.context` holds `env_id`."""


class EnvCreateError(EnvError):
    """Constructing an environment failed."""


class EnvResetError(EnvError):
    """`reset` of an environment failed."""


class EnvStepError(EnvError):
    """`step` of an environment failed."""


class EnvSpaceError(EnvError):
    """An observation does not fit the declared space."""


class EnvStateError(EnvError):
    """A manager was asked for something that its state does not allow."""


class ClosedError(EnvStateError):
    """Something was used after `close()` or before `launch()`."""


class ReplayError(DicoreError):
    """A buffer cannot do what it was asked."""


class ReplayUnderflowError(ReplayError):
    """More rows were asked for than are stored."""


class ReplayPriorityError(ReplayError, ValueError):
    """A priority is negative or not finite."""


class ReplayCapacityError(ReplayError):
    """Something larger than the buffer was pushed."""


class CheckpointError(DicoreError):
    """A checkpoint cannot be written or read."""

    exit_code = 4


class CheckpointWriteError(CheckpointError):
    """Writing a checkpoint failed; the previous one stands."""


class CheckpointCorruptError(CheckpointError):
    """A checkpoint's bytes are not those that were written."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint has a format that this version does not know."""


class CheckpointUnsafeError(CheckpointError):
    """Something that could run code or leave its folder was offered as a checkpoint."""


class HookError(DicoreError):
    """A learner hook was declared or registered wrongly."""

    exit_code = 2


class TaskError(DicoreError):
    """A task was put together or driven wrongly."""


class ContextError(TaskError, AttributeError):
    """A context has no such field; fields are declared by its class."""


class ContractError(DicoreError, AssertionError):
    """A component does not do what its role promises; raised by the suites of `dicore.testing`."""


class RunLockedError(DicoreError):
    """Another process is using this run folder."""

    exit_code = 2
