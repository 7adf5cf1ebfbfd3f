"""Q networks of several agents, each of which sees its own observation.

Shapes: B rows, A agents, D numbers of an observation, n actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore_agents.models.agent_mlp import Activation, AgentMLP, Array, Share, networks_of
from dicore_agents.models.config import AgentQConfig
from dicore_agents.models.observations import agent_rows, agent_rows_by_numpy

if TYPE_CHECKING:
    from dicore.data import Columns

__all__ = ["AgentQ"]


class AgentQ(nn.Module):
    """Q networks of A agents.

    Args:
        obs_shape: D.
        action_shape: n.
        agents: A.
        groups: Number of the group of each agent; None: one group.
        share: Agents that have one network.
        agent_ids: Append the number of the agent to its observation.
        hidden_size_list: Units of each hidden layer.
        activation: Activation function of the hidden layers.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class = AgentQConfig
    ids: Tensor | None

    def __init__(
        self,
        obs_shape: int | None,
        action_shape: int | None,
        agents: int | None,
        groups: Sequence[int] | None = None,
        share: Share = "all",
        *,
        agent_ids: bool = True,
        hidden_size_list: Sequence[int] = (64, 64),
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        if not obs_shape or not action_shape or not agents:
            raise ConfigError(
                "policy.model: obs_shape, action_shape or agents is missing",
                hint="set them (a run reads them from the env)",
            )
        networks = networks_of(share, groups or (0,) * agents)
        named = agent_ids and agents > 1 and len({*networks}) < agents
        self.register_buffer("ids", torch.eye(agents) if named else None, persistent=False)
        self.inputs = obs_shape + agents * named
        self.values = AgentMLP((self.inputs, *hidden_size_list, action_shape), networks, activation)

    def forward(self, obs: Mapping[str, Tensor]) -> Columns:
        """Computes the values of each agent's actions.

        Args:
            obs: Observations of the team: `obs` [B, A, ...].

        Returns:
            `logit`: float32 [B, A, n].
        """
        return {"logit": self.q(obs)}

    def q(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes only the `logit` of `forward`."""
        found: Tensor = self.values(agent_rows(obs, self.ids))
        return found

    def act_numpy(self) -> Callable[[Mapping[str, Any]], Array] | None:
        """Returns the NumPy forward pass, on views of the parameters; None: not on this device."""
        views, ids = self.values.by_numpy(), None if self.ids is None else self.ids.numpy()
        if views is None:
            return None
        first = next(self.parameters())
        pointer = first.data_ptr()

        def act(obs: Mapping[str, Any]) -> Array:
            nonlocal views, pointer
            if first.data_ptr() != pointer:
                views, pointer = self.values.by_numpy(), first.data_ptr()
            assert views is not None, "the parameters stay on the CPU"
            return views(agent_rows_by_numpy(obs, ids))

        return act
