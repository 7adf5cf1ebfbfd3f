"""Implicit behavioural cloning (Florence et al. 2021, arXiv:2109.00137).

A network scores pairs of observation and action; the score of the action shown is to be above those
of random ones (InfoNCE):

    L = -log exp f(s, a_E) / (exp f(s, a_E) + sum_n exp f(s, a_n)),  a_n uniform

The policy searches the action with the highest score, without derivatives. Of discrete actions, all
others are the negatives, and the search is an argmax.

Shapes: K ready environments, B samples, N candidates, A actions or dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore_plugins.functional.exploration import greedy, mask_of
from dicore_plugins.functional.imitation import bc_error, info_nce_error
from dicore_plugins.model_wrappers.base import model_wrap
from dicore_plugins.policies.imitation.bc import CloningPolicy
from dicore_plugins.policies.imitation.ibc_config import IBCConfig

__all__ = ["IBCPolicy"]


class IBCPolicy(CloningPolicy):
    """Contrastive learning of scores; acts by search."""

    config_class: ClassVar[type[PolicyConfig]] = IBCConfig
    _cfg: IBCConfig

    def _problem_of(self, model: nn.Module) -> str | None:
        return None if self._continuous else super()._problem_of(model)

    def _init_learn(self) -> None:
        super()._init_learn()
        self._negatives = stream("policy/learn")

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        obs, action, weight = batch["obs"], self._action_index(batch), batch.get("weight")
        if not self._continuous:
            loss, _ = bc_error(self._model(obs), action, weight, mask_of(obs))
            return {"total_loss": loss}
        shown = action.unsqueeze(1)
        shape = len(shown), self._cfg.learn.negatives, shown.shape[2]
        drawn = self._negatives.uniform(-1, 1, shape).astype(np.float32)
        others = torch.from_numpy(drawn).to(self._device)
        score = self._model(obs, torch.cat((shown, others), 1))["logit"]
        return {"total_loss": info_nce_error(score, weight)}

    @property
    def export_problem(self) -> str:
        """Why its network alone does not act; empty if it does."""
        return "it searches the continuous action with the highest score" * self._continuous

    # ---- acting

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        rng = stream("policy/collect")
        self._collect_model: Any = _Search(self, self._model, rng)
        if not self._continuous:
            self._collect_model = model_wrap(self._actor, "multinomial_sample", rng=rng)

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()
        self._eval_model: Any = _Search(self, self._model)
        if not self._continuous:
            self._eval_model = model_wrap(self._actor, "argmax_sample")

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Samples actions in proportion to exp f.

        Raises:
            UsageError: a keyword argument is passed.
        """
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        return self._found(self._collect_model, obs)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        return self._found(self._eval_model, obs)

    def _found(self, model: Any, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output = model.forward(batch.value)
        return batch.with_value(self._env_actions({"action": output["action"]}))


class _Search:
    """Searches continuous actions with high scores (algorithm 1 of the paper).

    All environments are searched from the same candidates. Without `rng` these are always the same
    and the best one is chosen; with `rng` one is sampled.
    """

    def __init__(self, policy: IBCPolicy, model: Any, rng: np.random.Generator | None = None):
        self._policy, self._model, self._rng = policy, model, rng

    def forward(self, obs: Tree) -> Columns:
        """Returns `action` float32 [K, A], in [-1, 1]."""
        cfg, device = self._policy.get_attribute("cfg"), self._policy.get_attribute("device")
        rng = np.random.default_rng(0) if self._rng is None else self._rng
        count, width = cfg.candidates, cfg.model.action_shape

        def drawn(values: Tree) -> Tensor:
            return torch.from_numpy(np.asarray(values, np.float32)).to(device)

        with torch.inference_mode():
            tensors = Batch({"obs": obs}).to_torch().to(device)["obs"]
            found = drawn(rng.uniform(-1, 1, (1, count, width)))
            found = found.expand(len(Batch({"obs": tensors})), -1, -1)
            score = self._model(tensors, found)["logit"]
            for turn in range(cfg.iterations):
                places = drawn(np.sort(rng.random(count)))
                noise = drawn(rng.standard_normal((count, width)))
                near = found.gather(1, _picked(score, places).unsqueeze(2).expand_as(found))
                found = (near + noise * (cfg.search_std * 0.5**turn)).clamp(-1, 1)
                score = self._model(tensors, found)["logit"]
            best = greedy(score.cpu())[:, None].to(device)
            if self._rng is not None:
                best = _picked(score, drawn(rng.random(1)))
            unit = found.gather(1, best.unsqueeze(2).expand(-1, -1, width)).squeeze(1)
            return {"action": unit.cpu().numpy()}


def _picked(score: Tensor, places: Tensor) -> Tensor:
    """Returns candidates in proportion to exp(score): int64 [K, M], for M places in [0, 1)."""
    shares = torch.softmax(score.double(), 1).cumsum(1)
    wanted = places.double().expand(len(score), -1).contiguous()
    return torch.searchsorted(shares, wanted, right=True).clamp(max=score.shape[1] - 1)
