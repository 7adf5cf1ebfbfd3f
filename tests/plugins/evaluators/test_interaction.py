"""The interaction evaluator: which episodes count, from which starts, and their statistics."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.data import EnvBatch, TimestepBatch
from dicore.errors import UsageError
from dicore.task import OnlineRLContext, StepInterrupted, task
from dicore.testing.fakes import FakeManager, Script
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.evaluators import BaseSerialEvaluator, VectorEvalMonitor
from dicore_plugins.middleware import interaction_evaluator


class Scripted(gymnasium.Env[Any, Any]):
    """One-step or longer episodes whose returns follow a script; notes starts and steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, script: list[float], length: int = 1) -> None:
        self.script, self.length = script, length
        self.starts: list[float] = []
        self.steps_made, self._episode, self._step = 0, -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        self.starts.append(float(self.np_random.random()))
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps_made += 1
        self._step += 1
        reward = self.script[self._episode % len(self.script)] / self.length
        return np.zeros(1, np.float32), reward, self._step >= self.length, False, {}


def mode() -> Any:
    return SimpleNamespace(
        forward=lambda obs: {env_id: {"action": 0} for env_id in obs}, reset=lambda ids=None: None
    )


def judge(
    envs: list[Scripted], log: Any = None, seed: int = 0, auto_reset: bool = True, **options: Any
) -> Any:
    manager = BaseEnvManager([lambda env=env: env for env in envs], {"auto_reset": auto_reset})
    manager.seed(seed, role="evaluator")
    return BaseSerialEvaluator(options, manager, mode(), log=log)


@pytest.mark.parametrize("auto_reset", [True, False])
def test_the_first_episodes_count_and_no_environment_goes_on(auto_reset: bool) -> None:
    """12 over 5: 3, 3, 2, 2, 2; the quick ones stand still while the slow one finishes."""
    envs = [Scripted([1, 2, 3, 4, 5, 6, 7, 8], length) for length in (1, 7, 1, 2, 1)]
    evaluator = judge(envs, n_episode=12, auto_reset=auto_reset)
    expected = [1, 2, 3, 1, 2, 3, 1, 2, 1, 2, 1, 2]
    assert evaluator.eval().returns == pytest.approx(expected)
    assert [env.steps_made for env in envs] == [3, 21, 2, 4, 2]
    assert evaluator.last_result.statistics["envstep_count"] == 32
    evaluator.close()


def used_starts(envs: list[Scripted], evaluator: Any) -> list[float]:
    """Runs an evaluation and returns the starts of the episodes that counted."""
    for env in envs:
        env.starts.clear()
    evaluator.eval()
    return [start for env in envs for start in env.starts[:3]]


def starts_of(seed: int = 0, **options: Any) -> list[list[float]]:
    envs = [Scripted([1]) for _ in range(8)]
    evaluator = judge(envs, seed=seed, n_episode=24, **options)
    found = [used_starts(envs, evaluator) for _ in range(2)]
    evaluator.close()
    return found


def test_every_episode_has_a_start_of_its_own() -> None:
    one, two = starts_of()
    assert (len(one), len(set(one)), len(set(one + two))) == (24, 24, 48)
    assert [one, two] == starts_of()
    assert not set(one) & set(starts_of(seed=1)[0])


def test_fixed_starts_come_again() -> None:
    one, two = starts_of(fixed_starts=True)
    assert one == two
    assert len(set(one)) == 24


def test_a_loaded_state_goes_on_with_other_starts() -> None:
    """After a resumption the evaluation sees what it would have seen, and knows the best."""
    envs = [Scripted([5, 9]) for _ in range(3)]
    evaluator = judge(envs, n_episode=3)
    used_starts(envs, evaluator)
    assert evaluator.should_eval(700)
    state = evaluator.state_dict()
    following = used_starts(envs, evaluator)
    twins = [Scripted([5, 9]) for _ in range(3)]
    twin = judge(twins, n_episode=3)
    twin.load_state_dict(state)
    assert twin.best_return == 5
    assert not twin.should_eval(800)
    assert twin.should_eval(1_700)
    resumed = used_starts(twins, twin)
    assert set(resumed) == set(following)
    assert evaluator.state_dict()["env"] == twin.state_dict()["env"]
    evaluator.close()
    twin.close()


