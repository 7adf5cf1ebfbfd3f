"""The agent interface on a real environment: what it does is what the commands do."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import pickle  # noqa: TID251 - only what was pickled here
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_contrib_envs")

import torch

import dicore
import dicore.run
from dicore import Agent, register
from dicore.errors import ConfigError, TaskError, UsageError
from dicore.run import read_state
from dicore.run.launch import launch
from dicore.run.random import seed_everything, stream
from dicore.task import Context, task
from dicore_plugins.models import create_model
from dicore_registry import Registry, using
from dicore_tools.agent.inference import to_observation
from dicore_tools.evaluation.evaluate import evaluate
from tests.conftest import printed

SMALL: dict[str, Any] = {
    "policy__eval__evaluator__n_episode": 4,
    "policy__eval__evaluator__eval_freq": 100,
    "policy__learn__update_per_collect": 64,
    "env__evaluator_env_num": 4,
    "env__stop_value": 1e9,
    "pipeline__logger": [],
}


pytestmark = pytest.mark.usefixtures("here")


def agent(**more: Any) -> Agent:
    return Agent("cartpole", policy="dqn", seed=4, exp_name="x", **{**SMALL, **more})


def test_training_is_that_of_the_command() -> None:
    """N6: the same parts, the same numbers; the parameters acted with are those of the end."""
    ours = agent()
    result = ours.train(step=704)
    names = [f"{key.replace('__', '.')}={value}" for key, value in SMALL.items()]
    run = launch(
        env="cartpole", policy="dqn", seed=4, exp_name="y", max_env_step=704, overrides=names
    ).run
    told = run.result
    assert (result.stop, result.env_step, result.train_iter) == (False, 704, told.train_iter)
    assert result.best_return == told.best_return
    assert result.folder == Path("x") == ours.folder
    assert ours.evaluate().returns == evaluate("y", load_path="final").returns
    assert ours.best.evaluate().returns == evaluate("y", load_path="best").returns
    assert ours.best.evaluate().mean_return == told.best_return
    assert repr(ours.best) == "Agent(dqn on CartPole-v1, best in x)"
    line = f"mean return {told.best_return:.2f} (std "
    assert str(ours.best.evaluate()).startswith(line)
    assert ours.batch_evaluate(3, seed=8).returns == ours.evaluate(3, seed=8).returns
    assert len(ours.batch_evaluate(2, n_evaluator_episode=4).returns) == 4
    with pytest.raises(UsageError, match="another name of n_episode"):
        ours.batch_evaluate(2, 4, n_evaluator_episode=4)
    assert ours.deploy(seed=8) == ours.evaluate(1, seed=8).returns[0]
    assert ours.evaluate(3, seed=9).returns != ours.evaluate(3, seed=8).returns


def test_methods_of_others_and_a_folder_that_was_there(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "x").mkdir()
    made = agent()
    made.train(step=16)
    assert "x was there before: this run is in x-1\n" in capsys.readouterr().out
    with pytest.raises(AttributeError, match=r"no attribute 'learn'; here it is train\(step"):
        made.learn(total_timesteps=16)
    with pytest.raises(UsageError, match="no argument 'total_timesteps'; it is step here"):
        made.train(total_timesteps=16)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"'callback'; a learner hook is called(.|\n)*own_hook"):
        made.train(callback=print)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"no argument 'progress_bar'\n"):
        made.train(progress_bar=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="env='MlpPolicy': networks follow from the spaces"):
        Agent("MlpPolicy", "CartPole-v1")
    assert not hasattr(made, "nothing")


def test_training_goes_on_where_it_ended() -> None:
    twice = agent()
    assert twice.train(step=400).env_step == 400
    first = twice.evaluate(3, seed=1).returns
    result = twice.train(step=304)
    assert result.env_step == 704
    assert twice.evaluate(3, seed=1).returns != first, "it learned"
    other = Agent(cfg="x/config.json").load("x")
    assert other.evaluate(3, seed=1).returns == twice.evaluate(3, seed=1).returns
    assert other.train(step=96).env_step == 800
    best = other.load("x/ckpt/best")
    assert (
        best.evaluate(3, seed=1).returns
        == evaluate("x", load_path="best", n_episode=3, seed=1).returns
    )
    with pytest.raises(UsageError, match="training resumes from the end of a run"):
        best.train(step=100)


def test_an_agent_acts_before_it_has_learned() -> None:
    untrained = agent()
    assert len(untrained.evaluate(4).returns) == 4
    assert untrained.deploy() == untrained.deploy()
    assert untrained.folder is None
    assert repr(untrained) == "Agent(dqn on CartPole-v1, untrained)"
    with pytest.raises(UsageError, match=r"call train\(\) or load\(\) first"):
        _ = untrained.best
    assert not Path("x").exists()


def test_mistakes_are_told_when_it_is_made(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.learn\.batch_sise.*batch_size"):
        Agent("cartpole", policy="dqn", policy__learn__batch_sise=3)
    with pytest.raises(UsageError, match="an Agent needs an environment and an algorithm"):
        Agent("cartpole")
    with pytest.raises(UsageError, match="mp4"):
        agent().deploy(video="x.gif")
    assert not list(here.iterdir())


def test_a_video_of_one_episode(here: Path) -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    player = agent(policy__eval__evaluator__max_episode_steps=6)
    assert player.deploy(video=here / "new/one.mp4", seed=3) == player.deploy(seed=3)
    assert list(Path("new").iterdir()) == [Path("new/one.mp4")]
    player.deploy(enable_save_replay=True, seed=3)
    assert list(Path("video").iterdir()) == [Path("video/deploy.mp4")]
    command = [ffmpeg.get_ffmpeg_exe(), "-i", "new/one.mp4", "-f", "rawvideo", "-pix_fmt", "gray"]
    done = subprocess.run([*command, "-"], capture_output=True, check=True, timeout=200)
    assert len(done.stdout) == 7 * 600 * 400


def test_data_is_collected_with_what_was_learned() -> None:
    """Without exploration: every action is the one that the policy finds best."""
    from dicore_tools.demo_dataset import load_demo_data

    ours = agent()
    ours.train(step=500)
    data = ours.collect_data(200, "demo", seed=2)
    again = ours.collect_data(200, seed=2)
    other = ours.collect_data(200, seed=3)
    assert len(data) == 200
    loaded = load_demo_data("demo")
    for key, column in data.items():
        np.testing.assert_array_equal(column, again[key])
        np.testing.assert_array_equal(column, loaded[key])
    assert not np.array_equal(data["obs"], other["obs"])


def test_each_policy_has_a_class_of_its_own() -> None:
    from dicore_tools.agent import DQNAgent

    assert issubclass(DQNAgent, Agent)
    made = DQNAgent("CartPole-v1")
    assert made.config.policy.type == "dqn"
    assert made.config.policy.nstep == 3, "the preset for this id"
    assert DQNAgent("FrozenLake-v1").config.env.env_id == "FrozenLake-v1"
    with pytest.raises(ImportError, match="NoSuchAgent"):
        from dicore_tools.agent import NoSuchAgent  # noqa: F401


def test_ctrl_c_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over agents ends, and what was learned is kept."""
    from dicore.run.run import Run

    def press(self: Run) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "first_step", press)
    ours = agent()
    with pytest.raises(KeyboardInterrupt, match="the checkpoint is in x"):
        ours.train(step=10_000)
    assert len(ours.evaluate(2, seed=1).returns) == 2


