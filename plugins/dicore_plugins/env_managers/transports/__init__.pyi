from dicore_plugins.env_managers.transports.interface import EnvLayout as EnvLayout
from dicore_plugins.env_managers.transports.interface import IEnvTransport as IEnvTransport
