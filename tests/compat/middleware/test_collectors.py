"""PPOF's collector, which has no config."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.errors import UsageError
from dicore_compat.middleware import PPOFStepCollector
from dicore_plugins.policies import PPOPolicy
from tests.compat.middleware.test_estimators import PPO


def test_ppof_collects_without_a_config(make: Any, running: Any) -> None:
    cfg, env, _ = make(*PPO)
    policy = PPOPolicy(cfg.policy)
    running.use(PPOFStepCollector(7, policy.collect_mode, env, 24))
    seen: list[Any] = []
    running.use(lambda ctx: seen.append(ctx.trajectories))
    running.run(max_step=2)
    assert [len(each) for each in seen] == [24, 24]
    assert "advantage" in seen[0]
    with pytest.raises(UsageError, match="unroll_len 2"):
        PPOFStepCollector(7, policy.collect_mode, env, 24, 2)
