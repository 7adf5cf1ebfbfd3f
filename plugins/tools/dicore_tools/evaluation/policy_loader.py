"""What a training left behind: the config of a run and the parameters of one of its checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dicore.config import Compiled, compile_config
from dicore.errors import CheckpointCorruptError, CheckpointError, ConfigError
from dicore.run.checkpoint_io import read_manifest, read_state
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder

__all__ = ["Content", "Trained", "find_trained", "load_trained"]

_MANIFEST = "manifest.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Content:
    """What playing needs of a checkpoint.

    Args:
        policy: State of the policy's modes.
        starts: State of the environments before the evaluation that measured these very
            parameters; None where there was none.
        name: Of the checkpoint that was read; None: as it was chosen.
    """

    policy: Any
    starts: Mapping[str, Any] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy that can be built again.

    Args:
        compiled: The config.
        name: Of its parameters: a checkpoint's name in the run, or a path.
        read: Reads them, once the policy is there and with it what knows its tensors; None: they
            are as before any training.
    """

    compiled: Compiled
    name: str = "untrained"
    read: Callable[[], Content] | None = None

    def build(self, context: Any) -> tuple[Any, Content]:
        """Makes the policy and loads its parameters.

        Args:
            context: A `BuildContext` that knows the spaces.

        Raises:
            CheckpointError: there are none, or they are not of such a policy.
        """
        policy = self.compiled.policy.build(context)
        if self.read is None:
            return policy, Content(None)
        content = self.read()
        try:
            policy.eval_mode.load_state_dict(content.policy)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {self.name} does not fit this config: {_first_line(error)}",
                hint="evaluate it with the config of its run, or give the options of its model",
            ) from error
        return policy, content


def find_trained(
    where: str | Path,
    load_path: str | Path | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
) -> Trained:
    """Reads a run's config and one of its checkpoints.

    Args:
        where: Folder of a run, or of one of its checkpoints.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest that is whole.
        seed: Another seed than the run's.
        overrides: `a.b=c`, above the run's config.
        trust: Run code that `config.json` names by a path instead of a registered name.

    Raises:
        UsageError: the folder is not that of a run.
        ConfigError: `config.json` names components that are not installed, or by a path.
        CheckpointError: there is no checkpoint, or it cannot be used.
    """
    path = Path(where)
    if load_path is None and (path / _MANIFEST).is_file():
        path, load_path = path.absolute().parent.parent, path
    folder = RunFolder.open(path)
    store = CheckpointStore(folder.checkpoints)
    name = store.best_or_latest() if load_path is None else load_path
    if name is None:
        raise CheckpointError(
            f"{folder}: no checkpoint that is whole",
            hint="name one with --load-path (load_path= in Python)",
        )
    compiled = _compile(folder.config, seed, overrides, trust=trust)
    key = str(name.absolute()) if isinstance(name, Path) else name

    def read() -> Content:
        if load_path is None:
            return _read_chosen(store, key)
        return _content(store.load(key), store.metadata(key), key)

    return Trained(compiled, str(name), read)


def _read_chosen(store: CheckpointStore, name: str) -> Content:
    """Reads what `best_or_latest` chose; where the run dropped it since, what it chooses now."""
    while True:
        facts = store.metadata(name)
        try:
            state = store.load(name)
        except CheckpointError:
            now = store.best_or_latest()
            if now in (None, name):
                raise
            _log.info("checkpoint %s is gone: %s is used", name, now)
            name = now
        else:
            return replace(_content(state, facts, name), name=name)


def load_trained(compiled: Compiled, checkpoint: str | Path) -> Trained:
    """Returns the parameters of a checkpoint under a config that was had elsewhere.

    Args:
        compiled: The config, bound to the spaces.
        checkpoint: The checkpoint's folder; a suffix `.pth.tar` is dropped.

    Raises:
        CheckpointError: there is none, or it cannot be used.
    """
    path = Path(checkpoint)
    if not path.exists():
        path = path.with_name(path.name.removesuffix(".pth.tar"))
    facts = read_manifest(path).metadata
    return Trained(compiled, str(checkpoint), lambda: _content(read_state(path), facts, str(path)))


def _content(state: Any, facts: Mapping[str, Any], name: str) -> Content:
    try:
        policy = state["learner"]["policy"]
    except (KeyError, TypeError):
        raise CheckpointCorruptError(
            f"checkpoint {name} holds no policy", hint="it was not written by a training run"
        ) from None
    measured = (state.get("evaluator") or {}).get("measured") or {}
    same = measured.get("train_iter") == facts.get("train_iter")
    return Content(policy, measured.get("starts") if same else None)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[min(1, len(lines) - 1)] if lines else type(error).__name__


def _compile(file: Path, seed: int | None, overrides: Sequence[str], *, trust: bool) -> Compiled:
    """Compiles the config of a run, which may come from anywhere: only names may choose code."""
    try:
        return compile_config(str(file), seed=seed, overrides=overrides, names_only=not trust)
    except ConfigError as error:
        if "only names here" in error.message:
            hint = "a run that names code by path is evaluated with --trust, if you trust it"
            raise ConfigError(error.problems, hint=hint) from error
        raise
