"""Options of DQN; the defaults follow FEATURES B26."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, Section, component, frozen, option, section
from dicore.config.sections import CollectConfig, LearnConfig, OtherConfig, PolicyConfig
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.optimizers.config import autocast_option, compile_option, optimizer_problems
from dicore_plugins.policies.required import IN_REPLAY, ONE_PROCESS, SAMPLES, SINGLE_STEPS, Required


@frozen(kw_only=True)
class EpsConfig(Section):
    """Schedule of epsilon, the probability of a random action, over the env steps collected."""

    type: Literal["exp", "linear"] = option(
        "exp", "schedule of epsilon: exponential or linear decay"
    )
    start: float = option(0.95, "initial epsilon (probability of a random action)", ge=0, le=1)
    end: float = option(0.1, "final epsilon; above 0 the policy keeps exploring", ge=0, le=1)
    decay: int = option(
        10_000,
        "length of the decay (exp: time constant); raise for hard exploration",
        ge=1,
        unit="env steps",
    )


@frozen(kw_only=True)
class ValueLearnConfig(LearnConfig):
    """Options of learning of the relatives of DQN, each of which adds those of its loss."""

    update_per_collect: int | None = option(
        3, "gradient updates after each collect; raise for sample efficiency, lower for speed", ge=1
    )
    learning_rate_end: float = option(
        1.0,
        "final learning rate as a fraction of learning_rate; lower it if a solved task is"
        " forgotten; 1: constant",
        gt=0,
        le=1,
    )
    learning_rate_decay: int = option(
        10_000,
        "length of the linear decay of the learning rate to its final value",
        ge=1,
        unit="updates",
        follows="pipeline.max_train_iter",
    )
    target_update_freq: int = option(
        100, "gradient updates between hard copies to the target network", ge=1
    )
    target_theta: float | None = option(
        None, "soft-update coefficient tau (Polyak averaging); None: hard copies", gt=0, le=1
    )
    double: bool = option(
        True, "double DQN: the online network selects the next action; reduces overestimation"
    )
    max_grad_norm: float | None = option(
        None, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )
    adam_eps: float | None = option(None, "replaces optimizer.eps if set", gt=0)
    weight_decay: float | None = option(None, "replaces optimizer.weight_decay if set", ge=0)
    compile: bool = compile_option()
    autocast: Literal["bfloat16", "auto"] | None = autocast_option()


@frozen(kw_only=True)
class DQNLearnConfig(ValueLearnConfig):
    """Options of learning."""

    criterion: Literal["huber", "mse"] = option(
        "huber",
        "loss function of the TD error; huber limits the gradient of large errors; use mse if rare"
        " rewards are large",
    )
    huber_delta: float = option(
        1.0,
        "TD error at which the Huber loss turns linear; raise it if Q values diverge or rare"
        " rewards are large",
        gt=0,
    )


@frozen(kw_only=True)
class DQNCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        8, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )
    random_collect_size: int = option(
        0, "samples collected with random actions before training (like `learning_starts`)", ge=0
    )
    act_by_numpy: bool = option(
        True,
        "select actions with the NumPy forward pass of the model on CPU: faster for small networks",
    )


NO_EPS = {
    "start": 0.0,
    "end": option(0.0, "final epsilon; noise or a temperature explores", ge=0, le=1),
}
"""Epsilon of policies that explore without it."""


@frozen(kw_only=True)
class DQNOtherConfig(OtherConfig):
    """Options of exploration and replay."""

    eps: EpsConfig = section(EpsConfig)


@frozen(kw_only=True)
class DQNConfig(PolicyConfig):
    """DQN for discrete actions, with double DQN and n-step returns (Mnih et al. 2015)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (*PolicyConfig.fixed_by_spaces, "action_start")
    implies: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "priority": {"other": {"replay_buffer": {"type": "advanced"}}}
    }
    requires: ClassVar[Required] = {**IN_REPLAY, **ONE_PROCESS, **SAMPLES, **SINGLE_STEPS}

    reduces: ClassVar[bool] = True
    """Whether updates obey `learn.compile` and `learn.autocast`."""

    on_policy: bool = option(False, "False: DQN trains from a replay buffer")
    model: ComponentConfig = component("model", default="dqn", help="Q network")
    action_start: int | tuple[int, ...] = option(
        0, "lowest action index (`Discrete.start`), per head for MultiDiscrete; read from the env"
    )
    learn: DQNLearnConfig = section(DQNLearnConfig)
    collect: DQNCollectConfig = section(DQNCollectConfig)
    other: DQNOtherConfig = section(DQNOtherConfig)

    build = builds("dicore_plugins.policies.value.dqn:DQNPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are not discrete, or the model does not take the observations.
        """
        from dicore_plugins.models.shapes import action_start, discrete_shape, options_for
        from dicore_plugins.policies.fitting import expect_one_agent

        if spec.agents or spec.reward_shape:
            expect_one_agent(self.type, spec)
        return {
            **options_for(self.model, spec.observation),
            "model.action_shape": discrete_shape(spec.action, algorithm=self.type or "dqn"),
            "action_start": action_start(spec.action),
        }

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from self.common_problems()
        if self.model is not None and self.model.get("rnn") is not None:
            yield "model", f"{self._name} keeps no recurrent state; choose policy r2d2"

    @property
    def _name(self) -> str:
        return self.type or "dqn"

    def common_problems(self) -> Iterator[tuple[str, str]]:
        """Yields what no relative of DQN supports."""
        learn, name = self.learn, self._name
        for path, problem in optimizer_problems(
            learn, eps=learn.adam_eps, weight_decay=learn.weight_decay
        ):
            yield f"learn.{path}", problem
        for path in ("compile", "autocast"):
            if learn.get(path) and not self.reduces:
                yield f"learn.{path}", f"{name} is not trained so; leave it out"
        yield from replay_problems(self)


def replay_problems(cfg: Any) -> Iterator[tuple[str, str]]:
    """Yields what no policy that learns from a replay buffer supports."""
    size = getattr(cfg.other.replay_buffer, "replay_buffer_size", None)
    relabels = getattr(cfg.reward_model, "hindsight", False)  # draws samples of few episodes again
    if size is not None and cfg.learn.batch_size > size and not relabels:
        yield (
            "learn.batch_size",
            f"must be <= {size}, the capacity of other.replay_buffer, got {cfg.learn.batch_size}",
        )
    if getattr(cfg.other.replay_buffer, "newest", 0) > cfg.learn.batch_size:
        yield "other.replay_buffer.newest", f"must be <= learn.batch_size = {cfg.learn.batch_size}"
