import dicore.config.sections as _sections
from dicore_plugins.lazy import builds as builds
from dicore_plugins.policies.acting import Actor as Actor
from dicore_plugins.policies.acting import as_outputs as as_outputs
from dicore_plugins.policies.acting import single_env_forward as single_env_forward
from dicore_plugins.policies.actor_critic.a2c import A2CPolicy as A2CPolicy
from dicore_plugins.policies.actor_critic.a2c_config import A2CCollectConfig as A2CCollectConfig
from dicore_plugins.policies.actor_critic.a2c_config import A2CConfig as A2CConfig
from dicore_plugins.policies.actor_critic.acer import ACERPolicy as ACERPolicy
from dicore_plugins.policies.actor_critic.acer_config import ACERConfig as ACERConfig
from dicore_plugins.policies.actor_critic.acer_config import ACERLearnConfig as ACERLearnConfig
from dicore_plugins.policies.actor_critic.base import ActorCriticPolicy as ActorCriticPolicy
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticCollectConfig as ActorCriticCollectConfig,
)
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticLearnConfig as ActorCriticLearnConfig,
)
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticPolicyConfig as ActorCriticPolicyConfig,
)
from dicore_plugins.policies.actor_critic.impala import IMPALAPolicy as IMPALAPolicy
from dicore_plugins.policies.actor_critic.impala_config import IMPALAConfig as IMPALAConfig
from dicore_plugins.policies.actor_critic.impala_config import (
    IMPALALearnConfig as IMPALALearnConfig,
)
from dicore_plugins.policies.actor_critic.pg import PGPolicy as PGPolicy
from dicore_plugins.policies.actor_critic.pg_config import PGCollectConfig as PGCollectConfig
from dicore_plugins.policies.actor_critic.pg_config import PGConfig as PGConfig
from dicore_plugins.policies.actor_critic.pg_config import PGLearnConfig as PGLearnConfig
from dicore_plugins.policies.actor_critic.ppg import PPGPolicy as PPGPolicy
from dicore_plugins.policies.actor_critic.ppg_config import PPGConfig as PPGConfig
from dicore_plugins.policies.actor_critic.ppg_config import PPGLearnConfig as PPGLearnConfig
from dicore_plugins.policies.actor_critic.ppo import ClippedPolicy as ClippedPolicy
from dicore_plugins.policies.actor_critic.ppo import PPOPolicy as PPOPolicy
from dicore_plugins.policies.actor_critic.ppo_config import ClippedLearnConfig as ClippedLearnConfig
from dicore_plugins.policies.actor_critic.ppo_config import PPOCollectConfig as PPOCollectConfig
from dicore_plugins.policies.actor_critic.ppo_config import PPOConfig as PPOConfig
from dicore_plugins.policies.actor_critic.ppo_config import PPOLearnConfig as PPOLearnConfig
from dicore_plugins.policies.actor_critic.ppo_offpolicy import PPOOffPolicy as PPOOffPolicy
from dicore_plugins.policies.actor_critic.ppo_offpolicy_config import (
    PPOOffPolicyConfig as PPOOffPolicyConfig,
)
from dicore_plugins.policies.actor_critic.trpo import TRPOPolicy as TRPOPolicy
from dicore_plugins.policies.actor_critic.trpo_config import NPGConfig as NPGConfig
from dicore_plugins.policies.actor_critic.trpo_config import NPGLearnConfig as NPGLearnConfig
from dicore_plugins.policies.actor_critic.trpo_config import TRPOConfig as TRPOConfig
from dicore_plugins.policies.actor_critic.trpo_config import TRPOLearnConfig as TRPOLearnConfig
from dicore_plugins.policies.base import Policy as Policy
from dicore_plugins.policies.base import Results as Results
from dicore_plugins.policies.base import mode_attribute as mode_attribute
from dicore_plugins.policies.continuous.base import ContinuousQPolicy as ContinuousQPolicy
from dicore_plugins.policies.continuous.base_config import ActorQPolicyConfig as ActorQPolicyConfig
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQCollectConfig as ContinuousQCollectConfig,
)
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQLearnConfig as ContinuousQLearnConfig,
)
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQPolicyConfig as ContinuousQPolicyConfig,
)
from dicore_plugins.policies.continuous.crossq import CrossQPolicy as CrossQPolicy
from dicore_plugins.policies.continuous.crossq_config import CrossQConfig as CrossQConfig
from dicore_plugins.policies.continuous.d4pg import D4PGPolicy as D4PGPolicy
from dicore_plugins.policies.continuous.d4pg_config import D4PGConfig as D4PGConfig
from dicore_plugins.policies.continuous.discrete_sac import DiscreteSACPolicy as DiscreteSACPolicy
from dicore_plugins.policies.continuous.discrete_sac_config import (
    DiscreteSACConfig as DiscreteSACConfig,
)
from dicore_plugins.policies.continuous.held_noise import HeldNoise as HeldNoise
from dicore_plugins.policies.continuous.mbpo_config import MBPOConfig as MBPOConfig
from dicore_plugins.policies.continuous.mbpo_config import MBPOOtherConfig as MBPOOtherConfig
from dicore_plugins.policies.continuous.paddpg import PADDPGPolicy as PADDPGPolicy
from dicore_plugins.policies.continuous.paddpg_config import PADDPGConfig as PADDPGConfig
from dicore_plugins.policies.continuous.pdqn import PDQNPolicy as PDQNPolicy
from dicore_plugins.policies.continuous.pdqn_config import HybridQConfig as HybridQConfig
from dicore_plugins.policies.continuous.pdqn_config import HybridQLearnConfig as HybridQLearnConfig
from dicore_plugins.policies.continuous.pdqn_config import PDQNConfig as PDQNConfig
from dicore_plugins.policies.continuous.pdqn_config import PDQNLearnConfig as PDQNLearnConfig
from dicore_plugins.policies.continuous.redq import REDQPolicy as REDQPolicy
from dicore_plugins.policies.continuous.redq_config import DroQConfig as DroQConfig
from dicore_plugins.policies.continuous.redq_config import REDQConfig as REDQConfig
from dicore_plugins.policies.continuous.redq_config import REDQLearnConfig as REDQLearnConfig
from dicore_plugins.policies.continuous.redq_config import SimBaConfig as SimBaConfig
from dicore_plugins.policies.continuous.sac import SACPolicy as SACPolicy
from dicore_plugins.policies.continuous.sac_config import SACCollectConfig as SACCollectConfig
from dicore_plugins.policies.continuous.sac_config import SACConfig as SACConfig
from dicore_plugins.policies.continuous.sac_config import SACLearnConfig as SACLearnConfig
from dicore_plugins.policies.continuous.td3 import TD3Policy as TD3Policy
from dicore_plugins.policies.continuous.td3_config import DDPGConfig as DDPGConfig
from dicore_plugins.policies.continuous.td3_config import TD3CollectConfig as TD3CollectConfig
from dicore_plugins.policies.continuous.td3_config import TD3Config as TD3Config
from dicore_plugins.policies.continuous.td3_config import TD3LearnConfig as TD3LearnConfig
from dicore_plugins.policies.continuous.tqc import TQCPolicy as TQCPolicy
from dicore_plugins.policies.continuous.tqc_config import TQCConfig as TQCConfig
from dicore_plugins.policies.continuous.tqc_config import TQCLearnConfig as TQCLearnConfig
from dicore_plugins.policies.create import create_policy as create_policy
from dicore_plugins.policies.create import get_policy_cls as get_policy_cls
from dicore_plugins.policies.fitting import expect_one_agent as expect_one_agent
from dicore_plugins.policies.imitation.bc import BCPolicy as BCPolicy
from dicore_plugins.policies.imitation.bc import CloningPolicy as CloningPolicy
from dicore_plugins.policies.imitation.bc_config import BCConfig as BCConfig
from dicore_plugins.policies.imitation.bc_config import BCLearnConfig as BCLearnConfig
from dicore_plugins.policies.imitation.bc_config import CloningConfig as CloningConfig
from dicore_plugins.policies.imitation.bc_config import CloningLearnConfig as CloningLearnConfig
from dicore_plugins.policies.imitation.bco import BCOPolicy as BCOPolicy
from dicore_plugins.policies.imitation.bco_config import BCOCollectConfig as BCOCollectConfig
from dicore_plugins.policies.imitation.bco_config import BCOConfig as BCOConfig
from dicore_plugins.policies.imitation.demonstrations import (
    FromDemonstrations as FromDemonstrations,
)
from dicore_plugins.policies.imitation.demonstrations import as_demonstrations as as_demonstrations
from dicore_plugins.policies.imitation.demonstrations_config import (
    DemonstrationsConfig as DemonstrationsConfig,
)
from dicore_plugins.policies.imitation.demonstrations_config import two_buffers as two_buffers
from dicore_plugins.policies.imitation.dqfd import DQfDPolicy as DQfDPolicy
from dicore_plugins.policies.imitation.dqfd_config import DQfDConfig as DQfDConfig
from dicore_plugins.policies.imitation.dqfd_config import DQfDLearnConfig as DQfDLearnConfig
from dicore_plugins.policies.imitation.expert import ExpertPolicy as ExpertPolicy
from dicore_plugins.policies.imitation.expert_config import (
    ExpertCollectConfig as ExpertCollectConfig,
)
from dicore_plugins.policies.imitation.expert_config import ExpertConfig as ExpertConfig
from dicore_plugins.policies.imitation.ibc import IBCPolicy as IBCPolicy
from dicore_plugins.policies.imitation.ibc_config import IBCConfig as IBCConfig
from dicore_plugins.policies.imitation.ibc_config import IBCLearnConfig as IBCLearnConfig
from dicore_plugins.policies.imitation.r2d3 import R2D3Policy as R2D3Policy
from dicore_plugins.policies.imitation.r2d3_config import R2D3Config as R2D3Config
from dicore_plugins.policies.imitation.r2d3_config import R2D3LearnConfig as R2D3LearnConfig
from dicore_plugins.policies.imitation.rbc import RBCPolicy as RBCPolicy
from dicore_plugins.policies.imitation.rbc_config import RBCConfig as RBCConfig
from dicore_plugins.policies.imitation.rbc_config import RBCLearnConfig as RBCLearnConfig
from dicore_plugins.policies.imitation.rlpd import RLPDPolicy as RLPDPolicy
from dicore_plugins.policies.imitation.rlpd_config import RLPDConfig as RLPDConfig
from dicore_plugins.policies.imitation.sqil import SQILPolicy as SQILPolicy
from dicore_plugins.policies.imitation.sqil import SQILSACPolicy as SQILSACPolicy
from dicore_plugins.policies.imitation.sqil_config import SQILConfig as SQILConfig
from dicore_plugins.policies.imitation.sqil_config import SQILSACConfig as SQILSACConfig
from dicore_plugins.policies.offline.awac import AWACPolicy as AWACPolicy
from dicore_plugins.policies.offline.awac_config import AdvantageLearnConfig as AdvantageLearnConfig
from dicore_plugins.policies.offline.awac_config import AWACConfig as AWACConfig
from dicore_plugins.policies.offline.bcq import BCQPolicy as BCQPolicy
from dicore_plugins.policies.offline.bcq_config import BCQConfig as BCQConfig
from dicore_plugins.policies.offline.bcq_config import BCQLearnConfig as BCQLearnConfig
from dicore_plugins.policies.offline.bcq_config import DiscreteBCQConfig as DiscreteBCQConfig
from dicore_plugins.policies.offline.bcq_config import (
    DiscreteBCQLearnConfig as DiscreteBCQLearnConfig,
)
from dicore_plugins.policies.offline.cal_ql import CalQLPolicy as CalQLPolicy
from dicore_plugins.policies.offline.cql import CQLPolicy as CQLPolicy
from dicore_plugins.policies.offline.cql_config import CalQLConfig as CalQLConfig
from dicore_plugins.policies.offline.cql_config import CQLConfig as CQLConfig
from dicore_plugins.policies.offline.cql_config import CQLLearnConfig as CQLLearnConfig
from dicore_plugins.policies.offline.cql_config import DiscreteCQLConfig as DiscreteCQLConfig
from dicore_plugins.policies.offline.cql_config import (
    DiscreteCQLLearnConfig as DiscreteCQLLearnConfig,
)
from dicore_plugins.policies.offline.discrete_bcq import DiscreteBCQPolicy as DiscreteBCQPolicy
from dicore_plugins.policies.offline.discrete_cql import DiscreteCQLPolicy as DiscreteCQLPolicy
from dicore_plugins.policies.offline.dt import DTPolicy as DTPolicy
from dicore_plugins.policies.offline.dt_config import DTConfig as DTConfig
from dicore_plugins.policies.offline.dt_config import DTEvalConfig as DTEvalConfig
from dicore_plugins.policies.offline.dt_config import DTLearnConfig as DTLearnConfig
from dicore_plugins.policies.offline.dt_history import History as History
from dicore_plugins.policies.offline.edac import EDACPolicy as EDACPolicy
from dicore_plugins.policies.offline.edac_config import EDACConfig as EDACConfig
from dicore_plugins.policies.offline.edac_config import EDACLearnConfig as EDACLearnConfig
from dicore_plugins.policies.offline.edac_config import SACNConfig as SACNConfig
from dicore_plugins.policies.offline.iql import IQLPolicy as IQLPolicy
from dicore_plugins.policies.offline.iql_config import IQLConfig as IQLConfig
from dicore_plugins.policies.offline.iql_config import IQLLearnConfig as IQLLearnConfig
from dicore_plugins.policies.offline.iql_config import XQLConfig as XQLConfig
from dicore_plugins.policies.offline.iql_config import XQLLearnConfig as XQLLearnConfig
from dicore_plugins.policies.offline.rebrac import ReBRACPolicy as ReBRACPolicy
from dicore_plugins.policies.offline.td3_bc import TD3BCPolicy as TD3BCPolicy
from dicore_plugins.policies.offline.td3_bc_config import ReBRACConfig as ReBRACConfig
from dicore_plugins.policies.offline.td3_bc_config import ReBRACLearnConfig as ReBRACLearnConfig
from dicore_plugins.policies.offline.td3_bc_config import TD3BCConfig as TD3BCConfig
from dicore_plugins.policies.offline.td3_bc_config import TD3BCLearnConfig as TD3BCLearnConfig
from dicore_plugins.policies.offline.xql import XQLPolicy as XQLPolicy
from dicore_plugins.policies.one_optimizer import OneOptimizerPolicy as OneOptimizerPolicy
from dicore_plugins.policies.random import FixedPolicy as FixedPolicy
from dicore_plugins.policies.random import RandomPolicy as RandomPolicy
from dicore_plugins.policies.random_config import FixedConfig as FixedConfig
from dicore_plugins.policies.random_config import RandomCollectConfig as RandomCollectConfig
from dicore_plugins.policies.random_config import RandomConfig as RandomConfig
from dicore_plugins.policies.recurrent import RecurrentPolicy as RecurrentPolicy
from dicore_plugins.policies.required import unused_options as unused_options
from dicore_plugins.policies.rewards import with_reward_model as with_reward_model
from dicore_plugins.policies.unit_actions import UnitActions as UnitActions
from dicore_plugins.policies.value.bdq import BDQPolicy as BDQPolicy
from dicore_plugins.policies.value.bdq_config import BDQConfig as BDQConfig
from dicore_plugins.policies.value.c51 import C51Policy as C51Policy
from dicore_plugins.policies.value.c51_config import C51Config as C51Config
from dicore_plugins.policies.value.distributional import (
    DistributionalPolicy as DistributionalPolicy,
)
from dicore_plugins.policies.value.dqn import DQNPolicy as DQNPolicy
from dicore_plugins.policies.value.dqn import q_values as q_values
from dicore_plugins.policies.value.dqn_config import DQNCollectConfig as DQNCollectConfig
from dicore_plugins.policies.value.dqn_config import DQNConfig as DQNConfig
from dicore_plugins.policies.value.dqn_config import DQNLearnConfig as DQNLearnConfig
from dicore_plugins.policies.value.dqn_config import DQNOtherConfig as DQNOtherConfig
from dicore_plugins.policies.value.dqn_config import EpsConfig as EpsConfig
from dicore_plugins.policies.value.dqn_config import ValueLearnConfig as ValueLearnConfig
from dicore_plugins.policies.value.dqn_variants import DDQNConfig as DDQNConfig
from dicore_plugins.policies.value.dqn_variants import DuelingConfig as DuelingConfig
from dicore_plugins.policies.value.fqf import FQFPolicy as FQFPolicy
from dicore_plugins.policies.value.fqf_config import FQFConfig as FQFConfig
from dicore_plugins.policies.value.fqf_config import FQFLearnConfig as FQFLearnConfig
from dicore_plugins.policies.value.iqn import IQNPolicy as IQNPolicy
from dicore_plugins.policies.value.iqn_config import IQNConfig as IQNConfig
from dicore_plugins.policies.value.iqn_config import IQNLearnConfig as IQNLearnConfig
from dicore_plugins.policies.value.mdqn import MDQNPolicy as MDQNPolicy
from dicore_plugins.policies.value.mdqn_config import MDQNConfig as MDQNConfig
from dicore_plugins.policies.value.mdqn_config import MDQNLearnConfig as MDQNLearnConfig
from dicore_plugins.policies.value.pqn import PQNPolicy as PQNPolicy
from dicore_plugins.policies.value.pqn_config import PQNConfig as PQNConfig
from dicore_plugins.policies.value.pqn_config import PQNLearnConfig as PQNLearnConfig
from dicore_plugins.policies.value.qrdqn import QRDQNPolicy as QRDQNPolicy
from dicore_plugins.policies.value.qrdqn_config import QRDQNConfig as QRDQNConfig
from dicore_plugins.policies.value.qrdqn_config import QRDQNLearnConfig as QRDQNLearnConfig
from dicore_plugins.policies.value.r2d2 import R2D2Policy as R2D2Policy
from dicore_plugins.policies.value.r2d2_config import R2D2CollectConfig as R2D2CollectConfig
from dicore_plugins.policies.value.r2d2_config import R2D2Config as R2D2Config
from dicore_plugins.policies.value.r2d2_config import R2D2LearnConfig as R2D2LearnConfig
from dicore_plugins.policies.value.rainbow_config import RainbowConfig as RainbowConfig
from dicore_plugins.policies.value.sql import SQLPolicy as SQLPolicy
from dicore_plugins.policies.value.sql_config import SQLConfig as SQLConfig
from dicore_plugins.policies.value.sql_config import SQLLearnConfig as SQLLearnConfig
from dicore_plugins.policies.value.sqn import SQNPolicy as SQNPolicy
from dicore_plugins.policies.value.sqn_config import SQNConfig as SQNConfig
from dicore_plugins.policies.value.sqn_config import SQNLearnConfig as SQNLearnConfig

