"""Images of floats are from 0 to 1, or refused with the wrapper that scales them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("dicore_worlds")

from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore_plugins.policies import create_policy
from dicore_worlds.pixels import check_pixels

ENV = """
import gymnasium, numpy as np

class Bright(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(0, 255, (16, 16, 3)).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(0, 255, (16, 16, 3)).astype(np.float32), 1.0, True, False, {}
"""


def images(low: float, high: float, dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(low, high, (16, 16, 3), dtype)


@pytest.mark.parametrize("policy", ["dreamer", "muzero", "gumbel_muzero", "efficient_zero"])
@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (images(0, 255), "float32 from 0 to 255"),
        (images(-1, 1), "float32 from -1 to 1"),
        (images(0, 255, np.int32), "int32 from 0 to 255"),
        (images(0, np.inf), None),
        (images(0, 1), None),
        (images(0, 255, np.uint8), None),
        (spaces.Box(-9, 300, (5,), np.float32), None),
    ],
)
def test_images_of_another_range_are_refused(policy: str, seen: spaces.Box, said: str) -> None:
    if said is None:
        check_pixels(policy, seen)
        return
    with pytest.raises(ConfigError, match=f"{policy}' takes images of bytes.*{said}"):
        create_policy({"type": policy}, observation_space=seen, action_space=spaces.Discrete(2))


def test_the_hint_is_an_option_that_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dicore_contrib_envs")
    monkeypatch.chdir(tmp_path)
    Path("bright.py").write_text(ENV)
    given: dict[str, Any] = {"env": "bright.py:Bright", "policy": "muzero", "max_env_step": 8,
                             "exp_name": "run"}  # fmt: skip
    small = ["policy.model.units=8", "policy.model.latent=8", "policy.model.cnn_depth=2",
             "pipeline.final_eval=false"]  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        launch(**given, overrides=small)
    assert not Path("run").exists()
    found = re.search(r"'(env\.env_wrapper=.*)'", caught.value.hint)
    assert found is not None
    assert launch(**given, overrides=[*small, found[1]]).exit_code == 0
