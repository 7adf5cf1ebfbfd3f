"""Actor-critic network."""
