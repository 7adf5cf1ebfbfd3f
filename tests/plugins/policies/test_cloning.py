"""Policies that clone actions: bc with distillation, ibc with its search, bco without actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ConfigError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore_plugins.functional import kl_divergence, log_prob_entropy
from dicore_plugins.models import EBM, VAC, BCONet
from dicore_plugins.policies import BCOPolicy
from tests.plugins.policies.test_actor_critic import policy_of

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
ACTIONS = {"discrete": spaces.Discrete(3, start=1), "box": BOX,
           "several": spaces.MultiDiscrete([3, 2])}  # fmt: skip

FASTER = "policy.learn.learning_rate=0.01"


def shown(form: str, count: int = 256) -> Batch:
    """Returns observations [B, 2] with the action of a rule, and next observations that tell it."""
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    high = (obs > 0).astype(np.int64)
    action = {
        "discrete": 1 + high.sum(1),
        "box": np.stack([obs[:, 0], 0.5 + 0.4 * obs[:, 1]], 1),
        "several": high,
    }[form]
    step = action if action.ndim > 1 else np.stack([action, action], 1)
    after = (obs + 0.01 * step).astype(np.float32)
    return Batch({"obs": obs, "action": action, "next_obs": after})


def error_of(policy: Any, data: Batch) -> float:
    """Returns the mean distance of the actions of evaluation to those of the rule."""
    acted = policy.eval_mode.forward(dict(enumerate(data["obs"]))).value["action"]
    return float(np.abs(acted - data["action"]).mean())


@pytest.mark.parametrize(
    ("name", "form", "options"),
    [
        ("bc", "discrete", ()), ("bc", "several", ()), ("bc", "box", ()),
        ("bc", "box", ("policy.learn.criterion=mse",)),
        ("bc", "box", ("policy.learn.criterion=l1",)),
        ("ibc", "discrete", ()),
        ("ibc", "box", ("policy.learn.negatives=16", "policy.candidates=64")),
    ],
)  # fmt: skip
def test_the_rule_is_learned(name: str, form: str, options: tuple[str, ...]) -> None:
    policy, data = (
        policy_of(name, ACTIONS[form], FASTER, *options),
        shown(form),
    )
    before = error_of(policy, data)
    for _ in range(100 if name == "ibc" else 150):
        policy.learn_mode.forward(data)
    assert error_of(policy, data) < 0.25 * before


@pytest.mark.parametrize("form", ["discrete", "box", "several"])
def test_bco_learns_the_rule_without_the_actions(form: str) -> None:
    policy, data = policy_of("bco", ACTIONS[form], FASTER), shown(form)
    own = np.arange(256) % 2 == 0
    wrong = np.where(own.reshape(-1, *[1] * (data["action"].ndim - 1)), data["action"], 1)
    batch = Batch({**data.columns, "action": wrong, "demo": 1 - own.astype(np.float32)})
    before = error_of(policy, data)
    for _ in range(250):
        result = policy.learn_mode.forward(batch)
    assert error_of(policy, data) < 0.3 * before
    assert result["total_loss"] == result["inverse_loss"] + result["bc_loss"]


def test_bco_needs_an_inverse_model() -> None:
    with pytest.raises(UsageError, match="VAC has no `inverse`"):
        BCOPolicy(model=VAC(2, 3))


def test_the_divergence_to_the_expert_falls() -> None:
    """L19: the expert's probabilities are learned, not its actions alone."""
    data, logit = shown("discrete"), np.random.default_rng(1).normal(size=(256, 3))
    logit[:, 0] = 2 * shown("discrete")["obs"][:, 0]
    batch = Batch({**data.columns, "logit": logit.astype(np.float32)})
    policy = policy_of(
        "bc",
        ACTIONS["discrete"],
        "policy.learn.distill_weight=1",
        FASTER,
    )
    expert = torch.from_numpy(batch["logit"])

    def divergence() -> float:
        with torch.no_grad():
            output = policy.get_attribute("model")(torch.from_numpy(batch["obs"]))
        return float(kl_divergence({"logit": expert}, output).mean())

    before = divergence()
    losses = [float(policy.learn_mode.forward(batch)["total_loss"]) for _ in range(100)]
    assert losses[0] == pytest.approx(before, rel=1e-4)
    assert divergence() < 0.75 * before


def test_distillation_is_mixed_with_cloning_and_has_a_temperature() -> None:
    data, options = shown("discrete"), ("policy.learn.distill_weight=0.25",)
    batch = Batch({**data.columns, "logit": np.zeros((256, 3), np.float32)})
    batch.columns["logit"][:, 2] = 0.01
    policy = policy_of("bc", ACTIONS["discrete"], *options, "policy.learn.distill_temperature=0.01")
    with torch.no_grad():
        output = policy.get_attribute("model")(torch.from_numpy(data["obs"]))
    nll = -log_prob_entropy(output, torch.from_numpy(data["action"]) - 1)[0].mean()
    expert = {"logit": torch.from_numpy(batch["logit"]) / 0.01}
    kl = kl_divergence(expert, output).mean()
    result = policy.learn_mode.forward(batch)
    assert result["total_loss"] == pytest.approx(float(0.75 * nll + 0.25 * kl), rel=1e-5)
    with pytest.raises(SchemaError, match="no column logit, the expert's probabilities") as caught:
        policy.learn_mode.forward(data)
    assert "dicore collect RUN --outputs" in caught.value.hint


