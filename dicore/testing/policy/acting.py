"""Checks of acting and of the samples for training."""

from __future__ import annotations

import numpy as np

from dicore.data import Batch, EnvBatch
from dicore.testing.compare import array, copied, difference
from dicore.testing.policy.play import (
    PolicyChecks,
    leaves_of,
    random_state,
)
from dicore.testing.suite import expect, skip


class ActingChecks(PolicyChecks):
    """Collect and eval forward, transitions, samples."""

    def test_actions_have_the_env_ids(self) -> None:
        """Actions are returned for exactly the given env ids, in order."""
        policy = self.make()
        for name in ("collect", "eval"):
            for ids in ([3, 0, 5], [1], list(range(8))):
                answer = self.act(policy, name, self.obs(len(ids), ids))
                expect(list(answer) == ids, f"{name}: expected env ids {ids}, got {list(answer)}")
                expect("action" in answer[ids[0]], f"{name}: the result has no action")

    def test_accepts_plain_dicts(self) -> None:
        """Observations may be a plain dict `{env_id: obs}`."""
        policy = self.make(["eval"])
        obs = self.obs(3, [4, 1, 2])
        stacked, plain = policy.eval_mode.forward(obs), policy.eval_mode.forward(dict(obs))
        expect(list(plain) == [4, 1, 2], f"expected env ids 4, 1, 2, got {list(plain)}")
        for env_id in obs:
            shapes = [np.shape(array(each[env_id]["action"])) for each in (stacked, plain)]
            expect(shapes[0] == shapes[1], f"the action of a plain dict has another shape {shapes}")

    def test_actions_are_legal(self) -> None:
        """Every action is in the action space."""
        policy, (_, space) = self.make(), self.spaces()
        for name in ("collect", "eval"):
            for env_id, output in self.act(policy, name, self.obs(100)).items():
                action = array(output["action"])
                wrong = f"{name}: environment {env_id} gets {action!r}, not of {space}"
                expect(space.contains(action.astype(space.dtype)), wrong)
                same = action.dtype.kind == np.dtype(space.dtype).kind
                expect(same, f"{name}: actions are {action.dtype}, the space is {space.dtype}")

    def test_acting_results_are_detached(self) -> None:
        """Results of acting are detached from the graph."""
        policy = self.make()
        for name in ("collect", "eval"):
            for key, value in EnvBatch.of(self.act(policy, name, self.obs(4))).value.items():
                graph = getattr(value, "requires_grad", False)
                expect(not graph, f"{name}: '{key}' is not detached")

    def test_acting_does_not_change_its_input(self) -> None:
        """`forward` does not change its input."""
        policy = self.make()
        for name in ("collect", "eval"):
            obs = self.obs(4)
            before = copied(obs.value)
            self.act(policy, name, obs)
            expect(not difference(obs.value, before), f"{name}_mode.forward changed its input")

    def test_eval_is_deterministic(self) -> None:
        """Evaluation is deterministic: the same observation gets the same action."""
        policy = self.make()
        obs = self.obs(16)
        first = copied(EnvBatch.of(policy.eval_mode.forward(obs)).value["action"])
        self.act(policy, "collect", self.obs(5))
        for _ in range(4):
            again = EnvBatch.of(policy.eval_mode.forward(obs)).value["action"]
            wrong = difference(array(again), array(first))
            expect(not wrong, f"actions differ for the same observations: {wrong}")

    def test_eval_uses_no_random_numbers(self) -> None:
        """Evaluation uses no random numbers."""
        policy = self.make()
        policy.eval_mode.forward(self.obs(4))
        before = copied(random_state())
        policy.eval_mode.forward(self.obs(4))
        wrong = difference(random_state(), before)
        expect(not wrong, f"evaluation used random numbers: {wrong}")

    def test_transitions_are_columns(self) -> None:
        """`process_transition` returns columns of length K."""
        policy = self.make()
        for key, column in self.transition(policy, 6).items():
            for path, leaf in leaves_of(column, key):
                expect(np.shape(leaf)[:1] == (6,), f"'{path}' of 6 environments: {np.shape(leaf)}")

    def test_truncation_is_not_terminal(self) -> None:
        """`done` of a transition is True for terminated, not for truncated episodes."""
        columns = self.transition(self.make(), 4)
        if "done" not in columns:
            skip("its transitions have no 'done'")
        done = array(columns["done"]).astype(np.bool_).tolist()
        expect(done == [True, False, False, False], f"terminated, truncated, and not: done {done}")

    def test_invalid_rows_give_no_samples(self) -> None:
        """Rows of abnormal episodes, which are not `valid`, are in no sample."""
        policy = self.make()
        block, tail = self.block(policy)
        if len(block["end"][0]) < 4:
            skip("its blocks are whole episodes, of which abnormal ones are dropped before")
        for key in ("reward", "obs"):
            if key in block:
                for _, leaf in leaves_of(block[key], key):
                    if leaf.dtype.kind == "f":
                        leaf[:, 3] = np.nan
        block["valid"][:, 3] = False
        samples = policy.collect_mode.get_train_sample(block, tail)
        expect(len(samples) > 0, "the other environments gave no sample")
        for key in ("reward", "obs"):
            for path, leaf in leaves_of(samples[key], key) if key in samples else ():
                clean = np.isfinite(array(leaf)).all() if array(leaf).dtype.kind == "f" else True
                expect(clean, f"'{path}' has values of rows that are not valid")

    def test_get_train_sample_returns_samples(self) -> None:
        """`get_train_sample` converts steps [T, N, ...] to a Batch of samples."""
        samples = self.samples(self.make())
        expect(isinstance(samples, Batch), f"samples are a {type(samples).__name__}, not a Batch")
        expect(len(samples) > 0, "8 steps of 4 environments gave no sample")
        for key, column in samples.items():
            for path, leaf in leaves_of(column, key):
                here = np.shape(leaf)[:1]
                expect(here == (len(samples),), f"'{path}' of {len(samples)} samples: {here}")
