"""Shapes of observations and actions: derived from spaces, and checked for the networks here.

Importing this needs neither torch nor numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dicore.config.schema import ComponentConfig, option
from dicore.errors import ConfigError

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


SMALLEST_IMAGE = 36
"""Smallest height and width for the three Nature convolutions, in pixels."""
SMALLEST = {"auto": SMALLEST_IMAGE, "nature": SMALLEST_IMAGE, "impala": 8, "small": 3}
"""Smallest height and width of images by the name of the CNN, in pixels."""

Part = tuple[tuple[str | int, ...], int, tuple[int, ...], tuple[int, ...]]
"""A leaf of an observation: keys from the outside in, width as a vector, and for categorical
leaves the category counts and the category starts; for images no counts, and their shape instead
of the starts."""

_NESTED = frozenset({"Dict", "Tuple"})
_HYBRID = "Dict(action_type: Discrete, action_args: Box)"
_NEEDED = f"hybrid actions, {_HYBRID}"
_MOST_FLATTENED = 4096
"""Larger images are not flattened: their channels are probably not on the first axis."""
_MOST_CHANNELS = 4
"""Images of so few pixels in width have channels last (gray, RGB, depth), as [N, N, C] have."""
_LARGEST = 3.4028234663852886e38
"""Largest float32; actions are computed in float32."""
ObsShape = int | Sequence[int]
ActionShape = int | Sequence[int]
Conv = Literal["auto", "nature", "impala", "small"]

obs_shape_option = partial(option, None, "shape of one observation; None: read from the env", ge=1)
obs_parts_option = partial(
    option,
    None,
    "leaves of Discrete, MultiDiscrete, Dict and Tuple observations: (keys, width, category"
    " counts, category starts); None: read from the env",
)
action_low_option = partial(
    option, None, "continuous actions that -1 of the network means; read from the env"
)
action_high_option = partial(
    option, None, "continuous actions that 1 of the network means; read from the env"
)
action_dims_option = partial(
    option, None, "shape of a continuous action; None: a vector; read from the env"
)
conv_option = partial(
    option,
    "auto",
    "CNN for images: nature (Mnih et al. 2015), impala (residual; Espeholt et al. 2018), small"
    " (one layer, for grids); auto: nature from 36 x 36 pixels, smaller ones are flattened",
)


def shape_problems(model: Any) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for shapes of a model's section; missing ones are bound later."""
    shape = model.obs_shape
    if shape is not None and (problem := obs_shape_problem(shape, model.conv, True)):
        yield "obs_shape", problem
    if model.action_shape is not None and (problem := action_shape_problem(model.action_shape)):
        yield "action_shape", problem
    for at, part in enumerate(model.obs_parts or ()):
        if problem := part_problem(part):
            yield f"obs_parts.{at}", problem
    yield from mask_problems(model)


