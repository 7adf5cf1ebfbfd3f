"""Actors and critics of several agents.

An actor sees the observation of its agent. What the critic sees is an option; a critic of the team
is one network (for each that agents share) with a value for each agent, so that what all see is
read once.

Shapes: B rows, A agents, D numbers of an observation, S of the state, n actions or numbers of one,
G networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore_agents.models.actor_critic_config import (
    AgentsActorConfig,
    AgentsVACConfig,
    COMAModelConfig,
)
from dicore_agents.models.agent_mlp import Activation, AgentMLP, Share, networks_of
from dicore_agents.models.observations import (
    agent_rows,
    agent_rows_by_numpy,
    alive_of,
    team_state,
)
from dicore_plugins.models import RunningNorm

if TYPE_CHECKING:
    from dicore.config.schema import ComponentConfig
    from dicore.data import Columns

__all__ = ["AgentsActor", "AgentsVAC", "COMANet", "CriticInput"]

CriticInput = Literal["own", "observations", "state", "team"]
Mode = Literal["compute_actor_critic", "compute_actor", "compute_critic"]


class AgentsActor(nn.Module):
    """Actors of A agents; base class of networks that add a critic.

    Args:
        obs_shape: D.
        action_shape: n.
        agents: A.
        groups: Number of the group of each agent; None: one group.
        share: Agents that have one network.
        agent_ids: Append the number of the agent to its observation.
        hidden_size_list: Units of each hidden layer.
        activation: Activation function of the hidden layers.
        continuous: Actions are n Gaussian numbers instead of one of n.
        log_std_init: Initial log standard deviation of Gaussian actions.

    Attributes:
        networks: Number of the network of each agent.
        value_norm: `RunningNorm` of the returns, or None; whoever trains updates it.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class: type[ComponentConfig] = AgentsActorConfig
    actor: Any
    ids: Tensor | None
    value_norm: RunningNorm | None

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
        activation: Activation = "tanh",
        continuous: bool = False,
        log_std_init: float = 0.0,
    ) -> None:
        super().__init__()
        if not obs_shape or not action_shape or not agents:
            raise ConfigError(
                "policy.model: obs_shape, action_shape or agents is missing",
                hint="set them (a run reads them from the env)",
            )
        self.agents, self.actions = agents, action_shape
        self.value_norm = None
        self.networks = networks_of(share, groups or (0,) * agents)
        self.count = max(self.networks) + 1
        named = agent_ids and self.count < agents
        self.register_buffer("ids", torch.eye(agents) if named else None, persistent=False)
        self.inputs = obs_shape + agents * named
        self.actor = self._make_actor((self.inputs, *hidden_size_list, action_shape), activation)
        deviations = torch.full((self.count, action_shape), log_std_init)
        self.log_std = nn.Parameter(deviations) if continuous else None

    def _make_actor(self, sizes: Sequence[int], activation: Activation) -> Any:
        """Returns the actors, whose first actions are near 0 (Andrychowicz et al. 2021)."""
        actor = AgentMLP(sizes, self.networks, activation)
        last: Any = actor.weights[-1] if actor.shared is None else actor.shared.layers[-1].weight
        with torch.no_grad():
            last.mul_(0.01)
        return actor

    def distribution(self, obs: Mapping[str, Tensor]) -> Columns:
        """Computes how agents act: `logit` [B, A, n], or `mean` and `log_std` [B, A, n]."""
        found = self.actor(agent_rows(obs, self.ids))
        if self.log_std is None:
            return {"logit": found}
        return {"mean": found, "log_std": self._deviations(self.log_std).expand_as(found)}

    def distribution_of(self, agent: int, obs: Mapping[str, Tensor]) -> Columns:
        """Computes how one agent acts: `logit` [B, n], or `mean` and `log_std` [B, n]."""
        found = self.actor.of_agent(agent, agent_rows(obs, self.ids)[:, agent])
        if self.log_std is None:
            return {"logit": found}
        return {"mean": found, "log_std": self.log_std[self.networks[agent]].expand_as(found)}

    def _deviations(self, log_std: Any) -> Any:
        """Returns the deviations of agents [A, n] of those of networks [G, n]."""
        own = self.networks == tuple(range(self.count))
        return log_std if own else log_std[list(self.networks)]

    def act_numpy(self) -> Callable[[Mapping[str, Any]], Columns] | None:
        """Returns the NumPy forward pass of the actors, on views of the parameters.

        Returns:
            A function of observations of K teams that returns `distribution`; None: the parameters
            are not on the CPU.
        """
        views = self.actor.by_numpy()
        if views is None:
            return None
        rows = _Rows(self.inputs, None if self.ids is None else self.ids.numpy())
        first = next(self.parameters())
        pointer = first.data_ptr()
        deviations = None if self.log_std is None else self.log_std.detach().numpy()

        def act(obs: Mapping[str, Any]) -> Columns:
            nonlocal views, pointer, deviations
            if first.data_ptr() != pointer:
                views, pointer = self.actor.by_numpy(), first.data_ptr()
                deviations = None if self.log_std is None else self.log_std.detach().numpy()
            assert views is not None, "the parameters stay on the CPU"
            found = views(rows(obs))
            if deviations is None:
                return {"logit": found}
            log_std = np.broadcast_to(self._deviations(deviations), found.shape).copy()
            return {"mean": found, "log_std": log_std}

        return act


