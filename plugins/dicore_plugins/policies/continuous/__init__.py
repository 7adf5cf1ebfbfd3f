"""An actor and Q networks over a replay buffer: SAC, TD3 and their relatives."""
