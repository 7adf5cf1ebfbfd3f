"""DQN: its update row by row in numpy, the optimizer beside torch's, acting, own models."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, NonFiniteError, SchemaError, UsageError
from dicore.run.checkpoint_store import read_state
from dicore.run.random import seed_everything
from dicore.run.run import Run
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.functional import get_nstep_return_data
from dicore_plugins.hooks import LogShowHook
from dicore_plugins.learners import BaseLearner
from dicore_plugins.learners.base.config import BaseLearnerConfig
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy

OBS, ACTIONS, ROWS = 3, 4, 16


def make(model: Any = None, **options: Any) -> DQNPolicy:
    seed_everything(0)
    if model is None:
        torch.manual_seed(0)
        model = DQN(OBS, ACTIONS, (8,))
    return DQNPolicy(options, model=model)


def rows(seed: int = 0, actions: Any = ACTIONS, **more: Any) -> Batch:
    rng = np.random.default_rng(seed)
    shape = (ROWS,) if isinstance(actions, int) else (ROWS, len(actions))
    return Batch(
        {
            "obs": rng.normal(size=(ROWS, OBS)).astype(np.float32),
            "action": rng.integers(0, actions, shape),
            "reward": rng.normal(size=ROWS).astype(np.float32) * 3,
            "next_obs": rng.normal(size=(ROWS, OBS)).astype(np.float32),
            "done": (rng.random(ROWS) < 0.3).astype(np.float32),
            **more,
        }
    )


def parameters(policy: DQNPolicy) -> torch.Tensor:
    model = policy.get_attribute("model")
    return torch.cat([each.detach().reshape(-1).clone() for each in model.parameters()])


def part_ways(policy: DQNPolicy) -> None:
    """Makes online and target network differ, so that double DQN differs from plain."""
    with torch.no_grad():
        for index, each in enumerate(policy.get_attribute("model").parameters()):
            noise = torch.Generator().manual_seed(index)
            each.add_(torch.randn(each.shape, generator=noise), alpha=0.5)


def heads(model: Any, obs: Any) -> list[Any]:
    with torch.no_grad():
        q = model(torch.as_tensor(obs))["logit"]
    return [each.double().numpy() for each in (q if isinstance(q, list) else [q])]


def by_hand(policy: DQNPolicy, batch: Batch, gamma: Any, *, double: bool, ignore: bool) -> Any:
    """Returns the loss and |TD error| [B] in doubles, one row and head at a time."""
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    q, following = heads(model, batch["obs"]), heads(target, batch["next_obs"])
    chooser = heads(model, batch["next_obs"]) if double else following
    gamma = np.broadcast_to(np.asarray(gamma, np.float64), ROWS)
    weight = batch.get("weight", np.ones(ROWS))
    losses, errors = np.zeros((len(q), ROWS)), np.zeros((len(q), ROWS))
    for head in range(len(q)):
        for i in range(ROWS):
            value = following[head][i, np.argmax(chooser[head][i])]
            alive = 1.0 if ignore else 1.0 - batch["done"][i]
            taken = int(batch["action"].reshape(ROWS, -1)[i, head])
            error = abs(q[head][i, taken] - batch["reward"][i] - gamma[i] * alive * value)
            losses[head, i] = weight[i] * (0.5 * error**2 if error < 1 else error - 0.5)
            errors[head, i] = error
    return losses.mean(), errors.mean(0)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("ignore", [True, False])
@pytest.mark.parametrize("form", ["one_step", "nstep", "constant_nstep", "weighted", "heads"])
def test_an_update_equals_the_formula(double: bool, ignore: bool, form: str) -> None:
    options: dict[str, Any] = {"learn": {"double": double, "ignore_done": ignore}}
    gamma: Any = 0.97
    batch, model = rows(), None
    if form == "nstep":
        gamma = np.where(np.arange(ROWS) % 3, 0.97**3, 0.97**2).astype(np.float32)
        batch, options["nstep"] = rows(value_gamma=gamma), 3
    elif form == "constant_nstep":
        gamma, options["nstep"] = 0.97**3, 3
    elif form == "weighted":
        batch = rows(weight=np.linspace(0.1, 1, ROWS, dtype=np.float32))
    elif form == "heads":
        torch.manual_seed(0)
        model, batch = DQN(OBS, [3, 2], (8,)), rows(actions=[3, 2])
    policy = make(model, **options)
    part_ways(policy)
    loss, errors = by_hand(policy, batch, gamma, double=double, ignore=ignore)
    output = policy.learn_mode.forward(batch)
    np.testing.assert_allclose(output["total_loss"].item(), loss, rtol=1e-5)
    np.testing.assert_allclose(output["priority"].numpy(), errors, rtol=1e-4, atol=1e-5)
    assert not any(getattr(each, "requires_grad", False) for each in output.values())
    assert set(policy.learn_mode.monitor_vars()) <= set(output)


def test_the_huber_loss_turns_linear_at_delta() -> None:
    batch = rows(reward=np.full(ROWS, 100, np.float32), done=np.ones(ROWS, np.float32))
    output = make(learn={"huber_delta": 5.0}).learn_mode.forward(batch)
    wanted = 5 * (output["priority"] - 2.5).mean()
    torch.testing.assert_close(output["total_loss"], wanted)


@pytest.mark.parametrize("wanted", [False, True])
def test_importance_weights_count_if_the_option_says_so(wanted: bool) -> None:
    weight = np.linspace(0.1, 1, ROWS, dtype=np.float32)
    policy = make(priority=wanted, priority_IS_weight=wanted)
    part_ways(policy)
    loss, _ = by_hand(
        policy, rows(weight=weight) if wanted else rows(), 0.97, double=True, ignore=False
    )
    output = policy.learn_mode.forward(rows(IS=weight))
    np.testing.assert_allclose(output["total_loss"].item(), loss, rtol=1e-5)


@pytest.mark.parametrize(
    "form",
    [
        {"done": bool},
        {"done": int, "reward": lambda value: np.array([value])},
        {"done": lambda value: np.array([bool(value)]), "action": lambda value: np.array([value])},
        {"action": np.int32, "reward": np.float64, "weight": lambda _: 1},
        dict.fromkeys(["obs", "next_obs", "action", "reward", "done"], torch.as_tensor),
    ],
    ids=["bool", "array", "arrays", "numbers", "tensors"],
)
def test_rows_of_every_form_are_the_same_batch(form: dict[str, Any]) -> None:
    one = make().learn_mode.forward(rows())
    data = [
        {**row, **{key: change(row.get(key)) for key, change in form.items()}}
        for row in rows().rows()
    ]
    kept = [dict(row) for row in data]
    two = make().learn_mode.forward(data)
    assert one["total_loss"].item() == pytest.approx(two["total_loss"].item(), rel=1e-6)
    assert two["priority"].shape == (ROWS,)
    assert all(a[key] is b[key] for a, b in zip(kept, data, strict=True) for key in a)
    buffer = NaiveReplayBuffer({})
    buffer.push(data)
    assert torch.isfinite(make().learn_mode.forward(buffer.sample_batch(ROWS))["total_loss"])


@pytest.mark.parametrize("correct", [True, False])
def test_the_documents_nstep_rows_are_learned_from(correct: bool) -> None:
    """Rewards as vectors, one for each step, mean what their discounted sums mean."""
    piece = [{**row, "done": bool(row["done"])} for row in rows().rows()]
    losses = []
    for summed in (False, True):
        policy = make(nstep=3)
        part_ways(policy)
        data = get_nstep_return_data(piece, 3, summed, correct, gamma=0.97)
        assert np.ndim(data[0]["reward"]) == (0 if summed else 1)
        assert ("value_gamma" in data[0]) == correct
        losses.append(policy.learn_mode.forward(data)["total_loss"].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_step_is_that_of_torch_adam() -> None:
    policy, batch = make(learn={"learning_rate": 0.01}), rows()
    twin = copy.deepcopy(policy.get_attribute("model"))
    target = copy.deepcopy(twin)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    tensors = batch.to_torch()
    for _ in range(3):
        with torch.no_grad():
            best = twin(tensors["next_obs"])["logit"].argmax(1, keepdim=True)
            value = target(tensors["next_obs"])["logit"].gather(1, best)[:, 0]
            y = tensors["reward"] + 0.97 * (1 - tensors["done"]) * value
        taken = twin(tensors["obs"])["logit"].gather(1, tensors["action"][:, None])[:, 0]
        loss = nn.functional.huber_loss(taken, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        policy.learn_mode.forward(batch)
    expected = torch.cat([each.detach().reshape(-1) for each in twin.parameters()])
    torch.testing.assert_close(parameters(policy), expected, rtol=1e-5, atol=1e-6)


def test_the_learning_rate_falls_linearly_and_goes_on_after_a_resume() -> None:
    learn = {"learning_rate": 0.01, "learning_rate_end": 0.2, "learning_rate_decay": 4}
    policy, rates = make(learn=learn), []
    for seed in range(6):
        state = copy.deepcopy(policy.learn_mode.state_dict())
        policy = make(learn=learn)
        policy.learn_mode.load_state_dict(state)
        rates.append(policy.learn_mode.forward(rows(seed))["cur_lr"])
    np.testing.assert_allclose(rates, [0.01, 0.008, 0.006, 0.004, 0.002, 0.002])
    constant = make(learn={**learn, "learning_rate_end": 1.0})  # a run resumed with another config
    constant.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert constant.learn_mode.forward(rows())["cur_lr"] == 0.01


@pytest.mark.parametrize("theta", [None, 0.25])
def test_the_target_follows(theta: float | None) -> None:
    policy = make(learn={"target_update_freq": 3, "target_theta": theta})
    target = policy.get_attribute("target_flat")
    start, followed = target.data.clone(), target.data.clone()
    for update in range(1, 4):
        policy.learn_mode.forward(rows())
        followed = torch.lerp(followed, parameters(policy), theta or 0.0)
        expected = start if update < 3 else parameters(policy)
        torch.testing.assert_close(target.data, expected if theta is None else followed)


def test_the_learning_state_goes_round_over_a_copy_to_the_target() -> None:
    learn = {"target_update_freq": 4}
    policy = make(learn=learn)
    for seed in range(5):
        policy.learn_mode.forward(rows(seed))
    torch.manual_seed(9)
    twin = DQNPolicy({"learn": learn}, model=DQN(OBS, ACTIONS, (8,)))
    assert not torch.equal(parameters(twin), parameters(policy))
    twin.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    for seed in range(5, 12):
        one, two = (each.learn_mode.forward(rows(seed)) for each in (policy, twin))
        assert torch.equal(one["total_loss"], two["total_loss"])
    assert torch.equal(parameters(twin), parameters(policy))


@pytest.mark.parametrize("mode", ["collect_mode", "eval_mode"])
def test_the_state_of_acting_is_the_model(mode: str) -> None:
    policy = make()
    torch.manual_seed(9)
    twin = DQNPolicy({}, model=DQN(OBS, ACTIONS, (8,)))
    getattr(twin, mode).load_state_dict(getattr(policy, mode).state_dict())
    assert torch.equal(parameters(twin), parameters(policy))


@pytest.mark.parametrize("saved", ["compiled", "plain", "old"])
def test_a_compiled_network_is_saved_and_loaded_by_plain_names(saved: str) -> None:
    """`torch.compile` puts `_orig_mod.` into every name; so do checkpoints that we once wrote."""
    torch.manual_seed(9)
    network = DQN(OBS, ACTIONS, (8,))
    compiled = DQNPolicy({}, model=torch.compile(copy.deepcopy(network), backend="eager"))
    plain = make()
    source, target = (plain, compiled) if saved == "plain" else (compiled, plain)
    source.learn_mode.forward(rows())
    state = source.learn_mode.state_dict()
    assert state["model"].keys() == state["target_model"].keys() == network.state_dict().keys()
    if saved == "old":
        for name in ("model", "target_model"):
            state[name] = {f"_orig_mod.{key}": value for key, value in state[name].items()}
    target.learn_mode.load_state_dict(state)
    target.eval_mode.load_state_dict(source.eval_mode.state_dict())
    assert torch.equal(parameters(source), parameters(target))


def test_documented_defaults() -> None:
    config = DQNPolicy.default_config()
    learn, collect, eps = config["learn"], config["collect"], config["other"]["eps"]
    assert (learn["update_per_collect"], learn["batch_size"]) == (3, 64)
    assert (learn["learning_rate"], learn["target_update_freq"]) == (1e-3, 100)
    assert not learn["ignore_done"]
    assert (collect["n_sample"], collect["unroll_len"]) == (8, 1)
    assert (eps["type"], eps["start"], eps["end"], eps["decay"]) == ("exp", 0.95, 0.1, 10_000)
    assert (config["nstep"], config["discount_factor"]) == (1, 0.97)
    assert NaiveReplayBuffer({}).replay_buffer_size == 10_000
    base = {"on_policy", "cuda", "multi_gpu", "priority", "priority_IS_weight", "traj_len_inf"}
    assert base | {"model", "learn", "collect", "eval", "other"} <= set(config)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("policy.other.replay_buffer.replay_buffer_size=63", "learn.batch_size: must be <= 63"),
        ("policy.multi_gpu=true", "multi_gpu: dqn learns in one process"),
        ("policy.collect.unroll_len=2", "collect.unroll_len: dqn learns from single steps"),
    ],
)
def test_options_at_odds_are_refused(override: str, told: str) -> None:
    named = {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}}
    with pytest.raises(ConfigError, match=f"policy.{told}"):
        compile_config(named, overrides=[override])


def test_the_configured_model_is_built_and_a_given_one_is_used() -> None:
    model = DQN(OBS, ACTIONS, (8,))
    assert make(model).get_attribute("model") is model
    built = DQNPolicy({"model": {"type": "dqn", "obs_shape": OBS, "action_shape": ACTIONS}})
    assert built.get_attribute("model").q(torch.zeros(1, OBS)).shape == (1, ACTIONS)
    assert built.default_model() == ("dqn", [])


# ---- acting


def observations(count: int = 6) -> EnvBatch[Any]:
    rng = np.random.default_rng(1)
    return EnvBatch(np.arange(count), rng.normal(size=(count, OBS)).astype(np.float32))


def test_greedy_acting_repeats_itself_and_subsets_keep_their_ids() -> None:
    policy, obs = make(), observations()
    one, two = (policy.eval_mode.forward(obs).value["action"] for _ in range(2))
    assert one.tolist() == two.tolist()
    some = policy.collect_mode.forward({4: obs[4], 1: obs[1]}, eps=0.0)
    assert list(some) == [4, 1]
    assert [int(some[i]["action"]) for i in (4, 1)] == [one[4], one[1]]
    assert isinstance(some.value["logit"], np.ndarray)


@pytest.mark.parametrize("by_numpy", [True, False])
def test_learning_is_seen_by_those_who_act(by_numpy: bool) -> None:
    policy = make(learn={"learning_rate": 0.5}, collect={"act_by_numpy": by_numpy})
    obs = observations(256)
    before = policy.eval_mode.forward(obs).value["action"].copy()
    for _ in range(5):
        policy.learn_mode.forward(rows())
    assert not np.array_equal(before, policy.eval_mode.forward(obs).value["action"])


def test_epsilon_by_env_steps() -> None:
    setting = make().command_mode.get_setting_collect
    assert setting({"envstep": 0})["eps"] == pytest.approx(0.95)
    assert setting({"envstep": 10_000})["eps"] == pytest.approx(0.41270, abs=1e-5)


@pytest.mark.parametrize(
    ("ids", "eps", "exploring"),
    [
        (range(6), {0: 1.0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0}, 0),
        ((5, 2), {2: 1.0, 5: 0.0, 0: 1.0}, 2),
        (range(6), [0, 0, 0, 0, 0, 1.0], 5),
        ((3, 4), np.array([1.0, 0.0]), 3),
    ],
)
def test_eps_per_environment(ids: Any, eps: Any, exploring: int) -> None:
    policy, obs = make(), observations()
    greedy = policy.eval_mode.forward(obs)
    drawn = [
        policy.collect_mode.forward({i: obs[i] for i in ids}, eps=eps).value["action"]
        for _ in range(60)
    ]
    for env_id, actions in zip(ids, np.array(drawn).T, strict=True):
        chosen = {int(greedy[env_id]["action"])}
        assert set(actions) == (set(range(ACTIONS)) if env_id == exploring else chosen)


class Named(nn.Module):
    """A minimal model: `forward` to a dict with `logit`."""

    def __init__(self, layers: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = layers or nn.Linear(OBS, ACTIONS)

    def forward(self, obs: Any) -> dict[str, Any]:
        return {"logit": self.layers(obs)}


def test_a_model_with_forward_alone() -> None:
    policy = make(Named())
    losses = [policy.learn_mode.forward(rows())["total_loss"].item() for _ in range(60)]
    assert losses[-1] < losses[0]
    logit = policy.eval_mode.forward(observations()).value["logit"]
    expected = heads(policy.get_attribute("model"), observations().value)[0]
    np.testing.assert_allclose(logit, expected, rtol=1e-5, atol=1e-6)


def test_a_plain_network_is_a_model() -> None:
    """Its bare output is the values of the actions."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(OBS, 8), nn.ReLU(), nn.Linear(8, ACTIONS))
    bare, named = make(layers), make(Named(copy.deepcopy(layers)))
    for _ in range(3):
        one, two = (each.learn_mode.forward(rows())["total_loss"] for each in (bare, named))
        assert torch.equal(one, two)
    one, two = (each.eval_mode.forward(observations()).value["logit"] for each in (bare, named))
    np.testing.assert_array_equal(one, two)


