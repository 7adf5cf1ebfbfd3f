"""The agent interface: train, evaluate, watch, collect, keep."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

from dicore.config import Compiled, bind
from dicore.config.plain import replace
from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.launch import TrainRequest, compile_request, launch
from dicore_tools.agent.named import named
from dicore_tools.agent.player import player
from dicore_tools.agent.tuned import tuned_env
from dicore_tools.evaluation.evaluate import Evaluation, measure
from dicore_tools.evaluation.policy_loader import Trained, find_trained

__all__ = ["Agent", "TrainResult"]


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What a training came to.

    Args:
        stop: The stop value was reached.
        train_iter: Updates made, all in all.
        env_step: Env steps made, all in all.
        best_return: Best mean return of an evaluation; None before the first.
        wall_s: Seconds of training.
        folder: The run's folder.
    """

    stop: bool
    train_iter: int
    env_step: int
    best_return: float | None
    wall_s: float
    folder: Path


class Agent:
    """An environment, an algorithm, and what has been learned.

    Args:
        env: Name of an environment, a gymnasium id, or a class; where a preset is for this id and
            the algorithm, the preset is taken.
        policy: Name of an algorithm (`dicore list policy`), or a class.
        exp_name: Folder of the run; None: `runs/<env>_<policy>_s<seed>`.
        seed: Seed of everything random.
        cfg: A config in any form (`[main_config, create_config]`, a dict, a file), instead of or
            below the names.
        **overrides: More options; `__` stands for a dot: `policy__learn__batch_size=128`.

    A class that has no name yet is registered in this process, by its own name in small letters.

    Raises:
        UsageError: it is not said what to train, or an object is given where a class is meant.
        ConfigError: everything that is wrong with the config.
    """

    algorithm: ClassVar[str | None] = None
    """Policy of the agents of this class, where nobody says another."""

    def __init__(
        self,
        env: str | type | None = None,
        policy: str | type | None = None,
        *,
        exp_name: str | Path | None = None,
        seed: int | None = None,
        cfg: Any = None,
        **overrides: Any,
    ) -> None:
        env_name = named("env", env)
        policy_name = named("policy", policy) or self.algorithm
        self._request = TrainRequest(
            config=cfg,
            env=tuned_env(env_name, policy_name) if cfg is None else env_name,
            policy=policy_name,
            seed=seed,
            exp_name=None if exp_name is None else str(exp_name),
            overrides=_overrides(overrides),
        )
        self._compiled: Compiled | None = compile_request(self._request)
        self._folder: Path | None = None
        self._checkpoint: str | None = None
        self._trust = True
        self._player: Callable[[Any], Any] | None = None

    # ---- what it is

    @property
    def config(self) -> Compiled:
        """The compiled config."""
        return self._compiled if self._compiled is not None else self._trained().compiled

    @property
    def folder(self) -> Path | None:
        """Folder of its run; None before any training."""
        return self._folder

    @property
    def best(self) -> Agent:
        """An agent with the parameters of the best evaluation so far.

        Raises:
            UsageError: there was none.
        """
        return self._with("best", "no best checkpoint")

    def __repr__(self) -> str:
        label = self._checkpoint or "untrained"
        where = f" in {self._folder}" if self._folder is not None else ""
        return f"{type(self).__name__}({_what(self.config)}, {label}{where})"

    # ---- learning

    def train(self, step: int | None = None, *, n_iter: int | None = None) -> TrainResult:
        """Trains, or goes on with the training, and keeps what was learned.

        A training that has reached its stop value is left as it is. Ctrl-C ends the training after
        saving, and is passed on.

        Args:
            step: Env steps, counted from here; None: as the config says.
            n_iter: Updates, counted from here; None: as the config says.

        Raises:
            UsageError: a number is not positive, or the parameters are not those of a run's end.
            DicoreError: the training failed; `run.json` says so.
        """
        step, n_iter = _count("step", step), _count("n_iter", n_iter)
        if self._checkpoint not in (None, "final"):
            raise UsageError(
                f"training goes on from the end of a run, not from '{self._checkpoint}'",
                hint="load() the folder of the run, or train a new agent",
            )
        self._player = None
        outcome = launch(self._next(step, n_iter))
        run = outcome.run
        self._folder, self._compiled = Path(run.folder), None
        store = CheckpointStore(run.folder.checkpoints)
        self._checkpoint = "final" if "final" in store.names() else store.latest()
        if outcome.exit_code:
            raise KeyboardInterrupt(f"stopped by a signal; {run.folder} has what was learned")
        return _result(run.folder)

    def _next(self, step: int | None, n_iter: int | None) -> TrainRequest:
        """Returns the request for a first training, or for going on."""
        from dataclasses import replace as changed

        if self._folder is None:
            return changed(self._request, max_env_step=step, max_train_iter=n_iter)
        before = _result(RunFolder(self._folder))
        return TrainRequest(
            resume=self._folder,
            max_env_step=None if step is None else before.env_step + step,
            max_train_iter=None if n_iter is None else before.train_iter + n_iter,
            trust=self._trust,
        )

    def load(self, path: str | Path, *, trust: bool = False) -> Self:
        """Takes over what a run has learned.

        Args:
            path: Folder of a run, whose training can go on, or of one of its checkpoints.
            trust: Run code that the run's config names by path.

        Raises:
            UsageError: the folder is not that of a run, or the run is of something else.
            CheckpointError: there is no checkpoint that is whole.
        """
        place = Path(path)
        trained = find_trained(place, trust=trust)
        theirs, ours = _what(trained.compiled), _what(self.config)
        if theirs != ours:
            raise UsageError(
                f"{path} is a run of {theirs}; this agent is {ours}",
                hint="make the agent with the environment and the policy of the run",
            )
        checkpoint = (place / "manifest.json").is_file()
        self._folder = place.absolute().parent.parent if checkpoint else place
        self._checkpoint = place.name if checkpoint else self._end(trained.name)
        self._compiled, self._trust, self._player = None, trust, None
        return self

    def save(self, path: str | Path) -> Path:
        """Copies the run, with all of its checkpoints, to another folder; `load` reads it.

        Args:
            path: A folder that there is not yet.

        Returns:
            The folder.

        Raises:
            UsageError: nothing was trained, or the folder exists.
        """
        if self._folder is None:
            raise UsageError(f"{self!r} has nothing to save", hint="train it first")
        target = Path(path)
        if target.exists():
            raise UsageError(f"{target} exists already", hint="name a folder that there is not yet")
        shutil.copytree(self._folder, target)
        return target

    def _end(self, otherwise: str) -> str:
        assert self._folder is not None
        store = CheckpointStore(RunFolder(self._folder).checkpoints)
        return "final" if "final" in store.names() else otherwise

    # ---- acting

    def evaluate(self, n_episode: int | None = None, *, seed: int | None = None) -> Evaluation:
        """Measures the policy as it is; see `dicore_tools.evaluation.evaluate.evaluate`.

        Args:
            n_episode: Number of episodes; None takes the config's.
            seed: Seed of the episodes; None takes the run's.
        """
        n_episode = _count("n_episode", n_episode)
        same = n_episode is None and seed is None
        return measure(self._trained(seed), n_episode=n_episode, same_starts=same)

    def batch_evaluate(
        self, env_num: int = 4, n_episode: int | None = None, *, seed: int | None = None
    ) -> Evaluation:
        """Measures the policy in so many environments at a time.

        Args:
            env_num: Number of environments.
            n_episode: Number of episodes; None: one for each environment.
            seed: Seed of the episodes; None takes the run's.
        """
        env_num, n_episode = _count("env_num", env_num), _count("n_episode", n_episode)
        trained = self._trained(seed, evaluator_env_num=env_num)
        return measure(trained, n_episode=env_num if n_episode is None else n_episode)

    def deploy(self, video: str | Path | None = None, *, seed: int | None = None) -> float:
        """Plays one episode and returns its return.

        Args:
            video: File (`.mp4`) of a video of it; None: no video.
            seed: Seed of the episode; None takes the run's.

        Raises:
            UsageError: no video can be recorded.
        """
        if video is None:
            return measure(self._trained(seed), n_episode=1).returns[0]
        target = Path(video)
        if target.suffix != ".mp4":
            raise UsageError(
                f"{target}: a video is a file that ends in .mp4",
                hint="dicore eval RUN --replay-path DIR records several episodes into a folder",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".video-", dir=target.parent) as folder:
            found = measure(self._trained(seed), n_episode=1, replay_path=folder)
            if not found.videos:
                raise UsageError(f"{target}: nothing was recorded")
            found.videos[0].replace(target)
        return found.returns[0]

    def collect_data(
        self, n_sample: int = 1000, path: str | Path | None = None, *, seed: int | None = None
    ) -> Batch:
        """Collects training samples with the policy as it is.

        Args:
            n_sample: How many.
            path: Folder that they are written into (`load_demo_data` reads it); None: none.
            seed: Seed of the episodes; None takes the run's.
        """
        from dicore_tools.demo_dataset import collect, save_demo_data

        n_sample = _count("n_sample", n_sample)
        trained = self._trained(seed)
        data = collect(trained, n_sample)
        if path is not None:
            save_demo_data(trained, data, path)
        return data

    def act(self, obs: Any) -> Any:
        """Chooses the action for one observation, without exploration: for a loop of your own.

        Args:
            obs: Of one environment, as that gives it: array, list, number, dict or tuple.

        Returns:
            The action, as the environment takes it.

        Raises:
            UsageError: it does not fit the environment's observation space.
        """
        if self._player is None:
            self._player = player(self._trained())
        return self._player(obs)

    # ---- parts of the above

    def _trained(self, seed: int | None = None, **env: Any) -> Trained:
        """Returns config and parameters, with another seed and other options of the env."""
        if self._folder is None:
            from dicore.run.env_factory import spaces_of

            assert self._compiled is not None
            compiled = bind(self._compiled, *spaces_of(self._compiled.env, self._compiled.seed))
            trained = Trained(compiled)
        else:
            trained = find_trained(self._folder, self._checkpoint, trust=self._trust)
        cfg = trained.compiled.cfg
        if seed is not None:
            cfg = replace(cfg, ("seed",), _whole("seed", seed, least=0))
        for name, value in env.items():
            cfg = replace(cfg, ("env", name), value)
        compiled = Compiled(cfg, trained.compiled.origin, trained.compiled.components)
        return Trained(compiled, trained.name, trained.read)

    def _with(self, checkpoint: str, otherwise: str) -> Agent:
        if self._folder is None or checkpoint not in _names(self._folder):
            raise UsageError(f"{self!r} has {otherwise}", hint="train it first")
        other = copy.copy(self)
        other._checkpoint, other._player = checkpoint, None  # noqa: SLF001 - the same class
        return other


