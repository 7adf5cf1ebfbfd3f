"""Q-learning and its relatives: the policy follows from the values of discrete actions."""
