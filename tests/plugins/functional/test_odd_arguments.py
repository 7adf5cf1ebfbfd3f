"""Forms of arguments that other code passes: deques of rows, flags as bool, scalar tensors."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch

import dicore_compat.functional as lists
from dicore_plugins import functional


def rows() -> list[dict[str, Any]]:
    return [
        {
            "obs": torch.ones(2), "next_obs": torch.ones(2), "action": 0, "done": step == 3,
            "reward": torch.tensor(float(step)), "value": torch.tensor(0.5),
        }
        for step in range(5)
    ]  # fmt: skip


CALLS: dict[str, Any] = {
    "default_collate": lists.default_collate,
    "default_preprocess_learn": lists.default_preprocess_learn,
    "get_gae": lambda data: functional.get_gae(data, 0.0, 0.9, 0.9, False),
    "get_gae_with_default_last_value": lambda data: functional.get_gae_with_default_last_value(
        data, False, 0.9, 0.9
    ),
    "get_nstep_return_data": lambda data: functional.get_nstep_return_data(data, 3),
    "get_train_sample": lambda data: functional.get_train_sample(data, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_deque_of_rows_is_like_a_list(name: str) -> None:
    wanted, found = CALLS[name](rows()), CALLS[name](deque(rows()))
    assert str(found) == str(wanted)


TARGETS: dict[str, Any] = {
    "q_nstep_target": lambda *rest: functional.q_nstep_target(
        torch.ones(3, 2), torch.zeros(3, dtype=torch.int64), *rest
    ),
    "dqn_td_target": lambda *rest: functional.dqn_td_target(torch.ones(3, 2), *rest),
    "quantile_target": lambda *rest: functional.quantile_target(torch.ones(3, 4), *rest),
    "soft_target": lambda *rest: functional.soft_target(torch.ones(3, 2), *rest),
    "c51_target": lambda *rest: functional.c51_target(
        torch.full((3, 5), 0.2), *rest, torch.linspace(-2, 2, 5)
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_flags_may_be_bool_and_gamma_a_scalar_tensor(name: str) -> None:
    target, reward = TARGETS[name], torch.tensor([1.0, 2.0, 3.0])
    done = torch.tensor([False, True, False])
    wanted = target(reward, done.float(), 0.9)
    for flags in (done, done.float()):
        for gamma in (0.9, torch.tensor(0.9), torch.full((3,), 0.9)):
            torch.testing.assert_close(target(reward, flags, gamma), wanted)
