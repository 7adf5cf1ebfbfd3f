"""R-D01: the process dies at any moment of a save; the old checkpoint or the new one is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dicore.run.checkpoint_store import CheckpointStore

SAVE = """
import os, signal, sys
from pathlib import Path
import numpy as np
from dicore.run import checkpoint_store
from dicore.testing.failpoints import armed
from dicore.run.checkpoint_store import CheckpointStore

folder, when = Path(sys.argv[1]), int(sys.argv[2])
store = CheckpointStore(folder, keep=1)
seen = 0

def die(point):
    global seen
    seen += 1
    if seen == when:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint_store.BESIDE_BYTES = 1
with armed(die):
    store.save(
        sys.argv[3], {"w": np.full(1000, 2.0), "n": 2}, train_iter=2, beside=sys.argv[3] != "best"
    )
    store.settle()
"""


def save_and_die(folder: Path, when: int, name: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", SAVE, str(folder), str(when), name], check=False
    ).returncode


@pytest.mark.parametrize("name", ["best", "iteration_2"])
def test_kill_at_each_point_of_a_save(tmp_path: Path, name: str) -> None:
    """`best` is written by the training, `iteration_2` beside it."""
    import numpy as np

    old = "best" if name == "best" else "iteration_1"
    for when in range(1, 40):
        folder = tmp_path / str(when)
        CheckpointStore(folder).save(old, {"w": np.full(1000, 1.0), "n": 1}, train_iter=1)
        code = save_and_die(folder, when, name)
        reader = CheckpointStore(folder)
        names = reader.names()
        values = {each: reader.load(each)["n"] for each in names}
        assert values, f"no checkpoint is left after point {when}"
        if code == 0:
            assert values == {name: 2}
            assert when > 8, "the save has fewer points than a careful one can have"
            break
        assert code == -signal.SIGKILL
        assert set(values.values()) <= {1, 2}
        assert old in values or values == {name: 2}
        latest = reader.latest()
        assert latest is not None

        writer = CheckpointStore(folder)
        writer.save("final", {"n": 3}, train_iter=3)
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
        assert writer.load(latest)["n"] == values[latest]
    else:
        pytest.fail("the save never came to its end")
