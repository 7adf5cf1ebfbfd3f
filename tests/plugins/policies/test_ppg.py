"""PPG: auxiliary phases against NumPy, kept samples, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.errors import ConfigError, UsageError
from dicore_plugins.models import PPGNet
from dicore_plugins.policies import PPGPolicy
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import BOX, Returns, policy_of, samples_of

SMALL = ("policy.learn.collect_per_phase=2", "policy.learn.auxiliary_epoch=2",
         "policy.learn.auxiliary_batch_size=null", "policy.learn.batch_size=null")  # fmt: skip


def ppg(actions: Any, *options: str) -> Any:
    return policy_of("ppg", actions, *SMALL, *options)


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_an_auxiliary_phase_follows_every_n_collects(actions: Any) -> None:
    policy = ppg(actions)
    counts = [len(policy.learn_mode.forward(samples_of(policy, seed=n))) for n in range(4)]
    assert counts == [1, 1 + 2, 1, 1 + 2]


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_an_auxiliary_update_equals_the_formula(actions: Any) -> None:
    policy = ppg(actions, "policy.learn.clone_weight=0.7")
    first, second = samples_of(policy, seed=0), samples_of(policy, seed=1)
    policy.learn_mode.forward(first)
    results = policy.learn_mode.forward(second)
    begins, ends = (result["[scalars]auxiliary"] for result in results[1:])
    assert float(begins["kl"]) == pytest.approx(0, abs=1e-6), "the policy has not moved"
    obs = torch.from_numpy(np.concatenate([first["obs"], second["obs"]]))
    target = torch.from_numpy(np.concatenate([first["target"], second["target"]]))
    twin = ppg(actions, "policy.learn.clone_weight=0.7")
    twin.learn_mode.forward(first)
    model = twin.get_attribute("model")
    twin._cfg = policy_of("ppg", actions, "policy.learn.batch_size=null")._cfg  # no second phase
    twin.learn_mode.forward(second)
    with torch.no_grad():
        output = model.auxiliary(obs)
        errors = [(output[key] - target).square().mean() for key in ("auxiliary_value", "value")]
    assert float(begins["joint_loss"]) == pytest.approx(float(errors[0]) / 2, rel=1e-4)
    assert float(begins["value_loss"]) == pytest.approx(float(errors[1]), rel=1e-4)
    assert float(results[1]["total_loss"]) == pytest.approx(float(sum(errors)) / 2, rel=1e-4)
    assert float(ends["kl"]) > 0


def test_the_auxiliary_value_trains_the_policy_network_and_the_value_its_own() -> None:
    torch.manual_seed(0)
    model = PPGNet(3, 2)
    output = model.auxiliary(torch.randn(4, 3))
    parts = {"policy.encoder": "auxiliary_value", "critic": "value"}
    for part, name in parts.items():
        model.zero_grad()
        output[name].sum().backward(retain_graph=True)
        trained = {key.partition(".layers")[0] for key, each in model.named_parameters()
                   if each.grad is not None}  # fmt: skip
        assert part in trained
        assert trained <= ({"policy.encoder", "policy.critic"} if part != "critic" else {"critic"})


IMAGE = (3, 36, 36)
DICT = ((("image",), 3 * 36 * 36, (), IMAGE), (("number",), 2, (), ()))


@pytest.mark.parametrize(
    "observed",
    [{"obs_shape": IMAGE, "conv": "impala"}, {"obs_shape": None, "obs_parts": DICT}],
    ids=["impala", "dict"],
)
def test_each_network_has_its_own_cnn(observed: dict[str, Any]) -> None:
    """Of the configured form; the value of images in a dict trained that of the policy."""
    model, image = PPGNet(action_shape=2, **observed), torch.rand(2, *IMAGE)
    nested = {"image": image, "number": torch.rand(2, 2)}
    model.v(nested if "obs_parts" in observed else image).sum().backward()
    trained = {key.partition(".")[0] for key, each in model.named_parameters()
               if each.grad is not None}  # fmt: skip
    assert trained == {"critic", "critic_encode"}


def test_kept_samples_are_part_of_the_state() -> None:
    policy, twin = ppg(BOX), ppg(BOX)
    policy.learn_mode.forward(samples_of(policy, seed=0))
    twin.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    samples = samples_of(policy, seed=1)
    one, two = (each.learn_mode.forward(samples) for each in (policy, twin))
    assert len(one) == len(two) == 3
    assert [float(each["total_loss"]) for each in one] == [float(e["total_loss"]) for e in two]


@pytest.mark.parametrize("norm", ["false", "true"])
def test_a_resumed_run_equals_an_uninterrupted_one(norm: str, tmp_path: Path) -> None:
    """Half of the run ends between two auxiliary phases."""
    options = ["policy.collect.n_sample=64", "policy.learn.collect_per_phase=3",
               "policy.learn.batch_size=64", f"policy.model.obs_norm={norm}",
               f"policy.model.value_norm={norm}"]  # fmt: skip
    one, two = same_after_resume("ppg", "cartpole", options, tmp_path, 256)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_a_network_without_auxiliary_value_is_refused() -> None:
    config = {"model": {"type": "ppg", "obs_shape": 2, "action_shape": 3}}
    with pytest.raises(UsageError, match="Returns has no `auxiliary`"):
        PPGPolicy(config, model=Returns(logit=(3,), value=()))
    with pytest.raises(ConfigError, match="share_encoder"):
        ppg(BOX, "policy.model.share_encoder=false")
