"""`dicore replay`: the update of a run as it was, from a checkpoint or from the beginning."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.data import EnvBatch
from dicore.errors import UsageError
from dicore.run.checkpoint_store import CheckpointStore
from dicore_tools.replaying import Moment, _environments, replay

DQN = ["-e", "cartpole", "-p", "dqn", "--no-preset", "policy.learn.update_per_collect=4",
       "policy.learn.batch_size=8", "policy.collect.n_sample=8",
       "policy.model.encoder_hidden_size_list=[8]",
       "policy.learn.learner.hook.save_ckpt_after_iter=16",
       "policy.learn.learner.hook.log_show_after_iter=4"]  # fmt: skip
PPO = ["-e", "cartpole", "-p", "ppo", "--no-preset", "policy.learn.batch_size=8",
       "policy.collect.n_sample=16", "policy.model.encoder_hidden_size_list=[8]"]  # fmt: skip
SMALL = ["env.stop_value=inf", "env.collector_env_num=1", "env.evaluator_env_num=1",
         "env.n_evaluator_episode=1", "pipeline.logger=[]", "-q"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of DQN with 40 updates and checkpoints after 16, 32 and at the end."""
    folder = tmp_path_factory.mktemp("replayed") / "dqn"
    talks = 'pipeline.logger=[{"type": "console", "interval": 0}]'
    words = [*DQN, *SMALL, talks, "--max-train-iter", "40", "--exp-name", str(folder)]
    assert main(["train", *words]) == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {*one} == {*other} and all(np.array_equal(one[name], other[name]) for name in one)


def test_an_update_is_the_same_from_a_checkpoint_and_from_the_beginning(run: Path) -> None:
    held = contents(run)
    names = CheckpointStore(run / "ckpt").names()
    moments = {at: replay(run, at) for at in (35, 36)}
    assert contents(run) == held
    assert {each.began for each in moments.values()} <= {*names}
    assert moments[35].began
    assert [each.train_iter for each in moments.values()] == [35, 36]
    assert equal(moments[35].after, moments[36].before)
    assert not equal(moments[36].before, moments[36].after)
    assert [each.differs for each in moments.values()] == ["", ""]
    for each in (run / "ckpt").iterdir():
        each.rename(run / f"kept-{each.name}")
    try:
        whole = replay(run, 36)
    finally:
        for each in run.glob("kept-*"):
            each.rename(run / "ckpt" / each.name.removeprefix("kept-"))
    assert whole.began == ""
    assert equal(whole.arrays(), moments[36].arrays())


def test_what_is_learned_from_explains_the_step(run: Path) -> None:
    """The gradient is that of the batch at the parameters before."""
    moment = replay(run, 33)
    assert moment.batch["obs"].shape == (8, 4)
    assert {*moment.grad} == {*moment.before} == {*moment.after}
    assert np.isfinite(moment.result["total_loss"])
    moved = {
        name: np.abs(moment.after[name] - moment.before[name]).max() > 0 for name in moment.grad
    }
    assert moved == {name: bool(np.abs(each).max() > 0) for name, each in moment.grad.items()}
    assert moment.not_finite() == []


def test_a_call_with_several_updates_is_one_moment(tmp_path: Path) -> None:
    folder = tmp_path / "ppo"
    words = [*PPO, *SMALL, "--max-train-iter", "12", "--exp-name", str(folder)]
    assert main(["train", *words]) == 0
    moment = replay(folder, 3)
    assert moment.train_iter >= 3
    assert moment.batch["obs"].shape[-1] == 4
    assert not equal(moment.before, moment.after)


def test_the_update_that_spoiled_a_run_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bad"
    words = [*DQN, *SMALL, "policy.learn.learning_rate=1e30", "--exp-name", str(folder)]
    assert main(["train", *words, "--max-train-iter", "40"]) == 1
    capsys.readouterr()
    first = next(at for at in range(1, 12) if replay(folder, at).not_finite())
    moment = replay(folder, first)
    told = moment.not_finite()[0]
    assert told.split("/")[0] in ("result", "grad", "after")
    assert all(np.isfinite(each).all() for each in moment.before.values())
    with pytest.raises(UsageError, match=r"failed at update \d+: .*not finite") as caught:
        replay(folder, 40)
    failing = replay(folder, int(str(caught.value.hint).rpartition(" ")[2]))
    assert failing.error.startswith("NonFiniteError: ")
    assert not equal(failing.before, replay(folder, 1).before)
    assert main(["replay", str(folder), "--at", str(first)]) == 0
    assert f"the first that is not finite: {told}" in capsys.readouterr().out


def test_the_command_writes_all_arrays(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "at.npz"
    assert main(["replay", str(run), "--at", "33", "-o", str(out), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["train_iter"] == 33
    with np.load(out) as held:
        assert {*held.files} == {*facts["arrays"]}
        assert held["batch/obs"].shape == (8, 4)
    seen: dict[str, Any] = {}
    monkeypatch.setattr("code.interact", lambda **given: seen.update(given["local"]))
    assert main(["replay", str(run), "--at", "33", "--shell"]) == 0
    assert isinstance(seen["moment"], Moment)
    assert seen["learner"].last_iter == 33


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--at", "0"], "updates count from 1"),
        (["--at", "41"], "its training ends after 40 updates"),
        (["--at", "1", "-o", "x.csv"], "does not end in .npz"),
        (["--at", "1", "--shell", "--json"], "do not go together"),
    ],
)
def test_mistakes_are_one_error(
    run: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(run), *words]) == 2
    assert told in capsys.readouterr().err


