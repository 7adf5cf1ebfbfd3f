"""The contract of policies (`IPolicy`): modes that are plain tuples over one shared model.

Shapes: N environments, K of them ready, T steps, B rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicore.data import Batch, EnvBatch, TimestepBatch
from dicore.data.tensor import loaded_torch
from dicore.errors import ConfigError, ModeError
from dicore.interfaces.policy import CollectMode, EvalMode, LearnMode
from dicore.run.build_context import BuildContext
from dicore.run.rng import ambient_streams, seed_everything
from dicore.testing.compare import array, copied, difference
from dicore.testing.suite import Suite, expect, refuses, skip

__all__ = ["PolicyContract"]

MODES: dict[str, Any] = {"learn": LearnMode, "collect": CollectMode, "eval": EvalMode}
FACTS = ("cfg", "n_sample", "on_policy", "batch_size", "device", "priority", "model")
"""What workers ask every policy for."""


class PolicyContract(Suite):
    """Inherit it, override `make` (and `spaces`), and every check of a policy is collected."""

    collect_kwargs: Mapping[str, Any] = {}
    """What `collect_mode.forward` is called with besides the observations."""

    def spaces(self) -> tuple[Any, Any]:
        """Returns the observation space and an action space that the policy fits."""
        from gymnasium.spaces import Box, Discrete

        observation_space = Box(-1.0, 1.0, (4,), np.float32)
        problem: Exception | None = None
        for action_space in (Discrete(3), Box(-1.0, 1.0, (2,), np.float32)):
            try:
                self.registered.config().bind(observation_space, action_space)  # type: ignore[attr-defined]
            except ConfigError as error:
                problem = error
            else:
                return observation_space, action_space
        raise problem or ConfigError("no space")

    def make(self, enable_field: Sequence[str] | None = None) -> Any:
        """Returns a policy (`IPolicy`) for `spaces`; all that it makes begin alike."""
        seed_everything(0)
        spaces = self.spaces()
        options: dict[str, Any] = {}
        for path, value in self.registered.config().bind(*spaces).items():  # type: ignore[attr-defined]
            *above, name = path.split(".")
            section = options
            for key in above:
                section = section.setdefault(key, {})
            section[name] = value
        parts = {} if enable_field is None else {"enable_field": enable_field}
        return self.registered.build(options, ctx=BuildContext(*spaces), **parts)

    # ---- modes

    def test_modes_are_immutable_tuples(self) -> None:
        """Every mode is a named tuple of functions; nothing of it can be set."""
        policy = self.make()
        for name, mode in _modes(policy).items():
            expect(isinstance(mode, tuple), f"{name}_mode is a {type(mode).__name__}, no tuple")
            fields = getattr(mode, "_fields", ())
            missing = [each for each in MODES[name]._fields if each not in fields]
            expect(not missing, f"{name}_mode lacks {', '.join(missing)}")
            expect(all(map(callable, mode)), f"{name}_mode holds something that is no function")
            with refuses(AttributeError, f"setting {name}_mode.forward"):
                mode.forward = None
            expect(getattr(policy, f"{name}_mode") == mode, f"{name}_mode changes by looking at it")

    def test_only_enabled_modes_are_there(self) -> None:
        """Built for evaluation alone, it evaluates, and the other modes say so when touched."""
        policy = self.make(["eval"])
        expect(len(policy.eval_mode.forward(self._obs(2))) == 2, "its eval mode does not answer")
        for name in ("learn", "collect"):
            with refuses(ModeError, f"{name}_mode of a policy built with enable_field=['eval']"):
                getattr(policy, f"{name}_mode").forward({})

    def test_answers_what_workers_ask(self) -> None:
        """`get_attribute` of every mode knows the usual facts and refuses unknown ones."""
        for name, mode in _modes(self.make()).items():
            for fact in FACTS:
                try:
                    mode.get_attribute(fact)
                except Exception as error:
                    expect(False, f"{name}_mode does not know its '{fact}': {error}")
            with refuses(AttributeError, f"{name}_mode.get_attribute('no_such_fact')"):
                mode.get_attribute("no_such_fact")
            with refuses(AttributeError, f"{name}_mode.set_attribute('no_such_fact', 1)"):
                mode.set_attribute("no_such_fact", 1)

    def test_resets_all_or_some(self) -> None:
        """`reset` of every mode takes nothing, None, or ids."""
        for name, mode in _modes(self.make()).items():
            for given in ((), (None,), ([0, 2],)):
                expect(mode.reset(*given) is None, f"{name}_mode.reset{given} returns something")

    # ---- acting

    def test_answers_carry_the_ids(self) -> None:
        """Whichever environments are ready, the answer is for these, in the order given."""
        policy = self.make()
        for name in ("collect", "eval"):
            for ids in ([3, 0, 5], [1], list(range(8))):
                answer = self._act(policy, name, self._obs(len(ids), ids))
                expect(list(answer) == ids, f"{name}: asked for {ids}, answered {list(answer)}")
                expect("action" in answer[ids[0]], f"{name}: the answer holds no action")

    def test_takes_plain_dicts(self) -> None:
        """`{env_id: obs}` as a plain dict is the same as an `EnvBatch`."""
        policy = self.make(["eval"])
        obs = self._obs(3, [4, 1, 2])
        stacked, plain = policy.eval_mode.forward(obs), policy.eval_mode.forward(dict(obs))
        expect(list(plain) == [4, 1, 2], f"asked for 4, 1, 2, answered {list(plain)}")
        for env_id in obs:
            shapes = [np.shape(array(each[env_id]["action"])) for each in (stacked, plain)]
            expect(shapes[0] == shapes[1], f"the action of a plain dict has another shape {shapes}")

    def test_actions_are_legal(self) -> None:
        """Every action is in the action space."""
        policy, (_, space) = self.make(), self.spaces()
        for name in ("collect", "eval"):
            for env_id, output in self._act(policy, name, self._obs(100)).items():
                action = array(output["action"])
                wrong = f"{name}: environment {env_id} gets {action!r}, not of {space}"
                expect(space.contains(action.astype(space.dtype)), wrong)
                same = action.dtype.kind == np.dtype(space.dtype).kind
                expect(same, f"{name}: actions are {action.dtype}, the space is {space.dtype}")

    def test_acting_keeps_no_gradient(self) -> None:
        """What acting returns belongs to no graph."""
        policy = self.make()
        for name in ("collect", "eval"):
            for key, value in EnvBatch.of(self._act(policy, name, self._obs(4))).value.items():
                graph = getattr(value, "requires_grad", False)
                expect(not graph, f"{name}: '{key}' still belongs to a graph")

    def test_acting_leaves_observations_alone(self) -> None:
        """Observations handed in stay as they were."""
        policy = self.make()
        for name in ("collect", "eval"):
            obs = self._obs(4)
            before = copied(obs.value)
            self._act(policy, name, obs)
            expect(not difference(obs.value, before), f"{name}_mode.forward changed its input")

    def test_eval_is_deterministic(self) -> None:
        """The same observation gets the same action, whatever happened in between."""
        policy = self.make()
        obs = self._obs(16)
        first = copied(EnvBatch.of(policy.eval_mode.forward(obs)).value["action"])
        self._act(policy, "collect", self._obs(5))
        for _ in range(4):
            again = EnvBatch.of(policy.eval_mode.forward(obs)).value["action"]
            wrong = difference(array(again), array(first))
            expect(not wrong, f"the same observations, other actions: {wrong}")

    def test_eval_draws_no_random_number(self) -> None:
        """Evaluating leaves every source of random numbers as it was."""
        policy = self.make()
        policy.eval_mode.forward(self._obs(4))
        before = copied(_random_state())
        policy.eval_mode.forward(self._obs(4))
        wrong = difference(_random_state(), before)
        expect(not wrong, f"evaluating drew random numbers: {wrong}")

    # ---- from steps to samples

    def test_transitions_are_columns(self) -> None:
        """`process_transition` picks columns of all K environments."""
        policy = self.make()
        for key, column in self._transition(policy, 6).items():
            for path, leaf in _leaves(column, key):
                expect(np.shape(leaf)[:1] == (6,), f"'{path}' of 6 environments: {np.shape(leaf)}")

    def test_a_cut_episode_is_no_terminal_state(self) -> None:
        """`done` of a transition says that the state is terminal, not that time was up."""
        columns = self._transition(self.make(), 4)
        if "done" not in columns:
            skip("its transitions have no 'done'")
        done = array(columns["done"]).astype(np.bool_).tolist()
        expect(done == [True, False, False, False], f"terminated, truncated, and not: done {done}")

    def test_samples_are_made_of_trajectories(self) -> None:
        """`get_train_sample` turns a block of steps [T, N, ...] into a Batch of samples."""
        samples = self._samples(self.make())
        expect(isinstance(samples, Batch), f"samples are a {type(samples).__name__}, no Batch")
        expect(len(samples) > 0, "8 steps of 4 environments gave no sample")
        for key, column in samples.items():
            for path, leaf in _leaves(column, key):
                here = np.shape(leaf)[:1]
                expect(here == (len(samples),), f"'{path}' of {len(samples)} samples: {here}")

    # ---- learning

    def test_learning_changes_the_shared_model(self) -> None:
        """One call of `forward` moves parameters, and the other modes see it at once."""
        policy = self._learner()
        samples = self._samples(policy)
        before = {name: copied(mode.state_dict()) for name, mode in _modes(policy).items()}
        for result in _results(policy.learn_mode.forward(samples)):
            loss = array(result["total_loss"])
            expect(np.isfinite(loss).all(), f"the loss is {loss}")
        for name, mode in _modes(policy).items():
            changed = difference(mode.state_dict(), before[name])
            expect(changed, f"an update left the model of {name}_mode as it was")

    def test_results_are_named_and_detached(self) -> None:
        """Results hold what `monitor_vars` promises, and none belongs to a graph."""
        policy = self._learner()
        mode = policy.learn_mode
        for result in _results(mode.forward(self._samples(policy))):
            missing = [name for name in mode.monitor_vars() if name not in result]
            expect(not missing, f"monitored, but not in the results: {', '.join(missing)}")
            graph = [key for key, value in result.items() if getattr(value, "requires_grad", False)]
            expect(not graph, f"results that still belong to a graph: {', '.join(graph)}")

    def test_priorities_are_one_per_row(self) -> None:
        """Priorities, where it tells any, are finite, not negative, and as many as rows."""
        policy = self._learner()
        samples = self._samples(policy)
        for result in _results(policy.learn_mode.forward(samples)):
            if "priority" not in result:
                skip("it tells no priorities")
            priority = array(result["priority"])
            expect(priority.shape == (len(samples),), f"{len(samples)} rows, {priority.shape}")
            expect(np.isfinite(priority).all() and (priority >= 0).all(), f"{priority}")

    def test_rows_and_batch_learn_alike(self) -> None:
        """A list of rows is the same data as a Batch of them."""
        states = []
        for as_rows in (False, True):
            policy = self._learner()
            samples = self._samples(policy)
            policy.learn_mode.forward(samples.rows() if as_rows else samples)
            states.append(copied(policy.learn_mode.state_dict()))
        wrong = difference(*states)
        expect(not wrong, f"learning from rows and from a Batch differ: {wrong}")

    def test_learning_leaves_data_alone(self) -> None:
        """A batch handed in stays as it was."""
        policy = self._learner()
        samples = self._samples(policy)
        before = copied(samples.columns)
        policy.learn_mode.forward(samples)
        wrong = difference(samples.columns, before)
        expect(not wrong, f"learn_mode.forward changed its input: {wrong}")

    def test_same_seed_same_learning(self) -> None:
        """Two policies of one seed that learn from the same data stay equal bit for bit."""
        states = []
        for _ in range(2):
            policy = self._learner()
            for _ in range(3):
                policy.learn_mode.forward(self._samples(policy))
            states.append(copied(policy.learn_mode.state_dict()))
        wrong = difference(*states)
        expect(not wrong, f"the same seed learned something else: {wrong}")

    def test_learning_goes_on_from_its_state(self) -> None:
        """Saved, loaded into another policy and trained on: both are equal, optimizers too."""
        policy = self._learner()
        for _ in range(3):
            policy.learn_mode.forward(self._samples(policy))
        state = copied(policy.learn_mode.state_dict())
        twin = self._learner()
        twin.learn_mode.load_state_dict(_restored(policy.learn_mode.state_dict()))
        wrong = difference(twin.learn_mode.state_dict(), state)
        expect(not wrong, f"the state loaded and taken again differs: {wrong}")
        for _ in range(3):
            samples = self._samples(policy)
            policy.learn_mode.forward(samples)
            twin.learn_mode.forward(samples)
        wrong = difference(twin.learn_mode.state_dict(), policy.learn_mode.state_dict())
        expect(not wrong, f"trained on after loading, they differ: {wrong}")

    def test_the_model_goes_to_those_who_act(self) -> None:
        """What was learned can be loaded by a policy built for evaluation alone."""
        policy = self._learner()
        for _ in range(5):
            policy.learn_mode.forward(self._samples(policy))
        actor = self.make(["eval"])
        actor.eval_mode.load_state_dict(_restored(policy.eval_mode.state_dict()))
        obs = self._obs(64)
        answers = [EnvBatch.of(each.eval_mode.forward(obs)).value for each in (policy, actor)]
        for key in answers[0]:
            wrong = difference(answers[0][key], answers[1][key])
            expect(not wrong, f"loaded, it answers otherwise: '{key}': {wrong}")

    def test_what_is_not_finite_is_not_learned(self) -> None:
        """A batch whose loss is NaN leaves the parameters finite."""
        policy = self._learner()
        samples = self._samples(policy).copy()
        if "reward" not in samples:
            skip("its samples have no 'reward'")
        samples["reward"][...] = np.nan
        policy.learn_mode.forward(samples)
        model = policy.eval_mode.state_dict()
        bad = [path for path, leaf in _leaves(model, "") if not np.isfinite(array(leaf)).all()]
        expect(not bad, f"a NaN in the rewards reached {', '.join(bad[:3])}")

    def test_describes_itself(self) -> None:
        """`info` is a text for people."""
        text = self._learner().learn_mode.info()
        expect(isinstance(text, str) and text, f"learn_mode.info() is {text!r}")

    # ---- what the checks are made of

    def _learner(self) -> Any:
        policy = self.make()
        try:
            policy.learn_mode  # noqa: B018 - asking is how one finds out
        except ModeError:
            skip("it does not learn")
        return policy

    def _obs(self, count: int, ids: Sequence[int] | None = None) -> EnvBatch[Any]:
        space, _ = self.spaces()
        rng = np.random.default_rng(count)
        obs = rng.uniform(-1, 1, (count, *space.shape)).astype(space.dtype)
        return EnvBatch(np.arange(count) if ids is None else np.array(ids, np.int64), obs)

    def _act(self, policy: Any, name: str, obs: EnvBatch[Any]) -> Any:
        mode = getattr(policy, f"{name}_mode")
        return mode.forward(obs, **(self.collect_kwargs if name == "collect" else {}))

    def _transition(self, policy: Any, count: int) -> dict[str, Any]:
        """One step: the first environment terminates, the second is cut."""
        obs, after = self._obs(count), self._obs(count)
        output = EnvBatch.of(self._act(policy, "collect", obs))
        terminated, truncated = np.zeros((2, count), np.bool_)
        terminated[0] = truncated[1] = True
        reward = np.linspace(-1, 1, count, dtype=np.float32)
        step = TimestepBatch(after.value, reward, terminated, truncated, [{} for _ in range(count)])
        columns: dict[str, Any] = policy.collect_mode.process_transition(
            obs.value, output.value, step
        )
        return columns

    def _samples(self, policy: Any) -> Batch:
        """Samples of 8 steps of 4 environments, two of which end in every step."""
        steps = [self._transition(policy, 4) for _ in range(8)]
        columns = {key: np.stack([array(step[key]) for step in steps]) for key in steps[0]}
        columns["end"] = np.tile(np.array([True, True, False, False]), (8, 1))
        samples: Batch = policy.collect_mode.get_train_sample(Batch(columns, 8))
        return samples


def _modes(policy: Any) -> dict[str, Any]:
    """Returns the modes that a policy built as it likes has."""
    found = {}
    for name in MODES:
        try:
            found[name] = getattr(policy, f"{name}_mode")
        except ModeError:
            expect(name == "learn", f"a policy needs its {name}_mode")
    return found


def _results(output: Any) -> list[dict[str, Any]]:
    return output if isinstance(output, list) else [output]


def _leaves(tree: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        return [each for key, value in tree.items() for each in _leaves(value, f"{path}.{key}")]
    if isinstance(tree, list | tuple):
        return [each for i, value in enumerate(tree) for each in _leaves(value, f"{path}[{i}]")]
    return [(path.lstrip("."), tree)]


def _restored(state: Any) -> Any:
    """Returns a state as it comes back from a checkpoint: equal, in memory of its own."""
    from dicore.run.store import read_state, write_state
    from dicore.testing.suite import folder

    with folder() as place:
        write_state(place / "state", state)
        return read_state(place / "state")


def _random_state() -> dict[str, Any]:
    torch = loaded_torch()
    return {
        "streams": ambient_streams().state_dict(),
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - to see whether it is used
        "torch": torch.get_rng_state() if torch is not None else None,
    }
