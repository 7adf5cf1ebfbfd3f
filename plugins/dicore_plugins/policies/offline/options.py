"""Options that policies inherit and that have no effect when they learn from a dataset."""

from __future__ import annotations

from functools import partial

from dicore.config.schema import option

__all__ = ["update_per_collect", "update_per_step"]

update_per_collect = partial(option, 1, "no effect: one update per batch of the dataset")
update_per_step = partial(option, None, "no effect: no env steps are collected", gt=0)
