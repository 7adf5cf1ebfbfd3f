"""Checkpoints that CleanRL, rsl_rl, skrl and tianshou wrote: equal actions, or what differs.

`make_checkpoints.py` made what is in `recorded`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from safetensors.torch import save_file

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.request import TrainRequest
from dicore_compat.weights.convert import compare_actions, peer_weights
from dicore_compat.weights.peers import networks_of
from dicore_tools.sessions import create

HERE = Path(__file__).parent / "recorded"
PPO = ["policy.action_scaling=false", "policy.model.value_norm=false"]
DQN = ["policy.model.layer_norm=false"]
PEERS: dict[str, tuple[str, str, str, list[str]]] = {
    "cleanrl_ppo": ("pendulum", "ppo", "tanh", PPO),
    "cleanrl_dqn": ("cartpole", "dqn", "relu", DQN),
    "rsl_rl_ppo": ("pendulum", "ppo", "elu", PPO),
    "skrl_ppo": ("pendulum", "ppo", "elu", PPO),
    "tianshou_dqn": ("cartpole", "dqn", "relu", DQN),
    "tianshou_sac": ("pendulum", "sac", "relu", ["policy.model.critic_hidden_size_list=[16,16]"]),
    "tianshou_ppo": ("pendulum", "ppo", "tanh", ["policy.model.value_norm=false"]),
}
"""Environment, algorithm, activation and options of each checkpoint."""


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Makes a run with the network of a checkpoint."""

    def make(name: str, activation: str = "", sizes: str = "[16, 16]", *more: str) -> Path:
        env, policy, theirs, options = PEERS[name]
        part = "actor" if policy == "sac" else "encoder"
        model = [f"policy.model.{part}_hidden_size_list={sizes}",
                 f"policy.model.activation={activation or theirs}"]  # fmt: skip
        request = TrainRequest(env=env, policy=policy, exp_name=str(tmp_path / "run"),
                               overrides=[*model, *options, *more])  # fmt: skip
        return create(request).path

    return make


def words(name: str, run: Path, *, norm: bool = True, compare: bool = True) -> list[str]:
    given = ["import-weights", str(HERE / f"{name}.pt"), "--run", str(run)]
    if norm and (HERE / f"{name}_norm.npz").exists():
        given += ["--obs-norm", str(HERE / f"{name}_norm.npz")]
    return [*given, *(["--compare", str(HERE / f"{name}.npz")] if compare else [])]


