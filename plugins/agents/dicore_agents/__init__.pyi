from dicore_agents.envs.agents_env import AgentsEnv as AgentsEnv
from dicore_agents.envs.kuhn_poker import KuhnPoker as KuhnPoker
from dicore_agents.envs.matrix_game import MatrixGame as MatrixGame
from dicore_agents.envs.tictactoe import TicTacToe as TicTacToe
from dicore_agents.envs.tuples import TuplesAsParallel as TuplesAsParallel
from dicore_agents.envs.turns import TurnsAsParallel as TurnsAsParallel
from dicore_agents.envs.two_step_game import TwoStepGame as TwoStepGame
