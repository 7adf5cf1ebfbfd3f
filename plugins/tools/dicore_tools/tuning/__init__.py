"""Searches for option values with which a training reaches the highest return."""