# Deprecated, see former.py.
A2CLearnConfig = ActorCriticLearnConfig
BCOLearnConfig = CloningLearnConfig
BCOOtherConfig = _sections.OtherConfig
D4PGOtherConfig = _sections.OtherConfig
DDPGLearnConfig = TD3LearnConfig
DQfDOtherConfig = DQNOtherConfig
DTCollectConfig = _sections.CollectConfig
DiscreteSACLearnConfig = SACLearnConfig
IMPALACollectConfig = ActorCriticCollectConfig
IMPALAOtherConfig = _sections.OtherConfig
MBPOLearnConfig = SACLearnConfig
PDQNOtherConfig = DQNOtherConfig
PPOOffPolicyCollectConfig = PPOCollectConfig
PPOOffPolicyLearnConfig = ClippedLearnConfig
PPOOffPolicyOtherConfig = _sections.OtherConfig
PQNCollectConfig = ActorCriticCollectConfig
PQNOtherConfig = DQNOtherConfig
R2D2OtherConfig = DQNOtherConfig
R2D3OtherConfig = DQNOtherConfig
RainbowEpsConfig = EpsConfig
RainbowOtherConfig = DQNOtherConfig
SQILLearnConfig = SQNLearnConfig
SQILOtherConfig = DQNOtherConfig
SQILSACOtherConfig = _sections.OtherConfig
SQNEpsConfig = EpsConfig
SQNOtherConfig = DQNOtherConfig
