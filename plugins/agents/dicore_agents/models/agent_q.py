"""Q networks of several agents, each of which sees its own observation.

Shapes: B rows, A agents, D numbers of an observation, n actions, S numbers of a recurrent state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dicore_agents.models.agent_mlp import AgentMLP, Array, Share
from dicore_agents.models.agent_net import AgentNet
from dicore_agents.models.config import AgentQConfig
from dicore_agents.models.observations import agent_rows_by_numpy

if TYPE_CHECKING:
    from dicore.data import Columns

__all__ = ["AgentQ"]


class AgentQ(AgentNet):
    """Q networks of A agents.

    Args:
        obs_shape: D.
        action_shape: n.
        agents: A.
        groups: Number of the group of each agent; None: one group.
        share: Agents that have one network.
        **form: Further arguments of `AgentNet`.

    Raises:
        ConfigError: a shape is missing.
    """

    config_class = AgentQConfig

    def __init__(
        self,
        obs_shape: int | None,
        action_shape: int | None,
        agents: int | None,
        groups: Sequence[int] | None = None,
        share: Share = "all",
        **form: Any,
    ) -> None:
        super().__init__(obs_shape, action_shape, agents, groups, share, **form)
        sizes = (*self.below, self.actions)
        self.values = AgentMLP(sizes, self.networks, form.get("activation", "relu"))

    def forward(self, obs: Mapping[str, Tensor], hidden: Tensor | None = None) -> Columns:
        """Computes the values of each agent's actions.

        Args:
            obs: Observations of the team: `obs` [B, A, ...].
            hidden: float32 [B, A, S]; the state of the recurrent layer before the step; None:
                zeros.

        Returns:
            `logit`: float32 [B, A, n]. With a recurrent layer also the next state, `hidden`.
        """
        if self.rnn is None:
            return {"logit": self.q(obs)}
        memory, state = self.remember(obs, hidden)
        return {"logit": self.q({**obs, "memory": memory}), "hidden": state}

    def q(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes only the `logit` of `forward`, from `memory` if it is in the observations."""
        found: Tensor = self.values(self.seen(obs))
        return found

    def act_numpy(self) -> Callable[[Mapping[str, Any]], Array] | None:
        """Returns the NumPy forward pass, on views of the parameters; None: there is none."""
        if self.rnn is not None:
            return None
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
