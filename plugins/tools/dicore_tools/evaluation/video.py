"""Videos of episodes: streams rendered frames to ffmpeg while the episodes run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dicore.errors import UsageError
from dicore.interfaces.env import SupportsReplay
from dicore.run.atomic import temporary
from dicore.run.env_factory import BuildContext
from dicore_tools.output_place import check_place

if TYPE_CHECKING:
    from dicore.data import Info, Tree
    from dicore.interfaces.env import Env

__all__ = ["Recorder", "frame_of", "record_env", "watched"]

_LOG = logging.getLogger(__name__)
_HINT = "render() must return uint8 [height, width, 3]; an option render_mode is set to rgb_array"
_DEFAULT_FPS = 30
"""Used if the environment has no `metadata["render_fps"]`."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records each complete episode as `env_<id>_episode_<n>_return_<r>.mp4`.

    A file appears when its episode has ended; an episode that is still running at close is
    discarded. Recording does not change the episodes. Environments with their own recorder
    (`enable_save_replay`) use that.

    Args:
        folder: Folder for the files; created if necessary.
    """

    folder: Path

    def check(self, env: Any) -> None:
        """Renders one frame of a new environment, so that problems are found before the episodes.

        Args:
            env: The compiled section of an environment, as returned by `section`.

        Raises:
            UsageError: a package is missing, the environment cannot render, or the folder cannot
                be created.
        """
        _check_ffmpeg()
        check_place(self.folder, folder=True)
        from dicore.run.env_factory import EnvFactory

        probe = EnvFactory(env, BuildContext())()
        try:
            if not isinstance(probe, SupportsReplay):
                probe.reset()
                frame_of(probe)
        finally:
            getattr(probe, "close", lambda: None)()
        self.folder.mkdir(parents=True, exist_ok=True)

    def section(self, env: Any) -> Any:
        """Returns an environment's section with rendering enabled.

        Calls the section's `with_pictures()` if there is one, else sets an option `render_mode`.
        """
        with_pictures = getattr(env, "with_pictures", None)
        if with_pictures is not None:
            return with_pictures()
        if "render_mode" in env:
            from dicore.config.paths import replace

            return replace(env, ("render_mode",), "rgb_array")
        return env

    def around(self, env_id: int, make: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a factory of a recorded environment.

        Args:
            env_id: Number of the environment, for the file names.
            make: Creates the environment.
        """

        def recorded() -> Any:
            env = make()
            if isinstance(env, SupportsReplay):
                env.enable_save_replay(str(self.folder))
                return env
            return watched(env, VideoWriter(self.folder, env_id))

        return recorded


def record_env(env: Any, folder: str | Path, env_id: int = 0) -> Any:
    """Returns an environment that records each complete episode as a video; see `Recorder`.

    Args:
        env: Its `render` returns images: uint8 [height, width, 3].
        folder: Folder for the files; created if necessary.
        env_id: Number of the environment, for the file names.

    Raises:
        UsageError: a package is missing.
    """
    _check_ffmpeg()
    return watched(env, VideoWriter(Path(folder), env_id))


def _check_ffmpeg() -> None:
    if find_spec("imageio_ffmpeg") is None:
        raise UsageError(
            "recording videos needs the package imageio-ffmpeg",
            hint="pip install 'dicore-tools[video]'",
        )


class Watcher(Protocol):
    """Is told of the episodes of one environment."""

    def begin(self, env: Env, /) -> None:
        """An episode began."""

    def step(self, env: Env, reward: Tree, info: Info, /, *, over: bool) -> None:
        """The environment was stepped; `over`: the episode ended."""

    def drop(self) -> None:
        """The environment is closed."""


