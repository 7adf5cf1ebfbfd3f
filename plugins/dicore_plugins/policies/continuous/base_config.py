"""Options that algorithms with Q networks of continuous actions share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import CollectConfig, LearnConfig, PolicyConfig
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.models.shapes import action_dims_option, action_high_option, action_low_option
from dicore_plugins.optimizers.config import autocast_option, compile_option, optimizer_problems
from dicore_plugins.policies.required import IN_REPLAY, ONE_PROCESS, SAMPLES, SINGLE_STEPS, Required
from dicore_plugins.policies.value.dqn_config import replay_problems


@frozen(kw_only=True)
class ContinuousQLearnConfig(LearnConfig):
    """Options of learning from a replay buffer."""

    batch_size: int = option(256, "samples per gradient update", ge=1)
    update_per_collect: int | None = option(
        None, "gradient updates after each collect, instead of update_per_step", ge=1
    )
    update_per_step: float | None = option(
        1.0, "gradient updates per collected env step; raise for sample efficiency", gt=0
    )
    learning_rate: float = option(3e-4, "learning rate of actor and critics", gt=0, lt=float("inf"))
    learning_rate_end: float = option(
        1.0, "final learning rate as a fraction of learning_rate; 1: constant", gt=0, le=1
    )
    learning_rate_decay: int = option(
        10_000, "length of the linear decay of the learning rate", ge=1, unit="updates",
        follows="pipeline.max_train_iter",
    )  # fmt: skip
    target_theta: float = option(
        0.005, "soft-update coefficient tau of the target network (Polyak averaging)", gt=0, le=1
    )
    max_grad_norm: float | None = option(
        None, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )
    compile: bool = compile_option()
    autocast: Literal["bfloat16", "auto"] | None = autocast_option()


@frozen(kw_only=True)
class ContinuousQCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        8, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )
    random_collect_size: int = option(
        100, "samples collected with random actions before training (like `learning_starts`)", ge=0
    )
    act_by_numpy: bool = option(
        True,
        "select actions with the NumPy forward pass of the model on CPU: faster for small networks",
    )


@frozen(kw_only=True)
class ActorQPolicyConfig(PolicyConfig):
    """Options of off-policy algorithms with an actor and Q networks, for any actions."""

    implies: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "priority": {"other": {"replay_buffer": {"type": "advanced"}}}
    }
    requires: ClassVar[Required] = {**IN_REPLAY, **ONE_PROCESS, **SAMPLES, **SINGLE_STEPS}

    on_policy: bool = option(False, "False: trains from a replay buffer")
    discount_factor: float = option(
        0.99, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    learn: ContinuousQLearnConfig = section(ContinuousQLearnConfig)
    collect: ContinuousQCollectConfig = section(ContinuousQCollectConfig)

    def seen(self, spec: EnvSpec) -> dict[str, object]:
        """Returns the options of the model that describe one observation.

        Raises:
            ConfigError: the model does not take the observations.
            UsageError: the environment declares several rewards per step.
        """
        from dicore_plugins.models.shapes import has_images, options_for
        from dicore_plugins.policies.fitting import expect_one_agent

        if spec.agents or spec.reward_shape:
            expect_one_agent(self.type, spec)
        found = options_for(self.model, spec.observation)
        images = has_images(found["model.obs_shape"], found.get("model.obs_parts"))
        if images and self.model is not None and "critic_hidden_size_list" in self.model:
            raise ConfigError(
                f"policy.model: '{self.model.type}' takes vectors; the observations of this env"
                f" are {spec.observation}",
                hint="pass a network for images, or choose another policy",
            )
        return found

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        yield from replay_problems(self)


@frozen(kw_only=True)
class ContinuousQPolicyConfig(ActorQPolicyConfig):
    """Options of off-policy algorithms for bounded continuous actions."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("action_low", "action_high", "action_dims"),
    )

    action_low: tuple[float, ...] | None = action_low_option()
    action_high: tuple[float, ...] | None = action_high_option()
    action_dims: tuple[int, ...] | None = action_dims_option()

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the range of actions from the spaces.

        Raises:
            ConfigError: the actions are not bounded real numbers, or the model does not take the
                observations.
        """
        from dicore_plugins.models.shapes import box_options

        found = box_options(spec.action, algorithm=self.type or "this policy")
        return {**self.seen(spec), **found}
