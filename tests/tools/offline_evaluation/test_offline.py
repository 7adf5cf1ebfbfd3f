"""`dicore eval RUN --offline DATA`: values of a known policy, a run's policy, wrong data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.cli import main
from dicore.data import EnvBatch
from dicore.errors import NonFiniteError, SchemaError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.run.launch import launch
from dicore.run.random import seeded
from dicore_plugins.datasets import NpzDataset, write_npz
from dicore_tools.evaluation.offline.evaluate import Estimation, estimated, evaluate_offline
from dicore_tools.evaluation.offline.recorded import recorded
from dicore_tools.evaluation.offline.target import Target

GAMMA, RIGHT = 0.9, 0.8
CORRIDOR = EnvSpec(spaces.Box(-np.inf, np.inf, (5,), np.float32), spaces.Discrete(2))
QUICK = [
    "env.collector_env_num=2", "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
    "env.stop_value=inf", "pipeline.logger=[]",
]  # fmt: skip


def exact() -> float:
    """V(0) of the policy that goes right with probability RIGHT, by a linear system.

    A step right pays 1, left -0.5; 4 is terminal; left of 0 is 0.
    """
    move = np.zeros((4, 5))
    for at in range(4):
        move[at, at + 1] += RIGHT
        move[at, max(at - 1, 0)] += 1 - RIGHT
    values = np.linalg.solve(np.eye(4) - GAMMA * move[:, :4], np.full(4, RIGHT - 0.5 * (1 - RIGHT)))
    return float(values[0])


def corridor(path: Path, right: float = 0.5, episodes: int = 400) -> str:
    """Walks of a behaviour that goes right with a probability, with `log_prob`."""
    rng = np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []
    for _ in range(episodes):
        at, step = 0, 0
        while at != 4 and step < 60:
            action = int(rng.random() < right)
            after, step = (at + 1 if action else max(at - 1, 0)), step + 1
            chance = right if action else 1 - right
            rows.append((
                np.eye(5)[at], action, 1.0 if action else -0.5, after == 4,
                step == 60 and after != 4, np.eye(5)[after], np.log(chance),
            ))  # fmt: skip
            at = after
    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs", "log_prob")
    write_npz(path, {k: np.array(c) for k, c in zip(names, zip(*rows, strict=True), strict=True)})
    return str(path)


def walker(kind: str = "softmax") -> SimpleNamespace:
    """A policy whose collect mode goes right with probability RIGHT, its eval mode always."""
    logit = np.log([1 - RIGHT, RIGHT])
    rng = np.random.default_rng(1)

    def draw(batch: EnvBatch[Any]) -> EnvBatch[Any]:
        action = (rng.random(len(batch)) < RIGHT).astype(np.int64)
        return batch.with_value({"action": action, "logit": np.tile(logit, (len(batch), 1))})

    def best(batch: EnvBatch[Any]) -> EnvBatch[Any]:
        return batch.with_value({"action": np.ones(len(batch), np.int64)})

    def mode(forward: Callable[..., Any]) -> SimpleNamespace:
        return SimpleNamespace(
            forward=forward, reset=lambda *_, **__: None, get_attribute=lambda name: kind
        )

    return SimpleNamespace(collect_mode=mode(draw), eval_mode=mode(best))


def job(path: str, *, sample: bool = True, updates: int = 1500) -> Estimation:
    fit = {
        "type": "fqe", "batch_size": 128, "learning_rate": 3e-3, "target_theta": 0.05,
        "hidden_size_list": [32],
    }  # fmt: skip
    context = BuildContext(CORRIDOR, seed=0)
    target = Target(walker(), CORRIDOR.action, sample=sample)
    compiled: Any = SimpleNamespace(
        seed=0,
        policy=SimpleNamespace(
            discount_factor=GAMMA, eval=SimpleNamespace(evaluator=fit), get=lambda *_: True
        ),
    )
    return Estimation(recorded(path, context, GAMMA), target, context, compiled, updates)


def test_all_estimators_find_the_value_of_a_known_policy(tmp_path: Path) -> None:
    """The data is of a behaviour whose own return is far from that."""
    with seeded(0):
        found = job(corridor(tmp_path / "x.npz"))
        estimates, reasons = estimated(found, ())
    assert reasons == {}
    assert [*estimates] == ["fqe", "wis", "dr"]
    assert found.behaviour().value < exact() - 0.3
    for name, each in estimates.items():
        assert each.value == pytest.approx(exact(), abs=0.2), name
    low, high = estimates["dr"].interval or (0, 0)
    wis_low, wis_high = estimates["wis"].interval or (0, 0)
    assert low < exact() < high
    assert high - low < wis_high - wis_low, "fitted values make it more exact"


def test_a_recording_that_was_cut_off_lowers_no_estimate(tmp_path: Path) -> None:
    """Each other walk is recorded for a few steps only, as by dicore collect -n."""
    path = Path(corridor(tmp_path / "x.npz", 0.6))
    columns = dict(np.load(path))
    end = columns["terminated"] | columns["truncated"]
    walk = np.cumsum(end) - end
    starts = np.flatnonzero(np.append(True, end[:-1]))
    step = np.arange(len(end)) - starts[walk]
    kept = (walk % 2 == 0) | (step < 3)
    columns["truncated"] |= (walk % 2 == 1) & (step == 2) & ~columns["terminated"]
    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs", "log_prob")
    write_npz(tmp_path / "cut.npz", {name: columns[name][kept] for name in names})
    with seeded(0):
        whole, found = job(str(path)), job(str(tmp_path / "cut.npz"))
        assert found.weighted().value == pytest.approx(whole.weighted().value, abs=0.1)
        assert found.behaviour().value == pytest.approx(whole.behaviour().value, abs=0.1)


def test_greedy_discrete_actions_have_probabilities(tmp_path: Path) -> None:
    """Always right: 1 + 0.9 + 0.81 + 0.729; one of 16 episodes does that."""
    estimates, _ = estimated(job(corridor(tmp_path / "x.npz"), sample=False), ["wis"])
    assert estimates["wis"].value == pytest.approx(1 + 0.9 + 0.81 + 0.729)


def test_without_an_episode_that_acts_like_the_policy_there_are_no_weights(tmp_path: Path) -> None:
    with seeded(0):
        found = job(corridor(tmp_path / "x.npz", 0.1, 20), sample=False, updates=5)
        with pytest.raises(UsageError, match=r"no episode acts like the policy up to step"):
            estimated(found, ["wis"])
        estimates, reasons = estimated(found, ())
    assert [*estimates] == ["fqe", "dr"]
    assert "all weights are 0" in reasons["wis"]


def rewritten(path: str, name: str, change: Callable[[dict[str, Any]], object]) -> str:
    columns = dict(np.load(path))
    change(columns)
    at = Path(path).with_name(name)
    np.savez(at, **columns)
    return str(at)


def place(column: str, row: int, value: float) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns[column] = columns[column].astype(np.float64)
        columns[column][row] = value

    return change


def times(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns["log_prob"] = np.tile(columns["log_prob"], 9) + np.log(factor)
        for name in {*columns} - {"log_prob"}:
            columns[name] = np.concatenate([columns[name]] * 9)

    return change


def never_ends(columns: dict[str, Any]) -> None:
    size = len(columns["obs"])
    columns["terminated"] = columns["truncated"] = np.zeros(size, bool)
    columns["obs"] = columns["next_obs"] = np.zeros((size, 5))


@pytest.mark.parametrize(
    ("error", "text", "change"),
    [
        (SchemaError, "no column terminated", lambda c: c.pop("terminated")),
        (SchemaError, "no column log_prob", lambda c: c.pop("log_prob")),
        (UsageError, "one episode without a terminal flag: either no end is marked", never_ends),
        (SchemaError, "gives 1?[0-9]+% of the actions more than 100 times", times(np.exp(-20))),
        (SchemaError, "gives actions on average [23].* times the recorded", times(1 / 3)),
        (NonFiniteError, "episode 0, log_prob: -inf in step 5", place("log_prob", 5, -np.inf)),
        (NonFiniteError, r"reward: nan", place("reward", 3, np.nan)),
        (NonFiniteError, r"importance weights overflow in episode 0: exp\(8",
         place("log_prob", 0, -900)),
        (SchemaError, "0.5 is above 0, so it is no logarithm", place("log_prob", 0, 0.5)),
        (SchemaError, "expected one number per step, got .2.",
         lambda c: c.update(log_prob=np.tile(c["log_prob"][:, None], 2))),
        (SchemaError, "log_prob: cut off after", lambda c: c.update(log_prob=c["log_prob"][:-2])),
        (SchemaError, "log_prob: expected numbers, got <U",
         lambda c: c.update(log_prob=c["log_prob"].astype(str))),
        (SchemaError, "environment",
         lambda c: c.update(obs=c["obs"][:, :3], next_obs=c["next_obs"][:, :3])),
    ],
)  # fmt: skip
def test_wrong_data_is_one_error_with_a_way_out(
    tmp_path: Path, error: type[Exception], text: str, change: Callable[[dict[str, Any]], object]
) -> None:
    path = rewritten(corridor(tmp_path / "x.npz", episodes=5), "bad.npz", change)
    with seeded(0), pytest.raises(error, match=text) as found:
        estimated(job(path, updates=5), ["dr"])
    assert getattr(found.value, "hint", "")


def test_a_policy_that_tells_no_distribution_cannot_be_sampled() -> None:
    with pytest.raises(UsageError, match="not drawn from a distribution"):
        Target(walker("eps_greedy"), CORRIDOR.action, sample=True)


def test_a_policy_with_a_memory_is_refused() -> None:
    policy = walker()
    act = policy.collect_mode.forward
    policy.collect_mode.forward = lambda batch: batch.with_value(
        {**act(batch).value, "prev_state": 0}
    )
    with pytest.raises(UsageError, match="has a memory"):
        Target(policy, CORRIDOR.action, sample=True).forward(EnvBatch(np.arange(2), np.eye(5)[:2]))


# ---- runs


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of PPO on CartPole and of SAC on Pendulum, and what they did."""
    folder = tmp_path_factory.mktemp("offline")
    launch(
        env="cartpole", policy="ppo", exp_name=str(folder / "ppo"), max_env_step=128,
        overrides=[*QUICK, "policy.collect.n_sample=64"],
    )  # fmt: skip
    launch(
        env="pendulum", policy="sac", exp_name=str(folder / "sac"), max_env_step=64,
        overrides=[*QUICK, "policy.learn.batch_size=16"],
    )  # fmt: skip
    for name in ("ppo", "sac"):
        words = ["-n", "400", "--log-prob", "-o", str(folder / f"{name}.npz")]
        assert main(["collect", str(folder / name), *words]) == 0
    return folder


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_the_policy_that_acted_has_the_return_of_the_data(at: Path, name: str) -> None:
    """All weights are 1: what it says of its actions now is what it said then."""
    found = evaluate_offline(at / name, str(at / f"{name}.npz"), estimators=["wis"], sample=True)
    assert found.estimates["wis"].value == pytest.approx(found.behaviour.value, rel=1e-3)
    assert found.effective_episodes == pytest.approx(found.episodes, rel=1e-2)
    assert found.steps == 400


