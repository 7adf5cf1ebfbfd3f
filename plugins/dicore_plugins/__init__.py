"""The standard components of dicore; each is asked for by its registered name."""
