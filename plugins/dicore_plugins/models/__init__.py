"""Networks and helpers for them; each name imports its module on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.model_wrappers.base import model_wrap, register_wrapper
    from dicore_plugins.models.acer.config import ACERModelConfig
    from dicore_plugins.models.acer.model import ACERNet
    from dicore_plugins.models.bco.config import BCOModelConfig
    from dicore_plugins.models.bco.model import BCONet
    from dicore_plugins.models.create import create_model
    from dicore_plugins.models.dqn.branching import BDQ
    from dicore_plugins.models.dqn.config import (
        BDQModelConfig,
        C51ModelConfig,
        DiscreteBCQModelConfig,
        DQNModelConfig,
        DRQNModelConfig,
        FQFModelConfig,
        QRDQNModelConfig,
        SQNModelConfig,
    )
    from dicore_plugins.models.dqn.constrained import DiscreteBCQNet
    from dicore_plugins.models.dqn.distributional import (
        C51,
        FQF,
        IQN,
        QRDQN,
        AtomHead,
        FractionHead,
        ImplicitHead,
    )
    from dicore_plugins.models.dqn.model import DQN, QHead
    from dicore_plugins.models.dqn.recurrent import DRQN
    from dicore_plugins.models.dqn.twin import SQN
    from dicore_plugins.models.dt.config import DTModelConfig
    from dicore_plugins.models.dt.model import CausalBlock, DecisionTransformer
    from dicore_plugins.models.ebm.config import EBMConfig
    from dicore_plugins.models.ebm.model import EBM
    from dicore_plugins.models.encoders.conv import ImpalaConv, NatureConv, SmallConv, image_encoder
    from dicore_plugins.models.encoders.ensemble import EnsembleMLP
    from dicore_plugins.models.encoders.mlp import MLP, initialise
    from dicore_plugins.models.encoders.nested import Nested
    from dicore_plugins.models.encoders.noisy import NoisyMLP
    from dicore_plugins.models.encoders.observation import ObsEncoder
    from dicore_plugins.models.encoders.recurrent import Recurrent
    from dicore_plugins.models.encoders.renorm import BatchRenorm
    from dicore_plugins.models.flat import Flat
    from dicore_plugins.models.ppg.config import PPGModelConfig
    from dicore_plugins.models.ppg.model import PPGNet
    from dicore_plugins.models.qac.config import (
        ActorQModelConfig,
        BCQModelConfig,
        CrossQModelConfig,
        D4PGModelConfig,
        DiscreteSACModelConfig,
        IQLModelConfig,
        PDQNModelConfig,
        QACConfig,
        TQCModelConfig,
    )
    from dicore_plugins.models.qac.discrete import DiscreteQAC
    from dicore_plugins.models.qac.distributional import CategoricalQAC, QuantileQAC
    from dicore_plugins.models.qac.fixed_std import FixedStdActor
    from dicore_plugins.models.qac.gsde import StateDependentActor
    from dicore_plugins.models.qac.hybrid import PDQN
    from dicore_plugins.models.qac.model import QAC
    from dicore_plugins.models.qac.offline import BCQNet, IQLNet
    from dicore_plugins.models.running_norm import RunningNorm
    from dicore_plugins.models.shapes import (
        action_options,
        action_shape_problem,
        action_start,
        box_options,
        discrete_shape,
        hybrid_options,
        obs_shape_problem,
        observation_options,
        options_for,
        vector_discrete_shape,
    )
    from dicore_plugins.models.vac.config import VACConfig
    from dicore_plugins.models.vac.model import VAC

__all__ = [
    "BDQ",
    "C51",
    "DQN",
    "DRQN",
    "EBM",
    "FQF",
    "IQN",
    "MLP",
    "PDQN",
    "QAC",
    "QRDQN",
    "SQN",
    "VAC",
    "ACERModelConfig",
    "ACERNet",
    "ActorQModelConfig",
    "AtomHead",
    "BCOModelConfig",
    "BCONet",
    "BCQModelConfig",
    "BCQNet",
    "BDQModelConfig",
    "BatchRenorm",
    "C51ModelConfig",
    "CategoricalQAC",
    "CausalBlock",
    "CrossQModelConfig",
    "D4PGModelConfig",
    "DQNModelConfig",
    "DRQNModelConfig",
    "DTModelConfig",
    "DecisionTransformer",
    "DiscreteBCQModelConfig",
    "DiscreteBCQNet",
    "DiscreteQAC",
    "DiscreteSACModelConfig",
    "EBMConfig",
    "EnsembleMLP",
    "FQFModelConfig",
    "FixedStdActor",
    "Flat",
    "FractionHead",
    "IQLModelConfig",
    "IQLNet",
    "IQNModelConfig",
    "ImpalaConv",
    "ImplicitHead",
    "NatureConv",
    "Nested",
    "NoisyMLP",
    "ObsEncoder",
    "PDQNModelConfig",
    "PPGModelConfig",
    "PPGNet",
    "QACConfig",
    "QHead",
    "QRDQNModelConfig",
    "QuantileQAC",
    "RainbowModelConfig",
    "Recurrent",
    "RunningNorm",
    "SQNModelConfig",
    "SmallConv",
    "StateDependentActor",
    "TQCModelConfig",
    "VACConfig",
    "action_options",
    "action_shape_problem",
    "action_start",
    "box_options",
    "create_model",
    "discrete_shape",
    "hybrid_options",
    "image_encoder",
    "initialise",
    "model_wrap",
    "obs_shape_problem",
    "observation_options",
    "options_for",
    "register_wrapper",
    "vector_discrete_shape",
]

_HOMES = {
    ".dt.model": (
        "CausalBlock",
        "DecisionTransformer",
    ),
    ".dt.config": ("DTModelConfig",),
    ".dqn.constrained": ("DiscreteBCQNet",),
    ".qac.fixed_std": ("FixedStdActor",),
    ".qac.offline": (
        "BCQNet",
        "IQLNet",
    ),
    ".ebm.model": ("EBM",),
    ".ebm.config": ("EBMConfig",),
    ".bco.model": ("BCONet",),
    ".bco.config": ("BCOModelConfig",),
    ".acer.config": ("ACERModelConfig",),
    ".acer.model": ("ACERNet",),
    ".ppg.config": ("PPGModelConfig",),
    ".ppg.model": ("PPGNet",),
    ".encoders.renorm": ("BatchRenorm",),
    ".qac.hybrid": ("PDQN",),
    ".qac.gsde": ("StateDependentActor",),
    ".qac.distributional": (
        "CategoricalQAC",
        "QuantileQAC",
    ),
    ".qac.discrete": ("DiscreteQAC",),
    ".qac.config": (
        "BCQModelConfig",
        "IQLModelConfig",
        "CrossQModelConfig",
        "D4PGModelConfig",
        "DiscreteSACModelConfig",
        "PDQNModelConfig",
        "TQCModelConfig",
        "ActorQModelConfig",
        "QACConfig",
    ),
    ".encoders.noisy": ("NoisyMLP",),
    ".dqn.distributional": (
        "C51",
        "IQN",
        "ImplicitHead",
        "FQF",
        "FractionHead",
        "QRDQN",
        "AtomHead",
    ),
    ".create": ("create_model",),
    ".dqn.config": (
        "DiscreteBCQModelConfig",
        "C51ModelConfig",
        "IQNModelConfig",
        "RainbowModelConfig",
        "DQNModelConfig",
        "DRQNModelConfig",
        "BDQModelConfig",
        "FQFModelConfig",
        "SQNModelConfig",
        "QRDQNModelConfig",
    ),
    ".dqn.branching": ("BDQ",),
    ".dqn.twin": ("SQN",),
    ".dqn.recurrent": ("DRQN",),
    ".encoders.recurrent": ("Recurrent",),
    ".dqn.model": (
        "DQN",
        "QHead",
    ),
    ".encoders.conv": (
        "ImpalaConv",
        "NatureConv",
        "SmallConv",
        "image_encoder",
    ),
    ".encoders.ensemble": ("EnsembleMLP",),
    ".encoders.mlp": (
        "MLP",
        "initialise",
    ),
    ".encoders.nested": ("Nested",),
    ".encoders.observation": ("ObsEncoder",),
    ".flat": ("Flat",),
    ".qac.model": ("QAC",),
    ".running_norm": ("RunningNorm",),
    ".shapes": (
        "action_options",
        "action_shape_problem",
        "action_start",
        "box_options",
        "discrete_shape",
        "hybrid_options",
        "obs_shape_problem",
        "observation_options",
        "options_for",
        "vector_discrete_shape",
    ),
    ".vac.config": ("VACConfig",),
    ".vac.model": ("VAC",),
    "dicore_plugins.model_wrappers.base": (
        "model_wrap",
        "register_wrapper",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
