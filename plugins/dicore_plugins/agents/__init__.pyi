from dicore_plugins.agents.agent import AgentBase as AgentBase
from dicore_plugins.agents.config import AgentCollectConfig as AgentCollectConfig
from dicore_plugins.agents.config import AgentConfig as AgentConfig
from dicore_plugins.agents.config import AgentLearnConfig as AgentLearnConfig
from dicore_plugins.agents.config import TeamConfig as TeamConfig
from dicore_plugins.agents.team import Team as Team
from dicore_plugins.agents.trajectories import TrajectoryMemory as TrajectoryMemory
