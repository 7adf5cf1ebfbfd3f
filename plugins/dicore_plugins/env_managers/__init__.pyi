from dicore_plugins.env_managers.actions import ActionLog as ActionLog
from dicore_plugins.env_managers.actions import action_check_of as action_check_of
from dicore_plugins.env_managers.actions import actions_of as actions_of
from dicore_plugins.env_managers.actions import batch_of as batch_of
from dicore_plugins.env_managers.actions import draw_actions as draw_actions
from dicore_plugins.env_managers.asynchronous.config import (
    AsyncSubprocessConfig as AsyncSubprocessConfig,
)
from dicore_plugins.env_managers.asynchronous.config import (
    EnvSupervisorConfig as EnvSupervisorConfig,
)
from dicore_plugins.env_managers.asynchronous.manager import AsyncEnvManager as AsyncEnvManager
from dicore_plugins.env_managers.asynchronous.manager import AsyncSteps as AsyncSteps
from dicore_plugins.env_managers.base.config import BaseManagerConfig as BaseManagerConfig
from dicore_plugins.env_managers.base.manager import BaseEnvManager as BaseEnvManager
from dicore_plugins.env_managers.env_pool import EnvPool as EnvPool
from dicore_plugins.env_managers.episodes import reset_ended as reset_ended
from dicore_plugins.env_managers.faults import RemoteError as RemoteError
from dicore_plugins.env_managers.goals import GoalFunctions as GoalFunctions
from dicore_plugins.env_managers.setting import build_env as build_env
from dicore_plugins.env_managers.setting import get_vec_env_setting as get_vec_env_setting
from dicore_plugins.env_managers.subprocess.config import (
    SyncSubprocessConfig as SyncSubprocessConfig,
)
from dicore_plugins.env_managers.subprocess.manager import (
    SyncSubprocessManager as SyncSubprocessManager,
)
from dicore_plugins.env_managers.subprocess.pool import ProcessPool as ProcessPool
from dicore_plugins.env_managers.threads.config import ThreadManagerConfig as ThreadManagerConfig
from dicore_plugins.env_managers.threads.manager import ThreadEnvManager as ThreadEnvManager
from dicore_plugins.env_managers.threads.pool import ThreadPool as ThreadPool
from dicore_plugins.env_managers.transports.interface import EnvLayout as EnvLayout
from dicore_plugins.env_managers.transports.interface import IEnvTransport as IEnvTransport
from dicore_plugins.env_managers.transports.shared_memory import SharedMemory as SharedMemory
from dicore_plugins.env_managers.vector.config import EnvPoolConfig as EnvPoolConfig
from dicore_plugins.env_managers.vector.config import VectorManagerConfig as VectorManagerConfig
from dicore_plugins.env_managers.vector.config import VectorOptions as VectorOptions
from dicore_plugins.env_managers.vector.envpool import EnvPoolManager as EnvPoolManager
from dicore_plugins.env_managers.vector.envpool import EnvPoolPool as EnvPoolPool
from dicore_plugins.env_managers.vector.manager import VectorEnvManager as VectorEnvManager
from dicore_plugins.env_managers.vector.pool import SAME_STEP as SAME_STEP
from dicore_plugins.env_managers.vector.pool import VectorPool as VectorPool
