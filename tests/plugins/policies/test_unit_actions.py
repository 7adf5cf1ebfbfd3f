"""Scaled actions: bounds, dimensions without bounds, units of the environment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.checks import bind
from dicore.config.writer import write_config
from dicore.data.json_codec import loads
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.export.greedy_module import greedy_module
from dicore_plugins.policies.unit_actions import UnitActions
from dicore_tools.config_formats.python_form import run_files
from tests.plugins.policies.test_actor_critic import policy_of

INF = np.inf


def units_of(low: list[float], high: list[float], **more: Any) -> UnitActions:
    class Section(dict[str, Any]):
        action_low, action_high = tuple(low), tuple(high)

    return UnitActions(Section(more), "cpu")


@pytest.mark.parametrize(
    ("low", "high", "chosen", "wanted"),
    [
        ([3.0], [7.0], [-2.0, -1.0, 0.0, 0.5, 9.0], [3.0, 3.0, 5.0, 6.0, 7.0]),
        ([-100.0], [100.0], [0.15, -0.15], [15.0, -15.0]),
        ([-INF], [INF], [3.0, -8.0], [3.0, -8.0]),
        ([0.0], [INF], [3.0, -8.0], [3.0, 0.0]),
        ([-INF], [1.0], [3.0, -8.0], [1.0, -8.0]),
        ([-2.0], [1e300], [3.0, -8.0], [3.0, -2.0]),
        ([4.0], [4.0], [3.0, -8.0], [4.0, 4.0]),
    ],
)
def test_bounded_dimensions_are_scaled_and_others_are_clipped(
    low: list[float], high: list[float], chosen: list[float], wanted: list[float]
) -> None:
    units = units_of(low, high)
    sent = units.env(np.array(chosen, np.float32)[:, None])
    assert sent[:, 0].tolist() == pytest.approx(wanted)
    if low < high:  # scaled back, all that was within the bounds
        kept = units.within(torch.tensor(chosen)[:, None])
        assert units.unit(torch.from_numpy(sent)).numpy() == pytest.approx(kept.numpy())


def test_units_of_the_environment_are_only_clipped() -> None:
    sent = units_of([3.0], [7.0], action_scaling=False).env(np.array([[0.0], [5.0]], np.float32))
    assert sent.tolist() == [[3.0], [5.0]]


@pytest.mark.parametrize("name", ["ppo", "a2c", "pg", "impala", "ppg", "ppo_offpolicy", "bc"])
@pytest.mark.parametrize(("scaled", "middle"), [(True, 5.0), (False, 3.0)])
def test_the_greedy_action_and_its_export_follow_the_scale(
    name: str, scaled: bool, middle: float
) -> None:
    """A network that returns 0 chooses the middle; in units of the space, the nearest bound."""
    actions = spaces.Box(3, 7, (2,), np.float32)
    policy = policy_of(name, actions, f"policy.action_scaling={str(scaled).lower()}")
    for parameter in policy.learn_mode.get_attribute("model").parameters():
        torch.nn.init.zeros_(parameter)
    obs = np.zeros((3, 2), np.float32)
    chosen = policy.eval_mode.forward(dict(enumerate(obs))).value["action"]
    assert chosen.tolist() == [[middle] * 2] * 3
    assert greedy_module(policy)(torch.from_numpy(obs)).tolist() == chosen.tolist()


def test_a_search_between_the_bounds_needs_their_scale() -> None:
    config = {"env": {"type": "pendulum"}, "policy": {"type": "ibc", "action_scaling": False}}
    with pytest.raises(ConfigError, match=r"policy\.action_scaling: ibc searches"):
        bind(compile_config(config), EnvSpec(spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))))


@pytest.mark.parametrize(("name", "scaled"), [("ppo", False), ("bc", False), ("ibc", True)])
def test_runs_that_are_older_than_the_option_act_as_they_were_trained(
    name: str, scaled: bool, tmp_path: Path
) -> None:
    config = {"env": {"type": "pendulum"}, "policy": {"type": name}}
    file = write_config(compile_config(config), tmp_path)
    saved = json.loads(file.read_text())
    for form, text in run_files(compile_config(config), loads(file.read_text())).items():
        older = re.sub(r"'?action_scaling'?[:=] ?True,\s*", "", text)
        assert older != text
        (tmp_path / form).write_text(older)
        assert compile_config(tmp_path / form).cfg.policy.action_scaling is scaled
    assert saved["config"]["policy"].pop("action_scaling")
    file.write_text(json.dumps(saved))
    assert compile_config(file).cfg.policy.action_scaling is scaled
