"""AlphaZero (Silver et al. 2018): learns a game from its rules, by playing itself.

Before each move a search with the rules follows the network's policy p and values v. The network
learns what the search preferred, pi, and how the game ended for who moved, z:

    L = CE(p, pi) + c_v (v - z)^2,    z_t = r_t + s_{t+1} z_{t+1}

s is -1 where the other side moves next, and 1 where the same does. A game that was cut off counts
as drawn.

Shapes: K ready environments when acting; T moves of N environments; B moves; A actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore.errors import ConfigError, NonFiniteError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional import flatten_time
from dicore_plugins.policies import OneOptimizerPolicy, Results
from dicore_worlds.games.interface import SupportsRules
from dicore_worlds.games.line_game import rules_of
from dicore_worlds.planning.rules import RulesModel
from dicore_worlds.policies.alphazero_config import AlphaZeroConfig
from dicore_worlds.policies.searching import SearchingPolicy

__all__ = ["AlphaZeroPolicy", "results"]

_PLANNED = "search_policy"
"""Column with what the search preferred, float32 [T, N, A]."""


class AlphaZeroPolicy(SearchingPolicy, OneOptimizerPolicy):
    """Learns policies and values of boards, and acts by searching with the rules."""

    config_class: ClassVar[type[PolicyConfig]] = AlphaZeroConfig
    _cfg: AlphaZeroConfig

    def _rules(self) -> SupportsRules:
        model = self._cfg.model
        found = rules_of(tuple(model["obs_shape"]), model["action_shape"])
        if found is None:
            raise ConfigError(
                f"policy.model.obs_shape: no game has observations {list(model['obs_shape'])} and"
                f" {model['action_shape']} actions",
                hint="leave both to be read from the env",
            )
        return found

    # ---- acting

    def _searched(self) -> RulesModel:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return RulesModel(self._rules(), self._model, self._device)

    def _planned(
        self, obs: Mapping[int, Tree], rng: np.random.Generator, *, explore: bool,
        temperature: float,
    ) -> EnvBatch[Columns]:  # fmt: skip
        batch = EnvBatch.of(obs)
        rules, model = self._rules(), self._searched()
        state = rules.restore(np.asarray(batch.value["obs"], np.float32))
        root = model.root(state)
        if not np.isfinite(root.value).all() or np.isnan(root.logit).any():
            raise NonFiniteError(
                "the network returns NaN or inf",
                hint="lower policy.learn.learning_rate; the last checkpoints may be finite",
            )
        found = self._planner.plan(model, root, rng, explore=explore, temperature=temperature)
        action, drawn = found.action, self._cfg.collect.drawn_moves
        if explore and drawn is not None:
            action = np.where(rules.moves(state) < drawn, action, found.policy.argmax(1))
        output = {
            "action": action,
            "logit": root.logit,
            "value": found.value,
            _PLANNED: found.policy,
        }
        return batch.with_value(output)

    # ---- samples

    def _get_sample_len(self) -> Literal["episode"]:
        return "episode"

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        planned = output.get(_PLANNED)
        if planned is None:  # a warm-up policy has none
            planned = np.full((len(timestep.done), self._rules().actions), np.nan, np.float32)
        return {**columns, _PLANNED: planned}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts whole games to moves, with the result of the game for who moved."""
        self._need_one_reward(block)
        planned = block.get(_PLANNED)
        if planned is None:  # recorded games have none
            actions = self._rules().actions
            planned = np.full((*block["end"].shape, actions), np.nan, np.float32)
        result = results(block["reward"], block["obs"]["player"], block["end"])
        columns = {
            "obs": block["obs"]["obs"],
            "action": block["action"],
            "result": result,
            _PLANNED: planned,
        }
        marks = {key: block[key] for key in ("end", "valid", "env_id") if key in block}
        return flatten_time(Batch({**columns, **marks}, len(block)))

    # ---- learning

    def _init_learn(self) -> None:
        self._make_optimizer(weight_decay=self._cfg.learn.weight_decay)
        self._learn_rng = stream("policy/learn")
        self._symmetries = [torch.from_numpy(each.copy()) for each in self._rules().symmetries()]

    def _forward_learn(self, data: Batch | Sequence[Mapping[str, Tree]], **_: object) -> Results:
        """Runs one gradient update.

        Args:
            data: B moves: obs, result float32 [B], and search_policy float32 [B, A]; of NaN where
                nothing was searched, where only values are learned.

        Returns:
            The losses and the entropy of the searched policies, as tensors.
        """
        batch = self._rows(data)
        obs, planned = self._turned(batch["obs"], batch[_PLANNED])
        found = self._model(obs)
        known = ~planned.isnan().any(1)
        wanted = planned.nan_to_num(0.0)
        chosen = -(wanted * found["logit"].log_softmax(-1)).sum(-1)
        policy_loss = (chosen * known).mean()
        value_loss = F.mse_loss(found["value"], batch["result"])
        loss = policy_loss + self._cfg.learn.value_weight * value_loss
        return {
            **self._descend(loss),
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "search_entropy": torch.special.entr(wanted).sum(-1).mean(),
        }

    def _turned(self, obs: Tensor, planned: Tensor) -> tuple[Tensor, Tensor]:
        """Returns each board, and what was preferred on it, in a drawn one of its symmetries."""
        numbers, moves = self._symmetries
        if not self._cfg.learn.symmetries or len(moves) == 1:
            return obs, planned
        drawn = torch.from_numpy(self._learn_rng.integers(len(moves), size=len(obs)))
        places = numbers[drawn].to(obs.device)
        turned = obs.flatten(1).gather(1, places).view_as(obs)
        return turned, planned.gather(1, moves[drawn].to(obs.device))

    def _monitor_vars_learn(self) -> list[str]:
        return ["total_loss", "policy_loss", "value_loss", "search_entropy", "cur_lr"]


def results(
    reward: npt.NDArray[np.float32], player: npt.NDArray[np.int64], end: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Computes how games end for who moved; see z above.

    Args:
        reward: float32 [T, N]; of who moved.
        player: int64 [T, N]; who moved.
        end: bool [T, N]; last moves of games. A game that the rows cut off counts as drawn.

    Returns:
        float32 [T, N].
    """
    result = np.array(reward, np.float32)
    for t in reversed(range(len(result) - 1)):
        sign = np.where(player[t] == player[t + 1], 1, -1)
        result[t] += np.where(end[t], 0, sign * result[t + 1])
    return result
