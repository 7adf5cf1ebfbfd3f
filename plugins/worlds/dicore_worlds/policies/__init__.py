"""Algorithms that learn from imagined futures."""
