"""Networks of latent world models."""
