"""Options of all components; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    LearnConfig,
    OtherConfig,
    PolicyConfig,
    component,
    frozen,
    option,
    section,
)
from dicore.errors import ConfigError
from dicore_plugins.env_managers import BaseManagerConfig
from dicore_plugins.models import (
    action_start,
    discrete_shape,
    obs_shape_problem,
    observation_options,
)

Problems = Iterator[tuple[str, str]]
SPACES = (*PolicyConfig.fixed_by_spaces, "model.low", "model.high", "action_start")


def box_facts(space: Any) -> dict[str, Any]:
    """The options of a network for bounded continuous actions."""
    if type(space).__name__ != "Box" or len(space.shape) != 1:
        raise ConfigError(
            f"policy.type: needs a vector of continuous actions; this env has {space}"
        )
    return {
        "model.action_shape": int(space.shape[0]),
        "model.low": tuple(float(each) for each in space.low),
        "model.high": tuple(float(each) for each in space.high),
    }


def observation_facts(space: Any) -> dict[str, Any]:
    """The options of a network for observations that are one array."""
    found = observation_options(space)
    if "model.obs_parts" in found:
        raise ConfigError(f"policy.type: needs observations of one array; this env has {space}")
    return found


def action_facts(space: Any, algorithm: str) -> dict[str, Any]:
    """The options for discrete or continuous actions."""
    if type(space).__name__ == "Box":
        return box_facts(space)
    shape = discrete_shape(space, algorithm=algorithm)
    if not isinstance(shape, int):
        raise ConfigError(f"policy.type: '{algorithm}' chooses one action; this env has {space}")
    return {"model.action_shape": shape, "action_start": action_start(space)}


@frozen(kw_only=True)
class ActorCriticConfig(ComponentConfig):
    """Separate networks for actions and values; discrete or continuous actions."""

    obs_shape: int | tuple[int, ...] | None = option(None, "shape of one observation", ge=1)
    action_shape: int | None = option(None, "number of actions, or of action values", ge=1)
    low: tuple[float, ...] | None = option(None, "least actions; None: discrete actions")
    high: tuple[float, ...] | None = option(None, "largest actions; None: discrete actions")
    hidden: tuple[int, ...] = option((64, 64), "units of each hidden layer", ge=1)

    def check(self) -> Problems:
        if self.obs_shape is not None and (problem := obs_shape_problem(self.obs_shape)):
            yield "obs_shape", problem

    def build(self, ctx: Any, **parts: Any) -> Any:
        from schools_rl.networks import ActorCritic

        return ActorCritic(self.obs_shape, self.action_shape, self.low, self.high, self.hidden)


@frozen(kw_only=True)
class SoftActorCriticConfig(ComponentConfig):
    """A squashed Gaussian policy and two Q networks."""

    obs_shape: int | tuple[int, ...] | None = option(None, "shape of one observation", ge=1)
    action_shape: int | None = option(None, "number of action values", ge=1)
    low: tuple[float, ...] | None = option(None, "least actions")
    high: tuple[float, ...] | None = option(None, "largest actions")
    hidden: tuple[int, ...] = option((256, 256), "units of each hidden layer", ge=1)

    def check(self) -> Problems:
        if isinstance(self.obs_shape, tuple) and len(self.obs_shape) > 1:
            yield "obs_shape", f"must be that of a vector, got {self.obs_shape}"

    def build(self, ctx: Any, **parts: Any) -> Any:
        from schools_rl.networks import SoftActorCritic

        return SoftActorCritic(self.obs_shape, self.action_shape, self.low, self.high, self.hidden)


@frozen(kw_only=True)
class RecurrentQConfig(ComponentConfig):
    """Q values from a GRU over the observations of an episode."""

    obs_shape: int | tuple[int, ...] | None = option(None, "shape of one observation", ge=1)
    action_shape: int | None = option(None, "number of actions", ge=1)
    hidden: int = option(64, "units of the encoder and of the GRU", ge=1)

    def check(self) -> Problems:
        if self.obs_shape is not None and (problem := obs_shape_problem(self.obs_shape)):
            yield "obs_shape", problem

    def build(self, ctx: Any, **parts: Any) -> Any:
        from schools_rl.networks import RecurrentQ

        return RecurrentQ(self.obs_shape, self.action_shape, self.hidden)


def single_steps(cfg: Any) -> Problems:
    """The options of every policy that these algorithms cannot follow."""
    if cfg.nstep != 1:
        yield "nstep", f"{cfg.type} uses other returns; set it to 1"
    if cfg.collect.unroll_len != 1:
        yield "collect.unroll_len", f"{cfg.type} makes its own samples; set it to 1"
    if cfg.priority and cfg.on_policy:
        yield "priority", f"{cfg.type} uses no replay buffer; set it to False"


@frozen(kw_only=True)
class GradientConfig(LearnConfig):
    """Options of learning by gradients."""

    max_grad_norm: float | None = option(None, "maximum gradient norm; None: off", gt=0)
    optimizer: Any = component("optimizer", default="adam", help="updates the parameters")


@frozen(kw_only=True)
class PPOLearnConfig(GradientConfig):
    """Options of learning."""

    batch_size: int = option(64, "samples per gradient update", ge=1)
    learning_rate: float = option(3e-4, "learning rate", gt=0)
    update_per_collect: int | None = option(10, "passes over the samples of a collect", ge=1)
    clip_ratio: float = option(0.2, "bound of the change of an action's probability", gt=0)
    entropy_weight: float = option(0.0, "weight of the entropy bonus", ge=0)
    value_weight: float = option(0.5, "weight of the value loss", ge=0)
    gae_lambda: float = option(0.95, "lambda of generalized advantages", ge=0, le=1)
    max_grad_norm: float | None = option(0.5, "maximum gradient norm; None: off", gt=0)
    optimizer: Any = component(
        "optimizer", default={"type": "adam", "eps": 1e-5}, help="updates the parameters"
    )


@frozen(kw_only=True)
class PPOCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(2048, "training samples per collect", ge=1)


@frozen(kw_only=True)
class PPOConfig(PolicyConfig):
    """Proximal policy optimization with clipped ratios (Schulman et al. 2017)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = SPACES

    on_policy: bool = option(True, "True: PPO trains on samples of the current policy")
    discount_factor: float = option(0.99, "discount factor gamma", ge=0, le=1)
    action_start: int = option(0, "lowest action index")
    model: Any = component("model", default="actor_critic", help="network of actions and values")
    learn: PPOLearnConfig = section(PPOLearnConfig)
    collect: PPOCollectConfig = section(PPOCollectConfig)

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        return {**observation_facts(observation_space), **action_facts(action_space, self.type)}

    def check(self) -> Problems:
        yield from single_steps(self)
        if self.learn.update_per_step is not None:
            yield "learn.update_per_step", "ppo counts passes; set update_per_collect"

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        from schools_rl.ppo import PPO

        return PPO(self, model=model, **parts)


