"""Each option of PPO changes the update as it says: against NumPy in float64."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.errors import ConfigError, UsageError
from tests.plugins.policies.test_actor_critic import BOX, policy_of, samples_of

DEFAULTS = {
    "clip_ratio": 0.2, "dual_clip": None, "value_clip": None, "adv_norm": True,
    "value_weight": 0.5, "entropy_weight": 0.0,
}  # fmt: skip


def outputs(model: Any, obs: Any) -> dict[str, Any]:
    with torch.no_grad():
        found = model(torch.from_numpy(obs))
    return {key: each.detach().double().numpy() for key, each in found.items()}


def reference(policy: Any, samples: Any, settings: dict[str, Any]) -> dict[str, float]:
    """The losses of one update of all samples."""
    output = outputs(policy.get_attribute("model"), samples["obs"])
    if "logit" in output:
        log_p = output["logit"] - np.log(np.exp(output["logit"]).sum(1, keepdims=True))
        log_prob = log_p[np.arange(len(log_p)), samples["action"]]
        entropy = -(np.exp(log_p) * log_p).sum(1)
    else:
        log_std = output["log_std"]
        z = (samples["raw_action"] - output["mean"]) / np.exp(log_std)
        log_prob = -(z**2 / 2 + log_std + np.log(2 * np.pi) / 2).sum(1)
        entropy = (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(1)
    advantage = samples["advantage"].astype(np.float64)
    if settings["adv_norm"]:
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    change = log_prob - samples["log_prob"]
    ratio, clip = np.exp(change), settings["clip_ratio"]
    gain = np.minimum(ratio * advantage, np.clip(ratio, 1 - clip, 1 + clip) * advantage)
    if settings["dual_clip"] is not None:
        bound = np.maximum(gain, settings["dual_clip"] * advantage)
        gain = np.where(advantage < 0, bound, gain)
    scale = 1.0 if settings.get("std") is None else settings["std"]
    error = (output["value"] - samples["target"]) ** 2
    if settings["value_clip"] is not None:
        old, most = samples["value"], settings["value_clip"] * scale
        near = old + np.clip(output["value"] - old, -most, most)
        error = np.maximum(error, (near - samples["target"]) ** 2)
    value_loss = error.mean() / scale**2
    total = -gain.mean() + settings["value_weight"] * value_loss
    return {
        "total_loss": total - settings["entropy_weight"] * entropy.mean(),
        "policy_loss": -gain.mean(),
        "value_loss": value_loss,
        "entropy": entropy.mean(),
        "approx_kl": (ratio - 1 - change).mean(),
        "clipfrac": (np.abs(ratio - 1) > clip).mean(),
    }


def moved(policy: Any, size: float = 0.3) -> Any:
    """The policy with other parameters than those it acted with."""
    with torch.no_grad():
        for index, each in enumerate(policy.get_attribute("model").parameters()):
            noise = torch.randn(each.shape, generator=torch.Generator().manual_seed(index))
            each.add_(noise, alpha=size)
    return policy


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
@pytest.mark.parametrize(
    "changed",
    [{}, {"clip_ratio": 0.05}, {"dual_clip": 1.1}, {"value_clip": 0.1}, {"adv_norm": False},
     {"value_weight": 2.0}, {"entropy_weight": 0.3}],
    ids=lambda changed: next(iter(changed), "defaults"),
)  # fmt: skip
def test_an_update_equals_the_formula(actions: Any, changed: dict[str, Any]) -> None:
    options = [f"policy.learn.{key}={value}".lower() for key, value in changed.items()]
    policy = policy_of("ppo", actions, "policy.learn.batch_size=null", *options)
    samples = samples_of(policy, steps=40)
    wanted = reference(moved(policy), samples, {**DEFAULTS, **changed})
    plain = reference(policy, samples, DEFAULTS)
    assert wanted["clipfrac"] > 0.1, "the policy must have moved"
    assert (wanted["total_loss"] != pytest.approx(plain["total_loss"])) == bool(changed)
    result = policy.learn_mode.forward(samples)[0]
    for name, value in wanted.items():
        assert float(result[name]) == pytest.approx(value, rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("value_clip", [None, 0.2])
def test_normalised_values_scale_the_loss_and_the_clip(value_clip: float | None) -> None:
    """`value_clip` is in units of the normalised returns."""
    options = ["policy.model.value_norm=true", "policy.learn.batch_size=null"]
    options += [] if value_clip is None else [f"policy.learn.value_clip={value_clip}"]
    policy = policy_of("ppo", spaces.Discrete(3), *options)
    norm = policy.get_attribute("model").value_norm
    norm.update(torch.randn(100, 1, generator=torch.Generator().manual_seed(0)) * 7 + 3)
    samples = samples_of(policy, steps=40)
    moved(policy)
    norm.update(torch.from_numpy(samples["target"])[:, None])
    twin = {"mean": norm.mean.clone(), "var": norm.var.clone()}
    settings = {**DEFAULTS, "value_clip": value_clip, "std": float(norm.std[0])}
    wanted = reference(policy, samples, settings)
    norm.load_state_dict({**twin, "count": norm.count - len(samples)})
    policy._normalise_values = lambda batch: None  # the statistics have these targets already
    result = policy.learn_mode.forward(samples)[0]
    for name, value in wanted.items():
        assert float(result[name]) == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_annealed_settings_reach_the_loss() -> None:
    options = ("policy.learn.entropy_weight=0.5", "policy.learn.entropy_weight_end=0.2",
               "policy.learn.clip_ratio_end=0.1", "policy.learn.anneal=100",
               "policy.learn.batch_size=null")  # fmt: skip
    policy = policy_of("ppo", spaces.Discrete(3), *options)
    found = policy.command_mode.get_setting_learn({"envstep": 50, "learner_step": 0})
    assert found == pytest.approx({"entropy_weight": 0.3, "clip_ratio": 0.11})
    samples = samples_of(policy, steps=40)
    wanted = reference(moved(policy), samples, {**DEFAULTS, **found})
    result = policy.learn_mode.forward(samples, **found)[0]
    assert float(result["total_loss"]) == pytest.approx(wanted["total_loss"], rel=1e-4)


@pytest.mark.parametrize("name", ["a2c", "impala", "pg"])
def test_the_entropy_weight_of_other_algorithms_is_annealed(name: str) -> None:
    options = ("policy.learn.entropy_weight=0.5", "policy.learn.entropy_weight_end=0",
               "policy.learn.anneal=100")  # fmt: skip
    policy = policy_of(name, spaces.Discrete(3), *options)
    get = policy.command_mode.get_setting_learn
    weights = [get({"envstep": step})["entropy_weight"] for step in (0, 25, 100, 500)]
    assert weights == pytest.approx([0.5, 0.375, 0, 0])


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["policy.model.value_norm=true", "policy.learn.entropy_weight=0.05"],
        ["policy.learn.dual_clip=3", "policy.learn.value_clip=0.2"],
        ["policy.model.share_encoder=true", "policy.model.activation=relu"],
    ],
    ids=["default", "value_norm", "clips", "shared"],
)
def test_updates_without_autograd_are_those_with_it(options: list[str]) -> None:
    def updated(changed: Callable[[Any], None]) -> tuple[list[Any], list[Any]]:
        policy = policy_of("ppo", spaces.Discrete(3), "policy.learn.batch_size=4", *options)
        model = policy.get_attribute("model")
        changed(policy)
        samples = samples_of(policy)
        results = policy.learn_mode.forward(samples)
        return results, [each.detach().clone() for each in model.parameters()]

    def by_autograd(policy: Any) -> None:
        policy.get_attribute("model").differentiable = lambda: False

    def without_formula(policy: Any) -> None:
        policy._loss = partial(policy._loss)

    results, parameters = updated(lambda policy: None)
    for other in (by_autograd, without_formula):
        wanted, others = updated(other)
        for key in ("total_loss", "value_loss", "entropy", "approx_kl"):
            torch.testing.assert_close(results[-1][key], wanted[-1][key], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(parameters, others, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "a2c", "acer"])
def test_updates_in_bfloat16_are_near_those_in_float32(name: str) -> None:
    option = "policy.learn.autocast=bfloat16"
    if name == "acer":
        with pytest.raises(ConfigError, match=r"learn\.autocast: acer is not trained so"):
            policy_of(name, spaces.Discrete(3), option)
        return
    losses = []
    for options in ([], [option]):
        policy = policy_of(name, spaces.Discrete(3), *options)
        losses.append(float(policy.learn_mode.forward(samples_of(policy))[0]["total_loss"]))
        assert all(
            each.dtype == torch.float32 for each in policy.get_attribute("model").parameters()
        )
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02, abs=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_updates_are_those_of_the_network() -> None:
    """About 30 s of compilation, in a process of its own: threads of the compiler stay."""
    program = "from tests.plugins.policies.test_ppo import compare; compare()"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]


def compare() -> None:
    """Compares compiled updates with plain ones."""
    found = []
    for options in ([], ["policy.learn.compile=true"]):
        policy = policy_of("ppo", spaces.Discrete(3), "policy.learn.epoch_per_collect=2", *options)
        policy.learn_mode.forward(samples_of(policy))
        found.append(dict(policy.get_attribute("model").state_dict()))
    assert found[0].keys() == found[1].keys(), "checkpoints have the same names"
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_compiling_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UsageError, match=r"policy\.learn\.compile: no C\+\+ compiler"):
        policy_of("ppo", spaces.Discrete(3), "policy.learn.compile=true")
