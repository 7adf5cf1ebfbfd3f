"""Launch: from a request to a run, with parts that do nothing but note what they were given."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dicore_registry
import pytest
from dicore_registry import Registry

from dicore.config import (
    ComponentConfig,
    EnvConfig,
    ManagerConfig,
    PipelineConfig,
    PolicyConfig,
    component,
    components,
    frozen,
    option,
)
from dicore.errors import CheckpointError, ConfigError, EnvCreateError, UsageError
from dicore.run import rng
from dicore.run.evaluate import evaluate
from dicore.run.launch import TrainRequest, compile_request, launch

TOYS = Registry()
"""What is installed, and beside it the parts below; nobody else sees them."""
register = TOYS.register


class Manager:
    """Makes one environment for its spaces, as managers do."""

    closed = 0

    def __init__(self, env_fn: Any) -> None:
        self._env_fn = env_fn

    def seed(self, seed: int, *, role: str) -> None:
        self.seeded = (seed, role, len(self._env_fn))

    observation_space = property(lambda self: self._env_fn[0]().observation_space)
    action_space = property(lambda self: self._env_fn[0]().action_space)

    def close(self) -> None:
        Manager.closed += 1


class Env:
    """Spaces and nothing else; a wrapper may be around it."""

    def __init__(self, observation_space: str, env: Any = None) -> None:
        self.observation_space, self.action_space = observation_space, "discrete"


class Policy:
    """Remembers what it was loaded with."""

    def __init__(self) -> None:
        self.eval_mode = self
        self.loaded: Any = None

    def load_state_dict(self, state: Any) -> None:
        self.loaded = state


class Evaluator:
    """Returns what was loaded, once for each episode."""

    def __init__(self, manager: Any, policy: Any) -> None:
        self._manager, self._policy = manager, policy

    def eval(self, n_episode: int | None) -> Any:
        _, _, env_num = self._manager.seeded
        seen = type("Result", (), {})()
        seen.returns = [float(self._policy.loaded["value"]) + env_num] * (n_episode or 10)
        return seen

    def close(self) -> None:
        self._manager.close()


class Counter:
    """A learner, as far as a run is concerned."""

    train_iter = 7

    def state_dict(self) -> dict[str, Any]:
        return {"policy": {"value": 3}}

    def load_state_dict(self, state: Any) -> None: ...


class Pipeline:
    """Does what its option says."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> Any:
        assert (run.folder.path / "config.json").is_file()
        assert json.loads(run.folder.record.read_text())["result"] is None
        assert rng.ambient_streams() is run.streams
        run.register("learner", Counter())
        run.first_step()
        assert gc.isenabled()
        if self._cfg.act == "fail":
            raise RuntimeError("lost the thread")
        if self._cfg.act == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            assert run.stop_requested
        if self._cfg.act == "two signals":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("the second signal does not return")
        run.log.log_scalars({"evaluator/return_mean": 5.0}, env_step=9, train_iter=7)
        run.save_best(5.0)
        run.set_result(stop=self._cfg.act == "solve", train_iter=7, env_step=9)
        return compiled if model is None else model


@register("env", "launch_env")
@frozen(kw_only=True)
class LaunchEnvConfig(EnvConfig):
    """Env of these tests."""

    env_id: str = option("", "which")

    def build(self, ctx: Any, **parts: Any) -> Any:
        if self.env_id == "broken":
            raise EnvCreateError("env 'broken' cannot be made")
        return Env("flat")


@register("env", "launch_spec")
@frozen(kw_only=True)
class LaunchSpecConfig(LaunchEnvConfig):
    """Env that describes itself in part."""

    def from_spec(self) -> dict[str, Any]:
        return {"stop_value": 195.0}


@register("env_wrapper", "launch_wrapper")
@frozen(kw_only=True)
class LaunchWrapperConfig(ComponentConfig):
    """Shows something else."""

    def build(self, ctx: Any, *, env: Any, **parts: Any) -> Any:
        return Env(f"wrapped {env.observation_space}")


@register("env_manager", "launch_manager")
@frozen(kw_only=True)
class LaunchManagerConfig(ManagerConfig):
    """Manager of these tests."""

    def build(self, ctx: Any, *, env_fn: Any, **parts: Any) -> Any:
        return Manager(env_fn)


@frozen(kw_only=True)
class LaunchPartConfig(ComponentConfig):
    """Any other part."""

    obs_shape: str | None = option(None, "filled in by bind")

    def build(self, ctx: Any, **parts: Any) -> Any:
        return Evaluator(parts["env_manager"], parts["policy"])


for kind in ("model", "learner", "collector", "evaluator", "buffer"):
    register(kind, "launch_part")(LaunchPartConfig)


@register("policy", "launch_policy")
@frozen(kw_only=True)
class LaunchPolicyConfig(PolicyConfig):
    """Policy of these tests."""

    on_policy: bool = option(False, "no")
    model: Any = component("model", default="launch_part")
    misfit: bool = option(False, "does not fit any env")

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:
        if self.misfit:
            raise ConfigError("policy.type: does not fit")
        return {"model.obs_shape": observation_space}

    def build(self, ctx: Any, **parts: Any) -> Any:
        assert ctx.observation_space == "flat"
        return Policy()


