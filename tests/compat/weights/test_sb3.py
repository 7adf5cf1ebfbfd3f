"""Archives of Stable-Baselines3 and sb3-contrib: equal actions, or the layer that is another.

`make_sb3_checkpoints.py` made what is in `recorded`.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.request import TrainRequest
from dicore_compat.weights import sb3
from dicore_compat.weights.convert import PeerWeights, peer_weights
from dicore_plugins.export.import_weights import read_tensors
from dicore_tools.sessions import create
from tests.compat.weights.test_cleanrl import IMAGES, NATURE, images, nature, spread

HERE = Path(__file__).parent / "recorded"
PPO = ["policy.action_scaling=false", "policy.model.value_norm=false",
       "policy.model.activation=tanh", "policy.model.encoder_hidden_size_list=[16,16]"]  # fmt: skip
A2C = PPO[2:]
VALUE = ["policy.model.layer_norm=false", "policy.model.encoder_hidden_size_list=[16,16]",
         "policy.model.activation=relu"]  # fmt: skip
Q = ["policy.model.actor_hidden_size_list=[16,16]",
     "policy.model.critic_hidden_size_list=[16,16]"]  # fmt: skip
LINEAR = [VALUE[0], "policy.model.encoder_hidden_size_list=[]"]
CASES: dict[str, tuple[str, str, list[str]]] = {
    "ppo": ("pendulum", "ppo", PPO),
    "ppo_discrete": ("cartpole", "ppo", PPO[1:]),
    "a2c": ("cartpole", "a2c", A2C),
    "dqn": ("cartpole", "dqn", VALUE),
    "sac": ("pendulum", "sac", Q),
    "td3": ("pendulum", "td3", Q),
    "ddpg": ("pendulum", "ddpg", Q),
    "tqc": ("pendulum", "tqc", [*Q, "policy.model.num_quantiles=25"]),
    "qrdqn": ("cartpole", "qrdqn", [*VALUE, "policy.model.num_quantiles=10"]),
    "trpo": ("pendulum", "ppo", PPO),
    "ars": ("pendulum", "td3", Q),
    "ars_linear": ("cartpole", "dqn", LINEAR),
}
"""Environment, algorithm and options of each archive."""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a run with the network of an archive."""
    monkeypatch.chdir(tmp_path)

    def make(env: str, policy: str, options: list[str]) -> str:
        request = TrainRequest(env=env, policy=policy, preset=False, exp_name="run",
                               overrides=["env.stop_value=1", *options])  # fmt: skip
        return str(create(request).path)

    return make


def words(name: str, run: str, *more: str, norm: bool = True) -> list[str]:
    given = ["import-weights", str(HERE / f"sb3_{name}.zip"), "--run", run, *more]
    if norm and (HERE / f"sb3_{name}_norm.npz").exists():
        given += ["--obs-norm", str(HERE / f"sb3_{name}_norm.npz")]
    return [*given, "--compare", str(HERE / f"sb3_{name}.npz")]


