"""The arguments of `AtariVectorEnv` for an Atari environment with its wrappers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dicore.errors import ConfigError
from dicore_plugins.env_wrappers.episodes import (
    EpisodicLifeConfig,
    MaxAndSkipConfig,
    NoopResetConfig,
)
from dicore_plugins.env_wrappers.observations import (
    FrameStackConfig,
    LazyFrameStackConfig,
    WarpFrameConfig,
)
from dicore_plugins.env_wrappers.rewards import ClipRewardConfig, EpisodeReturnConfig

__all__ = ["GameOptions", "options_of", "usual_options"]

_EMULATOR: Final = ("repeat_action_probability", "full_action_space", "max_num_frames_per_episode")
"""Arguments of `gymnasium.make` that the vector env has, too."""
_DROPPED: Final = ("game", "obs_type", "frameskip", "render_mode")
_HINT: Final = "set env.manager.type=base, or change env.env_wrapper"


@dataclass(slots=True)
class GameOptions:
    """How a game is played.

    Args:
        name: Name of its ROM.
        arguments: Of `AtariVectorEnv`.
        clip: Bounds of the rewards; None: they are not clipped.
        returns_unclipped: Whether returns are sums of the rewards before `clip`.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    clip: tuple[float, float] | None = None
    returns_unclipped: bool = False


def usual_options(env_id: str) -> GameOptions:
    """Returns the options for a game with the preprocessing of Mnih et al. 2015.

    Raises:
        ConfigError: Gymnasium has no game of that id.
    """
    given = _checked(dict(_spec_of(env_id)))
    game = GameOptions(str(given["game"]), clip=(-1.0, 1.0), returns_unclipped=True)
    game.arguments = {name: given[name] for name in _EMULATOR if name in given}
    return game


def options_of(section: Any) -> GameOptions:
    """Returns the options for a section of an Atari environment, with its wrappers.

    Raises:
        ConfigError: it is another environment; or a wrapper, an order of wrappers or an argument is
            none that `ale_py` has.
    """
    given = _given(section)
    game = GameOptions(str(given["game"]))
    game.arguments = {name: given[name] for name in _EMULATOR if name in given}
    game.arguments.update(
        frameskip=given.get("frameskip", 4), maxpool=False, noop_max=0, use_fire_reset=False
    )
    place, seen = 0, set()
    for wrapper in section.env_wrapper:
        name = _name(wrapper)
        rank, apply = _WRAPPERS.get(type(wrapper), (0, None))
        if apply is None:
            raise ConfigError(
                f"env.env_wrapper: {name} cannot be done by the vector env of ale_py", hint=_HINT
            )
        if rank and (rank < place or rank in seen):
            raise ConfigError(
                f"env.env_wrapper: {name} stands where the vector env of ale_py does not do it",
                hint=f"its order is {', '.join(_ORDER)}; {_HINT}",
            )
        place = rank or place
        seen.update({rank} - {0})
        apply(game, wrapper)
    if not {_WARP, _STACK} <= seen:
        raise ConfigError(
            "env.env_wrapper: the vector env of ale_py returns gray stacked frames",
            hint="add warp_frame and frame_stack (env.type=atari has them), or set"
            " env.manager.type=base",
        )
    return game


def _given(section: Any) -> dict[str, Any]:
    """Returns the arguments with which Gymnasium would make the game."""
    spec = _spec_of(section.env_id if hasattr(section, "arguments") else None)
    return _checked({**spec, **section.arguments(), **section.make_kwargs})


def _spec_of(env_id: str | None) -> Mapping[str, Any]:
    """Returns the arguments with which a game is registered."""
    import gymnasium

    try:
        given = gymnasium.spec(str(env_id).rpartition(":")[2]).kwargs
    except gymnasium.error.Error:
        given = {}
    if "game" not in given:
        raise ConfigError(
            f"env.manager: ale_vector steps Atari games only, not {env_id or 'this environment'}",
            hint="set env.type=atari env.env_id=ALE/Pong-v5, or another manager"
            " (dicore list env_manager)",
        )
    return given


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    odd = sorted(set(given) - {*_EMULATOR, *_DROPPED})
    if not isinstance(given.get("frameskip", 4), int) or odd:
        names = ", ".join(odd) or "a random frameskip"
        raise ConfigError(
            f"env.make_kwargs: the vector env of ale_py has no {names}",
            hint="remove it, or set env.manager.type=base",
        )
    if given.get("obs_type", "rgb") not in ("rgb", "grayscale"):
        raise ConfigError(
            f"env.make_kwargs: obs_type={given['obs_type']!r}: the vector env of ale_py returns"
            " frames",
            hint="set obs_type=rgb, or env.manager.type=base and other wrappers",
        )
    return given


def _name(wrapper: Any) -> str:
    return str(getattr(wrapper, "type", None) or type(wrapper).__name__)


def _no_noops(wrapper: Any) -> None:
    if wrapper.noop_action != 0:
        raise ConfigError(
            f"env.env_wrapper: {_name(wrapper)}.noop_action={wrapper.noop_action}: ale_py takes 0",
            hint=_HINT,
        )


def _noops(game: GameOptions, wrapper: Any) -> None:
    _no_noops(wrapper)
    game.arguments["noop_max"] = wrapper.noop_max


def _skip(game: GameOptions, wrapper: Any) -> None:
    game.arguments["frameskip"] *= wrapper.skip
    if game.arguments["frameskip"] != wrapper.skip:
        raise ConfigError(
            "env.env_wrapper: max_and_skip over an emulator that skips frames, too, cannot be done"
            " by the vector env of ale_py",
            hint="set env.frameskip=1",
        )
    game.arguments["maxpool"] = True


def _life(game: GameOptions, wrapper: Any) -> None:
    _no_noops(wrapper)
    game.arguments["life_loss_info"] = True


def _warp(game: GameOptions, wrapper: Any) -> None:
    game.arguments.update(img_height=wrapper.size, img_width=wrapper.size)


def _stack(game: GameOptions, wrapper: Any) -> None:
    game.arguments["stack_num"] = wrapper.n_frames


def _clip(game: GameOptions, wrapper: Any) -> None:
    if game.clip is not None:
        raise ConfigError("env.env_wrapper: rewards are clipped twice", hint=_HINT)
    game.clip = wrapper.min_reward, wrapper.max_reward


def _returns(game: GameOptions, wrapper: Any) -> None:
    game.returns_unclipped = game.clip is None


_ORDER: Final = (
    "noop_reset", "max_and_skip", "episodic_life", "warp_frame", "frame_stack",
)  # fmt: skip
_WARP, _STACK = 4, 5
_WRAPPERS: Final[dict[type, tuple[int, Callable[[GameOptions, Any], None]]]] = {
    NoopResetConfig: (1, _noops),
    MaxAndSkipConfig: (2, _skip),
    EpisodicLifeConfig: (3, _life),
    WarpFrameConfig: (_WARP, _warp),
    FrameStackConfig: (_STACK, _stack),
    LazyFrameStackConfig: (_STACK, _stack),
    ClipRewardConfig: (0, _clip),
    EpisodeReturnConfig: (0, _returns),
}
"""By wrapper: its place among those that change episodes or frames (0: any), and what it sets."""
