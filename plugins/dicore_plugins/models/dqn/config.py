"""Options of the Q network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore_plugins.lazy import builds_network
from dicore_plugins.models.shapes import (
    Conv,
    Part,
    conv_option,
    obs_parts_option,
    obs_shape_option,
    shape_problems,
)


@frozen(kw_only=True)
class DQNModelConfig(ComponentConfig):
    """Q network: MLP for vectors, Nature CNN for images; dueling and multi-discrete heads."""

    obs_shape: int | tuple[int, ...] | None = obs_shape_option()
    action_shape: int | tuple[int, ...] | None = option(
        None, "number of actions, or a number per head; None: read from the env", ge=1
    )
    encoder_hidden_size_list: tuple[int, ...] = option(
        (128, 128, 64),
        "units of each hidden layer; for images the layers follow the convolutions",
        ge=1,
    )
    head_hidden_size_list: tuple[int, ...] = option(
        (), "units of each hidden layer of a head (dueling: of both streams)", ge=1
    )
    dueling: bool = option(
        False, "dueling heads: separate value and advantage streams (Wang et al. 2015)"
    )
    noisy: bool = option(
        False,
        "noisy linear layers in the heads: exploration by learned noise; with it, set other.eps to"
        " 0 (Fortunato et al. 2018)",
    )
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "relu", "activation function of the hidden layers; gelu disables collect.act_by_numpy"
    )
    layer_norm: bool | Literal["last"] = option(
        False,
        "normalise each hidden layer, or only the last one, before its activation; try it if Q"
        " values diverge",
    )
    initial_bias: Literal["zero", "uniform"] = option(
        "zero",
        "initial biases of the hidden layers; uniform as in torch: try it if Q values diverge, and"
        " with layer_norm",
    )
    conv: Conv = conv_option()
    obs_parts: tuple[Part, ...] | None = obs_parts_option()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the shapes that the network does not support; missing ones are bound later."""
        yield from shape_problems(self)

    build = builds_network("dicore_plugins.models.dqn.model:DQN")


@frozen(kw_only=True)
class C51ModelConfig(DQNModelConfig):
    """Q network with the probabilities of fixed returns per action (Bellemare et al. 2017)."""

    n_atom: int = option(51, "number of atoms of the distribution of returns", ge=2)
    v_min: float = option(-10.0, "lowest return of the distribution; lower ones count as it")
    v_max: float = option(10.0, "highest return of the distribution; higher ones count as it")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        if self.v_min >= self.v_max:
            yield "v_min", f"must be < v_max = {self.v_max}, got {self.v_min}"

    build = builds_network("dicore_plugins.models.dqn.distributional:C51")


@frozen(kw_only=True)
class QRDQNModelConfig(DQNModelConfig):
    """Q network with quantiles of the return per action (Dabney et al. 2018)."""

    num_quantiles: int = option(32, "number of quantiles of the return per action", ge=1)

    build = builds_network("dicore_plugins.models.dqn.distributional:QRDQN")


@frozen(kw_only=True)
class RainbowModelConfig(C51ModelConfig):
    """Dueling noisy network with the probabilities of fixed returns (Hessel et al. 2018)."""

    dueling: bool = option(
        True, "dueling heads: separate value and advantage streams (Wang et al. 2015)"
    )
    noisy: bool = option(True, "noisy linear layers in the heads: exploration by learned noise")


@frozen(kw_only=True)
class IQNModelConfig(DQNModelConfig):
    """Q network with the quantile of the return at any fraction (Dabney et al. 2018)."""

    num_quantiles: int = option(
        32, "quantiles whose mean is the value of an action, for acting", ge=1
    )
    num_cosines: int = option(64, "size of the embedding of a fraction", ge=1)

    build = builds_network("dicore_plugins.models.dqn.distributional:IQN")


@frozen(kw_only=True)
class FQFModelConfig(IQNModelConfig):
    """Q network with quantiles of the return at learned fractions (Yang et al. 2019)."""

    build = builds_network("dicore_plugins.models.dqn.distributional:FQF")


@frozen(kw_only=True)
class BDQModelConfig(DQNModelConfig):
    """Q network whose heads share one state value (Tavakoli et al. 2018)."""

    dueling: bool = option(True, "True: the state value is shared by all heads")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what the network does not support."""
        yield from super().check()
        if not self.dueling:
            yield (
                "dueling",
                "the heads of bdq share a state value; set it to True, or model.type=dqn",
            )

    build = builds_network("dicore_plugins.models.dqn.branching:BDQ", dueling=False)


@frozen(kw_only=True)
class SQNModelConfig(DQNModelConfig):
    """Two Q networks and the temperature of their Boltzmann policy, for soft Q-learning."""

    temperature: float = option(
        0.2, "initial entropy temperature; the policy is softmax(Q / temperature)", gt=0
    )

    build = builds_network("dicore_plugins.models.dqn.twin:SQN")


@frozen(kw_only=True)
class DiscreteBCQModelConfig(DQNModelConfig):
    """Q network, and an imitation that limits the choice of actions (Fujimoto et al. 2019)."""

    threshold: float = option(
        0.3,
        "least probability of an action that may be chosen, as a share of the most probable one's;"
        " 0: Q-learning; 1: imitation",
        ge=0,
        le=1,
    )

    build = builds_network("dicore_plugins.models.dqn.constrained:DiscreteBCQNet")


@frozen(kw_only=True)
class DRQNModelConfig(DQNModelConfig):
    """Q network with an LSTM or GRU, for R2D2 (Hausknecht and Stone 2015)."""

    rnn: Literal["lstm", "gru"] = option("lstm", "recurrent layer between encoder and heads")
    rnn_hidden_size: int = option(64, "units of the recurrent layer", ge=1)

    build = builds_network("dicore_plugins.models.dqn.recurrent:DRQN")
