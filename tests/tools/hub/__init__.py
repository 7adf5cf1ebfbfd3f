"""Tests of hubs."""
