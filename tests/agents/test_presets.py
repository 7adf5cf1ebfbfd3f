"""The presets of the package: their environments, and what is special to them."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec


@pytest.mark.parametrize(
    ("preset", "scale"),
    [
        *(("lbforaging_ippo", None), ("lbforaging_mappo", None)),
        *(("lbforaging_qmix_v1", 1), ("lbforaging_qmix_v2", 20), ("lbforaging_qmix", 20)),
        *(("lbforaging_vdn_v1", 1), ("lbforaging_vdn_v2", 20), ("lbforaging_vdn", 20)),
    ],
)
@pytest.mark.parametrize(
    ("env_id", "agents"), [("Foraging-8x8-2p-2f-coop-v3", 2), ("Foraging-10x10-3p-3f-v3", 3)]
)
def test_presets_fit_their_fields(
    preset: str, scale: float | None, env_id: str, agents: int
) -> None:
    pytest.importorskip("lbforaging")
    compiled = compile_config({"env": {"env_id": env_id}}, preset=preset)
    name = preset.split("_")[1]
    env = compiled.env.build(None)
    for each in compiled.env.env_wrapper:
        env = each.build(None, env=env)
    spec = EnvSpec.of(env)
    found: Any = bind(compiled, spec).cfg.policy
    seen = spec.observation["obs"]  # type: ignore[index]
    assert (found.type, found.model.agents) == (name, agents)
    replayed = name in ("qmix", "vdn")
    assert found.learn.get("reward_scale") == scale
    assert (seen.high.max() == 1) == (preset == "lbforaging_qmix_v1")
    assert spec.reward_shape == ((agents,) if replayed else ())
