"""Episodes as mp4 files: an environment's pictures, streamed to ffmpeg while they are played."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dicore.errors import UsageError
from dicore.interfaces.env import SupportsReplay
from dicore.run.atomic import temporary
from dicore.run.env_factory import BuildContext

__all__ = ["Recorder"]

_LOG = logging.getLogger(__name__)
_DRAWING = "let render() return uint8 [height, width, 3]; an option render_mode is set to rgb_array"
_FPS = 30
"""Pictures per second where an environment does not say (`metadata["render_fps"]`)."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records whole episodes into a folder, `env_<id>_episode_<n>_return_<r>.mp4` each.

    A file appears when its episode has ended and is complete; what still runs at the close leaves
    none. Playing is not changed by it. Environments that record by themselves
    (`enable_save_replay`) are left to do so.

    Args:
        folder: Where the files go; made by the first one.
    """

    folder: Path

    def check(self, env: Any) -> None:
        """Makes one environment and looks at its picture, so that nothing fails half-way.

        Args:
            env: The compiled section of an environment, as `section` returned it.

        Raises:
            UsageError: a package is missing, the environment draws no pictures, or the folder
                cannot be made.
        """
        if find_spec("imageio_ffmpeg") is None:
            raise UsageError(
                "recording videos needs the package imageio-ffmpeg",
                hint="pip install 'dicore-tools[video]'",
            )
        from dicore.run.env_factory import env_factory

        probe = env_factory(env, BuildContext())()
        try:
            if not isinstance(probe, SupportsReplay):
                probe.reset()
                _picture(probe)
        finally:
            getattr(probe, "close", lambda: None)()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.folder}: no videos can be written there: {error.strerror or error}"
            ) from error

    def section(self, env: Any) -> Any:
        """Returns an environment's section with drawing switched on.

        A section that knows how (`with_pictures()`) is asked; an option `render_mode` is set.
        """
        draws = getattr(env, "with_pictures", None)
        if draws is not None:
            return draws()
        if "render_mode" in env:
            from dicore.config.plain import replace

            return replace(env, ("render_mode",), "rgb_array")
        return env

    def around(self, env_id: int, make: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a factory of an environment that is recorded.

        Args:
            env_id: Its number, for the names of the files.
            make: Makes the environment.
        """

        def recorded() -> Any:
            env = make()
            if isinstance(env, SupportsReplay):
                env.enable_save_replay(str(self.folder))
                return env
            return _recorded(env, Film(self.folder, env_id))

        return recorded


class Film:
    """The pictures of one environment's episodes.

    Args:
        folder: Where the files go.
        env_id: Number of the environment.
    """

    def __init__(self, folder: Path, env_id: int) -> None:
        self._folder = folder
        self._env_id = env_id
        self._episode = -1
        self._pending: Any = None
        self._writer: Any = None
        self._total = 0.0
        self._broken = False

    @property
    def _unfinished(self) -> Path:
        name = f"env_{self._env_id}_episode_{self._episode}.mp4"
        return temporary(self._folder / name).with_suffix(".mp4")

    def begin(self, env: Any) -> None:
        """Takes the first picture of an episode; one that still ran was cut here, and is kept."""
        if self._writer is not None:
            self._guarded(self._complete)
        if not self._broken:
            self._episode += 1
            self._total = 0.0
            self._pending = _picture(env)

    def step(self, env: Any, reward: Any, *, over: bool) -> None:
        """Takes the picture after a step; the last one completes the file."""
        if self._broken or self._pending is None:
            return
        self._total += float(reward)
        self._guarded(lambda: self._write(env))
        if over and self._writer is not None:
            self._guarded(self._complete)

    def _guarded(self, write: Callable[[], None]) -> None:
        """Writes; when the disk or ffmpeg refuses, playing goes on without a video."""
        try:
            write()
        except (OSError, ValueError) as error:
            self._broken = True
            self.drop()
            _LOG.warning("videos of env %d are not written any more: %s", self._env_id, error)

    def _write(self, env: Any) -> None:
        if self._writer is None:
            self._writer = self._opened(env, self._pending)
            self._writer.send(None)
            self._writer.send(self._pending)
        self._writer.send(_picture(env))

    def drop(self) -> None:
        """Forgets the running episode and what was written of it."""
        writer, self._writer, self._pending = self._writer, None, None
        if writer is not None:
            writer.close()
            self._unfinished.unlink(missing_ok=True)

    def _opened(self, env: Any, picture: Any) -> Any:
        from imageio_ffmpeg import write_frames

        height, width = picture.shape[:2]
        fps = (getattr(env, "metadata", None) or {}).get("render_fps") or _FPS
        self._folder.mkdir(parents=True, exist_ok=True)
        return write_frames(
            str(self._unfinished),
            (width, height),
            fps=fps,
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart", "-threads", "1"],
        )

    def _complete(self) -> None:
        writer, self._writer, self._pending = self._writer, None, None
        writer.close()
        unfinished = self._unfinished
        if not unfinished.is_file() or unfinished.stat().st_size == 0:
            raise OSError(f"ffmpeg wrote nothing to {unfinished}")
        stem = f"env_{self._env_id}_episode_{self._episode}_return_{self._total:.1f}"
        target, number = self._folder / f"{stem}.mp4", 0
        while target.exists():  # of an earlier evaluation
            number += 1
            target = self._folder / f"{stem}-{number}.mp4"
        unfinished.replace(target)


def _picture(env: Any) -> Any:
    """Returns what an environment draws now: uint8 [height, width, 3].

    Raises:
        UsageError: it draws nothing of that kind.
    """
    inner = getattr(env, "unwrapped", env)
    name = str(getattr(getattr(env, "spec", None), "id", None) or type(inner).__name__)
    try:
        picture = env.render()
    except NotImplementedError as error:
        raise UsageError(
            f"environment {name} draws no pictures: it has no render()", hint=_DRAWING
        ) from error
    except Exception as error:
        raise UsageError(
            f"environment {name} cannot draw: {type(error).__name__}: {error}",
            hint="install what its package needs for drawing, often an extra of its own",
        ) from error
    drawn = isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3
    if not drawn or picture.shape[2] != 3:
        raise UsageError(
            f"environment {name} draws no pictures that a video could show", hint=_DRAWING
        )
    return np.ascontiguousarray(picture)


def _recorded(env: Any, film: Film) -> Any:
    """Returns an environment whose episodes go onto a film.

    Gymnasium's get a wrapper, so that nobody steps past it; others are changed in place.
    """
    import gymnasium

    layer: Any = gymnasium.Wrapper(env) if isinstance(env, gymnasium.Env) else env
    reset, step, close = env.reset, env.step, getattr(env, "close", lambda: None)

    @wraps(reset)
    def begin(*args: Any, **kwargs: Any) -> Any:
        result = reset(*args, **kwargs)
        film.begin(env)
        return result

    @wraps(step)
    def go(action: Any) -> Any:
        result = step(action)
        over = result[2] if len(result) == 4 else result[2] or result[3]
        film.step(env, result[1], over=bool(over))
        return result

    @wraps(close)
    def end() -> Any:
        film.drop()
        return close()

    layer.reset, layer.step, layer.close = begin, go, end
    return layer
