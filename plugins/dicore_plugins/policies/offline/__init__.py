"""Learning from a dataset alone, with values or sequences."""
