"""Options that on-policy actor-critic algorithms share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import CollectConfig, LearnConfig, PolicyConfig
from dicore.interfaces.env import EnvSpec
from dicore_plugins.optimizers.config import autocast_option, compile_option, optimizer_problems
from dicore_plugins.policies.required import NO_REPLAY, ONE_PROCESS, Required


@frozen(kw_only=True)
class ActorCriticLearnConfig(LearnConfig):
    """Options of learning from samples of the current policy."""

    batch_size: int | None = option(  # type: ignore[assignment] # also None
        None, "samples per gradient update; None: all of a collect", ge=1
    )
    learning_rate_end: float = option(
        1.0, "final learning rate as a fraction of learning_rate; 1: constant", ge=0, le=1
    )
    anneal: int = option(
        100_000,
        "length of the linear decay of learning_rate, entropy_weight and clip_ratio to their final"
        " values",
        ge=1,
        unit="env steps",
        follows="pipeline.max_env_step",
    )
    value_weight: float = option(0.5, "weight of the value loss", ge=0)
    entropy_weight: float = option(
        0.0, "weight of the entropy bonus; raise it if exploration ends too early", ge=0
    )
    entropy_weight_end: float = option(
        1.0, "final entropy_weight as a fraction of entropy_weight; 1: constant", ge=0
    )
    adv_norm: bool = option(
        False, "normalise the advantages of each minibatch to mean 0 and standard deviation 1"
    )
    max_grad_norm: float | None = option(
        0.5, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adam", "eps": 1e-5},
        help="updates the parameters from their gradients",
    )
    compile: bool = compile_option()
    autocast: Literal["bfloat16", "auto"] | None = autocast_option()


@frozen(kw_only=True)
class ActorCriticCollectConfig(CollectConfig):
    """Options of collecting."""

    act_by_numpy: bool = option(
        True,
        "select actions with the NumPy forward pass of the model on CPU: faster for small networks",
    )


@frozen(kw_only=True)
class ActorCriticPolicyConfig(PolicyConfig):
    """Options of policies that learn an actor and a critic on-policy."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        "model.continuous",
        "model.args_shape",
        "hybrid",
        "action_start",
        "action_low",
        "action_high",
        "action_dims",
    )

    requires: ClassVar[Required] = {
        "nstep": (1, "uses longer returns; set it to 1"),
        "priority": (False, "draws no samples by priority; set it to False"),
        **NO_REPLAY,
        **ONE_PROCESS,
    }
    recurrent: ClassVar[bool] = False
    """Whether the network may be recurrent (`model.rnn`)."""
    reduces: ClassVar[bool] = True
    """Whether updates obey `learn.compile` and `learn.autocast`."""

    on_policy: bool = option(True, "True: trains on samples of the current policy")
    discount_factor: float = option(
        0.99, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    model: ComponentConfig = component("model", default="vac", help="network of actions and values")
    action_start: int | tuple[int, ...] = option(
        0, "lowest action index (`Discrete.start`), per head for MultiDiscrete; read from the env"
    )
    formerly: ClassVar[Mapping[str, object]] = {"action_scaling": False}
    action_scaling: bool = option(
        True,
        "scale continuous actions from [-1, 1] to the bounds of the action space; False: actions"
        " are in the units of the environment; both are clipped to the bounds",
    )
    hybrid: bool = option(
        False, "actions are a discrete type with continuous arguments; read from the env"
    )
    action_low: tuple[float, ...] | None = option(
        None, "lowest continuous actions, to which actions are clipped; read from the env"
    )
    action_high: tuple[float, ...] | None = option(
        None, "highest continuous actions, to which actions are clipped; read from the env"
    )
    action_dims: tuple[int, ...] | None = option(
        None, "shape of a continuous action; None: a vector; read from the env"
    )
    learn: ActorCriticLearnConfig = section(ActorCriticLearnConfig)
    collect: ActorCriticCollectConfig = section(ActorCriticCollectConfig)

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are neither discrete nor real numbers nor hybrid, or the model
                does not take the observations.
        """
        from dicore_plugins.models.shapes import action_options, options_for
        from dicore_plugins.policies.fitting import expect_one_agent

        if spec.agents or spec.reward_shape:
            expect_one_agent(self.type, spec)
        return {
            **options_for(self.model, spec.observation),
            **action_options(spec.action, algorithm=self.type or "actor-critic"),
        }

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        name, learn = self.type or "this policy", self.learn
        yield from self.common_problems()
        if learn.update_per_step is not None or learn.update_per_collect not in (None, 1):
            yield (
                "learn.update_per_collect",
                f"{name} counts passes over the samples of a collect, not updates; set it to 1"
                + (" and set learn.epoch_per_collect" if "epoch_per_collect" in learn else ""),
            )
        recurrent = self.model is not None and self.model.get("rnn") is not None
        if self.collect.unroll_len != 1 and not recurrent:
            yield "collect.unroll_len", f"{name} learns from single steps; set it to 1"
        if recurrent and self.recurrent and self.collect.unroll_len == 1:
            yield (
                "collect.unroll_len",
                "a recurrent network learns from sequences; set the steps of one, for example 32",
            )
        collector = self.collect.collector
        if collector is not None and collector.get("get_train_sample") is False:
            yield (
                "collect.collector.get_train_sample",
                f"{name} learns from advantages, which are made with the samples; set it to True",
            )

    def common_problems(self) -> Iterator[tuple[str, str]]:
        """Yields what no actor-critic algorithm supports."""
        name = self.type or "this policy"
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        remembers = self.model is not None and self.model.get("rnn") is not None
        for path in ("compile", "autocast"):
            if self.learn.get(path) and (remembers or not self.reduces):
                what = "recurrent networks are" if remembers else f"{name} is"
                yield f"learn.{path}", f"{what} not trained so; leave it out"
        if not self.recurrent and self.model is not None and self.model.get("rnn") is not None:
            yield "model.rnn", f"{name} keeps no recurrent state; set it to None"

    def replay_problems(self, unit: str) -> Iterator[tuple[str, str]]:
        """Yields what an algorithm does not support that replays `unit` ("steps", …)."""
        yield from self.common_problems()
        if self.learn.batch_size is None:
            yield "learn.batch_size", f"missing; set the number of {unit} drawn for an update"


def recent_replay(size: int, unit: str, effect: str) -> Any:
    """Returns the option of the replay buffer of an algorithm that replays recent data.

    Args:
        size: Its default size.
        unit: What it stores, "steps" or "sequences".
        effect: What a small one is good for.
    """
    return component(
        "buffer",
        default={"type": "naive", "replay_buffer_size": size},
        help=f"replay buffer of {unit}; a small one {effect}",
    )
