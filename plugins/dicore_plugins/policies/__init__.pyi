import dicore.config.sections as _sections
from dicore_plugins.lazy import builds as builds
from dicore_plugins.policies.a2c.config import A2CCollectConfig as A2CCollectConfig
from dicore_plugins.policies.a2c.config import A2CConfig as A2CConfig
from dicore_plugins.policies.a2c.policy import A2CPolicy as A2CPolicy
from dicore_plugins.policies.acer.config import ACERConfig as ACERConfig
from dicore_plugins.policies.acer.config import ACERLearnConfig as ACERLearnConfig
from dicore_plugins.policies.acer.policy import ACERPolicy as ACERPolicy
from dicore_plugins.policies.actor_critic.config import (
    ActorCriticCollectConfig as ActorCriticCollectConfig,
)
from dicore_plugins.policies.actor_critic.config import (
    ActorCriticLearnConfig as ActorCriticLearnConfig,
)
from dicore_plugins.policies.actor_critic.config import (
    ActorCriticPolicyConfig as ActorCriticPolicyConfig,
)
from dicore_plugins.policies.actor_critic.policy import ActorCriticPolicy as ActorCriticPolicy
from dicore_plugins.policies.awac.config import AdvantageLearnConfig as AdvantageLearnConfig
from dicore_plugins.policies.awac.config import AWACConfig as AWACConfig
from dicore_plugins.policies.awac.policy import AWACPolicy as AWACPolicy
from dicore_plugins.policies.base import Actor as Actor
from dicore_plugins.policies.base import Policy as Policy
from dicore_plugins.policies.base import as_outputs as as_outputs
from dicore_plugins.policies.base import mode_attribute as mode_attribute
from dicore_plugins.policies.base import single_env_forward as single_env_forward
from dicore_plugins.policies.bc.config import BCConfig as BCConfig
from dicore_plugins.policies.bc.config import BCLearnConfig as BCLearnConfig
from dicore_plugins.policies.bc.config import CloningConfig as CloningConfig
from dicore_plugins.policies.bc.config import CloningLearnConfig as CloningLearnConfig
from dicore_plugins.policies.bc.policy import BCPolicy as BCPolicy
from dicore_plugins.policies.bc.policy import CloningPolicy as CloningPolicy
from dicore_plugins.policies.bco.config import BCOCollectConfig as BCOCollectConfig
from dicore_plugins.policies.bco.config import BCOConfig as BCOConfig
from dicore_plugins.policies.bco.policy import BCOPolicy as BCOPolicy
from dicore_plugins.policies.bcq.config import BCQConfig as BCQConfig
from dicore_plugins.policies.bcq.config import BCQLearnConfig as BCQLearnConfig
from dicore_plugins.policies.bcq.config import DiscreteBCQConfig as DiscreteBCQConfig
from dicore_plugins.policies.bcq.config import DiscreteBCQLearnConfig as DiscreteBCQLearnConfig
from dicore_plugins.policies.bcq.discrete import DiscreteBCQPolicy as DiscreteBCQPolicy
from dicore_plugins.policies.bcq.policy import BCQPolicy as BCQPolicy
from dicore_plugins.policies.bdq.config import BDQConfig as BDQConfig
from dicore_plugins.policies.bdq.policy import BDQPolicy as BDQPolicy
from dicore_plugins.policies.c51.config import C51Config as C51Config
from dicore_plugins.policies.c51.policy import C51Policy as C51Policy
from dicore_plugins.policies.continuous_q.config import ActorQPolicyConfig as ActorQPolicyConfig
from dicore_plugins.policies.continuous_q.config import (
    ContinuousQCollectConfig as ContinuousQCollectConfig,
)
from dicore_plugins.policies.continuous_q.config import (
    ContinuousQLearnConfig as ContinuousQLearnConfig,
)
from dicore_plugins.policies.continuous_q.config import (
    ContinuousQPolicyConfig as ContinuousQPolicyConfig,
)
from dicore_plugins.policies.continuous_q.held_noise import HeldNoise as HeldNoise
from dicore_plugins.policies.continuous_q.policy import ContinuousQPolicy as ContinuousQPolicy
from dicore_plugins.policies.cql.config import CQLConfig as CQLConfig
from dicore_plugins.policies.cql.config import CQLLearnConfig as CQLLearnConfig
from dicore_plugins.policies.cql.config import DiscreteCQLConfig as DiscreteCQLConfig
from dicore_plugins.policies.cql.config import DiscreteCQLLearnConfig as DiscreteCQLLearnConfig
from dicore_plugins.policies.cql.discrete import DiscreteCQLPolicy as DiscreteCQLPolicy
from dicore_plugins.policies.cql.policy import CQLPolicy as CQLPolicy
from dicore_plugins.policies.create import create_policy as create_policy
from dicore_plugins.policies.create import get_policy_cls as get_policy_cls
from dicore_plugins.policies.crossq.config import CrossQConfig as CrossQConfig
from dicore_plugins.policies.crossq.config import CrossQLearnConfig as CrossQLearnConfig
from dicore_plugins.policies.crossq.policy import CrossQPolicy as CrossQPolicy
from dicore_plugins.policies.d4pg.config import D4PGConfig as D4PGConfig
from dicore_plugins.policies.d4pg.policy import D4PGPolicy as D4PGPolicy
from dicore_plugins.policies.demonstrations.config import (
    DemonstrationsConfig as DemonstrationsConfig,
)
from dicore_plugins.policies.demonstrations.config import two_buffers as two_buffers
from dicore_plugins.policies.demonstrations.policy import FromDemonstrations as FromDemonstrations
from dicore_plugins.policies.demonstrations.policy import as_demonstrations as as_demonstrations
from dicore_plugins.policies.discrete_sac.config import DiscreteSACConfig as DiscreteSACConfig
from dicore_plugins.policies.discrete_sac.policy import DiscreteSACPolicy as DiscreteSACPolicy
from dicore_plugins.policies.dqfd.config import DQfDConfig as DQfDConfig
from dicore_plugins.policies.dqfd.config import DQfDLearnConfig as DQfDLearnConfig
from dicore_plugins.policies.dqfd.policy import DQfDPolicy as DQfDPolicy
from dicore_plugins.policies.dqn.config import DQNCollectConfig as DQNCollectConfig
from dicore_plugins.policies.dqn.config import DQNConfig as DQNConfig
from dicore_plugins.policies.dqn.config import DQNLearnConfig as DQNLearnConfig
from dicore_plugins.policies.dqn.config import DQNOtherConfig as DQNOtherConfig
from dicore_plugins.policies.dqn.config import EpsConfig as EpsConfig
from dicore_plugins.policies.dqn.config import ValueLearnConfig as ValueLearnConfig
from dicore_plugins.policies.dqn.distributional import DistributionalPolicy as DistributionalPolicy
from dicore_plugins.policies.dqn.policy import DQNPolicy as DQNPolicy
from dicore_plugins.policies.dqn.policy import q_values as q_values
from dicore_plugins.policies.dqn.variants import DDQNConfig as DDQNConfig
from dicore_plugins.policies.dqn.variants import DuelingConfig as DuelingConfig
from dicore_plugins.policies.dt.config import DTConfig as DTConfig
from dicore_plugins.policies.dt.config import DTEvalConfig as DTEvalConfig
from dicore_plugins.policies.dt.config import DTLearnConfig as DTLearnConfig
from dicore_plugins.policies.dt.history import History as History
from dicore_plugins.policies.dt.policy import DTPolicy as DTPolicy
from dicore_plugins.policies.edac.config import EDACConfig as EDACConfig
from dicore_plugins.policies.edac.config import EDACLearnConfig as EDACLearnConfig
from dicore_plugins.policies.edac.policy import EDACPolicy as EDACPolicy
from dicore_plugins.policies.expert.config import ExpertCollectConfig as ExpertCollectConfig
from dicore_plugins.policies.expert.config import ExpertConfig as ExpertConfig
from dicore_plugins.policies.expert.policy import ExpertPolicy as ExpertPolicy
from dicore_plugins.policies.fqf.config import FQFConfig as FQFConfig
from dicore_plugins.policies.fqf.config import FQFLearnConfig as FQFLearnConfig
from dicore_plugins.policies.fqf.policy import FQFPolicy as FQFPolicy
from dicore_plugins.policies.ibc.config import IBCConfig as IBCConfig
from dicore_plugins.policies.ibc.config import IBCLearnConfig as IBCLearnConfig
from dicore_plugins.policies.ibc.policy import IBCPolicy as IBCPolicy
from dicore_plugins.policies.impala.config import IMPALAConfig as IMPALAConfig
from dicore_plugins.policies.impala.config import IMPALALearnConfig as IMPALALearnConfig
from dicore_plugins.policies.impala.policy import IMPALAPolicy as IMPALAPolicy
from dicore_plugins.policies.iql.config import IQLConfig as IQLConfig
from dicore_plugins.policies.iql.config import IQLLearnConfig as IQLLearnConfig
from dicore_plugins.policies.iql.policy import IQLPolicy as IQLPolicy
from dicore_plugins.policies.iqn.config import IQNConfig as IQNConfig
from dicore_plugins.policies.iqn.config import IQNLearnConfig as IQNLearnConfig
from dicore_plugins.policies.iqn.policy import IQNPolicy as IQNPolicy
from dicore_plugins.policies.mbpo.config import MBPOConfig as MBPOConfig
from dicore_plugins.policies.mbpo.config import MBPOOtherConfig as MBPOOtherConfig
from dicore_plugins.policies.mdqn.config import MDQNConfig as MDQNConfig
from dicore_plugins.policies.mdqn.config import MDQNLearnConfig as MDQNLearnConfig
from dicore_plugins.policies.mdqn.policy import MDQNPolicy as MDQNPolicy
from dicore_plugins.policies.paddpg.config import PADDPGConfig as PADDPGConfig
from dicore_plugins.policies.paddpg.policy import PADDPGPolicy as PADDPGPolicy
from dicore_plugins.policies.pdqn.config import HybridQConfig as HybridQConfig
from dicore_plugins.policies.pdqn.config import HybridQLearnConfig as HybridQLearnConfig
from dicore_plugins.policies.pdqn.config import PDQNConfig as PDQNConfig
from dicore_plugins.policies.pdqn.config import PDQNLearnConfig as PDQNLearnConfig
from dicore_plugins.policies.pdqn.policy import PDQNPolicy as PDQNPolicy
from dicore_plugins.policies.pg.config import PGCollectConfig as PGCollectConfig
from dicore_plugins.policies.pg.config import PGConfig as PGConfig
from dicore_plugins.policies.pg.config import PGLearnConfig as PGLearnConfig
from dicore_plugins.policies.pg.policy import PGPolicy as PGPolicy
from dicore_plugins.policies.ppg.config import PPGConfig as PPGConfig
from dicore_plugins.policies.ppg.config import PPGLearnConfig as PPGLearnConfig
from dicore_plugins.policies.ppg.policy import PPGPolicy as PPGPolicy
from dicore_plugins.policies.ppo.config import ClippedLearnConfig as ClippedLearnConfig
from dicore_plugins.policies.ppo.config import PPOCollectConfig as PPOCollectConfig
from dicore_plugins.policies.ppo.config import PPOConfig as PPOConfig
from dicore_plugins.policies.ppo.config import PPOLearnConfig as PPOLearnConfig
from dicore_plugins.policies.ppo.policy import ClippedPolicy as ClippedPolicy
from dicore_plugins.policies.ppo.policy import PPOPolicy as PPOPolicy
from dicore_plugins.policies.ppo_offpolicy.config import PPOOffPolicyConfig as PPOOffPolicyConfig
from dicore_plugins.policies.ppo_offpolicy.policy import PPOOffPolicy as PPOOffPolicy
from dicore_plugins.policies.pqn.config import PQNConfig as PQNConfig
from dicore_plugins.policies.pqn.config import PQNLearnConfig as PQNLearnConfig
from dicore_plugins.policies.pqn.policy import PQNPolicy as PQNPolicy
from dicore_plugins.policies.qrdqn.config import QRDQNConfig as QRDQNConfig
from dicore_plugins.policies.qrdqn.config import QRDQNLearnConfig as QRDQNLearnConfig
from dicore_plugins.policies.qrdqn.policy import QRDQNPolicy as QRDQNPolicy
from dicore_plugins.policies.r2d2.config import R2D2CollectConfig as R2D2CollectConfig
from dicore_plugins.policies.r2d2.config import R2D2Config as R2D2Config
from dicore_plugins.policies.r2d2.config import R2D2LearnConfig as R2D2LearnConfig
from dicore_plugins.policies.r2d2.policy import R2D2Policy as R2D2Policy
from dicore_plugins.policies.r2d3.config import R2D3Config as R2D3Config
from dicore_plugins.policies.r2d3.config import R2D3LearnConfig as R2D3LearnConfig
from dicore_plugins.policies.r2d3.policy import R2D3Policy as R2D3Policy
from dicore_plugins.policies.rainbow.config import RainbowConfig as RainbowConfig
from dicore_plugins.policies.random import FixedConfig as FixedConfig
from dicore_plugins.policies.random import FixedPolicy as FixedPolicy
from dicore_plugins.policies.random import RandomCollectConfig as RandomCollectConfig
from dicore_plugins.policies.random import RandomConfig as RandomConfig
from dicore_plugins.policies.random import RandomPolicy as RandomPolicy
from dicore_plugins.policies.rbc.config import RBCConfig as RBCConfig
from dicore_plugins.policies.rbc.config import RBCLearnConfig as RBCLearnConfig
from dicore_plugins.policies.rbc.policy import RBCPolicy as RBCPolicy
from dicore_plugins.policies.rewards import with_reward_model as with_reward_model
from dicore_plugins.policies.sac.config import SACCollectConfig as SACCollectConfig
from dicore_plugins.policies.sac.config import SACConfig as SACConfig
from dicore_plugins.policies.sac.config import SACLearnConfig as SACLearnConfig
from dicore_plugins.policies.sac.policy import SACPolicy as SACPolicy
from dicore_plugins.policies.sqil.config import SQILConfig as SQILConfig
from dicore_plugins.policies.sqil.config import SQILSACConfig as SQILSACConfig
from dicore_plugins.policies.sqil.policy import SQILPolicy as SQILPolicy
from dicore_plugins.policies.sqil.policy import SQILSACPolicy as SQILSACPolicy
from dicore_plugins.policies.sql.config import SQLConfig as SQLConfig
from dicore_plugins.policies.sql.config import SQLLearnConfig as SQLLearnConfig
from dicore_plugins.policies.sql.policy import SQLPolicy as SQLPolicy
from dicore_plugins.policies.sqn.config import SQNConfig as SQNConfig
from dicore_plugins.policies.sqn.config import SQNLearnConfig as SQNLearnConfig
from dicore_plugins.policies.sqn.policy import SQNPolicy as SQNPolicy
from dicore_plugins.policies.td3.config import DDPGConfig as DDPGConfig
from dicore_plugins.policies.td3.config import TD3CollectConfig as TD3CollectConfig
from dicore_plugins.policies.td3.config import TD3Config as TD3Config
from dicore_plugins.policies.td3.config import TD3LearnConfig as TD3LearnConfig
from dicore_plugins.policies.td3.policy import TD3Policy as TD3Policy
from dicore_plugins.policies.td3_bc.config import TD3BCConfig as TD3BCConfig
from dicore_plugins.policies.td3_bc.config import TD3BCLearnConfig as TD3BCLearnConfig
from dicore_plugins.policies.td3_bc.policy import TD3BCPolicy as TD3BCPolicy
from dicore_plugins.policies.tqc.config import TQCConfig as TQCConfig
from dicore_plugins.policies.tqc.config import TQCLearnConfig as TQCLearnConfig
from dicore_plugins.policies.tqc.policy import TQCPolicy as TQCPolicy
from dicore_plugins.policies.unit_actions import UnitActions as UnitActions

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
