"""Components for dicore."""