def _what(compiled: Compiled) -> str:
    return f"{compiled.policy.type} on {compiled.env.get('env_id') or compiled.env.type}"


def _names(folder: Path) -> list[str]:
    return CheckpointStore(RunFolder(folder).checkpoints).names()


def _result(folder: RunFolder) -> TrainResult:
    """Reads how a run stands off its `run.json`."""
    try:
        told = json.loads(folder.metadata.read_bytes()).get("result") or {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder.metadata}: cannot be read: {error}") from None
    return TrainResult(
        stop=bool(told.get("stop")),
        train_iter=int(told.get("train_iter", 0)),
        env_step=int(told.get("env_step", 0)),
        best_return=told.get("best_return"),
        wall_s=float(told.get("wall_s", 0.0)),
        folder=folder.path,
    )


def _count(name: str, value: Any) -> Any:
    """Returns a number that has to be a whole one above zero; None stays None.

    Raises:
        UsageError: it is not.
    """
    return None if value is None else _whole(name, value, least=1)


def _whole(name: str, value: Any, *, least: int) -> int:
    whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}={value!r}: {name} must be a whole number >= {least}")
    return int(value)


def _overrides(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Writes keyword arguments as overrides: `policy__learn__batch_size` is a path."""
    tree = {name.replace("__", "."): value for name, value in given.items()}
    return [tree] if tree else []