def test_the_core_alone_names_it_without_importing_it() -> None:
    code = "import dicore, sys; print('Agent' in dir(dicore), 'numpy' in sys.modules)"
    assert printed(code).split() == ["True", "False"]
    assert dicore.Agent is Agent
    assert "read_metrics" in dir(dicore.run)


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[3] / "examples/agent.py"
    spec = importlib.util.spec_from_file_location("example_agent", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.main(step=400, exp_name="example", **SMALL)
    said = capsys.readouterr().out
    assert "stop value reached: False" in said
    assert f"{made.best.evaluate(20, seed=1).mean_return:.1f}" in said


class Signs(gymnasium.Env[Any, Any]):
    """Says a sign that has to be repeated; ten times."""

    def __init__(self, signs: int = 2) -> None:
        self.observation_space = gymnasium.spaces.Discrete(signs)
        self.action_space = gymnasium.spaces.Discrete(signs)
        self.told: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.told = [int(self.np_random.integers(self.action_space.n))]
        return self.told[-1], {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.told[-1])
        self.told.append(int(self.np_random.integers(self.action_space.n)))
        return self.told[-1], reward, False, len(self.told) > 10, {}


def test_classes_are_taken_where_names_are() -> None:
    from dicore_plugins.policies import DQNPolicy

    given = Agent(Signs, DQNPolicy, exp_name="x", env__signs=3, pipeline__logger=[])
    assert given.config.policy.type == "dqn"
    given.train(step=100)
    assert given.train(step=100).env_step >= 200, "the class is found again when it goes on"
    assert given.act(2) in (0, 1, 2)


def test_a_class_of_a_script_is_registered_by_its_name() -> None:
    with using(Registry()):
        local = type("Own", (Signs,), {"__module__": "__main__"})
        first = Agent(local, "dqn", exp_name="x", pipeline__logger=[])
        assert first.config.env.type == "own"
        first.train(step=100)
        assert first.train(step=50).env_step >= 150
        again = Agent(type("Own", (Signs,), {"__module__": "__main__"}), "dqn")
        assert again.load("x").evaluate(2).checkpoint == "final", "a cell that ran once more"


@pytest.mark.parametrize("given", [Signs(), Signs().reset, 3])
def test_what_is_neither_name_nor_class_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=r"expected a name or a class, got an? ") as caught:
        Agent(given, policy="dqn")
    assert "pass the class" in str(caught.value.hint)
    assert ("register('env', 'mine')" in str(caught.value.hint)) == callable(given)


