"""Decision transformer: causality, returns to go, history per environment, training by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import bind, compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, SchemaError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_plugins.models import DQN, DecisionTransformer
from dicore_plugins.policies import DTPolicy, History
from tests.plugins.datasets.test_offline import cartpole, pendulum

OBS = spaces.Box(-1, 1, (3,), np.float32)
SMALL = ["policy.model.hidden_size=16", "policy.model.num_layers=1", "policy.collect.unroll_len=4"]


def policy_of(actions: Any, *options: str) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": "dt"}}, overrides=[*SMALL, *options]
    )
    seed_everything(0)
    return bind(compiled, EnvSpec(OBS, actions)).policy.build(None)


def test_an_action_depends_on_its_past_alone() -> None:
    torch.manual_seed(0)
    model = DecisionTransformer(3, 2, hidden_size=16, num_layers=2, num_heads=2)
    obs, action = torch.randn(1, 5, 3), torch.tensor([[0, 1, 0, 1, 1]])
    left, at = torch.randn(1, 5), torch.arange(5)[None]
    whole = model.steps(obs, action, left, at)["logit"]
    for step in range(5):
        cut = slice(0, step + 1)
        other = action[:, cut].clone()
        other[:, step] = 1 - other[:, step]  # its own action is not seen
        found = model.steps(obs[:, cut], other, left[:, cut], at[:, cut])["logit"]
        torch.testing.assert_close(found[:, step], whole[:, step])
    for change in ({"left": 1.0}, {"obs": 1.0}):  # all of the past counts
        moved = model.steps(obs + change.get("obs", 0), action, left + change.get("left", 0), at)
        assert not torch.allclose(moved["logit"], whole)


def test_the_history_of_each_environment() -> None:
    history = History(3, 0)
    for step in range(4):
        seen = history.seen([7, 9] if step else [7], np.full((1 + bool(step), 1), step), 10.0)
        history.acted([7, 9] if step else [7], [step, step][: 1 + bool(step)])
        history.paid([7], [2.0])
    assert seen["last"].tolist() == [2, 2]
    assert seen["timestep"].tolist() == [[1, 2, 3], [0, 1, 2]]
    assert seen["return_to_go"].tolist() == [[8, 6, 4], [10, 10, 10]]
    assert seen["action"].tolist() == [[1, 2, 0], [1, 2, 0]]  # the present one is not decided
    history.reset([7])
    seen = history.seen([7, 9], np.zeros((2, 1)), 5.0)
    assert seen["last"].tolist() == [0, 2]
    assert seen["return_to_go"][:, 0].tolist() == [5, 10]


def test_sequences_of_episodes() -> None:
    """Episodes of 6 and 3 steps with L = 4: 4 and 2, and 3 steps."""
    policy = policy_of(spaces.Discrete(2))
    end = np.zeros((9, 1), np.bool_)
    end[[5, 8]] = True
    obs = np.arange(27, dtype=np.float32).reshape(9, 1, 3)
    columns = {"obs": obs, "action": np.zeros((9, 1), np.int64), "done": end,
               "reward": np.ones((9, 1), np.float32), "end": end}  # fmt: skip
    found = policy.collect_mode.get_train_sample(Batch(columns, 9))
    assert found["valid"].sum(1).tolist() == [4, 2, 3]
    assert found["return_to_go"].tolist() == [[6, 5, 4, 3], [2, 1, 0, 0], [3, 2, 1, 0]]
    assert found["timestep"].tolist() == [[0, 1, 2, 3], [4, 5, 0, 0], [0, 1, 2, 0]]
    assert found["obs"][2, 0].tolist() == [18, 19, 20]


def rows(action: Any) -> Batch:
    """16 sequences of 4 steps; the returns to go tell which action is taken."""
    rng = np.random.default_rng(0)
    valid = np.ones((16, 4), np.bool_)
    valid[3, 2:] = False
    left = np.broadcast_to(np.where(np.arange(16) % 2, 8.0, 1.0)[:, None], (16, 4))
    return Batch(
        {"obs": rng.normal(size=(16, 4, 3)).astype(np.float32), "action": action, "valid": valid,
         "return_to_go": left.astype(np.float32), "timestep": np.tile(np.arange(4), (16, 1))},
        16,
    )  # fmt: skip


def test_the_wanted_return_decides_what_is_done() -> None:
    action = np.broadcast_to(3 + np.arange(16)[:, None] % 2, (16, 4)).copy()
    policies = [
        policy_of(spaces.Discrete(2, start=3), "policy.learn.learning_rate=0.01", *more)
        for more in ([], ["policy.eval.target_return=1"])
    ]
    for policy, wanted in zip(policies, (4, 3), strict=True):
        for _ in range(60):
            policy.learn_mode.forward(rows(action))
        obs = EnvBatch(np.arange(5), rows(action)["obs"][:5, 0])
        assert set(policy.eval_mode.forward(obs).value["action"]) == {wanted}
    assert policies[0].get_attribute("model").best_return.item() == 8


def test_scale_and_offset_of_observations_do_not_matter() -> None:
    """The paper normalises them; embeddings of time steps hid observations of a hundredth."""
    found = []
    for scale, offset in ((1, 0), (0.01, 3)):
        policy = policy_of(spaces.Discrete(2))
        action = (rows(None)["obs"][..., 0] > 0).astype(np.int64)
        batch = rows(action)
        obs = (batch["obs"] * scale + offset).astype(np.float32)
        for _ in range(30):
            loss = policy.learn_mode.forward(Batch({**batch.columns, "obs": obs}, 16))["total_loss"]
        found.append(loss.item())
    assert found[0] == pytest.approx(found[1], rel=0.05)
    assert max(found) < 0.2
    states = policy.learn_mode.state_dict()["model"]
    torch.testing.assert_close(states["encode.norm.mean"], torch.full((3,), 3.0), atol=0.1, rtol=0)
    off = policy_of(spaces.Discrete(2), "policy.model.obs_norm=false")
    assert off.get_attribute("model").obs_norm is None


def test_the_best_return_is_that_of_a_whole_episode() -> None:
    """With negative rewards, what is left to pay grows less within an episode."""
    policy = policy_of(spaces.Discrete(2))
    model = policy.get_attribute("model")
    assert model.wanted.item() == 0
    for start, best in ((2, 0.0), (0, -30.0)):
        batch = rows(np.zeros((16, 4), np.int64))
        left = np.tile(-30.0 + 10 * np.arange(4, dtype=np.float32), (16, 1))
        columns = {**batch.columns, "return_to_go": left, "timestep": batch["timestep"] + start}
        policy.learn_mode.forward(Batch(columns, 16))
        assert (model.wanted.item(), model.scale.item()) == (best, 30)


def test_actions_that_a_mask_forbids_are_not_chosen() -> None:
    space = spaces.Dict(x=OBS, action_mask=spaces.MultiBinary(3))
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": "dt"}}, overrides=SMALL
    )
    seed_everything(0)
    policy = bind(compiled, EnvSpec(space, spaces.Discrete(3, start=2))).policy.build(None)
    shown, mask = rows(np.full((16, 4), 2)), np.ones((16, 4, 3), np.int8)
    obs = {"x": shown["obs"], "action_mask": mask}
    loss = policy.learn_mode.forward(Batch({**shown.columns, "obs": obs}, 16))["total_loss"]
    mask = np.tile(np.array([1, 0, 0], np.int8), (16, 4, 1))
    obs = {"x": shown["obs"], "action_mask": mask}
    certain = policy.learn_mode.forward(Batch({**shown.columns, "obs": obs}, 16))["total_loss"]
    assert loss > 0.5
    assert certain == 0
    for only in range(3):
        seen = {"x": shown["obs"][:5, 0], "action_mask": np.eye(3, dtype=np.int8)[[only] * 5]}
        policy.eval_mode.reset()
        assert set(policy.eval_mode.forward(EnvBatch(np.arange(5), seen)).value["action"]) == {
            2 + only
        }


@pytest.mark.parametrize("continuous", [False, True])
def test_padding_has_no_influence(continuous: bool) -> None:
    box = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
    action: Any = np.zeros((16, 4), np.int64)
    if continuous:
        action = np.full((16, 4, 2), [1.0, 0.75], np.float32)
    losses = []
    for spoilt in (False, True):
        policy, batch = policy_of(box if continuous else spaces.Discrete(2)), rows(action)
        if spoilt:
            batch["obs"][3, 2:] = 50
        losses.append(policy.learn_mode.forward(batch)["total_loss"].item())
    assert losses[0] == losses[1]
    acted = policy.eval_mode.forward({0: np.ones(3, np.float32)}).value["action"]
    assert not continuous or box.contains(acted[0])


def test_updates_in_bfloat16_are_near_those_in_float32() -> None:
    losses = []
    for option in ("null", "bfloat16"):
        policy = policy_of(spaces.Discrete(5), f"policy.learn.autocast={option}")
        batch = rows(np.arange(64).reshape(16, 4) % 5)
        losses.append([policy.learn_mode.forward(batch)["total_loss"].item() for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0] != losses[1]
    parameters = policy.get_attribute("model").parameters()
    assert all(each.dtype == torch.float32 for each in parameters)


@pytest.mark.slow
def test_compiled_updates_are_those_of_the_network(tmp_path: Path) -> None:
    """A minute of compilation, in a process of its own: threads of the compiler stay."""
    program = tmp_path / "compiled.py"
    program.write_text(
        "import numpy as np\nfrom gymnasium import spaces\n"
        "from tests.plugins.policies.test_dt import policy_of, rows\n"
        "batch = rows(np.arange(64).reshape(16, 4) % 5)\n"
        "for option in ('true', 'false'):\n"
        "    policy = policy_of(spaces.Discrete(5), f'policy.learn.compile={option}')\n"
        "    print(*(policy.learn_mode.forward(batch)['total_loss'].item() for _ in range(3)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)],
        check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    compiled, plain = ([float(each) for each in line.split()] for line in run.stdout.splitlines())
    assert compiled == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize(("env", "make"), [("CartPole-v1", cartpole), ("Pendulum-v1", pendulum)])
def test_a_resumed_run_equals_an_uninterrupted_one(env: str, make: Any, tmp_path: Path) -> None:
    path = make(tmp_path / "data.npz")

    def train(folder: str, count: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "env": env, "policy": "dt", "seed": 0, "exp_name": str(tmp_path / folder),
            "mode": "serial_offline",
            "overrides": ["pipeline.logger=[]", "env.n_evaluator_episode=2", "env.stop_value=inf",
                          "env.evaluator_env_num=2", "policy.learn.batch_size=8",
                          "policy.eval.evaluator.max_episode_steps=8",
                          "pipeline.dataset.type=npz", f"pipeline.dataset.path={path}",
                          "pipeline.dataset.unroll_len=4",
                          'pipeline.dataset.derived=["return_to_go","timestep"]', *SMALL],
        }  # fmt: skip
        given = {"resume": str(tmp_path / folder)} if resume else given
        return launch(**given, max_train_iter=count)

    whole, _ = train("whole", 20), train("half", 11)
    rest = train("half", 20, resume=True)
    one, two = (each.policy.learn_mode.state_dict()["model"] for each in (whole, rest))
    assert all(torch.equal(each, two[key]) for key, each in one.items())
    assert rest.run.result.env_step == 0


def test_what_does_not_fit() -> None:
    policy = policy_of(spaces.Discrete(2))
    with pytest.raises(SchemaError, match="no return_to_go, timestep"):
        policy.learn_mode.forward(
            Batch(
                {key: rows(None)[key] for key in ("obs", "valid")} | {"action": np.zeros((16, 4))}
            )
        )
    with pytest.raises(
        ConfigError, match=r"dataset.derived: expected \['return_to_go', 'timestep'"
    ):
        launch(
            env="cartpole", policy="dt", mode="serial_offline",
            overrides=["pipeline.dataset.type=npz", f"pipeline.dataset.path={__file__}",
                       "pipeline.dataset.unroll_len=20", "pipeline.dataset.derived=[]"],
        )  # fmt: skip
    with pytest.raises(UsageError, match="steps, learn_returns and wanted"):
        DTPolicy(model=DQN(3, 2))
    with pytest.raises(ConfigError, match="needs one discrete action or bounded"):
        policy_of(spaces.MultiDiscrete([2, 2]))
    with pytest.raises(ConfigError, match="num_heads: must divide"):
        policy_of(spaces.Discrete(2), "policy.model.num_heads=3")
