"""Actor and critic of actions (Wang et al. 2017, arXiv:1611.01224).

Shapes: B observations, A actions.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from dicore.data import Columns, Tree
from dicore_plugins.models.actor_critic.acer_config import ACERModelConfig
from dicore_plugins.models.actor_critic.vac import VAC
from dicore_plugins.models.modes import Mode


class ACERNet(VAC):
    """`VAC` whose critic computes a Q value per action; V is their mean under the policy."""

    config_class = ACERModelConfig
    values_per_action: ClassVar[bool] = True

    def forward(
        self, obs: Tree, hidden: Tree = None, mode: Mode = "compute_actor_critic"
    ) -> Columns:
        """Computes the distribution of actions and the Q values.

        Args:
            obs: [B, ...]; see `VAC.forward`.
            hidden: Must be None; there is no recurrent layer.
            mode: `compute_actor` computes only `logit`; otherwise all.

        Returns:
            `logit` and `q_value` float32 [B, A], and `value` float32 [B].
        """
        output = super().forward(obs, mode=ALL if mode == "compute_critic" else mode)
        if mode != "compute_actor":
            logit = output["logit"]
            q_value = output.pop("value").reshape(logit.shape)
            output["q_value"] = q_value
            output["value"] = (torch.softmax(logit, 1) * q_value).sum(1)
        return output

    def v(self, obs: Tree) -> torch.Tensor:
        """Computes only the `value` of `forward`."""
        value: torch.Tensor = self.forward(obs)["value"]
        return value

    act_numpy = VAC.act_numpy


ALL: Mode = "compute_actor_critic"
