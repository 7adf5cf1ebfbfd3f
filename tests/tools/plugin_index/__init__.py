"""Tests of the index of plugin packages."""
