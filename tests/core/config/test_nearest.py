"""FEATURES E10: what a misspelt or misplaced key was meant to be."""

from __future__ import annotations

import pytest

from dicore.config.nearest import nearest

SIBLINGS = ["batch_size", "learning_rate", "priority"]
PATHS = ["policy.learn.batch_size", "env.stop_value", "policy.nstep", "policy.other.priority_size"]


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("lerning_rate", "learning_rate"),
        ("BATCHSIZE", "batch_size"),
        ("batch", "batch_size"),
        ("stopvalue", "env.stop_value"),
        ("n_step", "policy.nstep"),
        ("priority_siz", "policy.other.priority_size"),
        ("priorty", "priority"),
        ("zzz", None),
        ("", None),
        ("value", None),
    ],
)
def test_the_nearest_key_is_a_sibling_or_a_path_elsewhere(key: str, wanted: str | None) -> None:
    assert nearest(key, SIBLINGS, PATHS) == wanted
