"""Environments of packages with an API of their own, adapted to Gymnasium's."""
