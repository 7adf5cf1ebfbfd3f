"""Collectors: they turn env steps into training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.collectors.sample.collector import SampleCollector

__all__ = ["SampleCollector"]

__getattr__ = lazy(__name__, {"SampleCollector": ".sample.collector"})
