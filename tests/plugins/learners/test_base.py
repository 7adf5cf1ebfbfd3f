"""BaseLearner over a hand-made mode: sources of data, messages; the rest is LearnerContract."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import HookError, SchemaError, UsageError
from dicore.interfaces.hook import LearnerHook
from dicore_plugins.hooks import LogShowHook
from dicore_plugins.learners import BaseLearner
from dicore_plugins.learners.base.config import BaseLearnerConfig, DataloaderConfig
from dicore_plugins.learners.base.log_buffer import LogBuffer
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy


class Mode(NamedTuple):
    """A learn mode of plain functions: nobody asks for a class."""

    forward: Any
    state_dict: Any
    load_state_dict: Any
    get_attribute: Any


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner without a run that fails saves below the working folder."""
    monkeypatch.chdir(tmp_path)


def mode(updates: int = 1) -> Mode:
    loaded: dict[str, Any] = {}

    def forward(data: Any, **kwargs: Any) -> Any:
        results = [
            {"total_loss": torch.tensor(float(i)), "priority": torch.ones(2)}
            for i in range(updates)
        ]
        return results[0] if updates == 1 else results

    return Mode(forward, lambda: {"w": 3, **loaded}, loaded.update, {"batch_size": 4}.__getitem__)


def learner(policy: Any = None, **options: Any) -> BaseLearner:
    return BaseLearner(BaseLearnerConfig(hook=[], **options), policy or mode())


def test_several_updates_in_one_call_are_counted() -> None:
    engine = learner(mode(updates=8))
    outputs = engine.train([])
    assert len(outputs) == 8
    assert engine.train_iter == 8
    assert engine.log_buffer.means() == {"total_loss": 3.5}
    engine.log_buffer.clear()
    assert engine.latest_result["total_loss"] == outputs[-1]["total_loss"] == 7


def test_start_needs_a_source_and_raises_its_errors() -> None:
    engine = learner(train_iterations=1)
    with pytest.raises(UsageError, match="get_data"):
        engine.start()

    def broken(batch_size: int) -> Any:
        raise OSError("disk gone")

    engine.get_data = broken
    with pytest.raises(OSError, match="disk gone"):
        engine.start()
    engine.close()
    engine.train([])
    assert engine.learn_info["learner_done"]


@pytest.mark.parametrize(("workers", "at_a_time"), [(0, 1), (1, 1), (3, 3)])
def test_workers_load_at_the_same_time_and_in_order(workers: int, at_a_time: int) -> None:
    """The source that is called first gives the first batch, even if it takes longest."""
    options = DataloaderConfig(num_workers=workers, prefetch=4, device="cpu")
    engine, trained = learner(dataloader=options), []
    engine.policy = engine.policy._replace(forward=lambda data: trained.append(data) or {})
    numbers, busy, most = count(), set[int](), [0]
    lock, second = threading.Lock(), threading.Event()

    def source(batch_size: int) -> Any:
        with lock:
            number = next(numbers)
            busy.add(number)
            most[0] = max(most[0], len(busy))
        if number:
            second.set()
        elif at_a_time > 1:
            second.wait(60)
        time.sleep(0.01 * (3 - number % 3))
        with lock:
            busy.discard(number)
        return None if number >= 9 else Batch({"number": np.full(2, number)})

    engine.get_data = source
    engine.start()
    assert [int(batch["number"][0]) for batch in trained] == list(range(9))
    assert all(isinstance(batch["number"], torch.Tensor) for batch in trained)
    assert min(2, at_a_time) <= most[0] <= at_a_time
    engine.close()