def test_a_run_whose_budget_was_raised_is_begun_again_with_that(tmp_path: Path) -> None:
    folder = tmp_path / "raised"
    words = [*DQN, *SMALL, "--exp-name", str(folder)]
    assert main(["train", *words, "--max-env-step", "40"]) == 0
    assert main(["train", "--resume", str(folder), "--max-env-step", "96", "-q"]) == 0
    for each in (folder / "ckpt").iterdir():
        shutil.rmtree(each)
    assert replay(folder, 36).train_iter == 36


def test_a_broken_checkpoint_is_passed_over(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    newest = replay(folder, 36).began
    for file in (folder / "ckpt" / newest).glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-8])
    moment = replay(folder, 36)
    assert moment.began != newest
    assert equal(moment.after, replay(run, 36).after)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "place",
    [
        pytest.param("dicore_tools.replaying._copy", id="copying"),
        pytest.param("dicore.run.launch.build_pipeline", id="launching"),
        pytest.param("dicore_tools.replaying._Camera._before", id="training"),
    ],
)
def test_a_signal_ends_it_and_nothing_is_left(
    run: Path, tmp_path: Path, number: int, place: str
) -> None:
    owner, _, name = place.rpartition(".")
    code = f"""import os, sys
from pkgutil import resolve_name
from dicore.cli import main
import dicore.run.launch, dicore_tools.replaying
owner = resolve_name({owner!r})
before = owner.{name}
def interrupted(*args, **options):
    os.kill(os.getpid(), {number:d})
    return before(*args, **options)
owner.{name} = interrupted
sys.exit(main())"""
    command = [sys.executable, "-c", code, "replay", str(run), "--at", "36"]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 128 + number, done.stderr
    assert "error" not in done.stderr
    assert [*tmp_path.glob("dicore-replay-*")] == []


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        replay(tmp_path, 3)


def test_the_environments_are_at_hand(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seed and actions of the running episode lead to the observation that comes next."""
    env = replay(run, 33).env
    assert env["env_id"].tolist() == [0]
    twin = gymnasium.make("CartPole-v1")
    obs, _ = twin.reset(seed=int(env["0.seed"]))
    for action in env["0.actions"]:
        obs = twin.step(int(action))[0]
    assert len(env["0.actions"]) == env["0.length"]
    np.testing.assert_array_equal(env["obs"][0], obs)
    assert main(["replay", str(run), "--at", "33"]) == 0
    out = capsys.readouterr().out
    assert "env/obs " in out
    assert "arrays of running episodes" in out


class Drawing(gymnasium.Env[Any, Any]):
    """Its episode is its random numbers: no action brings it back."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return self.np_random.random(2, np.float32), 1.0, False, False, {}

    def get_state(self) -> Any:
        """Returns what none but Python's own types hold."""
        return {"rng": self.np_random.bit_generator.state, "goal": None, "far": -(2**70),
                "bag": [], "raw": b"a\0", "key": {1, 2}}  # fmt: skip

    def set_state(self, state: Any) -> None:
        self.np_random.bit_generator.state = state["rng"]


def test_a_state_is_stored_whole(tmp_path: Path) -> None:
    """From the file, an environment goes on with the same random numbers."""
    source = Drawing()
    source.reset(seed=4)
    source.step(0)
    running = [{"seed": 4, "length": 1, "actions": None, "state": source.get_state()}, None]
    manager = SimpleNamespace(
        ready_obs=EnvBatch(np.arange(2), np.zeros((2, 2))),
        state_dict=lambda: {"running": running, "layers": [{"mean": np.ones(2)}, None]},
    )
    moment = Moment()
    found, why = _environments(SimpleNamespace(parts={"collector_env": manager}))
    moment.keep("env", found.items())
    assert why == ""
    assert moment.not_stored == ["env/0.state.key: set"]
    np.savez(tmp_path / "at.npz", **moment.arrays())
    with np.load(tmp_path / "at.npz", allow_pickle=False) as file:
        stored = {name.removeprefix("env/0."): each for name, each in file.items()}
    large = {name: ast.literal_eval(str(stored[f"state.{name}"])) for name in
             ("goal", "far", "bag", "raw", "rng.state.state", "rng.state.inc")}  # fmt: skip
    state = source.get_state()
    assert {name: large[name] for name in ("goal", "far", "bag", "raw")} == {
        name: state[name] for name in ("goal", "far", "bag", "raw")
    }
    twin = Drawing()
    twin.reset(seed=99)
    inner = {"state": large["rng.state.state"], "inc": large["rng.state.inc"]}
    twin.set_state({"rng": {
        "bit_generator": str(stored["state.rng.bit_generator"]), "state": inner,
        "has_uint32": int(stored["state.rng.has_uint32"]),
        "uinteger": int(stored["state.rng.uinteger"]),
    }})  # fmt: skip
    assert np.array_equal(twin.step(0)[0], source.step(0)[0])
    assert "actions" not in stored
    assert np.array_equal(stored["layers.mean"], np.ones(2))


def test_a_run_without_environments_says_so() -> None:
    found, why = _environments(SimpleNamespace(parts={}))
    assert found == {}
    assert "no part 'collector_env'" in why
