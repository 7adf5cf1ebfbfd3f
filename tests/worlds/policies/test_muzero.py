"""MuZero: targets by hand, ends of episodes, searching again, spaces that it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, NonFiniteError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore.task import OnlineRLContext
from dicore_plugins.buffers import SequenceReplayBuffer
from dicore_plugins.middleware import OffPolicyLearner
from dicore_plugins.policies import create_policy
from dicore_worlds import MuZeroNet, MuZeroPolicy, two_hot_nll
from dicore_worlds.policies.muzero import _sequences
from tests.plugins.policies.resuming import same_after_resume

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
ACTION = spaces.Discrete(3, start=2)
STEPS, NSTEP, GAMMA = 6, 2, 0.9


def made(
    observation: Any = VECTOR,
    action: Any = ACTION,
    kind: str = "muzero",
    *,
    value_prefix: int | None = None,
    **learn: Any,
) -> Any:
    seed_everything(0)
    prefix = {} if value_prefix is None else {"value_prefix": value_prefix}
    return create_policy(
        {
            "type": kind,
            "nstep": NSTEP,
            "discount_factor": GAMMA,
            "model": {"latent": 8, "units": 16, "cnn_depth": 2} | prefix,
            "planner": {"simulations": 4},
            "learn": learn,
            "other": {"replay_buffer": {"unroll_len": STEPS}},
        },
        observation_space=observation,
        action_space=action,
    )


def sequences(ends: tuple[tuple[int, bool], ...]) -> Batch:
    """Returns sequences of 6 steps, which end after some steps: terminated, or truncated."""
    rng, count = np.random.default_rng(0), len(ends)
    shape = (count, STEPS)
    obs = rng.uniform(-1, 1, (count, STEPS + 1, 4)).astype(np.float32)
    reward = rng.standard_normal((count, STEPS + NSTEP)).astype(np.float32)
    length = np.array([steps for steps, _ in ends])[:, None]
    terminated = np.array([over for _, over in ends])[:, None]
    row = np.arange(STEPS)
    bridge = np.minimum(row + NSTEP, length) - row - 1  # steps to the last one of a bridge
    total = np.where(bridge > 0, reward[:, :-2] + GAMMA * reward[:, 1:-1], reward[:, :-2])
    policy = rng.random((*shape, 3), np.float32)
    return Batch(
        {
            "obs": obs[:, :-1],
            "next_obs": obs[:, 1:],
            "action": rng.integers(2, 5, shape),
            "reward": total.astype(np.float32),
            "done": (terminated & (row + bridge == length - 1)).astype(np.float32),
            "value_gamma": (GAMMA ** (bridge + 1)).astype(np.float32),
            "bridge": bridge.clip(0),
            "search_policy": policy / policy.sum(-1, keepdims=True),
            "step_reward": reward[:, :STEPS],
            "step_done": (terminated & (row == length - 1)).astype(np.float32),
            "valid": row < length,
        },
        count,
    )


def parameters(policy: Any) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = policy.learn_mode.state_dict()["model"]
    return found


def test_values_bootstrap_after_n_steps_from_the_target_network() -> None:
    policy, batch = made(), sequences(((6, False), (4, True), (3, False)))
    for parameter in policy.get_attribute("model").parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)  # the network that learns is another
    copied = made().get_attribute("model")
    with torch.no_grad():
        after = copied.mean(
            copied.predict(copied.represent(torch.from_numpy(batch["next_obs"]).flatten(0, 1)))[1]
        ).numpy().reshape(3, STEPS)  # fmt: skip
    found, kept = policy._values(batch.to_torch())
    assert kept["valid"].shape == (3, STEPS - NSTEP + 1)
    for row, step in ((0, 0), (0, 4), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2)):
        end = (STEPS, 4, 3)[row]
        last = min(step + NSTEP, end) - 1
        wanted = batch["step_reward"][row, step]
        if last > step:
            wanted = wanted + GAMMA * batch["step_reward"][row, step + 1]
        if not (row == 1 and last == 3):
            wanted = wanted + GAMMA ** (last - step + 1) * after[row, last]
        assert found[row, step].item() == pytest.approx(float(wanted), abs=1e-4), (row, step)


@pytest.mark.parametrize("terminated", [True, False])
def test_what_follows_an_end_is_not_learned(terminated: bool) -> None:
    states = []
    for spoilt in (False, True):
        policy, batch = made(), sequences(((3, terminated), (5, False)))
        if spoilt:
            for key in ("obs", "search_policy", "step_reward", "reward"):
                batch[key][0, 3:] = 5
        torch.manual_seed(0)
        policy.learn_mode.forward(batch)
        states.append(parameters(policy))
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]), key


def test_only_a_terminal_state_is_worth_nothing() -> None:
    """After a truncation nothing is known, so its steps have no loss; after a terminal one, 0."""
    losses = {}
    for terminated in (True, False):
        policy, batch = made(), sequences(((1, terminated),))
        model = policy.get_attribute("model")
        with torch.no_grad():
            model.reward.bias += torch.linspace(-1, 1, len(model.bins))  # it expects large ones
        losses[terminated] = policy.learn_mode.forward(batch)["reward_loss"]
    assert losses[True] > losses[False] + 1


@pytest.mark.parametrize("kind", ["muzero", "gumbel_muzero", "efficient_zero"])
def test_every_step_of_an_episode_is_learned(kind: str) -> None:
    """Another reward or policy of any step changes the losses, those of the last one, too."""
    policy, count = made(kind=kind), 15
    for parameter in policy.get_attribute("model").parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)  # the first outputs are all alike
    step = np.arange(count + NSTEP)  # the last steps wait for those after them
    end = (step == count - 1)[:, None]
    seen = np.zeros((len(step), 1, 4), np.float32)
    block = {
        "obs": seen, "next_obs": seen, "action": np.full((len(step), 1), 2),
        "reward": np.zeros((len(step), 1), np.float32), "done": end.astype(np.float32), "end": end,
        "env_id": np.zeros((len(step), 1), np.int64), "number": step[:, None],
    }  # fmt: skip
    buffer = SequenceReplayBuffer(policy._cfg.other.replay_buffer, rng=np.random.default_rng(0))
    buffer.push(policy._get_train_sample(Batch(block, len(step))))
    assert buffer.count() == count
    batch = buffer.sample_batch(300, replace=True)

    def losses(changed: dict[str, Any]) -> list[float]:
        torch.manual_seed(0)
        given = Batch({**batch.columns, **changed}, len(batch))
        found = policy._losses(_sequences(given.to_torch()))
        return [found[f"{each}_loss"].item() for each in ("policy", "value", "reward")]

    before = losses({})
    for each in range(count):
        at = batch["number"] == each
        preferred = np.where(at[..., None], np.eye(3, dtype=np.float32)[0], batch["search_policy"])
        changed = losses({
            "search_policy": preferred, "reward": batch["reward"] + at,
            "step_reward": batch["step_reward"] + at,
        })  # fmt: skip
        assert all(abs(old - new) > 1e-5 for old, new in zip(before, changed, strict=True)), each


def test_value_prefixes_are_sums_since_the_last_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of rewards by a loop over the steps of each sequence, with restarts after two."""
    seed_everything(0)
    policy, batch = made(value_prefix=2), sequences(((6, False), (3, True)))
    net: Any = policy.get_attribute("model")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        wanted = 0.0
        for row, steps in ((0, STEPS - NSTEP), (1, STEPS - NSTEP)):
            state = net.represent(torch.from_numpy(batch["obs"][row, :1]))
            total, memory = 0.0, None
            for k in range(steps):
                if k % 2 == 0:
                    total, memory = 0.0, None
                action = torch.from_numpy(batch["action"][row, k : k + 1] - 2)
                if not batch["valid"][row, k]:
                    action = torch.zeros(1, dtype=torch.int64)
                state, logit, memory = net.follow_on(state, action, memory)
                total += float(batch["step_reward"][row, k]) * bool(batch["valid"][row, k])
                wanted += float(two_hot_nll(logit, torch.tensor([total]), net.bins)) / steps / 2
    monkeypatch.setattr(torch, "randint_like", lambda like, _: torch.zeros_like(like))
    found = policy._losses(batch.to_torch())["reward_loss"]
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-4)


