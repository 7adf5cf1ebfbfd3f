"""Plays episodes to look at: in a window, in the terminal, as a video, or just to run them.

Nothing is trained, and no parameter changes.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dicore.data import EnvBatch, Info
from dicore.errors import DicoreError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext, EnvFactory, make_env_manager
from dicore.run.random import seeded
from dicore_tools.evaluation.env_states import go_on
from dicore_tools.evaluation.policy_loader import TrainedPolicy
from dicore_tools.evaluation.video import Recorder, frame_of, watched

if TYPE_CHECKING:
    from dicore.data import Tree
    from dicore.interfaces.env import Env, Space
    from dicore.interfaces.env_manager import IEnvManager

__all__ = ["SHOWS", "Played", "Viewer", "play"]

Show = Literal["window", "text", "video", "none"]
SHOWS: tuple[Show, ...] = ("window", "text", "video", "none")
_DEFAULT_FPS = 30
_SHADES = " .:-=+*#%@"
"""Characters from dark to bright, for terminals without colours."""


@dataclass(frozen=True, slots=True)
class Played:
    """What was played.

    Args:
        returns: Undiscounted return of each complete episode.
        steps: Number of env steps.
        videos: Recorded files.
    """

    returns: list[float] = field(default_factory=list)
    steps: int = 0
    videos: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        """`3 episodes, 57 env steps, mean return 19.00`."""
        count = len(self.returns)
        parts = [f"{count} episode{'' if count == 1 else 's'}", f"{self.steps} env steps"]
        if count:
            parts.append(f"mean return {sum(self.returns) / count:.2f}")
        return ", ".join(parts)


def play(
    trained: TrainedPolicy,
    *,
    show: Show = "none",
    n_episode: int = 1,
    max_step: int | None = None,
    delay: float | None = None,
    folder: Path = Path("video"),
    idle: bool = False,
) -> Played:
    """Plays episodes of one environment with a policy that acts as in evaluation.

    Args:
        trained: The policy with its environment.
        show: Where the episodes are seen.
        n_episode: Number of episodes.
        max_step: Env steps after which playing ends within an episode; None: no limit.
        delay: Seconds between two frames; None: as the environment says. In a window the
            environment keeps its own time.
        folder: Folder of the videos.
        idle: Always take the same action (zeros if the space has them), not the policy's.

    Raises:
        UsageError: the environment cannot be shown so, videos cannot be recorded, or the delay is
            not finite.
    """
    if delay is not None and not math.isfinite(delay):
        raise UsageError(f"a delay of {delay} s cannot be waited for", hint="pass a finite number")
    compiled = trained.compiled
    recorder: Any = Recorder(folder) if show == "video" else Viewer(show, delay)
    known = _files(folder) if show == "video" else set()
    with seeded(compiled.seed):
        manager = make_env_manager(
            compiled.env, "evaluator", compiled.seed, at_most=1, recorder=recorder
        )
        try:
            forward, reset = _actor(trained, manager, idle)
            played = _episodes(manager, forward, reset, n_episode, max_step)
        finally:
            manager.close()
    if show != "video":
        return played
    return Played(played.returns, played.steps, sorted(_files(folder) - known))


def _actor(
    trained: TrainedPolicy, manager: IEnvManager, idle: bool
) -> tuple[Any, Callable[..., Any]]:
    """Returns the functions that act, and that begin an episode."""
    spec = EnvSpec.of(manager)
    if idle:
        action = _still(spec.action)
        return (lambda obs: {i: {"action": action} for i in obs}), lambda *_: None
    context = BuildContext(spec, seed=trained.compiled.seed)
    policy, state = trained.build(context)
    if state.policy is not None:
        go_on(manager, trained.compiled.env, state.env_states)
    mode = policy.eval_mode
    return mode.forward, mode.reset


def _still(space: Space) -> Any:
    """Returns the action of zeros, or one of the space if zeros are not in it."""
    space.seed(0)
    sample = space.sample()
    try:
        zeros = np.zeros_like(sample)
        zeros = zeros if np.ndim(sample) else type(sample)(0)
        return zeros if space.contains(zeros) else sample
    except (TypeError, ValueError):
        return sample


def _episodes(
    manager: IEnvManager,
    forward: Any,
    reset: Callable[..., object],
    n_episode: int,
    max_step: int | None,
) -> Played:
    manager.launch()
    reset()
    returns: list[float] = []
    steps = 0
    while len(returns) < n_episode and (max_step is None or steps < max_step):
        obs = manager.ready_obs
        answer = manager.step(EnvBatch.of(forward(obs)) if len(obs) else {})
        steps += len(answer)
        if not answer.value.done.any():
            continue
        for info in (answer.value.info[row] for row in np.flatnonzero(answer.value.done)):
            if info.get("abnormal"):
                raise UsageError(
                    f"an episode failed after {steps} env steps: {info['abnormal']}",
                    hint="dicore check ENV names what is wrong with an environment",
                )
            returns.append(float(np.sum(info["eval_episode_return"])))
        reset([0])
    return Played(returns, steps)


def _files(folder: Path) -> set[Path]:
    return set(folder.glob("*.mp4"))


@dataclass(slots=True)
class Viewer:
    """Shows the frames of an environment while it is stepped.

    Args:
        show: Where: `window` (the environment's own), `text` (the terminal) or `none`.
        delay: Seconds between two frames; None: as the environment says.
        write: Takes the text of a frame.
    """

    show: Show
    delay: float | None = None
    write: Callable[[str], Any] | None = None

    def section(self, env: object) -> Any:
        """Returns an environment's section with rendering enabled."""
        if self.show == "none":
            return env
        pictures = Recorder(Path()).section(env)
        mode = "human"
        if self.show == "text":
            probe = EnvFactory(pictures, BuildContext())()
            known = (getattr(probe, "metadata", None) or {}).get("render_modes", ())
            getattr(probe, "close", lambda: None)()
            if "ansi" not in known:
                return pictures
            mode = "ansi"
        return _with_mode(pictures, mode)

    def check(self, env: Env) -> None:
        """Does nothing: the first frame shows whether the environment can render."""

    def around(self, env_id: int, make: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a factory of an environment that is shown.

        Args:
            env_id: Not used.
            make: Creates the environment.
        """
        return make if self.show == "none" else lambda: watched(make(), self)

    def begin(self, env: object) -> None:
        """Shows the first frame of an episode."""
        self._frame(env)

    def step(self, env: object, reward: Tree, info: Info, *, over: bool) -> None:
        """Shows the frame after a step."""
        self._frame(env)

    def drop(self) -> None:
        """Nothing is kept."""

    def _frame(self, env: Any) -> None:
        began = time.monotonic()
        if self.show == "text":
            mode = getattr(env, "render_mode", None)
            (self.write or _draw)(str(env.render()) if mode == "ansi" else _picture(env))
        else:
            with _named(env):
                env.render()
        metadata = getattr(env, "metadata", None) or {}
        fps = metadata.get("render_fps") or _DEFAULT_FPS
        pause = self.delay if self.delay is not None else 1 / fps
        if self.show == "text" or self.delay is not None:
            time.sleep(max(pause - (time.monotonic() - began), 0))


def as_text(frame: npt.NDArray[np.uint8], columns: int, lines: int, *, colour: bool) -> str:
    """Returns a picture as text that fits into a terminal.

    Args:
        frame: uint8 [height, width, 3].
        columns: Width of the terminal.
        lines: Height of the terminal.
        colour: Two pixels per character with 24-bit colours; False: one character per two pixels.
    """
    height, width = frame.shape[:2]
    scale = max(width / columns, height / (2 * lines), 1.0)
    rows = np.minimum((np.arange(int(height / scale) // 2 * 2) * scale).astype(int), height - 1)
    across = np.minimum((np.arange(int(width / scale)) * scale).astype(int), width - 1)
    small = frame[rows][:, across]
    upper, lower = small[0::2], small[1::2]
    if not colour:
        light = (upper.astype(int).sum(-1) + lower.astype(int).sum(-1)) * (len(_SHADES) - 1)
        return "\n".join("".join(_SHADES[int(v) // 1530] for v in row) for row in light)
    made = []
    for high, low in zip(upper, lower, strict=True):
        cells = [
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]}m\x1b[48;2;{b[0]};{b[1]};{b[2]}m\u2580"
            for a, b in zip(high, low, strict=True)
        ]
        made.append("".join(cells) + "\x1b[0m")
    return "\n".join(made)


def _picture(env: object) -> str:
    import shutil

    size = shutil.get_terminal_size((80, 24))
    room = size.columns - 1, size.lines - 2
    return as_text(frame_of(env), *room, colour=sys.stdout.isatty())


def _draw(text: str) -> None:
    """Writes a frame; on a terminal over the one before."""
    sys.stdout.write(f"\x1b[H\x1b[2J{text}\n" if sys.stdout.isatty() else f"{text}\n\n")
    sys.stdout.flush()


def _with_mode(section: Any, mode: str) -> object:
    from dicore.config.paths import replace

    if "make_kwargs" in section:
        return replace(section, ("make_kwargs",), {**section.make_kwargs, "render_mode": mode})
    return replace(section, ("render_mode",), mode) if "render_mode" in section else section


@contextmanager
def _named(env: Env) -> Iterator[None]:
    """Turns an error of a window into one that says what to do instead."""
    try:
        yield
    except DicoreError:
        raise
    except Exception as error:
        inner = type(getattr(env, "unwrapped", env)).__name__
        raise UsageError(
            f"{inner} cannot open a window: {type(error).__name__}: {error}",
            hint="--show text draws in the terminal, --show video writes files",
        ) from error
