"""Decentralised actors with centralised Q networks: of MADDPG, MATD3 and MASAC.

Actors see the observation of their agent. Q networks see the state, or all observations, and the
actions of all agents. The rows of agents that do not act are zeros in all of them, whatever the
environment gives. With recurrent layers, Q networks also see what they remember of all agents.

Shapes: T steps, B rows, A agents, D numbers of an observation, S that critics see, E Q networks, k
numbers of an action: its dimensions, or the discrete actions, one-hot; H units of a recurrent
layer, S' numbers of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from dicore.data import tree_map
from dicore.errors import ConfigError
from dicore_agents.models.agent_mlp import Activation, AgentMLP, Array, Share, networks_of
from dicore_agents.models.agent_net import AgentNet
from dicore_agents.models.agent_rnn import Remembered, RNNName
from dicore_agents.models.observations import agent_rows, agent_rows_by_numpy, team_state
from dicore_agents.models.team_memory import MemoryActor, Part, side_by_side
from dicore_agents.models.team_q_config import TeamQACConfig
from dicore_plugins.models import EnsembleMLP

if TYPE_CHECKING:
    from dicore.data import Columns

__all__ = ["TeamCritic", "TeamQAC"]

_LOG_STD = (-20.0, 2.0)
"""Range of log standard deviations."""


class TeamQAC(nn.Module):
    """Actors of A agents, and E Q networks for each; continuous actions are in [-1, 1].

    Weights and biases begin uniform in +-1 / sqrt(inputs), as in `QAC`.

    Args:
        obs_shape: D.
        action_shape: k.
        agents: A.
        state_shape: S.
        discrete: Actors have a logit for each action.
        soft: Continuous actors have a mean and a log standard deviation; critics of discrete
            actions value each action of their own agent.
        groups: Number of the group of each agent; None: one group.
        share: Agents that have one actor.
        critic_share: Agents that have one critic; None: as `share`.
        critic_sees: What critics see beside the actions; None: the state if there is one.
        agent_ids: Append the number of the agent where agents share a network.
        num_critics: E.
        hidden_size_list: Units of each hidden layer of the actors.
        critic_hidden_size_list: Units of each hidden layer of each Q network.
        activation: Activation function of the hidden layers.
        rnn: `lstm` or `gru` before the heads of actors, and of critics one for each agent; None: no
            memory.
        rnn_hidden_size: H.

    Attributes:
        agents: A.
        width: k.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class = TeamQACConfig
    actor_ids: Tensor | None
    critic_ids: Tensor | None
    own: Tensor
    actor: AgentMLP | MemoryActor

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | None,
        action_shape: int | None,
        agents: int | None,
        state_shape: int | None,
        *,
        discrete: bool = False,
        soft: bool = False,
        groups: Sequence[int] | None = None,
        share: Share = "all",
        critic_share: Share | None = None,
        critic_sees: Literal["state", "observations"] | None = None,
        agent_ids: bool = True,
        num_critics: int = 1,
        hidden_size_list: Sequence[int] = (64, 64),
        critic_hidden_size_list: Sequence[int] = (64, 64),
        activation: Activation = "relu",
        rnn: RNNName | None = None,
        rnn_hidden_size: int = 64,
    ) -> None:
        super().__init__()
        if not obs_shape or not action_shape or not agents or not state_shape:
            raise ConfigError(
                "policy.model: obs_shape, action_shape, agents or state_shape is missing",
                hint="set them (a run reads them from the env)",
            )
        self.agents, self.width = agents, action_shape
        self.discrete, self.soft, self.sees_state = discrete, soft, critic_sees != "observations"
        groups = groups or (0,) * agents
        actors, critics = (networks_of(each, groups) for each in (share, critic_share or share))
        self._add_ids("actor_ids", actors, wanted=agent_ids)
        self._add_ids("critic_ids", critics, wanted=agent_ids)
        self.register_buffer("own", torch.eye(agents).bool().unsqueeze(2), persistent=False)
        inputs = obs_shape + agents * (self.actor_ids is not None)
        outputs = action_shape * (2 if soft and not discrete else 1)
        self.remembers = 0 if rnn is None else rnn_hidden_size
        form: dict[str, Any] = {
            "agent_ids": agent_ids, "hidden_size_list": hidden_size_list, "activation": activation,
            "rnn": rnn, "rnn_hidden_size": rnn_hidden_size,
        }  # fmt: skip
        seen = obs_shape, action_shape, agents, groups
        if rnn is None:
            sizes = (inputs, *hidden_size_list, outputs)
            self.actor = AgentMLP(sizes, actors, activation, initial_weights="uniform")
        else:
            self.actor = MemoryActor(outputs, *seen, share, **form)
        known = action_shape + (self.critic_ids is not None) + self.remembers
        inputs = state_shape + agents * known
        values = action_shape if soft and discrete else 1
        sizes = (inputs, *critic_hidden_size_list, values)
        self.critic = TeamCritic(num_critics, sizes, critics, activation)
        if rnn is not None:
            self.critic.memory = AgentNet(*seen, critic_share or share, **form)

    def _add_ids(self, name: str, networks: Sequence[int], *, wanted: bool) -> None:
        named = wanted and len({*networks}) < len(networks)
        self.register_buffer(name, torch.eye(len(networks)) if named else None, persistent=False)

    def forward(self, obs: Mapping[str, Tensor], hidden: Tensor | None = None) -> Columns:
        """Computes what agents act by, which needs no critic.

        Args:
            obs: Observations of the team: `obs` [B, A, ...], and maybe `alive` [B, A].
            hidden: float32 [B, A, 2 S']; the states of the recurrent layers before the step, which
                also the critics have; None: zeros.

        Returns:
            `logit` float32 [B, A, k]; or `mean` and (soft) `log_std` float32 [B, A * k], before
            squashing by tanh. With recurrent layers also the next states, `hidden`.
        """
        more: Columns = {}
        if self.rnn is not None:
            memory, more["hidden"] = self.remember(obs, hidden)
            obs = {**obs, "memory": memory}
        found = self.policy(obs)
        if not self.discrete:
            found = {key: each.flatten(1) for key, each in found.items()}
        return {**found, **more}

    @property
    def rnn(self) -> nn.Module | None:
        """The recurrent layers of the actors, or None."""
        return self.actor.rnn if isinstance(self.actor, MemoryActor) else None

    @property
    def hidden_shape(self) -> tuple[int, int]:
        """Shape of the recurrent states of a team, of actors beside critics: (A, 2 S')."""
        size = self.actor.hidden_shape[1] if isinstance(self.actor, MemoryActor) else 0
        return self.agents, 2 * size

    def unrolled(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        end: Tensor | None = None,
        learns: Part | None = None,
    ) -> Remembered:
        """Runs the recurrent layers of actors and of critics; see `side_by_side`."""
        assert isinstance(self.actor, MemoryActor)
        assert self.critic.memory is not None
        parts: dict[Part, AgentNet] = {"actor": self.actor, "critic": self.critic.memory}
        return side_by_side(parts, obs, hidden, end, learns)

    def remember(
        self, obs: Mapping[str, Tensor], hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Runs the recurrent layers for one step.

        Returns:
            `memory` float32 [B, A, 2 H], of actors beside critics, and the next states.
        """
        found = self.unrolled(tree_map(lambda leaf: leaf.unsqueeze(0), dict(obs)), hidden)
        return found.memory[0], found.hidden

    def policy(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes the outputs of `forward`, each [B, A, k], from `memory` if it is there."""
        if isinstance(self.actor, MemoryActor):
            x = self.actor.forward(obs)
        else:
            x = self.actor.forward(agent_rows(obs, self.actor_ids))
        if self.discrete:
            return {"logit": x}
        if not self.soft:
            return {"mean": x}
        mean, log_std = x.chunk(2, -1)
        return {"mean": mean, "log_std": log_std.clamp(*_LOG_STD)}

    def q(
        self,
        obs: Mapping[str, Tensor],
        action: Tensor,
        own: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        """Computes the Q values of each agent.

        Args:
            obs: Observations of the team.
            action: float32 [B, A, k]; the actions of all.
            own: float32 [B, A, k]; what the critic of each agent sees as the action of its agent
                instead; None: the same.
            frozen: The parameters get no gradient; `own` does.

        Returns:
            float32 [E, B, A]; soft ones of discrete actions [E, B, A, k].
        """
        if self.discrete and self.soft:
            own = torch.zeros_like(action)
        if (alive := obs.get("alive")) is not None:
            action = torch.where(alive.unsqueeze(-1) > 0, action, 0.0)
            own = own if own is None else torch.where(alive.unsqueeze(-1) > 0, own, 0.0)
        hidden = () if self.sees_state else ("state",)
        state = team_state({key: each for key, each in obs.items() if key not in hidden})
        if self.critic.memory is not None:
            known = self._known(obs, self.critic.memory)
            state = torch.cat([state, known.detach() if frozen else known], 1)
        if own is None and self.critic_ids is None:
            found = self.critic.forward(torch.cat([state, action.flatten(1)], 1), frozen=frozen)
        else:
            found = self.critic.forward(self._of_agents(state, action, own), frozen=frozen)
        return found if self.discrete and self.soft else found.squeeze(-1)

    def _known(self, obs: Mapping[str, Tensor], memory: AgentNet) -> Tensor:
        """Returns what critics remember of all agents: float32 [B, A * H]."""
        found = memory.remember(obs)[0] if "memory" not in obs else obs["memory"]
        return found[..., -self.remembers :].flatten(1)

    def _of_agents(self, state: Tensor, action: Tensor, own: Tensor | None) -> Tensor:
        """Returns what the critic of each agent sees: float32 [B, A, ...]."""
        rows, agents = action.shape[:2]
        joint = action.unsqueeze(1).expand(-1, agents, -1, -1)
        if own is not None:
            joint = torch.where(self.own, own.unsqueeze(2), joint)
        parts = [state.unsqueeze(1).expand(-1, agents, -1), joint.flatten(2)]
        if self.critic_ids is not None:
            parts.append(self.critic_ids.expand(rows, -1, -1))
        return torch.cat(parts, 2)

    def act_numpy(self) -> Callable[[Mapping[str, Any]], dict[str, Array]] | None:
        """Returns the NumPy form of `forward`, on views of the parameters; None: not possible."""
        if isinstance(self.actor, MemoryActor):
            return None
        actor = self.actor
        views, ids = actor.by_numpy(), self.actor_ids
        if views is None:
            return None
        named = None if ids is None else ids.numpy()
        first = next(actor.parameters())
        pointer = first.data_ptr()

        def act(obs: Mapping[str, Any]) -> dict[str, Array]:
            nonlocal views, pointer
            if first.data_ptr() != pointer:
                views, pointer = actor.by_numpy(), first.data_ptr()
            assert views is not None, "the parameters stay on the CPU"
            return self._outputs(views(agent_rows_by_numpy(obs, named)))

        return act

    def _outputs(self, x: Array) -> dict[str, Array]:
        if self.discrete:
            return {"logit": x}
        if not self.soft:
            return {"mean": x.reshape(len(x), -1)}
        mean, log_std = np.split(x, 2, -1)
        flat = len(x), -1
        return {"mean": mean.reshape(flat), "log_std": log_std.clip(*_LOG_STD).reshape(flat)}


class TeamCritic(nn.Module):
    """E Q networks for each agent, of agents that share them or not.

    Args:
        count: E.
        sizes: Sizes of input, hidden layers and output.
        networks: Number of the network of each agent, from 0 on: [A].
        activation: Activation function of the hidden layers.

    Attributes:
        memory: Recurrent layers of agents whose outputs are among the inputs, or None.
    """

    def __init__(
        self, count: int, sizes: Sequence[int], networks: Sequence[int], activation: Activation
    ) -> None:
        super().__init__()
        self.memory: AgentNet | None = None
        self.count, self.agents, total = count, len(networks), max(networks) + 1
        members = [[a for a, each in enumerate(networks) if each == n] for n in range(total)]
        self.separate = total == self.agents
        self.members = [[*range(self.agents)]] if self.separate else members
        order = [agent for each in self.members for agent in each]
        self.back = [order.index(agent) for agent in range(self.agents)]
        each = count * total if self.separate else count
        self.parts = nn.ModuleList(
            EnsembleMLP(each, sizes, activation, initial_weights="uniform") for _ in self.members
        )

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the values.

        Args:
            x: float32 [B, A, input], or [B, input], the same for all agents.
            frozen: The parameters get no gradient; `x` does.

        Returns:
            float32 [E, B, A, output].
        """
        if self.separate:
            if x.dim() == 3:
                x = x.transpose(0, 1)
                x = x if self.count == 1 else x.repeat(self.count, 1, 1)
            found: Tensor = self.parts[0].forward(x, frozen=frozen)
            return found.view(self.count, self.agents, *found.shape[1:]).transpose(1, 2)
        x = x if x.dim() == 3 else x.unsqueeze(1).expand(-1, self.agents, -1)
        if len(self.parts) == 1:
            return self._shared(self.parts[0], x, frozen=frozen)
        pairs = zip(self.parts, self.members, strict=True)
        values = [self._shared(part, x[:, each], frozen=frozen) for part, each in pairs]
        return torch.cat(values, 2)[:, :, self.back]

    def _shared(self, part: nn.Module, x: Tensor, *, frozen: bool) -> Tensor:
        found: Tensor = part.forward(x.flatten(0, 1), frozen=frozen)
        return found.view(self.count, *x.shape[:2], -1)
