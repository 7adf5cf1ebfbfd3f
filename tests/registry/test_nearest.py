"""FEATURES E10: what a misspelt or misplaced key was meant to be."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dicore_registry import nearest

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
        ("lr", "learning_rate"),
        ("BS", "batch_size"),
        ("lrr", "learning_rate"),
        ("sv", "env.stop_value"),
        ("b", ""),
        ("zzz", ""),
        ("", ""),
        ("value", ""),
    ],
)
def test_the_nearest_key_is_a_sibling_or_a_path_elsewhere(key: str, wanted: str) -> None:
    assert nearest(key, SIBLINGS, PATHS) == wanted


KEYS = st.text("abcdeflrst_-X0é", max_size=8)


@given(KEYS, st.lists(KEYS, max_size=4), st.lists(KEYS, max_size=4))
@example("0X0", [], ["00X"])
def test_what_is_passed_over_unlooked_at_was_not_the_nearest(
    key: str, siblings: list[str], paths: list[str]
) -> None:
    """The same as by comparing letter by letter with all of them."""

    def bare(text: str) -> str:
        return text.lower().replace("_", "").replace("-", "")

    def ratio(other: str) -> float:
        if sorted(bare(key)) == sorted(bare(other)) and bare(key) != bare(other):
            return 0.9  # the same letters in another order
        return difflib.SequenceMatcher(None, bare(key), bare(other), autojunk=False).ratio()

    scores = [(ratio(each) + 0.1, each) for each in siblings if ratio(each) >= 0.6]
    if not scores or len(bare(key)) > 4:  # short names of other places are not preferred
        scores += [(ratio(each), each) for each in paths if ratio(each) >= 0.75]
    best = max((score for score, _ in scores), default=0.0)
    wanted = next((each for score, each in scores if score == best), "")
    if not wanted and 1 < len(bare(key)) <= 6:
        short = [bare(key)] + [bare(key)[:i] + bare(key)[i + 1 :] for i in range(2, len(bare(key)))]
        for each in [*siblings, *paths]:
            words = each.lower().rpartition(".")[2].split("_")
            if "".join(word[0] for word in words if word) in short:
                wanted = each
                break
    assert nearest(key, siblings, paths) == wanted


def test_an_endless_key_is_no_misspelt_one() -> None:
    assert nearest("x" * 10_000_000, SIBLINGS, PATHS) == ""
