"""What networks of several agents are made of, up to their heads: rows of agents, and memory.

What agents remember is computed once for whole sequences; steps of them carry it in their
observations as `memory`, from which heads compute.

Shapes: T steps, B rows, A agents, D numbers of an observation, H units of a recurrent layer, S
numbers of its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from dicore.data import tree_map
from dicore.errors import ConfigError
from dicore_agents.models.agent_mlp import Activation, AgentMLP, Share, networks_of
from dicore_agents.models.agent_rnn import AgentRecurrent, Remembered, RNNName
from dicore_agents.models.observations import agent_rows

__all__ = ["AgentNet"]


class AgentNet(nn.Module):
    """Base class of networks of A agents that act by what they see.

    Args:
        obs_shape: D.
        action_shape: Numbers of the output of one agent.
        agents: A.
        groups: Number of the group of each agent; None: one group.
        share: Agents that have one network.
        agent_ids: Append the number of the agent to its observation.
        hidden_size_list: Units of each hidden layer; with `rnn`, of those before it.
        activation: Activation function of the hidden layers.
        rnn: `lstm` or `gru` before the head; None: no memory.
        rnn_hidden_size: H.

    Attributes:
        networks: Number of the network of each agent.
        rnn: The recurrent layers, or None.
        below: Sizes of the input and the hidden layers of a head.

    Raises:
        ConfigError: a shape is missing.
    """

    ids: Tensor | None

    def __init__(  # noqa: PLR0913 - one argument per option
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
        rnn: RNNName | None = None,
        rnn_hidden_size: int = 64,
    ) -> None:
        super().__init__()
        if not obs_shape or not action_shape or not agents:
            raise ConfigError(
                "policy.model: obs_shape, action_shape or agents is missing",
                hint="set them (a run reads them from the env)",
            )
        self.agents, self.actions = agents, action_shape
        self.networks = networks_of(share, groups or (0,) * agents)
        self.count = max(self.networks) + 1
        named = agent_ids and self.count < agents
        self.register_buffer("ids", torch.eye(agents) if named else None, persistent=False)
        self.inputs = obs_shape + agents * named
        self.below: tuple[int, ...] = (self.inputs, *hidden_size_list)
        self.trunk = self.rnn = None
        self.remembers = 0
        if rnn is None:
            return
        if len(self.below) > 1:
            self.trunk = AgentMLP(self.below, self.networks, activation, activate_output=True)
        self.rnn = AgentRecurrent(self.below[-1], rnn_hidden_size, self.networks, rnn)
        self.remembers, self.below = rnn_hidden_size, (rnn_hidden_size,)

    @property
    def hidden_shape(self) -> tuple[int, int]:
        """Shape of the recurrent state of a team: (A, S); S is 0 without a memory."""
        return self.agents, 0 if self.rnn is None else self.rnn.state_size

    def seen(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Returns the input of the head: what agents see, or what they remember of it.

        Args:
            obs: Observations of teams, `obs` [B, A, ...]. With a recurrent layer and without
                `memory`, they are those of first steps.

        Returns:
            float32 [B, A, D], [B, A, D + A] or [B, A, H].
        """
        if self.rnn is None:
            return agent_rows(obs, self.ids)
        memory = obs.get("memory")
        return self.remember(obs)[0] if memory is None else memory[..., : self.remembers]

    def remember(
        self, obs: Mapping[str, Tensor], hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Runs the recurrent layer for one step.

        Args:
            obs: Observations of teams, `obs` [B, A, ...].
            hidden: float32 [B, A, S]; the state before the step; None: zeros.

        Returns:
            `memory` float32 [B, A, H], and the next state [B, A, S].
        """
        found = self.unrolled(tree_map(lambda leaf: leaf.unsqueeze(0), dict(obs)), hidden)
        return found.memory[0], found.hidden

    def unrolled(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        end: Tensor | None = None,
    ) -> Remembered:
        """Runs the recurrent layer over sequences.

        Args:
            obs: Observations of teams, `obs` [T, B, A, ...].
            hidden: float32 [B, A, S]; the state before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step: the next one starts from zeros.
        """
        assert self.rnn is not None
        shape = obs["obs"].shape[:2]
        x = agent_rows({name: each.flatten(0, 1) for name, each in obs.items()}, self.ids)
        x = x if self.trunk is None else self.trunk(x)
        return self.rnn.unroll(x.unflatten(0, shape), hidden, end, obs.get("alive"))
