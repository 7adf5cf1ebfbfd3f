"""Env wrappers between environments of one agent and of several."""
