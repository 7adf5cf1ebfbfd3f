"""Encoders: networks that map observations to features, on which models build heads."""
