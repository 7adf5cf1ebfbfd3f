"""Tests of async mode."""