def test_a_run_whose_wrappers_measure_says_what_data_it_needs(
    at: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    normed = str(tmp_path / "normed")
    launch(
        env="pendulum", policy="sac", exp_name=normed, max_env_step=64,
        overrides=[*QUICK, "policy.learn.batch_size=16", "env.env_wrapper=[obs_norm]"],
    )  # fmt: skip
    for run, told in ((at / "sac", 0), (normed, 1)):
        evaluate_offline(run, str(at / "sac.npz"), estimators=["wis"], sample=True)
        assert caplog.text.count("has to have been recorded with those") == told


def test_the_command_prints_estimates_and_reasons(
    at: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", str(at / "sac"), "--offline", str(at / "sac.npz"), "--updates", "10"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [*told["estimates"]] == ["fqe"]
    assert "no probabilities" in told["not_estimated"]["wis"]
    assert told["behaviour"]["interval_95"] is not None or told["episodes"] == 2
    assert main(words) == 0
    text = capfd.readouterr().out
    assert "fqe " in text
    assert "dr        not estimated: greedy continuous actions" in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--offline", "x.npz", "--against", "b"], "--against plays games"),
        (["--estimator", "wis"], "--estimator has no effect without --offline"),
        (["--updates", "5"], "--updates has no effect without --offline"),
        (["--offline", "x.npz", "-n", "5"], "drop --n-episode"),
        (["--offline", "nothing.npz"], "nothing.npz"),
    ],
)
def test_options_that_do_not_fit(
    at: Path, capfd: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    assert main(["eval", str(at / "ppo"), *words]) == 2
    assert text in capfd.readouterr().err


def test_epsilon_greedy_steps_have_their_probability(tmp_path: Path) -> None:
    launch(
        env="cartpole", policy="dqn", exp_name=str(tmp_path / "dqn"), max_env_step=64,
        overrides=[*QUICK, "policy.learn.batch_size=16"],
    )  # fmt: skip
    out = str(tmp_path / "x.npz")
    words = ["collect", str(tmp_path / "dqn"), "-n", "300", "--log-prob", "-o", out]
    assert main([*words, "--eps", "0.4"]) == 0
    data = NpzDataset({"path": out, "extra": ["log_prob"]}).take(np.arange(300))
    chance = np.exp(data["log_prob"])
    assert sorted({*np.round(chance, 4).tolist()}) == pytest.approx([0.2, 0.8])
    assert np.mean(chance > 0.5) == pytest.approx(0.8, abs=0.1)


def test_what_has_no_log_probabilities_is_not_collected_with_them(
    at: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["collect", str(at / "sac"), "-n", "10", "--log-prob"]
    assert main([*words, "--greedy", "-o", str(tmp_path / "x.npz")]) != 0
    assert "they have no log-probabilities" in capfd.readouterr().err
    assert main([*words, "-o", str(tmp_path / "folder")]) != 0
    assert "written to a file" in capfd.readouterr().err