class VideoWriter:
    """Writes the frames of one environment's episodes.

    Args:
        folder: Folder for the files.
        env_id: Number of the environment.
    """

    def __init__(self, folder: Path, env_id: int) -> None:
        self._folder = folder
        self._env_id = env_id
        self._episode = -1
        self._pending: Any = None
        self._writer: Any = None
        self._total = 0.0
        self._failed = False

    @property
    def _unfinished(self) -> Path:
        name = f"env_{self._env_id}_episode_{self._episode}.mp4"
        return temporary(self._folder / name).with_suffix(".mp4")

    def begin(self, env: object) -> None:
        """Adds the first frame of an episode; completes the video of a truncated one."""
        if self._writer is not None:
            self._guarded(self._complete)
        if not self._failed:
            self._episode += 1
            self._total = 0.0
            self._pending = frame_of(env)

    def step(self, env: object, reward: Tree, info: Info, *, over: bool) -> None:
        """Adds the frame after a step; completes the video at the end of the episode."""
        if self._failed or self._pending is None:
            return
        self._total += float(np.sum(reward))
        if over and "eval_episode_return" in info:  # of the rewards below wrappers that change them
            with suppress(TypeError, ValueError):
                self._total = float(np.sum(info["eval_episode_return"]))
        self._guarded(lambda: self._write(env))
        if over and self._writer is not None:
            self._guarded(self._complete)

    def _guarded(self, write: Callable[[], None]) -> None:
        """Calls `write`; if the disk or ffmpeg fails, the episodes continue without videos."""
        try:
            write()
        except (OSError, ValueError) as error:
            self._failed = True
            self.drop()
            _LOG.warning("recording of env %d stopped: %s", self._env_id, error)

    def _write(self, env: Any) -> None:
        if self._writer is None:
            self._writer = self._open(env, self._pending)
            self._writer.send(None)
            self._writer.send(self._pending)
        self._writer.send(frame_of(env))

    def drop(self) -> None:
        """Discards the running episode and its unfinished file."""
        writer, self._writer, self._pending = self._writer, None, None
        if writer is not None:
            writer.close()
            self._unfinished.unlink(missing_ok=True)

    def _open(self, env: Env, frame: Tree) -> Any:
        from imageio_ffmpeg import write_frames

        height, width = frame.shape[:2]
        fps = (getattr(env, "metadata", None) or {}).get("render_fps") or _DEFAULT_FPS
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
        total = round(self._total, 1 if abs(self._total) >= 10 else 3)
        stem = f"env_{self._env_id}_episode_{self._episode}_return_{total}"
        target, number = self._folder / f"{stem}.mp4", 0
        while target.exists():  # from an earlier evaluation
            number += 1
            target = self._folder / f"{stem}-{number}.mp4"
        unfinished.replace(target)


def frame_of(env: Any) -> Any:
    """Renders one frame: uint8 [height, width, 3].

    Raises:
        UsageError: the environment cannot render such a frame.
    """
    inner = getattr(env, "unwrapped", env)
    name = str(getattr(getattr(env, "spec", None), "id", None) or type(inner).__name__)
    try:
        frame = env.render()
    except NotImplementedError as error:
        raise UsageError(
            f"environment {name} cannot render: it has no render()", hint=_HINT
        ) from error
    except Exception as error:
        hint = "install the rendering dependencies of its package, often an extra"
        if isinstance(error, AssertionError):
            hint = "its class needs metadata = {'render_modes': ['rgb_array'], 'render_fps': 30}"
        raise UsageError(
            f"environment {name} cannot render: {type(error).__name__}: {error}", hint=hint
        ) from error
    if not (isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3):
        got = f"{frame.dtype} {[*frame.shape]}" if isinstance(frame, np.ndarray) else repr(frame)
        raise UsageError(f"environment {name}: render() returned {got}", hint=_HINT)
    if frame.shape[2] != 3:
        raise UsageError(f"environment {name}: render() returned {[*frame.shape]}", hint=_HINT)
    return np.ascontiguousarray(frame)


def watched(env: Any, watcher: Watcher) -> Any:
    """Returns an environment that tells a watcher of its episodes.

    A Gymnasium env gets a wrapper, so that its own wrappers cannot bypass the watcher; other
    envs are changed in place.
    """
    import gymnasium

    layer: Any = gymnasium.Wrapper(env) if isinstance(env, gymnasium.Env) else env
    reset, step, close = env.reset, env.step, getattr(env, "close", lambda: None)

    @wraps(reset)
    def begin(*args: Any, **kwargs: Any) -> object:
        result = reset(*args, **kwargs)
        watcher.begin(env)
        return result

    @wraps(step)
    def go(action: Tree) -> Any:
        result = step(action)
        over = result[2] if len(result) == 4 else result[2] or result[3]
        watcher.step(env, result[1], result[-1], over=bool(over))
        return result

    @wraps(close)
    def end() -> Any:
        watcher.drop()
        return close()

    layer.reset, layer.step, layer.close = begin, go, end
    return layer
