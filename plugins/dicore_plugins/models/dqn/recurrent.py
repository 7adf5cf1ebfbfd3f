"""The recurrent Q network of DRQN (Hausknecht and Stone 2015, arXiv:1507.06527) and R2D2.

Shapes: T steps, B observations, A actions, S elements of a state, E ends of episodes, `...` one
observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dicore.data import Columns, Tree, tree_map
from dicore_plugins.models.dqn.config import DRQNModelConfig
from dicore_plugins.models.dqn.model import DQN, QHead
from dicore_plugins.models.encoders.recurrent import Recurrent, RNNName, flat_time

__all__ = ["DRQN"]


class DRQN(DQN):
    """Q network with an LSTM or GRU between the encoder and the heads.

    Args:
        rnn: `lstm` or `gru`.
        rnn_hidden_size: Units of the recurrent layer.
        **options: Arguments of `DQN`.

    Attributes:
        state_size: S; a state is zero before the first step of an episode.
    """

    config_class: Any = DRQNModelConfig

    def __init__(self, rnn: RNNName = "lstm", rnn_hidden_size: int = 64, **options: Any) -> None:
        widths = []

        def head(features: int, actions: int, hidden: Sequence[int] = (), **form: Any) -> QHead:
            widths.append(features)
            return QHead(rnn_hidden_size, actions, hidden, **form)

        super().__init__(head=head, **options)
        self.rnn = Recurrent(widths[0], rnn_hidden_size, rnn)
        self.state_size = self.rnn.state_size

    def forward(self, obs: Tree, hidden: Tensor | None = None) -> Columns:
        """Computes Q values of one step.

        Args:
            obs: [B, ...], as for `DQN.forward`.
            hidden: float32 [B, S]; the state before the step; None: zeros.

        Returns:
            `logit`: float32 [B, A], or a list with one per head; `hidden`: the next state.
        """
        x, state = self.rnn.forward(self.features(obs), hidden)
        return {"logit": self._heads(x), "hidden": state}

    def unroll(self, obs: Tree, hidden: Tensor | None = None, end: Tensor | None = None) -> Columns:
        """Computes Q values of sequences.

        Args:
            obs: [T, B, ...].
            hidden: float32 [B, S]; the state before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step: the next one starts from zeros.

        Returns:
            `logit`: float32 [T, B, A], or a list with one per head; `hidden` [B, S] after the last
            step; `ended` [E, S]: the states after the steps that end an episode, from which
            `forward` computes the values of their last observations.
        """
        flat, shape = flat_time(obs)
        output, state, ended = self.rnn.unroll(self.features(flat).unflatten(0, shape), hidden, end)
        logit = self._heads(output.flatten(0, 1))
        logit = tree_map(lambda leaf: leaf.unflatten(0, shape), logit)
        return {"logit": logit, "hidden": state, "ended": ended}

    def q(self, obs: Tree) -> Tree:
        """Computes Q values of first steps, the `logit` of `forward`."""
        return self.forward(obs)["logit"]

    def _heads(self, x: Tensor) -> Any:
        heads = self._parts[2]
        return [head.forward(x) for head in heads] if self.multi_head else heads[0].forward(x)

    def act_numpy(self) -> Callable[[Tree], Any] | None:
        """Returns None: there is no NumPy forward pass."""
        return None
