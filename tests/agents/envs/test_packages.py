"""Environments of other packages by id: their form, the same data in every manager, mistakes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

from dicore.config.compiler import compile_section
from dicore.errors import ConfigError, MissingDependencyError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore.testing.env import failures_of
from dicore_agents import AgentsEnv, TuplesAsParallel
from dicore_plugins.env_wrappers import Versus
from dicore_registry import default
from tests.agents.envs.managers import same_in

pytest.importorskip("pettingzoo")

Options = dict[str, Any]


def section(env: str, **options: Any) -> Any:
    """Compiles the section of `component` or `component:id`."""
    name, _, env_id = env.partition(":")
    given = {"type": name, **({"env_id": env_id} if env_id else {}), **options}
    return compile_section(default().resolve("env", name).target, given)


FORMS: list[tuple[str, str, Options, Options]] = [
    ("mpe2", "pettingzoo_agents:mpe2.simple_spread_v3", {"state": True, "alive": False},
     {"obs": (3, 18), "state": (54,)}),
    ("mpe2", "pettingzoo_agents:mpe2.simple_speaker_listener_v4", {"pad": True},
     {"obs": (2, 11), "alive": (2,), "action_mask": (2, 5)}),
    ("mpe2", "pettingzoo_agents:mpe2.simple_tag_v3",
     {"pad": True, "make_kwargs": {"continuous_actions": True}}, {"obs": (4, 16), "alive": (4,)}),
    ("pettingzoo", "pettingzoo_agents:classic.rps_v2", {}, {"obs": (2, 4), "alive": (2,)}),
    ("pettingzoo", "pettingzoo_agents:classic.rps_v2", {"api": "aec"},
     {"obs": (2, 5), "alive": (2,), "action_mask": (2, 3)}),
    ("lbforaging", "lbforaging", {}, {"obs": (2, 12)}),
    ("rware", "rware", {}, {"obs": (2, 71)}),
]  # fmt: skip


@pytest.mark.parametrize(("package", "env", "options", "form"), FORMS, ids=str)
def test_every_form_keeps_the_contract(
    package: str, env: str, options: Options, form: Options
) -> None:
    pytest.importorskip(package)
    cfg = section(env, **options)

    def make() -> Any:
        return cfg.build(None)

    make.steps = 40  # type: ignore[attr-defined]
    spec = EnvSpec.of(make())
    shapes = {key: part.shape for key, part in spec.observation.spaces.items()}  # type: ignore[attr-defined]
    assert shapes == form
    assert len(spec.agents) == form["obs"][0]
    assert failures_of(make) == {}


@pytest.mark.parametrize(
    ("package", "env", "options", "managers"),
    [
        ("mpe2", "pettingzoo_agents:mpe2.simple_spread_v3",
         {"make_kwargs": {"max_cycles": 7}}, ("thread", "sync_subprocess")),
        ("pettingzoo", "pettingzoo_agents:classic.rps_v2", {"api": "aec"}, ("async_subprocess",)),
        ("lbforaging", "lbforaging:Foraging-5x5-2p-1f-v3", {"make_kwargs": {"sight": 2}},
         ("thread",)),
        ("rware", "rware", {"make_kwargs": {"max_steps": 9}}, ("thread",)),
    ],
    ids=["mpe2", "turns", "lbforaging", "rware"],
)  # fmt: skip
def test_managers_give_the_same_data(
    package: str, env: str, options: Options, managers: tuple[str, ...]
) -> None:
    pytest.importorskip(package)
    name, _, env_id = env.partition(":")
    given = {"env_id": env_id, **options} if env_id else options
    assert same_in(name, managers, steps=60, **given)


def test_turns_of_tictactoe() -> None:
    """The first row wins; who waits may only do nothing, and learns what the other one won."""
    pytest.importorskip("pygame")
    env = section("pettingzoo_agents:classic.tictactoe_v3").build(None)
    seen, _ = env.reset(seed=0)
    assert env.to_play == 0
    assert seen["action_mask"].tolist() == [[1] * 9, [1] + [0] * 8]
    assert seen["obs"][..., 2].tolist() == [[[1] * 3] * 3, [[0] * 3] * 3], "whose turn it is"
    played = [env.step(np.array([each, each])) for each in (0, 1, 3, 4, 6)]
    assert played[0][0]["action_mask"].tolist() == [[1] + [0] * 8, [0] + [1] * 8]
    assert [step[1].tolist() for step in played] == [[0, 0]] * 4 + [[1, -1]]
    assert [step[2:4] for step in played] == [(False, False)] * 4 + [(True, False)]
    assert [step[0]["alive"].tolist() for step in played] == [[1, 1]] * 4 + [[0, 0]]
    assert env.to_play is None


def test_one_side_of_turns() -> None:
    env = Versus(section("pettingzoo_agents:classic.rps_v2", api="aec", alive=False).build(None))
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(15)]
    assert ends[-1] != (False, False)


def test_foraging_depends_on_the_seed_alone() -> None:
    """The package itself places nobody where players stood in the last episode."""
    pytest.importorskip("lbforaging")
    env = section("lbforaging").build(None)
    for seed in range(10):
        first = env.reset(seed=seed)[0]["obs"]
        env.step(np.array([1, 2]))
        assert env.reset(seed=seed)[0]["obs"].tolist() == first.tolist()


class Pair(gymnasium.Env[Any, Any]):
    """Two agents, the first of which is done after a step."""

    observation_space = Tuple((Box(0, 1, (2,), np.float32),) * 2)
    action_space = Tuple((Discrete(2, start=1), Discrete(2)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.given: list[Any] = []
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.given.append(tuple(int(each) for each in action))
        ends = [True, len(self.given) == 2]
        return self.observation_space.sample(), [1.0, 2.0], ends, False, {}


def test_tuples_may_end_agent_by_agent() -> None:
    inner = Pair()
    env = AgentsEnv(TuplesAsParallel(inner))
    env.reset(seed=0)
    first, last = (env.step(np.array([1, 1])) for _ in range(2))
    assert first[0]["alive"].tolist() == [0, 1]
    assert (first[1].tolist(), first[2], last[2]) == ([1, 2], False, True)
    assert inner.given == [(2, 1), (1, 1)]


@pytest.mark.parametrize(
    ("env", "options", "text"),
    [
        ("pettingzoo_agents:clasic.rps_v2", {}, r"no parallel environment 'clasic\.rps_v2'; did"),
        ("pettingzoo_agents:classic.chess_v6", {"api": "parallel"},
         r"env\.api: 'classic\.chess_v6' is turn-based; it has no parallel API"),
        ("pettingzoo_agents:tests.agents.envs.parallel_only", {"api": "aec"},
         r"env\.api: 'tests\.agents\.envs\.parallel_only' is not turn-based"),
        ("pettingzoo_agents:classic.rps_v2", {"make_kwargs": {"size": 1}}, r"env\.make_kwargs: "),
        ("pettingzoo_agents:classic.rps_v2", {"state": True}, r"env\.state: .*no global state"),
        ("gymnasium_agents:CartPole-v1", {}, r"expected an environment of several agents"),
        ("gymnasium_agents:Nothing-v3", {}, r"env\.env_id: gymnasium has no 'Nothing-v3'"),
        ("gymnasium_agents:CartPole-v1", {"make_kwargs": {"size": 1}}, r"env\.make_kwargs: "),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes_are_told(env: str, options: Options, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        section(env, **options).build(None)


@pytest.mark.parametrize("name", ["pettingzoo_agents", "gymnasium_agents"])
def test_an_id_is_needed(name: str) -> None:
    with pytest.raises(ConfigError, match="env_id: must be given"):
        section(name)


def test_a_mistake_leaves_no_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(ConfigError, match=r"env\.state"):
        launch(env="pettingzoo_agents:classic.rps_v2", policy="random", exp_name=str(run),
               overrides=["env.state=true"], max_env_step=10)  # fmt: skip
    assert not run.exists()


@pytest.mark.parametrize(
    ("env", "extra"),
    [("pettingzoo_agents:mpe2.simple_spread_v3", "mpe"), ("lbforaging", "lbforaging"),
     ("rware", "rware"), ("vmas", "vmas")],
)  # fmt: skip
def test_missing_packages_are_told(env: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    gone = {"mpe2", "lbforaging", "rware", "vmas"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in gone else there(name, *a)
    )
    with pytest.raises(MissingDependencyError, match=r"env\.env_id: needs the package") as caught:
        section(env).build(None)
    assert caught.value.hint == f"pip install 'dicore-agents[{extra}]'"
