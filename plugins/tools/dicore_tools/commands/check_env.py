"""The environments of `dicore check`: by id or by name, those with an older API included."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dicore.config.schema import Section, component, frozen
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError, DicoreError, EnvCreateError, UnknownComponentError
from dicore.testing.env import CHECKS, EnvContract

__all__ = [
    "EnvCheck", "Envs", "checks_of_id", "converted", "described", "factory_of",
    "package_of", "section_of",
]  # fmt: skip

_MOST_STEPS, _FEWEST_STEPS = 200, 3
_PACKAGES = ("gymnasium", "gym", "pettingzoo")
"""Packages that define an API of environments."""

_NO_ENV = "another component is checked by name: dicore --plugin FILE check KIND/NAME (@register)"


class Envs(EnvContract):
    """Conformance suite of environments that converts older APIs, as env managers do."""

    def make(self) -> Any:
        """Returns a new environment with the Gymnasium API."""
        return converted(super().make())


@frozen(kw_only=True)
class _Slot(Section):
    env: EnvConfig = component("env", help="the environment to check")


@dataclass(frozen=True, slots=True)
class _Label:
    label: str


@dataclass(frozen=True, slots=True)
class EnvCheck:
    """One check of an environment by id.

    Args:
        component: Its label.
        check: The function of `dicore.testing.env`.
        make: Returns a new environment.
    """

    component: _Label
    check: Callable[[Callable[[], Any]], None]
    make: Callable[[], Any]

    @property
    def name(self) -> str:
        """Name without `check_`."""
        return self.check.__name__.removeprefix("check_")

    def __call__(self) -> None:
        """Runs the check; raises ContractError if it fails."""
        self.check(self.make)


def checks_of_id(env: str, options: Sequence[str] = ()) -> list[EnvCheck]:
    """Returns the checks of `PROVIDER:ID` or `FILE.py:Class`.

    Args:
        env: The environment.
        options: Its options, as `env.a=b`.

    Raises:
        ConfigError: there is no such environment.
        EnvCreateError: it cannot be made.
    """
    make = factory_of(env, options)
    try:
        made = make()  # so that a misspelt id is one error, not one of each check
    except DicoreError:
        raise
    except Exception as error:
        missing = isinstance(error, TypeError) and "required" in str(error)
        raise EnvCreateError(
            f"{env} could not be made: {type(error).__name__}: {error}",
            hint="give the parameter a type or a default; then it is an option of the config: env.…"
            if missing
            else "make one by hand to see where it fails",
        ) from error
    with contextlib.suppress(Exception):  # which a check reports
        vars(make)["steps"] = steps_within(made)
    with contextlib.suppress(Exception):  # which a check reports
        made.close()
    return [EnvCheck(_Label(env), check, make) for check in CHECKS]


def steps_within(env: Any, seconds: float = 1.0) -> int:
    """Returns how many steps of an environment a check may play: 200, or fewer if they are slow."""
    began = time.perf_counter()
    env.action_space.seed(0)
    env.reset(seed=0)
    count = 0
    while count < _MOST_STEPS and time.perf_counter() - began < seconds:
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        count += 1
        if terminated or truncated:
            env.reset()
    return max(count, _FEWEST_STEPS)


def described(env: str, options: Sequence[str] = ()) -> str:
    """Returns a line about an environment: the package of its API, and its spaces."""
    made = factory_of(env, options)()
    rewards = getattr(made.unwrapped, "reward_space", None)
    shape = [*rewards.shape] if rewards is not None else []
    text = f"{env}: {package_of(made)}; observations {made.observation_space},"
    text += f" actions {made.action_space}" + (f", rewards {shape}" if shape else "")
    with contextlib.suppress(Exception):  # which a check reports
        made.close()
    return text


def package_of(env: Any) -> str:
    """Returns package and version that define an environment's API: `gymnasium 1.4.0`."""
    inner = getattr(env, "unwrapped", env)
    adapted = type(inner).__module__.startswith("dicore_plugins.env_wrappers.")
    original = inner.env if adapted else inner
    roots = [base.__module__.partition(".")[0] for base in type(original).__mro__]
    package = next((name for name in _PACKAGES if name in roots), None)
    if package is None:
        return "no package, known by its methods: adapted to gymnasium's API"
    try:
        found = f"{package} {version(package)}"
    except PackageNotFoundError:
        found = package
    return f"{found}, adapted to gymnasium's API" if adapted else found


def section_of(env: str, options: Sequence[str] = ()) -> Any:
    """Returns the compiled section of an environment by `env/NAME`, name or `PROVIDER:ID`.

    Args:
        env: The environment.
        options: Its options, as `env.a=b`.

    Raises:
        ConfigError: there is no such environment, or an option is none of it.
    """
    from dicore.config import compile_section
    from dicore.config.layers import Problems, override_tree
    from dicore.config.paths import merge

    name = env.removeprefix("env/") if ":" not in env else env
    given = {"type": name, "n_evaluator_episode": 1, "stop_value": 1.0}
    problems = Problems()
    tree = override_tree([*options], problems)
    for other in tree.keys() - {"env"}:
        problems.add(other, "a check takes options of the environment alone, as env.a=b")
    problems.raise_if_any()
    try:
        return compile_section(_Slot, merge({"env": given}, tree)).env
    except ConfigError as error:
        if ".py:" not in name or error.hint or "--plugin" in error.message:
            raise
        option, missing, _ = error.message.partition(": must be given")
        if not missing and option.startswith(("env.env_wrapper", "env.manager")):
            raise
        hint = f"give {option}=VALUE; {_NO_ENV}" if missing else _NO_ENV
        raise ConfigError(error.message, hint=hint) from error


def factory_of(
    env: str, options: Sequence[str] = (), *, anew: bool = True
) -> Callable[[], Any]:  # fmt: skip
    """Returns a function that makes an environment by `env/NAME`, name or `PROVIDER:ID`.

    Args:
        env: The environment.
        options: Its options, as `env.a=b`.
        anew: Its wrappers forget in each reset what they have measured.
    """
    from dicore.run.env_factory import BuildContext, EnvFactory

    make = EnvFactory(section_of(env, options), BuildContext())
    return lambda: _measured_anew(converted(make())) if anew else converted(make())


def _measured_anew(env: Any) -> Any:
    """Returns an environment whose wrappers forget in each reset what they have measured.

    Else an episode would never repeat with `obs_norm` or `reward_norm`, and the environment would
    be blamed.
    """
    import copy

    import gymnasium

    from dicore_tools.evaluation.env_states import stateful

    layers = [each for each in stateful(env) if each is not env.unwrapped]
    if not layers:
        return env
    states = [copy.deepcopy(each.state_dict()) for each in layers]

    class MeasuredAnew(gymnasium.Wrapper[Any, Any, Any, Any]):
        """Forgets."""

        def reset(self, **given: Any) -> Any:
            for each, state in zip(layers, states, strict=True):
                each.load_state_dict(copy.deepcopy(state))
            return self.env.reset(**given)

    return MeasuredAnew(env)


def converted(env: object) -> Any:
    """Returns an environment with the Gymnasium API, by the installed env wrapper for that."""
    from dicore_tools.components import build

    try:
        return build("env_wrapper", "gym_to_gymnasium", env=env)
    except UnknownComponentError:
        return env
