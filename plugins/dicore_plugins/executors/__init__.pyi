from dicore_plugins.executors.interface import IExecutor as IExecutor
from dicore_plugins.executors.log import lag_logger as lag_logger
from dicore_plugins.executors.threads import ThreadExecutor as ThreadExecutor
