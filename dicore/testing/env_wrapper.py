"""The contract of env wrappers: a wrapped valid environment is a valid environment.

All checks of environments are made on a wrapped one, without torch; to these come the checks of
what lies between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dicore.errors import ContractError
from dicore.testing.compare import difference
from dicore.testing.env import EnvContract
from dicore.testing.inner_env import FORMS, InnerEnv
from dicore.testing.suite import expect, skip
from dicore.values import Tree

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["EnvWrapperContract"]

_STEPS = 60


class _Wrapped(NamedTuple):
    outer: Any
    inner: InnerEnv


class EnvWrapperContract(EnvContract):
    """Conformance suite of env wrappers: subclass it and override `wrap`."""

    def wrap(self, env: Env) -> Env:
        """Wraps an environment; may raise for one that does not fit."""
        wrapped: Env = self.registered.example().build(None, env=env)
        return wrapped

    def make(self) -> Env:
        """Returns a new wrapped environment."""
        made: Env = self._wrapped().outer
        return made

    def test_unwrapped_is_the_env(self) -> None:
        """`unwrapped` is the given environment."""
        outer, inner = self._wrapped()
        with closing(outer):
            expect(
                outer.unwrapped is inner,
                f"unwrapped is {outer.unwrapped!r}, not the given environment",
            )

    def test_closes_the_env(self) -> None:
        """`close` closes the wrapped environment."""
        outer, inner = self._wrapped()
        outer.reset(seed=0)
        outer.close()
        expect(inner.closed, "the wrapped environment was not closed")

    def test_passes_seed_and_options(self) -> None:
        """`reset` passes seed and options to the first reset of the wrapped environment."""
        outer, inner = self._wrapped()
        with closing(outer):
            outer.reset(seed=17, options={"level": 2})
            expect(inner.seeds[:1] == [17], f"seed 17 arrived as {inner.seeds[:1]}")
            expect(inner.options[:1] == [{"level": 2}], f"the options arrived as {inner.options}")
            before = len(inner.seeds)
            outer.reset()
            again = inner.seeds[before:]
            expect(17 not in again, "a reset without a seed repeats the last one")

    def test_keeps_the_info(self) -> None:
        """`reset` and `step` keep the `info` of the wrapped environment."""
        outer, _ = self._wrapped()
        with closing(outer):
            _, info = outer.reset(seed=0)
            expect("inner" in info, f"the info of reset lacks the wrapped environment's: {info}")
            *_, info = outer.step(_action(outer))
            expect("inner" in info, f"the info of a step lacks the wrapped environment's: {info}")

    def test_keeps_episode_ends(self) -> None:
        """An episode ends when the wrapped one does, with the same `terminated`, `truncated`."""
        for end in ("terminated", "truncated"):
            outer, inner = self._wrapped(end)
            with closing(outer):
                outer.reset(seed=0)
                for _ in range(_STEPS):
                    *_, terminated, truncated, _ = outer.step(_action(outer))
                    if inner.over:
                        told = {"terminated": terminated, "truncated": truncated}[end]
                        expect(told, f"the environment is {end}, the wrapper "
                               f"terminated={terminated}, truncated={truncated}")  # fmt: skip
                        if end == "truncated":
                            expect(not terminated, "a truncated episode is reported as terminated")
                    if terminated or truncated:
                        outer.reset()

    def test_does_not_step_an_ended_env(self) -> None:
        """It never steps an episode that has ended."""
        outer, inner = self._wrapped()
        with closing(outer):
            for seed in range(3):
                outer.reset(seed=seed)
                for _ in range(_STEPS):
                    *_, terminated, truncated, _ = outer.step(_action(outer))
                    if terminated or truncated:
                        outer.reset()
        count = inner.stepped_after_end
        expect(not count, f"it made {count} steps after the end of an episode")

    def test_steps_the_env_only_in_step(self) -> None:
        """Each step makes at least one step of the environment; construction makes none."""
        outer, inner = self._wrapped()
        with closing(outer):
            expect(not inner.steps, "construction stepped the environment")
            outer.reset(seed=0)
            before = inner.steps
            outer.step(_action(outer))
            expect(inner.steps > before, "a step did not step the environment")

    def test_does_not_change_env_observations(self) -> None:
        """It does not change observations of the environment in place."""
        outer, inner = self._wrapped()
        with closing(outer):
            outer.reset(seed=0)
            for number in range(_STEPS):
                *_, terminated, truncated, _ = outer.step(_action(outer))
                wrong = inner.spoilt()
                expect(not wrong, f"step {number} changed an observation of the env: {wrong}")
                if terminated or truncated:
                    outer.reset()

    def test_instances_are_independent(self) -> None:
        """Two wrapped environments do not influence each other."""
        alone = [_trails([self._wrapped().outer], [seed])[0] for seed in (3, 4)]
        together = _trails([self._wrapped().outer, self._wrapped().outer], [3, 4])
        wrong = difference(alone, together)
        expect(
            not wrong, f"two wrapped envs influence each other ([env][step][obs, reward]): {wrong}"
        )

    def test_episodes_are_independent(self) -> None:
        """An episode does not depend on earlier episodes, short or long."""
        used, _ = self._wrapped()
        for length in range(8, 0, -1):
            trails = []
            for outer in (self._wrapped().outer, used):
                outer.unwrapped.length = length
                outer.action_space.seed(length)
                trails.append(_episode(outer, length))
            wrong = difference(*trails)
            expect(not wrong, f"an episode of {length} steps differs after another one, in "
                   f"[step][obs, reward]: {wrong}")  # fmt: skip
        used.close()

    def test_unsuitable_env_raises_on_construction(self) -> None:
        """It raises for an unsuitable environment on construction, not later."""
        for form in FORMS:
            try:
                outer = self.wrap(InnerEnv(form))
            except Exception:  # noqa: S112 - a refusal, in time
                continue
            with closing(outer):
                try:
                    obs, _ = outer.reset(seed=0)
                    seen = outer.observation_space.contains(obs)
                    outer.step(_action(outer))
                except Exception as error:
                    wrong = f"it accepted an environment of form '{form}', then raised {error!r}"
                    raise ContractError(wrong) from error
                expect(seen, f"observations of form '{form}' are not in its declared space")

    def _wrapped(self, end: Literal["terminated", "truncated"] = "terminated") -> _Wrapped:
        """Wraps an environment of the first form that fits."""
        refused: list[str] = []
        for form in FORMS:
            inner = InnerEnv(form, end=end)
            try:
                return _Wrapped(self.wrap(inner), inner)
            except Exception as error:
                refused.append(f"{form}: {error}")
        return skip(f"no environment of this suite fits; override wrap: {'; '.join(refused)}")


def _action(env: Env) -> Tree:
    return env.action_space.sample()


def _episode(env: Env, seed: int) -> list[object]:
    """Plays one episode, or the first steps of a long one."""
    trail: list[Any] = [(_kept(env.reset(seed=seed)[0]), 0.0)]
    for _ in range(_STEPS):
        obs, reward, terminated, truncated, _ = env.step(_action(env))
        trail.append((_kept(obs), float(reward)))
        if terminated or truncated:
            break
    return trail


def _trails(envs: list[Any], seeds: list[int]) -> list[list[Tree]]:
    """Steps environments alternately, each with its own random actions."""
    trails: list[list[Tree]] = []
    for env, seed in zip(envs, seeds, strict=True):
        env.action_space.seed(seed)
        trails.append([env.reset(seed=seed)[0], 0.0])
    for _ in range(_STEPS):
        for env, trail in zip(envs, trails, strict=True):
            obs, reward, terminated, truncated, _ = env.step(_action(env))
            trail.append((_kept(obs), float(reward)))
            if terminated or truncated:
                trail.append((_kept(env.reset()[0]), 0.0))
    for env in envs:
        env.close()
    return trails


def _kept(obs: Tree) -> Tree:
    copy: Callable[[Any], Any] = np.copy
    return {key: copy(each) for key, each in obs.items()} if isinstance(obs, dict) else copy(obs)
