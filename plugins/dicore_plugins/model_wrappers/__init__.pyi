from dicore_plugins.model_wrappers.base import BaseWrapper as BaseWrapper
from dicore_plugins.model_wrappers.base import model_wrap as model_wrap
from dicore_plugins.model_wrappers.base import register_wrapper as register_wrapper
from dicore_plugins.model_wrappers.by_env import EnvStates as EnvStates