@register("pipeline", "launch_pipeline")
@frozen(kw_only=True)
class LaunchPipelineConfig(PipelineConfig):
    """Pipeline of these tests."""

    act: str = option("learn", "what to do")
    logger: tuple[Any, ...] = components("logger")

    def build(self, ctx: Any, **parts: Any) -> Any:
        return Pipeline(self)


PARTS: dict[str, Any] = {
    "env": {"manager": "launch_manager"},
    "policy": {
        "learn": {"learner": "launch_part"},
        "collect": {"collector": "launch_part", "n_sample": 8},
        "eval": {"evaluator": "launch_part"},
        "other": {"replay_buffer": "launch_part"},
    },
    "pipeline": {"type": "launch_pipeline"},
}
register("preset", "launch_env_launch_policy")(
    {
        **PARTS,
        "env": {"type": "launch_env", "stop_value": 475.0, **PARTS["env"]},
        "policy": {"type": "launch_policy", "nstep": 3, **PARTS["policy"]},
    }
)
NAMES: dict[str, Any] = {"env": "launch_env", "policy": "launch_policy"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dicore_registry, "default", lambda: TOYS)
    yield
    assert gc.isenabled()


def config(**changes: Any) -> dict[str, Any]:
    env = {"type": "launch_env", "stop_value": 1.0, "n_evaluator_episode": 2, **PARTS["env"]}
    policy = {"type": "launch_policy", **PARTS["policy"]}
    return {**PARTS, "env": env, "policy": policy, **changes}


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


# ---- what a request compiles to


def test_names_take_the_preset_and_the_command_line_is_above() -> None:
    request = TrainRequest(
        **NAMES, seed=4, exp_name="123", max_env_step=50, overrides=["policy.nstep=5"]
    )
    compiled = compile_request(request)
    assert compiled.env.stop_value == 475.0
    assert compiled.policy.nstep == 5
    assert compiled.seed == 4
    assert compiled.exp_name == "123"
    assert compiled.pipeline.max_env_step == 50
    assert compiled.origin["env.stop_value"].startswith("preset")
    assert compile_request(TrainRequest(**NAMES)).policy.nstep == 3
    dashed = TrainRequest(env="launch-env", policy="launch-policy")
    assert compile_request(dashed).policy.nstep == 3


def test_what_nobody_says_is_assumed_for_names_only() -> None:
    """Ten episodes, no stop value; the env's own description comes first."""
    overrides = [json.dumps(PARTS)]
    by_name = TrainRequest(env="launch_spec", policy="launch_policy", overrides=overrides)
    compiled = compile_request(by_name)
    assert compiled.env.n_evaluator_episode == 10
    assert compiled.env.stop_value == 195.0
    without_preset = {"env": "local/launch_env", "policy": "launch_policy"}
    silent = compile_request(TrainRequest(**without_preset, overrides=overrides))
    assert silent.env.n_evaluator_episode == 10
    assert silent.env.stop_value == float("inf")

    incomplete = config()
    del incomplete["env"]["n_evaluator_episode"]
    with pytest.raises(ConfigError, match=r"env\.n_evaluator_episode"):
        compile_request(TrainRequest(config=incomplete))
    wrong = TrainRequest(env="launch_spec", policy="launch_policy", overrides=["nonsense=1"])
    with pytest.raises(ConfigError, match="nonsense"):
        compile_request(wrong)


