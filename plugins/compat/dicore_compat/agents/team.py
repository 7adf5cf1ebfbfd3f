"""Several agents in one environment, each with its own sampler, network and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from dicore.run.env_factory import BuildContext
from dicore_compat.agents.agent import AgentBase
from dicore_compat.agents.config import TeamConfig

if TYPE_CHECKING:
    from dicore.data import State, StateDict

__all__ = ["Team"]


class Team(AgentBase):
    """Agents that see the same observations, share a memory, and choose parts of one action.

    Args:
        cfg: Options, see `TeamConfig`.
        context: What it is built with; see `AgentBase`.
        **parts: See `Policy`.
    """

    config_class = TeamConfig

    def __init__(
        self, cfg: object = None, context: BuildContext | None = None, **parts: object
    ) -> None:
        self._members: dict[str, AgentBase] = {}
        super().__init__(cfg, context, **parts)
        for name, member in self._members.items():
            member.join(name, self._store)

    def _create_model(self) -> nn.Module:
        for name, section in self._cfg.by_name().items():
            context = BuildContext(device=self._device)
            self._members[name] = section.build(context, enable_field=self._enabled)
        models = {name: each.get_attribute("model") for name, each in self._members.items()}
        return nn.ModuleDict(models)

    @property
    def agents(self) -> dict[str, AgentBase]:
        """The agents by name."""
        return dict(self._members)

    def _init_learn(self) -> None:
        """Each agent has its optimizer."""

    def _state_dict_learn(self) -> StateDict:
        members = {name: each.learn_mode.state_dict() for name, each in self._members.items()}
        return {**self._state_dict_model(), "members": members}

    def _load_state_dict_learn(self, state: State) -> None:
        for name, each in self._members.items():
            each.learn_mode.load_state_dict(state["members"][name])
