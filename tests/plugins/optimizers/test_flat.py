"""Flat optimizers against those of torch, and what they do with losses that are not finite."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dicore.config import bind, compile_config
from dicore.errors import CheckpointError, ConfigError, UsageError
from dicore.interfaces.learner import IOptimizer
from dicore.run.env_factory import spec_of
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import (
    FlatAdam,
    FlatOptimizer,
    FlatRMSprop,
    FlatSGD,
    ForeignOptimizer,
    build_optimizer,
    optimizer_of,
)
from tests.conftest import printed


def net(seed: int = 0, wide: int = 32, narrow: int = 16) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(5, wide), nn.Tanh(), nn.Linear(wide, narrow), nn.Tanh(), nn.Linear(narrow, 1)
    )


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    g = torch.Generator().manual_seed(1)
    return [
        (torch.randn(16, 5, generator=g), torch.randn(16, 1, generator=g)) for _ in range(count)
    ]


def losses(module: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        optimizer.step(loss) if isinstance(optimizer, FlatOptimizer) else optimizer.step()


def vector(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach()


def make(module: nn.Module, *, fused: bool = True, **options: Any) -> FlatAdam:
    optimizer = FlatAdam(Flat(module), **options)
    if not fused:
        optimizer._update = optimizer._kept_if_finite
    return optimizer


def named(options: dict[str, Any]) -> dict[str, Any]:
    """Returns options by torch's names."""
    return {"lr" if key == "learning_rate" else key: value for key, value in options.items()}


