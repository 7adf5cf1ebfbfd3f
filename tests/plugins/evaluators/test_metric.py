"""The metric evaluator: values counted by hand, best and stop, mistakes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import ClosedError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore.task import OnlineRLContext, task
from dicore_plugins.datasets import write_npz
from dicore_plugins.evaluators import MetricEvaluator
from dicore_plugins.evaluators.metric.evaluator import Accuracy, IMetric
from dicore_plugins.middleware import metric_evaluator
from dicore_plugins.policies import DQNPolicy


class Points:
    """Points of the plane; the label is whether x > y."""

    def __init__(self, count: int = 50) -> None:
        obs = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
        self.rows = Batch({"obs": obs, "action": (obs[:, 0] > obs[:, 1]).astype(np.int64)}, count)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Any) -> Batch:
        return self.rows[index]


class Errors:
    """Number of wrong answers and their share; fewer are better."""

    def eval(self, inputs: Any, label: Any) -> Any:
        return inputs["action"] != label

    def reduce_mean(self, inputs: Any) -> dict[str, float]:
        wrong = np.concatenate(inputs)
        return {"share": float(wrong.mean()), "number": float(wrong.sum())}

    def gt(self, metric1: Any, metric2: Any) -> bool:
        return bool(metric1["share"] < metric2["share"])


def classifier(*, right: bool = True) -> Any:
    net = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(
            torch.tensor([[0.0, 1.0], [1.0, 0.0]] if right else [[1.0, 0.3], [0.2, 1]])
        )
    return DQNPolicy({"model": {"obs_shape": 2, "action_shape": 2}}, model=net)


@pytest.mark.parametrize("batch_size", [7, 50, 1000])
def test_the_accuracy_is_that_counted_by_hand(batch_size: int) -> None:
    points = Points()
    x, y = points.rows["obs"].T
    options = {"batch_size": batch_size, "stop_value": 1.0}
    for right, counted in ((True, 1.0), (False, np.mean((0.2 * x + y > x + 0.3 * y) == (x > y)))):
        mode = classifier(right=right).eval_mode
        evaluator = MetricEvaluator(options, policy=mode, dataset=points)
        result = evaluator.eval(train_iter=1)
        assert result.mean_return == pytest.approx(counted)
        assert result.stop is right
        assert not evaluator.eval(train_iter=0).stop


def test_the_metric_says_what_is_better() -> None:
    saved: list[str] = []
    lines: list[Any] = []
    log = SimpleNamespace(log_scalars=lambda scalars, **counts: lines.append(scalars))
    metric = Errors()
    assert isinstance(metric, IMetric)
    evaluator = MetricEvaluator({}, dataset=Points(), metric=metric, log=log)
    for right in (False, True, False):
        evaluator.reset_policy(classifier(right=right).eval_mode)
        evaluator.eval(saved.append, train_iter=1)
    assert len(saved) == 2
    assert evaluator.best_return == 0.0
    again = MetricEvaluator({}, dataset=Points(), metric=metric)
    again.load_state_dict(evaluator.state_dict())
    again.reset_policy(classifier(right=False).eval_mode)
    again.eval(saved.append, train_iter=4)
    assert len(saved) == 2  # the best one before is known
    assert lines[0]["evaluator/number"] == lines[0]["evaluator/share"] * 50 > 0


@pytest.mark.parametrize(("wanted", "right", "wrong"), [(0.0, True, False), (1.0, True, True)])
def test_training_stops_at_a_value_that_is_as_good(wanted: float, right: bool, wrong: bool) -> None:
    """By a metric of which less is better."""
    evaluator = MetricEvaluator({"stop_value": wanted}, dataset=Points(), metric=Errors())
    found = []
    for good in (True, False):
        evaluator.reset_policy(classifier(right=good).eval_mode)
        found.append(evaluator.eval(train_iter=1).stop)
    assert found == [right, wrong]
    never = MetricEvaluator({}, classifier().eval_mode, dataset=Points(), metric=Errors())
    never.reset_policy(classifier().eval_mode)
    assert not never.eval(train_iter=1).stop


def test_as_a_middleware(make: Any) -> None:
    cfg, *_ = make("policy.eval.evaluator.eval_freq=2")
    values: list[Any] = []
    with task.start(ctx=OnlineRLContext()):
        task.use(metric_evaluator(cfg, classifier().eval_mode, Points(), Accuracy()))

        def count(ctx: Any) -> None:
            values.append(ctx.eval_value)
            ctx.train_iter += 1

        task.use(count).run(max_step=4)
        assert task.ctx.last_eval_iter == 2
        assert task.ctx.last_eval_value == 1.0
    assert values == [1.0, float("-inf"), 1.0, float("-inf")]


def test_mistakes_are_named_and_an_interruption_is_made_up_for() -> None:
    with pytest.raises(UsageError, match="no samples"):
        MetricEvaluator({}, policy=classifier().eval_mode)
    with pytest.raises(UsageError, match="no samples"):
        MetricEvaluator({}, dataset=Points(0))
    evaluator = MetricEvaluator({"label": "kind"}, policy=classifier().eval_mode, dataset=Points())
    with pytest.raises(SchemaError, match="no column 'kind', only action, obs"):
        evaluator.eval()
    assert evaluator.should_eval(0)
    assert evaluator.eval(train_iter=0, should_stop=lambda: True).interrupted
    assert evaluator.should_eval(0)
    evaluator.close()
    with pytest.raises(ClosedError):
        evaluator.eval()


def test_a_run_on_a_data_set_is_evaluated_by_it(tmp_path: Path) -> None:
    """By name, and in a run that is resumed."""
    rng, end = np.random.default_rng(0), np.arange(40) % 10 == 9
    columns = {"obs": rng.normal(size=(40, 4)), "action": rng.integers(0, 2, 40)}
    write_npz(tmp_path / "x.npz", {**columns, "reward": np.ones(40), "terminated": end})
    options = [
        f"pipeline.dataset.path={tmp_path / 'x.npz'}", "policy.eval.evaluator=metric",
        "policy.eval.evaluator.eval_freq=10", "policy.learn.batch_size=8", "pipeline.logger=[]",
        "policy.model.encoder_hidden_size_list=[8]",
    ]  # fmt: skip
    folder = tmp_path / "run"
    launch(env="cartpole", policy="bc", exp_name=str(folder), max_train_iter=20, overrides=options)
    launch(resume=str(folder), max_train_iter=40)
    lines = list(read_metrics(folder / "log" / "metrics.jsonl"))
    found = [line["evaluator/return_mean"] for line in lines if "evaluator/return_mean" in line]
    assert len(found) >= 4
    assert all(0 <= each <= 1 for each in found)