def test_names_beside_a_file_replace_what_it_names() -> None:
    Path("c.json").write_text(json.dumps(config()))
    compiled = compile_request(
        TrainRequest(
            config="c.json", env="launch_spec", overrides=["env.manager=launch_manager"],
        )
    )  # fmt: skip
    assert compiled.env.type == "launch_spec"
    assert compiled.policy.nstep == 1, "no preset below a file"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (TrainRequest(), "what to train is missing"),
        (TrainRequest(env="launch_env"), "what to train is missing"),
        (TrainRequest(config="missing.py"), r"missing\.py: no such config file"),
    ],
)
def test_a_request_that_says_too_little_says_what_is_missing(
    request_: TrainRequest, text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        compile_request(request_)


# ---- the run


def test_a_training_leaves_its_folder_behind(tmp_path: Path) -> None:
    outcome = launch(config(), seed=5, mode="launch_pipeline", argv=["x", "y"])
    folder = tmp_path / "runs/launch_env_launch_policy_s5"
    assert outcome.run.folder.path.absolute() == folder
    assert outcome.exit_code == 0
    assert {path.name for path in folder.iterdir()} >= {"config.json", "run.json", "ckpt", "log"}
    written = record(folder)
    assert written["status"] == "done"
    assert written["argv"] == ["x", "y"]
    assert written["seed"] == 5
    assert written["components"]["policy"]["type"] == "launch_policy"
    assert set(written["components"]["policy"]) >= {"type", "dist", "version", "target"}
    assert written["result"]["best_return"] == 5.0
    assert written["result"]["stop"] is False
    bound = outcome.policy
    assert bound.policy.model.obs_shape == "flat"
    again = launch(config(), seed=5)
    assert again.run.folder.path.name == "launch_env_launch_policy_s5-1"
    assert launch(config(), model="my net").policy == "my net"


def test_the_config_of_a_run_trains_the_same_again(tmp_path: Path) -> None:
    first = launch(config(), exp_name="x").run
    second = launch(str(first.folder.config), exp_name="y").run
    one, two = (json.loads(run.folder.config.read_text())["config"] for run in (first, second))
    assert {**one, "exp_name": ""} == {**two, "exp_name": ""}


def test_wrappers_are_around_the_env_whose_spaces_count() -> None:
    wrapped = config()
    wrapped["env"]["env_wrapper"] = ["launch_wrapper", "launch_wrapper"]
    before = Manager.closed
    bound = launch(wrapped).policy
    assert bound.policy.model.obs_shape == "wrapped wrapped flat"
    assert Manager.closed == before + 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (["policy.nstepp=3"], ConfigError),
        (["policy.misfit=true"], ConfigError),
        (["env.env_id=broken"], EnvCreateError),
        (["pipeline.logger=[no_such]"], ConfigError),
    ],
)
def test_bad_input_makes_no_folder(
    tmp_path: Path, change: list[str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        launch(config(), overrides=change)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_on_record_and_goes_on_up() -> None:
    with pytest.raises(RuntimeError, match="lost the thread"):
        launch(config(exp_name="x"), overrides=["pipeline.act=fail"])
    written = record(Path("x"))
    assert written["status"] == "failed"
    assert written["error"] == "RuntimeError: lost the thread"


@pytest.mark.parametrize(("act", "code"), [("signal", 143), ("two signals", 130)])
def test_signals_end_a_training_and_give_the_exit_code(act: str, code: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    outcome = launch(config(exp_name="x"), overrides=[f"pipeline.act={act}"])
    assert outcome.exit_code == code
    assert (outcome.policy is None) == (act == "two signals")
    assert record(Path("x"))["status"] == "interrupted"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_training_runs_in_a_thread_too() -> None:
    """R-C05."""
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(launch(config())))
    thread.start()
    thread.join(30)
    assert outcomes[0].exit_code == 0


def test_a_process_of_its_own_says_where_things_are(capsys: pytest.CaptureFixture[str]) -> None:
    """The folder, a numbered sibling here, stands in the first line and in the last."""
    Path("x").mkdir()
    launch(config(exp_name="x"), overrides=["pipeline.act=solve"], own_process=True)
    first, *between, last = capsys.readouterr().out.splitlines()
    assert first == "training launch_policy on launch_env, seed 0, in x-1"
    assert last == "folder:     x-1"
    assert "stop value reached: best mean return 5.0 after 9 env steps, 7 updates" in between[0]
    assert between[1].startswith("curve:      tensorboard --logdir x-1")
    assert between[2:] == ["config:     x-1/config.json", "checkpoint: x-1/ckpt/best"]
    launch(config(exp_name="x"))
    assert capsys.readouterr().out == ""


# ---- evaluation of a run


def test_evaluation_reads_the_best_and_writes_nothing() -> None:
    launch(config(exp_name="x"))
    before = {path: path.stat().st_mtime_ns for path in [Path("x"), *Path("x").rglob("*")]}
    found = evaluate("x", n_episode=3, seed=100)
    assert found.returns == [6.0] * 3, "three environments, not five, for three episodes"
    assert (found.mean_return, found.std) == (6.0, 0.0)
    assert (found.checkpoint, found.seed) == ("best", 100)
    assert evaluate("x").seed == 0
    after = {path: path.stat().st_mtime_ns for path in [Path("x"), *Path("x").rglob("*")]}
    assert after == before
    assert evaluate("x", load_path="x/ckpt/best.pth.tar").returns[0] == 8.0


def test_evaluation_says_what_it_cannot_use() -> None:
    run = launch(config(exp_name="x")).run
    with pytest.raises(CheckpointError, match="there are: best"):
        evaluate("x", load_path="iteration_3")
    run.store.save("odd", {"something": 1})
    with pytest.raises(CheckpointError, match="holds no policy"):
        evaluate("x", load_path="odd")
    for name in ("best", "odd"):
        (Path("x/ckpt") / name / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no checkpoint that is whole"):
        evaluate("x")


def test_evaluation_runs_code_by_name_only_unless_trusted(tmp_path: Path) -> None:
    """R-E03: a run folder may come from anywhere."""
    mark = tmp_path / "mark"
    Path("part.py").write_text(
        f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
        "from dicore.config import ComponentConfig, frozen\n"
        "@frozen(kw_only=True)\nclass Part(ComponentConfig):\n    'A part.'\n"
    )
    launch(config(exp_name="x"), overrides=["policy.collect.collector=./part.py:Part"])
    mark.unlink()
    with pytest.raises(ConfigError, match="--trust"):
        evaluate("x")
    assert not mark.exists()
    assert evaluate("x", trust=True).checkpoint == "best"