def test_a_share_of_policies_is_searched_again() -> None:
    policy, batch = made(reanalyze_ratio=0.5), sequences(((6, False),) * 4).to_torch()
    _, first = policy._values(batch)
    found = policy._policies(first)
    assert torch.equal(found[2:], first["search_policy"][2:])
    assert not torch.allclose(found[:2], first["search_policy"][:2])
    assert torch.allclose(found.sum(-1), torch.ones(found.shape[:2]))


def test_a_buffer_keeps_the_policies_that_were_searched_again() -> None:
    """One update searches the first half of a batch again; nothing else is changed."""
    given = {"type": "muzero", "nstep": NSTEP, "learn": {
        "reanalyze_ratio": 0.5, "batch_size": 4, "update_per_collect": 1,
    }}  # fmt: skip
    cfg = compile_config({"env": "cartpole", "policy": given})
    policy = made(reanalyze_ratio=0.5)
    buffer: Any = SequenceReplayBuffer({"unroll_len": STEPS})
    columns = sequences(((6, False),) * 8).columns
    columns.pop("valid")
    columns["end"] = np.tile(np.arange(STEPS) == STEPS - 1, (8, 1))
    columns["env_id"] = np.tile(np.arange(8)[:, None], STEPS)
    ids = buffer.push(
        Batch({key: each.reshape(48, *each.shape[2:]) for key, each in columns.items()})
    )
    before = buffer.samples()
    learner: Any = OffPolicyLearner(cfg.cfg, policy.learn_mode, buffer)
    learner(OnlineRLContext(env_step=64))
    drawn, after = learner.learner.latest_data, buffer.samples()
    at = (before["search_policy"] != after["search_policy"]).any(1).reshape(8, STEPS)
    searched = [ids.index(int(each)) // STEPS for each in drawn["replay_unique_id"][:2]]
    kept = STEPS - NSTEP + 1
    assert at[searched, :kept].all()
    at[searched, :kept] = False
    assert not at.any()
    assert all(
        np.array_equal(before[key], after[key]) for key in before.columns if key != "search_policy"
    )


def test_the_consistency_loss_brings_states_nearer() -> None:
    policy, batch = made(kind="efficient_zero"), sequences(((6, False),) * 4)
    losses = [float(policy.learn_mode.forward(batch)["consistency_loss"]) for _ in range(60)]
    assert losses[-1] < losses[0] - 0.3


def test_evaluation_repeats_and_collecting_explores() -> None:
    policy = made()
    obs = EnvBatch.of({each: VECTOR.sample() for each in range(8)})
    modes = policy.eval_mode, policy.collect_mode
    played = [[mode.forward(obs).value for _ in range(8)] for mode in modes]
    taken = [np.array([each["action"] for each in plays]) for plays in played]
    assert (taken[0] == taken[0][0]).all()
    assert len(np.unique(taken[1], axis=0)) > 1
    assert set(np.unique(taken)) <= {2, 3, 4}  # of the environment: they begin at 2
    with pytest.raises(UsageError, match="temperature"):
        policy.collect_mode.forward(obs, heat=1)


def test_images_are_seen_in_both_orders() -> None:
    first, last = MuZeroNet((3, 16, 16), 2, cnn_depth=2), MuZeroNet((16, 16, 3), 2, cnn_depth=2)
    last.load_state_dict(first.state_dict())
    image = torch.randint(0, 255, (2, 3, 16, 16), dtype=torch.uint8)
    assert torch.equal(first.represent(image), last.represent(image.permute(0, 2, 3, 1)))


def test_spaces_and_options_that_do_not_fit_are_refused() -> None:
    for action in (spaces.Box(-1, 1, (2,), np.float32), spaces.MultiDiscrete([2, 3])):
        with pytest.raises(ConfigError, match="'muzero' needs one discrete action"):
            made(action=action)
    for change, said in (
        ({"other": {"replay_buffer": {"unroll_len": 2}}}, "unroll_len"),
        ({"other": {"replay_buffer": {"padding": True}}}, "must be all"),
        ({"other": {"replay_buffer": {"stride": 9}}}, "must be <= 8"),
        ({"other": {"replay_buffer": {"beta": 0.2}}}, "beta: has no effect without priority"),
        ({"other": {"replay_buffer": {"newest": 65}}}, "must be <= learn.batch_size = 64"),
        ({"other": {"replay_buffer": {"type": "naive"}}}, "sequence"),
        ({"model": {"bins": 4}}, "odd"),
        ({"priority_IS_weight": True}, "priority_IS_weight"),
        ({"traj_len_inf": True}, "traj_len_inf"),
    ):
        with pytest.raises(ConfigError, match=said):
            create_policy(
                {"type": "muzero", "nstep": 2, **change},
                observation_space=VECTOR, action_space=ACTION,
            )  # fmt: skip


def test_another_network_is_refused() -> None:
    with pytest.raises(UsageError, match="MuZeroNet"):
        MuZeroPolicy(made()._cfg, model=torch.nn.Linear(4, 3))


@pytest.mark.parametrize("kind", ["muzero", "gumbel_muzero"])
def test_a_network_of_nan_never_acts(kind: str) -> None:
    policy = made(kind=kind)
    for parameter in policy.get_attribute("model").parameters():
        parameter.data.fill_(float("nan"))
    for mode in (policy.collect_mode, policy.eval_mode):
        with pytest.raises(NonFiniteError, match="NaN"):
            mode.forward({0: np.zeros(4, np.float32)})


def test_terminations_can_be_ignored() -> None:
    batch, found = sequences(((4, True),)).to_torch(), []
    for ignored in (False, True):
        policy = made(ignore_done=ignored)
        policy._target_model.value.bias += torch.linspace(-1, 1, len(policy._model.bins))
        found.append(policy._values(batch)[0])
    kept, ignored = found
    assert torch.equal(kept[0, :2], ignored[0, :2])
    assert not torch.equal(kept[0, 2:4], ignored[0, 2:4])


def test_steps_of_others_are_refused_before_a_run_folder(tmp_path: Path) -> None:
    for kind in ("muzero", "dreamer"):
        with pytest.raises(ConfigError, match="own steps"):
            launch(
                env="cartpole", policy=kind, exp_name=str(tmp_path / "run"),
                overrides=[
                    "pipeline.type=serial_offline", "pipeline.dataset.path=x.npz",
                    "pipeline.max_train_iter=5",
                ],
            )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """It is stopped amid episodes; what was searched again is in the buffer of the checkpoint."""
    options = [
        "policy.model.latent=8", "policy.model.units=8", "policy.planner.simulations=3",
        "policy.learn.batch_size=4", "policy.learn.update_per_collect=2",
        "policy.learn.reanalyze_ratio=0.5", "policy.learn.target_update_freq=3",
        "policy.collect.n_sample=16", "env.collector_env_num=2",
    ]  # fmt: skip
    steps = 208  # a collect ends after half of them
    one, two = same_after_resume("efficient_zero", "cartpole", options, tmp_path, steps)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_presets_fit_their_task() -> None:
    pytest.importorskip("dicore_contrib_envs")
    for preset, kind in (
        ("cartpole_gumbel_muzero", "gumbel_muzero"),
        ("cartpole_muzero", "muzero"),
    ):
        compiled = compile_config(preset=preset)
        assert (compiled.policy.type, compiled.env.type) == (kind, "cartpole")
