"""Runs and data sets in a shared place, each with a card; what is taken from there is data."""
