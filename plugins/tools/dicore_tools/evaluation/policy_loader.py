"""Loads trained policies: a config and the parameters of a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from os import PathLike
from pathlib import Path
from typing import Any

from dicore.config import Compiled, bind, compile_config
from dicore.errors import CheckpointCorruptError, CheckpointError, ConfigError, UsageError
from dicore.run.checkpoint_io import read_manifest, read_state
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.request import TrainRequest, compile_request
from dicore_tools.evaluation.env_states import EnvStates, states_of

__all__ = [
    "PolicyState",
    "TrainedPolicy",
    "check_foreign",
    "find_policy",
    "fixed_policy",
    "load_policy",
    "saved",
]

_MANIFEST = "manifest.json"
_FOREIGN = (".zip", ".pt", ".pth", ".safetensors")

_log = logging.getLogger(__name__)


def check_foreign(path: object) -> None:
    """Raises UsageError for a file with weights of another framework, such as SB3's `.zip`.

    Also for what is no path.
    """
    if not isinstance(path, str | PathLike):
        own = callable(getattr(path, "evaluate", None))
        raise UsageError(
            f"expected the folder of a run, got {path!r}",
            hint="it evaluates itself: agent.evaluate(n_episode=…)" if own else "name a folder",
        )
    if Path(path).suffix in _FOREIGN and Path(path).is_file():
        raise UsageError(
            f"{path}: a file of another framework, not a run or checkpoint",
            hint=f"dicore import-weights {path} --run RUN makes it a checkpoint of a run",
        )


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What a checkpoint stores of a policy.

    Args:
        policy: State dict of the policy's modes; None: untrained.
        starts: State of the env manager before the evaluation of these parameters; None if they
            were not evaluated.
        name: Name of the checkpoint that was read, if it is not the requested one.
        env_states: What the training's environments remember beyond an episode.
    """

    policy: Any
    starts: Mapping[str, Any] | None = None
    name: str | None = None
    env_states: EnvStates = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainedPolicy:
    """A config and the parameters to load into its policy.

    Args:
        compiled: The config.
        name: Name or path of the checkpoint.
        read: Reads the checkpoint, once the policy is built; None: untrained.
    """

    compiled: Compiled
    name: str = "untrained"
    read: Callable[[], PolicyState] | None = None

    def build(self, context: Any) -> tuple[Any, PolicyState]:
        """Builds the policy and loads its parameters.

        Args:
            context: A `BuildContext` with a spec.

        Raises:
            ConfigError: the policy does not fit the spaces.
            CheckpointError: the checkpoint is missing, or its parameters do not fit the policy.
        """
        try:
            policy = bind(self.compiled, context.spec).policy.build(context)
        except ConfigError as error:
            hint = "evaluate the policy in an environment with the spaces that it was trained for"
            raise ConfigError(error.problems, hint=hint) from error
        if self.read is None:
            return policy, PolicyState(None)
        state = self.read()
        try:
            policy.eval_mode.load_state_dict(state.policy)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {self.name} does not fit this config: {_first_line(error)}",
                hint="use the config of its run, or set the same model options",
            ) from error
        return policy, state


def find_policy(
    where: str | Path,
    load_path: str | Path | None = None,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
    trust: bool = False,
) -> TrainedPolicy:
    """Returns the policy of a run.

    Args:
        where: A run folder, or the folder of one of its checkpoints.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest valid one.
        seed: Random seed; None takes the run's.
        overrides: `a.b=c`, on top of the run's config.
        trust: Run code that `config.json` names by path instead of a registered name.

    Raises:
        UsageError: the folder is not a run folder.
        ConfigError: `config.json` names components that are not installed, or code by path.
        CheckpointError: there is no valid checkpoint.
    """
    folder, name, read = saved(where, load_path)
    names_only = False if trust else None
    file = str(folder.config)
    compiled = compile_config(file, seed=seed, overrides=overrides, names_only=names_only)
    return TrainedPolicy(compiled, str(name), read)