@frozen(kw_only=True)
class ReinforceLearnConfig(GradientConfig):
    """Options of learning."""

    update_per_collect: int | None = option(1, "updates per collect; more than 1 is off-policy")
    learning_rate: float = option(1e-2, "learning rate", gt=0)


@frozen(kw_only=True)
class ReinforceCollectConfig(CollectConfig):
    """Options of collecting."""

    n_episode: int | None = option(8, "complete episodes per collect", ge=1)
    collector: Any = component("collector", default="episodes", help="collects whole episodes")


@frozen(kw_only=True)
class ReinforceConfig(PolicyConfig):
    """REINFORCE with a learned baseline, on whole episodes (Williams 1992)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = SPACES

    on_policy: bool = option(True, "True: REINFORCE trains on samples of the current policy")
    discount_factor: float = option(0.99, "discount factor gamma", ge=0, le=1)
    action_start: int = option(0, "lowest action index")
    model: Any = component("model", default="actor_critic", help="network of actions and values")
    learn: ReinforceLearnConfig = section(ReinforceLearnConfig)
    collect: ReinforceCollectConfig = section(ReinforceCollectConfig)

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        return {**observation_facts(observation_space), **action_facts(action_space, self.type)}

    def check(self) -> Problems:
        yield from single_steps(self)
        if self.learn.update_per_collect != 1:
            yield "learn.update_per_collect", "the samples of an old policy bias it; set it to 1"

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        from schools_rl.reinforce import Reinforce

        return Reinforce(self, model=model, **parts)


@frozen(kw_only=True)
class CloningConfig(PolicyConfig):
    """Behaviour cloning: imitates the actions of a dataset."""

    offline: ClassVar[bool] = True
    fixed_by_spaces: ClassVar[tuple[str, ...]] = SPACES

    on_policy: bool = option(False, "False: it trains from a dataset")
    action_start: int = option(0, "lowest action index")
    model: Any = component("model", default="actor_critic", help="network of actions")
    learn: GradientConfig = section(GradientConfig)

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        return {**observation_facts(observation_space), **action_facts(action_space, self.type)}

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        from schools_rl.cloning import Cloning

        return Cloning(self, model=model, **parts)


@frozen(kw_only=True)
class SACLearnConfig(GradientConfig):
    """Options of learning."""

    batch_size: int = option(256, "samples per gradient update", ge=1)
    learning_rate: float = option(3e-4, "learning rate", gt=0)
    update_per_collect: int | None = option(None, "gradient updates per collect", ge=1)
    update_per_step: float | None = option(1.0, "gradient updates per env step", gt=0)
    target_theta: float = option(0.005, "soft-update coefficient of the targets", gt=0, le=1)
    target_entropy: float | None = option(None, "entropy to keep; None: minus the action values")


@frozen(kw_only=True)
class OffPolicyCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(8, "training samples per collect", ge=1)
    random_collect_size: int = option(100, "samples of a random policy before training", ge=0)


@frozen(kw_only=True)
class SACConfig(PolicyConfig):
    """Soft actor-critic with two critics and a learned temperature (Haarnoja et al. 2018)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = SPACES

    on_policy: bool = option(False, "False: SAC trains from a replay buffer")
    discount_factor: float = option(0.99, "discount factor gamma", ge=0, le=1)
    model: Any = component("model", default="soft_actor_critic", help="actor and critics")
    learn: SACLearnConfig = section(SACLearnConfig)
    collect: OffPolicyCollectConfig = section(OffPolicyCollectConfig)

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        return {**observation_facts(observation_space), **box_facts(action_space)}

    def check(self) -> Problems:
        yield from single_steps(self)

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        from schools_rl.sac import SAC

        return SAC(self, model=model, **parts)


