"""The agent interface: train, evaluate, record videos, collect data, save."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, NoReturn, Self

from dicore.config import Compiled, bind
from dicore.config.paths import replace
from dicore.console import say
from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.checkpoint_io import MANIFEST
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.launch import TrainRequest, compile_request, launch
from dicore_tools.agent.arguments import count_of, overrides_of, refuse_words, whole
from dicore_tools.agent.inference import env_of, make_act, tell_wrappers
from dicore_tools.agent.names import component_name
from dicore_tools.agent.result import Spoken, TrainResult, result_of
from dicore_tools.agent.saving import copy_run
from dicore_tools.evaluation.evaluate import Evaluation, run_episodes
from dicore_tools.evaluation.policy_loader import TrainedPolicy, find_policy
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore.data import Tree
    from dicore.interfaces.env import Env

__all__ = ["Agent"]

_BUDGETS: Final = {"pipeline.max_env_step": "step", "pipeline.max_train_iter": "n_iter"}
_THEIRS: Final = {
    "learn": "train(step=…)", "predict": "act(obs)", "env": "make_env()", "get_env": "make_env()",
    "export": "the command dicore export RUN -o policy.onnx",
}  # fmt: skip
_EVALUATIONS: Final = {"env.n_evaluator_episode": "n_episode", "seed": "seed", "sample": "sample"}


class Agent:
    """An environment, an algorithm and the learned parameters.

    A class that is not registered yet is registered in this process under its lowercase name.

    Args:
        env: Name of an environment, a Gymnasium id, or a class. If a preset exists for this id
            and algorithm, the preset is used.
        policy: Name of an algorithm (`dicore list policy`), or a class.
        exp_name: Run folder; None: `runs/<env>_<policy>_s<seed>`.
        seed: Random seed.
        cfg: A config in any form (`[main_config, create_config]`, a dict, a file), instead of the
            names or overridden by them.
        **overrides: More options; `__` stands for a dot: `policy__learn__batch_size=128`.

    Raises:
        UsageError: no environment or policy is given, or an instance is given instead of a class.
        ConfigError: the config is invalid; the error lists all problems.
    """

    algorithm: ClassVar[str | None] = None
    """Default policy of this class."""

    _best: tuple[int, Agent] | None = None
    _env_made = False

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
        env_name = component_name("env", env)
        policy_name = component_name("policy", policy) or self.algorithm
        if cfg is None and None in (env_name, policy_name) and not overrides:
            raise UsageError(
                "an Agent needs an environment and an algorithm, or a config",
                hint="Agent('CartPole-v1', 'dqn'), or Agent(cfg=…); dicore list policy",
            )
        self._request = TrainRequest(
            config=cfg,
            env=env_name,
            policy=policy_name,
            seed=seed,
            exp_name=None if exp_name is None else str(exp_name),
            overrides=overrides_of(overrides),
        )
        self._compiled: Compiled | None = compile_request(self._request)
        self._folder: Path | None = None
        self._checkpoint: str | None = None
        self._trust = not self._compiled.saved
        self._act: Callable[[object], object] | None = None

    # ---- state

    @property
    def config(self) -> Compiled:
        """The compiled config."""
        return self._compiled if self._compiled is not None else self._trained().compiled

    @property
    def folder(self) -> Path | None:
        """The run folder; None before training."""
        return self._folder

    @property
    def best(self) -> Agent:
        """An agent with the parameters of the best evaluation so far.

        Raises:
            UsageError: there is no best checkpoint.
        """
        manifest = None if self._folder is None else self._folder / "ckpt" / "best" / MANIFEST
        stamp = manifest.stat().st_mtime_ns if manifest is not None and manifest.exists() else 0
        if self._best is None or self._best[0] != stamp or not stamp:
            self._best = stamp, self._with("best", "no best checkpoint")
        return self._best[1]

    def __repr__(self) -> str:
        label = self._checkpoint or "untrained"
        where = f" in {self._folder}" if self._folder is not None else ""
        return f"{type(self).__name__}({_label(self.config)}, {label}{where})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_act": None, "_best": None}  # are built again

    def __getattr__(self, name: str) -> NoReturn:
        """Answers methods of other libraries with those of here."""
        hint = f"; here it is {_THEIRS[name]}" if name in _THEIRS else ""
        raise AttributeError(f"an Agent has no attribute '{name}'{hint}", name=name, obj=self)

    # ---- training

    def train(
        self, step: int | None = None, *, n_iter: int | None = None, **unknown: Never
    ) -> TrainResult:
        """Trains, or resumes the training.

        One that has reached its stop value or budget is not resumed, which is said. Ctrl-C saves a
        checkpoint and then raises KeyboardInterrupt.

        Args:
            step: Additional env steps; None: the budget of the config.
            n_iter: Additional gradient updates; None: the budget of the config.
            **unknown: Refused, with the word that is meant.

        Raises:
            UsageError: a number is not positive, an argument is unknown, or the loaded checkpoint
                is not the last one.
            DicoreError: the training failed; `run.json` has the error.
        """
        refuse_words("train", unknown, _BUDGETS)
        step, n_iter = count_of("step", step), count_of("n_iter", n_iter)
        if self._checkpoint not in (None, "final"):
            raise UsageError(
                f"cannot resume from checkpoint '{self._checkpoint}': training resumes from the end"
                " of a run",
                hint="load() the run folder, or train a new agent",
            )
        self._act = None
        outcome = launch(self._next(step, n_iter), observer=Spoken(step))
        run, wanted = outcome.run, self._request.exp_name
        if self._folder is None and wanted and Path(str(run.folder)) != Path(wanted):
            say(f"{wanted} was there before: this run is in {run.folder}")
        self._folder, self._compiled = Path(str(run.folder)), None
        store = CheckpointStore(run.folder.checkpoints)
        self._checkpoint = "final" if "final" in store.names() else store.latest()
        if outcome.exit_code:
            raise KeyboardInterrupt(f"stopped by a signal; the checkpoint is in {run.folder}")
        return result_of(run.folder)

    def _next(self, step: int | None, n_iter: int | None) -> TrainRequest:
        """Returns the request for a first training, or for resuming."""
        if self._folder is None:
            return changed(self._request, max_env_step=step, max_train_iter=n_iter)
        before = result_of(RunFolder(self._folder))
        return TrainRequest(
            resume=self._folder,
            max_env_step=None if step is None else before.env_step + step,
            max_train_iter=None if n_iter is None else before.train_iter + n_iter,
            trust=self._trust,
        )

    def load(self, path: str | Path = "", *, trust: bool = False) -> Self:
        """Loads the parameters of a run; `Agent.from_run` makes an agent of one.

        Args:
            path: A run folder, whose training can be resumed, or the folder of a checkpoint.
            trust: Run code that the run's config names by path.

        Raises:
            UsageError: the folder is not a run folder, the run has another policy or env, or
                this is not called on an agent.
            CheckpointError: there is no valid checkpoint.
        """
        if not isinstance(self, Agent):
            raise UsageError("load() is a method of an agent", hint=f"Agent.from_run({self!r})")
        if not str(path):
            raise UsageError("load() needs the folder of a run")
        trained = find_policy(path, trust=trust)
        theirs, ours = _label(trained.compiled), _label(self.config)
        if theirs != ours:
            raise UsageError(
                f"{path} is a run of {theirs}; this agent is {ours}",
                hint="create the agent with the environment and the policy of the run, or by"
                " Agent.from_run",
            )
        return self._attach(Path(path), trained, trust=trust)

    @classmethod
    def from_run(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Creates an agent from a run: environment, policy and parameters are those of the run.

        Args:
            path: A run folder, whose training can be resumed, or the folder of a checkpoint.
            trust: Run code that the run's config names by path.

        Raises:
            UsageError: the folder is not a run folder, or this class is for another policy.
            CheckpointError: there is no valid checkpoint.
        """
        trained = find_policy(path, trust=trust)
        policy = trained.compiled.policy.type
        if cls.algorithm not in (None, policy):
            raise UsageError(
                f"{path} is a run of {policy}, not of {cls.algorithm}", hint="use Agent.from_run"
            )
        agent = cls.__new__(cls)
        agent._request = TrainRequest(resume=path, trust=trust)  # noqa: SLF001 - this class
        return agent._attach(Path(path), trained, trust=trust)  # noqa: SLF001 - this class

    def _attach(self, place: Path, trained: TrainedPolicy, *, trust: bool) -> Self:
        checkpoint = (place / "manifest.json").is_file()
        self._folder = place.absolute().parent.parent if checkpoint else place
        self._checkpoint = place.name if checkpoint else self._end(trained.name)
        self._compiled, self._trust, self._act = None, trust, None
        return self

    def save(self, path: str | Path) -> Path:
        """Copies the run with all checkpoints to another folder, for `load`.

        An earlier copy there is replaced, unless it was trained further or has more files.

        Args:
            path: The new folder.

        Returns:
            The new folder.

        Raises:
            UsageError: the agent is untrained, or something else is in that place.
        """
        if self._folder is None:
            raise UsageError(f"{self!r} has nothing to save", hint="call train() or load() first")
        target = Path(path)
        copy_run(self._folder, target)
        if target.suffix in (".zip", ".pt", ".pth"):
            say(f"{target} is a folder, with config and checkpoints: Agent.from_run reads it")
        return target

    def _end(self, otherwise: str) -> str:
        assert self._folder is not None
        store = CheckpointStore(RunFolder(self._folder).checkpoints)
        return "final" if "final" in store.names() else otherwise

    # ---- inference

    def evaluate(
        self,
        n_episode: int | None = None,
        *,
        seed: int | None = None,
        sample: bool = False,
        **unknown: Never,
    ) -> Evaluation:
        """Evaluates the policy; see `dicore_tools.evaluation.evaluate.evaluate`.

        Args:
            n_episode: Number of episodes; None takes the config's.
            seed: Seed of the episodes; None takes the run's.
            sample: Draw actions as in training; False: greedy actions.
            **unknown: Refused, with the word that is meant.

        Raises:
            UsageError: a number is not positive, or an argument is unknown.
        """
        refuse_words("evaluate", unknown, _EVALUATIONS)
        n_episode = count_of("n_episode", n_episode)
        same = n_episode is None and seed is None and not sample
        return run_episodes(
            self._trained(seed), n_episode=n_episode, same_starts=same, sample=sample
        )

    def batch_evaluate(
        self,
        env_num: int = 4,
        n_episode: int | None = None,
        *,
        n_evaluator_episode: int | None = None,
        seed: int | None = None,
    ) -> Evaluation:
        """Evaluates the policy in several environments in parallel.

        Args:
            env_num: Number of environments.
            n_episode: Number of episodes; None: one per environment.
            n_evaluator_episode: DI-engine's name of `n_episode`.
            seed: Seed of the episodes; None takes the run's.

        Raises:
            UsageError: both names are given.
        """
        if n_evaluator_episode is not None:
            if n_episode is not None:
                raise UsageError("n_evaluator_episode is another name of n_episode; pass one")
            n_episode = n_evaluator_episode
        env_num, n_episode = count_of("env_num", env_num), count_of("n_episode", n_episode)
        trained = self._trained(seed, evaluator_env_num=env_num)
        return run_episodes(trained, n_episode=env_num if n_episode is None else n_episode)

    def deploy(
        self,
        video: str | Path | None = None,
        *,
        seed: int | None = None,
        enable_save_replay: bool = False,
    ) -> float:
        """Runs one episode and returns its return.

        Args:
            video: `.mp4` file to record; None: no video.
            enable_save_replay: Record `video/deploy.mp4` in the run folder (before training, in the
                working folder), if `video` is None.
            seed: Seed of the episode; None takes the run's.

        Raises:
            UsageError: the video cannot be recorded.
        """
        if video is None and enable_save_replay:
            video = (self._folder or Path()) / "video" / "deploy.mp4"
        if video is None:
            return run_episodes(self._trained(seed), n_episode=1).returns[0]
        target = Path(video)
        if target.suffix != ".mp4":
            raise UsageError(
                f"{target}: a video file must end in .mp4",
                hint="dicore eval RUN --replay-path DIR records several episodes into a folder",
            )
        check_place(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".video-", dir=target.parent) as folder:
            found = run_episodes(self._trained(seed), n_episode=1, replay_path=folder)
            if not found.videos:
                raise UsageError(f"{target}: no frames were recorded")
            found.videos[0].replace(target)
        return found.returns[0]

    def collect_data(
        self, n_sample: int = 1000, path: str | Path | None = None, *, seed: int | None = None
    ) -> Batch:
        """Collects samples with the policy, without exploration.

        Args:
            n_sample: Number of samples.
            path: Folder (for `load_demo_data`) or file (`.npz`, `.hdf5`) to write them to; None: do
                not write them.
            seed: Seed of the episodes; None takes the run's.
        """
        from dicore_tools.demo_dataset import check_target, collect, save_demo_data

        n_sample = count_of("n_sample", n_sample)
        if path is not None:
            check_target(path)
        trained = self._trained(seed)
        data = collect(trained, n_sample)
        if path is not None:
            save_demo_data(trained, data, path)
        return data

    def make_env(self, **options: Any) -> Env:
        """Makes one environment as the policy knows it: of its options and with its wrappers.

        Its observations are those that `act` takes, and its actions those that `act` returns. What
        the wrappers measured in the evaluations of the training, they go on with.

        Args:
            **options: Other options of the environment; `make_kwargs={"render_mode": "human"}`
                shows it, if it is made by its id.

        Raises:
            ConfigError: it has no such option.
            EnvCreateError: it cannot be made.
        """
        env = env_of(self._trained(), options)
        self._env_made = True
        return env

    def act(self, obs: Tree, **unknown: Never) -> object:
        """Returns the action for one observation, without exploration.

        Args:
            obs: One observation of the environment, as `make_env` makes it: array, list, number,
                dict or tuple.
            **unknown: Refused.

        Returns:
            The action to pass to the `step` of that environment.

        Raises:
            UsageError: the observation does not fit the observation space, or there is another
                argument.
        """
        if unknown:
            raise UsageError(
                f"act() takes an observation, no '{next(iter(unknown))}': its actions are greedy",
                hint="evaluate(sample=True) draws actions as in training",
            )
        if self._act is None:
            trained = self._trained()
            if not self._env_made:
                tell_wrappers(trained)
            self._act = make_act(trained)
        return self._act(obs)

    # ---- helpers

    def _trained(self, seed: int | None = None, **env: Any) -> TrainedPolicy:
        """Returns config and parameters, optionally with another seed and other env options."""
        if self._folder is None:
            from dicore.run.env_factory import spec_of

            assert self._compiled is not None
            compiled = bind(self._compiled, spec_of(self._compiled.env, self._compiled.seed))
            trained = TrainedPolicy(compiled)
        else:
            trained = find_policy(self._folder, self._checkpoint, trust=self._trust)
        cfg = trained.compiled.cfg
        if seed is not None:
            cfg = replace(cfg, ("seed",), whole("seed", seed, least=0))
        for name, value in env.items():
            cfg = replace(cfg, ("env", name), value)
        compiled = changed(trained.compiled, cfg=cfg)
        return TrainedPolicy(compiled, trained.name, trained.read)

    def _with(self, checkpoint: str, otherwise: str) -> Agent:
        if self._folder is None or checkpoint not in _names(self._folder):
            hint = "it was not evaluated yet: the agent itself acts with its last parameters"
            raise UsageError(
                f"{self!r} has {otherwise}",
                hint="call train() or load() first" if self._folder is None else hint,
            )
        other = copy.copy(self)
        other._checkpoint, other._act = checkpoint, None  # noqa: SLF001 - the same class
        return other


def _label(compiled: Compiled) -> str:
    return f"{compiled.policy.type} on {compiled.env.get('env_id') or compiled.env.type}"


def _names(folder: Path) -> list[str]:
    return CheckpointStore(RunFolder(folder).checkpoints).names()
