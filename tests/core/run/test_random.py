"""Named streams: names decide what is drawn, order does not; state goes and comes back."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from dicore.run import random as rng
from dicore.run.random import Streams, seed_everything, seeded, stream, torch_stream

torch = pytest.importorskip("torch")


def draws() -> list[float]:
    """Of every generator there is, one number."""
    return [
        random.random(),
        float(np.random.random()),  # noqa: NPY002 - what foreign code does
        float(torch.rand(())),
        float(stream("x").random()),
    ]


def test_a_stream_is_known_by_name_and_not_by_order() -> None:
    first, second = Streams(3), Streams(3)
    a, b = first.stream("a"), first.stream("b")
    d, c = second.stream("b"), second.stream("a")
    assert a.integers(0, 2**60) == c.integers(0, 2**60)
    assert b.integers(0, 2**60) == d.integers(0, 2**60)
    assert first.stream("a") is a
    assert Streams(4).stream("a").integers(0, 2**60) != Streams(3).stream("a").integers(0, 2**60)
    assert Streams(3).stream("a").integers(0, 2**60) != Streams(3).stream("b").integers(0, 2**60)


def test_seeding_everything_fixes_all_generators() -> None:
    def seeded_draws() -> list[float]:
        seed_everything(11)
        return draws()

    assert seeded_draws() == seeded_draws()


def test_a_seeded_block_leaves_no_trace() -> None:
    seed_everything(11)
    before, undisturbed = draws(), draws()
    seed_everything(11)
    assert draws() == before
    with seeded(5):
        inside = draws()
    with pytest.raises(ZeroDivisionError), seeded(5):
        draws().index(1 / 0)
    assert inside not in (before, undisturbed)
    assert draws() == undisturbed


def test_the_streams_of_a_seeded_block_are_its_threads_alone() -> None:
    seed_everything(3)
    ours = stream("x")
    seen: list[np.random.Generator] = []
    with seeded(5):
        thread = threading.Thread(target=lambda: seen.append(stream("x")))
        thread.start()
        thread.join(60)
        assert stream("x") is not ours
    assert seen == [ours]
    assert stream("x") is ours


def test_a_torch_stream_leaves_the_global_state_alone() -> None:
    seed_everything(0)
    before = torch.get_rng_state()
    with torch_stream("model"):
        first = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with torch_stream("model"):
        assert torch.equal(torch.rand(3), first)
    with torch_stream("other"):
        assert not torch.equal(torch.rand(3), first)
    with pytest.raises(RuntimeError, match="inside"), torch_stream("model"):
        raise RuntimeError("inside")
    assert torch.equal(torch.get_rng_state(), before)


def test_torch_imported_after_seeding_is_seeded_too() -> None:
    program = """
import sys
from dicore.run.random import seed_everything, torch_stream
streams = seed_everything({seed})
assert "torch" not in sys.modules
import torch
with torch_stream("model"):
    pass
print(torch.rand(1).item())
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program.format(seed=seed)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (0, 1)
    ]
    with seeded(0):
        assert float(outputs[0]) == torch.rand(1).item(), "as where it was imported before"
    assert outputs[0] != outputs[1]


def test_state_restores_every_generator_in_place() -> None:
    streams = seed_everything(5)
    kept = streams.stream("buffer")
    kept.random(3)
    state = streams.state_dict()
    expected = [kept.random(), random.random(), float(torch.rand(())), float(np.random.random())]  # noqa: NPY002 - as above

    streams.load_state_dict(state)

    assert [kept.random(), random.random(), float(torch.rand(())), float(np.random.random())] == (  # noqa: NPY002 - as above
        expected
    )
    other = Streams(0)
    other.load_state_dict({"seed": 5, "numpy": state["numpy"]})
    assert other.stream("buffer").random() == expected[0]


def test_streams_of_a_run_do_not_touch_global_generators() -> None:
    random.seed(1)
    expected = random.random()
    random.seed(1)
    state = Streams(9).state_dict()
    assert random.random() == expected
    assert "python" not in state


def test_unseeded_streams_are_made_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng, "_ambient", None)
    assert stream("a") is stream("a")


def test_importing_the_run_package_seeds_and_starts_nothing() -> None:
    """R-J07: no thread, no handler, no seed, no torch at import."""
    program = """
import random, signal, sys, threading
state, handler = random.getstate(), signal.getsignal(signal.SIGTERM)
import dicore
assert not {"numpy", "torch"} & set(sys.modules), "import dicore is light"
import dicore.run.run, dicore.run.checkpoint_store
assert "torch" not in sys.modules
assert random.getstate() == state
assert signal.getsignal(signal.SIGTERM) == handler
assert threading.active_count() == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_state_brings_back_every_generator() -> None:
    """In a process in which they were used for other things meanwhile."""
    streams = seed_everything(11)
    draws()
    state = copy.deepcopy(streams.state_dict())
    wanted = draws()
    draws()
    streams.load_state_dict(state)
    assert draws() == wanted
    seed_everything(12).load_state_dict(state)
    assert draws() == wanted
