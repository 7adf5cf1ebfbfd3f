"""Network of an actor and a critic of actions."""
