"""Checks of learning: a shared model, exact states, detached results."""

from __future__ import annotations

import numpy as np

from dicore.data import EnvBatch
from dicore.errors import ContractError
from dicore.run.random import ambient_streams
from dicore.testing.compare import array, copied, difference
from dicore.testing.policy.play import PolicyChecks, leaves_of, modes_of, restored, results_of
from dicore.testing.suite import expect, skip


class LearningChecks(PolicyChecks):
    """Checks of the learn mode; skipped for policies that do not learn."""

    def test_learning_changes_the_shared_model(self) -> None:
        """One call of `forward` changes parameters, also those of the other modes."""
        policy = self.learner()
        samples = self.samples(policy)
        before = {name: copied(mode.state_dict()) for name, mode in modes_of(policy).items()}
        for result in results_of(policy.learn_mode.forward(samples)):
            expect(
                "total_loss" in result, f"learning returned no 'total_loss': {', '.join(result)}"
            )
            loss = array(result["total_loss"])
            expect(np.isfinite(loss).all(), f"the loss is {loss}")
        for name, mode in modes_of(policy).items():
            changed = difference(mode.state_dict(), before[name])
            expect(changed, f"an update did not change the model of {name}_mode")

    def test_results_are_named_and_detached(self) -> None:
        """Results have the names of `monitor_vars` and are detached from the graph."""
        policy = self.learner()
        mode = policy.learn_mode
        for result in results_of(mode.forward(self.samples(policy))):
            missing = [name for name in mode.monitor_vars() if name not in result]
            expect(not missing, f"monitored, but not in the results: {', '.join(missing)}")
            graph = [key for key, value in result.items() if getattr(value, "requires_grad", False)]
            expect(not graph, f"results that are not detached: {', '.join(graph)}")

    def test_priorities_are_one_per_sample(self) -> None:
        """Priorities, if any, are finite, not negative, and one per sample."""
        policy = self.learner()
        samples = self.samples(policy)
        results = results_of(policy.learn_mode.forward(samples))
        if len(results) > 1:
            skip("it makes several updates, each of some of the samples")
        for result in results:
            if "priority" not in result:
                skip("it returns no priorities")
            priority = array(result["priority"])
            expect(priority.shape == (len(samples),), f"{len(samples)} rows, {priority.shape}")
            expect(np.isfinite(priority).all() and (priority >= 0).all(), f"{priority}")

    def test_list_and_batch_learn_equally(self) -> None:
        """Learning from a list of samples equals learning from a Batch."""
        states = []
        for as_rows in (False, True):
            policy = self.learner()
            samples = self.samples(policy)
            policy.learn_mode.forward(samples.rows() if as_rows else samples)
            states.append(copied(policy.learn_mode.state_dict()))
        wrong = difference(*states)
        expect(not wrong, f"learning from a list and from a Batch differ: {wrong}")

    def test_learning_does_not_change_its_input(self) -> None:
        """`forward` does not change its input."""
        policy = self.learner()
        samples = self.samples(policy)
        before = copied(samples.columns)
        policy.learn_mode.forward(samples)
        wrong = difference(samples.columns, before)
        expect(not wrong, f"learn_mode.forward changed its input: {wrong}")

    def test_same_seed_same_learning(self) -> None:
        """Policies with the same seed and data have identical parameters."""
        states = []
        for _ in range(2):
            policy = self.learner()
            for _ in range(3):
                policy.learn_mode.forward(self.samples(policy))
            states.append(copied(policy.learn_mode.state_dict()))
        wrong = difference(*states)
        expect(not wrong, f"the same seed gave other parameters: {wrong}")

    def test_learning_continues_from_its_state(self) -> None:
        """A policy with a loaded state continues to learn identically, including optimizers.

        Random numbers are those of the streams of the run, whose state is loaded too.
        """
        policy, streams = self.learner(), ambient_streams()
        for _ in range(3):
            policy.learn_mode.forward(self.samples(policy))
        state = copied(policy.learn_mode.state_dict())
        saved = restored(policy.learn_mode.state_dict())
        samples = [self.samples(policy) for _ in range(3)]
        drawn = streams.state_dict()
        for each in samples:
            policy.learn_mode.forward(each)
        twin, streams = self.learner(), ambient_streams()
        twin.learn_mode.load_state_dict(saved)
        wrong = difference(twin.learn_mode.state_dict(), state)
        expect(not wrong, f"the state differs after loading: {wrong}")
        streams.load_state_dict(drawn)
        for each in samples:
            twin.learn_mode.forward(each)
        wrong = difference(twin.learn_mode.state_dict(), policy.learn_mode.state_dict())
        expect(not wrong, f"they differ after further training: {wrong}")

    def test_learns_in_all_spaces_that_it_accepts(self) -> None:
        """For every pair of spaces that `bind` accepts, an update changes the model."""
        for what, other in self.others():
            try:
                other.test_learning_changes_the_shared_model()
            except Exception as error:
                raise ContractError(
                    f"bind accepts {what} (it may refuse them), but: {error}"
                ) from error

    def test_eval_policy_loads_the_trained_state(self) -> None:
        """A policy with eval mode only can load the trained state."""
        policy = self.learner()
        for _ in range(5):
            policy.learn_mode.forward(self.samples(policy))
        actor = self.make(["eval"])
        actor.eval_mode.load_state_dict(restored(policy.eval_mode.state_dict()))
        obs = self.obs(64)
        answers = [EnvBatch.of(each.eval_mode.forward(obs)).value for each in (policy, actor)]
        for key in answers[0]:
            wrong = difference(answers[0][key], answers[1][key])
            expect(not wrong, f"outputs differ after loading: '{key}': {wrong}")

    def test_nan_loss_changes_nothing(self) -> None:
        """A NaN loss does not change the parameters to NaN."""
        policy = self.learner()
        samples = self.samples(policy).copy()
        spoilt = [key for key in samples.columns if key not in KEPT and _is_float(samples[key])]
        if not spoilt:
            skip("its samples have no numbers besides observations and actions")
        for key in spoilt:
            samples[key][...] = np.nan
        policy.learn_mode.forward(samples)
        model = policy.eval_mode.state_dict()
        bad = [path for path, leaf in leaves_of(model, "") if not np.isfinite(array(leaf)).all()]
        expect(not bad, f"a NaN in {', '.join(spoilt)} reached {', '.join(bad[:3])}")

    def test_info_returns_a_text(self) -> None:
        """`info` returns a text."""
        text = self.learner().learn_mode.info()
        expect(isinstance(text, str) and text, f"learn_mode.info() is {text!r}")


KEPT = ("obs", "next_obs", "action", "done")
"""Columns that are not spoilt to make a loss NaN."""


def _is_float(column: object) -> bool:
    return not isinstance(column, dict | list | tuple) and array(column).dtype.kind == "f"
