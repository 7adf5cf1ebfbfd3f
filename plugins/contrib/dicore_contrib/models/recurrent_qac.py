"""Actor and Q networks that remember (Ni et al. 2022, arXiv:2110.05038).

The actor and the Q networks have a recurrent layer each, since one for both learns worse (section
5). What follows a layer takes its output and the observation.

Shapes: T steps, B sequences, K observations, M chosen steps, A dimensions, E Q networks, F features
of an observation, S numbers of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dicore.data import Columns, Tree, tree_map
from dicore.errors import ConfigError
from dicore_contrib.models.recurrent_qac_config import RecurrentQACConfig
from dicore_plugins.models import MLP, EnsembleMLP, ObsEncoder, Recurrent

__all__ = ["History", "RecurrentQAC"]

_LOG_STD = (-20.0, 2.0)


class History(NamedTuple):
    """Observations of sequences, and the steps of them that are asked for.

    Args:
        obs: [T, B, ...], each sequence of one episode; or a tree of these.
        state: float32 [B, S]; before the first step.
        chosen: bool [T, B]; M are True.
        burn_in: First steps that warm up the state without gradients.
        fresh: bool [B]; the sequence begins an episode, so that it needs no warm-up.
    """

    obs: Tree
    state: Tensor
    chosen: Tensor
    burn_in: int
    fresh: Tensor


class _Memory(nn.Module):
    """A recurrent layer behind an embedding; its features are its output and its input."""

    def __init__(self, features: int, embedding: int, hidden: int, kind: Any) -> None:
        super().__init__()
        self.embed = nn.Linear(features, embedding)
        self.rnn = Recurrent(embedding, hidden, kind)
        self.features = hidden + features

    def step(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Computes the features of steps [B, F] from states [B, S], and the states after them."""
        output, state = self.rnn(self.embed(x).relu(), state)
        return torch.cat([output, x], -1), state

    def unroll(self, x: Tensor, history: History, state: Tensor) -> Tensor:
        """Computes the features of the chosen steps of [T, B, F]: [M, …]."""
        inputs, burn_in, outputs = self.embed(x).relu(), history.burn_in, []
        if burn_in:
            warm = self.rnn.unroll(inputs[:burn_in], state)
            outputs.append(warm.output)
            state = torch.where(history.fresh.unsqueeze(1), warm.state, warm.state.detach())
        outputs.append(self.rnn.unroll(inputs[burn_in:], state).output)
        return torch.cat([torch.cat(outputs), x], -1)[history.chosen]


class _Part(nn.Module):
    """Layers behind a memory: of the actor, or of the Q networks."""

    def __init__(self, memory: _Memory, head: Any) -> None:
        super().__init__()
        self.memory, self.head = memory, head


class RecurrentQAC(nn.Module):
    """Actor and E Q networks behind a recurrent layer each; actions are in [-1, 1].

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        stochastic: The actor has a mean and a log standard deviation; False: a mean only.
        num_critics: E.
        rnn: `lstm` or `gru`.
        rnn_hidden_size: Units of each recurrent layer.
        embedding_size: Units of the layer before it.
        actor_hidden_size_list: Units of each hidden layer after that of the actor.
        critic_hidden_size_list: Units of each hidden layer after that of the Q networks.
        activation: Activation function of these hidden layers.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        obs_norm: False.

    Attributes:
        state_size: S, of both layers; a state is zero before the first step of an episode.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class: Any = RecurrentQACConfig

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        stochastic: bool = True,
        num_critics: int = 2,
        rnn: str = "gru",
        rnn_hidden_size: int = 128,
        embedding_size: int = 64,
        actor_hidden_size_list: Sequence[int] = (256, 256),
        critic_hidden_size_list: Sequence[int] = (256, 256),
        activation: Any = "relu",
        obs_parts: Any = None,
        obs_norm: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(action_shape, int):
            raise ConfigError(
                f"model.action_shape must be the number of action values, got {action_shape!r}"
            )
        self.encode = ObsEncoder(obs_shape, obs_parts, normalise=obs_norm)
        if self.encode.learned:
            raise ConfigError(f"model.obs_shape must be that of a vector, got {obs_shape!r}")
        self.stochastic = stochastic
        form = self.encode.features, embedding_size, rnn_hidden_size, rnn
        acting, judging = _Memory(*form), _Memory(*form)
        outputs = action_shape * (2 if stochastic else 1)
        given: dict[str, Any] = {"initial_weights": "uniform"}
        sizes = (acting.features, *actor_hidden_size_list, outputs)
        self.actor = _Part(acting, MLP(sizes, activation, **given))
        sizes = (judging.features + action_shape, *critic_hidden_size_list, 1)
        self.critic = _Part(judging, EnsembleMLP(num_critics, sizes, activation, **given))
        self._split = acting.rnn.state_size
        self.rnn = rnn
        self.state_size = 2 * self._split

    def forward(self, obs: Tree, hidden: Tensor | None = None) -> Columns:
        """Computes the distribution of actions of one step, and the Q values of its squashed mean.

        Args:
            obs: [K, ...], or a tree of these.
            hidden: float32 [K, S]; the state before the step; None: zeros.

        Returns:
            `mean` and (stochastic) `log_std` float32 [K, A], before squashing by tanh; `q_value`
            float32 [K, E]; `hidden`: the next state, of both layers.
        """
        x = self.encode(obs)
        if hidden is None:
            hidden = x.new_zeros(len(x), self.state_size)
        features, acting = self.actor.memory.step(x, hidden[:, : self._split])
        seen, judging = self.critic.memory.step(x, hidden[:, self._split :])
        found: Columns = self._distribution(features)
        q = self.critic.head(torch.cat([seen, found["mean"].tanh()], -1)).squeeze(-1).T
        return {**found, "q_value": q, "hidden": torch.cat([acting, judging], 1)}

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` of the M chosen steps of a `History`: [M, A].

        Other observations [K, ...] are first steps.
        """
        return self._distribution(self._features(self.actor.memory, obs, 0))

    def q(self, obs: Tree, action: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of actions in [-1, 1], float32 [M, A], as `policy`: [E, M].

        With `frozen`, the parameters get no gradient; `action` does.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            features = self._features(self.critic.memory, obs, self._split)
        found: Tensor = self.critic.head(torch.cat([features, action], -1), frozen=frozen)
        return found.squeeze(-1)

    def _distribution(self, features: Tensor) -> dict[str, Tensor]:
        outputs: Tensor = self.actor.head(features)
        if not self.stochastic:
            return {"mean": outputs}
        mean, log_std = outputs.chunk(2, -1)
        return {"mean": mean, "log_std": log_std.clamp(*_LOG_STD)}

    def _features(self, memory: Any, obs: Tree, start: int) -> Tensor:
        if not isinstance(obs, History):
            features: Tensor = memory.step(self.encode(obs), None)[0]
            return features
        steps, count = obs.chosen.shape
        flat = tree_map(lambda leaf: leaf[:steps].flatten(0, 1), obs.obs)
        x = self.encode(flat).unflatten(0, (steps, count))
        found: Tensor = memory.unroll(x, obs, obs.state[:, start : start + self._split])
        return found

    def act_numpy(self) -> Callable[[Tree], Any] | None:
        """Returns None: there is no NumPy forward pass."""
        return None