class _Rows:
    """Writes what agents see to memory that is kept, beside their numbers: [K, A, inputs].

    That takes half the time of `agent_rows_by_numpy`, which it equals.
    """

    def __init__(self, inputs: int, ids: Any) -> None:
        self._inputs, self._ids = inputs, ids
        self._memory: Any = None
        self._seen: Any = None

    def __call__(self, obs: Mapping[str, Any]) -> Any:
        rows, ids = obs["obs"], self._ids
        if ids is None:
            return agent_rows_by_numpy(obs, None)
        if self._memory is None or len(self._memory) != len(rows):
            self._memory = np.empty((len(rows), len(ids), self._inputs), np.float32)
            width = self._inputs - len(ids)
            self._memory[..., width:] = ids
            self._seen = self._memory[..., :width]
        self._seen[...] = rows.reshape(self._seen.shape)
        if "alive" in obs:
            self._seen[obs["alive"] == 0] = 0
        return self._memory


class AgentsVAC(AgentsActor):
    """Actors and the values of A agents.

    Args:
        state_shape: S, of critics of the team.
        critic_input: What the value of an agent depends on: `own` observation, the `observations`
            of all, the `state`; `team`: the state if there is one, else the observations.
        critic_hidden_size_list: Units of each hidden layer of the critic; None: the actor's.
        value_norm: The critic learns normalised values; `value` is in units of the reward.
        **actor: Arguments of `AgentsActor`.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class = AgentsVACConfig

    def __init__(
        self,
        state_shape: int | None = None,
        critic_input: CriticInput = "team",
        critic_hidden_size_list: Sequence[int] | None = None,
        *,
        value_norm: bool = False,
        **actor: Any,
    ) -> None:
        super().__init__(**actor)
        hidden = critic_hidden_size_list or actor.get("hidden_size_list", (64, 64))
        activation = actor.get("activation", "tanh")
        self.critic_input = critic_input
        if critic_input == "own":
            self.critic = AgentMLP((self.inputs, *hidden, 1), self.networks, activation)
        elif not state_shape:
            raise ConfigError(
                "policy.model: state_shape is missing",
                hint="set it (a run reads it from the env)",
            )
        else:
            sizes = (state_shape, *hidden, self.agents)
            self.critic = AgentMLP(sizes, range(self.count), activation)
        self.value_norm = RunningNorm(1) if value_norm else None

    def forward(self, obs: Mapping[str, Tensor], mode: Mode = "compute_actor_critic") -> Columns:
        """Computes how agents act, and their values.

        Args:
            obs: Observations of teams: `obs` [B, A, ...], maybe `alive` and `state`.
            mode: `compute_actor` or `compute_critic` compute only their part.

        Returns:
            `logit` float32 [B, A, n], or `mean` and `log_std`; and `value` [B, A].
        """
        output = {} if mode == "compute_critic" else self.distribution(obs)
        if mode != "compute_actor":
            output["value"] = self.v(obs)
        return output

    def v(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes only the `value` of `forward`."""
        if self.critic_input == "own":
            value = self.critic(agent_rows(obs, self.ids)).squeeze(2)
        else:
            value = self._own(self.critic(self._team(obs)))
        norm = self.value_norm
        return value if norm is None else torch.addcmul(norm.mean, value, norm.std)

    def differentiable(self) -> bool:
        """Returns whether `forward_and_pull` is possible; parameters need their `grad`."""
        return (
            type(self) is AgentsVAC
            and self.log_std is None
            and self.actor.differentiable()
            and self.critic.differentiable()
        )

    @torch.no_grad()
    def forward_and_pull(
        self, obs: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], Callable[..., None]]:
        """Computes `forward` and returns how gradients flow back, without a graph of the layers.

        Args:
            obs: As for `forward`.

        Returns:
            The outputs, which are leaves of the graph; and a function that takes the derivatives of
            a loss by `logit` [B, A, n] and `value` [B, A], and overwrites `grad` of all parameters.
        """
        rows = agent_rows(obs, self.ids)
        logit, pull_actor = self.actor.forward_and_pull(rows)
        own = self.critic_input == "own"
        seen = rows if own else self._team(obs)
        each, pull_critic = self.critic.forward_and_pull(seen)
        value = each.squeeze(2) if own else self._own(each)
        norm = self.value_norm
        if norm is not None:
            value = torch.addcmul(norm.mean, value, norm.std)

        @torch.no_grad()
        def pull(of_logit: Tensor, of_value: Tensor) -> None:
            pull_actor(of_logit)
            slope = of_value if norm is None else of_value * norm.std
            if own:
                pull_critic(slope.unsqueeze(2))
            elif self.count == 1:
                pull_critic(slope.unsqueeze(1))
            else:
                whole = torch.zeros_like(each)
                whole[:, list(self.networks), list(range(self.agents))] = slope
                pull_critic(whole)

        return {"logit": logit.requires_grad_(), "value": value.requires_grad_()}, pull

    def _team(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Returns what the critics see of the team, float32 [B, G, S]."""
        if self.critic_input == "observations":
            obs = {name: obs[name] for name in ("obs", "alive") if name in obs}
        return team_state(obs).unsqueeze(1).expand(-1, self.count, -1)

    def _own(self, each: Tensor) -> Tensor:
        """Returns the value [B, A] that the network of each agent has for it, of [B, G, A]."""
        if self.count == 1:
            return each[:, 0]
        return each[:, list(self.networks), list(range(self.agents))]


class COMANet(AgentsActor):
    """Actors, and the values of each agent's actions while the others keep theirs.

    The critic of agent a sees what the team sees (the state, or all observations), the actions of
    the others, and the number of the agent (Foerster et al. 2018, figure 1c).

    Args:
        state_shape: S.
        critic_hidden_size_list: Units of each hidden layer of the critic; None: the actor's.
        **actor: Arguments of `AgentsActor`; actions are discrete.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class = COMAModelConfig
    numbers: Tensor

    def __init__(
        self,
        state_shape: int | None = None,
        critic_hidden_size_list: Sequence[int] | None = None,
        **actor: Any,
    ) -> None:
        super().__init__(**actor)
        if not state_shape:
            raise ConfigError(
                "policy.model: state_shape is missing",
                hint="set it (a run reads it from the env)",
            )
        hidden = critic_hidden_size_list or actor.get("hidden_size_list", (64, 64))
        inputs = state_shape + self.agents * (self.actions + 1)
        sizes = (inputs, *hidden, self.actions)
        self.critic = AgentMLP(sizes, self.networks, actor.get("activation", "tanh"))
        self.register_buffer("numbers", torch.eye(self.agents), persistent=False)

    def forward(self, obs: Mapping[str, Tensor], action: Tensor | None = None) -> Columns:
        """Computes how agents act, and the values of their actions.

        Args:
            obs: Observations of teams: `obs` [B, A, ...], maybe `alive` and `state`.
            action: int64 [B, A]; None: each agent's likeliest one.

        Returns:
            `logit` and `q_value`, float32 [B, A, n] each.
        """
        logit = self.distribution(obs)["logit"]
        taken = logit.argmax(-1) if action is None else action
        return {"logit": logit, "q_value": self.q(obs, taken)}

    def q(self, obs: Mapping[str, Tensor], action: Tensor) -> Tensor:
        """Computes Q_a(s, (u_-a, .)): float32 [B, A, n], of actions int64 [B, A]."""
        count, agents = action.shape
        taken = F.one_hot(action, self.actions).float()
        alive = alive_of(obs)
        if alive is not None:
            taken = taken * alive.unsqueeze(2)
        others = taken.unsqueeze(1) * (1 - self.numbers).unsqueeze(2)
        state = team_state(obs).unsqueeze(1).expand(-1, agents, -1)
        parts = [state, others.flatten(2), self.numbers.expand(count, -1, -1)]
        found: Tensor = self.critic(torch.cat(parts, 2))
        return found
