"""`dicore eval` and `dicore collect`: the log's number again, videos, data that loads back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.data import Batch, EnvBatch
from dicore.errors import CheckpointError, ConfigError, ConfigWarning, UsageError
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore_tools.demo_dataset import collect_demo_data, load_demo_data
from dicore_tools.evaluation.evaluate import eval as eval_checkpoint
from dicore_tools.evaluation.evaluate import evaluate
from dicore_tools.evaluation.play import play
from dicore_tools.evaluation.policy_loader import find_policy
from dicore_tools.evaluation.video import Recorder
from tests.tools.conftest import mtimes

SMALL = [
    "policy.eval.evaluator.eval_freq=128", "policy.eval.evaluator.n_episode=7",
    "env.evaluator_env_num=3", "env.stop_value=inf", "pipeline.logger=[]",
    "policy.other.replay_buffer.replay_buffer_size=600",
]  # fmt: skip
SHORT = "policy.eval.evaluator.max_episode_steps=8"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with several evaluations, of several episodes per environment."""
    folder = tmp_path_factory.mktemp("work") / "x"
    launch(
        env="cartpole", policy="dqn", seed=5, exp_name=str(folder), max_env_step=1000,
        overrides=SMALL,
    )  # fmt: skip
    return folder


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main(arguments) == code
    return capfd.readouterr()


def answer(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(capfd, "eval", "--json", *arguments).out)
    return found


