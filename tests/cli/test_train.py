"""`dicore train` and `dicore eval` as a person runs them: real trainings of real environments.

Whatever depends on the process (signals, pipes, terminals, limits, crashes) runs in one of its own;
the rest runs here, where torch is imported already.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main

DICORE = [sys.executable, "-c", "import sys; from dicore.cli import main; sys.exit(main())"]
SMALL = [
    "policy.eval.evaluator.n_episode=5", "env.evaluator_env_num=5", "env.stop_value=inf",
    "policy.learn.update_per_collect=32", "policy.learn.batch_size=16",
    "policy.model.encoder_hidden_size_list=[16]",
]  # fmt: skip
ENDLESS = [*SMALL, "policy.eval.evaluator.eval_freq=1000000"]
CONFIG = """
main_config = dict(
    exp_name="runs/file",
    env=dict(collector_env_num=4, evaluator_env_num=2, n_evaluator_episode=2, stop_value=1e9),
    policy=dict(learn=dict(batch_size=16), collect=dict(n_sample=16)),
)
create_config = dict(env=dict(type="cartpole"), policy=dict(type="dqn"))
"""


def environ() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def dicore(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own."""
    done = subprocess.run(
        [*DICORE, *arguments],
        cwd=cwd,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def here(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs a command as `dicore` does, in this process."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            returned = main(list(arguments))
        texts = [(stream.flush(), stream.seek(0), stream.read())[2] for stream in (out, err)]
    assert returned == code, "".join(texts)
    return subprocess.CompletedProcess(arguments, returned, *texts)


def read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with one small run in `runs/x`, and what the command said."""
    cwd = tmp_path_factory.mktemp("work")
    arguments = ["-e", "cartpole", "-p", "dqn", "-s", "3", "--exp-name", "runs/x"]
    arguments += ["policy.eval.evaluator.eval_freq=64"]
    done = dicore("train", *arguments, "--max-env-step", "1200", *SMALL, cwd=cwd)
    assert done.stderr == ""
    return cwd, done.stdout


def test_a_run_is_complete_and_named_first_and_last(trained: tuple[Path, str]) -> None:
    cwd, said = trained
    run = cwd / "runs/x"
    first, *_, last = said.splitlines()
    assert "runs/x" in first
    assert last.endswith("runs/x")
    assert said.count("\nwatch:      dicore watch runs/x\n") == 1
    assert said.index("watch: ") < said.index(" env steps"), "before the training, not after it"
    assert "\ncurve:      dicore plot runs/x --text   (numbers: runs/x/log/metrics.jsonl)" in said
    names = {str(path.relative_to(run)) for path in run.rglob("*")}
    assert names >= {
        "config.json",
        "total_config.py",
        "formatted_total_config.py",
        "run.json",
        "log/metrics.jsonl",
        "ckpt/best/manifest.json",
        "ckpt/final/tensors.safetensors",
    }
    assert not [name for name in names if Path(name).name.startswith(".")]


def test_run_json_holds_what_is_promised(trained: tuple[Path, str]) -> None:
    record = read(trained[0] / "runs/x/run.json")
    assert record["seed"] == 3
    assert record["argv"][1:4] == ["train", "-e", "cartpole"]
    parts = record["components"]
    assert {"env", "env.manager", "policy", "policy.model", "pipeline"} <= set(parts)
    for part in parts.values():
        assert {"type", "dist", "version", "target"} <= set(part)
    assert parts["policy"]["dist"] == "dicore-plugins"
    result = record["result"]
    assert set(result) == {"stop", "train_iter", "env_step", "best_return", "wall_s", "cpu_s"}
    assert result["stop"] is False
    assert 1200 <= result["env_step"] < 1400
    assert result["train_iter"] > 0
    assert 5 < result["best_return"] <= 500
    assert result["wall_s"] > 0
    assert 0 < result["cpu_s"] < 120


def test_curves_are_the_same_in_both_forms(trained: tuple[Path, str]) -> None:
    """`tensorboard --logdir runs/x` shows what `metrics.jsonl` holds."""
    multiplexer = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_multiplexer"
    ).EventMultiplexer()
    from tensorboard.util import tensor_util

    from dicore.run.log import read_metrics

    run = trained[0] / "runs/x"
    multiplexer.AddRunsFromDirectory(str(run)).Reload()
    (name,) = multiplexer.Runs()
    tag = "evaluator/return_mean"
    shown = [
        (event.step, float(tensor_util.make_ndarray(event.tensor_proto)))
        for event in multiplexer.Tensors(name, tag)
    ]
    kept = [
        (line["step"], line[tag]) for line in read_metrics(run / "log/metrics.jsonl") if tag in line
    ]
    assert len(kept) >= 2
    assert [step for step, _ in shown] == [step for step, _ in kept]
    assert [value for _, value in shown] == pytest.approx([value for _, value in kept], rel=1e-6)
    assert {
        tag.split("/")[0] for line in read_metrics(run / "log/metrics.jsonl") for tag in line
    } >= {
        "evaluator",
        "learner",
    }


@pytest.mark.parametrize("word", ["-n", "--steps", "--max-env-step", "--env_step"])
def test_the_budget_is_a_count_in_any_form(word: str) -> None:
    from dicore.cli.train import command

    (option,) = [each for each in command.params if word in each.opts]
    assert option.name == "max_env_step"
    assert [option.type.convert(each, option, None) for each in ("1e3", "1_000")] == [1000, 1000]


def test_the_forms_of_the_documents_mean_the_same(tmp_path: Path) -> None:
    """K2, K3: a leading option means train; both spellings; a file after -c or by itself."""
    (tmp_path / "c.py").write_text(CONFIG)
    forms = [
        ["-m", "serial", "-c", "c.py", "-s", "0", "--train_iter", "20"],
        ["train", "c.py", "-s", "0", "--train-iter", "20"],
        ["train", "--max-train-iter", "20", "c.py", "seed=0"],
    ]
    for form in forms:
        here(*form, cwd=tmp_path)
    runs = [tmp_path / "runs" / name for name in ("file", "file-1", "file-2")]
    results = [read(run / "run.json")["result"] for run in runs]
    for result in results:
        result.pop("wall_s")
        result.pop("cpu_s")
    assert results[0] == results[1] == results[2]
    assert results[0]["train_iter"] >= 20
    digests = {
        json.loads((run / "ckpt/final/manifest.json").read_text())["files"]["tensors.safetensors"][
            "sha256"
        ]
        for run in runs
    }
    assert len(digests) == 1, "the same seed gives the same parameters, bit for bit"


def test_the_config_of_a_run_trains_the_same(trained: tuple[Path, str], tmp_path: Path) -> None:
    run = trained[0] / "runs/x"
    for name in ("config.json", "formatted_total_config.py"):
        here("train", str(run / name), "--exp-name", name, cwd=tmp_path)
        best = read(tmp_path / name / "run.json")["result"]["best_return"]
        assert best == read(run / "run.json")["result"]["best_return"]


def test_any_gymnasium_id_trains_without_a_config(tmp_path: Path) -> None:
    arguments = ["-e", "gymnasium:MountainCar-v0", "-p", "dqn", "--max-env-step", "40"]
    here("train", *arguments, "env.n_evaluator_episode=5", cwd=tmp_path)
    run = tmp_path / "runs/MountainCar-v0_dqn_s0"
    assert read(run / "run.json")["result"]["stop"] is False


BAD = [
    (["-e", "cartpol", "-p", "dqn"], "env.type: no env named 'cartpol'; did you mean 'cartpole'?"),
    (["-e", "cartpole", "-p", "dqnn"], "policy.type: no policy named 'dqnn'"),
    (["-e", "cartpole", "-p", "dqn", "policy.learn.btach_size=3"], "did you mean 'batch_size'"),
    (["-e", "cartpole", "-p", "dqn", "policy.learn.batch_size=32.7"], "expected int, got float"),
    (["-e", "pendulum", "-p", "dqn"], "'dqn' needs discrete actions"),
    (["missing.py"], "missing.py: no such config file"),
    (["a.py", "-c", "b.py"], "expected at most one config file, got b.py, a.py"),
    (["cartpole", "ppo"], "-e cartpole -p ppo?"),
    (["-e", "cartpole", "-p", "dqn", "-m", "srial"], "did you mean 'serial'?"),
    (["-e", "cartpole"], "nothing to train: no config"),
    (["--sed", "1"], "no such option '--sed'; did you mean '--seed'?"),
    (["-e", "cartpole", "-p", "dqn", "-s", "x"], "'x' is not a valid integer\n"),
    (["-e", "cartpole", "-p", "dqn", "--exp-name", "file/x"], "cannot make the run folder file/x"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD, ids=[text for _, text in BAD])
def test_bad_input_is_one_clear_error_and_no_folder(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    """R-F09: exit 2, at most three lines, no traceback, nothing left behind."""
    (tmp_path / "file").write_text("")
    done = here("train", *arguments, cwd=tmp_path, code=2)
    assert text in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) <= 3
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = dicore("train", "-e", "cartpol", "-p", "dqn", "--debug", cwd=tmp_path, code=2)
    assert "Traceback" in done.stderr


def test_wrong_input_is_found_before_torch_is_imported(tmp_path: Path) -> None:
    program = """
import sys
from dicore.cli import main
code = main(["train", "-e", "cartpole", "-p", "dqn", "policy.learn.batch_size=x"])
sys.exit(9 if {"torch", "rich", "tensorboardX"} & set(sys.modules) else code)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 2


def start(cwd: Path, *more: str) -> subprocess.Popen[str]:
    arguments = ["train", "-e", "cartpole", "-p", "dqn", "--exp-name", "x", *ENDLESS, *more]
    return subprocess.Popen(
        [*DICORE, *arguments],
        cwd=cwd,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_updates(run: Path) -> None:
    """Waits until the learner has logged, so that the loop is certainly running."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        metrics = run / "log/metrics.jsonl"
        if metrics.exists() and "learner/" in metrics.read_text():
            return
        time.sleep(0.05)
    pytest.fail("the training never came to its first updates")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_training_after_saving(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """R-C01, C02."""
    with start(tmp_path) as process:
        try:
            wait_for_updates(tmp_path / "x")
            process.send_signal(number)
            said, complaints = process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == code, complaints
    assert complaints.startswith("stopping when this iteration ends; once more: at once")
    assert said.splitlines()[-1] == "folder:     x"
    assert "resume:     dicore train --resume x" in said.splitlines()
    record = read(tmp_path / "x/run.json")
    assert record["status"] == "interrupted"
    assert record["result"]["env_step"] > 0
    assert (tmp_path / "x/ckpt/final/manifest.json").exists()
    answer = here("eval", "x", "-n", "1", "--json", "--load-path", "final", cwd=tmp_path)
    assert json.loads(answer.stdout)["episodes"] == 1


def test_a_reader_that_leaves_does_not_end_the_training(tmp_path: Path) -> None:
    """R-F12: `dicore train … | head -1`."""
    with start(tmp_path, "pipeline.max_env_step=600", "pipeline.logger=[console]") as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert "x" in process.stdout.readline()
            process.stdout.close()
            complaints = process.stderr.read()
            assert process.wait(200) == 0, complaints
        finally:
            process.kill()
    assert complaints == ""
    assert read(tmp_path / "x/run.json")["status"] == "done"


def test_help_shows_options_and_examples(tmp_path: Path) -> None:
    for command in ("train", "eval"):
        text = here(command, "-h", cwd=tmp_path).stdout
        assert "Examples:" in text
        assert "--seed" in text
