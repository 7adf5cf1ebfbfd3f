"""Options of DQN; the defaults are those of the documents (FEATURES B26)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from dicore.config.declare import Section, component, frozen, option, section
from dicore.config.sections import CollectConfig, LearnConfig, OtherConfig, PolicyConfig
from dicore.errors import ConfigError


@frozen(kw_only=True)
class EpsConfig(Section):
    """How the chance of a random action falls with the env steps collected."""

    type: Literal["exp", "linear"] = option("exp", "shape of the fall")
    start: float = option(0.95, "chance at the first step", ge=0, le=1)
    end: float = option(0.1, "chance in the end", ge=0, le=1)
    decay: int = option(10_000, "exp: time constant; linear: length", ge=1, unit="env steps")


@frozen(kw_only=True)
class DQNLearnConfig(LearnConfig):
    """How DQN learns."""

    update_per_collect: int = option(3, "updates after each collect", ge=1)
    target_update_freq: int = option(100, "updates between copies to the target network", ge=1)
    target_theta: float | None = option(
        None, "move the target by this share each update instead of copying it", gt=0, le=1
    )
    double: bool = option(True, "choose the next action by the online network (double DQN)")
    criterion: Literal["huber", "mse"] = option("huber", "loss of the TD error")
    max_grad_norm: float | None = option(None, "clip the gradient to this norm", gt=0)
    adam_eps: float = option(1e-8, "epsilon of Adam", gt=0)
    weight_decay: float = option(0.0, "L2 penalty of Adam", ge=0)


@frozen(kw_only=True)
class DQNCollectConfig(CollectConfig):
    """How DQN collects."""

    n_sample: int | None = option(8, "training samples per collect", ge=1)
    random_collect_size: int = option(0, "samples by a random policy before the first update", ge=0)
    act_by_numpy: bool = option(
        True, "act by numpy views of the parameters where the model offers them (CPU)"
    )


@frozen(kw_only=True)
class DQNOtherConfig(OtherConfig):
    """Exploration and replay of DQN."""

    eps: EpsConfig = section(EpsConfig)


@frozen(kw_only=True)
class DQNConfig(PolicyConfig):
    """Deep Q-network with double, n-step and multi-discrete forms (Mnih et al. 2015)."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (*PolicyConfig.fixed_by_spaces, "action_start")

    on_policy: bool = option(False, "learn only from data of the present policy")
    model: Any = component("model", default="dqn", help="the Q network")
    action_start: int | tuple[int, ...] = option(
        0, "least action, or one for each head; taken from the environment"
    )
    learn: DQNLearnConfig = section(DQNLearnConfig)
    collect: DQNCollectConfig = section(DQNCollectConfig)
    other: DQNOtherConfig = section(DQNOtherConfig)

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        """Makes the policy; `model` replaces the configured network."""
        from dicore_plugins.policies.dqn.policy import DQNPolicy

        return DQNPolicy(self, model=model, **parts)

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        """Fills in the model's shapes.

        Raises:
            ConfigError: the actions are not discrete, or the model does not take the observations.
        """
        from dicore_plugins.models.shapes import (
            action_start,
            discrete_shape,
            observation_options,
        )

        seen = observation_options(observation_space)
        if (
            "model.obs_parts" in seen
            and "obs_shape" in self.model
            and "obs_parts" not in self.model
        ):
            raise ConfigError(
                f"policy.model: '{self.model.type}' takes one array of numbers; this env shows"
                f" {observation_space}",
                hint="flatten them: env.env_wrapper=flat_obs",
            )
        return {
            **seen,
            "model.action_shape": discrete_shape(action_space, algorithm=self.type or "dqn"),
            "action_start": action_start(action_space),
        }

    def check(self) -> Any:
        """Finds settings that contradict each other."""
        if self.collect.unroll_len != 1:
            yield "collect.unroll_len", "dqn learns from single steps; expected 1"
        size = getattr(self.other.replay_buffer, "replay_buffer_size", None)
        if size is not None and self.learn.batch_size > size:
            yield (
                "learn.batch_size",
                (
                    f"must be <= {size}, all that other.replay_buffer holds, got"
                    f" {self.learn.batch_size}"
                ),
            )
        if self.multi_gpu:
            yield "multi_gpu", "dqn learns in one process; expected False"
        if self.collect.n_episode is not None:
            yield "collect.n_episode", "dqn collects samples; give collect.n_sample instead"