def saved(
    where: str | Path, load_path: str | Path | None = None
) -> tuple[RunFolder, str | Path, Callable[[], PolicyState]]:
    """Returns the folder of a run, a checkpoint of it, and what reads that; runs no code of it.

    Args:
        where: A run folder, or the folder of one of its checkpoints.
        load_path: Name or path of a checkpoint; None takes `best`, else the latest valid one.

    Raises:
        UsageError: the folder is not a run folder.
        CheckpointError: there is no valid checkpoint.
    """
    check_foreign(where)
    check_foreign(load_path or where)
    path = Path(where)
    if load_path is None and (path / _MANIFEST).is_file():
        path, load_path = path.absolute().parent.parent, path
    folder = RunFolder.open(path)
    store = CheckpointStore(folder.checkpoints)
    name = store.best_or_latest() if load_path is None else load_path
    if name is None:
        raise CheckpointError(
            f"{folder}: no valid checkpoint",
            hint="name one with --load-path (load_path= in Python)",
        )
    key = str(name.absolute()) if isinstance(name, Path) else name

    def read() -> PolicyState:
        if load_path is None:
            return _read_chosen(store, key)
        return _policy_state(store.load(key), store.metadata(key), key)

    return folder, name, read


def load_policy(
    config: Any,
    checkpoint: str | Path,
    *,
    seed: int | None = None,
    overrides: Sequence[str] = (),
) -> TrainedPolicy:
    """Returns the policy of a config, with the parameters of a checkpoint.

    Args:
        config: A config in any form, or a `TrainRequest`.
        checkpoint: Folder of the checkpoint; a suffix `.pth.tar` is dropped.
        seed: Random seed; None takes the config's.
        overrides: `a.b=c`, on top of the config.

    Raises:
        ConfigError: the config is invalid.
        CheckpointError: there is no checkpoint, or it is invalid.
    """
    check_foreign(checkpoint)
    compiled = _bound(config, seed, overrides)
    path = Path(checkpoint)
    if not path.exists():
        path = path.with_name(path.name.removesuffix(".pth.tar"))
    facts = read_manifest(path).metadata
    return TrainedPolicy(
        compiled, str(checkpoint), lambda: _policy_state(read_state(path), facts, str(path))
    )


def fixed_policy(
    config: Any, *, seed: int | None = None, overrides: Sequence[str] = ()
) -> TrainedPolicy:
    """Returns the policy of a config that needs no parameters: one that does not learn.

    Args:
        config: A config in any form, or a `TrainRequest`.
        seed: Random seed; None takes the config's.
        overrides: `a.b=c`, on top of the config.

    Raises:
        ConfigError: the config is invalid.
        UsageError: the policy learns, so that it needs a checkpoint.
    """
    compiled = _bound(config, seed, overrides)
    if compiled.policy.learns:
        raise UsageError(
            f"no checkpoint given, and policy '{compiled.policy.type}' has to learn first",
            hint="pass state_dict_path=CKPT, or name the folder of a run",
        )
    return TrainedPolicy(compiled)


def _bound(config: Any, seed: int | None, overrides: Sequence[str]) -> Compiled:
    """Returns a config, compiled and bound to the spaces of its environment."""
    from dicore.run.env_factory import spec_of

    request = config if isinstance(config, TrainRequest) else TrainRequest(config=config)
    request = changed(
        request,
        overrides=[*request.overrides, *overrides],
        seed=request.seed if seed is None else seed,
    )
    compiled = compile_request(request)
    return bind(compiled, spec_of(compiled.env, compiled.seed))


def _read_chosen(store: CheckpointStore, name: str) -> PolicyState:
    """Reads the checkpoint that `best_or_latest` chose, or its successor if it was deleted."""
    while True:
        facts = store.metadata(name)
        try:
            state = store.load(name)
        except CheckpointError:
            successor = store.best_or_latest()
            if successor in (None, name):
                raise
            _log.info("checkpoint %s was deleted: loading %s", name, successor)
            name = successor
        else:
            return changed(_policy_state(state, facts, name), name=name)


def _policy_state(state: Any, facts: Mapping[str, object], name: str) -> PolicyState:
    try:
        policy = state["learner"]["policy"]
    except (KeyError, TypeError):
        raise CheckpointCorruptError(
            f"checkpoint {name} contains no policy", hint="use a checkpoint of a training run"
        ) from None
    measured = (state.get("evaluator") or {}).get("measured") or {}
    same = measured.get("train_iter") == facts.get("train_iter")
    starts = measured.get("starts") if same else None
    return PolicyState(policy, starts, env_states=states_of(state))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[min(1, len(lines) - 1)] if lines else type(error).__name__