def mask_problems(model: Any) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) if the `action_mask` of observations does not fit the actions.

    Args:
        model: A section with `obs_parts` and `action_shape`; `continuous` actions have no mask.
    """
    shape = None if model.get("continuous") else model.get("action_shape")
    parts = [part for part in model.obs_parts or () if part[0][:1] == ("action_mask",)]
    if shape is None or not parts:
        return
    actions = [shape] if isinstance(shape, int) else [*shape]
    widths = [len(counts) or width for _, width, counts, _ in parts]
    whole = len(set(actions)) == 1 and widths == [sum(actions)]
    if not whole and widths != actions:
        found, wanted = (" and ".join(map(str, each)) for each in (widths, actions))
        yield (
            "obs_parts",
            f"the observations' action_mask has {found} numbers for {wanted} actions; expected one"
            " per action (0: forbidden), or another key if it is no mask",
        )


def obs_shape_problem(
    shape: ObsShape | None, conv: str = "auto", channels_last: bool = False
) -> str | None:
    """Returns what is wrong with the shape of one observation, or None.

    Vectors are an int or a 1-tuple, images a 3-tuple (channels, height, width).

    Args:
        shape: The shape.
        conv: Name of the CNN for images.
        channels_last: The network moves channels from the last axis to the first, as those of
            dicore do, so (height, width, channels) of squares or up to 4 channels is right too.
    """
    if shape is None:
        return "is missing; set it (a run reads it from the env)"
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(_counts(size) for size in sizes):
        return f"must consist of integers >= 1, got {shape!r}"
    if len(sizes) not in (1, 3):
        return (
            "must be an int or 1-tuple (vector, for an MLP) or a 3-tuple (image, for a CNN),"
            f" got {shape!r}"
        )
    if len(sizes) == 3 and not channels_last and channels_first(sizes) != sizes:
        return (
            f"must be (channels, height, width), got {shape!r}; env.env_wrapper=obs_transpose moves"
            " the channels to the front"
        )
    if len(sizes) == 3 and min(channels_first(sizes)[1:]) < SMALLEST[conv]:
        return (
            f"must be (channels, height, width) with height and width >= {SMALLEST[conv]} for the"
            f" CNN, got {shape!r}"
        )
    return None


def channels_first(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Returns (channels, height, width) of an image's shape, in which channels may come last."""
    one, two, three = sizes
    last = one == two != three or three <= _MOST_CHANNELS < min(one, two)
    return (three, one, two) if last else (one, two, three)


def transposed(model: ComponentConfig) -> bool:
    """Returns whether the CNN of a model's section moves channels from the last axis to the first.

    Args:
        model: A section, maybe with `obs_shape` and `obs_parts`.
    """
    shapes = [start for _, _, counts, start in model.get("obs_parts") or () if not counts]
    shape = model.get("obs_shape")
    shapes += [] if shapes or not isinstance(shape, Sequence) else [shape]
    return any(len(each) == 3 and channels_first(each) != tuple(each) for each in shapes)


def about_images(model: ComponentConfig, space: Space) -> str:
    """Returns what a training says of how its network reads images; "" if there is nothing to say.

    Args:
        model: The bound section of the network.
        space: The observation space.
    """
    if transposed(model):
        return "images have their channels last: the CNN moves them to the front"
    sides = getattr(space, "shape", None) or ()
    is_flat = isinstance(model.get("obs_shape"), int) and model.get("conv") == "auto"
    if is_flat and len(sides) == 3 and obs_shape_problem(sides, "small", True) is None:
        return f"observations {[*sides]} are flattened; policy.model.conv=small is a CNN for grids"
    return ""


def action_shape_problem(shape: ActionShape | None) -> str | None:
    """Returns what is wrong with the number of actions (or the numbers per head), or None."""
    if shape is None:
        return "is missing; set it (a run reads it from the env)"
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or not all(_counts(size) for size in sizes):
        return f"must be an integer >= 1, or a list with one per head, got {shape!r}"
    return None


