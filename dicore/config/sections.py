"""The one shape of a config: exp_name, seed, env, policy, pipeline; the home of all defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dicore.config.schema import (
    REQUIRED,
    ComponentConfig,
    Section,
    component,
    components,
    frozen,
    option,
    section,
)
from dicore.interfaces.env import EnvSpec


@frozen(kw_only=True)
class ManagerConfig(ComponentConfig):
    """Options that every environment manager takes."""

    auto_reset: bool = option(True, "reset each environment as soon as its episode ends")
    episode_num: float = option(
        float("inf"), "episodes to run per environment; inf: no limit", gt=0, unit="episodes"
    )
    reset_timeout: float | None = option(120.0, "limit per reset; None: no limit", gt=0, unit="s")
    step_timeout: float | None = option(60.0, "limit per step; None: no limit", gt=0, unit="s")


@frozen(kw_only=True)
class EnvConfig(ComponentConfig):
    """Options that every environment takes, whatever its own are."""

    manager: ManagerConfig = component(
        "env_manager", help="steps all environments (vectorized env)"
    )
    env_wrapper: tuple[Any, ...] = components("env_wrapper", help="wrappers, innermost first")
    collector_env_num: int = option(8, "number of environments for collecting", ge=1, le=10**5)
    evaluator_env_num: int = option(5, "environments for evaluation, at most one per episode", ge=1)
    n_evaluator_episode: int = option(REQUIRED, "episodes per evaluation", ge=1)
    stop_value: float = option(REQUIRED, "mean episode return at which training stops; inf: never")

    def from_spec(self) -> dict[str, object]:
        """Returns what the environment's own description says (`{"stop_value": 475.0}`).

        Called only if a required option is missing.
        """
        return {}

    @classmethod
    def knows(cls, env_id: str) -> bool | str:
        """Returns whether `env_id` names one of its environments, or the component that has it.

        Called on the default environment component for a name that is not a component.
        """
        return False


@frozen(kw_only=True)
class LearnConfig(Section):
    """Options of learning that every policy takes."""

    one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("update_per_collect", "update_per_step"),)

    batch_size: int = option(64, "samples per gradient update", ge=1)
    update_per_collect: int | None = option(1, "gradient updates per collect", ge=1)
    update_per_step: float | None = option(
        None, "gradient updates per collected env step, instead of update_per_collect", gt=0
    )
    learning_rate: float = option(
        1e-3, "learning rate; lower it if training is unstable", gt=0, lt=float("inf")
    )
    ignore_done: bool = option(
        False, "bootstrap past terminal states, for envs that report time limits as terminated"
    )
    optimizer: ComponentConfig | None = component(
        "optimizer", help="updates the parameters from their gradients", optional=True
    )
    learner: ComponentConfig = component("learner", help="runs gradient updates and their hooks")


@frozen(kw_only=True)
class CollectConfig(Section):
    """Options of collecting that every policy takes; one of n_sample and n_episode is given."""

    one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("n_sample", "n_episode"),)

    n_sample: int | None = option(None, "training samples per collect", ge=1)
    n_episode: int | None = option(None, "complete episodes per collect", ge=1)
    unroll_len: int = option(
        1, "length of a training sample; 1: single transitions", ge=1, unit="env steps"
    )
    collector: ComponentConfig = component("collector", help="collects training samples")


@frozen(kw_only=True)
class EvalConfig(Section):
    """Options of evaluating that every policy takes."""

    evaluator: ComponentConfig = component("evaluator", help="evaluates over whole episodes")


@frozen(kw_only=True)
class OtherConfig(Section):
    """Options that several modes share."""

    replay_buffer: ComponentConfig = component(
        "buffer", help="replay buffer, or a dict of named buffers", named=True
    )


@frozen(kw_only=True)
class PolicyConfig(ComponentConfig):
    """Options that every policy takes; a policy's config class derives from it."""

    learns: ClassVar[bool] = True
    """Whether there are parameters to train; False for a random policy."""
    offline: ClassVar[bool] = False
    """Whether it learns from a dataset instead of collected samples."""
    fixed_by_spaces: ClassVar[tuple[str, ...]] = ("model.obs_shape", "model.action_shape")
    """Values that `bind` derives and that a source may not set differently."""

    on_policy: bool = option(REQUIRED, "train only on samples of the current policy")
    cuda: bool = option(False, "train on the first CUDA device")
    multi_gpu: bool = option(False, "data-parallel training; see pipeline.system.learner_num")
    priority: bool = option(False, "prioritized replay; needs a buffer that supports it")
    priority_IS_weight: bool = option(False, "weight losses by importance-sampling weights")  # noqa: N815 - the documents' name
    traj_len_inf: bool = option(False, "make samples of whole episodes, not of pieces of them")
    nstep: int = option(
        1, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    discount_factor: float = option(
        0.97, "discount factor gamma; raise it if rewards are far in the future", ge=0.0, le=1.0
    )
    model: ComponentConfig | None = component("model", help="network of the policy", optional=True)
    reward_model: ComponentConfig | None = component(
        "reward_model", help="learns or changes the reward of collected samples", optional=True
    )
    learn: LearnConfig = section(LearnConfig)
    collect: CollectConfig = section(CollectConfig)
    eval: EvalConfig = section(EvalConfig)
    other: OtherConfig = section(OtherConfig)

    def bind(self, spec: EnvSpec) -> dict[str, Any]:
        """Derives what depends on the environment; called once its spaces are known.

        Args:
            spec: Spaces of observation, action and reward of one environment.

        Returns:
            Values by path below this section (`{"model.obs_shape": 4}`), filled in where the user
            set nothing.

        Raises:
            ConfigError: the algorithm does not fit the environment.
        """
        return {}


@frozen(kw_only=True)
class PipelineConfig(ComponentConfig):
    """Options that every pipeline takes: the budgets and the logs."""

    max_env_step: int | None = option(None, "budget; None: unlimited", ge=1, unit="env steps")
    max_train_iter: int | None = option(None, "budget; None: unlimited", ge=1, unit="updates")
    num_threads: int = option(
        1, "threads per tensor operation; 1 is fastest for small networks", ge=1
    )
    logger: tuple[Any, ...] = components("logger", help="loggers besides metrics.jsonl")


@frozen(kw_only=True)
class RunConfig(Section):
    """A whole run: what to learn, by which algorithm, in which environment."""

    exp_name: str | None = option(None, "run folder; None: runs/<env>_<policy>_s<seed>")
    seed: int = option(0, "random seed of the run", ge=0)
    env: EnvConfig = component("env", help="the environment")
    policy: PolicyConfig = component("policy", help="the algorithm")
    pipeline: PipelineConfig = component("pipeline", help="assembles and runs the training loop")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A whole config, checked; reads like its `cfg` (`compiled.policy`, `compiled["policy"]`).

    Args:
        cfg: The frozen config.
        origin: Source of each value by path: `class DQNLearnConfig`, `preset cartpole_dqn`, a file,
            `command line`, `follows env.stop_value`, `env spec`, `spaces`.
        components: Package and version of each component, by option path.
        references: `${env:NAME}` as written in the config, by option path.
        cpanel: Parameters of the control panel; None if the config has none.
        saved: A source came with the files of others, whose code paths are refused.
    """

    cfg: RunConfig
    origin: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    cpanel: Mapping[str, object] | None = None
    saved: bool = False

    @property
    def exp_name(self) -> str | None:
        """Run folder, if a source names one."""
        return self.cfg.exp_name

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.cfg.seed

    @property
    def env(self) -> EnvConfig:
        """The environment's section."""
        return self.cfg.env

    @property
    def policy(self) -> PolicyConfig:
        """The algorithm's section."""
        return self.cfg.policy

    @property
    def pipeline(self) -> PipelineConfig:
        """The pipeline's section."""
        return self.cfg.pipeline

    def __getitem__(self, key: str) -> Any:
        return self.cfg[key]
