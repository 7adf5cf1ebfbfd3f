"""Templates of `dicore new`, one file per kind."""
