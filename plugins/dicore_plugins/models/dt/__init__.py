"""Decision transformer."""
