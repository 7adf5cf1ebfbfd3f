"""The env-manager role: N environments stepped as one, each answer matched by env id.

Shapes: N environments, K of them ready, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import EnvBatch

KIND = Kind(
    name="env_manager",
    summary="steps many environments as one",
    contract="dicore.interfaces.env_manager:IEnvManager",
    section="env.manager",
    suite="dicore.testing.env_manager:EnvManagerContract",
)


class EnvState(Enum):
    """Where one environment of a manager stands."""

    VOID = "not made yet"
    INIT = "made, not reset"
    RUN = "in an episode, waiting for an action"
    RESET = "being reset"
    NEED_RESET = "its episode ended and nobody reset it"
    DONE = "it has finished all its episodes"
    ERROR = "it failed"


@runtime_checkable
class IEnvManager(Protocol):
    """Launches, steps and resets N environments.

    What not every manager can do it declares in `capabilities`: `reset_one` (reset of some),
    `episode_seed` (each episode has the seed of `dicore.run.random.episode_seed`) and
    `manual_reset` (`auto_reset=False`). One that can use memory again offers `step_into(action,
    out=None)`: like `step`, but valid only until the next but one such call.
    """

    @property
    def env_num(self) -> int:
        """N."""

    @property
    def ready_obs(self) -> EnvBatch[Any]:
        """Observations [K, ...] of the environments that wait for an action, by env id."""

    @property
    def done(self) -> bool:
        """Every environment has finished `episode_num` episodes."""

    @property
    def closed(self) -> bool:
        """Not launched yet, or closed."""

    @property
    def observation_space(self) -> Any:
        """Of one environment; makes at most one for it."""

    @property
    def action_space(self) -> Any:
        """Of one environment; makes at most one for it."""

    def launch(self, reset_param: Mapping[int, Any] | None = None) -> None:
        """Makes and resets all environments.

        Raises:
            EnvStateError: they are launched already.
        """

    def step(self, action: Mapping[int, Any]) -> EnvBatch[Any]:
        """Acts in the environments named and returns their timesteps (a `TimestepBatch`).

        At the end of an episode, info holds its return (`eval_episode_return`) and length
        (`episode_length`), and the next one begins. A step that is not to be learned from is
        marked `abnormal`.

        Args:
            action: `{env_id: action}`, `{env_id: {'action': action}}`, or an `EnvBatch` of either.

        Raises:
            EnvStateError: an environment named does not wait for an action.
            ActionError: an action is not in the space; no environment has moved.
            EnvStepError: an environment failed.
        """

    def reset(self, reset_param: Sequence[int] | Mapping[int, Any] | None = None) -> None:
        """Begins new episodes: in all environments, those listed, or those of a dict.

        A dict's values are keyword arguments for the environment's `reset`, remembered for its
        later automatic resets; None remembers nothing new.
        """

    def seed(
        self,
        seed: int | Sequence[int] | Mapping[int, int],
        dynamic_seed: bool | None = None,
        *,
        role: str = "collector",
    ) -> None:
        """Seeds the episodes to come; see `dicore.run.random.episode_seed`.

        Args:
            seed: The run's seed; or one per environment, used literally for its next episode.
            dynamic_seed: False gives every episode of an environment the very same seed.
            role: Who plays the episodes; roles of one run share none.
        """

    def close(self) -> None:
        """Ends everything; harmless when repeated."""
