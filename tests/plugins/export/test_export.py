"""Exported policies: they select the actions of the policy, without dicore."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore_plugins.export.formats import FORMATS
from dicore_plugins.export.greedy_module import GreedyModule, greedy_module
from dicore_plugins.export.policy import _Acted, _compared, _first_state, export_policy
from dicore_plugins.policies.random import RandomPolicy
from dicore_tools.evaluation.policy_loader import find_policy
from tests.plugins.policies.test_actor_critic import policy_of
from tests.soak import SOAK, some

OBSERVED: dict[str, gymnasium.Space[Any]] = {
    "mask": Dict({"action_mask": MultiBinary(3), "seen": Box(-1, 1, (3,))}),
    "nested": Dict({"a": Box(-1, 1, (3,)), "n": Dict({"x": Box(0, 255, (2, 2), np.uint8)})}),
    "tuple": Tuple((Box(-1, 1, (3,)), Discrete(4))),
}


class Odd(gymnasium.Env[Any, Any]):
    """Random observations of a space; an action that a mask forbids is an error."""

    action_space = Discrete(3, start=2)

    def __init__(self, name: str) -> None:
        self.observation_space = OBSERVED[name]

    def _obs(self) -> Any:
        self._seen = self.observation_space.sample()
        if "action_mask" in getattr(self.observation_space, "spaces", ()):
            self._seen["action_mask"] = np.eye(3, dtype=np.int8)[self.np_random.integers(3)]
        return self._seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        assert (
            not isinstance(self._seen, dict) or self._seen.get("action_mask", [1] * 3)[action - 2]
        )
        return self._obs(), 1.0, bool(self.np_random.random() < 0.1), False, {}


for _name in OBSERVED:
    gymnasium.register(f"Export-{_name}-v0", partial(Odd, _name))

POLICIES = {
    "discrete": ("cartpole", "dqn", ()),
    "distribution": ("cartpole", "c51", ("policy.model.noisy=true",)),
    "implicit": ("cartpole", "iqn", ()),
    "actor": ("cartpole", "ppo", ("policy.model.obs_norm=true",)),
    "gaussian": ("pendulum", "ppo", ()),
    "squashed": ("pendulum", "sac", ("policy.collect.random_collect_size=32",)),
    "categories": ("frozenlake", "dqn", ()),
    "dict": ("bit_flip", "dqn", ()),
    "mask": ("Export-mask-v0", "dqn", ()),
    "nested": ("Export-nested-v0", "dqn", ()),
    "tuple": ("Export-tuple-v0", "ppo", ()),
    "memory": ("t_maze", "r2d2", ("policy.other.replay_buffer.replay_buffer_size=64",)),
    "memory_actor": ("pendulum", "ppo", ("policy.model.rnn=lstm", "policy.collect.unroll_len=8")),
    "hybrid": ("moving", "pdqn", ("policy.collect.random_collect_size=32",)),
    "hybrid_actor": ("moving", "ppo", ()),
    "image": ("mini_breakout", "dqn", ("env.env_wrapper=obs_transpose", "policy.model.conv=small")),
}
WHOLE = ("discrete", "tuple", "memory")
"""Those that are tested in other formats too."""
TESTED = [*WHOLE, *some([each for each in POLICIES if each not in WHOLE], 6, "export")]
SUFFIXES = {name: [".ts"] for name in POLICIES}
if SOAK:
    SUFFIXES |= {"hybrid": [".ts", ".onnx"], "hybrid_actor": [".ts", ".pt2"]}
SUFFIXES |= {"discrete": [".ts", ".pt2", ".onnx"], "tuple": [".pt2"], "memory": [".onnx"]}

WITH_PAGE = ("discrete", "memory", "hybrid")
if SOAK:
    WITH_PAGE += ("tuple", "memory_actor", "hybrid_actor")


def train(folder: Path, env: str, policy: str, options: tuple[str, ...]) -> Path:
    launch(
        env=env, policy=policy, seed=0, exp_name=str(folder), max_env_step=64,
        overrides=["pipeline.logger=[]", "env.stop_value=inf", "policy.collect.n_sample=32",
                   "env.n_evaluator_episode=1", "env.evaluator_env_num=1", *options],
    )  # fmt: skip
    return folder


@pytest.mark.parametrize(
    "name", [*WHOLE, *some([each for each in POLICIES if each not in WHOLE], 6, "export")]
)
def test_the_file_selects_the_actions_of_the_policy(name: str, tmp_path: Path) -> None:
    env, policy, options = POLICIES[name]
    run = train(tmp_path / "run", env, policy, options)
    pages = []
    for suffix in SUFFIXES[name]:
        done = export_policy(run, tmp_path / f"policy{suffix}")
        assert done.steps == 256
        assert done.largest_difference <= 1e-5
        pages.append(done.readme.read_text())
    if name in WITH_PAGE:
        run_pages(pages, tmp_path)


def run_pages(pages: list[str], folder: Path) -> None:
    """Runs the lines of each page where dicore cannot be imported."""
    program = "import sys\nsys.modules.update(dicore=None, dicore_plugins=None)\n"
    for page in pages:
        usage = re.search(r"```python\n(.*)```", page, re.DOTALL)
        assert usage is not None
        program += f"print('page:', end='')\nexec({usage[1]!r}, {{}})\n"
    shown = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    begins = [said[:1] for said in shown.stdout.split("page:")[1:]]
    assert begins == ["["] * len(pages)


def test_what_cannot_be_exported_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path), "-o", "policy.h5"]) == 2
    assert ".onnx, .pt2, .ts" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no network"):
        greedy_module(RandomPolicy(action_space=Discrete(2)))


@pytest.mark.parametrize(
    ("name", "space", "problem"),
    [
        ("dt", Discrete(2), "last steps of an episode"),
        ("bcq", Box(-1, 1, (1,)), "autoencoder"),
        ("ibc", Box(-1, 1, (1,)), "searches the continuous action"),
        ("ibc", Discrete(2), ""),
        ("discrete_bcq", Discrete(2), ""),
    ],
)
def test_a_policy_that_does_more_than_its_network_says_what(
    name: str, space: Any, problem: str
) -> None:
    policy = policy_of(name, space)
    if not problem:
        assert greedy_module(policy)
        return
    with pytest.raises(UsageError, match=f"cannot be exported: .*{problem}"):
        greedy_module(policy)


def test_a_network_without_forward_is_told_what_it_lacks() -> None:
    policy = policy_of("dqn", Discrete(2))
    policy._model = torch.nn.ModuleDict({"actor": torch.nn.Linear(2, 2)})
    with pytest.raises(UsageError, match="the network ModuleDict has no forward"):
        _first_state(greedy_module(policy), np.zeros((1, 4), np.float32))


def test_wrappers_are_named(tmp_path: Path) -> None:
    run = train(tmp_path / "wrapped", "cartpole", "dqn", ("env.env_wrapper=obs_norm",))
    page = export_policy(run, tmp_path / "a.ts").readme.read_text()
    assert "with its wrappers: `obs_norm`" in page
    listed = {
        name: json.loads(text) for name, text in re.findall(r"^(mean|var) = (.*)$", page, re.M)
    }
    read = find_policy(run).read
    assert read is not None
    stored = read().env_states["evaluator"][0][0]
    for name in ("mean", "var"):
        np.testing.assert_allclose(listed[name], stored[name], rtol=1e-6)


def test_one_action_of_many_that_differs_is_enough(tmp_path: Path) -> None:
    acted = _Acted(np.zeros((5, 3)), {"action": np.zeros((5, 1))}, np.ones(5, bool))

    def load(file: Path) -> Any:
        return lambda obs: (np.where(np.arange(len(obs)) == 3, 0.5, 0.0)[:, None],)

    form = FORMATS[".ts"]._replace(load=load)
    with pytest.raises(UsageError, match=r"actions differ by up to 0\.5"):
        _compared(form, tmp_path / "policy.ts", None, (acted.obs,), acted)


def test_actions_of_several_heads_begin_where_the_space_does() -> None:
    class Heads(torch.nn.Module):
        def forward(self, obs: torch.Tensor) -> dict[str, list[torch.Tensor]]:
            return {"logit": [obs[:, :2], obs[:, 2:]]}

    module = GreedyModule(Heads(), SimpleNamespace(action_start=[2, -1]))
    found = module(torch.tensor([[0.0, 1.0, 5.0, 2.0, 7.0], [3.0, 1.0, 5.0, 2.0, 1.0]]))
    assert found.tolist() == [[3, 1], [2, -1]]


def test_a_file_that_acts_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(tmp_path / "run", "cartpole", "dqn", ())
    form = FORMATS[".ts"]

    def load(file: Path) -> Any:
        right = form.load(file)
        return lambda obs: (1 - right(obs)[0],)

    monkeypatch.setattr("dicore_plugins.export.policy.FORMATS", {".ts": form._replace(load=load)})
    file = tmp_path / "policy.ts"
    file.write_text("the last one that was right")
    with pytest.raises(UsageError, match="256 of 256 actions differ"):
        export_policy(run, file)
    assert file.read_text() == "the last one that was right"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["policy.ts", "run"]