class Nested(Named):
    def forward(self, obs: Any) -> dict[str, Any]:
        return super().forward(torch.cat([obs["own"], obs["map"]["near"]], 1))


def test_nested_observations_of_a_model_of_ones_own() -> None:
    def nested(array: Any) -> dict[str, Any]:
        return {"own": array, "map": {"near": array[:, :2] * 2}}

    model, flat = Nested(nn.Linear(OBS + 2, ACTIONS)), rows()
    policy, twin = make(model), make(copy.deepcopy(model))
    columns = {"obs": nested(flat["obs"]), "next_obs": nested(flat["next_obs"])}
    batch = Batch({**flat.columns, **columns})
    before = parameters(policy)
    one = policy.learn_mode.forward(batch)["total_loss"]
    two = twin.learn_mode.forward(batch.rows())["total_loss"]
    assert torch.equal(one, two)
    assert torch.isfinite(one)
    assert not torch.equal(before, parameters(policy))
    obs = observations()
    acted = policy.collect_mode.forward(obs.with_value(nested(obs.value)), eps=0.0)
    assert acted.value["action"].shape == (6,)


# ---- losses that are not finite


def nan_rows() -> Batch:
    batch = rows()
    batch.columns["reward"][0] = np.nan
    return batch


def learner(policy: DQNPolicy, freq: int) -> BaseLearner:
    engine = BaseLearner(BaseLearnerConfig(hook=[]), policy.learn_mode)
    engine.register_hook(LogShowHook(freq=freq))
    return engine