def test_the_best_is_saved_exactly_on_improvements() -> None:
    script = [3.0, 2.0, 3.0, 4.0, 1.0, 9.0, 2.0]
    env = Scripted(script)
    evaluator = judge([env], n_episode=1)
    saved, returns = [], []
    for train_iter in range(1, 9):
        kept = len(saved)
        result = evaluator.eval(saved.append, train_iter)
        returns.append((result.mean_return, len(saved) > kept))
    best = -np.inf
    for value, was_saved in returns:
        assert was_saved == (value > best)
        best = max(best, value)
    assert evaluator.best_return == best == 9
    evaluator.close()


def test_a_miss_begins_the_row_anew() -> None:
    returns = [5.0, 1.0, 5.0, 5.0, 5.0, 1.0, 5.0]
    env = Scripted(returns)
    evaluator = judge([env], n_episode=1, stop_value=5.0, consecutive=2)
    row, stops = 0, set()
    for train_iter in range(1, 12):
        result = evaluator.eval(train_iter=train_iter)
        row = row + 1 if result.returns[0] >= 5 else 0
        stops.add((row, result.stop))
        assert result.stop == (row >= 2)
    assert {(0, False), (1, False), (2, True)} <= stops
    evaluator.close()


def test_a_higher_stop_value_begins_the_row_anew() -> None:
    """What reached the former one says nothing about it; a lower one is reached as well."""
    for stop_value, row in ((9.0, 0), (5.0, 1), (3.0, 1)):
        first = judge([Scripted([5.0] * 9)], n_episode=1, stop_value=5.0, consecutive=2)
        first.eval(train_iter=1)
        env = Scripted([9.0] * 9)
        later = judge([env], n_episode=1, stop_value=stop_value, consecutive=2)
        later.load_state_dict(first.state_dict())
        assert later.eval(train_iter=2).stop == (row + 1 >= 2)
        for evaluator in (first, later):
            evaluator.close()


def test_what_is_told_of_the_episodes() -> None:
    lines: list[Any] = []
    log = SimpleNamespace(
        log_scalars=lambda scalars, *, env_step, train_iter: lines.append(
            (scalars, env_step, train_iter)
        )
    )
    evaluator = judge([Scripted([1, 2, 6], 2), Scripted([3, 10], 4)], log, n_episode=5)
    result = evaluator.eval(train_iter=7, envstep=99)
    returns = [1, 2, 6, 3, 10]
    assert result.returns == pytest.approx(returns)
    told = result.statistics
    for name, value in {
        "return_mean": np.mean(returns),
        "return_std": np.std(returns),
        "return_max": 10,
        "return_min": 1,
        "return_median": 3,
        "episode_count": 5,
        "envstep_count": 14,
        "avg_envstep_per_episode": 14 / 5,
    }.items():
        assert told[name] == pytest.approx(value), name
    assert told["evaluate_time"] > 0
    assert told["avg_envstep_per_sec"] == pytest.approx(14 / told["evaluate_time"])
    assert told["avg_episode_per_sec"] == pytest.approx(5 / told["evaluate_time"])
    assert result.episodes_per_env == [3, 2]
    ((scalars, env_step, train_iter),) = lines
    assert scalars == {f"evaluator/{name}": value for name, value in told.items()}
    assert (env_step, train_iter) == (99, 7)
    assert [info["episode_length"] for info in result.episode_info] == [2, 2, 2, 4, 4]
    evaluator.close()


def test_an_endless_episode_is_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    envs = [Scripted([4], 4), Scripted([10_000], 10_000)]
    evaluator = judge(envs, n_episode=4, max_episode_steps=50)
    with caplog.at_level(logging.WARNING, "dicore.evaluator"):
        assert evaluator.eval().returns == [4, 4, 50, 50]
        evaluator.eval()
    assert len(caplog.records) == 1
    evaluator.close()


def test_an_interrupted_evaluation_begins_again_with_the_same_starts() -> None:
    envs = [Scripted([5, 9], length) for length in (2, 4)]
    evaluator = judge(envs, n_episode=2)
    assert evaluator.should_eval(7)
    for env in envs:
        env.starts.clear()
    turns = iter([False, False, False, True])
    result = evaluator.eval(train_iter=7, should_stop=lambda: next(turns))
    assert (result.interrupted, result.returns) == (True, [5])
    assert (evaluator.last_result, evaluator.best_return) == (None, -np.inf)
    starts = [env.starts.pop(0) for env in envs]
    twins = [Scripted([5, 9], length) for length in (2, 4)]
    twin = judge(twins, n_episode=2)
    twin.load_state_dict(evaluator.state_dict())
    for each, its in ((evaluator, envs), (twin, twins)):
        for env in its:
            env.starts.clear()
        assert each.should_eval(7)
        assert each.eval(train_iter=7).episode_info
        assert [env.starts[0] for env in its] == starts
        each.close()