def test_a_function_that_makes_an_environment_is_taken_by_its_name() -> None:
    with using(Registry()):
        register("env", "made")(lambda: gymnasium.wrappers.TimeLimit(Signs(), 5))
        options = {**SMALL, "env__n_evaluator_episode": 4, "env__evaluator_env_num": 4}
        made = Agent("made", policy="dqn", exp_name="x", **options)
        assert made.train(step=50).env_step >= 50
        assert len(made.evaluate(2).returns) == 2


def test_the_agent_acts_as_its_network_says() -> None:
    ours = agent()
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    fresh = [ours.act(obs) for obs in rows]
    ours.train(step=704)
    for acting, name in ((ours, "final"), (ours.best, "best")):
        state = read_state(f"x/ckpt/{name}")["learner"]["policy"]["model"]
        network = create_model(acting.config.policy.model)
        network.load_state_dict({key: torch.as_tensor(value) for key, value in state.items()})
        chosen = network(torch.from_numpy(rows))["logit"].argmax(-1).tolist()
        assert [int(acting.act(obs)) for obs in rows] == chosen
        assert chosen != fresh


@pytest.mark.parametrize(
    "form", [list, tuple, torch.from_numpy, lambda obs: obs.astype(np.float64)]
)
def test_an_observation_may_come_as_a_list_or_a_tensor(form: Callable[[Any], Any]) -> None:
    ours, obs = agent(), np.array([0.1, -2.0, 0.3, 0.4], np.float32)
    assert ours.act(form(obs)) == ours.act(obs)


def test_what_is_done_already_and_what_another_library_has_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = agent()
    assert done.train(step=16).env_step == 16
    capsys.readouterr()
    assert done.train().env_step == 16
    assert "nothing to do in x: env-step 16 of at most 16" in capsys.readouterr().out
    with pytest.raises(UsageError, match="expected the folder of a run") as caught:
        evaluate(done, 3)  # type: ignore[arg-type]
    assert "agent.evaluate(" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"act\(\) takes an observation, no 'deterministic'"):
        done.act(np.zeros(4), deterministic=True)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="as reset returns it"):
        done.act((np.zeros(4), {}))


