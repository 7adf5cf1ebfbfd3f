"""`dicore collect` for demonstrations: whole episodes, a least return, greedy actions, outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore import collect_demo_data, collect_episodic_demo_data
from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore_plugins.datasets import NpzDataset
from dicore_tools.evaluation.policy_loader import find_policy

HAND = '''
from dicore.data import EnvBatch
from dicore_plugins.policies import FixedPolicy


class Balance(FixedPolicy):
    """Balances a pole by its angle and angular velocity."""

    def _forward_collect(self, obs, **kwargs):
        batch = EnvBatch.of(obs)
        lean = batch.value[:, 2] + 0.5 * batch.value[:, 3]
        return batch.with_value({"action": (lean > 0).astype("int64")})

    _forward_eval = _forward_collect
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A short run of PPO, which samples its actions."""
    folder = tmp_path_factory.mktemp("work") / "x"
    launch(
        env="cartpole", policy="ppo", seed=5, exp_name=str(folder), max_env_step=512,
        overrides=["pipeline.logger=[]", "env.n_evaluator_episode=2", "env.evaluator_env_num=2"],
    )  # fmt: skip
    return str(folder)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def taken(name: str = "demo.npz", **options: Any) -> Any:
    data = NpzDataset({"path": name, **options})
    return data, data.take(np.arange(len(data)))


def test_whole_episodes(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", run, "--episodes", "5", "-o", "demo.npz"]) == 0
    assert "samples of obs, action, reward, done, next_obs" in capfd.readouterr().out
    data, steps = taken()
    assert data.episodes == 5
    assert steps["done"].sum() == 5, "each has its last step"
    assert (steps["reward"] == 1).all()
    again = collect_episodic_demo_data(run, None, 5, "again.npz")
    assert len(again) == len(data)
    assert main(["collect", run, "--episodes", "5", "-n", "9"]) == 2
    assert "-n 9 and --episodes 5: expected one of them" in capfd.readouterr().err


def test_only_episodes_with_a_least_return(run: str) -> None:
    collect_demo_data(run, expert_data_path="demo.npz", n_episode=4, min_return=18)
    returns = taken()[0].returns
    assert len(returns) == 4
    assert returns.min() >= 18
    with pytest.raises(UsageError, match="0 of 20 episodes have a return of at least 501"):
        collect_demo_data(run, expert_data_path="demo.npz", n_episode=1, min_return=501)
    with pytest.raises(UsageError, match="the least return is one of whole episodes in a file"):
        collect_demo_data(run, expert_data_path="demo", n_episode=1, min_return=5)


def test_greedy_actions_are_those_of_evaluation(run: str) -> None:
    found = {}
    for greedy in (False, True):
        collect_demo_data(run, collect_count=200, expert_data_path="demo.npz", greedy=greedy)
        steps = taken()[1]
        trained = find_policy(run)
        from dicore.run.env_factory import BuildContext, spec_of

        policy, _ = trained.build(BuildContext(spec_of(trained.compiled.env, 0)))
        best = policy.eval_mode.forward(dict(enumerate(steps["obs"]))).value["action"]
        found[greedy] = (best != steps["action"]).mean()
    assert found[True] == 0
    assert found[False] > 0.05


def test_outputs_are_the_probabilities_of_the_actions(run: str) -> None:
    """L19: bc learns them."""
    collect_demo_data(run, collect_count=400, expert_data_path="demo.npz", outputs=True)
    _, steps = taken(extra=("logit",))
    assert steps["logit"].shape == (400, 2)
    p = np.exp(steps["logit"])
    chosen = (p / p.sum(1, keepdims=True))[np.arange(400), steps["action"]]
    assert 0.5 < chosen.mean() < 0.999
    code = main([
        "train", "-e", "cartpole", "-p", "bc", "pipeline.dataset.path=demo.npz",
        "pipeline.dataset.extra=[logit]", "policy.learn.distill_weight=1", "pipeline.logger=[]",
        "env.n_evaluator_episode=1", "env.evaluator_env_num=1", "--max-train-iter", "5",
        "--exp-name", "bc",
    ])  # fmt: skip
    assert code == 0


def test_a_policy_written_by_hand(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "hand.py").write_text(HAND)
    words = ["collect", "-e", "cartpole", "-p", "./hand.py:Balance", "--episodes", "3"]
    assert main([*words, "--min-return", "150", "-o", "demo.npz"]) == 0
    data, steps = taken()
    lean = steps["obs"][:, 2] + 0.5 * steps["obs"][:, 3]
    np.testing.assert_array_equal(steps["action"], lean > 0)
    assert data.episodes == 3
    assert main(["collect", "-e", "cartpole", "-p", "dqn", "-o", "other.npz"]) == 2
    assert "'dqn' has to learn first" in capfd.readouterr().err
    assert main(["collect", "-o", "demo.npz"]) == 2
    assert "expected one run or checkpoint, or -e ENV and -p POLICY" in capfd.readouterr().err
