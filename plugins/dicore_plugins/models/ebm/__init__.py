"""Energy-based model of actions."""
