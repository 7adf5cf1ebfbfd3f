"""What the log of the advanced buffer keeps in checkpoints."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from dicore.data import Batch
from tests.plugins.buffers.test_advanced import Log, buffer_of, numbered_rows


def test_the_lines_of_a_resumed_buffer_are_those_of_one_that_was_not_interrupted() -> None:
    """Also the number of removed samples, which counts from the last line on."""
    logs = [Log(), Log()]
    monitor: dict[str, Any] = {"sampled_data_attr": {"print_freq": 4, "average_range": 3}}
    buffers = [buffer_of(2, monitor=monitor, log=log) for log in logs]
    for each in buffers:
        each.push(Batch({**numbered_rows(4).columns, "collect_iter": np.zeros(4, np.int64)}))
    for train_iter in range(4):
        for number, each in enumerate(buffers):
            each.sample_batch(2, train_iter)
            if train_iter == 2 and number:
                monitor["periodic_thruput"] = {"seconds": 1e-9}
                resumed = buffer_of(2, monitor=monitor, log=logs[1])
                resumed.load_state_dict(copy.deepcopy(each.state_dict()))
                buffers[1] = resumed
    whole, (parts, by_time) = logs[0].scalars, logs[1].scalars
    assert whole == [parts]
    assert by_time["buffer/removed"] == 0
