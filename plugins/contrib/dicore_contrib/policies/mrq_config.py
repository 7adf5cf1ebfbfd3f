"""Options of MR.Q."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from dicore.interfaces.env import EnvSpec
from dicore_plugins.models import (
    action_dims_option,
    action_high_option,
    action_low_option,
    choice_or_box_options,
    options_for,
)
from dicore_plugins.optimizers import optimizer_problems
from dicore_plugins.policies import builds, expect_one_agent

__all__ = ["MRQCollectConfig", "MRQConfig", "MRQLearnConfig"]

_TAU = 10.0


@frozen(kw_only=True)
class MRQLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(
        256, "sequences per gradient update, of collect.unroll_len steps each", ge=1
    )
    update_per_collect: int | None = option(
        None, "gradient updates after each collect, instead of update_per_step", ge=1
    )
    update_per_step: float | None = option(
        2.0, "gradient updates per env step; half of them are of the embeddings", gt=0
    )
    learning_rate: float = option(
        3e-4, "learning rate of the Q networks and of the policy", gt=0, lt=float("inf")
    )
    encoder_learning_rate: float = option(
        1e-4, "learning rate of the embeddings", gt=0, lt=float("inf")
    )
    max_grad_norm: float | None = option(
        20.0, "maximum gradient norm of the Q networks; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adamw", "weight_decay": 1e-4},
        help="updates the parameters from their gradients",
    )
    target_update_freq: int = option(
        250,
        "updates of the embeddings, and then as many of Q networks and policy, between copies to"
        " the target networks",
        ge=1,
    )
    dynamics_weight: float = option(1.0, "weight of the error of the next embedded state", ge=0)
    reward_weight: float = option(0.1, "weight of the loss of rewards", ge=0)
    done_weight: float = option(0.1, "weight of the error of the ends of episodes", ge=0)
    target_noise: float = option(
        0.2, "standard deviation of the noise of target actions; half of it if discrete", ge=0
    )
    target_noise_clip: float = option(
        0.3, "largest noise of target actions; half of it if discrete", ge=0
    )
    output_weight: float = option(
        1e-5, "weight of the squared outputs of the policy before tanh or softmax", ge=0
    )
    min_priority: float = option(
        1.0, "lowest priority, in units of the mean reward; smaller errors are drawn alike", gt=0
    )


@frozen(kw_only=True)
class MRQCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        1, "env steps per collect: one step of each environment", ge=1,
        follows="env.collector_env_num",
    )  # fmt: skip
    random_collect_size: int = option(
        10_000, "env steps with random actions before training (like `learning_starts`)", ge=0
    )
    unroll_len: int = option(
        5,
        "steps of a sequence, over which embeddings are unrolled; the buffer stores each step as"
        " often",
        ge=1,
        unit="env steps",
    )
    noise: float = option(
        0.2, "standard deviation of the noise of actions; half of it if discrete", ge=0
    )


_REPLAY = {
    "type": "advanced",
    "replay_buffer_size": 1_000_000,
    "alpha": 0.4,
    "beta": 1.0,
}


@frozen(kw_only=True)
class MRQConfig(PolicyConfig):
    """MR.Q: Q learning on embeddings that predict, one set of settings (Fujimoto et al. 2025)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("model.continuous", "action_low", "action_high", "action_dims", "action_start"),
    )
    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (False, "learns from a replay buffer; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "priority_IS_weight": (False, "has Huber's loss in place of weights; set it to False"),
        "traj_len_inf": (False, "learns from pieces of episodes; set it to False"),
        "collect.n_episode": (None, "collects samples; use collect.n_sample"),
    }

    on_policy: bool = option(False, "False: trains from a replay buffer")
    priority: bool = option(True, "draw sequences by their errors; False: uniformly")
    nstep: int = option(
        3, "n of n-step returns; at most collect.unroll_len", ge=1, unit="env steps"
    )
    discount_factor: float = option(
        0.99, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    gumbel_tau: float = option(
        _TAU, "temperature of the Gumbel-softmax policy of discrete actions", gt=0
    )
    model: ComponentConfig = component(
        "model", default="mrq", help="embeddings, Q networks and policy"
    )
    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()
    action_start: int = option(0, "first discrete action; read from the env")
    learn: MRQLearnConfig = section(MRQLearnConfig)
    collect: MRQCollectConfig = section(MRQCollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_REPLAY)

    build = builds("dicore_contrib.policies.mrq:MRQPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the actions from the spaces.

        Raises:
            ConfigError: actions are neither one choice nor bounded real numbers, or observations
                are no vector, nor an image of bytes or of floats from 0 to 1.
        """
        name = self.type or "mrq"
        expect_one_agent(name, spec)
        found = options_for(self.model, spec.observation)
        if not isinstance(found["model.obs_shape"], int):
            _expect_pixels(name, spec.observation)
        acts = choice_or_box_options(spec.action, algorithm=name)
        if acts["model.continuous"] and self.gumbel_tau != _TAU:
            raise ConfigError(
                "policy.gumbel_tau: has no effect with continuous actions", hint="leave it out"
            )
        return {**found, **acts}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        learn, buffer = self.learn, self.other.replay_buffer
        if not learn.target_noise and learn.target_noise_clip != 0.3:
            yield "learn.target_noise_clip", "has no effect without target_noise; leave it out"
        if not self.priority and learn.min_priority != 1.0:
            yield "learn.min_priority", "has no effect without priority; leave it out"
        if not self.priority and buffer.get("alpha") not in (None, _REPLAY["alpha"]):
            yield "other.replay_buffer.alpha", "has no effect without priority; leave it out"
        if buffer.get("beta") not in (None, _REPLAY["beta"]):
            yield "other.replay_buffer.beta", "has no effect: errors have no weights; leave it out"
        size = buffer.get("replay_buffer_size")
        if size is not None and learn.batch_size > size:
            yield "learn.batch_size", f"must be <= {size}, the capacity of other.replay_buffer"
        if buffer.get("unroll_len") is not None:
            yield "other.replay_buffer", "must be 'advanced': samples are sequences already"
        elif self.priority and buffer.get("alpha") is None:
            yield "other.replay_buffer", "must be 'advanced', or set priority=False"
        length = self.collect.unroll_len
        if self.nstep > length:
            yield "nstep", f"must be <= {length}, collect.unroll_len, got {self.nstep}"


def _expect_pixels(name: str, space: Any) -> None:
    """Raises ConfigError if images have a bound that the network does not scale."""
    if space.dtype.name == "uint8" or (space.low.min() >= 0 and space.high.max() <= 1):
        return
    raise ConfigError(
        f"policy.type: '{name}' takes images of bytes, which it divides by 255, or of floats from 0"
        f" to 1; those of this env are {space.dtype} from {space.low.min():g} to"
        f" {space.high.max():g}",
        hint="return uint8 images, or scale them by the env wrapper static_obs_norm",
    )
