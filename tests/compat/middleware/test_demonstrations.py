"""SQIL with a collector of its own for the expert."""

from __future__ import annotations

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.task import OnlineRLContext
from dicore_compat.middleware import sqil_data_pusher
from dicore_plugins.buffers import NaiveReplayBuffer


@pytest.mark.parametrize("expert", [False, True])
@pytest.mark.parametrize("as_rows", [False, True])
def test_sqil_data_pusher_sets_the_reward(expert: bool, as_rows: bool) -> None:
    """J44: of any reward; the steps themselves are not changed."""
    buffer = NaiveReplayBuffer({"replay_buffer_size": 20})
    data = Batch({"obs": np.zeros((5, 2), np.float32), "reward": np.full(5, 3.5, np.float32)})
    ctx = OnlineRLContext(trajectories=data.rows() if as_rows else data)
    sqil_data_pusher(None, buffer, expert=expert)(ctx)
    assert buffer.sample_batch(5)["reward"].tolist() == [float(expert)] * 5
    assert ctx.trajectories is None
    assert data["reward"].tolist() == [3.5] * 5
    several = Batch({**data.columns, "value_gamma": np.ones(5)})
    ctx = OnlineRLContext(trajectories=several.rows() if as_rows else several)
    with pytest.raises(UsageError, match=r"set policy\.nstep=1"):
        sqil_data_pusher(None, buffer, expert=expert)(ctx)