def test_its_environment_is_that_of_the_training(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the wrappers and what they measured; who uses another is told of the wrappers once."""
    wrapped = Agent(
        "Pendulum-v1", "ppo", exp_name=here / "wrapped",
        env__env_wrapper=["obs_norm", "rescale_action"], policy__collect__n_sample=64,
    )  # fmt: skip
    wrapped.train(step=128)
    env: Any = wrapped.make_env()
    measured = read_state(here / "wrapped/ckpt/final")["evaluator"]["env"]["layers"][0][0]
    np.testing.assert_array_equal(env.env.obs_rms.mean, measured["mean"])
    assert (env.action_space.low, env.action_space.high) == (-1, 1)
    caplog.clear()
    wrapped.act(env.reset(seed=0)[0])
    assert not caplog.records
    again = Agent.from_run(here / "wrapped")
    again.act(np.zeros(3)), again.act(np.zeros(3))
    assert [each.getMessage() for each in caplog.records] == [
        "the policy acts in its environment with the wrappers obs_norm, rescale_action: make_env()"
        " makes it"
    ]
    shown: Any = again.make_env(make_kwargs={"render_mode": "rgb_array"})
    shown.reset(seed=0)
    assert shown.render().ndim == 3
    with pytest.raises(ConfigError, match=r"env\.sized: .* no option"):
        again.make_env(sized=3)


def test_the_best_agent_is_read_once_for_each_best_checkpoint(here: Path) -> None:
    made = agent()
    made.train(step=16)
    best = made.best
    assert made.best is best
    manifest = here / "x" / "ckpt" / "best" / "manifest.json"
    os.utime(manifest, ns=(1, 1))
    assert made.best is not best


@pytest.mark.parametrize(
    ("obs", "says"),
    [
        ([0.0] * 3, r"expected shape \[4\], got \[3\]"),
        (np.zeros((1, 4), np.float32), r"shape \[4\], got \[1, 4\]"),
        ("left", r"expected an array of float32 \[4\], got str 'left': could not convert"),
        (None, r"got \[\]"),
    ],
)
def test_what_is_no_observation_is_told_so(obs: Any, says: str) -> None:
    with pytest.raises(UsageError, match=f"observation: .*{says}"):
        agent().act(obs)


def test_parts_of_an_observation_are_told_by_name() -> None:
    spaces = gymnasium.spaces
    space = spaces.Dict(
        eyes=spaces.Box(0, 1, (2,)), parts=spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2)))
    )
    seen = to_observation(space, {"parts": [1, 0], "eyes": [0.5, 1.0]})
    assert space.contains({**seen, "parts": tuple(map(int, seen["parts"]))})
    with pytest.raises(UsageError, match=r"expected the keys \['eyes', 'parts'\], got \['eye'\]"):
        to_observation(space, {"eye": 1})
    with pytest.raises(UsageError, match=r"observation parts: expected 2 items"):
        to_observation(space, {"eyes": [0.5, 1.0], "parts": [1]})
    with pytest.raises(UsageError, match=r"observation eyes: expected shape \[2\]"):
        to_observation(space, {"eyes": [0.5], "parts": [1, 0]})


def test_measuring_leaves_the_random_generators_alone() -> None:
    ours = agent()
    seed_everything(3)
    expected = [stream("a").random(), np.random.random(), float(torch.rand(()))]  # noqa: NPY002
    seed_everything(3)
    ours.evaluate(4), ours.collect_data(8), ours.act(np.zeros(4))
    assert expected == [
        stream("a").random(),
        np.random.random(),  # noqa: NPY002 - what foreign code draws from
        float(torch.rand(())),
    ]


def test_an_agent_does_not_train_inside_a_task_that_runs(here: Path) -> None:
    with task.start(ctx=Context()), pytest.raises(TaskError, match="cannot train inside 'with"):
        agent().train(step=100)
    assert not (here / "x").exists()


def test_a_saved_agent_is_the_run_elsewhere() -> None:
    ours = agent()
    with pytest.raises(UsageError, match="has nothing to save"):
        ours.save("kept")
    ours.train(step=400)
    assert ours.save("deep/kept") == Path("deep/kept")
    same = agent().load("deep/kept")
    assert same.evaluate(2, seed=1).returns == ours.evaluate(2, seed=1).returns
    assert same.train(step=100).folder == Path("deep/kept")
    with pytest.raises(UsageError, match="was trained further or has more files"):
        ours.save("deep/kept")
    assert same.save("deep/kept") == Path("deep/kept")
    with pytest.raises(UsageError, match="already exists, and is not what save"):
        same.save("x")


def test_saving_again_replaces_what_was_saved() -> None:
    ours = agent()
    for steps in (400, 400):
        ours.train(step=steps)
        ours.save("kept")
    assert Agent.from_run("kept").evaluate(1).returns  # which leaves it as it is
    (video := Path("kept/video.mp4")).write_bytes(b"mine")
    with pytest.raises(UsageError, match="has more files"):
        ours.save("kept")
    assert video.read_bytes() == b"mine"
    video.unlink()
    ours.save("kept")
    assert Agent.from_run("kept").train(step=100).env_step > 800
    assert sorted(each.name for each in Path().iterdir()) == ["kept", "x"]


def test_an_early_end_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    result = agent(env__stop_value=1.0).train(step=2000)
    assert result.stop
    end = f"stop value reached after {result.env_step} env steps: mean return"
    assert end in capsys.readouterr().out


@pytest.mark.parametrize("checkpoint", ["", "/ckpt/best"])
def test_a_run_folder_is_all_that_an_agent_needs(checkpoint: str) -> None:
    ours = agent()
    ours.train(step=400)
    same = Agent.from_run(f"x{checkpoint}")
    expected = ours.best if checkpoint else ours
    assert same.evaluate(2, seed=1).returns == expected.evaluate(2, seed=1).returns
    assert repr(same) == repr(expected).replace(" x)", f" {same.folder})")
    assert same.config.env.env_id == "CartPole-v1"
    if not checkpoint:
        assert same.train(step=100).env_step >= 500
    with pytest.raises(UsageError, match="x is a run of dqn, not of random"):
        importlib.import_module("dicore_tools.agent").RandomAgent.from_run("x")
    with pytest.raises(UsageError, match="no such folder"):
        Agent.from_run("nowhere")


def test_a_run_of_something_else_is_refused() -> None:
    agent().train(step=100)
    with pytest.raises(UsageError, match=r"x is a run of dqn on CartPole-v1; this agent is dqn on"):
        Agent("MountainCar-v0", policy="dqn").load("x")


def test_counts_and_seeds_are_whole_numbers() -> None:
    ours = agent()
    counts = {
        "train": ["step", "n_iter"], "evaluate": ["n_episode"], "collect_data": ["n_sample"],
        "batch_evaluate": ["env_num", "n_episode"],
    }  # fmt: skip
    for method, names in counts.items():
        for name, count in itertools.product(names, [0, -1, 1.5, "3", True]):
            with pytest.raises(UsageError, match=f"{name}={count!r}: .* whole number >= 1"):
                getattr(ours, method)(**{name: count})
    for call in (ours.evaluate, ours.deploy, ours.collect_data, ours.batch_evaluate):
        for seed in (-1, 1.5, "x"):
            with pytest.raises(UsageError, match=f"seed={seed!r}: seed must be a whole number >= "):
                call(seed=seed)


def test_an_agent_is_pickled_and_what_it_does_not_know_is_told(tmp_path: Path) -> None:
    made = Agent("cartpole", policy="dqn", exp_name=tmp_path / "kept", **SMALL)
    made.train(step=16)
    made.act(np.zeros(4))
    with pytest.raises(UsageError, match=r"load\(\) is a method of an agent\n.*from_run\(.*kept"):
        Agent.load(tmp_path / "kept")  # type: ignore[arg-type,type-var]
    loaded = Agent.from_run(tmp_path / "kept")
    copied = pickle.loads(pickle.dumps(made))
    assert loaded.folder == copied.folder == tmp_path / "kept"
    obs = np.array([0.1, 0.2, -0.1, 0.0])
    assert made.act(obs) == loaded.act(obs) == copied.act(obs)
    with pytest.raises(UsageError, match=r"^observation: is not a number at \[2\]"):
        made.act([0.0, 0.0, np.nan, 0.0])
    with pytest.raises(UsageError, match="'n_eval_episodes'; it is n_episode here"):
        made.evaluate(n_eval_episodes=3)  # type: ignore[arg-type]


def _short(reward: float) -> type:
    class Short(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(2, np.float32), reward, True, False, {}

    return Short


@pytest.mark.parametrize("nested", [True, False])
def test_classes_of_one_name_are_each_what_they_are(nested: bool) -> None:
    """Made by a function, or defined again as by a cell that was changed."""
    with using(Registry()):
        first, second = _short(1.0), _short(-7.0)
        first.__module__ = second.__module__ = "__main__"
        if not nested:
            first.__qualname__ = second.__qualname__ = "Short"
        agents = [Agent(each, policy="dqn", **SMALL) for each in (first, second)]
        found = [each.evaluate(1).mean_return for each in agents]
        assert found == [1.0, -7.0]
        assert Agent(second, policy="dqn", **SMALL).evaluate(1).mean_return == -7.0


def test_a_class_may_be_named_like_an_installed_one() -> None:
    with using(Registry()):
        cls = _short(3.0)
        cls.__module__, cls.__qualname__, cls.__name__ = "__main__", "CartPole", "CartPole"
        made = Agent(cls, policy="dqn", **SMALL)
        assert (made.config.env.type, made.evaluate(1).mean_return) == ("own_cartpole", 3.0)
