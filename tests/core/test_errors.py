"""Every error class: what it says, what it carries, and the exit code it ends a process with."""

from __future__ import annotations

import importlib
import pickle  # noqa: TID251 - errors cross from worker processes
import pkgutil

import pytest

import dicore
import dicore_registry
from dicore import errors
from dicore.cli import report
from dicore.errors import ConfigError, DicoreError
from dicore.run.folder import RunFolder

CODES = {
    1: "DicoreError ModeError SchemaError NonFiniteError ActionError EnvError EnvCreateError"
    " EnvResetError EnvStepError EnvSpaceError EnvStateError ClosedError ReplayError"
    " ReplayUnderflowError ReplayPriorityError ReplayCapacityError TaskError ContextError"
    " ContractError",
    2: "UsageError ConfigError HookError RunLockedError RegistryError UnknownComponentError"
    " MissingPackageError CodePathError",
    3: "PluginConflictError PluginVersionError PluginLoadError PluginHookError"
    " MissingDependencyError",
    4: "CheckpointError CheckpointWriteError CheckpointCorruptError CheckpointVersionError"
    " CheckpointUnsafeError",
}
TABLE = [(name, code) for code, names in CODES.items() for name in names.split()]


def classes() -> dict[str, type[DicoreError]]:
    """Returns every error class of the core and the registry, wherever it is defined."""
    for package in (dicore, dicore_registry):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".cli" not in module.name and ".testing" not in module.name:
                importlib.import_module(module.name)
    found, todo = {}, [DicoreError]
    while todo:
        cls = todo.pop()
        found[cls.__name__] = cls
        todo += [each for each in cls.__subclasses__() if each.__module__.startswith("dicore")]
    public = (each for each in found.items() if not each[0].startswith("_"))
    homes = ("dicore", "dicore_registry")
    return {name: cls for name, cls in public if cls.__module__.partition(".")[0] in homes}


def test_the_table_names_every_class() -> None:
    """A class that is added gets its exit code here."""
    assert set(classes()) == {name for name, _ in TABLE}
    assert set(errors.__all__) >= {name for name, _ in TABLE}


@pytest.mark.parametrize(("name", "code"), TABLE)
def test_an_error_says_what_to_do_and_ends_with_its_code(
    name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cls = getattr(errors, name)
    facts = {} if cls is ConfigError else {"context": {"env_id": 3}}
    error = cls("env 3: it broke", hint="mend it", **facts)
    assert error.message == "env 3: it broke"
    assert error.hint == "mend it"
    assert dict(error.context) == (
        {"problems": ("env 3: it broke",)} if cls is ConfigError else {"env_id": 3}
    )
    assert report(error, debug=False) == error.exit_code == code
    said = capsys.readouterr()
    assert said.err == "error: env 3: it broke\n  hint: mend it\n"
    assert said.out == ""
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message, again.hint) == (cls, error.message, error.hint)
    assert again.context == error.context
    with pytest.raises(TypeError):
        error.context["env_id"] = 4


def test_debug_shows_where_it_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(errors.UsageError) as caught:
        RunFolder.open("nowhere")
    assert report(caught.value, debug=True) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "error: nowhere: no such folder\n" in said
