"""The contract of learners (`ILearner`): calls the learn mode, runs hooks, counts updates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir
from typing import Any

from dicore.data import Batch, Tree
from dicore.errors import HookError
from dicore.interfaces.hook import POSITIONS, LearnerHook
from dicore.interfaces.learner import ILearner
from dicore.testing.fakes import FakeLearnMode
from dicore.testing.suite import Suite, expect, expect_members, folder, refuses, skip

__all__ = ["LearnerContract", "RecordingHook"]


class RecordingHook(LearnerHook):
    """A hook that appends its name and `train_iter` to a list."""

    def __init__(self, log: list[object], name: str, position: str, priority: int = 100) -> None:
        super().__init__(name, position=position, priority=priority)
        self.log = log

    def __call__(self, engine: ILearner) -> None:
        self.log.append((self.name, engine.train_iter))


class LearnerContract(Suite):
    """Conformance suite of learners: subclass it and override `make`."""

    def make(self, learn_mode: Any, options: Mapping[str, Any] | None = None) -> Any:
        """Returns a learner (`ILearner`) of this learn mode, without default hooks.

        Args:
            learn_mode: A tuple of functions as `LearnMode`.
            options: `train_iterations` among them, where the learner runs by itself.
        """
        return self.registered.build({"hook": {}, **(options or {})}, policy=learn_mode)

    def test_has_the_methods(self) -> None:
        """It satisfies `ILearner` and starts at `train_iter` 0."""
        learner = self.make(FakeLearnMode().mode)
        expect_members(learner, ILearner)
        expect(
            learner.train_iter == 0,
            f"train_iter of a new learner: expected 0, got {learner.train_iter}",
        )

    def test_passes_data_to_the_learn_mode(self) -> None:
        """`train` calls the learn mode once, with the given data and keyword arguments."""
        fake = FakeLearnMode()
        learner, data = self.make(fake.mode), object()
        learner.train(data, envstep=5, policy_kwargs={"beta": 1})
        expect(len(fake.calls) == 1, f"one call of train, {len(fake.calls)} of forward")
        expect(fake.calls[0][0] is data, "the learn mode received different data")
        expect(fake.calls[0][1] == {"beta": 1}, f"policy_kwargs arrived as {fake.calls[0][1]}")

    def test_counts_every_update(self) -> None:
        """`train_iter` counts each update of a call."""
        fake = FakeLearnMode(updates=[1, 4, 1])
        learner = self.make(fake.mode)
        counts = []
        for _ in range(3):
            results = learner.train([])
            counts.append((len(results), learner.train_iter))
        expect(counts == [(1, 1), (4, 5), (1, 6)], f"results and count per call: {counts}")

    def test_results_stay_on_their_device(self) -> None:
        """Results remain on their device: they are not converted."""
        fake = FakeLearnMode()
        learner = self.make(fake.mode)
        for _ in range(3):
            result = learner.train([])[0]
            expect(result["total_loss"] is fake.results[-1]["total_loss"], "a result was replaced")

    def test_hooks_run_around_each_iteration(self) -> None:
        """`before_iter` hooks run before counting the update, `after_iter` hooks after it."""
        log: list[Tree] = []
        learner = self.make(FakeLearnMode(updates=[2, 1]).mode)
        for position in POSITIONS:
            learner.register_hook(RecordingHook(log, position, position))
        learner.train([])
        learner.train([])
        wanted = [("before_iter", 0), ("after_iter", 2), ("before_iter", 2), ("after_iter", 3)]
        expect(log == wanted, f"hooks ran {log}, expected {wanted}")

    def test_hooks_run_by_priority(self) -> None:
        """Hooks run by priority, lower first; equal ones in order of registration."""
        log: list[Tree] = []
        learner = self.make(FakeLearnMode().mode)
        for name, priority in (("c", 50), ("a", 0), ("d", 50), ("z", 200)):
            learner.register_hook(RecordingHook(log, name, "after_iter", priority))
        learner.train([])
        learner.register_hook(RecordingHook(log, "b", "after_iter", 20))
        learner.register_hook(RecordingHook(log, "e", "after_iter", 50))
        learner.train([])
        names = "".join(name for name, _ in log)
        expect(names == "acdzabcdez", f"hooks ran {names}, expected acdz, then abcdez")

    def test_call_hook_runs_one_position(self) -> None:
        """`call_hook` runs all hooks of a position, and no other."""
        log: list[Tree] = []
        learner = self.make(FakeLearnMode().mode)
        for position in POSITIONS:
            learner.register_hook(RecordingHook(log, position, position))
        for position in POSITIONS:
            learner.call_hook(position)
        expect([name for name, _ in log] == list(POSITIONS), f"hooks ran {log}")

    def test_unknown_positions_raise(self) -> None:
        """Unknown positions raise, in `call_hook` and `register_hook`."""
        learner = self.make(FakeLearnMode().mode)
        with refuses(HookError, "calling position 'sometimes'"):
            learner.call_hook("sometimes")
        hook = RecordingHook([], "x", "after_iter")
        hook.position = "sometimes"
        with refuses(HookError, "registering a hook at 'sometimes'"):
            learner.register_hook(hook)

    def test_training_errors_propagate(self) -> None:
        """Exceptions of the learn mode propagate, and the update is not counted."""

        def broken(data: Batch, **kwargs: object) -> Any:
            raise ZeroDivisionError("planted")

        learner = self.make(FakeLearnMode().mode._replace(forward=broken))
        with refuses(ZeroDivisionError, "training with a broken learn mode"):
            learner.train([])
        expect(learner.train_iter == 0, "a failed update was counted")

    def test_returns_priorities(self) -> None:
        """`priority_info` and `learn_info` describe the last batch, with the ids of its samples."""
        fake = FakeLearnMode(priority=[0.5, 1.5])
        learner = self.make(fake.mode)
        rows = [{"replay_unique_id": 7, "replay_buffer_idx": 0},
                {"replay_unique_id": 9, "replay_buffer_idx": 2}]  # fmt: skip
        learner.train(rows)
        info = {key: list(value) for key, value in learner.priority_info.items()}
        wanted = {
            "priority": [0.5, 1.5], "replay_unique_id": [7, 9], "replay_buffer_idx": [0, 2]
        }  # fmt: skip
        expect(info == wanted, f"priority_info is {info}, expected {wanted}")
        told = learner.learn_info
        missing = {"learner_step", "priority_info", "learner_done"} - set(told)
        expect(not missing, f"learn_info lacks {missing}")
        expect(told["learner_step"] == 1 and not told["learner_done"], f"learn_info is {told}")

    def test_start_trains_from_the_data_source(self) -> None:
        """`start` trains from the data source until `train_iterations`, with run hooks."""
        log: list[Tree] = []
        fake = FakeLearnMode()
        learner = self.make(fake.mode, {"train_iterations": 10})
        if not hasattr(learner, "get_data"):
            skip("it has no source of data")
        learner.get_data = lambda batch_size: ["row"] * batch_size
        for position in POSITIONS:
            learner.register_hook(RecordingHook(log, position, position))
        learner.start()
        learner.close()
        counts = [sum(name == position for name, _ in log) for position in POSITIONS]
        expect(learner.train_iter == 10, f"expected 10 updates, made {learner.train_iter}")
        expect(counts == [1, 1, 10, 10], f"hooks of {POSITIONS} ran {counts} times")
        expect((log[0][0], log[-1][0]) == ("before_run", "after_run"), f"hooks ran in order {log}")
        sizes = {len(data) for data, _ in fake.calls}
        expect(sizes == {fake.batch_size}, f"asked for batches of {sizes} rows")

    def test_state_round_trip(self) -> None:
        """A new learner with the loaded state continues to count, as does its learn mode."""
        fake, other = FakeLearnMode(), FakeLearnMode()
        learner, twin = self.make(fake.mode), self.make(other.mode)
        for _ in range(3):
            learner.train([], envstep=24)
        twin.load_state_dict(learner.state_dict())
        expect(twin.train_iter == 3, f"3 updates were saved, {twin.train_iter} loaded")
        expect(other.weight == fake.weight, "the learn mode's state was not saved and loaded")
        twin.train([])
        expect(twin.train_iter == 4, "it does not continue to count from the loaded state")

    def test_save_checkpoint_returns_the_path(self) -> None:
        """`save_checkpoint` writes to the working directory and returns the path."""
        with folder() as place, chdir(place):
            learner = self.make(FakeLearnMode().mode)
            learner.train([])
            learner.save_checkpoint("ckpt_best.pth.tar")
            files = [each for each in place.rglob("*") if each.is_file()]
        expect(files, "no file was written")

    def test_close_can_be_repeated(self) -> None:
        """`close` can be repeated."""
        learner = self.make(FakeLearnMode().mode)
        learner.close()
        learner.close()
