"""Actors of teams, and critics that see what the agents do not."""