def train_on_nan(engine: BaseLearner, times: int) -> None:
    for _ in range(times):
        engine.train(nan_rows())


def test_a_loss_that_is_nan_is_left_out_and_counted() -> None:
    policy = make()
    engine = learner(policy, 4)
    engine.train(rows())
    before = parameters(policy)
    train_on_nan(engine, 2)
    assert torch.equal(before, parameters(policy))
    engine.train(rows())
    assert not torch.equal(before, parameters(policy))
    assert engine.monitor["skipped_updates"] == policy.get_attribute("skipped_updates") == 2
    assert np.isfinite(engine.monitor["total_loss"])


@pytest.mark.parametrize(("good", "at"), [(2, 8), (5, 16), (150, 228)])
def test_three_such_losses_in_a_row_end_the_training(good: int, at: int) -> None:
    """Whatever hooks there are; at once in the beginning, later within 100 updates."""
    policy = make()
    engine = BaseLearner(BaseLearnerConfig(hook=[]), policy.learn_mode)
    for data in (rows(), nan_rows(), nan_rows(), *[rows()] * (good - 1)):
        engine.train(data)
    before = parameters(policy)
    with pytest.raises(NonFiniteError, match="the loss of 3 consecutive updates is not finite"):
        train_on_nan(engine, 100)
    assert engine.last_iter == at
    assert torch.equal(before, parameters(policy))


