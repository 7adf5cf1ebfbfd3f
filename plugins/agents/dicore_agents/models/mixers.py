"""How the values of agents become the value of the team.

    VDN    Q(s, u) = sum_a Q_a(o_a, u_a)                      (Sunehag et al. 2018)
    QMIX   Q(s, u) = w2(s)' elu(W1(s)' [Q_1 .. Q_A] + b1(s)) + b2(s), W1, w2 >= 0
                                                              (Rashid et al. 2018)
    WQMIX  QMIX, and Q*(s, u) = f(s, Q*_1 .. Q*_A) without limits
                                                              (Rashid et al. 2020)
    QPLEX  Q(s, u) = sum_a V_a(s) + sum_a lambda_a(s, u) A_a(s, u_a), lambda_a > 0
                                                              (Wang et al. 2021)
    QTRAN  Q(s, u) and V(s), of networks of their own         (Son et al. 2019)

Agents that do not act count as values of 0 of action 0.

Shapes: B rows, A agents, S numbers of the state, n actions, E units of a mixer, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_agents.models.agent_mlp import AgentMLP
from dicore_agents.models.agent_q import AgentQ
from dicore_agents.models.agent_rnn import Remembered
from dicore_agents.models.observations import alive_of, team_state
from dicore_plugins.models import MLP

__all__ = [
    "QMIXMixer", "QPLEXMixer", "QTRANNet", "TeamQ", "VDNMixer", "WeightedTeamQ", "chosen_of",
]  # fmt: skip


def chosen_of(q: Tensor, action: Tensor, alive: Tensor | None) -> Tensor:
    """Returns the values [B, A] of actions [B, A] among q [B, A, n]; 0 of those that do not act."""
    chosen = q.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return chosen if alive is None else torch.where(alive > 0, chosen, torch.zeros_like(chosen))


class TeamQ(AgentQ):
    """Q networks of agents, and what mixes their values.

    Args:
        mixer: Makes the mixer: a module whose `forward(chosen [B, A], best [B, A], state [B, S],
            action [B, A])` returns [B].
        mixing: Its keyword arguments beside `agents`.
        **agents: Arguments of `AgentQ`.
    """

    def __init__(
        self,
        mixer: Callable[..., nn.Module],
        mixing: Mapping[str, Any] | None = None,
        **agents: Any,
    ) -> None:
        super().__init__(**agents)
        self.mixer = mixer(agents=agents["agents"], **(mixing or {}))

    def total(self, q: Tensor, action: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes the value of the team.

        Args:
            q: float32 [B, A, n]; values of the agents' actions, least where they are forbidden.
            action: int64 [B, A].
            obs: Observations of the team.

        Returns:
            float32 [B].
        """
        alive = alive_of(obs)
        best = chosen_of(q, q.argmax(-1), alive)
        taken = action if alive is None else torch.where(alive > 0, action, 0)
        found: Tensor = self.mixer(chosen_of(q, action, alive), best, team_state(obs), taken)
        return found


class VDNMixer(nn.Module):
    """Adds the values."""

    def __init__(self, agents: int) -> None:
        super().__init__()

    def forward(self, chosen: Tensor, best: Tensor, state: Tensor, action: Tensor) -> Tensor:
        """Maps values [B, A] to [B]."""
        return chosen.sum(-1)


class QMIXMixer(nn.Module):
    """Mixes values monotonically, with weights that networks make of the state.

    First weights are small, as those of the paper's program: a mixer that begins with steep slopes
    lets values grow without end.

    Args:
        agents: A.
        state_shape: S.
        mixing_size: E.
        hyper_size: Units of the networks that make the weights.
    """

    def __init__(
        self, agents: int, state_shape: int, mixing_size: int = 32, hyper_size: int = 64
    ) -> None:
        super().__init__()
        self.agents, self.units = agents, mixing_size
        make = partial(MLP, initial_bias="uniform", initial_weights="uniform")
        self.first = make((state_shape, hyper_size, agents * mixing_size))
        self.first_bias = make((state_shape, mixing_size))
        self.second = make((state_shape, hyper_size, mixing_size))
        self.second_bias = make((state_shape, mixing_size, 1))

    def forward(self, chosen: Tensor, best: Tensor, state: Tensor, action: Tensor) -> Tensor:
        """Maps values [B, A] to [B]."""
        weight = self.first(state).abs().view(-1, self.agents, self.units)
        hidden = torch.einsum("ba,bae->be", chosen, weight) + self.first_bias(state)
        second = self.second(state).abs()
        found: Tensor = (F.elu(hidden) * second).sum(-1) + self.second_bias(state).squeeze(-1)
        return found


