from dicore_compat.agents.agent import AgentBase as AgentBase
from dicore_compat.agents.config import AgentCollectConfig as AgentCollectConfig
from dicore_compat.agents.config import AgentConfig as AgentConfig
from dicore_compat.agents.config import AgentLearnConfig as AgentLearnConfig
from dicore_compat.agents.config import TeamConfig as TeamConfig
from dicore_compat.agents.team import Team as Team
from dicore_compat.agents.trajectories import TrajectoryMemory as TrajectoryMemory
