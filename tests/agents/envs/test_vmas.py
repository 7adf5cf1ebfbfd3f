"""Batches of VMAS: the simulator's own numbers, one stream for each, ends, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.config.compiler import compile_section
from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore.testing.env import failures_of
from dicore_plugins.env_managers import VectorEnvManager
from dicore_registry import default
from tests.agents.envs.managers import told

pytest.importorskip("vmas")

STEPS, ENVS = 12, 3


def section(**options: Any) -> Any:
    """Compiles the section of a scenario."""
    return compile_section(default().resolve("env", "vmas").target, {"type": "vmas", **options})


def batch(env_num: int = ENVS, **options: Any) -> Any:
    """Makes a batch of three environments."""
    return section(**options).vector_env(None)(env_num)


@pytest.mark.parametrize("continuous", [True, False])
def test_numbers_are_those_of_the_simulator(continuous: bool) -> None:
    import vmas

    ours = batch(env_id="transport", max_steps=None, continuous_actions=continuous)
    theirs = vmas.make_env("transport", ENVS, continuous_actions=continuous, seed=0)
    theirs.seed(7)
    seen = theirs.reset()
    obs, _ = ours.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        for agent, each in enumerate(seen):
            np.testing.assert_array_equal(obs["obs"][:, agent], each.numpy())
        acts: Any = rng.uniform(-1, 1, (ENVS, 4, 2)).astype(np.float32)
        acts = acts if continuous else rng.integers(0, 9, (ENVS, 4))
        seen, paid, *_ = theirs.step([torch.tensor(acts[:, agent]) for agent in range(4)])
        obs, reward, *_ = ours.step(acts)
        np.testing.assert_array_equal(reward, torch.stack(paid, 1).numpy())


def test_each_batch_draws_from_its_own_stream() -> None:
    """Another simulator beside it, and draws of the program, change nothing."""

    def played(*, beside: bool) -> list[Any]:
        env = batch(max_steps=5)
        found = [env.reset(seed=3)[0]["obs"]]
        other = batch(1) if beside else None
        for _ in range(STEPS):
            if other is not None:
                other.reset(seed=1)
                torch.rand(3)
            found.append(env.step(np.zeros((ENVS, 3, 2), np.float32))[0]["obs"])
        return found

    before = torch.get_rng_state()
    alone = played(beside=False)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(alone, played(beside=True))
    assert not np.array_equal(alone[0], alone[6]), "the next episodes are others"


def test_ends_and_what_was_seen_last() -> None:
    env = batch(max_steps=2, team_reward=True)
    first, _ = env.reset(seed=0)
    acts = np.zeros((ENVS, 3, 2), np.float32)
    assert not env.step(acts)[4]
    obs, reward, terminated, truncated, info = env.step(acts)
    assert reward.shape == (ENVS,)
    assert (terminated | truncated).all()
    assert not (terminated & truncated).any()
    assert not np.array_equal(info["final_obs"]["obs"], obs["obs"])
    # one environment alone begins again, and the others go on
    with torch.inference_mode():  # as all tensors of the simulator are made
        env.sim.steps[1] = 1
    kept = env.sim.steps.tolist()
    obs, _, _, truncated, info = env.step(acts)
    assert kept == [0, 1, 0]
    assert truncated.tolist() == [False, True, False]
    goes_on = [0, 2]
    np.testing.assert_array_equal(obs["obs"][goes_on], info["final_obs"]["obs"][goes_on])
    assert not np.array_equal(obs["obs"][1], info["final_obs"]["obs"][1])
    assert env.sim.steps.tolist() == [1, 0, 1]
    assert first["obs"].shape == (ENVS, 3, 16)


def test_single_environments_keep_the_contract() -> None:
    cfg = section(env_id="simple_speaker_listener", pad=True, max_steps=5)

    def make() -> Any:
        return cfg.build(None)

    make.steps = 6  # type: ignore[attr-defined]
    assert make().observation_space["obs"].shape == (2, 11)
    assert failures_of(make) == {}


def test_single_environments_in_threads_give_the_same_data() -> None:
    pieces = [told("vmas", name, {"max_steps": 3}, 24) for name in ("base", "thread")]
    for one, other in zip(*pieces, strict=True):
        np.testing.assert_equal(one, other)


def test_a_batch_trains_without_single_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dicore_agents.envs.vmas_batch import VmasEnv

    managers: list[str] = []
    begun = VectorEnvManager.launch

    def noted(self: Any, *args: Any) -> None:
        begun(self, *args)
        managers.append(type(self._pool.vec).__name__)
        monkeypatch.setattr(VmasEnv, "step", None)

    monkeypatch.setattr(VectorEnvManager, "launch", noted)
    options = ["env.max_steps=10", "policy.learn.epoch_per_collect=1", "pipeline.logger=[]"]
    small = ["policy.collect.n_sample=64", "env.n_evaluator_episode=5"]
    launch(env="vmas", policy="mappo", max_env_step=128, exp_name=str(tmp_path / "run"),
           overrides=[*options, *small])  # fmt: skip
    assert set(managers) == {"VmasBatch"}


@pytest.mark.parametrize(
    ("options", "place", "hint"),
    [
        ({"env_id": "navgation"}, "env.env_id", "navigation"),
        ({"make_kwargs": {"n_agent": 2}}, "env.make_kwargs", ""),
        ({"make_kwargs": {"n_agents": 1}}, "env.make_kwargs.*n_agents > 1", "drop or change"),
        ({"env_id": "simple_tag"}, "env.env_id", "env.pad=true"),
        ({"state": True}, "env.state", ""),
        ({"alive": True}, "env.alive", ""),
    ],
)
def test_mistakes_are_told(options: Any, place: str, hint: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    overrides = [f"env.{key}={value}" for key, value in options.items()]
    with pytest.raises(ConfigError, match=place) as caught:
        launch(env="vmas", policy="mappo", exp_name=str(run), overrides=overrides)
    assert hint in str(caught.value.hint)
    assert not run.exists()
