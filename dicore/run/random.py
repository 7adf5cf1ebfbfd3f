"""Named random streams and stateless seeds.

Every generator is seeded by a hash of (run seed, name), so adding a component that draws does not
change what the others draw. Torch is seeded only if something else has imported it.

The hash is SplitMix64's finalizer (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
generators", OOPSLA), applied once per part, the number of parts first.
"""

from __future__ import annotations

import operator
import random
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import blake2b
from types import ModuleType
from typing import Any

import numpy as np

from dicore.data import State, StateDict
from dicore.data.tree import loaded_torch

__all__ = [
    "Streams", "ambient_streams", "episode_seed", "hash_seed", "seed_everything", "seeded",
    "stream", "torch_stream",
]  # fmt: skip


class Streams:
    """The random streams of one run; equal seeds give equal streams."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, np.random.Generator] = {}
        self._lock = threading.Lock()
        self._seeds_globals = False
        self._torch_seeded = False

    def stream(self, name: str) -> np.random.Generator:
        """Returns the stream of this name: the same object each time."""
        with self._lock:
            if name not in self._generators:
                bits = np.random.PCG64(hash_seed(self.seed, "numpy", name))
                self._generators[name] = np.random.Generator(bits)
            return self._generators[name]

    @contextmanager
    def torch_stream(self, name: str) -> Iterator[None]:
        """Seeds torch by `name` within a block; afterwards its state is as before.

        The same name gives the same numbers each time, so use a different name for each purpose
        (`model`, `model/target`). Does nothing if torch is not imported.
        """
        torch = loaded_torch()
        if torch is None:
            yield
            return
        self._seed_torch()
        saved = _torch_state(torch)
        seed = hash_seed(self.seed, "torch", name)
        torch.default_generator.manual_seed(seed)
        if "torch_cuda" in saved:
            torch.cuda.manual_seed_all(seed)
        try:
            yield
        finally:
            _restore_torch(torch, saved)

    def seed_globals(self) -> None:
        """Seeds the global generators of `random`, numpy and torch, for code outside of dicore.

        If torch is not imported yet, it is seeded when a method of this object is next called.
        """
        self._seeds_globals = True
        self._torch_seeded = False
        random.seed(hash_seed(self.seed, "python"))
        np.random.seed(hash_seed(self.seed, "numpy_global") >> 32)  # noqa: NPY002 - other packages use it
        self._seed_torch()

    def state_dict(self) -> StateDict:
        """Returns the state of every named stream and of the process's global generators."""
        self._seed_torch()
        with self._lock:
            named = {name: each.bit_generator.state for name, each in self._generators.items()}
        state: dict[str, Any] = {"seed": self.seed, "numpy": named}
        return state | _global_state() if self._seeds_globals else state

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned, also in streams that were returned before."""
        self.seed = state["seed"]
        for name, bits in state["numpy"].items():
            self.stream(name).bit_generator.state = bits
        if "python" not in state:
            return
        self._seeds_globals = True
        self._torch_seeded |= _restore_globals(state)

    def _seed_torch(self) -> None:
        torch = loaded_torch()
        if torch is None or self._torch_seeded or not self._seeds_globals:
            return
        self._torch_seeded = True
        torch.manual_seed(hash_seed(self.seed, "torch"))


def _torch_state(torch: ModuleType) -> dict[str, object]:
    state: dict[str, Any] = {"torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["torch_cuda"] = torch.cuda.get_rng_state_all()
    return state


def _restore_torch(torch: Any, state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if "torch_cuda" in state and torch.cuda.is_initialized():
        torch.cuda.set_rng_state_all(state["torch_cuda"][: torch.cuda.device_count()])


def _global_state() -> dict[str, object]:
    torch = loaded_torch()
    return {
        "python": random.getstate(),
        "numpy_global": np.random.get_state(legacy=False),  # noqa: NPY002 - as above
        **({} if torch is None else _torch_state(torch)),
    }


def _restore_globals(state: Mapping[str, Any]) -> bool:
    """Restores the global generators; returns whether that of torch is among them."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy_global"])  # noqa: NPY002 - as above
    torch = loaded_torch()
    if torch is None or "torch" not in state:
        return False
    _restore_torch(torch, state)
    return True


_ambient: Streams | None = None
_block_streams: ContextVar[Streams | None] = ContextVar("streams of a seeded block", default=None)


def seed_everything(seed: int) -> Streams:
    """Seeds the global generators and the ambient streams of the process; returns the streams."""
    global _ambient  # noqa: PLW0603 - one process, one set of ambient streams
    _ambient = Streams(seed)
    _ambient.seed_globals()
    return _ambient


@contextmanager
def seeded(seed: int) -> Iterator[Streams]:
    """Seeds everything within a block; afterwards all generators are as before.

    Other threads keep their named streams, but share the global generators.
    """
    saved = _global_state()
    streams = Streams(seed)
    token = _block_streams.set(streams)
    try:
        streams.seed_globals()
        yield streams
    finally:
        _block_streams.reset(token)
        _restore_globals(saved)


def ambient_streams() -> Streams:
    """Returns the streams of the `seeded` block, else of the process.

    Without a call of `seed_everything`, the operating system seeds those of the process.
    """
    streams = _block_streams.get()
    if streams is not None:
        return streams
    global _ambient  # noqa: PLW0603 - as above
    if _ambient is None:
        _ambient = Streams(secrets.randbits(31))
    return _ambient


def stream(name: str) -> np.random.Generator:
    """Returns the ambient stream of this name; see `Streams.stream`."""
    return ambient_streams().stream(name)


@contextmanager
def torch_stream(name: str) -> Iterator[None]:
    """Seeds torch by name within a block; see `Streams.torch_stream`."""
    with ambient_streams().torch_stream(name):
        yield


_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15
_MIX_1 = 0xBF58_476D_1CE4_E5B9
_MIX_2 = 0x94D0_49BB_1331_11EB


def hash_seed(*parts: int | str) -> int:
    """Returns a uint64 hash of integers (modulo 2**64) and strings, their types and their order."""
    mixed = _finish(len(parts) + _GOLDEN)
    for part in parts:
        word = _text_word(part) if isinstance(part, str) else operator.index(part)
        mixed = _finish(mixed + word + _GOLDEN & _MASK)
    return mixed


def episode_seed(run_seed: int, role: str, env_id: int, episode: int) -> int:
    """Returns the seed of one episode in [0, 2**31), the same in every env manager.

    `role` is `collector` or `evaluator`; `env_id` counts the environments of a manager, `episode`
    the episodes of an environment.
    """
    mixed = _prefix(run_seed, role) + env_id * _MIX_1 + episode * _GOLDEN & _MASK
    return _finish(mixed) >> 33


def _finish(mixed: int) -> int:
    mixed = (mixed ^ (mixed >> 30)) * _MIX_1 & _MASK
    mixed = (mixed ^ (mixed >> 27)) * _MIX_2 & _MASK
    return mixed ^ (mixed >> 31)


@lru_cache(maxsize=1024)
def _prefix(run_seed: int, role: str) -> int:
    return hash_seed(run_seed, role)


@lru_cache(maxsize=1024)
def _text_word(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"dicore")
    return int.from_bytes(digest.digest(), "little")
