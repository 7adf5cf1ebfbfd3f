"""The checks of environments: a good one passes, and each check catches planted faults."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dicore.errors import ContractError
from dicore.testing import env as checks
from dicore.testing.suite import failures
from tests.conftest import printed


class Good(gymnasium.Env[Any, Any]):
    """A walk on a line, seen as a dict; ends at the tenth step."""

    observation_space: Any = spaces.Dict({
        "place": spaces.Box(-20, 20, (2,), np.float32),
        "pair": spaces.Tuple((spaces.Discrete(11), spaces.Box(0, 255, (2, 3), np.uint8))),
    })  # fmt: skip
    action_space: Any = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self) -> None:
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.place = np.zeros(2, np.float32)
        self.count = 0
        self.closed = 0
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.count = 0
        self.episodes += 1
        return self.show(), {}

    def step(self, action: Any) -> Any:
        self.place = self.place + action
        self.count += 1
        return self.show(), float(self.place[0]), self.count == 10, False, {}

    def show(self) -> Any:
        picture = np.full((2, 3), self.count, np.uint8)
        return {"place": self.place.copy(), "pair": (self.count, picture)}

    def close(self) -> None:
        self.closed += 1


class Plain(Good):
    """The same, seen as one array."""

    observation_space = spaces.Box(-20, 20, (2,), np.float32)

    def show(self) -> Any:
        return self.place.copy()


def with_(**members: Any) -> type[Good]:
    return type("Bad", (Plain,), members)


def stepping(change: Any, at: int = 3) -> type[Good]:
    """Changes the results of one step."""

    def step(self: Good, action: Any) -> Any:
        results = Plain.step(self, action)
        return change(*results) if self.count == at else results

    return with_(step=step)


class Closed(Plain):
    """Cannot be closed twice."""

    def close(self) -> None:
        super().close()
        if self.closed == 2:
            raise RuntimeError("already closed")


class Unopened(Plain):
    """Cannot be closed before it was reset."""

    def close(self) -> None:
        if not self.episodes:
            raise RuntimeError("no window")


class OneArray(Plain):
    """Writes all observations into one array."""

    def reset(self, **kwargs: Any) -> Any:
        self.array = np.zeros(2, np.float32)
        return super().reset(**kwargs)

    def show(self) -> Any:
        self.array[:] = self.place
        return self.array


class TwoViews(Plain):
    """Hands out views of one array that it does not write again."""

    def show(self) -> Any:
        if self.count == 0:
            self.table = np.zeros((11, 2), np.float32)
        self.table[self.count] = self.place
        return self.table[0] if self.count % 2 else self.table[0:1][0]


class Uncopied(np.ndarray[Any, Any]):
    """An array whose deep copy is itself."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Unseeded(Plain):
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = np.random.default_rng()

    def step(self, action: Any) -> Any:
        return super().step(action + self.drawn.normal(0, 0.01, 2).astype(np.float32))


class Remembering(Plain):
    """An episode depends on how many there were."""

    def reset(self, **kwargs: Any) -> Any:
        super().reset(**kwargs)
        self.place += self.episodes / 100
        return self.show(), {}


class Deaf(Plain):
    """Takes every seed for the same one."""

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> Any:
        return super().reset(seed=None if seed is None else 3, **kwargs)


class Fussy(Plain):
    """Refuses some actions of its space."""

    def step(self, action: Any) -> Any:
        if action[0] > 0.9:
            raise ValueError("too fast")
        return super().step(action)


class Writing(Plain):
    """Scales the action that it is given, in place."""

    def step(self, action: Any) -> Any:
        action *= 0.5
        return super().step(action)


def _nested(**changes: Any) -> type[Good]:
    return type("Nested", (Good,), {"show": lambda self: {**Good.show(self), **changes}})


NAN = np.array([0, np.nan], np.float32)

