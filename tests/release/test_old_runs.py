"""What a released version wrote is resumed, evaluated, plotted and learned from by this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_tools")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.run.atomic import read_json

RUNS = Path(__file__).parent / "recorded"
RECORDED = [run for version in sorted(RUNS.iterdir()) for run in version.iterdir() if run.is_dir()]


@pytest.fixture(params=RECORDED, ids=lambda run: f"{run.parent.name}-{run.name}")
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a recorded run."""
    if "qmix" in request.param.name:
        pytest.importorskip("dicore_agents")
    copied: Path = tmp_path / request.param.name
    shutil.copytree(request.param, copied)
    return copied


@pytest.mark.filterwarnings("ignore:components differ:dicore.errors.ConfigWarning")
def test_an_old_run_acts_as_it_did_and_goes_on(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = json.loads((run / "evaluation.json").read_text())
    assert main(["eval", str(run), "-n", "2", "-s", "0", "--json"]) == 0
    returns = json.loads(capsys.readouterr().out)["returns"]
    assert returns == pytest.approx(expected["returns"], rel=1e-3)
    assert main(["plot", str(run), "-o", str(run / "curve.png")]) == 0
    assert main(["train", "--resume", str(run), "-n", "80", "-q"]) == 0
    found = read_json(run / "run.json")
    assert found["status"] == "done"
    assert found["result"]["env_step"] >= 80


@pytest.mark.parametrize(
    "file", sorted(RUNS.glob("*/pendulum.npz")), ids=lambda file: file.parent.name
)
def test_an_old_data_set_is_learned_from(file: Path, tmp_path: Path) -> None:
    words = ["-m", "serial_offline", "-e", "pendulum", "-p", "td3_bc", "--no-preset", "-q",
             f"pipeline.dataset.path={file}", "--max-train-iter", "5", "pipeline.logger=[]",
             "policy.learn.batch_size=8", "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
             "--exp-name", str(tmp_path / "run")]  # fmt: skip
    assert main(["train", *words]) == 0
    assert read_json(tmp_path / "run" / "run.json")["result"]["train_iter"] == 5
