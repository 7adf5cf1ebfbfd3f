"""Ranks the runs of a folder per environment."""
