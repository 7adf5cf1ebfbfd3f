"""The contract of env wrappers: good ones pass, and each check catches planted faults."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from dicore.errors import ConfigError
from dicore.testing.env_wrapper import EnvWrapperContract
from dicore.testing.inner_env import FORMS, InnerEnv
from dicore.testing.suite import failures

from .faults import Fault, broken, error_of, names_of


class Good(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Halves observations and rewards; takes vectors alone."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        if env.observation_space.shape != (4,):
            raise ConfigError("it needs vectors of four")
        self.observation_space = Box(-50.0, 50.0, (4,), np.float32)

    def show(self, obs: Any) -> Any:
        return obs / np.float32(2)

    def reset(self, **kwargs: Any) -> Any:
        obs, info = self.env.reset(**kwargs)
        return self.show(obs), info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self.show(obs), reward / 2, terminated, truncated, info


def changing(**where: Any) -> dict[str, Any]:
    """Changes parts of what a step returns."""

    def step(self: Any, action: Any) -> Any:
        told = dict(zip(("obs", "reward", "terminated", "truncated", "info"),
                        Good.step(self, action), strict=True))  # fmt: skip
        for name, change in where.items():
            told[name] = change(told) if callable(change) else change
        return tuple(told.values())

    return {"step": step}


def steps_four_times(self: Any, action: Any) -> Any:
    for _ in range(4):
        told = Good.step(self, action)
    return told


def skips_every_other_step(self: Any, action: Any) -> Any:
    self.count = getattr(self, "count", 0) + 1
    if self.count % 2:
        return np.zeros(4, np.float32), 0.0, False, False, {"inner": 0}
    return Good.step(self, action)


def forgets_the_seed(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    return Good.reset(self, options=options)


def repeats_the_seed(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    self.kept = seed if seed is not None else getattr(self, "kept", None)
    return Good.reset(self, seed=self.kept, options=options)


def forgets_the_options(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    return Good.reset(self, seed=seed)


def always_one_seed(self: Any, *, seed: Any = None, options: Any = None) -> Any:
    return Good.reset(self, seed=None if seed is None else 3, options=options)


def forgets_the_info(self: Any, **kwargs: Any) -> Any:
    return Good.reset(self, **kwargs)[0], {}


def warms_up(self: Any, env: Any) -> None:
    Good.__init__(self, env)
    env.reset()
    env.step(env.action_space.sample())


def takes_everything(self: Any, env: Any) -> None:
    gymnasium.Wrapper.__init__(self, env)
    self.observation_space = Box(-50.0, 50.0, (4,), np.float32)


def copies(self: Any, env: Any) -> None:
    Good.__init__(self, InnerEnv(end=env.end))


def counts_episodes(self: Any, **kwargs: Any) -> Any:
    self.episodes = getattr(self, "episodes", 0) + 1
    obs, info = Good.reset(self, **kwargs)
    return obs + np.float32(self.episodes / 100), info


def halves_in_place(self: Any, obs: Any) -> Any:
    obs /= 2
    return obs


def in_one_array(self: Any, obs: Any) -> Any:
    if not hasattr(self, "array"):
        self.array = np.zeros(4, np.float32)
    self.array[:] = obs / 2
    return self.array


SEEN: list[Any] = [0.0]


def with_a_common_mean(self: Any, obs: Any) -> Any:
    SEEN.append(float(obs[0]))
    del SEEN[:-5]
    return (obs / 2 + np.float32(np.mean(SEEN) / 1000)).astype(np.float32)


class Uncopied(np.ndarray[Any, Any]):
    def __deepcopy__(self, memo: Any) -> Any:
        return self


def unseeded_noise(self: Any, obs: Any) -> Any:
    return Good.show(self, obs) + np.random.default_rng().normal(0, 0.1, 4).astype(np.float32)


def refuses_two(self: Any, action: Any) -> Any:
    if action == 2:
        raise ValueError("two is too much")
    return Good.step(self, action)


class NoSpace:
    """Instead of a space."""


def closes_once(self: Any) -> None:
    if getattr(self, "gone", False):
        raise RuntimeError("closed twice")
    self.gone = True
    Good.close(self)


FAULTS: list[Fault] = [
    ("spaces", {"observation_space": NoSpace(), "__init__": gymnasium.Wrapper.__init__}),
    ("reset", {"reset": lambda self, **kwargs: Good.reset(self, **kwargs)[0]}),
    ("step", changing(info=None)),
    ("step", changing(reward="much")),
    ("observations", {"show": lambda self, obs: obs.astype(np.float64)}),
    ("finite", changing(reward=lambda told: told["reward"] / 0.0 if told["terminated"] else 0.0)),
    ("memory", {"show": in_one_array}),
    ("deepcopy", {"show": lambda self, obs: (obs / np.float32(2)).view(Uncopied)}),
    ("actions", {"step": refuses_two}),
    ("seeds", {"show": unseeded_noise}),
    ("seeds_differ", {"reset": always_one_seed}),
    ("reset_mid_episode", {"reset": counts_episodes}),
    ("close_twice", {"close": closes_once}),
    ("unwrapped_is_the_env", {"__init__": copies}),
    ("closes_the_env", {"close": lambda self: None}),
    ("passes_seed_and_options", {"reset": forgets_the_seed}),
    ("passes_seed_and_options", {"reset": repeats_the_seed}),
    ("passes_seed_and_options", {"reset": forgets_the_options}),
    ("keeps_the_info", changing(info={})),
    ("keeps_the_info", {"reset": forgets_the_info}),
    ("keeps_episode_ends", changing(terminated=False)),
    ("keeps_episode_ends", changing(truncated=False)),
    ("keeps_episode_ends", changing(terminated=lambda end: end["terminated"] or end["truncated"])),
    ("does_not_step_an_ended_env", {"step": steps_four_times}),
    ("steps_the_env_only_in_step", {"step": skips_every_other_step}),
    ("steps_the_env_only_in_step", {"__init__": warms_up}),
    ("does_not_change_env_observations", {"show": halves_in_place}),
    ("instances_are_independent", {"show": with_a_common_mean}),
    ("episodes_are_independent", {"reset": counts_episodes}),
    ("unsuitable_env_raises_on_construction", {"__init__": takes_everything}),
]  # fmt: skip
PLANTED = {EnvWrapperContract: [check for check, _ in FAULTS]}


def contract(wrap: Any) -> type[EnvWrapperContract]:
    return type("Contract", (EnvWrapperContract,), {"wrap": lambda self, env: wrap(env)})


class TestGood(EnvWrapperContract):
    def wrap(self, env: Any) -> Any:
        return Good(env)


@pytest.mark.parametrize("fault", FAULTS, ids=names_of(FAULTS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_check_catches_its_fault(fault: Fault) -> None:
    check, members = fault
    assert check in EnvWrapperContract.checks()
    assert error_of(contract(broken(Good, members)), check) is not None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_the_env_that_is_wrapped_is_a_good_one(form: Any, end: Any) -> None:
    from dicore.testing.env import failures_of

    assert failures_of(lambda: InnerEnv(form, end=end)) == {}


def test_a_wrapper_that_fits_no_env_is_skipped() -> None:
    def never(env: Any) -> Any:
        raise ConfigError("it needs a violin")

    with pytest.raises(Exception, match=r"no environment of this suite fits.*violin") as raised:
        contract(never)().test_closes_the_env()
    assert type(raised.value).__name__ == "SkipTest"


def test_a_frame_skip_that_shows_old_frames_is_caught() -> None:
    """gymnasium's own: an episode that ends within a skip shows frames of an earlier one."""
    found = failures(contract(lambda env: gymnasium.wrappers.MaxAndSkipObservation(env, 4)))
    assert set(found) == {"episodes_are_independent"}
