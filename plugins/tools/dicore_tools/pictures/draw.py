"""Draws a component to a file: a pipeline or a preset as a graph, an environment as a frame."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError
from dicore.run.atomic import write_file

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["draw", "frame_of_env", "png"]

_STEPS = 20
"""Random env steps before the frame, so that it shows more than a start."""


def draw(component: str, file: str | Path | None = None) -> str:
    """Draws a component; returns lines about it for people.

    Args:
        component: `pipeline/NAME` or `preset/NAME` (the middleware with the fields that they read
            and write, as SVG), or `env/NAME` (a frame after some random steps, as PNG).
        file: Output file; None: the name of the component in the working folder.

    Raises:
        UsageError: components of this kind have no picture, or the file cannot be written.
    """
    kind, slash, name = component.partition("/")
    if kind not in _KINDS or not slash:
        kinds = ", ".join(f"{each}/NAME" for each in _KINDS)
        raise UsageError(f"{component} has no picture", hint=f"one of {kinds} has")
    suffix, make = _KINDS[kind]
    path = Path(file) if file else Path(f"{name.rpartition('/')[2]}{suffix}")
    if path.suffix.lower() != suffix:
        raise UsageError(f"{path}: the picture of a {kind} is a file {suffix}")
    content, text = make(component)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return f"{text}\n{path}"


def _graph(component: str) -> tuple[bytes, str]:
    from dicore_tools.pictures.graph import graph_svg
    from dicore_tools.pictures.middleware import stages_of

    stages = stages_of(component)
    text = f"{component}: {' → '.join(stage.name for stage in stages)}"
    return graph_svg(component, stages).encode(), text


def _frame(component: str) -> tuple[bytes, str]:
    from dicore_tools.commands.check_env import described

    return png(frame_of_env(component)), described(component)


_KINDS: dict[str, tuple[str, Any]] = {
    "env": (".png", _frame),
    "pipeline": (".svg", _graph),
    "preset": (".svg", _graph),
}


def frame_of_env(component: str, steps: int = _STEPS) -> npt.NDArray[np.uint8]:
    """Returns a frame of an environment after random steps.

    Args:
        component: `env/NAME`, a name, or `gymnasium:ID`.
        steps: Number of steps.

    Returns:
        uint8 [height, width, 3].

    Raises:
        UsageError: the environment cannot render, or has options without a default.
    """
    from dicore.config import REQUIRED
    from dicore.config.schema import fields_of
    from dicore.run.env_factory import BuildContext, EnvFactory
    from dicore_tools.commands.check_env import converted, section_of
    from dicore_tools.evaluation.video import Recorder, frame_of

    section = section_of(component)
    missing = [name for name in fields_of(type(section)) if getattr(section, name) is REQUIRED]
    if missing:
        raise UsageError(
            f"{component} has no frame to show: its {' and '.join(missing)} must be set"
        )
    section = Recorder(Path()).section(section)
    env = converted(EnvFactory(section, BuildContext())())
    try:
        _, info = env.reset(seed=0)
        frame = frame_of(env)
        env.action_space.seed(0)
        for _ in range(steps):
            _, _, terminated, truncated, info = env.step(_action(env, info))
            if terminated or truncated:
                break
            frame = frame_of(env)
    finally:
        env.close()
    return np.asarray(frame, np.uint8)


def _action(env: Env, info: Any) -> object:
    """Returns a random action that is allowed."""
    mask = info.get("action_mask") if isinstance(info, dict) else None
    if mask is not None and hasattr(env.action_space, "n"):
        return int(np.flatnonzero(np.asarray(mask))[0])
    return env.action_space.sample()


def png(frame: npt.NDArray[np.uint8]) -> bytes:
    """Returns a picture as a PNG file.

    Args:
        frame: uint8 [height, width, 3].
    """
    height, width = frame.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a filter type, 0, before each row
    rows[:, 1:] = frame.reshape(height, 3 * width)

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 9)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