OPTIONS = [
    {"learning_rate": 1e-3},
    {"learning_rate": 1e-2, "betas": (0.8, 0.99), "eps": 1e-5, "weight_decay": 0.1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["defaults", "all options"])
@pytest.mark.parametrize(
    ("fused", "theirs_fused", "bound"), [(True, True, 0), (True, None, 6e-8), (False, None, 6e-8)]
)
def test_it_is_torchs_adam(
    options: dict[str, Any], fused: bool, theirs_fused: bool | None, bound: float
) -> None:
    """Bit for bit the fused one, on layers of whole vector registers; others round differently."""
    ours, theirs, data = net(), net(), batches(50)
    optimizer = make(ours, fused=fused, **options)
    assert optimizer._update.__name__ == ("_fused" if fused else "_kept_if_finite")
    losses(ours, optimizer, data)
    adam = torch.optim.Adam(theirs.parameters(), fused=theirs_fused, **named(options))
    losses(theirs, adam, data)
    difference = (vector(ours) - vector(theirs)).abs().max()
    assert difference <= bound * options["learning_rate"] / 1e-3


@pytest.mark.parametrize("options", OPTIONS, ids=["defaults", "all options"])
def test_it_is_torchs_fused_adam_of_the_same_flat_tensor(options: dict[str, Any]) -> None:
    """Bit for bit at any size."""
    ours, theirs, data = net(0, 33, 7), net(0, 33, 7), batches(50)
    losses(ours, make(ours, **options), data)
    flat = Flat(theirs)
    adam = torch.optim.Adam([nn.Parameter(flat.data)], fused=True, **named(options))
    for x, y in data:
        flat.zero_grad()
        nn.functional.mse_loss(theirs(x), y).backward()
        adam.param_groups[0]["params"][0].grad = flat.grad
        adam.step()
    assert torch.equal(vector(ours), vector(theirs))


RULES: dict[str, tuple[Any, Any, dict[str, Any], bool]] = {
    "adamw": (FlatAdam, torch.optim.AdamW, {"weight_decay": 0.1}, True),
    "rmsprop": (FlatRMSprop, torch.optim.RMSprop, {}, False),
    "rmsprop, all options": (
        FlatRMSprop, torch.optim.RMSprop,
        {"alpha": 0.9, "eps": 1e-5, "weight_decay": 0.1, "momentum": 0.8, "centered": True}, False,
    ),
    "sgd": (FlatSGD, torch.optim.SGD, {}, True),
    "sgd, all options": (
        FlatSGD, torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, True,
    ),
}  # fmt: skip


def of_rule(rule: str, params: Any) -> FlatOptimizer:
    ours, _, options, _ = RULES[rule]
    more = {"decoupled": True} if rule == "adamw" else {}
    made: FlatOptimizer = ours(params, learning_rate=1e-2, **options, **more)
    return made


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fused", [True, False])
def test_each_rule_is_torchs(rule: str, fused: bool) -> None:
    _, theirs, options, can_fuse = RULES[rule]
    ours, other, data = net(), net(), batches(50)
    optimizer = of_rule(rule, Flat(ours))
    assert optimizer._update.__name__ == ("_fused" if can_fuse else "_kept_if_finite")
    if not fused:
        optimizer._update = optimizer._kept_if_finite
    losses(ours, optimizer, data)
    losses(other, theirs(other.parameters(), lr=1e-2, **options), data)
    torch.testing.assert_close(vector(ours), vector(other), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", [*RULES, "torch"])
def test_a_bad_update_leaves_no_trace_and_a_state_goes_on(rule: str) -> None:
    """Parameters and moments stay as if the bad update had not been there; so in a twin, loaded."""
    module, other, data = net(), net(), batches(6)

    def make_one(module: nn.Module) -> FlatOptimizer:
        flat = Flat(module)
        if rule != "torch":
            return of_rule(rule, flat)
        return ForeignOptimizer(flat, torch.optim.NAdam(flat, lr=1e-2))

    optimizer, twin = make_one(module), make_one(other)
    losses(module, optimizer, data[:3])
    losses(other, twin, data[:3])
    optimizer.zero_grad()
    optimizer._flat.grad[3] = float("nan")
    optimizer.step()
    assert (optimizer.skipped, twin.skipped) == (1, 0)
    twin = make_one(other)
    twin.load_state_dict(optimizer.state_dict())
    assert (twin.skipped, twin.learning_rate) == (1, 1e-2)
    losses(module, optimizer, data[3:])
    losses(other, twin, data[3:])
    assert torch.equal(vector(module), vector(other))
    assert vector(module).isfinite().all()


@pytest.mark.parametrize("rule", [*RULES, "torch"])
def test_it_satisfies_the_protocol(rule: str) -> None:
    flat = Flat(net().parameters())
    made = torch.optim.Adam(flat) if rule == "torch" else None
    optimizer = of_rule(rule, flat) if made is None else ForeignOptimizer(flat, made)
    assert isinstance(optimizer, IOptimizer)
    optimizer.param_groups[0]["lr"] = 0.5
    assert optimizer.learning_rate == 0.5


@pytest.mark.parametrize("foreign", [False, True])
def test_a_hook_runs_between_backward_and_clipping(foreign: bool) -> None:
    """As an all-reduce does; a removed hook runs no more."""
    flat = Flat(net())
    optimizer: FlatOptimizer = FlatSGD(flat, learning_rate=1.0, max_grad_norm=1.0)
    if foreign:
        optimizer = ForeignOptimizer(flat, torch.optim.SGD(flat, lr=1.0), max_grad_norm=1.0)
    handle = optimizer.register_step_pre_hook(lambda it, args, kwargs: flat.grad.mul_(100.0))
    before = flat.data.clone()
    flat.grad.fill_(1e-2)
    optimizer.step()
    assert torch.linalg.norm(flat.data - before).item() == pytest.approx(1.0, rel=1e-4)
    handle.remove()
    before = flat.data.clone()
    flat.grad.fill_(1e-3)
    optimizer.step()
    assert torch.allclose(flat.data, before - 1e-3)


def test_a_state_of_another_rule_is_refused() -> None:
    state = of_rule("sgd, all options", Flat(net())).state_dict()
    with pytest.raises(CheckpointError, match="has step, momentum_buffer; FlatAdam needs exp_avg"):
        make(net()).load_state_dict(state)


# ---- the slot


def compiled(*overrides: str) -> Any:
    said = [f"policy.learn.{each}" for each in overrides]
    return compile_config(overrides=["env=cartpole", "policy=dqn", *said])


@pytest.mark.parametrize(
    ("overrides", "cls", "group"),
    [
        ([], FlatAdam, {"lr": 1e-3, "eps": 1e-8, "weight_decay": 0.0}),
        (["adam_eps=1e-5", "weight_decay=0.1"], FlatAdam, {"eps": 1e-5, "weight_decay": 0.1}),
        (["optimizer.eps=1e-4"], FlatAdam, {"eps": 1e-4}),
        (["optimizer.type=adamw", "learning_rate=0.5"], FlatAdam, {"lr": 0.5}),
        (["optimizer.type=rmsprop", "optimizer.centered=true"], FlatRMSprop, {"centered": True}),
        (["optimizer.type=sgd", "optimizer.momentum=0.9"], FlatSGD, {"momentum": 0.9}),
        (
            ["optimizer.type=torch.optim:AdamW", "optimizer.betas=[0.8,0.9]", "weight_decay=0.2"],
            ForeignOptimizer,
            {"lr": 1e-3, "betas": (0.8, 0.9), "weight_decay": 0.2},
        ),
    ],
    ids=str,
)
def test_a_config_chooses_the_optimizer(
    overrides: list[str], cls: type[FlatOptimizer], group: dict[str, Any]
) -> None:
    cfg = compiled(*overrides, "max_grad_norm=0.5")
    policy = bind(cfg, spec_of(cfg.env, 0)).policy.build(None)
    optimizer = policy.get_attribute("optimizer")
    assert type(optimizer) is cls
    assert {key: optimizer.param_groups[0][key] for key in group} == group
    assert optimizer.max_grad_norm == 0.5


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["optimizer.type=sgd", "adam_eps=1e-5"],
            "policy.learn.optimizer: 'sgd' has no option 'eps', which learn sets",
        ),
        (
            ["optimizer.type=torch.optim:SGD", "optimizer.lr=0.5"],
            "policy.learn.optimizer.lr: set learn.learning_rate=0.5 instead",
        ),
        (["optimizer.betas=[0.9,1.0]"], "policy.learn.optimizer.betas: both must be >= 0 and < 1"),
        (["optimizer.type=sgd", "optimizer.nesterov=true"], "optimizer.nesterov: needs momentum"),
    ],
    ids=str,
)
def test_settings_that_an_optimizer_cannot_follow(overrides: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(*overrides)
    assert problem in caught.value.problems[0]


def test_the_learn_section_gives_rate_norm_and_options() -> None:
    preset = ["policy.learn.optimizer=adamw", "policy.learn.max_grad_norm=3.0"]
    learn = compile_config({"env": "cartpole", "policy": "ppo"}, overrides=preset).policy.learn
    made = optimizer_of(learn, Flat(net()), weight_decay=0.25)
    assert made.learning_rate == made.configured_rate == learn.learning_rate
    assert made.max_grad_norm == 3.0
    assert made.param_groups[0]["weight_decay"] == 0.25
    plain = compile_config(
        {"env": "cartpole", "policy": "random"}
    ).policy.learn  # has no max_grad_norm
    assert optimizer_of(plain, Flat(net())).max_grad_norm is None


def test_an_optimizer_that_needs_a_closure_is_refused() -> None:
    section = compiled("optimizer.type=torch.optim:LBFGS").policy.learn.optimizer
    with pytest.raises(UsageError, match=r"LBFGS: step.. cannot be called: .*closure"):
        build_optimizer(section, Flat(net()), learning_rate=1.0)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")], ids=str)
@pytest.mark.parametrize("where", ["gradient", "loss", "clipped gradient"])
def test_an_update_that_is_not_finite_is_left_out(where: str, bad: float, fused: bool) -> None:
    """Parameters, moments and step count stay; the next update is as if it had not been there."""
    module, other, data = net(), net(), batches(3)
    clip = 1.0 if where == "clipped gradient" else None
    optimizer = make(module, fused=fused, max_grad_norm=clip)
    twin = make(other, fused=fused, max_grad_norm=clip)
    for each, its in ((module, optimizer), (other, twin)):
        losses(each, its, data[:2])

    optimizer.zero_grad()
    if where == "loss":
        optimizer._flat.grad.fill_(0.5)
        optimizer.step(torch.tensor(bad))
    else:
        optimizer._flat.grad[3] = bad
        optimizer.step(torch.tensor(1.0))

    assert optimizer.skipped == 1
    assert torch.equal(vector(module), vector(other))
    for each, its in ((module, optimizer), (other, twin)):
        losses(each, its, data[2:])
    assert torch.equal(vector(module), vector(other))
    assert (optimizer.skipped, twin.skipped) == (1, 0)
    assert vector(module).isfinite().all()


@pytest.mark.parametrize(("gradient", "norm"), [(0.1, None), (0.0, 1.0)])
def test_a_step_without_a_loss(gradient: float, norm: float | None) -> None:
    """A zero gradient is clipped to zero, not to nan."""
    module = net()
    optimizer = make(module, max_grad_norm=norm)
    optimizer._flat.grad.fill_(gradient)
    before = vector(module)
    optimizer.step()
    assert optimizer.skipped == 0
    assert torch.equal(before, vector(module)) == (gradient == 0)


@pytest.mark.parametrize("norm", [0.05, 1e6])
def test_clipping_is_torchs(norm: float) -> None:
    ours, theirs, data = net(), net(), batches(1)
    losses(ours, make(ours, max_grad_norm=norm), data)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.0)
    losses(theirs, optimizer, data)  # type: ignore[arg-type]
    optimizer.zero_grad()
    nn.functional.mse_loss(theirs(data[0][0]), data[0][1]).backward()
    nn.utils.clip_grad_norm_(theirs.parameters(), norm)
    want = torch.cat([p.grad.reshape(-1) for p in theirs.parameters() if p.grad is not None])
    flat = torch.cat([p.grad.reshape(-1) for p in ours.parameters() if p.grad is not None])
    assert torch.allclose(flat, want, rtol=1e-4, atol=1e-7)