class QPLEXMixer(nn.Module):
    """Duplex dueling: the best joint action is that of the best own actions, of any game.

    Args:
        agents: A.
        state_shape: S.
        actions: n.
        mixing_size: E.
        heads: H, whose weights of the advantages are added.
    """

    def __init__(
        self, agents: int, state_shape: int, actions: int, mixing_size: int = 64, heads: int = 10
    ) -> None:
        super().__init__()
        self.agents, self.actions, self.heads = agents, actions, heads
        self.scale = MLP((state_shape, mixing_size, agents))
        self.shift = MLP((state_shape, mixing_size, agents))
        self.keys = MLP((state_shape, mixing_size, heads))
        self.agent_weights = MLP((state_shape, mixing_size, heads * agents))
        joint = state_shape + agents * actions
        self.action_weights = MLP((joint, mixing_size, heads * agents))

    def forward(self, chosen: Tensor, best: Tensor, state: Tensor, action: Tensor) -> Tensor:
        """Maps values [B, A] and the largest ones [B, A] to [B]."""
        scale = self.scale(state).abs() + 1e-10
        shift = self.shift(state)
        taken = F.one_hot(action, self.actions).flatten(1).to(state.dtype)
        shape = (-1, self.heads, self.agents)
        key = self.keys(state).abs().unsqueeze(-1) + 1e-10
        agent = torch.sigmoid(self.agent_weights(state)).view(shape)
        joint = torch.sigmoid(self.action_weights(torch.cat([state, taken], 1))).view(shape)
        weight = (key * agent * joint).sum(1)
        # Own values learn through V alone, else they stay with a local optimum. The authors'
        # code keeps `scale` from learning here too; then no seed found the optimum of Son's table.
        advantage = scale * (chosen - best).detach()
        value = (scale * chosen + shift).sum(-1)
        found: Tensor = value + ((weight - 1) * advantage).sum(-1)
        return found


class WeightedTeamQ(TeamQ):
    """QMIX, and a second team of networks whose values a network mixes without limits.

    Args:
        mixing: Keyword arguments of `QMIXMixer`.
        central_size: Units of the hidden layers of the free mixer.
        **agents: Arguments of `AgentQ`.
    """

    def __init__(self, mixing: Mapping[str, Any], central_size: int, **agents: Any) -> None:
        super().__init__(QMIXMixer, mixing, **agents)
        self.central = AgentQ(**agents)
        inputs = agents["agents"] + mixing["state_shape"]
        self.central_mixer = MLP((inputs, central_size, central_size, 1))

    @property
    def hidden_shape(self) -> tuple[int, int]:
        """Shape of the recurrent states of both networks side by side: (A, 2 S)."""
        agents, size = super().hidden_shape
        return agents, 2 * size

    def unrolled(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        end: Tensor | None = None,
    ) -> Remembered:
        """Runs the recurrent layers of both networks; see `AgentNet.unrolled`.

        Returns:
            `memory` [T, B, A, 2 H] and states [B, A, 2 S], of one network beside the other.
        """
        states = (None, None) if hidden is None else hidden.chunk(2, -1)
        own = super().unrolled(obs, states[0], end)
        central = self.central.unrolled(obs, states[1], end)
        return Remembered(*(torch.cat(pair, -1) for pair in zip(own, central, strict=True)))

    def central_total(self, action: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes Q*(s, u): float32 [B], of actions [B, A]."""
        if "memory" in obs:
            obs = {**obs, "memory": obs["memory"][..., self.remembers :]}
        chosen = chosen_of(self.central.q(obs), action, alive_of(obs))
        found: Tensor = self.central_mixer(torch.cat([chosen, team_state(obs)], 1)).squeeze(-1)
        return found


class QTRANNet(AgentQ):
    """Q networks of agents beside the values of the team.

    Args:
        mixing: `state_shape` and `mixing_size`.
        **agents: Arguments of `AgentQ`.
    """

    def __init__(self, mixing: Mapping[str, Any], **agents: Any) -> None:
        super().__init__(**agents)
        count = agents["agents"]
        state, units = mixing["state_shape"], mixing["mixing_size"]
        width = (self.remembers or self.inputs) + self.actions
        self.encoder = AgentMLP((width, units), (0,) * count, activate_output=True)
        self.joint = MLP((state + units, units, units, 1))
        self.value = MLP((state, units, units, 1))

    def joint_q(self, action: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes Q(s, u): float32 [B], of actions [B, A]."""
        taken = F.one_hot(action, self.actions).to(torch.float32)
        each = self.encoder(torch.cat([self.seen(obs), taken], 2))
        alive = alive_of(obs)
        each = each if alive is None else each * alive.unsqueeze(-1)
        found: Tensor = self.joint(torch.cat([team_state(obs), each.sum(1)], 1)).squeeze(-1)
        return found

    def state_value(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes V(s): float32 [B]."""
        found: Tensor = self.value(team_state(obs)).squeeze(-1)
        return found
