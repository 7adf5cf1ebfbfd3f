"""Configs of other frameworks as dicore configs."""
