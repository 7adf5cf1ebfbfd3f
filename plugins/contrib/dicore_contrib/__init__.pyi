from dicore_contrib.functional import contrastive_energy_error as contrastive_energy_error
from dicore_contrib.functional import cosine_schedule as cosine_schedule
from dicore_contrib.functional import linear_schedule as linear_schedule
from dicore_contrib.functional import reverse_step as reverse_step
from dicore_contrib.mazes.config import MazeConfig as MazeConfig
from dicore_contrib.mazes.maze import Maze as Maze
from dicore_contrib.mazes.maze import breadth_first as breadth_first
from dicore_contrib.mazes.maze import write_maze_demonstrations as write_maze_demonstrations
from dicore_contrib.models.ars import ARSNet as ARSNet
from dicore_contrib.models.ars_config import ARSModelConfig as ARSModelConfig
from dicore_contrib.models.bro import BRONet as BRONet
from dicore_contrib.models.bro import BroNetLayers as BroNetLayers
from dicore_contrib.models.bro_config import BROModelConfig as BROModelConfig
from dicore_contrib.models.denoiser import Denoiser as Denoiser
from dicore_contrib.models.denoiser_config import DenoiserConfig as DenoiserConfig
from dicore_contrib.models.flash import FlashSACNet as FlashSACNet
from dicore_contrib.models.flash import UnitNormLayers as UnitNormLayers
from dicore_contrib.models.flash_config import FlashSACModelConfig as FlashSACModelConfig
from dicore_contrib.models.gated_transformer import GatedTransformer as GatedTransformer
from dicore_contrib.models.gated_transformer import GRUGate as GRUGate
from dicore_contrib.models.gtrxl import GTrXLDQN as GTrXLDQN
from dicore_contrib.models.gtrxl import GTrXLVAC as GTrXLVAC
from dicore_contrib.models.gtrxl_config import GTrXLDQNModelConfig as GTrXLDQNModelConfig
from dicore_contrib.models.gtrxl_config import GTrXLVACConfig as GTrXLVACConfig
from dicore_contrib.models.mrq import MRQNet as MRQNet
from dicore_contrib.models.mrq_config import MRQModelConfig as MRQModelConfig
from dicore_contrib.models.procedure import ProcedureNet as ProcedureNet
from dicore_contrib.models.procedure_config import ProcedureModelConfig as ProcedureModelConfig
from dicore_contrib.models.qgpo import QGPONet as QGPONet
from dicore_contrib.models.qgpo_config import QGPOModelConfig as QGPOModelConfig
from dicore_contrib.models.recurrent_qac import History as History
from dicore_contrib.models.recurrent_qac import RecurrentQAC as RecurrentQAC
from dicore_contrib.models.recurrent_qac_config import RecurrentQACConfig as RecurrentQACConfig
from dicore_contrib.policies.ars import ARSPolicy as ARSPolicy
from dicore_contrib.policies.ars import ars_step as ars_step
from dicore_contrib.policies.ars_config import ARSCollectConfig as ARSCollectConfig
from dicore_contrib.policies.ars_config import ARSConfig as ARSConfig
from dicore_contrib.policies.ars_config import ARSLearnConfig as ARSLearnConfig
from dicore_contrib.policies.bro import BROPolicy as BROPolicy
from dicore_contrib.policies.bro_config import BROCollectConfig as BROCollectConfig
from dicore_contrib.policies.bro_config import BROConfig as BROConfig
from dicore_contrib.policies.bro_config import BROLearnConfig as BROLearnConfig
from dicore_contrib.policies.diffusion_policy import DiffusionPolicy as DiffusionPolicy
from dicore_contrib.policies.diffusion_policy_config import (
    DiffusionLearnConfig as DiffusionLearnConfig,
)
from dicore_contrib.policies.diffusion_policy_config import (
    DiffusionPolicyConfig as DiffusionPolicyConfig,
)
from dicore_contrib.policies.fast_td3 import FastTD3Policy as FastTD3Policy
from dicore_contrib.policies.fast_td3_config import FastTD3CollectConfig as FastTD3CollectConfig
from dicore_contrib.policies.fast_td3_config import FastTD3Config as FastTD3Config
from dicore_contrib.policies.fast_td3_config import FastTD3LearnConfig as FastTD3LearnConfig
from dicore_contrib.policies.flash_sac import FlashSACPolicy as FlashSACPolicy
from dicore_contrib.policies.flash_sac_config import FlashSACCollectConfig as FlashSACCollectConfig
from dicore_contrib.policies.flash_sac_config import FlashSACConfig as FlashSACConfig
from dicore_contrib.policies.flash_sac_config import FlashSACLearnConfig as FlashSACLearnConfig
from dicore_contrib.policies.mrq import MRQPolicy as MRQPolicy
from dicore_contrib.policies.mrq_config import MRQCollectConfig as MRQCollectConfig
from dicore_contrib.policies.mrq_config import MRQConfig as MRQConfig
from dicore_contrib.policies.mrq_config import MRQLearnConfig as MRQLearnConfig
from dicore_contrib.policies.procedure_cloning import (
    ProcedureCloningPolicy as ProcedureCloningPolicy,
)
from dicore_contrib.policies.procedure_cloning_config import (
    ProcedureCloningConfig as ProcedureCloningConfig,
)
from dicore_contrib.policies.procedure_cloning_config import (
    ProcedureLearnConfig as ProcedureLearnConfig,
)
from dicore_contrib.policies.qgpo import QGPOPolicy as QGPOPolicy
from dicore_contrib.policies.qgpo_config import QGPOConfig as QGPOConfig
from dicore_contrib.policies.qgpo_config import QGPOLearnConfig as QGPOLearnConfig
from dicore_contrib.policies.recurrent_q import RecurrentSACPolicy as RecurrentSACPolicy
from dicore_contrib.policies.recurrent_q import RecurrentTD3Policy as RecurrentTD3Policy
from dicore_contrib.policies.recurrent_q import SequenceQPolicy as SequenceQPolicy
from dicore_contrib.policies.recurrent_q_config import RecurrentSACConfig as RecurrentSACConfig
from dicore_contrib.policies.recurrent_q_config import (
    RecurrentSACLearnConfig as RecurrentSACLearnConfig,
)
from dicore_contrib.policies.recurrent_q_config import RecurrentTD3Config as RecurrentTD3Config
from dicore_contrib.policies.recurrent_q_config import (
    RecurrentTD3LearnConfig as RecurrentTD3LearnConfig,
)
from dicore_contrib.policies.repeated_noise import RepeatedNoise as RepeatedNoise
from dicore_contrib.reward_models.bounded_norm import BoundedRewardNorm as BoundedRewardNorm
from dicore_contrib.reward_models.bounded_norm_config import (
    BoundedRewardNormConfig as BoundedRewardNormConfig,
)
from dicore_contrib.reward_models.pdeil import PDEIL as PDEIL
from dicore_contrib.reward_models.pdeil import Gaussian as Gaussian
from dicore_contrib.reward_models.pdeil_config import PDEILConfig as PDEILConfig
from dicore_contrib.reward_models.pwil import PWIL as PWIL
from dicore_contrib.reward_models.pwil_config import PWILConfig as PWILConfig
