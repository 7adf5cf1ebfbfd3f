"""The contract of env wrappers: around a good environment they are a good environment.

All checks of environments are made on a wrapped one, without torch; to these come the checks of
what lies between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Literal, NamedTuple

import numpy as np

from dicore.errors import ContractError
from dicore.testing.compare import difference
from dicore.testing.env import EnvContract
from dicore.testing.inner_env import FORMS, InnerEnv
from dicore.testing.suite import expect, skip

__all__ = ["EnvWrapperContract"]

_STEPS = 60


class _Wrapped(NamedTuple):
    outer: Any
    inner: InnerEnv


class EnvWrapperContract(EnvContract):
    """Inherit it, override `wrap`, and every check of an env wrapper is collected."""

    def wrap(self, env: Any) -> Any:
        """Returns a wrapper around that environment; it may refuse one that it does not fit."""
        return self.registered.example().build(None, env=env)

    def make(self) -> Any:
        """Returns a new environment, wrapped."""
        return self._wrapped().outer

    def test_wraps_the_env_itself(self) -> None:
        """The environment below is the very one that was handed in."""
        outer, inner = self._wrapped()
        with closing(outer):
            expect(
                outer.unwrapped is inner, f"below it is {outer.unwrapped!r}, another environment"
            )

    def test_closes_the_env(self) -> None:
        """Closing it closes the environment below."""
        outer, inner = self._wrapped()
        outer.reset(seed=0)
        outer.close()
        expect(inner.closed, "the environment below was not closed")

    def test_hands_on_seed_and_options(self) -> None:
        """What `reset` is given reaches the environment below, in the first reset of it."""
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
        """What the environment tells in `info` is told on, at resets and at steps."""
        outer, _ = self._wrapped()
        with closing(outer):
            _, info = outer.reset(seed=0)
            expect("inner" in info, f"the info of reset lost what was told: {info}")
            *_, info = outer.step(_action(outer))
            expect("inner" in info, f"the info of a step lost what was told: {info}")

    def test_tells_every_end(self) -> None:
        """Where the environment ends an episode it ends there, as terminal or as cut."""
        for end in ("terminated", "truncated"):
            outer, inner = self._wrapped(end)
            with closing(outer):
                outer.reset(seed=0)
                for _ in range(_STEPS):
                    *_, terminated, truncated, _ = outer.step(_action(outer))
                    if inner.over:
                        told = {"terminated": terminated, "truncated": truncated}[end]
                        expect(told, f"the environment said {end}, the wrapper "
                               f"terminated={terminated}, truncated={truncated}")  # fmt: skip
                        if end == "truncated":
                            expect(not terminated, "a cut episode was told as terminal")
                    if terminated or truncated:
                        outer.reset()

    def test_steps_no_ended_env(self) -> None:
        """An episode that has ended is never stepped on."""
        outer, inner = self._wrapped()
        with closing(outer):
            for seed in range(3):
                outer.reset(seed=seed)
                for _ in range(_STEPS):
                    *_, terminated, truncated, _ = outer.step(_action(outer))
                    if terminated or truncated:
                        outer.reset()
        count = inner.stepped_after_end
        expect(not count, f"{count} steps were made in episodes that had ended")

    def test_steps_when_told(self) -> None:
        """Every step of it is at least one of the environment, and making it makes none."""
        outer, inner = self._wrapped()
        with closing(outer):
            expect(not inner.steps, "making the wrapper stepped the environment")
            outer.reset(seed=0)
            before = inner.steps
            outer.step(_action(outer))
            expect(inner.steps > before, "a step did not step the environment")

    def test_leaves_the_envs_observations_alone(self) -> None:
        """What the environment handed out is not changed in place."""
        outer, inner = self._wrapped()
        with closing(outer):
            outer.reset(seed=0)
            for number in range(_STEPS):
                *_, terminated, truncated, _ = outer.step(_action(outer))
                wrong = inner.spoilt()
                expect(not wrong, f"step {number} changed an observation of the env: {wrong}")
                if terminated or truncated:
                    outer.reset()

    def test_wrappers_share_nothing(self) -> None:
        """Two wrapped environments stepped in turn do as each does alone."""
        alone = [_trails([self._wrapped().outer], [seed])[0] for seed in (3, 4)]
        together = _trails([self._wrapped().outer, self._wrapped().outer], [3, 4])
        wrong = difference(alone, together)
        expect(not wrong, f"[env][step][obs, reward] differ from those of one alone: {wrong}")

    def test_episodes_do_not_mix(self) -> None:
        """An episode, be it short or long, is the same whatever was played before it."""
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

    def test_fits_or_says_so_at_once(self) -> None:
        """An environment that it cannot work with is refused when it is wrapped, not later."""
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
                    wrong = f"it took an environment of form '{form}' and then raised {error!r}"
                    raise ContractError(wrong) from error
                expect(
                    seen, f"of an environment of form '{form}' it shows what it does not declare"
                )

    def _wrapped(self, end: Literal["terminated", "truncated"] = "terminated") -> _Wrapped:
        """Wraps an environment of the first form that it takes."""
        refused: list[str] = []
        for form in FORMS:
            inner = InnerEnv(form, end=end)
            try:
                return _Wrapped(self.wrap(inner), inner)
            except Exception as error:
                refused.append(f"{form}: {error}")
        return skip(f"it fits no environment of this suite; override wrap: {'; '.join(refused)}")


def _action(env: Any) -> Any:
    return env.action_space.sample()


def _episode(env: Any, seed: int) -> list[Any]:
    """Plays one episode, or the beginning of a long one."""
    trail: list[Any] = [(_kept(env.reset(seed=seed)[0]), 0.0)]
    for _ in range(_STEPS):
        obs, reward, terminated, truncated, _ = env.step(_action(env))
        trail.append((_kept(obs), float(reward)))
        if terminated or truncated:
            break
    return trail


def _trails(envs: list[Any], seeds: list[int]) -> list[list[Any]]:
    """Plays environments in turn, each by actions of its own seed."""
    trails: list[list[Any]] = []
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


def _kept(obs: Any) -> Any:
    copy: Callable[[Any], Any] = np.copy
    return {key: copy(each) for key, each in obs.items()} if isinstance(obs, dict) else copy(obs)
