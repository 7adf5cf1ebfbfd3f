"""Groups of agents that learn by different algorithms in one environment."""
