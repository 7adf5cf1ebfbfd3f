"""Checks of an environment: what managers, buffers and learners rely on.

Any `gymnasium.Env` can be put to them, from a test or by hand, without torch:

    for check in CHECKS:
        check(lambda: MyEnv(level=3))

Each check makes its own environments, plays random actions and raises an `AssertionError` (a
`ContractError`) that says what is wrong; `failures_of` runs all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dicore.config.schema import REQUIRED
from dicore.errors import ConfigError, ContractError
from dicore.interfaces.env import EnvSpec
from dicore.testing.compare import difference
from dicore.testing.suite import Suite, expect, skip
from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = [
    "CHECKS",
    "HINTS",
    "EnvContract",
    "check_actions",
    "check_all",
    "check_close_twice",
    "check_deepcopy",
    "check_finite",
    "check_memory",
    "check_observations",
    "check_reset",
    "check_reset_mid_episode",
    "check_seeds",
    "check_seeds_differ",
    "check_spaces",
    "check_step",
    "failures_of",
]

Make = Callable[[], Any]
_F = TypeVar("_F", bound=Callable[[Make], None])
_STEPS = 200
"""Steps of random play in a check, unless `make` has an attribute `steps`."""

CHECKS: list[Callable[[Make], None]] = []
"""All checks, in order of relevance."""

HINTS = {
    "spaces": "set self.observation_space and self.action_space in __init__, with low <= high",
    "reset": "def reset(self, *, seed=None, options=None): … return observation, {}",
    "step": "return observation, reward, terminated, truncated, info: numbers, two bools, a dict",
    "observations": "cast with np.asarray(obs, space.dtype), clip to the bounds or widen them",
    "finite": "look for divisions by zero and diverging simulations; end the episode before",
    "memory": "return a copy, np.array(self.state), or build a new array in every step",
    "deepcopy": "keep open files, locks and simulators out of observations",
    "actions": "copy an action before changing it, and step with every action of the space",
    "seeds": "draw from self.np_random alone, seeded by super().reset(seed=seed); reset all state",
    "seeds_differ": "call super().reset(seed=seed) and draw the first state from self.np_random",
    "reset_mid_episode": "set every attribute of an episode in reset, whatever was left",
    "close_twice": "set what close() frees to None, and free only what is not None",
}
"""How to mend what a check found, by its name without `check_`."""


def failures_of(make: Make) -> dict[str, str]:
    """Runs all checks on an environment.

    Args:
        make: Returns a new environment.

    Returns:
        What is wrong, by the check's name without `check_`; empty for a good environment.
    """
    found: dict[str, str] = {}
    for check in CHECKS:
        try:
            check(make)
        except Exception as error:  # an environment may raise anything
            wrong = str(error) if isinstance(error, AssertionError) else f"it raised {error!r}"
            found[check.__name__.removeprefix("check_")] = wrong
    return found


def check_all(make: Make) -> None:
    """Runs all checks on an environment; see `failures_of`.

    Raises:
        ContractError: some fail; the message has a line for each.
    """
    found = failures_of(make)
    expect(not found, "\n".join(f"{name}: {wrong}" for name, wrong in found.items()))


def _listed(check: _F) -> _F:
    CHECKS.append(check)
    return check


@_listed
def check_spaces(make: Make) -> None:
    """It has an observation and an action space, and each contains what it samples."""
    with closing(make()) as env:
        for name in ("observation_space", "action_space"):
            expect(hasattr(env, name), f"it has no {name}")
            space = getattr(env, name)
            expect(
                callable(getattr(space, "sample", None)) and hasattr(space, "contains"),
                f"its {name} is not a space: {space!r}",
            )
            sample = space.sample()
            expect(space.contains(sample), f"its {name} {space} does not contain its own {sample}")
            for path, leaf in _leaves(space, name):
                low, high = getattr(leaf, "low", None), getattr(leaf, "high", None)
                if low is not None and high is not None:
                    bounded = bool((np.asarray(low) <= np.asarray(high)).all())
                    expect(bounded, f"{path}: some lower bound is above the upper one")


@_listed
def check_reset(make: Make) -> None:
    """`reset(seed=…)` returns an observation and a dict, also the second time."""
    with closing(make()) as env:
        for seed in (0, 1, None):
            result = env.reset(seed=seed)
            expect(
                isinstance(result, tuple) and len(result) == 2,
                f"reset returned {_told(result)}, expected (observation, info)",
            )
            expect(
                isinstance(result[1], dict), f"the info of reset is {_told(result[1])}, not a dict"
            )


@_listed
def check_step(make: Make) -> None:
    """`step` returns an observation, a real number, two bools and a dict."""
    with closing(make()) as env:
        env.reset(seed=0)
        for _ in range(_steps(make)):
            result = env.step(env.action_space.sample())
            expect(
                isinstance(result, tuple) and len(result) == 5,
                f"step returned {_told(result)},"
                " wanted (observation, reward, terminated, truncated, info)",
            )
            _, reward, terminated, truncated, info = result
            _expect_reward(env, reward)
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                expect(isinstance(flag, bool | np.bool_), f"{name} is {flag!r}, not a bool")
            expect(isinstance(info, dict), f"the info of a step is {_told(info)}, not a dict")
            if terminated or truncated:
                env.reset()


@_listed
def check_observations(make: Make) -> None:
    """Every observation has the keys, dtype, shape and range that the space declares."""
    with closing(make()) as env:
        for number, (obs, _) in enumerate(_play(env, _steps(make))):
            _expect_inside(env, obs, f"observation {number}")


@_listed
def check_finite(make: Make) -> None:
    """No observation or reward is NaN or infinite."""
    with closing(make()) as env:
        for number, (obs, reward) in enumerate(_play(env, _steps(make))):
            expect(np.isfinite(reward).all(), f"reward {number} is {reward}")
            for path, leaf in _leaves(obs, f"observation {number}"):
                array = np.asarray(leaf)
                if array.dtype.kind == "f":
                    bad = np.argwhere(~np.isfinite(array))
                    where = bad[0].tolist() if len(bad) else []
                    expect(not len(bad), f"{path}{where or ''} is not finite")


@_listed
def check_memory(make: Make) -> None:
    """Later steps do not overwrite an observation, and observations share no memory."""
    with closing(make()) as env:
        kept: list[tuple[Tree, Tree]] = []
        for number, (obs, _) in enumerate(_play(env, 50)):
            for before, was in kept[-3:]:
                wrong = difference(before, was)
                expect(not wrong, f"observation {number} overwrote an earlier one: {wrong}")
            if kept:
                shared = _shared(kept[-1][0], obs, f"observation {number}")
                expect(not shared, f"{shared} shares memory with the last one")
            kept.append((obs, copy.deepcopy(obs)))


@_listed
def check_deepcopy(make: Make) -> None:
    """Deep copies of observations are equal and share no memory."""
    with closing(make()) as env:
        for obs, _ in _play(env, 10):
            copied = copy.deepcopy(obs)
            wrong = difference(obs, copied)
            expect(not wrong, f"the deep copy of an observation differs: {wrong}")
            shared = _shared(obs, copied, "an observation")
            expect(not shared, f"the deep copy of {shared} shares its memory")


@_listed
def check_actions(make: Make) -> None:
    """Every action of the space is accepted, in its own dtype."""
    with closing(make()) as env:
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(_steps(make)):
            action = env.action_space.sample()
            before = copy.deepcopy(action)
            try:
                _, _, terminated, truncated, _ = env.step(action)
            except Exception as error:
                wrong = f"step({action!r}) of a legal action raised {error!r}"
                raise ContractError(wrong) from error
            wrong = difference(action, before)
            expect(not wrong, f"step changed the action it was given: {wrong}")
            if terminated or truncated:
                env.reset()


@_listed
def check_seeds(make: Make) -> None:
    """The same seed and actions give the same episode, whatever was played before."""
    with closing(make()) as first, closing(make()) as second:
        first.reset(seed=5)  # what came before must not matter
        first.step(first.action_space.sample())
        trails = [_trail(env, 7, _steps(make)) for env in (first, second)]
    wrong = difference(*trails)
    expect(not wrong, f"with the same seed and actions, [step][obs, reward] differ: {wrong}")


@_listed
def check_seeds_differ(make: Make) -> None:
    """If episodes are random, different seeds give different episodes."""
    with closing(make()) as env:
        steps = min(20, max(2, _steps(make) // 8))
        seeded = [_trail(env, seed, steps) for seed in range(4)]
        unseeded = [_trail(env, None, steps) for _ in range(4)]
    if any(difference(unseeded[0], trail) for trail in unseeded[1:]):
        alike = not any(difference(seeded[0], trail) for trail in seeded[1:])
        expect(not alike, "seeds 0 to 3 give the same episode, but episodes without a seed differ")


@_listed
def check_reset_mid_episode(make: Make) -> None:
    """`reset` within an episode works; the same seed starts the same episode."""
    with closing(make()) as env:
        begun, _ = env.reset(seed=11)
        begun = copy.deepcopy(begun)
        for _ in range(3):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
        again, _ = env.reset(seed=11)
        wrong = difference(begun, again)
        expect(not wrong, f"two resets with one seed differ: {wrong}")


@_listed
def check_close_twice(make: Make) -> None:
    """`close` can be repeated, and called before the first reset."""
    for begun in (False, True):
        env = make()
        if begun:
            env.reset(seed=0)
        for when in ("first", "second"):
            try:
                env.close()
            except Exception as error:
                after = "" if begun else " of an environment that was never reset"
                raise ContractError(f"the {when} close{after} raised {error!r}") from error


class EnvContract(Suite):
    """Conformance suite of environments: subclass it and override `make`."""

    steps: int = _STEPS
    """Steps of random play in a check; lower it for a slow environment."""

    options: Mapping[str, object] = {}
    """Options of the component, which a subclass gives."""

    def make(self) -> Any:
        """Returns a new environment.

        Skips components that provide environments by id and need options.
        """
        common = {"n_evaluator_episode": 1, "stop_value": 1.0}  # required in any config
        try:
            cfg = self.registered.config({**common, **self.options})
        except ConfigError as error:
            skip(f"it has required options: {error.problems[0]}")
        missing = [key for key in cfg if cfg[key] is REQUIRED]
        if missing:  # they follow from other parts of a config
            skip(f"it has required options: {', '.join(missing)}")
        return cfg.build(None)


class _Maker:
    """Makes the environments of a suite."""

    def __init__(self, suite: EnvContract) -> None:
        self._suite = suite
        self.steps = suite.steps

    def __call__(self) -> Any:
        return self._suite.make()


def _steps(make: Make) -> int:
    return int(getattr(make, "steps", _STEPS))


def _as_test(check: Callable[[Make], None]) -> Callable[[EnvContract], None]:
    def test(self: EnvContract) -> None:
        check(_Maker(self))

    test.__doc__ = check.__doc__
    return test


for _check in CHECKS:
    setattr(EnvContract, _check.__name__.replace("check_", "test_", 1), _as_test(_check))


def _play(env: Any, steps: int, seed: int | None = 0) -> Iterator[tuple[Tree, Tree]]:
    """Plays fixed random actions; yields observations and rewards (0 at resets)."""
    actions = copy.deepcopy(env.action_space)  # some environments make theirs anew in each reset
    actions.seed(0)
    obs, _ = env.reset(seed=seed)
    yield obs, 0.0
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(actions.sample())
        yield obs, reward
        if terminated or truncated:
            obs, _ = env.reset()
            yield obs, 0.0


def _trail(env: object, seed: int | None, steps: int) -> list[tuple[object, object]]:
    return [(copy.deepcopy(obs), np.array(reward)) for obs, reward in _play(env, steps, seed)]


def _leaves(tree: object, path: str) -> Iterator[tuple[str, Tree]]:
    """Yields the leaves of an observation or a space with their paths."""
    tree = getattr(tree, "spaces", tree)
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from _leaves(part, f"{path}.{key}")
    elif isinstance(tree, list | tuple):
        for index, part in enumerate(tree):
            yield from _leaves(part, f"{path}[{index}]")
    else:
        yield path, tree


def _expect_inside(env: Env, obs: Tree, name: str) -> None:
    space = env.observation_space
    if space.contains(obs):
        return
    parts = dict(_leaves(obs, name))
    for path, leaf in _leaves(space, name):
        expect(path in parts, f"{path} is missing; its space says {leaf}")
        part = parts.pop(path)
        expect(leaf.contains(part), f"{path} is {_told(part)}, its space says {leaf}")
    expect(not parts, f"{', '.join(parts)}: not in the space {space}")
    expect(False, f"{name} is {_told(obs)}, its space says {space}")


def _shared(one: Tree, other: Tree, name: str) -> str:
    """Returns the path of the first array that two observations share, from `name` on, or ""."""
    for (path, left), (_, right) in zip(_leaves(one, name), _leaves(other, name), strict=False):
        arrays = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
        if arrays and np.shares_memory(left, right):
            return path
    return ""


def _expect_reward(env: Env, reward: Tree) -> None:
    """Expects a real number, or numbers of the shape of `reward_space`."""
    space = EnvSpec.of(env).reward
    shape = getattr(space, "shape", None) or ()
    if shape in ((), (1,)) and _is_number(reward):
        return
    if shape == ():
        expect(False, f"a reward is {reward!r}, not a real number")
    array = np.asarray(reward)
    good = array.shape == shape and array.dtype.kind in "biuf"
    expect(good, f"a reward is {_told(reward)}, its reward_space says {space}")


def _is_number(reward: Tree) -> bool:
    if isinstance(reward, bool | int | float | np.number | np.bool_):
        return not isinstance(reward, np.complexfloating)
    return False


def _told(value: object) -> str:
    """Describes a value: arrays by dtype, shape and range."""
    if isinstance(value, np.ndarray):
        array: npt.NDArray[Any] = value
        span = f" from {array.min()} to {array.max()}" if array.size and array.ndim else f" {array}"
        return f"{array.dtype}{list(array.shape)}{span}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{type(value).__name__} {value!r}"
