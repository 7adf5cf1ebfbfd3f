"""Actor and Q networks for continuous actions."""