@pytest.mark.parametrize("name", [*CASES])
def test_actions_are_equal_on_256_observations(
    name: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(*CASES[name])
    capsys.readouterr()
    alone = ["--partial"] if name == "ars" else []
    assert main([*words(name, run, *alone), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "256 actions are equal to those of sb3" in err
    assert ("clips normalised observations to +-10" in err) == (name in ("ppo", "sac"))
    found = json.loads(out)
    assert found["unused"] == []
    assert all(each.startswith("model.critic.") for each in found["kept"])
    assert bool(found["kept"]) == (name == "ars")
    assert len(np.unique(np.load(HERE / f"sb3_{name}.npz")["action"])) > 1


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_without_the_statistics_actions_differ(
    name: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(name, made(*CASES[name]), norm=False)) == 2
    err = capsys.readouterr().err
    assert "actions differ from those of sb3" in err
    assert "observations that the environment normalised need --obs-norm" in err


@pytest.mark.parametrize("name", ["ppo", "td3"])
def test_another_activation_is_named(
    name: str, made: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    env, policy, options = CASES[name]
    run = made(env, policy, [*options, "policy.model.activation=elu"])
    assert main(words(name, run)) == 2
    err = capsys.readouterr().err
    first, other = {
        "ppo": ("mlp_extractor.policy_net.0", "tanh"),
        "td3": ("actor.mu.0", "relu"),
    }[name]
    assert f"after layer {first} there is {other}: set policy.model.activation={other}" in err


def taken(file: Path, **given: Any) -> PeerWeights:
    found = peer_weights(file, **given)
    assert found is not None
    return found


def q_values(weights: PeerWeights, x: torch.Tensor) -> torch.Tensor:
    """Returns the outputs of the batched Q networks."""
    count = sum(name.startswith("model.critic.weights.") for name in weights.tensors)
    for i in range(count):
        matrix = weights.tensors[f"model.critic.weights.{i}"]
        x = x @ matrix + weights.tensors[f"model.critic.biases.{i}"]
        x = x.relu() if i < count - 1 else x
    return x


def theirs(name: str) -> dict[str, torch.Tensor]:
    return read_tensors(HERE / f"sb3_{name}.zip")


def test_q_networks_see_normalised_observations_and_plain_actions() -> None:
    with np.load(HERE / "sb3_sac_norm.npz") as norm:
        mean, var, epsilon = (torch.as_tensor(norm[each]) for each in ("mean", "var", "epsilon"))
    obs, action = torch.as_tensor(np.load(HERE / "sb3_sac.npz")["obs"]), torch.rand(256, 1)
    normal = ((obs - mean) / (var + epsilon).sqrt()).float()
    found = taken(HERE / "sb3_sac.zip", obs_norm=HERE / "sb3_sac_norm.npz")
    values = q_values(found, torch.cat([obs, action], 1).expand(2, -1, -1))
    for i in range(2):
        x, own = torch.cat([normal, action], 1), theirs("sac")
        for layer in (0, 2, 4):
            x = x @ own[f"critic.qf{i}.{layer}.weight"].T + own[f"critic.qf{i}.{layer}.bias"]
            x = x.relu() if layer < 4 else x
        torch.testing.assert_close(values[i], x, rtol=1e-4, atol=1e-4)


def test_quantiles_of_each_action_stand_together() -> None:
    """sb3-contrib's outputs are [quantiles, actions], ours [actions, quantiles]."""
    last = theirs("qrdqn")["quantile_net.quantile_net.4.weight"]
    found = taken(HERE / "sb3_qrdqn.zip").tensors["model.heads.0.advantage.layers.0.weight"]
    assert torch.equal(found[:10], last[0::2])
    assert torch.equal(found[10:], last[1::2])


@pytest.mark.parametrize(("name", "error"), [
    ("crossq", r"layer actor\.latent_pi\.0 normalises batches"),
    ("gsde", r"log_std is \[8, 1\]: exploration that depends on the state \(use_sde\)"),
])  # fmt: skip
def test_what_is_not_read_is_named(name: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        peer_weights(HERE / f"sb3_{name}.zip")


def linear(name: str, inputs: int, outputs: int) -> dict[str, torch.Tensor]:
    return {f"{name}.weight": torch.ones(outputs, inputs), f"{name}.bias": torch.ones(outputs)}


HEADS = {**linear("action_net", 4, 2), **linear("value_net", 4, 1)}
ACTOR = {**linear("actor.mu", 4, 1), **linear("actor.log_std", 4, 1)}


@pytest.mark.parametrize(("tensors", "error"), [
    ({**linear("mlp_extractor.shared_net.0", 3, 4), **HEADS},
     r"layer mlp_extractor\.shared_net\.0 is shared by actor and critic"),
    ({**linear("mlp_extractor.policy_net.0", 3, 5), **HEADS},
     r"layer action_net is \[2, 4\], but mlp_extractor\.policy_net\.0 before it gives 5"),
    ({**linear("features_extractor.extractors.a.1", 3, 4), **HEADS},
     r"layer features_extractor\.extractors\.a\.1 belongs to another extractor"),
    ({**linear("pi_features_extractor.linear.0", 3, 4), **HEADS,
      **linear("features_extractor.linear.0", 3, 5)},
     r"layer pi_features_extractor\.linear\.0 is not that of features_extractor\.linear\.0"),
    ({**linear("actor.features_extractor.linear.0", 3, 4), **ACTOR},
     r"layer actor\.features_extractor\.linear\.0 belongs to an extractor of features before"),
    (ACTOR, r"layer actor\.mu has no hidden layer"),
    ({**linear("actor.latent_pi.0", 3, 4), **ACTOR, "actor.log_std": torch.ones(4, 1)},
     r"actor\.log_std is no layer"),
    (linear("quantile_net.quantile_net.0", 3, 20),
     r"quantile_net\.quantile_net\.0 has 20 outputs, and the file does not say of how many"),
    (linear("action_net.0", 3, 2), "does not say whether actions are continuous"),
])  # fmt: skip
def test_layers_of_other_forms_are_named(
    tensors: dict[str, torch.Tensor], error: str, tmp_path: Path
) -> None:
    torch.save(tensors, tmp_path / "policy.pth")
    with pytest.raises(UsageError, match=error):
        peer_weights(tmp_path / "policy.pth")


@pytest.mark.parametrize("data", ["[" * 100_000, "{", '{"a": 1}' + " " * (17 << 20)],
                         ids=["deep", "cut", "large"])  # fmt: skip
def test_a_damaged_text_in_an_archive_is_an_error(data: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", data)
    with pytest.raises(UsageError, match="data in the archive"):
        sb3.arguments_of(tmp_path / "a.zip")


def test_a_locked_text_in_an_archive_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data", "{}")
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[6] |= 1  # encrypted, says the local header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and the central directory
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(UsageError, match="data in the archive"):
        sb3.arguments_of(tmp_path / "a.zip")


@pytest.mark.parametrize("data", ["[]", "{}", '{"n_quantiles": "9", "action_space": 3}'])
def test_a_text_that_says_nothing_is_none(data: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data", data)
    assert sb3.arguments_of(tmp_path / "a.zip") == sb3.Arguments()


@pytest.mark.parametrize("policy", ["dqn", "ppo"])
def test_nature_cnn_acts_equally(
    policy: str, made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names of CnnPolicy: `cnn` are the convolutions, `linear.0` is the layer behind them."""
    torch.manual_seed(0)
    network, head, value = nature(), nn.Linear(32, 5), nn.Linear(32, 1)
    spread(network)
    spread(head)
    start = "q_net.features_extractor" if policy == "dqn" else "features_extractor"
    state = {
        f"{start}.{'linear.0' if name.startswith('7') else f'cnn.{name[0]}'}.{name[2:]}": each
        for name, each in network.state_dict().items()
    }
    heads = ((head, "q_net.q_net.0"),) if policy == "dqn" else (
        (head, "action_net"), (value, "value_net"))  # fmt: skip
    for module, name in heads:
        state |= {f"{name}.{part}": each for part, each in module.state_dict().items()}
    if policy == "ppo":
        state |= {f"{part}_{name}": each for part in ("pi", "vf") for name, each in state.items()
                  if name.startswith(start)}  # fmt: skip
    torch.save(state, "policy.pth")
    with torch.no_grad():
        action = head(network(torch.as_tensor(images()) / 255.0)).argmax(1)
    assert len(action.unique()) > 1
    np.savez("actions.npz", obs=images(), action=action.numpy())
    (tmp_path / "images.py").write_text(IMAGES)
    more = ["policy.model.value_norm=false"] if policy == "ppo" else ["policy.model.dueling=false"]
    run = made("images.py:Images", policy, [*NATURE[1:], *more])
    asked = ["import-weights", "policy.pth", "--run", run, "--compare", "actions.npz", "--trust"]
    assert main(asked) == 0
    out, err = capsys.readouterr()
    assert "256 actions are equal to those of sb3" in err
    assert "not taken" not in out