def test_the_learning_rate_is_a_plain_attribute() -> None:
    module = net()
    optimizer = make(module)
    optimizer.learning_rate = 0.0
    before = vector(module)
    losses(module, optimizer, batches(2))
    assert torch.equal(before, vector(module))


def test_saved_and_loaded_it_goes_on_bit_for_bit() -> None:
    module, data = net(), batches(8)
    optimizer = make(module, learning_rate=3e-3)
    losses(module, optimizer, data[:4])
    optimizer._flat.grad.fill_(float("nan"))
    optimizer.step()
    other = copy.deepcopy(module)
    twin = make(other)
    state = optimizer.state_dict()
    losses(module, optimizer, data[4:])

    twin.load_state_dict(state)
    losses(other, twin, data[4:])

    assert twin.learning_rate == 3e-3
    assert torch.equal(vector(module), vector(other))
    assert twin.skipped == 1


def test_the_state_is_adams_in_both_directions() -> None:
    ours, theirs, data = net(), net(), batches(9)
    flat = make(ours)
    losses(ours, flat, data[:3])

    adam = torch.optim.Adam(theirs.parameters(), fused=True)
    theirs.load_state_dict(ours.state_dict())
    adam.load_state_dict(flat.state_dict())
    # Loading replaces the group and drops `fused`; the loop of torch rounds differently.
    adam.param_groups[0]["fused"] = True
    losses(ours, flat, data[3:6])
    losses(theirs, adam, data[3:6])
    assert torch.equal(vector(ours), vector(theirs))

    again = net(5)
    again.load_state_dict(theirs.state_dict())
    back = make(again)
    back.load_state_dict(adam.state_dict())
    losses(again, back, data[6:])
    losses(theirs, adam, data[6:])
    assert torch.equal(vector(again), vector(theirs))


