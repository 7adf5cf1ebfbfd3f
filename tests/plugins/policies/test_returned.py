"""Methods that a policy overrides and that forget their return are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dicore import register
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore_plugins.policies import DQNPolicy, PPOPolicy, SACPolicy
from dicore_registry import Registry, using

CASES = [
    (DQNPolicy, "_target", "cartpole"), (PPOPolicy, "_advantage", "cartpole"),
    (PPOPolicy, "_loss", "cartpole"), (SACPolicy, "_next_value", "pendulum"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "method", "env"), CASES)
def test_a_method_without_return_is_named(
    base: type[Any], method: str, env: str, tmp_path: Path
) -> None:
    kept = {method: lambda self, *_, **__: None, "__doc__": "Forgets."}
    with using(Registry()):
        register("policy", "forgets")(type("Forgets", (base,), kept))
        with pytest.raises(UsageError, match=f"Forgets.{method} returned None"):
            launch(
                env=env, policy="forgets", max_env_step=600,
                exp_name=str(tmp_path / "run"), overrides=["pipeline.logger=[]"],
            )  # fmt: skip
