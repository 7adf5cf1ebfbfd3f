"""Actors and critics of several agents.

An actor sees the observation of its agent. What the critic sees is an option; a critic of the team
is one network (for each that agents share) with a value for each agent, so that what all see is
read once.

Shapes: B rows, A agents, D numbers of an observation, S of the state, n actions or numbers of one,
G networks, S' numbers of the state of a recurrent layer.
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
from dicore_agents.models.agent_mlp import Activation, AgentMLP
from dicore_agents.models.agent_net import AgentNet
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


class AgentsActor(AgentNet):
    """Actors of A agents; base class of networks that add a critic.

    Args:
        *shapes: First arguments of `AgentNet`.
        activation: Activation function of the hidden layers.
        continuous: Actions are n Gaussian numbers instead of one of n.
        log_std_init: Initial log standard deviation of Gaussian actions.
        **form: Further arguments of `AgentNet`.

    Attributes:
        value_norm: `RunningNorm` of the returns, or None; whoever trains updates it.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class: type[ComponentConfig] = AgentsActorConfig
    actor: Any
    value_norm: RunningNorm | None

    def __init__(
        self,
        *shapes: Any,
        activation: Activation = "tanh",
        continuous: bool = False,
        log_std_init: float = 0.0,
        **form: Any,
    ) -> None:
        super().__init__(*shapes, activation=activation, **form)
        self.value_norm = None
        self.actor = self._make_actor((*self.below, self.actions), activation)
        deviations = torch.full((self.count, self.actions), log_std_init)
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
        found = self.actor(self.seen(obs))
        if self.log_std is None:
            return {"logit": found}
        return {"mean": found, "log_std": self._deviations(self.log_std).expand_as(found)}

    def distribution_of(self, agent: int, obs: Mapping[str, Tensor]) -> Columns:
        """Computes how one agent acts: `logit` [B, n], or `mean` and `log_std` [B, n]."""
        found = self.actor.of_agent(agent, self.seen(obs)[:, agent])
        if self.log_std is None:
            return {"logit": found}
        return {"mean": found, "log_std": self.log_std[self.networks[agent]].expand_as(found)}

    def _known(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Returns what critics of the team know: its state, and what all remember: [B, S]."""
        state = team_state(obs)
        return state if self.rnn is None else torch.cat([state, self.seen(obs).flatten(1)], 1)

    def _deviations(self, log_std: Any) -> Any:
        """Returns the deviations of agents [A, n] of those of networks [G, n]."""
        own = self.networks == tuple(range(self.count))
        return log_std if own else log_std[list(self.networks)]

    def act_numpy(self) -> Callable[[Mapping[str, Any]], Columns] | None:
        """Returns the NumPy forward pass of the actors, on views of the parameters.

        Returns:
            A function of observations of K teams that returns `distribution`; None: the parameters
            are not on the CPU, or there is a recurrent layer.
        """
        views = self.actor.by_numpy() if self.rnn is None else None
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
            sizes = (self.inputs + self.remembers, *hidden, 1)
            self.critic = AgentMLP(sizes, self.networks, activation)
        elif not state_shape:
            raise ConfigError(
                "policy.model: state_shape is missing",
                hint="set it (a run reads it from the env)",
            )
        else:
            sizes = (state_shape + self.agents * self.remembers, *hidden, self.agents)
            self.critic = AgentMLP(sizes, range(self.count), activation)
        self.value_norm = RunningNorm(1) if value_norm else None

    def forward(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        mode: Mode = "compute_actor_critic",
    ) -> Columns:
        """Computes how agents act, and their values.

        Args:
            obs: Observations of teams: `obs` [B, A, ...], maybe `alive` and `state`.
            hidden: float32 [B, A, S']; the states of the recurrent layer before the step; None:
                zeros.
            mode: `compute_actor` or `compute_critic` compute only their part.

        Returns:
            `logit` float32 [B, A, n], or `mean` and `log_std`; and `value` [B, A]. With a recurrent
            layer also the next states, `hidden`.
        """
        more: Columns = {}
        if self.rnn is not None:
            memory, more["hidden"] = self.remember(obs, hidden)
            obs = {**obs, "memory": memory}
        output = {} if mode == "compute_critic" else self.distribution(obs)
        if mode != "compute_actor":
            output["value"] = self.v(obs)
        return {**output, **more}

    def unroll(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        end: Tensor | None = None,
    ) -> Columns:
        """Computes how agents act, and their values, in sequences, with the recurrent layer.

        Args:
            obs: Observations of teams: `obs` [T, B, A, ...], maybe `alive` and `state`.
            hidden: float32 [B, A, S']; the states before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step: the next one starts from zeros.

        Returns:
            The outputs of `forward`, [T, B, A, ...]; `hidden` [B, A, S'] after the last step; and
            `ended` [E, A, S'], the states after the steps that end an episode, step by step.
        """
        found, shape = self.unrolled(obs, hidden, end), obs["obs"].shape[:2]
        flat = {name: each.flatten(0, 1) for name, each in obs.items()}
        flat["memory"] = found.memory.flatten(0, 1)
        outputs = {**self.distribution(flat), "value": self.v(flat)}
        steps = {name: each.unflatten(0, shape) for name, each in outputs.items()}
        return {**steps, "hidden": found.hidden, "ended": found.ended}

    def v(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes only the `value` of `forward`."""
        if self.critic_input == "own":
            rows = agent_rows(obs, self.ids)
            rows = rows if self.rnn is None else torch.cat([rows, self.seen(obs)], 2)
            value = self.critic(rows).squeeze(2)
        else:
            value = self._own(self.critic(self._team(obs)))
        norm = self.value_norm
        return value if norm is None else torch.addcmul(norm.mean, value, norm.std)

    def differentiable(self) -> bool:
        """Returns whether `forward_and_pull` is possible; parameters need their `grad`."""
        return (
            type(self) is AgentsVAC
            and self.rnn is None
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
            obs = {name: obs[name] for name in ("obs", "alive", "memory") if name in obs}
        return self._known(obs).unsqueeze(1).expand(-1, self.count, -1)

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
        inputs = state_shape + self.agents * (self.actions + 1 + self.remembers)
        sizes = (inputs, *hidden, self.actions)
        self.critic = AgentMLP(sizes, self.networks, actor.get("activation", "tanh"))
        self.register_buffer("numbers", torch.eye(self.agents), persistent=False)

    def forward(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        action: Tensor | None = None,
    ) -> Columns:
        """Computes how agents act, and the values of their actions.

        Args:
            obs: Observations of teams: `obs` [B, A, ...], maybe `alive` and `state`.
            hidden: float32 [B, A, S']; the states of the recurrent layer before the step; None:
                zeros.
            action: int64 [B, A]; None: each agent's likeliest one.

        Returns:
            `logit` and `q_value`, float32 [B, A, n] each. With a recurrent layer also the next
            states, `hidden`.
        """
        more: Columns = {}
        if self.rnn is not None:
            memory, more["hidden"] = self.remember(obs, hidden)
            obs = {**obs, "memory": memory}
        logit = self.distribution(obs)["logit"]
        taken = logit.argmax(-1) if action is None else action
        return {"logit": logit, "q_value": self.q(obs, taken), **more}

    def q(self, obs: Mapping[str, Tensor], action: Tensor) -> Tensor:
        """Computes Q_a(s, (`u_-a`, .)): float32 [B, A, n], of actions int64 [B, A]."""
        count, agents = action.shape
        taken = F.one_hot(action, self.actions).float()
        alive = alive_of(obs)
        if alive is not None:
            taken = taken * alive.unsqueeze(2)
        others = taken.unsqueeze(1) * (1 - self.numbers).unsqueeze(2)
        state = self._known(obs).unsqueeze(1).expand(-1, agents, -1)
        parts = [state, others.flatten(2), self.numbers.expand(count, -1, -1)]
        found: Tensor = self.critic(torch.cat(parts, 2))
        return found