def _counts(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


def observation_options(space: Space, conv: str = "auto") -> dict[str, Any]:
    """Returns the model options that describe one observation.

    Args:
        space: The observation space.
        conv: Name of the CNN for images; images that are too small for it are flattened.

    Returns:
        `model.obs_shape`: an int for vectors and for observations that models flatten (matrices,
        scalars, images too small for the CNN); a tuple for images. For Discrete, MultiDiscrete,
        Dict and Tuple spaces it is the width of all leaves as one vector, categories one-hot, and
        `model.obs_parts` lists the leaves; each image among them has a CNN of its own.

    Raises:
        ConfigError: observations are not arrays of a fixed size (text, sequences, graphs), or have
            no numbers.
    """
    if _is_categorical(space) or type(space).__name__ in _NESTED:
        if type(space).__name__ == "Dict":
            _refuse_without_numbers(getattr(space, "spaces", {}))
        parts = tuple(_leaves(space, (), conv))
        width = sum(part[1] for part in parts)
        if not width:
            raise _no_numbers(space)
        return {"model.obs_shape": width, "model.obs_parts": parts}
    shape = getattr(space, "shape", None)
    if shape is None:
        raise _no_numbers(space)
    sides = tuple(int(size) for size in shape)
    count = math.prod(sides)
    if not count:
        raise _no_numbers(space)
    as_image = len(sides) == 3 and (
        obs_shape_problem(sides, conv, True) is None or count > _MOST_FLATTENED
    )
    return {"model.obs_shape": sides if as_image else count}


def options_for(model: Any, space: Space) -> dict[str, Any]:
    """Returns `observation_options` for the section of a model.

    Raises:
        ConfigError: the model takes one array and the observations are several, or they are not
            arrays of a fixed size.
    """
    conv = getattr(model, "conv", "auto")
    found = observation_options(space, conv)
    named = conv != "auto" and "conv" in model  # not where the network has one of its own
    if named and isinstance(found["model.obs_shape"], int) and len(found) == 1:
        need = f"'{conv}' needs images of {SMALLEST[conv]} pixels or more a side, got {space.shape}"
        raise ConfigError(f"policy.model.conv: {need}", hint="set small, for grids, or auto")
    options = () if model is None else model
    if "model.obs_parts" in found and "obs_shape" in options and "obs_parts" not in options:
        raise ConfigError(
            f"policy.model: '{model.type}' takes one numeric array; the observation space of this"
            f" env is {space}",
            hint="flatten the observations: env.env_wrapper=flat_obs",
        )
    return found


def has_images(shape: ObsShape | None, parts: Sequence[Part] | None) -> bool:
    """Returns whether an observation is an image, or has one among its leaves.

    Args:
        shape: `model.obs_shape`.
        parts: `model.obs_parts`.
    """
    if parts:
        return any(size and not counts for _, _, counts, size in parts)
    return isinstance(shape, Sequence) and len(shape) == 3


def part_problem(part: Part) -> str | None:
    """Returns what is wrong with a leaf of an observation, or None."""
    _, width, sizes, start = part
    if not sizes and len(start) == 3 and math.prod(start) == width:
        return None
    return None if len(sizes) == len(start) else "needs as many category starts as category counts"


def _leaves(space: Any, keys: tuple[str | int, ...], conv: str) -> Iterator[Part]:
    """Yields the leaves of a nested space, in the order of the space."""
    if type(space).__name__ not in _NESTED:
        yield _leaf(space, keys, conv)
        return
    below = space.spaces
    for key, each in below.items() if isinstance(below, Mapping) else enumerate(below):
        yield from _leaves(each, (*keys, key), conv)


def _leaf(space: Any, keys: tuple[str | int, ...], conv: str) -> Part:
    if not _is_categorical(space):
        if getattr(space, "shape", None) is None:
            raise _no_numbers(space)
        sides = tuple(int(size) for size in space.shape)
        as_image = len(sides) == 3 and obs_shape_problem(sides, conv, True) is None
        return keys, math.prod(sides), (), sides if as_image else ()
    import numpy as np

    sizes = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0)))
    start = np.broadcast_to(space.start, sizes.shape)
    return keys, int(sizes.sum()), tuple(sizes.ravel().tolist()), tuple(start.ravel().tolist())


def _is_categorical(space: Space) -> bool:
    return type(space).__name__ in {"Discrete", "MultiDiscrete"}


def _no_numbers(space: Space) -> ConfigError:
    if not hasattr(space, "sample"):
        return _no_space("observation_space", space)
    return ConfigError(
        f"env.type: observations of {space} are not arrays of a fixed size with numbers",
        hint="convert them in an env wrapper (dicore new plugin NAME --kind env_wrapper)",
    )


def _refuse_without_numbers(entries: Mapping[str, Space]) -> None:
    """Raises ConfigError if only some entries have numbers; says how to leave out the others."""
    without = [key for key, each in entries.items() if not _has_numbers(each)]
    if 0 < len(without) < len(entries):
        kept = ", ".join(key for key in entries if key not in without)
        raise ConfigError(
            f"env: of the observation, {', '.join(map(repr, without))} has no numbers"
            f" ({type(entries[without[0]]).__name__})",
            hint="leave it out by a wrapper, after others: env.env_wrapper="
            f"'[{{type: gymnasium.wrappers:FilterObservation, filter_keys: [{kept}]}}]'",
        )