def test_after_the_end_or_an_error_no_batch_comes() -> None:
    from dicore_plugins.learners.base.dataloader import Dataloader

    def broken() -> Any:
        raise OSError("disk gone")

    ended, failed = Dataloader(lambda: None), Dataloader(broken, ahead=2, workers=2)
    for _ in range(2):
        assert ended.next_batch() is None
        with pytest.raises(OSError, match="disk gone"):
            failed.next_batch()
    ended.close()
    failed.close()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_blocked_source_does_not_block_close(workers: int) -> None:
    engine = learner(dataloader=DataloaderConfig(num_workers=workers))
    blocked, release = threading.Event(), threading.Event()

    def source(batch_size: int) -> Any:
        blocked.set()
        release.wait(60)
        return None

    engine.get_data = source
    runner = threading.Thread(target=engine.start)
    runner.start()
    assert blocked.wait(60)
    engine.close()
    engine.close()
    runner.join(60)
    assert not runner.is_alive()
    release.set()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: LearnerHook("h", position="after_itre"), "after_itre"),
        (lambda: LearnerHook("h", 3), "position is missing"),
        (lambda: LearnerHook("h", position="after_iter", priority=-1), "priority"),
        (lambda: learner().call_hook("nowhere"), "unknown hook position 'nowhere'"),
        (lambda: learner().register_hook(SimpleNamespace(name="h", position="x")), "position 'x'"),
    ],
)
def test_a_wrong_position_or_priority_is_named(call: Any, says: str) -> None:
    with pytest.raises(HookError, match=says):
        call()


def test_a_hook_is_its_name_its_priority_and_its_position() -> None:
    """I13: in the order of the documents; an error in it surfaces with its name."""

    class Failing(LearnerHook):
        def __call__(self, engine: Any) -> None:
            raise OSError("full")

    hook = Failing("h", 3, "after_iter")
    assert (hook.name, hook.priority, hook.position) == ("h", 3, "after_iter")
    engine = learner()
    engine.register_hook(hook)
    for call in (lambda: engine.train([]), lambda: engine.call_hook("after_iter")):
        with pytest.raises(OSError, match="full") as raised:
            call()
        assert raised.value.__notes__ == ["raised in learner hook 'h' (after_iter)"]
    del hook.name  # its error is told all the same
    with pytest.raises(OSError, match="full") as raised:
        engine.train([])
    assert raised.value.__notes__ == ["raised in learner hook 'Failing' (after_iter)"]


def test_checkpoints_without_a_run_go_into_the_experiment(tmp_path: Any) -> None:
    from dicore.run.checkpoint_store import read_state

    engine = BaseLearner(BaseLearnerConfig(hook=[]), mode(), exp_name=str(tmp_path / "exp"))
    engine.train([], envstep=5)
    path = engine.save_checkpoint()
    assert path == tmp_path / "exp" / "ckpt" / "iteration_1"
    assert read_state(path)["learner"]["last_step"] == 5


def test_documented_defaults() -> None:
    config = BaseLearner.default_config()
    assert (config["train_iterations"], config["dataloader"]["num_workers"]) == (1_000_000_000, 0)
    assert config["log_policy"] is True
    assert config["hook"] == {
        "load_ckpt_before_run": "",
        "log_show_after_iter": 100,
        "save_ckpt_after_iter": 10_000,
        "save_ckpt_after_run": True,
    }


def test_the_documented_variables_are_there() -> None:
    """FEATURES I3, of a learner made by position as the documents do."""
    board, policy = object(), mode()
    engine = BaseLearner({"hook": []}, policy, board, (1, 2), "exp", "my_learner")
    assert (engine.policy, engine.tb_logger) == (policy, board)
    assert (engine.name, engine.rank, engine.exp_name) == ("my_learner", 1, "exp")
    assert (engine.last_iter, engine.monitor, engine.priority_info) == (0, {}, {})
    assert engine.latest_result == {}
    assert engine.learn_info == {"learner_step": 0, "priority_info": {}, "learner_done": False}
    engine.train([{"x": 1}])
    assert engine.tick_time > 0
    assert len(engine.log_buffer) == 1
    assert engine.logger.name == "dicore.my_learner"


@pytest.mark.parametrize("result", [None, 3.0, [{"total_loss": 1.0}, None], torch.ones(1)])
def test_results_that_are_no_dicts_are_refused(result: Any) -> None:
    with pytest.raises(UsageError, match="learner: the learn mode's forward returned a"):
        learner(mode()._replace(forward=lambda _: result)).train([])


