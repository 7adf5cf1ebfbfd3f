"""Actions of a trained policy for single observations, and the environment that makes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dicore.config import bind, compile_section
from dicore.config.convert import describe_value
from dicore.config.paths import plain
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext, EnvFactory, spec_of
from dicore_tools.evaluation.env_states import go_on_alone
from dicore_tools.evaluation.policy_loader import TrainedPolicy

if TYPE_CHECKING:
    from dicore.data import Tree
    from dicore.interfaces.env import Env, Space

__all__ = ["env_of", "make_act", "tell_wrappers", "to_observation"]


def env_of(trained: TrainedPolicy, options: Mapping[str, Any]) -> Env:
    """Makes the environment of a policy, with its wrappers and what they measured.

    Args:
        trained: The policy.
        options: Other options of the environment.

    Raises:
        ConfigError: it has no such option.
        EnvCreateError: it cannot be made.
    """
    from dicore_tools.commands.check_env import converted

    section = trained.compiled.env
    if options:
        section = compile_section(type(section), {**plain(section), **options})
    env: Env = converted(EnvFactory(section, BuildContext())())
    if trained.read is not None:
        go_on_alone(env, trained.read().env_states)
    return env


def tell_wrappers(trained: TrainedPolicy) -> None:
    """Warns that a policy acts in an environment with wrappers, if it has any."""
    if wrappers := trained.compiled.env.env_wrapper:
        logging.getLogger("dicore.agent").warning(
            "the policy acts in its environment with the wrappers %s: make_env() makes it",
            ", ".join(each.type for each in wrappers),
        )


def make_act(trained: TrainedPolicy) -> Callable[[Any], Any]:
    """Builds the policy and returns a function from one observation to one action.

    The function acts without exploration. It raises UsageError if an observation does not fit the
    observation space.

    Args:
        trained: The policy to build.
    """
    from dicore.run.random import seeded

    spec = spec_of(trained.compiled.env, trained.compiled.seed)
    compiled = bind(trained.compiled, spec)
    context = BuildContext(spec, seed=compiled.seed)
    with seeded(compiled.seed):  # an untrained network is initialised as in `evaluate`
        policy, _ = TrainedPolicy(compiled, trained.name, trained.read).build(context)
    forward, space = policy.eval_mode.forward, spec.observation

    def act(obs: Tree) -> Any:
        return forward({0: to_observation(space, obs)})[0]["action"]

    return act


def to_observation(space: Space, value: Any, path: str = "") -> Any:
    """Converts lists and tensors in an observation to arrays of the space's dtype.

    Args:
        space: A Gymnasium space; Dict and Tuple spaces are converted recursively.
        value: The observation.
        path: Position inside a nested observation, for the error message.

    Raises:
        UsageError: shape or keys differ from those of the space.
    """
    spaces = getattr(space, "spaces", None)
    of_reset = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping)
    if of_reset and not (spaces is not None and len(spaces) == len(value)):
        raise _misfit(path, "got a tuple with a dict, as reset returns it; pass its first item")
    if isinstance(spaces, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(spaces):
            got = sorted(value, key=str) if isinstance(value, Mapping) else type(value).__name__
            raise _misfit(path, f"expected the keys {[*spaces]}, got {got}")
        return {key: to_observation(part, value[key], f"{path}.{key}")
                for key, part in spaces.items()}  # fmt: skip
    if spaces is not None:
        if not isinstance(value, list | tuple) or len(value) != len(spaces):
            raise _misfit(path, f"expected {len(spaces)} items, got {value!r}")
        pairs = enumerate(zip(spaces, value, strict=True))
        return tuple(to_observation(part, item, f"{path}.{i}") for i, (part, item) in pairs)
    return _to_array(space, value, path)


def _to_array(space: Space, value: Any, path: str) -> object:
    import numpy as np

    shape = getattr(space, "shape", None)
    if shape is None:
        return value
    detach = getattr(value, "detach", None)
    try:
        array = np.asarray(value if detach is None else detach().cpu(), space.dtype)
    except (TypeError, ValueError) as error:
        got = f"a dict of {', '.join(map(str, value))}" if isinstance(value, Mapping) else None
        got = got or describe_value(value)
        text = f"expected an array of {space.dtype} {[*shape]}, got {got}: {error}"
        raise _misfit(path, text) from None
    if array.shape != shape:
        raise _misfit(path, f"expected shape {[*shape]}, got {[*array.shape]}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise _misfit(path, f"is not a number at {np.argwhere(np.isnan(array))[0].tolist()}")
    return array


def _misfit(path: str, text: str) -> UsageError:
    return UsageError(
        f"observation{' ' if path else ''}{path.lstrip('.')}: {text}",
        hint="pass one observation of the environment as the run has it: Agent.make_env() makes it,"
        " with its wrappers and in the form that the policy knows",
    )
