"""Algorithms as another package would write them, from public names alone."""