def test_a_loss_of_another_name_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    engine = learner(mode()._replace(forward=lambda _: {"loss": 1.0, "kl": 2.0}))
    for _ in range(300):
        engine.train([])
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert told == ["learning returns no 'total_loss' to show, but loss, kl"]


def test_a_result_that_nobody_named_is_told() -> None:
    made = {"total_loss": 1.0, "mine": 2.0, "priority": torch.ones(2)}
    told: list[str] = []
    run = SimpleNamespace(log=SimpleNamespace(log_text=told.append))
    learn_mode = mode()._replace(forward=lambda _: made)
    engine = BaseLearner(BaseLearnerConfig(hook=[]), learn_mode, run=run)
    for _ in range(300):
        engine.train([])
    [text] = told
    assert text.startswith("not logged: mine, ")


def test_a_call_without_an_update_counts_none() -> None:
    engine = learner(mode()._replace(forward=lambda _: []))
    assert engine.train([]) == []
    assert engine.last_iter == 0
    with pytest.raises(UsageError, match="learner has no policy"):
        BaseLearner({"hook": []}).train([])


def test_what_is_no_learn_mode_is_told_so() -> None:
    policy = DQNPolicy({}, model=DQN(2, 3, (4,)))
    for wrong in (policy, policy.collect_mode, policy.eval_mode):
        with pytest.raises(UsageError, match="expected the learn mode of a policy") as told:
            learner(wrong)
        assert "pass policy.learn_mode" in told.value.hint
    assert learner(policy.learn_mode).policy is policy.learn_mode


# ---- the log buffer


def filled(*values: Any, name: str = "x") -> LogBuffer:
    buffer = LogBuffer()
    buffer.names = (name,)
    for value in values:
        buffer.add({name: value, "priority": torch.ones(3)})
    return buffer