def test_a_stopped_run_records_no_evaluation() -> None:
    evaluator = judge([Scripted([5])], n_episode=1, eval_at_start=True)
    run = SimpleNamespace(stop_requested=True, log=None, save_best=lambda best: None)
    evaluate = interaction_evaluator(None, None, None, run=run, evaluator=evaluator)
    with task.start(ctx=OnlineRLContext()):
        with pytest.raises(StepInterrupted):
            evaluate(task.ctx)
        assert (task.ctx.last_eval_iter, evaluator.last_result) == (-1, None)
        run.stop_requested = False
        evaluate(task.ctx)
        assert (task.ctx.last_eval_iter, task.ctx.eval_value) == (0, 5)
    evaluator.close()


class Won(Scripted):
    """Reports whether the return of the episode is positive."""

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, {**info, "is_success": self.script[self._episode % len(self.script)] > 0}


@pytest.mark.parametrize(
    ("measure", "value"), [("return", 1.5), ("win_rate", 0.75), ("reward_per_step", 0.3)]
)
def test_three_measures_of_the_same_episodes(measure: str, value: float) -> None:
    """H11: the stop rule and the best checkpoint follow the chosen one."""
    for stop_value, stops in ((value - 0.01, True), (value + 0.01, False)):
        script, saved = [1.0, -1.0, 2.0, 4.0], []
        evaluator = judge(
            [Won(script, length=5)], n_episode=4, measure=measure, stop_value=stop_value
        )
        result = evaluator.eval(saved.append, train_iter=1)
        assert result.returns == pytest.approx(script)
        assert result.stop is stops
        assert evaluator.best_return == pytest.approx(value)
        assert result.statistics["return_mean"] == pytest.approx(1.5)
        assert result.statistics["return_mean" if measure == "return" else measure] == (
            pytest.approx(value)
        )
        assert saved == ["ckpt_best.pth.tar"]
        evaluator.close()


def test_a_measure_of_ones_own() -> None:
    class Worst(BaseSerialEvaluator):
        def measure(self, returns: Any, infos: Any) -> float:
            return float(min(returns))

    manager = BaseEnvManager([lambda: Scripted([3.0, 1.0, 2.0])])
    evaluator = Worst({"n_episode": 3, "stop_value": 1.5}, manager, mode())
    assert not evaluator.eval(train_iter=1).stop
    assert evaluator.best_return == 1.0
    evaluator.close()


def test_an_environment_that_reports_no_win_is_told_so() -> None:
    evaluator = judge([Scripted([1.0])], n_episode=1, measure="win_rate")
    with pytest.raises(UsageError, match="not is_success, success or won"):
        evaluator.eval()
    evaluator.close()


def test_a_vector_of_returns_counts_as_its_sum() -> None:
    steps = [np.array([1, 2], np.float32), np.array([3, 8], np.float32)]
    manager = FakeManager(2, Script(length=lambda env_id, episode: 1))
    manager._advance = lambda ids, actions: TimestepBatch(  # type: ignore[method-assign]
        np.zeros((len(ids), 1)), np.array([steps[each] for each in ids]),
        np.ones(len(ids), np.bool_), np.zeros(len(ids), np.bool_),
        [{"eval_episode_return": steps[each]} for each in ids],
    )  # fmt: skip
    result = BaseSerialEvaluator({"n_episode": 2}, manager, mode()).eval()
    assert [each.tolist() for each in result.returns] == [[1, 2], [3, 8]]
    assert result.mean_return == 7
    assert [result.statistics[f"return_mean/{part}"] for part in (0, 1)] == [2, 5]


def test_an_env_batch_is_taken_as_it_is() -> None:
    evaluator = judge([Scripted([3])], n_episode=1)
    evaluator.reset_policy(
        SimpleNamespace(
            forward=lambda obs: EnvBatch(obs.env_id, {"action": np.zeros(len(obs), np.int64)}),
            reset=lambda ids=None: None,
        )
    )
    assert evaluator.eval().returns == [3]
    evaluator.close()


def test_what_is_no_eval_mode_is_told_so() -> None:
    with pytest.raises(UsageError, match="expected the eval mode of a policy, got list"):
        BaseSerialEvaluator(None, BaseEnvManager([lambda: Scripted([1])]), [])


