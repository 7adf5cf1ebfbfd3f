"""Board games with rules as array code, and an environment that plays them."""
