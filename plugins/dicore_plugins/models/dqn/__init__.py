"""Q network of DQN."""
