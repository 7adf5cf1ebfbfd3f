"""Environments for dicore, and the configs that solve them."""
