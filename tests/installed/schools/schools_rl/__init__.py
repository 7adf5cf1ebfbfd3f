"""Algorithms of several schools for dicore: on-policy, off-policy, recurrent, whole episodes."""