def test_a_short_training_ends_with_that_error_too() -> None:
    engine = BaseLearner(BaseLearnerConfig(hook=[]), make().learn_mode)
    train_on_nan(engine, 3)
    with pytest.raises(NonFiniteError, match="the loss of 3 consecutive updates"):
        engine.call_hook("after_run")


def test_a_gradient_that_is_never_finite_ends_the_training() -> None:
    """The loss is finite; the optimizer skips all updates."""
    policy = make()
    engine = BaseLearner(BaseLearnerConfig(hook=[]), policy.learn_mode)
    policy.get_attribute("optimizer").register_step_pre_hook(
        lambda optimizer, args, kwargs: policy.get_attribute("flat").grad.fill_(np.inf)
    )
    for _ in range(3):
        engine.train(rows())
    with pytest.raises(NonFiniteError, match="the gradient of 4 consecutive updates"):
        engine.train(rows())


def test_losses_are_counted_across_a_checkpoint() -> None:
    first, second = make(), make()
    engine = BaseLearner(BaseLearnerConfig(hook=[]), first.learn_mode)
    train_on_nan(engine, 2)
    resumed = BaseLearner(BaseLearnerConfig(hook=[]), second.learn_mode)
    resumed.load_state_dict(engine.state_dict())
    with pytest.raises(NonFiniteError, match="the loss of 3 consecutive updates"):
        train_on_nan(resumed, 2)


