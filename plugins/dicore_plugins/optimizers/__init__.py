"""Optimizers of flat parameters."""