@frozen(kw_only=True)
class R2D2LearnConfig(GradientConfig):
    """Options of learning."""

    batch_size: int = option(32, "sequences per gradient update", ge=1)
    target_update_freq: int = option(100, "updates between copies to the target network", ge=1)
    burn_in: int = option(4, "first steps of a sequence, which only warm the state up", ge=0)
    max_grad_norm: float | None = option(10.0, "maximum gradient norm; None: off", gt=0)


@frozen(kw_only=True)
class R2D2CollectConfig(OffPolicyCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(8, "sequences per collect", ge=1)
    unroll_len: int = option(8, "steps of a sequence after the burn-in", ge=1, unit="env steps")


@frozen(kw_only=True)
class R2D2OtherConfig(OtherConfig):
    """Options of exploration and replay."""

    replay_buffer: Any = component("buffer", default="prioritized", help="stores sequences")
    eps_start: float = option(1.0, "first probability of a random action", ge=0, le=1)
    eps_end: float = option(0.05, "last probability of a random action", ge=0, le=1)
    eps_decay: int = option(3000, "length of the linear decay", ge=1, unit="env steps")


@frozen(kw_only=True)
class R2D2Config(PolicyConfig):
    """Recurrent Q-learning from replayed sequences with burn-in (Kapturowski et al. 2019)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = SPACES

    on_policy: bool = option(False, "False: R2D2 trains from a replay buffer")
    discount_factor: float = option(0.97, "discount factor gamma", ge=0, le=1)
    priority: bool = option(True, "prioritized replay; needs a buffer that supports it")
    action_start: int = option(0, "lowest action index")
    model: Any = component("model", default="recurrent_q", help="recurrent Q network")
    learn: R2D2LearnConfig = section(R2D2LearnConfig)
    collect: R2D2CollectConfig = section(R2D2CollectConfig)
    other: R2D2OtherConfig = section(R2D2OtherConfig)

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        if type(action_space).__name__ == "Box":
            raise ConfigError(f"policy.type: needs discrete actions; this env has {action_space}")
        return {**observation_facts(observation_space), **action_facts(action_space, self.type)}

    def check(self) -> Problems:
        if self.nstep != 1:
            yield "nstep", "school_r2d2 uses one-step targets; set it to 1"

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        from schools_rl.r2d2 import R2D2

        return R2D2(self, model=model, **parts)


@frozen(kw_only=True)
class PrioritizedConfig(ComponentConfig):
    """Samples in proportion to priorities (Schaul et al. 2016)."""

    replay_buffer_size: int = option(10_000, "capacity in samples", ge=1)
    alpha: float = option(0.6, "exponent of the priorities; 0: uniform", ge=0)
    beta: float = option(0.4, "first exponent of the importance weights", ge=0, le=1)
    anneal: int = option(100_000, "updates in which beta rises to 1", ge=1, unit="updates")

    def build(self, ctx: Any, **parts: Any) -> Any:
        from schools_rl.prioritized import PrioritizedBuffer

        return PrioritizedBuffer(self, **parts)


@frozen(kw_only=True)
class EpisodeCollectorConfig(ComponentConfig):
    """Collects whole episodes, each environment at its own pace."""

    n_episode: int | None = option(
        None, "episodes per collect", ge=1, follows="policy.collect.n_episode"
    )

    def build(self, ctx: Any, **parts: Any) -> Any:
        from schools_rl.episodes import EpisodeCollector

        return EpisodeCollector(self, **parts)


@frozen(kw_only=True)
class ForkedConfig(BaseManagerConfig):
    """Runs each environment in a process of its own."""

    def build(self, ctx: Any, *, env_fn: Any, **parts: Any) -> Any:
        from schools_rl.forked import ForkedManager

        return ForkedManager(env_fn, self)