def test_the_search_finds_the_best_action_and_sampling_obeys_the_scores() -> None:
    """Of a network whose scores have their peak at an action that depends on the observation."""

    class Peak(torch.nn.Module):
        continuous = True

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, obs: Any, action: Any) -> Any:
            best = torch.stack([obs[:, 0], -obs[:, 1]], 1).unsqueeze(1)
            return {"logit": -20 * (action - best).square().sum(-1)}

    policy = policy_of("ibc", BOX)
    obs = {i: np.array(each, np.float32) for i, each in enumerate([(0.3, -0.9), (-0.5, 0.2)])}
    made = type(policy)(policy.get_attribute("cfg"), model=Peak())
    found = made.eval_mode.forward(obs).value["action"]
    np.testing.assert_allclose(found, [[0.6, 0.95], [-1.0, 0.4]], atol=0.1)
    alone = made.eval_mode.forward({7: obs[1]}).value["action"]
    np.testing.assert_array_equal(alone[0], found[1])
    many = np.concatenate(
        [made.collect_mode.forward(obs).value["action"][:1] for _ in range(200)]
    )  # density of exp(-20 u^2): standard deviation 0.16 of half the width, 2 and 0.5
    assert many.mean(0) == pytest.approx([0.6, 0.92], abs=0.1)
    assert 0.1 < many[:, 0].std() < 0.6


@pytest.mark.parametrize(
    ("name", "actions", "text"),
    [("ibc", spaces.MultiDiscrete([3, 2]), "needs one discrete action or bounded real"),
     ("ibc", spaces.Box(-np.inf, np.inf, (2,)), "needs bounded real numbers")],
)  # fmt: skip
def test_spaces_that_are_refused(name: str, actions: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        policy_of(name, actions)


@pytest.mark.parametrize("name", ["ibc", "dt", "td3_bc"])
def test_a_dimension_with_a_single_action_is_no_division_by_zero(name: str) -> None:
    box = spaces.Box(np.array([-2, 1], np.float32), np.array([2, 1], np.float32))
    options = ("policy.collect.unroll_len=4",) if name == "dt" else ()
    policy, data = policy_of(name, box, *options), dict(shown("box", 32).columns)
    data["action"] = data["action"] * np.array([1, 0], np.float32) + np.array([0, 1], np.float32)
    data |= {"reward": np.ones(32, np.float32), "done": np.zeros(32, np.float32)}
    if name == "dt":
        data = {key: each.reshape(8, 4, *each.shape[1:]) for key, each in data.items()}
        data |= {"valid": np.ones((8, 4), np.bool_), "timestep": np.tile(np.arange(4), (8, 1)),
                 "return_to_go": data["reward"]}  # fmt: skip
    found = policy.learn_mode.forward(Batch(data))
    assert np.isfinite(float(found.get("total_loss", 0)))
    obs = np.zeros((2, 2), np.float32)
    acted = policy.eval_mode.forward(dict(enumerate(obs))).value["action"]
    assert (acted[:, 1] == 1).all()
    assert np.isfinite(acted).all()


def test_a_distance_needs_continuous_actions() -> None:
    with pytest.raises(ConfigError, match="mse is for continuous actions; set log_prob"):
        policy_of("bc", ACTIONS["discrete"], "policy.learn.criterion=mse")


@pytest.mark.parametrize("name", ["bc", "ibc"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    def train(place: str, limit: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "env": "pendulum", "policy": name, "seed": 0, "exp_name": str(tmp_path / place),
            "overrides": ["pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                          "env.evaluator_env_num=1", "pipeline.expert.type=random",
                          "policy.eval.evaluator.max_episode_steps=3",
                          "pipeline.expert_episodes=2", "policy.learn.batch_size=16"],
        }  # fmt: skip
        given = {"resume": str(tmp_path / place)} if resume else given
        return launch(**given, max_train_iter=limit).policy.get_attribute("model").state_dict()

    whole, _ = train("whole", 40), train("half", 17)
    rest = train("half", 40, resume=True)
    assert all(torch.equal(whole[key], rest[key]) for key in whole)


def test_scores_of_discrete_actions_are_those_of_their_vectors() -> None:
    model = EBM(4, 3)
    obs = torch.randn(5, 4)
    torch.testing.assert_close(model(obs)["logit"], model(obs, torch.eye(3))["logit"])
    with pytest.raises(ConfigError, match="must be one number"):
        EBM(4, (3, 2))  # type: ignore[arg-type]


def test_the_inverse_model_normalises_by_own_steps_alone() -> None:
    model = BCONet(2, 3)
    obs, after = torch.zeros(4, 2), torch.tensor([[0.0, 0], [2, 0], [9, 9], [9, 9]])
    model.inverse(obs, after, learns=torch.tensor([True, True, False, False]))
    assert model.pair_norm.mean.tolist() == [0, 0, 1, 0]