FAULTS: list[tuple[str, type[Good], str]] = [
    ("spaces", with_(observation_space=None), "observation_space is not a space: None"),
    ("spaces", with_(observation_space=(4,)), "is not a space"),
    ("reset", with_(reset=lambda self, **_: self.show()), "expected (observation, info)"),
    ("reset", with_(reset=lambda self, **_: (self.show(), None)), "not a dict"),
    ("observations", with_(reset=lambda self, **_: (NAN[:1], {})), "observation 0 is float32[1]"),
    ("step", stepping(lambda obs, reward, term, trunc, info: (obs, reward, term, info)), "of 4"),
    ("step", stepping(lambda obs, reward, *rest: (obs, None, *rest)), "a reward is None"),
    ("step", stepping(lambda obs, reward, *rest: (obs, np.ones(1), *rest)), "not a real number"),
    ("step", stepping(lambda obs, reward, *rest: (obs, 1j, *rest)), "not a real number"),
    ("step", stepping(lambda obs, reward, term, *rest: (obs, reward, 0, *rest)), "terminated is 0"),
    ("step", stepping(lambda *most: (*most[:3], None, {})), "truncated is None"),
    ("step", stepping(lambda *most: (*most[:4], [])), "the info of a step"),
    ("observations", stepping(lambda obs, *rest: (obs[:1], *rest)), "observation 3 is float32[1]"),
    ("observations", stepping(lambda obs, *rest: (obs[None], *rest)), "is float32[1, 2]"),
    ("observations", stepping(lambda obs, *rest: (obs.astype(float), *rest)), "is float64[2]"),
    ("observations", stepping(lambda obs, *rest: (obs + 99, *rest)), "its space says Box(-20"),
    ("observations", _nested(place=NAN[:1]), "observation 0.place is float32[1]"),
    ("observations", _nested(pair=(3,)), "observation 0.pair[1] is missing"),
    ("observations", _nested(more=1), "observation 0.more: not in the space"),
    ("finite", stepping(lambda obs, *rest: (NAN, *rest)), "observation 3[1] is not finite"),
    ("finite", _nested(place=NAN), "observation 0.place[1] is not finite"),
    ("finite", stepping(lambda obs, reward, *rest: (obs, np.inf, *rest)), "reward 3 is inf"),
    ("memory", OneArray, "observation 1 overwrote an earlier one"),
    ("memory", TwoViews, "shares memory with the last"),
    ("deepcopy", with_(show=lambda self: self.place.copy().view(Uncopied)), "shares its memory"),
    ("actions", Fussy, "of a legal action raised ValueError('too fast')"),
    ("actions", Writing, "step changed the action it was given"),
    ("seeds", Unseeded, "with the same seed and actions"),
    ("seeds_differ", Deaf, "seeds 0 to 3 give the same episode"),
    ("reset_mid_episode", Remembering, "two resets with one seed differ"),
    ("close_twice", Closed, "the second close"),
    ("close_twice", Unopened, "of an environment that was never reset"),
]  # fmt: skip
PLANTED = {checks.EnvContract: [name for name, *_ in FAULTS]}


@pytest.mark.parametrize("good", [Good, Plain])
def test_a_good_env_passes(good: type[Good]) -> None:
    assert checks.failures_of(good) == {}


@pytest.mark.parametrize(("name", "bad", "said"), FAULTS)
def test_a_planted_fault_is_named(name: str, bad: type[Good], said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        getattr(checks, f"check_{name}")(bad)
    assert said in str(caught.value)
    assert name in checks.failures_of(bad)


def test_bounds_that_contradict_each_other_are_named() -> None:
    space = spaces.Box(-1, 1, (2,), np.float32)
    space.high = np.full(2, -2, np.float32)
    space.sample = space.low.copy  # type: ignore[method-assign]
    space.contains = lambda _: True  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="observation_space: some lower bound is above"):
        checks.check_spaces(with_(observation_space=space))


def test_a_crash_is_a_failure_of_its_check() -> None:
    def crash(*_: Any) -> Any:
        raise OSError("no display")

    found = checks.failures_of(with_(step=crash))
    assert "it raised OSError('no display')" in found["step"]
    assert not {"spaces", "reset", "close_twice"} & found.keys()


class Faulty(OneArray):
    """Five faults: its rewards, its range, its seeds, its memory, its second close."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=None)

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, 10**9 if self.count % 2 else "much", *rest

    close = Closed.close


def test_all_faults_are_named_at_once() -> None:
    found = checks.failures_of(Faulty)
    assert {"step", "observations", "seeds", "memory", "close_twice"} <= found.keys()
    with pytest.raises(ContractError) as caught:
        checks.check_all(Faulty)
    assert all(f"{name}: {wrong}" in str(caught.value) for name, wrong in found.items())
    checks.check_all(Good)


def test_every_check_is_listed_and_has_a_hint() -> None:
    written = [name for name in vars(checks) if name.startswith("check_")]
    listed = [check.__name__ for check in checks.CHECKS]
    assert sorted(written) == sorted([*listed, "check_all"])
    assert [f"check_{name}" for name in checks.HINTS] == listed
    assert set(written) < set(checks.__all__)


def test_the_suite_has_the_same_checks() -> None:
    names = tuple(check.__name__.removeprefix("check_") for check in checks.CHECKS)
    assert checks.EnvContract.checks() == names
    good = type("Contract", (checks.EnvContract,), {"make": lambda self: Good()})
    assert failures(good) == {}
    bad = type("Contract", (checks.EnvContract,), {"make": lambda self: Closed()})
    assert {name: type(e) for name, e in failures(bad).items()} == {"close_twice": ContractError}


def test_every_environment_that_is_made_is_closed() -> None:
    made: list[Good] = []

    def make() -> Good:
        made.append(Good())
        return made[-1]

    assert checks.failures_of(make) == {}
    assert len(made) >= len(checks.CHECKS)
    assert all(env.closed for env in made)


def test_failures_are_contract_errors_that_asserts_catch() -> None:
    with pytest.raises(ContractError):
        checks.check_memory(OneArray)


def test_torch_is_not_needed() -> None:
    code = "import sys; sys.modules['torch'] = None; import dicore.testing.env as env"
    code += "; print(len(env.CHECKS))"
    assert int(printed(code)) == len(checks.CHECKS)
