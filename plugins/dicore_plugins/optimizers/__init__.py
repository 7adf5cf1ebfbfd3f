"""Optimizers for flat parameters."""
