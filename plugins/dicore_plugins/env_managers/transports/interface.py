"""The env-transport role: how the data of a step goes to the environments of a worker and back.

Shapes: N environments, K of them named, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from dicore.values import Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data.tree import Array
    from dicore.interfaces.env import Space

__all__ = ["KIND", "EnvLayout", "IEnvTransport", "Rows"]

Rows = Sequence[int] | slice
"""Env ids; a slice for environments that are all those of a worker, or all."""

KIND = Kind(
    name="env_transport",
    summary="carries actions to the environments of worker processes, and the results back",
    contract="dicore_plugins.env_managers.transports.interface:IEnvTransport",
    section="env.manager.transport",
    suite="dicore_plugins.env_managers.transports.contract:EnvTransportContract",
    use="dicore train -e cartpole -p dqn env.manager=sync_subprocess env.manager.transport={name}",
)


class EnvLayout(NamedTuple):
    """The environments of a manager.

    Args:
        env_num: N.
        observation_space: Of each environment.
        action_space: Of each environment.
        reward_shape: Of each reward; () for scalars.
    """

    env_num: int
    observation_space: Space
    action_space: Space
    reward_shape: tuple[int, ...] = ()


@runtime_checkable
class IEnvTransport(Contract, Protocol):
    """Memory of the main process and its workers, with a place for the data of each environment.

    The main process makes it by `build(ctx, layout=...)`, which raises EnvSpaceError if it cannot
    carry those spaces. Each worker gets a copy: it is pickled, and `attach` is called on the copy.
    What it does not carry goes with the message that wakes the other side, pickled.

    A step writes to one of three buffers: 0 and 1 in turn if all environments are stepped together,
    2 otherwise.
    """

    def files(self) -> Sequence[int]:
        """Returns the descriptors of its memory, which are sent to each worker."""

    def attach(self, files: Sequence[int]) -> None:
        """Maps the memory in a worker; the descriptors are closed afterwards."""

    def put_actions(self, rows: Rows, actions: Tree) -> bool:
        """Stores a sequence of actions; False: the message carries them."""

    def actions(self, rows: Rows) -> Iterable[Tree]:
        """Returns copies of the stored actions of environments, in a worker."""

    def write(self, env_id: int, buffer: int, obs: Tree, reward: Tree, ended: int) -> bool:
        """Stores the result of a step, in a worker.

        Args:
            env_id: The environment.
            buffer: 0, 1 or 2.
            obs: As the environment returned it.
            reward: As the environment returned it.
            ended: 1: terminated, 2: truncated, 3: both; plus 4 if it is reset already.

        Returns:
            Whether it is stored without a change of any value; if not, the message carries it.
        """

    def write_reset(self, env_id: int, obs: Tree) -> bool:
        """Stores the first observation of an episode, in a worker; False as for `write`."""

    def columns(self, rows: Rows, buffer: int) -> tuple[Tree, Array] | None:
        """Returns the stored observations and rewards of environments.

        Returns:
            Observations [K, ...] as `EnvPool.step` returns them, of a slice the memory itself, and
            rewards [K, ...]; None if it stores none.
        """

    def ended(self, rows: Rows, buffer: int) -> Sequence[int]:
        """Returns `ended` of the stored results."""

    def reset_obs(self, env_id: int) -> Tree:
        """Returns the stored first observation of an episode."""

    def close(self) -> None:
        """Closes the descriptors; the memory remains as long as an array of it is in use."""
