"""PA-DDPG for hybrid actions (Hausknecht and Stone 2016, arXiv:1511.04143).

An actor mu selects scores u of the discrete actions and the arguments x of all of them, each in
[-1, 1]; the action taken is the one with the largest score. The Q network sees scores and
arguments, which the samples therefore have:

    y = r + gamma_k (1 - done) Q'(s', mu'(s')),   the actor maximizes Q(s, mu(s))

The gradients of the actor are inverted (section 5), which keeps its linear outputs in [-1, 1]: they
get smaller towards a bound, and beyond it they turn around. A random action has random scores, the
largest of which is that of the action.

Shapes: R ready environments, B samples, K discrete actions, A arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, TimestepBatch, Tree
from dicore.interfaces.columns import Column
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.policy_gradient import inverted_gradient
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.base import ContinuousQPolicy
from dicore_plugins.policies.continuous.paddpg_config import PADDPGConfig
from dicore_plugins.policies.continuous.pdqn import PDQNPolicy
from dicore_plugins.policies.outputs import Signature

__all__ = ["PADDPGPolicy"]


class PADDPGPolicy(PDQNPolicy):
    """A deterministic actor selects the scores of discrete actions and their arguments."""

    config_class: ClassVar[type[PolicyConfig]] = PADDPGConfig
    _cfg: Any  # no options of P-DQN
    columns: ClassVar[tuple[Column, ...]] = (
        Column("scores", "...", "float", "scores of the discrete actions", "policy", "learn mode"),
    )
    shapes: ClassVar[Mapping[str, Signature]] = {
        "policy": ("", {"logit": "BA", "action_args": "BP"}), "q": ("AP", "EB")
    }  # fmt: skip

    def _q_taken(self, batch: Batch) -> Tensor:
        args = self._unit_action(batch["action"]["action_args"])
        q: Tensor = self._model.q(batch["obs"], batch["scores"], args)
        return q

    def _target(self, batch: Batch) -> Tensor:
        return ContinuousQPolicy._target(self, batch)  # noqa: SLF001 - of the base of P-DQN

    def _next_value(self, next_obs: Tree) -> Tensor:
        output = self._target_model.policy(next_obs)
        scores = _lowered(output["logit"], next_obs)
        value: Tensor = self._target_model.q(next_obs, scores, output["action_args"]).amin(0)
        return value

    def _update_actor(self, batch: Batch) -> Results:
        obs = batch["obs"]
        scores, args = self._model.linear(obs)
        for each in (scores, args):
            each.register_hook(partial(inverted_gradient, value=each.detach()))
        loss = -self._model.q(obs, _lowered(scores, obs), args, frozen=True)[0].mean()
        self._step("actor", loss)
        self._move_target("actor", "critic")
        return {"actor_loss": loss.detach()}

    def _chosen(
        self, batch: EnvBatch[Any], output: Columns, kind: Any, args: Any, random: Any
    ) -> EnvBatch[Columns]:
        """Adds the `scores` float32 [R, K] that fit the actions."""
        scores = np.where(random[:, None], self._random_scores(kind), output["logit"])
        found = super()._chosen(batch, output, kind, args, random)
        return found.with_value({**found.value, "scores": _lowered(scores, batch.value)})

    def _random_scores(self, kind: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Draws scores [R, K] in [-1, 1]; the largest are those of the actions `kind` [R]."""
        shape = len(kind), self._cfg.model["action_shape"]
        scores = self._rng.uniform(-1, 1, shape).astype(np.float32)
        rows, best = np.arange(len(kind)), scores.argmax(1)
        largest = scores[rows, best]
        scores[rows, best] = scores[rows, kind]
        scores[rows, kind] = largest
        return scores

    def _process_transition(
        self, obs: Tree, output: Columns, timestep: TimestepBatch
    ) -> dict[str, Any]:
        columns = super()._process_transition(obs, output, timestep)
        scores = output.get("scores")
        if scores is None:  # of the random policy of the warm-up, or of an expert
            kind = output["action"]["action_type"] - self._cfg.action_start
            scores = _lowered(self._random_scores(kind), obs)
        return {**columns, "scores": scores}


def _lowered(scores: Any, obs: Tree) -> Any:
    """Returns scores [B, K], the lowest ones for forbidden actions."""
    mask = mask_of(obs)
    if mask is None:
        return scores
    if isinstance(scores, Tensor):
        return scores.masked_fill(mask == 0, -1)
    return np.where(mask == 0, np.float32(-1), scores)
