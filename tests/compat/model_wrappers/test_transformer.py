"""Windows, segments and memories of transformers, of each environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

from dicore.errors import UsageError
from dicore_plugins.models import model_wrap
from tests.plugins.model_wrappers.test_by_env import column
from tests.plugins.model_wrappers.test_wrap import LIBRARIES


class Sequences(nn.Module):
    """Logits [T, K, 1] are the observations; remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def forward(self, obs: Any, memory: Any = None) -> dict[str, Any]:
        self.seen.append(obs)
        if obs.ndim == 2:
            memory = obs * 0 if memory is None else memory
            return {"logit": obs + memory, "memory": obs + memory}
        return {"logit": obs}


@LIBRARIES
@pytest.mark.parametrize("fill", [None, -1.0])
def test_windows_hold_the_last_observations(like: Any, fill: float | None) -> None:
    init = None if fill is None else lambda: like(np.array([fill], np.float32))
    wrap = model_wrap(Sequences(), "transformer_input", seq_len=3, init_fn=init)
    empty = 0.0 if fill is None else fill
    output = wrap(column(like, 1, 10), env_id=[0, 2])
    assert output["input_seq"][:, :, 0].T.tolist() == [[1, empty, empty], [10, empty, empty]]
    assert output["logit"].tolist() == [[1], [10]]
    for step in (2, 3, 4):
        output = wrap(column(like, 10 * step, step), env_id=[2, 0])
    assert output["input_seq"][:, :, 0].T.tolist() == [[20, 30, 40], [2, 3, 4]]
    assert output["logit"].tolist() == [[40], [4]]
    wrap.reset([2])
    output = wrap(column(like, 5, 50), env_id=[0, 2])
    assert output["input_seq"][:, :, 0].T.tolist() == [[3, 4, 5], [50, empty, empty]]
    whole = wrap(column(like, 6, 60), env_id=[0, 2], only_last_logit=False)
    assert whole["logit"].shape == (3, 2, 1)


@LIBRARIES
def test_segments_are_joined(like: Any) -> None:
    model = Sequences()
    obs = like(np.arange(14, dtype=np.float32).reshape(7, 2, 1))
    output = model_wrap(model, "transformer_segment", seq_len=3)(obs)
    assert [len(each) for each in model.seen] == [3, 3, 1]
    assert output["logit"].tolist() == obs.tolist()


def test_memory_goes_with_the_environment() -> None:
    wrap = model_wrap(Sequences(), "transformer_memory", batch_size=3)
    wrap(column(np.asarray, 1, 10), env_id=[0, 2])
    assert wrap(column(np.asarray, 10, 1), env_id=[2, 0])["logit"].tolist() == [[20], [2]]
    wrap.reset([0])
    assert wrap(column(np.asarray, 10, 1), env_id=[2, 0])["logit"].tolist() == [[30], [1]]
    with pytest.raises(UsageError, match="from 0 to 3"):
        wrap(column(np.asarray, 1), env_id=[3])


@pytest.mark.parametrize("name", ["transformer_input", "transformer_segment"])
def test_a_window_of_no_steps_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="seq_len must be >= 1, got 0"):
        model_wrap(Sequences(), name, seq_len=0)