def _has_numbers(space: Any) -> bool:
    name = type(space).__name__
    return name in _NESTED or _is_categorical(space) or getattr(space, "shape", None) is not None


def discrete_shape(space: Any, *, algorithm: str) -> int | tuple[int, ...]:
    """Returns the number of actions, or one number per head of a multi-discrete space.

    Raises:
        ConfigError: the actions are not discrete.
    """
    name = type(space).__name__
    if name == "Discrete":
        return int(space.n)
    if name == "MultiDiscrete" and space.nvec.ndim == 1:
        return tuple(int(size) for size in space.nvec)
    if name == "MultiBinary" and len(space.shape) == 1:
        return (2,) * int(space.shape[0])
    if name in {"MultiDiscrete", "MultiBinary"}:
        raise ConfigError(
            f"policy.type: '{algorithm}' needs a one-dimensional discrete action space; this"
            f" env has {_line(space)}",
            hint=_hint_for(space),
        )
    if not hasattr(space, "sample"):
        raise _no_space("action_space", space)
    raise ConfigError(
        f"policy.type: '{algorithm}' needs discrete actions; this env has {space}",
        hint=_hint_for(space),
    )


def vector_discrete_shape(
    observation_space: Any, action_space: Any, *, algorithm: str
) -> tuple[int, int]:
    """Returns the numbers of an algorithm for vectors and one discrete action.

    Args:
        observation_space: Of one environment.
        action_space: Of one environment.
        algorithm: Name of the policy, for the error.

    Returns:
        The size of an observation, and the number of actions.

    Raises:
        ConfigError: observations are not one vector of numbers, or actions are not one choice from
            0 on.
    """
    count = discrete_shape(action_space, algorithm=algorithm)
    if isinstance(count, tuple) or action_start(action_space):
        raise ConfigError(
            f"policy.type: '{algorithm}' needs one discrete action from 0 on; this env has"
            f" {_line(action_space)}",
            hint=_hint_for(action_space),
        )
    if type(observation_space).__name__ == "Box" and len(observation_space.shape) == 1:
        return int(observation_space.shape[0]), count
    raise ConfigError(
        f"policy.type: '{algorithm}' needs vectors as observations; this env has"
        f" {_line(observation_space)}",
        hint="flatten the observations: env.env_wrapper=flat_obs",
    )


def _hint_for(space: Space) -> str:
    from dicore_plugins.policies.fitting import hint_for

    return hint_for(space)


def action_options(space: Any, *, algorithm: str) -> dict[str, Any]:
    """Returns the options of an actor-critic policy for discrete or continuous actions.

    Returns:
        `model.action_shape`, `model.continuous`, and `action_start` of discrete actions, or
        `action_low`, `action_high` (flat) and `action_dims` (the shape) of continuous ones, or what
        `hybrid_options` returns, and `hybrid`.

    Raises:
        ConfigError: the actions are none of these.
    """
    if type(space).__name__ in _NESTED:
        needed = f"discrete actions, real numbers, or both as {_HYBRID}"
        found = hybrid_options(space, algorithm=algorithm, needed=needed)
        return {"model.continuous": False, "hybrid": True, **found}
    if type(space).__name__ == "Box" and space.dtype.kind == "f" and math.prod(space.shape):
        return {"model.continuous": True, **_box(space)}
    if type(space).__name__ == "Box":
        raise ConfigError(
            f"policy.type: '{algorithm}' needs discrete actions or real numbers; this env has"
            f" {_line(space)}",
            hint=_hint_for(space),
        )
    return {
        "model.action_shape": discrete_shape(space, algorithm=algorithm),
        "model.continuous": False,
        "action_start": action_start(space),
    }


