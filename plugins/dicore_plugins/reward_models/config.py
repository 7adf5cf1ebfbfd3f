"""Options of the reward models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs

from dicore.config.schema import ComponentConfig, component, components, frozen, option
from dicore.run.env_factory import BuildContext
from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.reward_model import IRewardModel


__all__ = [
    "DREXConfig",
    "FittedConfig",
    "GAILConfig",
    "GuidedCostConfig",
    "HERConfig",
    "ICMConfig",
    "IntrinsicConfig",
    "NGUConfig",
    "REDConfig",
    "RNDConfig",
    "RewardModelConfig",
    "RewardNormConfig",
    "TREXConfig",
]

_RELABEL = (
    "estimate rewards whenever samples are drawn from the replay buffer, by the model as it then"
    " is; False: once, when they are collected"
)

_Activation = Literal["relu", "tanh", "elu", "gelu"]
_HIDDEN = partial(option, (128, 128), "sizes of the hidden layers", ge=1)
_ACTIVATION = partial(option, "relu", "activation function of the hidden layers")
_RATE = partial(option, 1e-3, "learning rate", gt=0, lt=float("inf"))
_BATCH = partial(option, 64, "samples per gradient update", ge=1)
_NORM = partial(
    option, None, "largest norm of the gradient, clipped above; None: no clipping", gt=0
)
_EXPERT = partial(
    component, "dataset", help="steps of an expert, as dicore collect writes them", optional=True
)


@frozen(kw_only=True)
class RewardModelConfig(ComponentConfig):
    """Options of every reward model that trains a network on collected samples."""

    relabel: bool = option(False, _RELABEL)
    hidden_size_list: tuple[int, ...] = _HIDDEN()
    activation: _Activation = _ACTIVATION()
    learning_rate: float = _RATE()
    batch_size: int = _BATCH()
    max_grad_norm: float | None = _NORM()
    update_per_collect: int | None = option(
        None,
        "gradient updates per collect; None: until each new sample was used once on average, at"
        " least one",
        ge=1,
    )
    replay_buffer_size: int = option(
        10_000, "newest samples that it keeps to train on", ge=1, unit="samples"
    )


@frozen(kw_only=True)
class IntrinsicConfig(RewardModelConfig):
    """Options of reward models that add a bonus for what is new.

    The reward is `extrinsic_weight` times that of the environment plus `weight` times the bonus,
    which is divided by the running standard deviation of its discounted returns.
    """

    weight: float = option(1.0, "factor of the bonus; lower it if the task is neglected", ge=0)
    weight_decay: int | None = option(
        None,
        "collected samples over which the factor falls linearly to 0, so that in the end only the"
        " environment's reward counts; None: it stays",
        ge=1,
        unit="samples",
    )
    extrinsic_weight: float = option(1.0, "factor of the environment's reward", ge=0)
    return_discount: float = option(
        0.99,
        "discount of the returns by whose standard deviation the bonus is divided; 0: of the bonus",
        ge=0,
        lt=1,
    )
    obs_limit: float = option(
        5.0, "largest absolute value of normalised observations, clipped above", gt=0
    )


@frozen(kw_only=True)
class RNDConfig(IntrinsicConfig):
    """Adds the error in predicting a fixed random network, large in new states (Burda 2018)."""

    learning_rate: float = option(
        1e-4, "learning rate; a high one makes the bonus vanish soon", gt=0, lt=float("inf")
    )
    feature_size: int = option(64, "outputs of the two networks", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`."""
        from dicore_plugins.reward_models.intrinsic import RND

        return RND(self, **spaces_of(ctx), **parts)


