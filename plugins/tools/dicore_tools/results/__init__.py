"""Tables of results: what to train, what was measured, and the page that shows it."""