def test_the_batch_that_ended_a_training_can_be_looked_at(tmp_path: Path) -> None:
    run = Run(tmp_path, seed_everything(0))
    engine = BaseLearner(BaseLearnerConfig(hook=[]), make().learn_mode, run=run)
    with pytest.raises(NonFiniteError) as caught:
        train_on_nan(engine, 4)
    run.finish("failed")
    kept = Path(caught.value.context["batch"])
    assert kept.parent == run.folder.log
    assert str(kept) in caught.value.hint
    assert np.isnan(read_state(kept)["reward"]).sum() == 1


@pytest.mark.parametrize(
    ("data", "got"),
    [([(0, 1)], "list of tuple"), ([], "empty list"), ({"obs": 0}, "dict"), (None, "NoneType")],
)
def test_what_are_no_samples_is_refused_by_name(data: Any, got: str) -> None:
    with pytest.raises(SchemaError, match=rf"a Batch or a list of samples .*, got {got}"):
        make().learn_mode.forward(data)


@pytest.mark.parametrize("nstep", [1, 3])
def test_a_list_of_transitions_is_no_block(nstep: int) -> None:
    """B12: the error names what is expected, and the function for lists."""
    with pytest.raises(SchemaError, match=r"expected a block of columns .*, got list") as told:
        make(nstep=nstep).collect_mode.get_train_sample(rows().rows())
    assert "get_nstep_return_data" in told.value.hint