@frozen(kw_only=True)
class ICMConfig(IntrinsicConfig):
    """Adds the error in predicting the features of the next state (Pathak et al. 2017)."""

    feature_size: int = option(64, "features of a state", ge=1)
    forward_share: float = option(
        0.2, "share of the forward model in the loss; the rest is the inverse model's", gt=0, lt=1
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`."""
        from dicore_plugins.reward_models.intrinsic import ICM

        return ICM(self, **spaces_of(ctx), **parts)


@frozen(kw_only=True)
class NGUConfig(IntrinsicConfig):
    """Adds a bonus for states new in the episode, more if new at all (Badia et al. 2020)."""

    learning_rate: float = option(
        5e-4, "learning rate; a high one makes the factor of RND fall soon", gt=0, lt=float("inf")
    )
    feature_size: int = option(32, "features of a state, and outputs of the networks of RND", ge=1)
    neighbours: int = option(
        10, "nearest states of the episode that a state is compared with", ge=1
    )
    memory_size: int = option(
        5_000, "newest steps of an environment that a step is compared with", ge=1, unit="env steps"
    )
    kernel_epsilon: float = option(
        1e-4, "how much a neighbour at the mean distance counts, of one at the same place", gt=0
    )
    max_factor: float = option(
        5.0, "largest factor of the error of RND; 1: only novelty in the episode counts", ge=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        if self.relabel:
            yield "relabel", "it sees steps in time order, drawn samples have none; expected False"

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`."""
        from dicore_plugins.reward_models.ngu import NGU

        return NGU(self, **spaces_of(ctx), **parts)


@frozen(kw_only=True)
class RewardNormConfig(ComponentConfig):
    """Divides rewards by the running standard deviation of discounted returns (VecNormalize)."""

    keeps_sums: ClassVar[bool] = True

    relabel: bool = option(True, _RELABEL)
    reward_discount: float = option(
        0.99, "discount of the returns", ge=0, lt=1, follows="policy.discount_factor"
    )
    limit: float = option(10.0, "largest absolute value of a normalised reward", gt=0)
    epsilon: float = option(1e-8, "added to the variance, against division by zero", gt=0)

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model."""
        from dicore_plugins.reward_models.return_scale import RewardNorm

        return RewardNorm(self, **parts)


@frozen(kw_only=True)
class GAILConfig(RewardModelConfig):
    """Rewards steps that a discriminator classifies as the expert's (Ho and Ermon 2016)."""

    needs_expert: ClassVar[bool] = True

    expert: Any = _EXPERT()
    reward: Literal["gail", "log_d", "airl"] = option(
        "gail", "reward of a step: -log(1 - D), which is positive; log D, negative; or their sum"
    )
    gradient_penalty: float = option(
        0.0, "weight of the gradient penalty, against overfitting (Gulrajani et al. 2017)", ge=0
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`; loads the expert's data."""
        from dicore_plugins.reward_models.imitation import GAIL

        return GAIL(self, **spaces_of(ctx), expert=opened(self.expert, ctx), **parts)


@frozen(kw_only=True)
class GuidedCostConfig(RewardModelConfig):
    """Learns a reward under which the expert's steps are the most likely (Finn et al. 2016)."""

    needs_expert: ClassVar[bool] = True

    expert: Any = _EXPERT()
    l2_weight: float = option(
        0.01, "weight of the mean squared reward in the loss, which bounds rewards", ge=0
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`; loads the expert's data."""
        from dicore_plugins.reward_models.imitation import GuidedCost

        return GuidedCost(self, **spaces_of(ctx), expert=opened(self.expert, ctx), **parts)


@frozen(kw_only=True)
class FittedConfig(ComponentConfig):
    """Options of reward models that are trained on expert data only, before the policy is."""

    needs_expert: ClassVar[bool] = True

    expert: Any = _EXPERT()
    expert_updates: int = option(1_000, "gradient updates on the expert's data", ge=1)
    hidden_size_list: tuple[int, ...] = _HIDDEN()
    activation: _Activation = _ACTIVATION()
    learning_rate: float = _RATE()
    batch_size: int = _BATCH()
    max_grad_norm: float | None = _NORM()


@frozen(kw_only=True)
class REDConfig(FittedConfig):
    """Rewards steps where a network fitted to a random one on expert data is right (Wang 2019)."""

    feature_size: int = option(64, "outputs of the two networks", ge=1)
    obs_limit: float = option(
        5.0, "largest absolute value of normalised inputs, clipped above", gt=0
    )
    sigma: float | None = option(
        None, "sharpness of exp(-sigma error); None: the median reward of the expert is 0.9", gt=0
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`, trained on the expert's data."""
        from dicore_plugins.reward_models.imitation import RED

        return RED(self, **spaces_of(ctx), expert=opened(self.expert, ctx), **parts)


@frozen(kw_only=True)
class TREXConfig(FittedConfig):
    """Learns a reward that ranks the episodes of an expert by return (Brown et al. 2019)."""

    snippet_len: int = option(50, "longest part of an episode that is compared", ge=1, unit="steps")
    l1_weight: float = option(0.0, "weight of the mean absolute reward in the loss", ge=0)

    def build(self, ctx: BuildContext | None, **parts: Any) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`, trained on the ranked episodes."""
        from dicore_plugins.reward_models.ranking import TREX

        return TREX(self, **spaces_of(ctx), expert=opened(self.expert, ctx), **parts)


@frozen(kw_only=True)
class DREXConfig(TREXConfig):
    """T-REX on episodes ranked by their data set, from the worst to the best (Brown 2020)."""

    expert: tuple[Any, ...] = components(
        "dataset", help="episodes by rank, the worst first: dicore collect RUN --eps 0.5"
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model for the spaces of `ctx`, trained on the ranked episodes."""
        from dicore_plugins.reward_models.ranking import TREX

        ranked = [opened(each, ctx) for each in self.expert]
        return TREX(self, **spaces_of(ctx), ranked=ranked, **parts)


@frozen(kw_only=True)
class HERConfig(ComponentConfig):
    """Learns from other goals, reached later in an episode (Andrychowicz et al. 2017)."""

    hindsight: ClassVar[bool] = True
    """Replaces goals in samples of whole episodes; see `HERLearner`."""

    strategy: Literal["future", "final", "episode"] = option(
        "future",
        "goals to take: one reached later in the episode, the last one, or any of the episode",
    )
    replay_k: float = option(
        4.0, "samples with another goal for each one with its own; inf: all", ge=0
    )
    sample_per_episode: int = option(1, "samples of each drawn episode", ge=1)
    episode_size: int | None = option(
        None, "episodes per batch; None: policy.learn.batch_size / sample_per_episode", ge=1
    )

    def build(
        self, ctx: BuildContext | None, *, env_manager: IEnvManager, **parts: Any
    ) -> IRewardModel:
        """Creates the reward model; the environments of `env_manager` compute rewards."""
        from dicore_plugins.env_managers.goals import GoalFunctions
        from dicore_plugins.reward_models.her import HER

        return HER(self, GoalFunctions(env_manager), **parts)


def opened(expert: Tree, ctx: Any) -> Any | None:
    """Opens the data set of an expert, of single steps; None if there is none."""
    if expert is None:
        return None
    return (attrs.evolve(expert, nstep=1) if "nstep" in expert else expert).build(ctx)


def spaces_of(ctx: Any) -> dict[str, Any]:
    """Returns what reward models take of the context."""
    return {
        "observation_space": ctx.observation_space,
        "action_space": ctx.action_space,
        "device": ctx.device,
    }
