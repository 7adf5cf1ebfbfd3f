"""Receives programs written for DI-engine and Digideep."""
