"""The env-manager role: a vector of N environments, addressed by env id.

Shapes: N environments, K of them ready, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from dicore.values import State, StateDict, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data import EnvBatch, TimestepBatch
    from dicore.interfaces.env import Space

    ResetParams: TypeAlias = Mapping[int, Mapping[str, object] | None]

KIND = Kind(
    name="env_manager",
    summary="steps several environments together (vector env)",
    contract="dicore.interfaces.env_manager:IEnvManager",
    section="env.manager",
    suite="dicore.testing.env_manager:EnvManagerContract",
    use="dicore train -e cartpole -p dqn env.manager={name}",
)


class EnvState(Enum):
    """The state of one environment of a manager."""

    VOID = "not created"
    INIT = "created, not reset"
    RUN = "in an episode, waiting for an action"
    STEP = "being stepped"
    RESET = "being reset"
    NEED_RESET = "its episode ended, waiting for a reset"
    DONE = "finished all its episodes"
    ERROR = "failed"


@runtime_checkable
class IEnvManager(Contract, Protocol):
    """Launches, steps and resets N environments.

    Optional features are declared in `capabilities`: `lockstep` (a step returns the timesteps of
    all environments named), `step_one`, `reset_one` (step, reset single environments),
    `episode_seed` (seed each episode by `dicore.run.random.episode_seed`), `manual_reset`
    (`auto_reset=False`), `deadlines` (it ends calls at `step_timeout`, `reset_timeout`), `workers`
    (so, in other processes, whose ids `worker_pids()` returns by env id). It may have
    `step_into(action, out=None)`: `step` into memory that is valid until the second next call, and
    `spec`, an `EnvSpec` of one environment; `EnvSpec.of(manager)` makes one of those without it.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of its optional features."""

    @property
    def env_num(self) -> int:
        """N."""

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        """Observations [K, ...] of the environments that wait for an action, by env id.

        Environments whose timestep is pending are missing.
        """

    @property
    def done(self) -> bool:
        """Whether all environments finished `episode_num` episodes."""

    @property
    def closed(self) -> bool:
        """Whether it is closed or was not launched."""

    @property
    def observation_space(self) -> Space:
        """Observation space of one environment."""

    @property
    def action_space(self) -> Space:
        """Action space of one environment."""

    def launch(self, reset_param: ResetParams | None = None) -> None:
        """Creates and resets all environments.

        Raises:
            EnvStateError: the manager is already launched.
        """

    def step(self, action: Mapping[int, Tree]) -> EnvBatch[TimestepBatch]:
        """Sends actions to the given environments and returns timesteps (a `TimestepBatch`).

        A manager that declares `lockstep` returns those of all environments given. Another one
        returns at least one, of any environments that have a pending action (none if a reset ended
        meanwhile); the others come from later calls, and `step({})` only waits.

        At the end of an episode, info has its return (`eval_episode_return`) and length
        (`episode_length`), and the next episode starts. Steps to exclude from training are marked
        `abnormal`.

        Args:
            action: `{env_id: action}`, `{env_id: {'action': action}}`, or an `EnvBatch` of either.

        Raises:
            EnvStateError: a given environment is not ready for an action.
            ActionError: an action is not in the space; no environment was stepped.
            EnvStepError: an environment failed.
        """

    def reset(self, reset_param: Sequence[int] | ResetParams | None = None) -> None:
        """Starts new episodes in all environments, those of a list, or those of a dict.

        The values of a dict are keyword arguments for the environment's `reset`, also for later
        automatic resets; None keeps the previous ones.
        """

    def seed(
        self,
        seed: int | Sequence[int] | Mapping[int, int],
        dynamic_seed: bool | None = None,
        *,
        role: str = "collector",
    ) -> None:
        """Seeds the next episodes; see `dicore.run.random.episode_seed`.

        Args:
            seed: The run's seed, or the seed of each environment's next episode.
            dynamic_seed: False: use the same seed for all episodes of an environment.
            role: `collector` or `evaluator`; the episodes of different roles differ.
        """

    def state_dict(self) -> StateDict:
        """Returns the counters and seeds of the episodes, and what brings back those that run."""

    def load_state_dict(self, state: State) -> None: ...

    def close(self) -> None:
        """Closes all environments; later calls do nothing."""