def test_the_documents_example() -> None:
    assert list(VectorEvalMonitor(5, 12).quota.values()) == [3, 3, 2, 2, 2]


@given(st.integers(1, 20), st.integers(0, 60))
def test_quotas_share_all_episodes_evenly(env_num: int, more: int) -> None:
    quota = VectorEvalMonitor(env_num, env_num + more).quota.values()
    assert sum(quota) == env_num + more
    assert max(quota) - min(quota) <= 1


def test_the_monitor_records_the_first_episodes() -> None:
    monitor = VectorEvalMonitor(2, 3)
    for value in (1, 2, 3, 4):
        monitor.update_reward(0, value)
        monitor.update_info(0, {"value": value})
    assert not monitor.is_finished()
    assert monitor.get_current_episode() == [2, 0]
    with pytest.raises(UsageError, match="environment 1"):
        monitor.get_latest_reward(1)
    monitor.update_reward(1, 9.0)
    monitor.update_info(1, {"value": 9})
    assert monitor.is_finished()
    assert monitor.get_episode_reward() == [1, 2, 9]
    assert monitor.get_latest_reward(0) == 2
    assert [info["value"] for info in monitor.get_episode_info()] == [1, 2, 9]


@pytest.mark.parametrize(
    ("env_num", "message"), [(5, r"3 episodes .* 5 environments"), (0, "env_num must be >= 1")]
)
def test_each_environment_must_have_an_episode(env_num: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        VectorEvalMonitor(env_num, 3)


def dues(evaluator: Any, counts: Any, *, beside: bool = False) -> list[int]:
    """Returns the updates at which an evaluation is due, and makes it."""
    found = []
    for train_iter, env_step, env_episode in counts:
        if evaluator.due(train_iter, env_step, env_episode, beside=beside):
            evaluator.eval(None, train_iter, env_step)
            found.append(train_iter)
    return found


def test_unasked_evaluations_take_a_tenth_of_the_env_steps() -> None:
    """Counted in env steps, so that equal seeds evaluate equally on every machine."""
    counts = [(step, step, step // 7) for step in range(0, 20_000, 100)]
    evaluator = judge([Scripted([5], 70)], n_episode=2)  # 140 steps each, 14 expected at first
    found = dues(evaluator, counts)
    assert found[0] == 1_000, "the first one was expected to be short"
    assert all(140 * n <= 0.1 * at for n, at in enumerate(found[1:], 2))
    assert len(found) >= 13
    halves = [judge([Scripted([5], 70)], n_episode=2) for _ in range(2)]
    first = dues(halves[0], counts[:77])
    halves[1].load_state_dict(halves[0].state_dict())
    assert first + dues(halves[1], counts[77:]) == found
    long = judge([Scripted([5], 70)], n_episode=2)
    assert dues(long, [(step, step, step // 700) for step in range(0, 12_000, 100)]) == []
    for each in (evaluator, *halves, long):
        each.close()


@pytest.mark.parametrize(
    ("options", "beside", "wanted"),
    [
        ({"eval_freq": 400}, False, [400, 800]),
        ({"eval_freq": 400, "eval_at_start": True}, False, [0, 400, 800]),
        ({"eval_env_step": 1_000}, False, [500, 1000]),
        ({"eval_env_step": 1_000, "eval_at_start": True}, False, [0, 500, 1000]),
        ({}, True, [1000]),
        ({"eval_share": 100.0}, False, [1000]),
    ],
)
def test_asked_evaluations_are_made(options: Any, beside: bool, wanted: list[int]) -> None:
    evaluator = judge([Scripted([5], 70)], n_episode=2, **options)
    counts = [(step, 2 * step, 1) for step in range(0, 1_001, 100)]
    assert dues(evaluator, counts, beside=beside) == wanted
    evaluator.close()


def test_a_long_evaluation_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dicore_plugins.evaluators.interaction.evaluator._PATIENCE_S", 0.0)
    lines: list[str] = []
    log = SimpleNamespace(
        log_text=lambda text, channel="run": lines.append(text), log_scalars=lambda *_, **__: None
    )
    evaluator = judge([Scripted([5], 4)], log, n_episode=3)
    evaluator.eval(None, 1, 1)
    ended = [0, 0, 0, 1, 1, 1, 1, 2]
    expected = [f"evaluating: {n} of 3 episodes, {k} env steps" for k, n in enumerate(ended, 1)]
    assert lines[:8] == expected, "also while an episode lasts"
    assert len(lines) == 12
    evaluator.close()
