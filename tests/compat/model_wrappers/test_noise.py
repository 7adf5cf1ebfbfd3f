"""Noise on actions, of each environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore_plugins.models import model_wrap
from tests.plugins.model_wrappers.test_wrap import LIBRARIES, Given


@LIBRARIES
@pytest.mark.parametrize("kind", ["gauss", "ou"])
def test_noisy_actions_are_in_range(kind: str, like: Any) -> None:
    action = like(np.linspace(-1, 1, 2_000, dtype=np.float32).reshape(-1, 2))
    options = {"noise_kwargs": {"sigma": 3.0}, "action_range": {"min": -1.5, "max": 1.0}}
    wrap = model_wrap(Given(action=action), "action_noise", noise_type=kind, **options)
    noisy = wrap()["action"]
    assert type(noisy) is type(action)
    values = np.asarray(noisy)
    assert values.dtype == np.float32
    assert (values >= -1.5).all()
    assert (values <= 1.0).all()
    assert abs(values - np.asarray(action)).max() > 0.2
    near = model_wrap(
        Given(action=action), "action_noise", noise_type=kind, action_range=None,
        noise_range={"min": -0.1, "max": 0.05}, noise_kwargs=options["noise_kwargs"],
    )()["action"] - action  # fmt: skip
    assert -0.1 - 1e-6 <= float(near.min()) < 0 < float(near.max()) <= 0.05 + 1e-6


def test_gaussian_noise_has_its_size_and_is_independent() -> None:
    action = np.zeros((1, 4), np.float32)
    wrap = model_wrap(
        Given(mean=action), "action_noise", noise_kwargs={"mu": 0.5, "sigma": 0.2},
        action_range=None, rng=np.random.default_rng(0),
    )  # fmt: skip
    drawn = np.concatenate([wrap()["action"] for _ in range(2_000)])
    assert abs(drawn.mean() - 0.5) < 0.01
    assert abs(drawn.std() - 0.2) < 0.01
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.1
    assert (wrap(sigma=0.0)["action"] == 0.5).all()


def test_ou_noise_is_correlated_in_time_and_of_each_environment() -> None:
    def drawn(
        turns: list[list[int]], reset: dict[int, Any] | None = None
    ) -> dict[int, list[float]]:
        wrap = model_wrap(
            Given(action=np.zeros((1, 1), np.float32)), "action_noise", noise_type="ou",
            noise_kwargs={"x0": 0.3, "sigma": 0.1}, rng=np.random.default_rng(0),
        )  # fmt: skip
        found: dict[int, list[float]] = {0: [], 1: []}
        for turn, ids in enumerate(turns):
            if reset and turn in reset:
                wrap.reset(reset[turn])
            (env,) = ids
            found[env].append(float(wrap(env_id=ids)["action"][0, 0]))
        return found

    one = np.array(drawn([[0]] * 2_000)[0])
    assert np.corrcoef(one[:-1], one[1:])[0, 1] > 0.9
    turns = [[0]] * 300 + [[1]] + [[0]]
    far = drawn(turns)
    assert abs(far[1][0] - 0.3) < 0.05  # a new environment starts from x0
    assert abs(far[0][300] - far[0][299]) < 0.05
    again = drawn([*turns, [0], [1]], {len(turns): [0]})
    assert abs(again[0][-1] - 0.3) < 0.05
    assert again[0][:301] == far[0]


def test_noise_of_hybrid_actions_is_on_the_arguments() -> None:
    args, kind = np.zeros((3, 2), np.float32), np.array([0, 1, 2])
    both = Given(action={"action_type": kind, "action_args": args})
    output = model_wrap(both, "action_noise")()
    assert output["action"]["action_type"] is kind
    assert (output["action"]["action_args"] != 0).all()
    plain = model_wrap(Given(action_args=args, logit=args), "action_noise")()
    assert (plain["action_args"] != 0).all()
    assert (args == 0).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"noise_type": "pink"}, "pink"),
        ({"noise_kwargs": {"theta": 1.0}}, "theta"),
        ({"noise_kwargs": {"sigma": -1.0}}, "sigma"),
        ({"action_range": {"min": 1, "max": -1}}, "action_range must be"),
        ({"noise_range": {"min": 1}}, "noise_range must be"),
    ],
)
def test_options_of_noise_that_cannot_be_are_refused(options: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        model_wrap(Given(action=np.zeros((1, 1))), "action_noise", **options)


def test_a_model_without_continuous_actions_gets_no_noise() -> None:
    with pytest.raises(UsageError, match="needs the output action, action_args or mean"):
        model_wrap(Given(logit=np.zeros((1, 2))), "action_noise")()
