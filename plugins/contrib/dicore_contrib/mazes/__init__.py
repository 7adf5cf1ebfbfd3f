"""Mazes, and breadth-first search in them."""