def box_options(space: Any, *, algorithm: str) -> dict[str, Any]:
    """Returns the options of a policy for bounded continuous actions; see `action_options`.

    Raises:
        ConfigError: the actions are not real numbers, or not bounded.
    """
    if not hasattr(space, "sample"):
        raise _no_space("action_space", space)
    if type(space).__name__ == "Box" and space.dtype.kind == "f" and math.prod(space.shape):
        found = _box(space)
        if all(abs(bound) <= _LARGEST for bound in (*found["action_low"], *found["action_high"])):
            return found
    raise ConfigError(
        f"policy.type: '{algorithm}' needs bounded real numbers as actions; this env has"
        f" {_line(space)}",
        hint=_hint_for(space),
    )


def choice_or_box_options(space: Any, *, algorithm: str) -> dict[str, Any]:
    """Returns the options of a policy for one discrete action, or for bounded real numbers.

    Returns:
        As `action_options` does.

    Raises:
        ConfigError: the actions are neither.
    """
    kind = type(space).__name__
    if kind == "Box":
        return {"model.continuous": True, **box_options(space, algorithm=algorithm)}
    if kind == "Discrete" or not hasattr(space, "sample"):
        return action_options(space, algorithm=algorithm)
    raise ConfigError(
        f"policy.type: '{algorithm}' needs one discrete action or bounded real numbers; this env"
        f" has {_line(space)}",
        hint=_hint_for(space),
    )


def hybrid_options(space: Any, *, algorithm: str, needed: str = _NEEDED) -> dict[str, Any]:
    """Returns the options of a policy for a discrete action with bounded continuous arguments.

    Args:
        space: The action space.
        algorithm: Name of the policy, for the error.
        needed: The actions that it needs, for the error.

    Returns:
        `model.action_shape` and `model.args_shape`, the numbers of discrete actions and of
        arguments; `action_start`, and `action_low` and `action_high` of the arguments.

    Raises:
        ConfigError: the space is not a Dict of `action_type` (Discrete) and `action_args` (a vector
            of bounded real numbers).
    """
    if not hasattr(space, "sample"):
        raise _no_space("action_space", space)
    parts = dict(getattr(space, "spaces", None) or {}) if type(space).__name__ == "Dict" else {}
    kinds: Any = parts.get("action_type")
    args: Any = parts.get("action_args")
    if len(parts) == 2 and type(kinds).__name__ == "Discrete" and type(args).__name__ == "Box":
        bounds = _box(args)
        finite = all(
            abs(each) <= _LARGEST for each in (*bounds["action_low"], *bounds["action_high"])
        )
        if args.dtype.kind == "f" and len(args.shape) == 1 and finite:
            return {
                "model.action_shape": int(kinds.n),
                "model.args_shape": bounds["model.action_shape"],
                "action_start": action_start(kinds),
                "action_low": bounds["action_low"],
                "action_high": bounds["action_high"],
            }
    raise ConfigError(
        f"policy.type: '{algorithm}' needs {needed}; this env has {_line(space)}",
        hint=(
            "set env.env_wrapper=gym_hybrid_dict_action"
            if type(space).__name__ == "Tuple" and any(type(e).__name__ == "Box" for e in space)
            else _hint_for(space)
        ),
    )


def _box(space: Any) -> dict[str, Any]:
    return {
        "model.action_shape": math.prod(space.shape),
        "action_low": tuple(map(float, space.low.ravel())),
        "action_high": tuple(map(float, space.high.ravel())),
        "action_dims": tuple(space.shape),
    }


def _no_space(name: str, given: Any) -> ConfigError:
    return ConfigError(
        f"env.type: {name} is {given!r}, not a Gymnasium space",
        hint=f"set self.{name} = gymnasium.spaces.… in __init__ of the env",
    )


def _line(space: Space) -> str:
    return " ".join(str(space).split())


def action_start(space: Space) -> int | tuple[int, ...]:
    """Returns the lowest action index of a discrete space, or one per head."""
    import numpy as np

    start = np.asarray(getattr(space, "start", 0))
    return int(start) if start.ndim == 0 else tuple(start.tolist())
