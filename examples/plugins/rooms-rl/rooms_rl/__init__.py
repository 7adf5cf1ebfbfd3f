"""Grid worlds of rooms for dicore."""
