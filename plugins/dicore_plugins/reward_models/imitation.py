"""Rewards learned from an expert's steps: GAIL, guided cost, random expert distillation.

GAIL: Ho and Ermon 2016, arXiv:1606.03476. RED: Wang et al. 2019, arXiv:1905.06750.

Shapes: B samples, N expert samples, `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Dict
from torch import Tensor, nn

from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree
from dicore_plugins.functional.distributions import log_prob_entropy
from dicore_plugins.functional.imitation import gail_error, gail_reward, guided_cost_error
from dicore_plugins.reward_models.base import EncodedMLP, NetworkRewardModel, encoder_of
from dicore_plugins.reward_models.config import GAILConfig, GuidedCostConfig, REDConfig
from dicore_plugins.reward_models.expert import ExpertSamples, checked_samples, steps_of
from dicore_plugins.reward_models.intrinsic import DistillationNet

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


__all__ = ["GAIL", "RED", "ExpertRewardModel", "GuidedCost"]


class ExpertRewardModel(NetworkRewardModel):
    """Base class of reward models that learn from an expert's samples; see `NetworkRewardModel`.

    A subclass that learns from them alone sets `collects` to False and implements `_expert_loss`:
    it is trained when it receives them, and `train` then changes nothing.

    Args:
        *args: As for `NetworkRewardModel`.
        expert: Data set of the expert's steps (`IDataset`); None: call `load_expert_data`.
        **kwargs: As for `NetworkRewardModel`.
    """

    collects: ClassVar[bool] = True
    """Whether it is trained on collected samples, too."""

    def __init__(self, *args: Any, expert: Tree | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._dataset, self._expert = expert, ExpertSamples(self, self._rng)
        if expert is not None:
            self.load_expert_data(steps_of(expert))

    def load_expert_data(self, data: Batch) -> None:
        """Stores a copy of expert samples, in place of earlier ones.

        Raises:
            UsageError: there are none.
            SchemaError: a column is missing.
            NonFiniteError: a number is NaN or infinite.
        """
        copied = checked_samples(data, self.keys, self)
        self._see(copied)
        self._expert.store(self._tensors(copied, self.keys), len(copied))
        if not self.collects:
            self._fit()

    def _fit(self) -> None:
        """Trains on the expert's samples alone."""
        self._net.train()
        for _ in range(self._cfg.expert_updates):
            self._update(self._expert_loss())
        self._net.eval()

    def _expert_loss(self) -> Tensor:
        """Computes the loss of a batch of expert samples."""
        raise NotImplementedError

    def collect_data(self, data: Batch) -> None:
        """Stores a copy of samples for the next `train`, if it is trained on them."""
        if self.collects:
            super().collect_data(data)

    def state_dict(self) -> StateDict:
        """Returns networks, optimizer, stored samples, and the hash of the expert's data set."""
        facts = None if self._dataset is None else self._dataset.state_dict()
        return {**super().state_dict(), "expert": facts}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; training goes on identically.

        Raises:
            UsageError: the expert's data set is another.
        """
        if self._dataset is not None and state.get("expert") is not None:
            self._dataset.load_state_dict(state["expert"])
        super().load_state_dict(state)


def pair_space(observation_space: Space, action_space: Space) -> Dict:
    """Returns the space of an observation and an action together."""
    return Dict({"obs": observation_space, "action": action_space})


class _PairRewardModel(ExpertRewardModel):
    """An MLP of observation and action with one output."""

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        cfg = self._cfg
        encoder = encoder_of(pair_space(observation_space, action_space))
        return EncodedMLP(encoder, (*cfg.hidden_size_list, 1), cfg.activation)

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        return {"obs": batch["obs"], "action": batch["action"]}


class GAIL(_PairRewardModel):
    """Generative adversarial imitation: a discriminator D tells the expert's steps from others.

    The agent's reward is -log(1 - D) (`reward` = gail), log D (log_d) or their sum (airl, the form
    of Fu et al. 2018).
    """

    config_class: ClassVar[type[ComponentConfig]] = GAILConfig

    def _rewards(self, batch: Mapping[str, Tree]) -> Tensor:
        return gail_reward(self._net.forward(self._inputs(batch)).squeeze(1), self._cfg.reward)

    def _loss(self, batch: Mapping[str, Tree]) -> Tensor:
        net: Any = self._net
        agent = net.encoder.forward(self._inputs(batch))
        expert = net.encoder.forward(self._inputs(self._expert.draw(len(agent))))
        logit = net.mlp.forward(torch.cat([expert, agent])).squeeze(1)
        loss, shown, own = gail_error(logit[: len(agent)], logit[len(agent) :])
        self._facts.update(expert_accuracy=shown, agent_accuracy=own)
        weight: float = self._cfg.gradient_penalty
        return loss + weight * self._penalty(expert, agent) if weight else loss

    def _penalty(self, expert: Tensor, agent: Tensor) -> Tensor:
        """Returns the mean of (norm of the gradient - 1)^2 between pairs (Gulrajani 2017)."""
        share = torch.from_numpy(self._rng.random((len(agent), 1), np.float32)).to(agent.device)
        between = (share * expert + (1 - share) * agent).detach().requires_grad_()
        net: Any = self._net
        (gradient,) = torch.autograd.grad(
            net.mlp.forward(between).sum(), between, create_graph=True
        )
        penalty: Tensor = (gradient.norm(dim=1) - 1).square().mean()
        return penalty


class GuidedCost(_PairRewardModel):
    """Guided cost learning: a reward under which the expert's steps are the most likely ones.

    Finn et al. 2016, arXiv:1603.00448, on single steps. The agent's probabilities, with which its
    steps are weighted, come from the columns `log_prob`, or `logit`, or `mean` and `log_std`;
    without these columns its steps have equal weights.
    """

    config_class: ClassVar[type[ComponentConfig]] = GuidedCostConfig
    stored: ClassVar[tuple[str, ...]] = ("log_prob",)

    def _rewards(self, batch: Mapping[str, Tree]) -> Tensor:
        reward: Tensor = self._net.forward(self._inputs(batch)).squeeze(1)
        return reward

    def collect_data(self, data: Batch) -> None:
        """Stores a copy of samples, with the probabilities of their actions."""
        if len(data):
            super().collect_data(
                Batch({**data.columns, "log_prob": self._log_prob(data)}, len(data))
            )

    def _log_prob(self, data: Batch) -> Any:
        """Returns the log-probabilities of actions, float32 [B]; 0 if they are unknown."""
        if "log_prob" in data:
            return np.asarray(data["log_prob"], np.float32).reshape(len(data))
        names = [name for name in ("logit", "mean", "log_std") if name in data]
        if not names:
            return np.zeros(len(data), np.float32)
        output = {name: self._tensor(data[name]) for name in names}
        action = self._tensor(data.get("raw_action", data["action"]))
        if "logit" in names:
            action = action - int(getattr(self.action_space, "start", 0))
        with torch.no_grad():
            return log_prob_entropy(output, action)[0].float().cpu().numpy()

    def _loss(self, batch: Mapping[str, Tree]) -> Tensor:
        net: Any = self._net
        agent = net.encoder.forward(self._inputs(batch))
        expert = net.encoder.forward(self._inputs(self._expert.draw(len(agent))))
        reward = net.mlp.forward(torch.cat([expert, agent])).squeeze(1)
        shown, own = reward[: len(agent)], reward[len(agent) :]
        self._facts.update(expert_reward=shown.detach().mean(), agent_reward=own.detach().mean())
        loss = guided_cost_error(shown, own, batch["log_prob"])
        penalty: Tensor = self._cfg.l2_weight * reward.square().mean()
        return loss + penalty


class _REDNet(DistillationNet):
    """The two networks, and the sharpness of the reward."""

    sigma: Tensor

    def __init__(self, space: Space, cfg: Any) -> None:
        super().__init__(space, cfg)
        self.register_buffer("sigma", torch.ones(()))


class RED(ExpertRewardModel):
    """Random expert distillation: the reward is exp(-sigma error), near 1 where the expert was.

    The error is that of predicting a fixed random network; see `RND`.
    """

    config_class: ClassVar[type[ComponentConfig]] = REDConfig
    collects: ClassVar[bool] = False
    _net: _REDNet

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        return _REDNet(pair_space(observation_space, action_space), self._cfg)

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        return {"obs": batch["obs"], "action": batch["action"]}

    def _rewards(self, batch: Mapping[str, Tree]) -> Tensor:
        return self._net.forward(self._inputs(batch)).mul_(-self._net.sigma).exp_()

    def _expert_loss(self) -> Tensor:
        drawn = self._expert.draw(self._cfg.batch_size)
        return self._net.forward(self._inputs(drawn)).mean()

    def _fit(self) -> None:
        super()._fit()
        if self._cfg.sigma is not None:
            self._net.sigma.fill_(self._cfg.sigma)
            return
        with torch.no_grad():
            error = self._net.forward(self._inputs(self._expert.columns))
        self._net.sigma.fill_(0.1 / max(float(error.median()), 1e-12))
