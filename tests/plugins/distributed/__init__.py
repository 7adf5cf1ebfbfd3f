"""Tests of training in several processes."""
