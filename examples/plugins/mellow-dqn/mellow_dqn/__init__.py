"""DeepMellow for dicore."""