@pytest.mark.parametrize("nstep", [1, 3])
def test_rewards_of_several_objectives_are_refused(nstep: int) -> None:
    """The loss would take them for the rewards of several steps."""
    columns = {"reward": np.zeros((4, 2, 2), np.float32), "end": np.zeros((4, 2), bool)}
    with pytest.raises(UsageError, match=r"one reward per step, .* rewards \[2\]"):
        make(nstep=nstep).collect_mode.get_train_sample(Batch(columns))


def test_a_misspelt_eps_is_refused() -> None:
    obs = {0: np.zeros(OBS, np.float32)}
    with pytest.raises(UsageError, match=r"unknown argument 'epsilon' .*; expected 'eps'"):
        make().collect_mode.forward(obs, epsilon=0.5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Named, "expected an instance, got the class Named"),
        (3, "expected a network .*, got int"),
        (lambda obs: obs, "expected a network .*, got function"),
        (nn.Linear(OBS, 1), r"Linear returns values \[2, 1\].*; expected values \[2, 4\]"),
        (nn.Sequential(nn.Linear(OBS, 4), nn.Flatten(0)), r"Sequential returns values \[8\]"),
        (nn.Identity(), r"Identity returns values \[2, 3\]"),
    ],
    ids=["class", "number", "function", "too few", "in one row", "observations"],
)
def test_what_is_not_a_network_of_the_actions_is_refused(given: Any, text: str) -> None:
    with pytest.raises(UsageError, match=f"model: {text}") as caught:
        DQNPolicy({"model": {"obs_shape": OBS, "action_shape": ACTIONS}}, model=given)
    assert ("pass Named(" if given is Named else "[B, A]") in caught.value.hint


def test_a_look_at_a_network_leaves_no_trace() -> None:
    network = nn.Sequential(nn.BatchNorm1d(OBS), nn.Dropout(), nn.Linear(OBS, ACTIONS))
    before = copy.deepcopy(network.state_dict())
    torch.manual_seed(0)
    drawn = torch.rand(3)
    torch.manual_seed(0)
    DQNPolicy({"model": {"obs_shape": OBS, "action_shape": ACTIONS}}, model=network)
    assert torch.equal(torch.rand(3), drawn)
    assert network.training
    after = network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_a_network_cannot_act_on_is_told_with_its_shape() -> None:
    for network in (DQN(OBS, ACTIONS, (8,)), nn.Linear(OBS, ACTIONS)):
        with pytest.raises((ValueError, RuntimeError)) as told:
            make(network).eval_mode.forward({0: np.zeros(OBS - 1, np.float32)})
        assert told.value.__notes__ == [
            f"raised by {type(network).__name__} acting on observations: value [1, 2]"
        ]
