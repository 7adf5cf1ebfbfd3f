from dicore_contrib.functional import conjugate_gradient as conjugate_gradient
from dicore_contrib.policies.trpo import TRPOPolicy as TRPOPolicy
from dicore_contrib.policies.trpo_config import NPGConfig as NPGConfig
from dicore_contrib.policies.trpo_config import NPGLearnConfig as NPGLearnConfig
from dicore_contrib.policies.trpo_config import TRPOConfig as TRPOConfig
from dicore_contrib.policies.trpo_config import TRPOLearnConfig as TRPOLearnConfig
