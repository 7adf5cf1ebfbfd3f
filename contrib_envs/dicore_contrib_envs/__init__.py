"""Environments for dicore, with presets that solve them."""