def test_the_number_is_the_one_of_the_log(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """K17: for the best, which was saved in the middle, and for the final one."""
    lines = [line for line in read_metrics(run / "log/metrics.jsonl") if _TAG in line]
    logged = [line[_TAG] for line in lines]
    assert len(logged) >= 4
    best = answer(capfd, str(run))
    assert (best["mean_return"], best["starts"]) == (max(logged), "training")
    final = answer(capfd, str(run), "--load-path", "final")
    assert (final["mean_return"], final["starts"]) == (logged[-1], "training")
    assert final["checkpoint"] == "final"
    other = answer(capfd, str(run), "-s", "100")
    assert other == answer(capfd, str(run), "-s", "100"), "the same seed, the same episodes"
    assert (other["starts"], other["seed"]) == ("fresh", 100)
    assert other["returns"] != best["returns"]
    assert answer(capfd, str(run), SHORT)["starts"] == "fresh", "another config, another number"


_TAG = "evaluator/return_mean"


def test_few_episodes_take_as_few_environments_as_in_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    more = ["env.n_evaluator_episode=2", "env.evaluator_env_num=5", "pipeline.logger=[]"]
    launch(env="cartpole", policy="dqn", exp_name=str(tmp_path / "x"), max_env_step=64,
           overrides=more)  # fmt: skip
    assert answer(capfd, str(tmp_path / "x"), "--load-path", "final")["episodes"] == 2


def test_a_checkpoint_that_was_not_measured_has_fresh_starts(run: Path) -> None:
    from dicore.run.checkpoint_store import CheckpointStore

    store = CheckpointStore(run / "ckpt")
    state = store.load("final")
    state["evaluator"]["measured"]["train_iter"] -= 1
    store.save("older", state, train_iter=int(store.metadata("final")["train_iter"]))
    assert evaluate(run, load_path="older").starts == "fresh"


def test_a_broken_best_is_followed_by_the_final_one(
    run: Path, tmp_path: Path, capfd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(run, tmp_path / "x")
    (tmp_path / "x/ckpt/best/tensors.safetensors").write_bytes(b"")
    done = said(capfd, "eval", str(tmp_path / "x"), "-n", "1", "--json")
    assert json.loads(done.out)["checkpoint"] == "final"
    assert "best" in caplog.text
    error = said(capfd, "eval", str(tmp_path / "x"), "--load-path", "best", code=4).err
    assert error.startswith("error: ")


def test_folders_of_checkpoints_and_names_say_the_same(
    run: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = answer(capfd, str(run), "--load-path", "best")["returns"]
    monkeypatch.chdir(run / "ckpt")
    for arguments in (["best"], ["--load-path", str(run / "ckpt/best")], ["best", "--trust"]):
        assert answer(capfd, *arguments)["returns"] == named


def test_the_documents_form_needs_no_run(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """K17: `-m eval … --load-path CKPT --replay-path DIR`, and the function of that name."""
    monkeypatch.chdir(tmp_path)
    checkpoint = tmp_path / "alone"
    (run / "ckpt/best").rename(checkpoint)
    try:
        words = ["-e", "cartpole", "-p", "dqn", "-s", "9", "-n", "3", "--json"]
        place = f"{checkpoint}.pth.tar"
        first = said(capfd, "-m", "eval", *words, "--load-path", place).out
        assert first == said(capfd, *words, "--mode=eval", f"--load-path={place}").out
        found = eval_checkpoint(str(run / "config.json"), seed=9, load_path=checkpoint, n_episode=3)
        assert found.returns == json.loads(first)["returns"]
        with pytest.raises(UsageError, match="load_path"):
            eval_checkpoint(str(run / "config.json"))
        with pytest.raises(CheckpointError, match="does not fit"):
            eval_checkpoint(
                {"env": {"type": "acrobot"}, "policy": {"type": "dqn"}}, load_path=checkpoint
            )
    finally:
        checkpoint.rename(run / "ckpt/best")


def test_each_episode_becomes_a_video(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    before = mtimes(run)
    folder = tmp_path / "video"
    words = [str(run), "-n", "3", "-s", "1"]
    plain = answer(capfd, *words, SHORT)
    found = answer(capfd, *words, SHORT, "--replay-path", str(folder))
    assert found["returns"] == plain["returns"], "watching changes nothing"
    files = sorted(folder.iterdir())
    assert [str(path) for path in files] == found["videos"]
    assert [path.name for path in files] == [
        f"env_{env_id}_episode_0_return_{value:.1f}.mp4"
        for env_id, value in enumerate(found["returns"])
    ]
    for path, value in zip(files, found["returns"], strict=True):
        pictures, told = _pictures(ffmpeg, path)
        assert len(pictures) == value + 1, "one picture before the first step and one after each"
        assert len(set(pictures)) > 2, "the cart moves"
        assert len(set(pictures[0])) > 5, "there is something to see"
        assert "50 fps" in told
    answer(capfd, *words, SHORT, "--replay-path", str(folder))
    assert len(list(folder.iterdir())) == 6, "older videos stay"
    assert mtimes(run) == before


def test_the_name_of_a_video_has_the_return_of_the_environment(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Behind `clip_reward`, with half a point per step."""
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    halved = "env.env_wrapper=[{type: clip_reward, max_reward: 0.5}]"
    found = answer(capfd, str(run), "-n", "2", SHORT, halved, "--replay-path", str(tmp_path / "v"))
    names = [f"_return_{value:.1f}.mp4" for value in found["returns"]]
    assert all(each.endswith(name) for each, name in zip(found["videos"], names, strict=True))


def _pictures(ffmpeg: Any, path: Path) -> tuple[list[bytes], str]:
    """Decodes a video of 600 x 400 pixels; returns its pictures and what ffmpeg says of it."""
    command = [ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=500)
    size = 600 * 400 * 3
    assert len(done.stdout) % size == 0
    whole = range(0, len(done.stdout), size)
    return [done.stdout[start : start + size] for start in whole], done.stderr.decode()


def test_videos_need_their_package(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_tools.evaluation.video.find_spec", lambda name: None)
    words = ["eval", str(run), "--replay-path", str(tmp_path / "v")]
    error = said(capfd, *words, code=2).err
    assert "imageio-ffmpeg" in error
    assert "pip install 'dicore-tools[video]'" in error
    assert not (tmp_path / "v").exists()


class Unseen(gymnasium.Env[Any, int]):
    """An environment without pictures."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}


def test_an_environment_without_pictures_is_told_what_it_lacks(tmp_path: Path) -> None:
    section = compile_section(
        config_class(Unseen, "env"), {"stop_value": 1.0, "n_evaluator_episode": 1}
    )
    with pytest.raises(UsageError, match="environment Unseen cannot render") as caught:
        Recorder(tmp_path / "v").check(section)
    assert "render() must return uint8" in caught.value.hint
    assert not (tmp_path / "v").exists()


LEVELS = """
import sys
from dicore.cli import main
for more in (["-q"], [], ["--verbose"]):
    assert main([*sys.argv[1:], *more]) == 0
    for stream in (sys.stdout, sys.stderr):
        print("--", file=stream, flush=True)
"""


def test_quiet_says_the_result_alone_and_verbose_more(run: Path) -> None:
    """K20: in a process that has the log to itself."""
    words = ["eval", str(run), "-n", "3", "-s", "1", SHORT]
    done = subprocess.run(
        [sys.executable, "-c", LEVELS, *words],
        capture_output=True, text=True, check=True, timeout=500,
    )  # fmt: skip
    results, told = (text.split("--\n")[:3] for text in (done.stdout, done.stderr))
    assert re.fullmatch(r"mean return \d.*\n", results[0])
    assert results[0] == results[1] == results[2]
    quiet, plain, loud = told
    assert quiet == ""
    assert "max_episode_steps" in plain
    assert "WARNING dicore.evaluator: " in loud
    assert "WARNING dicore.evaluator: " not in plain


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("nowhere", 2, "no such folder"),
        (".", 2, "no config.json"),
        ("../work0", 2, "runs in this folder: ../work0/x"),
        ("x --load-path iteration_7", 4, "no such checkpoint"),
        ("x env.type=acrobot", 2, "policy.model.obs_shape: expected 6, as the environment has"),
        ("x -n 0", 2, "range"),
        ("--json", 2, "no run given"),
        ("x -q -v", 2, "mutually exclusive"),
        ("--laod-path x", 2, "did you mean '--load-path'"),
        ("x y", 2, "expected one run"),
        ("x -e acrobot", 2, "--env: x has its own env"),
        ("sb3.zip", 2, "dicore import-weights sb3.zip --run RUN"),
        ("x --load-path sb3.zip", 2, "dicore import-weights sb3.zip --run RUN"),
        ("-e cartpole -p dqn --load-path sb3.zip", 2, "dicore import-weights sb3.zip --run RUN"),
    ],
)
def test_what_is_wrong_is_said(
    words: str, code: int, text: str, run: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K20."""
    monkeypatch.chdir(run.parent)
    Path("sb3.zip").touch()
    done = said(
        capfd, "eval", *words.replace("../work0", f"../{run.parent.name}").split(), code=code
    )
    assert text.replace("../work0", f"../{run.parent.name}") in done.err
    assert done.out == ""
    assert len(done.err.splitlines()) <= 3


# ---- dicore collect (K18)


def policy_of(run: Path) -> Any:
    from dicore.run.env_factory import BuildContext, spec_of
    from dicore_tools.evaluation.policy_loader import find_policy

    trained = find_policy(run)
    spaces = spec_of(trained.compiled.env, 0)
    return trained.build(BuildContext(spaces))[0]


@pytest.mark.usefixtures("here")
def test_data_is_what_the_policy_does(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The actions are greedy, the samples real, nothing goes into the run."""
    before = mtimes(run)
    assert main(["collect", str(run), "-n", "700", "-o", "deep/demo", "-q"]) == 0
    assert "deep/demo: 700 samples of obs, " in capfd.readouterr().out
    data = load_demo_data("deep/demo")
    assert len(data) == 700, "more than the buffer of the run would hold"
    output = policy_of(run).eval_mode.forward(EnvBatch(np.arange(700), data["obs"]))
    np.testing.assert_array_equal(EnvBatch.of(output).value["action"], data["action"])
    assert set(np.unique(data["action"])) == {0, 1}
    assert mtimes(run) == before


@pytest.mark.usefixtures("here")
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


@pytest.mark.parametrize("name", ["demo.npz", "demo.hdf5"])
def test_a_file_has_single_steps(
    name: str, run: Path, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In time order, whatever nstep of the run; `--eps` adds random actions."""
    from dicore_plugins.datasets import HDF5Dataset, NpzDataset

    assert main(["collect", str(run), "-n", "300", "--eps", "0.5", "-o", name]) == 0
    assert f"{name}: 300 samples of obs, " in capfd.readouterr().out
    reader = NpzDataset if name.endswith("npz") else HDF5Dataset
    data = reader({"path": name})
    samples = data.take(np.arange(len(data)))
    assert len(data) == 300
    assert "value_gamma" not in samples
    assert data.observation_space.shape == (4,)
    goes_on = (samples["next_obs"][:-1] == samples["obs"][1:]).all(1)
    assert (~goes_on).sum() == data.episodes - 1
    output = policy_of(run).eval_mode.forward(EnvBatch(np.arange(300), samples["obs"]))
    random = EnvBatch.of(output).value["action"] != samples["action"]
    assert 0.1 < random.mean() < 0.4
    again = ["collect", str(run), "-n", "40", "-o", name]
    assert main(again) == 2
    assert f"error: {name}: there is a data set\n" in capfd.readouterr().err
    assert main([*again, "--overwrite"]) == 0
    assert len(reader({"path": name})) == 40
    assert sorted(each.name for each in here.iterdir()) == [name]


@pytest.mark.usefixtures("here")
def test_what_cannot_be_written_to_a_file(run: Path) -> None:
    from dicore_tools.data_files import single_steps

    with pytest.raises(UsageError, match="samples of several steps cannot be written"):
        single_steps(collect_demo_data(run, collect_count=20))
    with pytest.raises(UsageError, match="samples without end, env_id cannot be written"):
        single_steps(Batch({"obs": np.zeros(3), "done": np.zeros(3)}))


@pytest.mark.usefixtures("here")
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
    Path("steps.npz").touch()
    with pytest.raises(CheckpointError, match=r"steps\.npz: a file of samples") as told:
        load_demo_data("steps.npz")
    assert "pipeline.dataset.path" in told.value.hint
    with pytest.raises(UsageError, match="collect_count: expected a number of samples, got 'a"):
        collect_demo_data(run, 100, "a.npz")  # type: ignore[arg-type]
    assert main(["collect", str(run), "--cuont", "3"]) == 2
    assert "did you mean '--count'" in capfd.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_data_set_is_replaced_only_if_that_is_meant(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["collect", str(run), "-q", "-n"]
    assert main([*words, "20"]) == 0
    assert main([*words, "30"]) == 2
    assert "demo_data: there is a data set\n  hint: choose" in capfd.readouterr().err
    assert len(load_demo_data("demo_data")) == 20
    assert main([*words, "30", "--overwrite"]) == 0
    assert len(load_demo_data("demo_data")) == 30
    Path("demo_data/notes.txt").write_text("mine")
    assert main([*words, "40", "--overwrite"]) == 2
    assert "files that are not of a data set: notes.txt" in capfd.readouterr().err
    with pytest.raises(UsageError, match=r"notes\.txt"):
        collect_demo_data(run, collect_count=40)
    assert Path("demo_data/notes.txt").read_text() == "mine"
    assert len(load_demo_data("demo_data")) == 30


@pytest.mark.usefixtures("here")
def test_an_unknown_ending_is_told(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", str(run), "-n", "5", "-o", "q.csv"]) == 2
    said = capfd.readouterr().err
    assert "q.csv: unknown format '.csv'; expected " in said
    assert said.endswith("or a folder\n  hint: -o q.npz\n")
    for folder in ("demo.v2", "eps0.3"):
        assert main(["collect", str(run), "-n", "5", "-o", folder]) == 0
        assert len(load_demo_data(folder)) == 5


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no file system that refuses files")
def test_a_place_where_no_file_can_be_made(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for out in ("/proc/self/x", "/proc/self/x.npz"):
        assert main(["collect", str(run), "-n", "1000000000", "-o", out]) == 2
        assert f"error: cannot write {out}: " in capfd.readouterr().err


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


@pytest.fixture(scope="module")
def measuring(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run whose wrappers measure statistics, and the mean return of its last evaluation."""
    folder = tmp_path_factory.mktemp("work") / "x"
    launch(
        env="cartpole", policy="dqn", seed=5, exp_name=str(folder), max_env_step=200,
        overrides=[
            *SMALL, "env.env_wrapper=[obs_norm,reward_norm]",
            "policy.eval.evaluator.eval_at_start=true",  # the first one has no statistics
        ],
    )  # fmt: skip
    logged = [line for line in read_metrics(folder / "log/metrics.jsonl") if _TAG in line]
    return folder, logged[-1][_TAG]


def test_wrappers_go_on_with_what_they_measured_in_training(
    measuring: tuple[Path, float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, logged = measuring
    assert evaluate(folder, load_path="final").mean_return == logged
    fresh = evaluate(folder, load_path="final", seed=7, n_episode=20).mean_return
    assert fresh == pytest.approx(logged, rel=0.25)
    seen = [play(find_policy(folder, "final", seed=seed), n_episode=4) for seed in (1, 2)]
    assert np.mean([each.returns for each in seen]) == pytest.approx(logged, rel=0.35)
    data = collect_demo_data(folder / "ckpt/final", 7, 200, tmp_path / "data")
    assert np.max(data["reward"]) < 2, "the first reward that a new wrapper sees becomes 74"
    assert not caplog.records
    anew = ["env.env_wrapper=[reward_norm,obs_norm]"]
    evaluate(folder, load_path="final", seed=7, n_episode=20, overrides=anew)
    assert "what their wrappers measured begins anew" in caplog.text


def test_normalisers_of_gymnasium_go_on_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Chosen by their path, or in a function; scaled rewards are told."""
    file = tmp_path / "normed.py"
    file.write_text(
        "import gymnasium as gym\n\n\ndef make():\n    env = gym.make('CartPole-v1')\n"
        "    return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))\n"
    )
    normed = ["env.env_wrapper=[gymnasium.wrappers:NormalizeObservation]"]
    for env, more in (("cartpole", normed), (f"{file}:make", [])):
        folder = tmp_path / ("run" if more else "made")
        launch(
            env=env, policy="dqn", seed=5, exp_name=str(folder), max_env_step=200,
            overrides=[*SMALL, *more],
        )  # fmt: skip
        logged = [each[_TAG] for each in read_metrics(folder / "log/metrics.jsonl") if _TAG in each]
        assert evaluate(folder, load_path="final", trust=True).mean_return == logged[-1]
    assert "NormalizeReward scales the rewards" in caplog.text
    with pytest.raises(ConfigError, match=r"env_wrapper\[0\].*write reward_norm"):
        launch(env="cartpole", policy="dqn", exp_name=str(tmp_path / "no"),
               overrides=["env.env_wrapper=[gymnasium.wrappers:NormalizeReward]"])  # fmt: skip
    assert not (tmp_path / "no").exists()


def test_a_default_value_is_no_secret(tmp_path: Path) -> None:
    """Though its option is called `key`: a saved run needs nothing else."""
    file, folder = tmp_path / "keyed.py", tmp_path / "run"
    file.write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\nclass Keyed(CartPoleEnv):\n"
        "    def __init__(self, key: str = 'red'):\n        super().__init__()\n"
    )
    launch(env=f"{file}:Keyed", policy="dqn", exp_name=str(folder), max_env_step=40,
           overrides=SMALL)  # fmt: skip
    assert evaluate(folder, n_episode=1, trust=True).returns
    file.write_text(file.read_text().replace("red", "sk-4711abc"))  # of code, but no word
    with pytest.warns(ConfigWarning, match=r"env\.key: not saved, as a secret"):
        launch(env=f"{file}:Keyed", policy="dqn", exp_name=str(tmp_path / "own"), max_env_step=40,
               overrides=SMALL)  # fmt: skip
    assert "sk-4711abc" not in (tmp_path / "own" / "config.json").read_text()
    with pytest.warns(ConfigWarning, match=r"env\.key: not saved, as a secret"):
        launch(env=f"{file}:Keyed", policy="dqn", exp_name=str(tmp_path / "blue"), max_env_step=40,
               overrides=[*SMALL, "env.key=blue-and-green"])  # fmt: skip


def test_runs_without_statistics_are_evaluated_without_a_warning(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate(run, seed=7, n_episode=1)
    assert not caplog.records


RECORDED = Path(__file__).parents[1] / "release" / "recorded" / "0.1"


@pytest.mark.filterwarnings("ignore:components differ")
@pytest.mark.parametrize("name", ["cartpole_ppo", "cartpole_dqn"])
def test_actions_are_drawn_as_in_training_if_asked_for(name: str) -> None:
    run = RECORDED / name
    options: dict[str, Any] = {"n_episode": 6, "seed": 7}
    drawn = [evaluate(run, sample=True, **options) for _ in range(2)]
    assert drawn[0].returns == drawn[1].returns
    assert drawn[0].returns != evaluate(run, **options).returns
    assert str(drawn[0]).endswith(", actions drawn as in training")
