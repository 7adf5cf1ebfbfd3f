"""All exception classes of dicore; `.hint` says what to do, `.context` holds details."""

from __future__ import annotations

from collections.abc import Sequence

from dicore_registry.errors import (
    CodePathError,
    DicoreError,
    MissingDependencyError,
    MissingPackageError,
    PluginConflictError,
    PluginHookError,
    PluginLoadError,
    PluginVersionError,
    RegistryError,
    UnknownComponentError,
)

__all__ = [
    "ActionError", "CheckpointCorruptError", "CheckpointError", "CheckpointUnsafeError",
    "CheckpointVersionError", "CheckpointWriteError", "ClosedError", "CodePathError", "ConfigError",
    "ConfigWarning", "ContextError", "ContractError", "DicoreError", "EnvCreateError", "EnvError",
    "EnvResetError", "EnvSpaceError", "EnvStateError", "EnvStepError", "HookError",
    "MissingDependencyError", "MissingPackageError", "ModeError", "NonFiniteError",
    "PluginConflictError", "PluginHookError", "PluginLoadError", "PluginVersionError",
    "RegistryError", "ReplayCapacityError", "ReplayError", "ReplayPriorityError",
    "ReplayUnderflowError", "RunLockedError", "SchemaError", "TaskError", "UnknownComponentError",
    "UsageError",
]  # fmt: skip


class UsageError(DicoreError):
    """The arguments of a command or call are wrong."""

    exit_code = 2


class ConfigError(DicoreError):
    """A config cannot be compiled; holds every problem, sorted by path.

    Args:
        problems: One line each: `path: what is wrong; did you mean ...`.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str], *, hint: str = "") -> None:
        lines = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(lines), hint=hint, context={"problems": lines})

    @property
    def problems(self) -> tuple[str, ...]:
        """One line per problem, each beginning with the key path."""
        return tuple(self.context["problems"])


class ConfigWarning(UserWarning):
    """A config sets an option that has no effect, or names what is out of date."""


class ModeError(DicoreError):
    """A policy mode was used that the policy was built without."""


class SchemaError(DicoreError, ValueError):
    """Samples do not have the declared or earlier keys, dtypes or shapes."""


class NonFiniteError(DicoreError):
    """A NaN or an infinity would corrupt the training."""


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
    """A method of an env manager was called in the wrong state."""


class ClosedError(EnvStateError):
    """An object was used after `close()` or before `launch()`."""


class ReplayError(DicoreError):
    """An operation of a replay buffer failed."""


class ReplayUnderflowError(ReplayError):
    """More samples were requested than are stored."""


class ReplayPriorityError(ReplayError, ValueError):
    """A priority is negative or not finite."""


class ReplayCapacityError(ReplayError):
    """More data was pushed than the buffer can hold."""


class CheckpointError(DicoreError):
    """A checkpoint cannot be written or read."""

    exit_code = 4


class CheckpointWriteError(CheckpointError):
    """Writing a checkpoint failed; the previous one is unchanged."""


class CheckpointCorruptError(CheckpointError):
    """A checkpoint was changed or truncated."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint has a format that this version cannot read."""


class CheckpointUnsafeError(CheckpointError):
    """A checkpoint could run code or lead out of its folder."""


class HookError(DicoreError):
    """A learner hook is declared or registered wrongly."""

    exit_code = 2


class TaskError(DicoreError):
    """A task was set up or used wrongly."""


class ContextError(TaskError, AttributeError):
    """A context class does not declare the field."""


class ContractError(DicoreError, AssertionError):
    """A component violates the contract of its role; raised by the suites of `dicore.testing`."""


class RunLockedError(DicoreError):
    """Another process is using this run folder."""

    exit_code = 2