@pytest.mark.parametrize("name", [*PEERS])
def test_actions_are_equal_on_256_observations(
    name: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(name)
    capsys.readouterr()
    assert main([*words(name, run), "--json"]) == 0
    out, err = capsys.readouterr()
    peer = name.rpartition("_")[0]
    assert f"256 actions are equal to those of {peer}" in err
    found = json.loads(out)
    assert found["kept"] == found["unused"] == []
    assert Path(found["checkpoint"]).is_dir()
    assert ("are not clipped" in err) == (peer == "skrl")
    assert len(np.unique(np.load(HERE / f"{name}.npz")["action"])) > 1


def test_another_activation_is_named_with_its_layer(
    made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made("rsl_rl_ppo", "tanh")
    assert main(words("rsl_rl_ppo", run)) == 2
    err = capsys.readouterr().err
    assert "actions differ from those of rsl_rl on " in err
    assert "after layer actor_state_dict.mlp.0 there is elu: set policy.model.activation=elu" in err
    assert not [*(run / "ckpt").glob("imported*")], "no checkpoint that acts otherwise is left"


def test_a_normalisation_between_layers_is_named(
    made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made("tianshou_dqn", "", "[16, 16]", "policy.model.layer_norm=true")
    assert main(words("tianshou_dqn", run)) == 2
    assert "set policy.model.layer_norm=false" in capsys.readouterr().err


@pytest.mark.parametrize(("sizes", "words_of_error"), [
    ("[16]", ["layer network.2: the network of the run has no such layer",
              "encoder_hidden_size_list=[16, 16]"]),
    ("[16, 16, 16]", ["layer model.encoder.layers.2: the network of cleanrl has no such layer"]),
])  # fmt: skip
def test_a_network_of_another_depth_is_refused(
    sizes: str, words_of_error: list[str], made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made("cleanrl_dqn", "", sizes)
    assert main([*words("cleanrl_dqn", run, compare=False), "--partial"]) == 2
    err = capsys.readouterr().err
    assert all(each in err for each in words_of_error)
    assert not [*(run / "ckpt").glob("imported*")]


def test_a_normalisation_between_layers_is_refused_without_actions(
    made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made("tianshou_dqn", "", "[16, 16]", "policy.model.layer_norm=true")
    assert main(words("tianshou_dqn", run, compare=False)) == 2
    assert "set policy.model.layer_norm=false" in capsys.readouterr().err


def test_an_earlier_import_stays_if_another_fails(made: Any, tmp_path: Path) -> None:
    run = made("cleanrl_dqn")
    assert main(words("cleanrl_dqn", run)) == 0
    [kept] = (run / "ckpt").glob("imported*")
    before = (kept / "tensors.safetensors").read_bytes()
    with np.load(HERE / "cleanrl_dqn.npz") as data:
        np.savez(tmp_path / "other.npz", obs=data["obs"], action=1 - data["action"])
    given = [*words("cleanrl_dqn", run, compare=False), "--compare", str(tmp_path / "other.npz")]
    assert main(given) == 2
    assert [*(run / "ckpt").glob("imported*")] == [kept]
    assert (kept / "tensors.safetensors").read_bytes() == before


OBS, ACTION = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)


@pytest.mark.parametrize(("obs", "action", "error"), [
    (OBS, ACTION * [[1], [np.inf], [1], [1]], "action has values that are not finite"),
    (OBS, ACTION * np.nan, "action has values that are not finite"),
    (OBS * np.nan, ACTION, "obs has values that are not finite"),
    (OBS, ACTION[:1], "4 observations, but 1 actions"),
    (OBS[:1], ACTION, "1 observations, but 4 actions"),
    (OBS[:0], ACTION[:0], "with at least one row"),
    (OBS, np.ones((4, 2)), r"action is \[4, 2\], expected \[N, 1\]"),
    (np.ones((4, 5)), ACTION, r"obs is \[4, 5\], expected \[N, 3\]"),
    (np.ones(1), ACTION, r"obs is \[1\]"),
    (OBS, np.array(["x"] * 4), "action has values that are not finite numbers"),
    (OBS, np.float32(1), "action is "),
])  # fmt: skip
def test_recorded_actions_that_cannot_be_compared(
    obs: Any, action: Any, error: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", obs=obs, action=action)
    with pytest.raises(UsageError, match=error):
        compared(tmp_path / "a.npz", lambda obs: np.ones(1))


def test_a_file_that_is_no_npz_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "torn.npz").write_bytes((HERE / "skrl_ppo.npz").read_bytes()[:200])
    np.save(tmp_path / "a.npy", ACTION)
    for name in ("torn.npz", "a.npy", "missing.npz"):
        with pytest.raises(UsageError, match=r"expected an \.npz with obs and action"):
            compared(tmp_path / name, lambda obs: np.ones(1))


def test_actions_are_compared_within_their_bounds(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", obs=OBS, action=ACTION * 5)
    assert compared(tmp_path / "a.npz", lambda obs: np.array([7.0])) == 4
    with pytest.raises(UsageError, match="differ"):
        compared(tmp_path / "a.npz", lambda obs: np.array([np.nan]))


def test_the_tolerance_is_a_share_of_the_range(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", obs=OBS, action=ACTION * 0)
    assert compared(tmp_path / "a.npz", lambda obs: np.array([1e-4])) == 4
    with pytest.raises(UsageError, match="differ"):
        compared(tmp_path / "a.npz", lambda obs: np.array([1e-4]), bound=0.1)


def compared(file: Path, act: Any, bound: float = 2.0) -> int:
    weights = peer_weights(HERE / "skrl_ppo.pt")
    assert weights is not None
    spaces = Box(-9, 9, (3,)), Box(-bound, bound, (1,))
    return compare_actions(act, file, weights, {}, spaces)


def test_statistics_that_are_missing_are_asked_for(
    made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words("cleanrl_ppo", made("cleanrl_ppo"), norm=False)) == 2
    err = capsys.readouterr().err
    assert "layer actor_mean.0 gets other numbers" in err
    assert "--obs-norm" in err


def test_actions_in_other_units_are_named(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(words("skrl_ppo", made("skrl_ppo", "", "[16, 16]", "policy.action_scaling=true"))) == 2
    )
    assert "set policy.action_scaling" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cleanrl_ppo", "rsl_rl_ppo", "skrl_ppo"])
def test_a_run_that_scales_actions_is_refused(
    name: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(name, "", "[16, 16]", "policy.action_scaling=true")
    assert main(words(name, run, compare=False)) == 2
    assert "set policy.action_scaling=false" in capsys.readouterr().err
    assert not [*(run / "ckpt").glob("imported*")]
    run = made(name)
    assert main(words(name, run, compare=False)) == 0


def test_actions_of_another_number_are_named_with_their_layer(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = torch.load(HERE / "cleanrl_ppo.pt", weights_only=True)  # noqa: TID251 - weights only
    tensors |= {"actor_mean.4.weight": torch.ones(2, 16), "actor_mean.4.bias": torch.ones(2)}
    torch.save(tensors, tmp_path / "a.pt")
    assert main(["import-weights", str(tmp_path / "a.pt"), "--run", str(made("cleanrl_ppo"))]) == 2
    assert "layer actor_mean.4 gives 2 actions, but the run has 1" in capsys.readouterr().err


def test_observations_of_another_size_are_named_with_their_layer(
    made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words("cleanrl_dqn", made("cleanrl_ppo"), compare=False)) == 2
    err = capsys.readouterr().err
    assert "layer network.0 takes 4 numbers, but an observation of the run has 3" in err


def test_a_layer_of_another_size_is_named(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("tianshou_dqn", made("tianshou_dqn", "", "[16, 32]"))) == 2
    err = capsys.readouterr().err
    assert "model.encoder.layers.1.weight is [32, 16] here" in err


def test_normalised_values_become_returns() -> None:
    """The critic of skrl with its statistics, by hand."""
    file = torch.load(HERE / "skrl_ppo.pt", weights_only=True)  # noqa: TID251 - weights only
    x = torch.tensor([[0.1, 0.2, 0.3]])
    seen, value = file["observation_preprocessor"], file["value_preprocessor"]
    y = (x - seen["running_mean"]) / (seen["running_variance"].sqrt() + 1e-8)
    net = file["value"]
    for i in (0, 2, 4):
        y = y.float() @ net[f"net_container.{i}.weight"].T + net[f"net_container.{i}.bias"]
        y = torch.nn.functional.elu(y) if i < 4 else y
    wanted = y * value["running_variance"].sqrt() + value["running_mean"]
    ours = peer_weights(HERE / "skrl_ppo.pt")
    assert ours is not None
    for i in range(3):
        name = f"model.critic.layers.{i}"
        x = x @ ours.tensors[f"{name}.weight"].T + ours.tensors[f"{name}.bias"]
        x = torch.nn.functional.elu(x) if i < 2 else x
    assert x == pytest.approx(wanted.float(), abs=1e-3)


def test_ours_and_others_are_not_of_a_peer() -> None:
    weight = torch.zeros(2, 2)
    for name in ("model.encoder.layers.0.weight", "policy.model.encoder.layers.0.weight",
                 "q_net.0.weight", "actor.encoder.0.weight"):  # fmt: skip
        assert networks_of({name: weight}) is None


@pytest.mark.parametrize(
    ("tensors", "error"),
    [
        (
            {"q_network.net.0.weight": torch.zeros(2, 3, 4, 4)},
            r"layer q_network\.net\.0 is not linear",
        ),
        (
            {"network.0.weight": torch.zeros(5, 4), "network.0.bias": torch.zeros(5),
             "network.2.weight": torch.zeros(2, 6), "network.2.bias": torch.zeros(2)},
            r"layer network\.2 takes 6 numbers, but network\.0 before it gives 5",
        ),
    ],
)  # fmt: skip
def test_what_is_no_chain_of_layers_is_an_error(
    tensors: dict[str, torch.Tensor], error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        networks_of(tensors)


def linear(name: str, inputs: int, outputs: int) -> dict[str, torch.Tensor]:
    return {f"{name}.weight": torch.ones(outputs, inputs), f"{name}.bias": torch.ones(outputs)}


def test_layers_are_in_the_order_of_their_numbers() -> None:
    found = networks_of({name: each for i in (0, 10, 12, 2, 4, 6, 8)
                         for name, each in linear(f"network.{i}", 4, 4).items()})  # fmt: skip
    assert found is not None
    assert [each.name for each in found.actor] == [f"network.{i}" for i in range(0, 13, 2)]
    head = linear("policy.model.last.model.0", 4, 2)  # as safetensors sorts it
    found = networks_of({**head, **linear("policy.model.preprocess.model.model.0", 4, 4)})
    assert found is not None
    assert found.actor[-1].name == "policy.model.last.model.0"


def test_networks_that_share_layers_can_be_saved(tmp_path: Path) -> None:
    trunk = linear("net.0", 3, 4)
    policy = {**trunk, **linear("policy_layer", 4, 1), "log_std_parameter": torch.zeros(1)}
    torch.save({"policy": policy, "value": {**trunk, **linear("value_layer", 4, 1)}},
               tmp_path / "a.pt")  # fmt: skip
    found = peer_weights(tmp_path / "a.pt")
    assert found is not None
    save_file(found.tensors, tmp_path / "a.safetensors")


def test_networks_of_other_kinds_are_refused() -> None:
    actor = linear("policy.net.0", 3, 1)
    with pytest.raises(UsageError, match=r"no value network and no critic"):
        networks_of(actor)
    memory = {"policy.gru.weight_ih_l0": torch.ones(9, 3)}
    with pytest.raises(UsageError, match=r"policy\.gru\.weight_ih_l0 belongs to a memory"):
        networks_of({**actor, **linear("value.net.0", 3, 1), **memory})


def test_what_is_left_out_is_listed_and_noted(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = torch.load(HERE / "skrl_ppo.pt", weights_only=True)  # noqa: TID251 - weights only
    torch.save({**tensors, "extra": torch.ones(2)}, tmp_path / "a.pt")
    run = made("skrl_ppo", "", "[16, 16]", 'env.env_wrapper=[{"type":"obs_norm"}]')
    capsys.readouterr()
    assert main(["import-weights", str(tmp_path / "a.pt"), "--run", str(run), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["unused"] == ["extra"]
    assert "obs_norm" in err
    assert "--compare finds out" in err


@pytest.mark.parametrize("given", [
    {"mean": np.zeros(3), "var": np.zeros(3), "epsilon": 0.0},
    {"mean": np.zeros(3) * 1j, "var": np.ones(3)},
    {"mean": np.full(3, np.nan), "var": np.ones(3)},
])  # fmt: skip
def test_statistics_that_normalise_nothing_are_refused(given: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "norm.npz", **given)
    with pytest.raises(UsageError, match=r"not real|not finite"):
        peer_weights(HERE / "cleanrl_ppo.pt", obs_norm=tmp_path / "norm.npz")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    torch.save({"network.0.weight": torch.ones(64, 64)}, tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()
    ones = torch.ones(64).numpy().tobytes()
    (tmp_path / "a.pt").write_bytes(content.replace(ones, bytes(len(ones)), 1))
    with pytest.raises(UsageError, match="is damaged"):
        peer_weights(tmp_path / "a.pt")


def test_options_of_peers_are_of_peers(made: Any, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pt")
    run = made("cleanrl_dqn")
    compare = str(HERE / "cleanrl_dqn.npz")
    assert (
        main(["import-weights", str(tmp_path / "a.pt"), "--run", str(run), "--compare", compare])
        == 2
    )
    norm = str(HERE / "cleanrl_ppo_norm.npz")
    with pytest.raises(UsageError, match="has statistics of its own"):
        peer_weights(HERE / "skrl_ppo.pt", obs_norm=norm)
    with pytest.raises(UsageError, match=r"network\.0 takes 4 numbers, but 3 are normalised"):
        peer_weights(HERE / "cleanrl_dqn.pt", obs_norm=norm)


def test_an_actor_with_deviations_that_is_no_sac_is_refused() -> None:
    tensors = {
        **linear("policy.actor.preprocess.model.model.0", 3, 4),
        **linear("policy.actor.mu.model.0", 4, 1),
        **linear("policy.actor.sigma.model.0", 4, 1),
        **linear("critic.last.model.0", 3, 1),
    }
    with pytest.raises(UsageError, match="there is no critic2: it is not of SAC"):
        networks_of(tensors)
