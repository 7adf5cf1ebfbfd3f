"""Policies: one module or folder per algorithm; importing the options needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.lazy import builds
    from dicore_plugins.policies.a2c.config import A2CCollectConfig, A2CConfig, A2CLearnConfig
    from dicore_plugins.policies.a2c.policy import A2CPolicy
    from dicore_plugins.policies.acer.config import ACERConfig, ACERLearnConfig
    from dicore_plugins.policies.acer.policy import ACERPolicy
    from dicore_plugins.policies.actor_critic.config import (
        ActorCriticCollectConfig,
        ActorCriticLearnConfig,
        ActorCriticPolicyConfig,
    )
    from dicore_plugins.policies.actor_critic.policy import ActorCriticPolicy
    from dicore_plugins.policies.awac.config import AdvantageLearnConfig, AWACConfig
    from dicore_plugins.policies.awac.policy import AWACPolicy
    from dicore_plugins.policies.base import (
        Actor,
        Policy,
        as_outputs,
        mode_attribute,
        single_env_forward,
    )
    from dicore_plugins.policies.bc.config import (
        BCConfig,
        BCLearnConfig,
        CloningConfig,
        CloningLearnConfig,
    )
    from dicore_plugins.policies.bc.policy import BCPolicy, CloningPolicy
    from dicore_plugins.policies.bco.config import (
        BCOCollectConfig,
        BCOConfig,
        BCOLearnConfig,
        BCOOtherConfig,
    )
    from dicore_plugins.policies.bco.policy import BCOPolicy
    from dicore_plugins.policies.bcq.config import (
        BCQConfig,
        BCQLearnConfig,
        DiscreteBCQConfig,
        DiscreteBCQLearnConfig,
    )
    from dicore_plugins.policies.bcq.discrete import DiscreteBCQPolicy
    from dicore_plugins.policies.bcq.policy import BCQPolicy
    from dicore_plugins.policies.bdq.config import BDQConfig
    from dicore_plugins.policies.bdq.policy import BDQPolicy
    from dicore_plugins.policies.c51.config import C51Config
    from dicore_plugins.policies.c51.policy import C51Policy
    from dicore_plugins.policies.continuous_q.config import (
        ActorQPolicyConfig,
        ContinuousQCollectConfig,
        ContinuousQLearnConfig,
        ContinuousQPolicyConfig,
    )
    from dicore_plugins.policies.continuous_q.held_noise import HeldNoise
    from dicore_plugins.policies.continuous_q.policy import ContinuousQPolicy
    from dicore_plugins.policies.cql.config import (
        CQLConfig,
        CQLLearnConfig,
        DiscreteCQLConfig,
        DiscreteCQLLearnConfig,
    )
    from dicore_plugins.policies.cql.discrete import DiscreteCQLPolicy
    from dicore_plugins.policies.cql.policy import CQLPolicy
    from dicore_plugins.policies.create import create_policy, get_policy_cls
    from dicore_plugins.policies.crossq.config import CrossQConfig, CrossQLearnConfig
    from dicore_plugins.policies.crossq.policy import CrossQPolicy
    from dicore_plugins.policies.d4pg.config import D4PGConfig, D4PGOtherConfig
    from dicore_plugins.policies.d4pg.policy import D4PGPolicy
    from dicore_plugins.policies.demonstrations.config import DemonstrationsConfig, two_buffers
    from dicore_plugins.policies.demonstrations.policy import FromDemonstrations, as_demonstrations
    from dicore_plugins.policies.discrete_sac.config import (
        DiscreteSACConfig,
        DiscreteSACLearnConfig,
    )
    from dicore_plugins.policies.discrete_sac.policy import DiscreteSACPolicy
    from dicore_plugins.policies.dqfd.config import DQfDConfig, DQfDLearnConfig, DQfDOtherConfig
    from dicore_plugins.policies.dqfd.policy import DQfDPolicy
    from dicore_plugins.policies.dqn.config import (
        DQNCollectConfig,
        DQNConfig,
        DQNLearnConfig,
        DQNOtherConfig,
        EpsConfig,
        ValueLearnConfig,
    )
    from dicore_plugins.policies.dqn.distributional import DistributionalPolicy
    from dicore_plugins.policies.dqn.policy import DQNPolicy, q_values
    from dicore_plugins.policies.dqn.variants import DDQNConfig, DuelingConfig
    from dicore_plugins.policies.dt.config import (
        DTCollectConfig,
        DTConfig,
        DTEvalConfig,
        DTLearnConfig,
    )
    from dicore_plugins.policies.dt.history import History
    from dicore_plugins.policies.dt.policy import DTPolicy
    from dicore_plugins.policies.edac.config import EDACConfig, EDACLearnConfig
    from dicore_plugins.policies.edac.policy import EDACPolicy
    from dicore_plugins.policies.expert.config import ExpertCollectConfig, ExpertConfig
    from dicore_plugins.policies.expert.policy import ExpertPolicy
    from dicore_plugins.policies.fqf.config import FQFConfig, FQFLearnConfig
    from dicore_plugins.policies.fqf.policy import FQFPolicy
    from dicore_plugins.policies.ibc.config import IBCConfig, IBCLearnConfig
    from dicore_plugins.policies.ibc.policy import IBCPolicy
    from dicore_plugins.policies.impala.config import (
        IMPALACollectConfig,
        IMPALAConfig,
        IMPALALearnConfig,
        IMPALAOtherConfig,
    )
    from dicore_plugins.policies.impala.policy import IMPALAPolicy
    from dicore_plugins.policies.iql.config import IQLConfig, IQLLearnConfig
    from dicore_plugins.policies.iql.policy import IQLPolicy
    from dicore_plugins.policies.iqn.config import IQNConfig, IQNLearnConfig
    from dicore_plugins.policies.iqn.policy import IQNPolicy
    from dicore_plugins.policies.mbpo.config import MBPOConfig, MBPOLearnConfig, MBPOOtherConfig
    from dicore_plugins.policies.mdqn.config import MDQNConfig, MDQNLearnConfig
    from dicore_plugins.policies.mdqn.policy import MDQNPolicy
    from dicore_plugins.policies.pdqn.config import PDQNConfig, PDQNLearnConfig, PDQNOtherConfig
    from dicore_plugins.policies.pdqn.policy import PDQNPolicy
    from dicore_plugins.policies.pg.config import PGCollectConfig, PGConfig, PGLearnConfig
    from dicore_plugins.policies.pg.policy import PGPolicy
    from dicore_plugins.policies.ppg.config import PPGConfig, PPGLearnConfig
    from dicore_plugins.policies.ppg.policy import PPGPolicy
    from dicore_plugins.policies.ppo.config import (
        ClippedLearnConfig,
        PPOCollectConfig,
        PPOConfig,
        PPOLearnConfig,
    )
    from dicore_plugins.policies.ppo.policy import ClippedPolicy, PPOPolicy
    from dicore_plugins.policies.ppo_offpolicy.config import (
        PPOOffPolicyCollectConfig,
        PPOOffPolicyConfig,
        PPOOffPolicyLearnConfig,
        PPOOffPolicyOtherConfig,
    )
    from dicore_plugins.policies.ppo_offpolicy.policy import PPOOffPolicy
    from dicore_plugins.policies.pqn.config import (
        PQNCollectConfig,
        PQNConfig,
        PQNLearnConfig,
        PQNOtherConfig,
    )
    from dicore_plugins.policies.pqn.policy import PQNPolicy
    from dicore_plugins.policies.qrdqn.config import QRDQNConfig, QRDQNLearnConfig
    from dicore_plugins.policies.qrdqn.policy import QRDQNPolicy
    from dicore_plugins.policies.r2d2.config import (
        R2D2CollectConfig,
        R2D2Config,
        R2D2LearnConfig,
        R2D2OtherConfig,
    )
    from dicore_plugins.policies.r2d2.policy import R2D2Policy
    from dicore_plugins.policies.r2d3.config import R2D3Config, R2D3LearnConfig, R2D3OtherConfig
    from dicore_plugins.policies.r2d3.policy import R2D3Policy
    from dicore_plugins.policies.rainbow.config import (
        RainbowConfig,
        RainbowEpsConfig,
        RainbowOtherConfig,
    )
    from dicore_plugins.policies.random import (
        FixedConfig,
        FixedPolicy,
        RandomCollectConfig,
        RandomConfig,
        RandomPolicy,
    )
    from dicore_plugins.policies.rbc.config import RBCConfig, RBCLearnConfig
    from dicore_plugins.policies.rbc.policy import RBCPolicy
    from dicore_plugins.policies.rewards import with_reward_model
    from dicore_plugins.policies.sac.config import SACCollectConfig, SACConfig, SACLearnConfig
    from dicore_plugins.policies.sac.policy import SACPolicy
    from dicore_plugins.policies.sqil.config import (
        SQILConfig,
        SQILLearnConfig,
        SQILOtherConfig,
        SQILSACConfig,
        SQILSACOtherConfig,
    )
    from dicore_plugins.policies.sqil.policy import SQILPolicy, SQILSACPolicy
    from dicore_plugins.policies.sqn.config import (
        SQNConfig,
        SQNEpsConfig,
        SQNLearnConfig,
        SQNOtherConfig,
    )
    from dicore_plugins.policies.sqn.policy import SQNPolicy
    from dicore_plugins.policies.td3.config import (
        DDPGConfig,
        DDPGLearnConfig,
        TD3CollectConfig,
        TD3Config,
        TD3LearnConfig,
    )
    from dicore_plugins.policies.td3.policy import TD3Policy
    from dicore_plugins.policies.td3_bc.config import TD3BCConfig, TD3BCLearnConfig
    from dicore_plugins.policies.td3_bc.policy import TD3BCPolicy
    from dicore_plugins.policies.tqc.config import TQCConfig, TQCLearnConfig
    from dicore_plugins.policies.tqc.policy import TQCPolicy
    from dicore_plugins.policies.unit_actions import UnitActions

__all__ = [
    "A2CCollectConfig", "A2CConfig", "A2CLearnConfig", "A2CPolicy", "ACERConfig", "ACERLearnConfig",
    "ACERPolicy", "AWACConfig", "AWACPolicy", "Actor", "ActorCriticCollectConfig",
    "ActorCriticLearnConfig", "ActorCriticPolicy", "ActorCriticPolicyConfig", "ActorQPolicyConfig",
    "AdvantageLearnConfig", "BCConfig", "BCLearnConfig", "BCOCollectConfig", "BCOConfig",
    "BCOLearnConfig", "BCOOtherConfig", "BCOPolicy", "BCPolicy", "BCQConfig", "BCQLearnConfig",
    "BCQPolicy", "BDQConfig", "BDQPolicy", "C51Config", "C51Policy", "CQLConfig", "CQLLearnConfig",
    "CQLPolicy", "ClippedLearnConfig", "ClippedPolicy", "CloningConfig", "CloningLearnConfig",
    "CloningPolicy", "ContinuousQCollectConfig", "ContinuousQLearnConfig", "ContinuousQPolicy",
    "ContinuousQPolicyConfig", "CrossQConfig", "CrossQLearnConfig", "CrossQPolicy", "D4PGConfig",
    "D4PGOtherConfig", "D4PGPolicy", "DDPGConfig", "DDPGLearnConfig", "DDQNConfig",
    "DQNCollectConfig", "DQNConfig", "DQNLearnConfig", "DQNOtherConfig", "DQNPolicy", "DQfDConfig",
    "DQfDLearnConfig", "DQfDOtherConfig", "DQfDPolicy", "DTCollectConfig", "DTConfig",
    "DTEvalConfig", "DTLearnConfig", "DTPolicy", "DemonstrationsConfig", "DiscreteBCQConfig",
    "DiscreteBCQLearnConfig", "DiscreteBCQPolicy", "DiscreteCQLConfig", "DiscreteCQLLearnConfig",
    "DiscreteCQLPolicy", "DiscreteSACConfig", "DiscreteSACLearnConfig", "DiscreteSACPolicy",
    "DistributionalPolicy", "DuelingConfig", "EDACConfig", "EDACLearnConfig", "EDACPolicy",
    "EpsConfig", "ExpertCollectConfig", "ExpertConfig", "ExpertPolicy", "FQFConfig",
    "FQFLearnConfig", "FQFPolicy", "FixedConfig", "FixedPolicy", "FromDemonstrations", "HeldNoise",
    "History", "IBCConfig", "IBCLearnConfig", "IBCPolicy", "IMPALACollectConfig", "IMPALAConfig",
    "IMPALALearnConfig", "IMPALAOtherConfig", "IMPALAPolicy", "IQLConfig", "IQLLearnConfig",
    "IQLPolicy", "IQNConfig", "IQNLearnConfig", "IQNPolicy", "MBPOConfig", "MBPOLearnConfig",
    "MBPOOtherConfig", "MDQNConfig", "MDQNLearnConfig", "MDQNPolicy", "PDQNConfig",
    "PDQNLearnConfig", "PDQNOtherConfig", "PDQNPolicy", "PGCollectConfig", "PGConfig",
    "PGLearnConfig", "PGPolicy", "PPGConfig", "PPGLearnConfig", "PPGPolicy", "PPOCollectConfig",
    "PPOConfig", "PPOLearnConfig", "PPOOffPolicy", "PPOOffPolicyCollectConfig",
    "PPOOffPolicyConfig", "PPOOffPolicyLearnConfig", "PPOOffPolicyOtherConfig", "PPOPolicy",
    "PQNCollectConfig", "PQNConfig", "PQNLearnConfig", "PQNOtherConfig", "PQNPolicy", "Policy",
    "QRDQNConfig", "QRDQNLearnConfig", "QRDQNPolicy", "R2D2CollectConfig", "R2D2Config",
    "R2D2LearnConfig", "R2D2OtherConfig", "R2D2Policy", "R2D3Config", "R2D3LearnConfig",
    "R2D3OtherConfig", "R2D3Policy", "RBCConfig", "RBCLearnConfig", "RBCPolicy", "RainbowConfig",
    "RainbowEpsConfig", "RainbowOtherConfig", "RandomCollectConfig", "RandomConfig", "RandomPolicy",
    "SACCollectConfig", "SACConfig", "SACLearnConfig", "SACPolicy", "SQILConfig", "SQILLearnConfig",
    "SQILOtherConfig", "SQILPolicy", "SQILSACConfig", "SQILSACOtherConfig", "SQILSACPolicy",
    "SQNConfig", "SQNEpsConfig", "SQNLearnConfig", "SQNOtherConfig", "SQNPolicy", "TD3BCConfig",
    "TD3BCLearnConfig", "TD3BCPolicy", "TD3CollectConfig", "TD3Config", "TD3LearnConfig",
    "TD3Policy", "TQCConfig", "TQCLearnConfig", "TQCPolicy", "UnitActions", "ValueLearnConfig",
    "as_demonstrations", "as_outputs", "builds", "create_policy", "get_policy_cls",
    "mode_attribute", "q_values", "single_env_forward", "two_buffers", "with_reward_model",
]  # fmt: skip

_HOMES = {
    ".dt.history": ("History",),
    ".dt.policy": ("DTPolicy",),
    ".dt.config": ("DTCollectConfig", "DTConfig", "DTEvalConfig", "DTLearnConfig"),
    ".mbpo.config": ("MBPOConfig", "MBPOLearnConfig", "MBPOOtherConfig"),
    ".awac.config": ("AWACConfig", "AdvantageLearnConfig"),
    ".awac.policy": ("AWACPolicy",),
    ".bcq.config": ("BCQConfig", "BCQLearnConfig", "DiscreteBCQConfig", "DiscreteBCQLearnConfig"),
    ".bcq.policy": ("BCQPolicy",),
    ".bcq.discrete": ("DiscreteBCQPolicy",),
    ".cql.config": ("CQLConfig", "CQLLearnConfig", "DiscreteCQLConfig", "DiscreteCQLLearnConfig"),
    ".cql.policy": ("CQLPolicy",),
    ".cql.discrete": ("DiscreteCQLPolicy",),
    ".edac.config": ("EDACConfig", "EDACLearnConfig"),
    ".edac.policy": ("EDACPolicy",),
    ".iql.config": ("IQLConfig", "IQLLearnConfig"),
    ".iql.policy": ("IQLPolicy",),
    ".td3_bc.config": ("TD3BCConfig", "TD3BCLearnConfig"),
    ".td3_bc.policy": ("TD3BCPolicy",),
    ".demonstrations.policy": ("FromDemonstrations", "as_demonstrations"),
    ".demonstrations.config": ("DemonstrationsConfig", "two_buffers"),
    ".sqil.policy": ("SQILPolicy", "SQILSACPolicy"),
    ".sqil.config": (
        "SQILConfig",
        "SQILLearnConfig",
        "SQILOtherConfig",
        "SQILSACConfig",
        "SQILSACOtherConfig",
    ),
    ".rbc.policy": ("RBCPolicy",),
    ".rbc.config": ("RBCConfig", "RBCLearnConfig"),
    ".r2d3.policy": ("R2D3Policy",),
    ".r2d3.config": ("R2D3Config", "R2D3LearnConfig", "R2D3OtherConfig"),
    ".ibc.policy": ("IBCPolicy",),
    ".ibc.config": ("IBCConfig", "IBCLearnConfig"),
    ".dqfd.policy": ("DQfDPolicy",),
    ".dqfd.config": ("DQfDConfig", "DQfDLearnConfig", "DQfDOtherConfig"),
    ".bco.policy": ("BCOPolicy",),
    ".bco.config": ("BCOCollectConfig", "BCOConfig", "BCOLearnConfig", "BCOOtherConfig"),
    ".bc.policy": ("BCPolicy", "CloningPolicy"),
    ".bc.config": ("BCConfig", "BCLearnConfig", "CloningConfig", "CloningLearnConfig"),
    ".acer.config": ("ACERConfig", "ACERLearnConfig"),
    ".acer.policy": ("ACERPolicy",),
    ".expert.config": ("ExpertCollectConfig", "ExpertConfig"),
    ".expert.policy": ("ExpertPolicy",),
    ".ppg.config": ("PPGConfig", "PPGLearnConfig"),
    ".ppg.policy": ("PPGPolicy",),
    ".ppo_offpolicy.config": (
        "PPOOffPolicyCollectConfig",
        "PPOOffPolicyConfig",
        "PPOOffPolicyLearnConfig",
        "PPOOffPolicyOtherConfig",
    ),
    ".ppo_offpolicy.policy": ("PPOOffPolicy",),
    ".continuous_q.held_noise": ("HeldNoise",),
    ".tqc.policy": ("TQCPolicy",),
    ".unit_actions": ("UnitActions",),
    ".tqc.config": ("TQCConfig", "TQCLearnConfig"),
    ".sac.config": ("SACCollectConfig", "SACConfig", "SACLearnConfig"),
    ".pdqn.policy": ("PDQNPolicy",),
    ".pdqn.config": ("PDQNConfig", "PDQNLearnConfig", "PDQNOtherConfig"),
    ".discrete_sac.policy": ("DiscreteSACPolicy",),
    ".discrete_sac.config": ("DiscreteSACConfig", "DiscreteSACLearnConfig"),
    ".d4pg.policy": ("D4PGPolicy",),
    ".d4pg.config": ("D4PGConfig", "D4PGOtherConfig"),
    ".crossq.policy": ("CrossQPolicy",),
    ".crossq.config": ("CrossQConfig", "CrossQLearnConfig"),
    ".dqn.variants": ("DDQNConfig", "DuelingConfig"),
    ".sqn.config": ("SQNConfig", "SQNEpsConfig", "SQNLearnConfig", "SQNOtherConfig"),
    ".sqn.policy": ("SQNPolicy",),
    ".pqn.config": ("PQNCollectConfig", "PQNConfig", "PQNLearnConfig", "PQNOtherConfig"),
    ".pqn.policy": ("PQNPolicy",),
    ".fqf.config": ("FQFConfig", "FQFLearnConfig"),
    ".fqf.policy": ("FQFPolicy",),
    ".bdq.config": ("BDQConfig",),
    ".bdq.policy": ("BDQPolicy",),
    ".iqn.config": ("IQNConfig", "IQNLearnConfig"),
    ".iqn.policy": ("IQNPolicy",),
    ".r2d2.config": ("R2D2CollectConfig", "R2D2Config", "R2D2LearnConfig", "R2D2OtherConfig"),
    ".r2d2.policy": ("R2D2Policy",),
    ".rainbow.config": ("RainbowConfig", "RainbowEpsConfig", "RainbowOtherConfig"),
    ".a2c.config": ("A2CCollectConfig", "A2CConfig", "A2CLearnConfig"),
    ".a2c.policy": ("A2CPolicy",),
    ".actor_critic.config": (
        "ActorCriticCollectConfig",
        "ActorCriticLearnConfig",
        "ActorCriticPolicyConfig",
    ),
    ".actor_critic.policy": ("ActorCriticPolicy",),
    ".c51.config": ("C51Config",),
    ".c51.policy": ("C51Policy",),
    ".dqn.distributional": ("DistributionalPolicy",),
    ".mdqn.config": ("MDQNConfig", "MDQNLearnConfig"),
    ".mdqn.policy": ("MDQNPolicy",),
    ".qrdqn.config": ("QRDQNConfig", "QRDQNLearnConfig"),
    ".qrdqn.policy": ("QRDQNPolicy",),
    ".base": ("Actor", "Policy", "as_outputs", "mode_attribute", "single_env_forward"),
    ".create": ("create_policy", "get_policy_cls"),
    "dicore_plugins.lazy": ("builds",),
    ".continuous_q.config": (
        "ActorQPolicyConfig",
        "ContinuousQCollectConfig",
        "ContinuousQLearnConfig",
        "ContinuousQPolicyConfig",
    ),
    ".continuous_q.policy": ("ContinuousQPolicy",),
    ".dqn.config": (
        "DQNCollectConfig",
        "DQNConfig",
        "DQNLearnConfig",
        "DQNOtherConfig",
        "EpsConfig",
        "ValueLearnConfig",
    ),
    ".dqn.policy": ("DQNPolicy", "q_values"),
    ".impala.config": (
        "IMPALACollectConfig",
        "IMPALAConfig",
        "IMPALALearnConfig",
        "IMPALAOtherConfig",
    ),
    ".impala.policy": ("IMPALAPolicy",),
    ".pg.config": ("PGCollectConfig", "PGConfig", "PGLearnConfig"),
    ".pg.policy": ("PGPolicy",),
    ".ppo.config": ("ClippedLearnConfig", "PPOCollectConfig", "PPOConfig", "PPOLearnConfig"),
    ".ppo.policy": ("ClippedPolicy", "PPOPolicy"),
    ".random": (
        "FixedConfig",
        "FixedPolicy",
        "RandomCollectConfig",
        "RandomConfig",
        "RandomPolicy",
    ),
    ".sac.policy": ("SACPolicy",),
    ".td3.config": (
        "DDPGConfig",
        "DDPGLearnConfig",
        "TD3CollectConfig",
        "TD3Config",
        "TD3LearnConfig",
    ),
    ".td3.policy": ("TD3Policy",),
    ".rewards": ("with_reward_model",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
