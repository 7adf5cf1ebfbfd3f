"""Decentralised actors that learn from centralised Q networks."""