def test_an_empty_state_resets() -> None:
    module = net()
    fresh = torch.optim.Adam(net().parameters()).state_dict()
    optimizer = make(module)
    losses(module, optimizer, batches(2))
    optimizer.load_state_dict(fresh)
    assert not any(moment.any() for moment in optimizer._moments)
    assert optimizer.skipped == 0


def test_a_state_of_other_parameters_is_refused() -> None:
    state = make(nn.Linear(2, 2)).state_dict()
    with pytest.raises(CheckpointError, match=r"has parameters \[\(2, 2\), \(2,\)\], expected"):
        make(net()).load_state_dict(state)


@pytest.mark.parametrize(
    "options",
    [{"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"betas": (0.9, 1.0)}, {"eps": -1.0},
     {"weight_decay": -1.0}, {"max_grad_norm": 0.0}],
    ids=str,
)  # fmt: skip
def test_numbers_out_of_range_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        make(net(), **options)


def test_a_dtype_that_the_fused_operation_refuses_goes_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("not on this device")

    monkeypatch.setattr(torch, "_fused_adam_", refuses)
    module = net()
    optimizer = make(module)
    assert optimizer._update.__name__ == "_kept_if_finite"
    before = vector(module)
    losses(module, optimizer, batches(1))
    assert not torch.equal(before, vector(module))
    monkeypatch.delattr(torch, "_fused_adam_")
    assert make(net())._update.__name__ == "_kept_if_finite"


def test_it_never_imports_dynamo() -> None:
    """Building, stepping, saving and loading: over a second saved at the start of each run."""
    program = """
import sys, torch
from dicore_plugins.models import DQN, Flat
from dicore_plugins.optimizers.flat import FlatAdam
for way in ("_fused", "_kept_if_finite"):
    model = DQN(4, 2)
    optimizer = FlatAdam(Flat(model), max_grad_norm=1.0)
    optimizer._update = getattr(optimizer, way)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model.q(torch.ones(3, 4)).sum()
        loss.backward()
        optimizer.step(loss)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.skipped == 0
print(sorted(name for name in sys.modules if name.startswith("torch._dynamo"))[:3])
"""
    assert printed(program).strip() == "[]"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_nothing_waits_for_the_device() -> None:
    ours, theirs = net().cuda(), net().cuda()
    data = [(x.cuda(), y.cuda()) for x, y in batches(20)]
    optimizer = make(ours, max_grad_norm=1e6)
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses(ours, optimizer, data)
        optimizer._flat.grad.fill_(float("nan"))
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    losses(theirs, torch.optim.Adam(theirs.parameters(), fused=True), data)
    assert (vector(ours) - vector(theirs)).abs().max() < 1e-6
    assert optimizer.skipped == 1


def test_averages_of_a_dead_unit_fade_to_zero_and_no_further() -> None:
    """Subnormal averages would slow each update down tenfold; without them nothing else changes."""
    ours, theirs = nn.Linear(16, 16), nn.Linear(16, 16)
    theirs.load_state_dict(ours.state_dict())
    flat = Flat(ours)
    optimizer = FlatAdam(flat)
    reference = torch.optim.Adam(theirs.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(1500):
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            gradient = torch.randn(one.shape, generator=generator) * (step < 20)
            assert one.grad is not None
            one.grad.copy_(gradient)
            other.grad = gradient
        optimizer.step()
        reference.step()
    state = optimizer.state_dict()["state"]
    means = torch.cat([entry["exp_avg"].flatten() for entry in state.values()])
    assert (means == 0).all()
    faded = torch.cat([entry["exp_avg"].flatten() for entry in reference.state.values()])
    tiny = torch.finfo(torch.float32).tiny
    assert ((faded != 0) & (faded.abs() < tiny)).any()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("section", [None, "adam", "torch"])
def test_a_resumed_run_with_another_learning_rate_trains_at_it(section: str | None) -> None:
    """R-C12: `--allow-change policy.learn.learning_rate`; a schedule goes on where it was."""
    flat = Flat(net())
    made: dict[float, Any] = {}
    for rate in (1e-3, 1e-4):
        if section == "torch":
            made[rate] = ForeignOptimizer(flat, torch.optim.AdamW(flat.parameters, lr=rate))
            made[rate].configured_rate = rate
        else:
            chosen = section and compiled("optimizer=adam").policy.learn.optimizer
            made[rate] = build_optimizer(chosen, flat, learning_rate=rate)
    made[1e-3].learning_rate = 5e-4
    state = made[1e-3].state_dict()
    for rate, expected in ((1e-3, 5e-4), (1e-4, 1e-4)):
        made[rate].load_state_dict(copy.deepcopy(state))
        assert made[rate].learning_rate == expected
