"""A package of components for dicore."""
