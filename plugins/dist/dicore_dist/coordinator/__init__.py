"""Gives work to processes, counts what they did, and replaces those that fail."""
