"""Checks of acting and of the samples for training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dicore.data import Batch, EnvBatch, Tree, tree_map, tree_row, tree_stack
from dicore.data.tree import stack, tree_len
from dicore.errors import ContractError
from dicore.interfaces.policy import IPolicy, facts_of
from dicore.run.random import ambient_streams
from dicore.testing.columns import column_problems
from dicore.testing.compare import array, copied, difference
from dicore.testing.policy.play import PolicyChecks, leaves_of, random_state
from dicore.testing.policy.spaces import expect_legal
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
            actions = EnvBatch.of(self.act(policy, name, self.obs(100))).value["action"]
            for row in range(100):
                expect_legal(space, actions, row, f"{name}: environment {row}")

    def test_acts_in_all_spaces_that_it_accepts(self) -> None:
        """For every pair of spaces that `bind` accepts, it acts and makes samples."""
        for what, other in self.others():
            try:
                other.test_actions_are_legal()
                other.test_get_train_sample_returns_samples()
            except Exception as error:
                raise ContractError(
                    f"bind accepts {what} (it may refuse them), but: {error}"
                ) from error

    def test_memory_is_kept_by_env_id(self) -> None:
        """What a policy remembers of an environment goes with its id, whichever others act."""
        policy = self.make()
        together = self._acts(policy, [[0, 1, 2]] * 4)
        apart = self._acts(policy, [[2], [1, 0], [0, 2], [1, 0], [2, 1], [0, 1, 2]])
        for env in range(3):
            for t, (one, other) in enumerate(zip(together[env], apart[env], strict=True)):
                wrong = _far(one, other)
                expect(not wrong, f"environment {env}, step {t}, acting with other ones: {wrong}")

    def _acts(self, policy: IPolicy, turns: Sequence[list[int]]) -> list[list[Tree]]:
        """Evaluates environments by turns, each with its own observations; outputs by env."""
        policy.eval_mode.reset()
        found: list[list[Any]] = [[], [], []]
        for ids in turns:
            seen = [tree_row(self.obs(10 + len(found[env])).value, env) for env in ids]
            acted = self.act(policy, "eval", EnvBatch(np.array(ids), tree_stack(seen)))
            for env, output in _by_env(acted, ids).items():
                found[env].append(output)
        return found

    def test_reset_forgets_the_given_environments(self) -> None:
        """`reset` with ids forgets these environments and no other; without, all of them."""
        for name in ("collect", "eval"):
            first, other, last = (_first(self.obs(n).value, [0, 1, 2]) for n in (20, 21, 22))
            kept = self._after(name, (first, last), [])
            some = self._after(name, (first, last), [1])
            for env in (0, 2):
                wrong = _far(kept[env], some[env])
                expect(not wrong, f"{name}: reset([1]) changed environment {env}: {wrong}")
            for ids in ([1], None):
                one, two = (self._after(name, (begin, last), ids) for begin in (first, other))
                for env in (0, 1, 2) if ids is None else ids:
                    wrong = _far(one[env], two[env])
                    expect(not wrong, f"{name}: reset({ids}) kept something of {env}: {wrong}")

    def _after(self, name: str, seen: Sequence[EnvBatch[Tree]], ids: Any) -> dict[int, object]:
        """Acts, resets, acts again with the same random numbers, and returns what came last."""
        policy = self.make()
        mode = getattr(policy, f"{name}_mode")
        mode.reset()
        self.act(policy, name, seen[0])
        if ids != []:
            mode.reset(ids)
        seed = ambient_streams()
        seed.load_state_dict(self.__dict__.setdefault("_drawn", seed.state_dict()))
        return _by_env(self.act(policy, name, seen[1]), [0, 1, 2])

    def test_collecting_uses_the_random_streams_of_the_run(self) -> None:
        """With the streams (`dicore.run.random`) in the same state, it explores identically."""
        answers = []
        for _ in range(2):
            policy = self.make()
            policy.collect_mode.reset()
            acted = [EnvBatch.of(self.act(policy, "collect", self.obs(n))).value for n in (16, 9)]
            answers.append(copied([dict(each) for each in acted]))
        wrong = difference(*answers)
        expect(not wrong, f"the same seed explored otherwise: {wrong}")

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
        policy.eval_mode.reset()
        first = copied(EnvBatch.of(policy.eval_mode.forward(obs)).value["action"])
        self.act(policy, "collect", self.obs(5))
        for _ in range(4):
            policy.eval_mode.reset()
            again = EnvBatch.of(policy.eval_mode.forward(obs)).value["action"]
            wrong = difference(again, first)
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

    def test_columns_are_as_declared(self) -> None:
        """Transitions and samples have the dtypes and shapes of `dicore.interfaces.columns`."""
        policy = self.make()
        declared = getattr(policy, "columns", None)
        columns = {key: tree_map(array, each) for key, each in self.transition(policy, 4).items()}
        problems = column_problems(columns, declared, axes=1)
        expect(not problems, f"process_transition: {'; '.join(problems)}")

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

    def test_sample_facts_fit_together(self) -> None:
        """`sample_len` is "episode" or a number; `sample_stride` is from 1 to `sample_len`."""
        length, stride = facts_of(self.make().collect_mode)[:2]
        fits = length == "episode" or (isinstance(length, int) and 1 <= stride <= length)
        expect(fits, f"sample_len {length!r} and sample_stride {stride!r} do not fit")

    def test_next_obs_is_the_observation_after_the_step(self) -> None:
        """`next_obs` is what follows, in the form of `obs`: also after the block and at an end."""
        policy = self.make()
        played = self.played(policy)
        block, tail = played.part()
        samples = policy.collect_mode.get_train_sample(block, tail)
        length, stride = facts_of(policy.collect_mode)[:2]
        if "next_obs" not in samples or "obs" not in block or stride != 1 or length == "episode":
            skip("its samples are no steps with next_obs")
        if _forms(tree_row(samples["obs"], 0)) != _forms(_at(block["obs"], 0, 0)):
            skip("its samples are sequences")
        steps = len(block)
        after = [self._as_column(policy, state) for state in played.states]
        for row in range(len(samples)):
            obs, env = tree_row(samples["obs"], row), int(samples["env_id"][row])
            same = [t for t in range(steps) if not difference(_at(block["obs"], t, env), obs)]
            expect(same, f"a sample of environment {env} has an observation of another one")
            t, until = same[0], same[0] + (1 if "bridge" in samples else length)
            wanted = tree_row(after[min(until, steps)], env)
            if block["end"][t, env]:
                final = tree_map(lambda leaf: leaf[None], played.finals[t, env])
                wanted = tree_row(self._as_column(policy, final), 0)
            wrong = difference(tree_map(array, tree_row(samples["next_obs"], row)), wanted)
            expect(not wrong, f"next_obs of step {t} of {steps} of environment {env}: {wrong}")

    def _as_column(self, policy: IPolicy, obs: Tree) -> object:
        """Returns observations as `process_transition` stores them."""
        column = self.transition(policy, tree_len(obs), obs)["obs"]
        return tree_map(lambda leaf: np.asarray(stack([array(leaf)]))[0], column)

    def test_environments_are_apart_in_samples(self) -> None:
        """The samples of an environment are the same, whether its block has others or not."""
        policy = self.make()
        played = self.played(policy)
        whole = policy.collect_mode.get_train_sample(*played.part())
        if "env_id" not in whole:
            skip("its samples have no env_id")
        for env in range(played.columns["end"].shape[1]):
            alone = policy.collect_mode.get_train_sample(*played.part(envs=slice(env, env + 1)))
            mine = whole[
                np.flatnonzero(array(whole["env_id"]).reshape(len(whole), -1)[:, 0] == env)
            ]
            wrong = _far(mine.columns, alone.columns)
            expect(not wrong, f"samples of environment {env} alone and with others: {wrong}")

    def test_small_blocks_give_the_samples_of_a_large_one(self) -> None:
        """Off-policy: blocks that share sample_len - sample_stride rows lose and add nothing."""
        policy = self.make()
        length, stride, on_policy = facts_of(policy.collect_mode)[:3]
        if on_policy or length == "episode":
            skip("its samples depend on where a block ends")
        played = self.played(policy)
        cut = stride * (played.starts // stride // 2)
        get = policy.collect_mode.get_train_sample
        whole = get(*played.part())
        first = get(*played.part(0, cut + length - stride, cut))
        second = get(*played.part(cut, None, played.starts - cut))
        wrong = _far(whole.columns, Batch.concat([first, second]).columns)
        expect(not wrong, f"one block of {len(whole)} samples and two smaller ones: {wrong}")

    def test_get_train_sample_returns_samples(self) -> None:
        """`get_train_sample` converts steps [T, N, ...] to a Batch of samples."""
        samples = self.samples(self.make())
        expect(isinstance(samples, Batch), f"samples are a {type(samples).__name__}, not a Batch")
        expect(len(samples) > 0, "8 steps of 4 environments gave no sample")
        for key, column in samples.items():
            for path, leaf in leaves_of(column, key):
                here = np.shape(leaf)[:1]
                expect(here == (len(samples),), f"'{path}' of {len(samples)} samples: {here}")


def _first(obs: Tree, ids: list[int]) -> EnvBatch[Tree]:
    return EnvBatch(np.array(ids), tree_row(obs, ids))


def _by_env(acted: Tree, ids: list[int]) -> dict[int, object]:
    columns = tree_map(array, dict(EnvBatch.of(acted).value))
    return {env: copied(tree_row(columns, row)) for row, env in enumerate(ids)}


def _forms(tree: object) -> list[tuple[int, ...]]:
    return [array(leaf).shape for _, leaf in leaves_of(tree, "")]


def _at(column: Tree, t: int, env: int) -> object:
    return tree_row(tree_row(column, t), env)


def _far(left: Any, right: object) -> str:
    """Returns the first difference beyond rounding; "" if there is none."""
    one, other = dict(leaves_of(left, "")), dict(leaves_of(right, ""))
    if one.keys() != other.keys():
        return f"{sorted(one)} and {sorted(other)}"
    for path, leaf in one.items():
        a, b = array(leaf), array(other[path])
        if a.shape != b.shape or not np.allclose(a, b, atol=1e-5, equal_nan=True):
            return f"'{path}': {a} and {b}"
    return ""
