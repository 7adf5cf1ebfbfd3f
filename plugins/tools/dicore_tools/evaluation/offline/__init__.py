"""Evaluation of a policy on recorded episodes, without an environment."""