NUMBERS = {
    "float": 2.0,
    "int": 2,
    "bool": True,
    "double": np.float64(2),
    "single": np.float32(2),
    "whole": np.int64(2),
    "array": np.array([1.0, 3.0]),
    "list": [1, 3],
    "tensor": torch.tensor(2.0),
    "tensor_1d": torch.tensor([1.0, 3.0]),
    "half": torch.tensor(2.0, dtype=torch.float16),
    "brain": torch.tensor(2.0, dtype=torch.bfloat16),
    "long": torch.tensor([1, 3]),
}


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("other", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_every_form_and_mixed(value: Any, other: Any) -> None:
    one, two = (1.0 if each is True else 2.0 for each in (value, other))
    assert filled(value, value, other).means() == {"x": pytest.approx((2 * one + two) / 3)}
    assert filled(value, other).columns()["x"].tolist() == [one, two]


@pytest.mark.parametrize("value", ["text", {"a": 1}, [[1], [1, 2]]])
def test_what_is_no_number_is_named(value: Any) -> None:
    buffer = filled(value, name="entropy")
    with pytest.raises(SchemaError, match=f"'entropy' is a {type(value).__name__}"):
        buffer.columns()
    assert buffer.state_dict() == {}


def test_updates_that_tell_nothing_do_not_count() -> None:
    assert filled(1.0, None, 3.0).columns()["x"].tolist() == [1.0, 3.0]
    assert filled(None).means() == {}


def test_scalars_are_variables_and_of_histograms_the_last_counts() -> None:
    buffer = LogBuffer()
    buffer.names = ("total_loss", "[histogram]q")
    for step in (1.0, 3.0):
        buffer.add({
            "total_loss": step,
            "[scalars]norm": {"conv": torch.tensor(step), "head": 2 * step},
            "[histogram]q": np.array([step, 0.0]),
        })  # fmt: skip
    assert buffer.means() == {"total_loss": 2.0, "norm/conv": 2.0, "norm/head": 4.0}
    assert buffer.histograms["q"].tolist() == [3.0, 0.0]
    restored = LogBuffer()
    restored.names = ("total_loss",)
    restored.load_state_dict(buffer.state_dict())
    assert restored.means() == buffer.means()
    buffer.clear()
    assert buffer.means() == buffer.histograms == {}


def test_both_forms_reach_the_logs() -> None:
    told: list[Any] = []
    log = SimpleNamespace(
        log_scalars=lambda scalars, **when: told.append((scalars, when)),
        log_histogram=lambda tag, values, **when: told.append((tag, list(values), when)),
        log_text=lambda *_, **__: None,
    )

    def forward(_: Any) -> Any:
        return {"total_loss": 1.0, "[scalars]norm": {"head": 2.0}, "[histogram]q": [3.0, 4.0]}

    engine = BaseLearner(
        BaseLearnerConfig(hook=[]), mode()._replace(forward=forward), run=SimpleNamespace(log=log)
    )
    engine.register_hook(LogShowHook(freq=2))
    for _ in range(2):
        engine.train([], envstep=9)
    when = {"env_step": 9, "train_iter": 2}
    scalars = {"learner/total_loss": 1.0, "learner/norm/head": 2.0}
    assert told == [(scalars, when), ("learner/q", [3.0, 4.0], when)]


def test_scalars_that_are_no_dict_are_named() -> None:
    with pytest.raises(SchemaError, match=r"'\[scalars\]q' is a float, not a dict of numbers"):
        LogBuffer().add({"[scalars]q": 1.0})


@pytest.mark.parametrize("position", ["before_iter", "after_iter"])
def test_a_hook_that_registers_one_at_its_own_position_runs_once(position: str) -> None:
    calls: list[str] = []

    class Registers(LearnerHook):
        def __call__(self, engine: Any) -> None:
            calls.append(self.name)
            if len(calls) < 5:
                engine.register_hook(Notes("other", 1, position))

    class Notes(LearnerHook):
        def __call__(self, engine: Any) -> None:
            calls.append(self.name)

    found = learner(mode())
    found.register_hook(Registers("first", 50, position))
    found.train({})
    assert calls == ["first"]
    found.train({})
    assert calls == ["first", "other", "first"]


def test_a_learner_that_is_closed_before_it_starts_leaves_no_thread() -> None:
    found = learner()
    found.get_data = lambda size: None
    found.close()
    found.start()
    assert found.last_iter == 0
    assert "dicore-dataloader" not in {each.name for each in threading.enumerate()}


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_learner_of_its_own_that_raises_leaves_a_checkpoint(
    tmp_path: Any, error: type[BaseException]
) -> None:
    policy = DQNPolicy({"model": {"obs_shape": 2, "action_shape": 2}})
    options = BaseLearnerConfig(hook=[])
    found = BaseLearner(options, policy.learn_mode, exp_name=str(tmp_path))

    def source(size: int) -> Any:
        if found.last_iter == 3:
            raise error("the disk is gone")
        return transitions(size)

    found.get_data = source
    with pytest.raises(error, match="the disk is gone"):
        found.start()
    assert [each.name for each in (tmp_path / "ckpt").iterdir()] == ["exception"]
    found.exp_name = None
    with pytest.raises(UsageError, match="no folder for checkpoints"):
        found.save_checkpoint()


def transitions(size: int) -> Batch:
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((2, size, 2), np.float32)
    return Batch({
        "obs": obs[0], "next_obs": obs[1], "action": np.zeros(size, np.int64),
        "reward": np.ones(size, np.float32), "done": np.zeros(size, np.float32),
    }, size)  # fmt: skip


def test_an_int_that_no_float_has_counts_as_infinite() -> None:
    buffer = LogBuffer()
    buffer.names = ("x",)
    buffer.add({"x": 10**400})
    buffer.add({"x": 3})
    assert buffer.columns()["x"].tolist() == [np.inf, 3.0]
    assert buffer.means() == {"x": 3.0}
