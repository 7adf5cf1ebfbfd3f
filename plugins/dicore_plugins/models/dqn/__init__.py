"""Q network of deep Q-learning."""
