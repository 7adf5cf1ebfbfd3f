"""The contract of evaluators (`ISerialEvaluator`): the first whole episodes of each environment.

The environments are fakes of scripted returns and lengths; the policy is a hand-made tuple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dicore.errors import DicoreError, UsageError
from dicore.interfaces.evaluator import ISerialEvaluator
from dicore.testing.compare import array, copied
from dicore.testing.fakes import DelayedEnvManager, FakeEvalMode, FakeManager, Script
from dicore.testing.suite import Suite, expect, expect_members, refuses

__all__ = ["EvaluatorContract"]


class EvaluatorContract(Suite):
    """Conformance suite of evaluators: subclass it and override `make`."""

    def make(self, env_manager: object, eval_mode: object, options: Mapping[str, Any]) -> Any:
        """Returns an evaluator (`ISerialEvaluator`).

        Args:
            env_manager: Its own environments.
            eval_mode: A tuple of functions as `EvalMode`.
            options: `n_episode`, `stop_value`, `eval_freq`; a total return is what counts.
        """
        return self.registered.build(options, env_manager=env_manager, policy=eval_mode)

    def test_has_the_methods(self) -> None:
        """It satisfies `ISerialEvaluator`."""
        expect_members(self._evaluator(FakeManager(2)), ISerialEvaluator)

    def test_returns_one_return_per_episode(self) -> None:
        """`stop, returns = eval()`: the undiscounted returns of exactly `n_episode` episodes."""
        evaluator = self._evaluator(FakeManager(3, _returning([[1, 2], [10, 20], [100]])), 5)
        stop, returns = evaluator.eval(train_iter=1)
        expect(stop is False, "stop_value was inf, but stop is True")
        expect(sorted(returns) == [1, 2, 10, 20, 100], f"the episodes' returns are {returns}")
        more = evaluator.eval(train_iter=2, n_episode=7)
        expect(len(more.returns) == 7, f"7 episodes asked for, {len(more.returns)} returned")

    def test_returns_of_any_shape(self) -> None:
        """Returns per agent or objective keep their shape; their sum is what `stop_value` means."""
        script = Script(
            length=lambda env_id, _: 2, reward=lambda env_id, episode, step: [1.0, 10.0 * env_id]
        )
        for stop_value, wanted in ((12.0, True), (12.5, False)):
            evaluator = self._evaluator(FakeManager(2, script), 2, stop_value=stop_value)
            stop, returns = evaluator.eval(train_iter=1)
            found = sorted(array(each).tolist() for each in returns)
            expect(found == [[2.0, 0.0], [2.0, 20.0]], f"the returns are {found}")
            expect(bool(stop) is wanted, f"a mean sum of 12, stop_value {stop_value}: {stop}")

    def test_envs_give_equally_many_episodes(self) -> None:
        """All environments give equally many episodes, and none steps beyond its share."""
        lengths = [1, 50]
        script = Script(
            length=lambda env_id, episode: lengths[env_id],
            reward=lambda env_id, episode, step: float(step == lengths[env_id] - 1) * (episode + 1),
        )
        manager = FakeManager(2, script)
        _, returns = self._evaluator(manager, 6).eval(train_iter=1)
        expect(sorted(returns) == [1, 1, 2, 2, 3, 3], f"the first three of each: {returns}")
        expect(manager.steps == [3, 150], f"3 and 150 steps were needed, made: {manager.steps}")

    def test_works_with_asynchronous_managers(self) -> None:
        """A manager that answers for some environments at a time gives the same returns."""
        script = _returning([[1, 2], [10, 20], [100, 200]], length=lambda env_id, _: 5 + env_id)
        script = replace(script, reward=lambda env_id, episode, step: float(10**env_id + episode))
        for seed in range(3):
            manager = FakeManager(3, script)
            _, found = self._evaluator(DelayedEnvManager(manager, seed), 6).eval(train_iter=1)
            wanted = [5, 10, 60, 66, 700, 707]
            expect(sorted(found) == wanted, f"returns are {wanted}, got {sorted(found)}")
            expect(manager.steps == [10, 12, 14], f"10, 12 and 14 steps, made: {manager.steps}")

    def test_an_interrupted_evaluation_is_repeated(self) -> None:
        """`should_stop` ends an evaluation between steps; it counts for nothing and is repeated."""
        manager, saved = FakeManager(2, _returning([[1, 7], [3, 9]])), list[str]()
        evaluator = self._evaluator(manager, 2, eval_freq=10)
        evaluator.should_eval(0)
        evaluator.eval(saved.append, train_iter=0)
        evaluator.should_eval(10)
        steps, turns = list(manager.steps), iter([False, False, True])
        result = evaluator.eval(saved.append, 10, should_stop=lambda: next(turns))
        made = [now - then for now, then in zip(manager.steps, steps, strict=True)]
        expect(made == [2, 2], f"stopped before the third step of each, made: {made}")
        expect(result.interrupted and not result.stop, f"the result is {result}")
        twin = self._evaluator(FakeManager(2, manager.script), 2, eval_freq=10)
        twin.load_state_dict(copied(evaluator.state_dict()))
        for each in (evaluator, twin):
            expect(each.should_eval(10), "an interrupted evaluation is not due again")
            expect(len(saved) == 1, "an interrupted evaluation saved a checkpoint")
            found = sorted(each.eval(train_iter=10).returns)
            expect(found == [7, 9], f"the second episodes return 7 and 9, got {found}")

    def test_fewer_episodes_than_envs_raise(self) -> None:
        """Fewer episodes than environments raise an error: they would favour short episodes."""
        evaluator = self._evaluator(FakeManager(4), 4)
        with refuses(UsageError, "evaluating 3 episodes in 4 environments"):
            evaluator.eval(train_iter=1, n_episode=3)

    def test_stops_at_stop_value(self) -> None:
        """A return equal to `stop_value` stops, one below does not, and update 0 never stops."""
        for returns, train_iter, wanted in (([9, 11], 1, True), ([9, 10.9], 1, False),
                                            ([50, 50], 0, False)):  # fmt: skip
            script = _returning([[each] for each in returns])
            evaluator = self._evaluator(FakeManager(2, script), 2, stop_value=10.0)
            stop, _ = evaluator.eval(train_iter=train_iter)
            said = f"returns {returns} at update {train_iter}, stop_value 10: stop is {stop}"
            expect(stop is wanted, said)

    def test_is_due_at_intervals(self) -> None:
        """An evaluation is due at 0, then every `eval_freq` updates, once per count."""
        evaluator = self._evaluator(FakeManager(1), 1, eval_freq=10)
        due = [
            at for at in (0, 0, 3, 9, 10, 10, 14, 19, 23, 24, 32, 33) if evaluator.should_eval(at)
        ]
        expect(due == [0, 10, 23, 33], f"every 10 updates: due at {due}")

    def test_only_a_new_best_is_saved(self) -> None:
        """Only a new maximum saves the checkpoint `ckpt_best.pth.tar`."""
        present = 0.0
        script = Script(reward=lambda env_id, episode, step: present if step == 4 else 0.0)
        evaluator = self._evaluator(FakeManager(1, script), 1)
        saved: list[tuple[int, str]] = []
        for at, present in enumerate((5.0, 4.0, 5.0, 7.0, 6.0), 1):  # noqa: B007 - the script's
            evaluator.eval(partial(_note, saved, at), train_iter=at, envstep=at)
        wanted = [(1, "ckpt_best.pth.tar"), (4, "ckpt_best.pth.tar")]
        expect(saved == wanted, f"returns 5, 4, 5, 7, 6: saved at {saved}")

    def test_returns_statistics(self) -> None:
        """The result has mean, std, extremes, counts and time."""
        result = self._evaluator(FakeManager(2, _returning([[1, 3], [5, 7]])), 4).eval(train_iter=1)
        expect(result.mean_return == 4.0, f"mean of 1, 3, 5, 7: {result.mean_return}")
        told = {key: result.statistics.get(key) for key in _STATISTICS}
        expect(told == _STATISTICS, f"statistics of 1, 3, 5, 7: {told}")
        expect(len(result.episode_info) == 4, f"4 episodes, {len(result.episode_info)} infos")

    def test_policy_is_reset_for_each_episode(self) -> None:
        """The policy is reset before an evaluation and at the end of each episode."""
        mode = FakeEvalMode()
        evaluator = self._evaluator(FakeManager(2), 4, mode=mode)
        evaluator.eval(train_iter=1)
        before = mode.resets[0] if mode.resets else "nothing"
        expect(before is None or list(before) == [0, 1], f"reset before the evaluation: {before}")
        ended = [int(each) for given in mode.resets[1:] if given is not None for each in given]
        expect({*ended} == {0, 1} and len(ended) >= 2, f"reset where episodes ended: {ended}")

    def test_abnormal_episodes_are_replaced(self) -> None:
        """An episode with an abnormal step is replaced by the next one of its environment."""
        script = _returning([[1, 2, 3], [10, 20, 30]], abnormal=frozenset({(0, 0, 1)}))
        _, returns = self._evaluator(FakeManager(2, script), 4).eval(train_iter=1)
        expect(sorted(returns) == [2, 3, 10, 20], f"episode 0 of environment 0 failed: {returns}")

    def test_evaluations_start_new_episodes(self) -> None:
        """Each evaluation starts new episodes, even if one is unfinished."""
        manager = FakeManager(2)
        evaluator = self._evaluator(manager, 2)
        evaluator.eval(train_iter=1)
        manager.step({0: 0})
        before = list(manager.steps)
        evaluator.eval(train_iter=2)
        made = [now - then for now, then in zip(manager.steps, before, strict=True)]
        expect(made == [5, 5], f"two whole episodes are 5 and 5 steps, made: {made}")

    def test_state_round_trip(self) -> None:
        """A new evaluator with the loaded state keeps the best return and the schedule."""
        evaluator = self._evaluator(FakeManager(1, _returning([[5]])), 1, eval_freq=10)
        evaluator.should_eval(0)
        evaluator.eval(lambda name: None, train_iter=1)
        twin = self._evaluator(FakeManager(1, _returning([[5]])), 1, eval_freq=10)
        twin.load_state_dict(copied(evaluator.state_dict()))
        expect(not twin.should_eval(9), "after loading the state, an evaluation is due too early")
        saved: list[str] = []
        twin.reset_env()
        twin.eval(saved.append, train_iter=11)
        expect(not saved, "an equal return after loading counts as a new best")

    def test_reset_env_and_reset_policy_replace_them(self) -> None:
        """`reset_env` and `reset_policy` replace environments and policy."""
        evaluator = self._evaluator(FakeManager(1), 1)
        evaluator.eval(train_iter=1)
        manager, mode = FakeManager(1, _returning([[42, 43]])), FakeEvalMode()
        evaluator.reset_env(manager)
        evaluator.reset_policy(mode.mode)
        _, returns = evaluator.eval(train_iter=2)
        expect(returns in ([42], [43]), f"the new environments return 42, got {returns}")
        expect(mode.calls > 0, "the new policy was not called")

    def test_reset_clears_the_best(self) -> None:
        """After `reset`, an evaluation is due at 0 and is a new best."""
        evaluator = self._evaluator(FakeManager(1, _returning([[9, 1, 1, 1]])), 1)
        evaluator.should_eval(0)
        evaluator.eval(train_iter=1)
        evaluator.reset()
        expect(evaluator.should_eval(0), "after reset it is not due at 0")
        saved: list[str] = []
        evaluator.eval(saved.append, train_iter=1)
        expect(len(saved) == 1, "after reset the first evaluation is not a new best")

    def test_close_is_final(self) -> None:
        """`close` closes the environments, can be repeated, and makes `eval` raise."""
        manager = FakeManager(1)
        evaluator = self._evaluator(manager, 1)
        evaluator.eval(train_iter=1)
        evaluator.close()
        expect(manager.closed, "its environments are still open")
        evaluator.close()
        with refuses(DicoreError, "evaluating with a closed evaluator"):
            evaluator.eval(train_iter=2)

    def _evaluator(
        self, manager: Any, n_episode: int = 5, *, mode: FakeEvalMode | None = None,
        stop_value: float = float("inf"), eval_freq: int = 1000,
    ) -> Any:  # fmt: skip
        options = {"n_episode": n_episode, "stop_value": stop_value, "eval_freq": eval_freq}
        return self.make(manager, (mode or FakeEvalMode()).mode, options)


_STATISTICS = {
    "return_mean": 4.0,
    "return_std": 5.0**0.5,
    "return_max": 7.0,
    "return_min": 1.0,
    "return_median": 4.0,
    "episode_count": 4.0,
    "envstep_count": 20.0,
}


def _note(saved: list[tuple[int, str]], at: int, name: str) -> None:
    saved.append((at, name))


def _returning(returns: Sequence[Sequence[float]], **rest: Any) -> Script:
    """Episodes of 5 steps with given returns per environment; the last return repeats."""
    return Script(
        reward=lambda env_id, episode, step: float(
            returns[env_id][min(episode, len(returns[env_id]) - 1)] if step == 4 else 0.0
        ),
        **rest,
    )
