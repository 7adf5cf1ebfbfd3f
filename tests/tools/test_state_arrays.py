"""States as arrays: what is no number becomes its text."""

from __future__ import annotations

from dicore_tools.state_arrays import texts_of


def test_numbers_of_64_bits_stay_numbers_and_others_become_text() -> None:
    state = {"small": -3, "large": 2**64, "low": -(2**63) - 1, "none": None, "empty": []}
    found = dict(texts_of(state))
    assert (found["small"].dtype.kind, found["small"].item()) == ("i", -3)
    texts = [str(found[name]) for name in ("large", "low", "none", "empty")]
    assert texts == [str(2**64), str(-(2**63) - 1), "None", "[]"]
