"""`dicore collect` and `collect_demo_data`: safe files that load back (K18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.errors import CheckpointError, UsageError
from dicore.run.launch import launch
from dicore_tools.demo_dataset import collect_demo_data, load_demo_data
from tests.tools.conftest import mtimes

SMALL = [
    "policy.eval.evaluator.n_episode=2", "env.evaluator_env_num=2", "env.stop_value=inf",
    "pipeline.logger=[]", "policy.other.replay_buffer.replay_buffer_size=600",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "x"
    launch(
        env="cartpole", policy="dqn", seed=1, exp_name=str(folder), max_env_step=800,
        overrides=SMALL,
    )  # fmt: skip
    return folder


pytestmark = pytest.mark.usefixtures("here")


def policy_of(run: Path) -> Any:
    from dicore.run.env_factory import BuildContext, spaces_of
    from dicore_tools.evaluation.policy_loader import find_policy

    trained = find_policy(run)
    spaces = spaces_of(trained.compiled.env, 0)
    return trained.build(BuildContext().with_spaces(*spaces))[0]


def test_data_is_what_the_policy_does(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The actions are greedy, the samples real, nothing goes into the run."""
    from dicore.data import EnvBatch

    before = mtimes(run)
    assert main(["collect", str(run), "-n", "700", "-o", "deep/demo", "-q"]) == 0
    assert "deep/demo: 700 samples of obs, " in capfd.readouterr().out
    data = load_demo_data("deep/demo")
    assert len(data) == 700, "more than the buffer of the run would hold"
    output = policy_of(run).eval_mode.forward(EnvBatch(np.arange(700), data["obs"]))
    np.testing.assert_array_equal(EnvBatch.of(output).value["action"], data["action"])
    assert set(np.unique(data["action"])) == {0, 1}
    assert mtimes(run) == before


def test_data_fills_a_buffer(run: Path) -> None:
    from dicore_plugins.buffers import NaiveReplayBuffer

    data = collect_demo_data(run, 5, 100, "demo")
    buffer = NaiveReplayBuffer({"replay_buffer_size": 500})
    buffer.load_data("demo")
    assert buffer.count() == 100
    drawn = {row["obs"].tobytes() for row in buffer.sample(50)}
    assert drawn <= {row["obs"].tobytes() for row in data}
    assert len(drawn) > 10
    buffer.push(load_demo_data("demo"))
    assert buffer.count() == 200


def test_the_documents_form(run: Path) -> None:
    """K18: by a config and the path of a checkpoint."""
    first = collect_demo_data(run, 7, 50, "a")
    second = collect_demo_data(str(run / "config.json"), 7, 50, "b", run / "ckpt/best")
    for key, column in first.items():
        np.testing.assert_array_equal(column, second[key])
    other = collect_demo_data(run, 8, 50, "a")
    assert not np.array_equal(first["obs"], other["obs"])
    np.testing.assert_array_equal(load_demo_data("a")["obs"], other["obs"])


def test_what_is_refused(run: Path, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "mine").mkdir()
    (here / "mine/letter.txt").write_text("dear")
    assert main(["collect", str(run), "-n", "5", "-o", "mine"]) == 2
    assert "mine exists and contains other data" in capfd.readouterr().err
    assert (here / "mine/letter.txt").read_text() == "dear"
    with pytest.raises(UsageError, match="state_dict_path"):
        collect_demo_data(str(run / "config.json"), 0, 5, "demo")
    with pytest.raises(CheckpointError, match="no samples"):
        load_demo_data(run / "ckpt/best")
    (here / "old.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(CheckpointError, match="does not unpickle"):
        load_demo_data("old.pkl")
    assert main(["collect", str(run), "--cuont", "3"]) == 2
    assert "did you mean '--count'" in capfd.readouterr().err


def test_what_cannot_be_read_or_written_is_told_before_anything_is_collected(
    run: Path, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "runs/none"]) == 2
    assert capfd.readouterr().err == (
        "error: runs/none: no such folder\n  hint: name a run folder\n"
    )
    (here / "file").touch()
    for out in ("file/x", "file/x/y"):
        assert main(["collect", str(run), "-n", "5", "-o", out]) == 2
        said = capfd.readouterr().err
        assert said.startswith(f"error: cannot write {out}: {here / 'file'} is not a folder")
