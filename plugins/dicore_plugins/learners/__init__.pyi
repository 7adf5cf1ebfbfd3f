from dicore_plugins.learners.base.config import BaseLearnerConfig as BaseLearnerConfig
from dicore_plugins.learners.base.learner import BaseLearner as BaseLearner
