"""`dicore train --from RUN`: networks, statistics, other networks, resumed runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.cli import main
from dicore.config import bind
from dicore.errors import UsageError
from dicore.run.checkpoint_io import read_state
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.launch import launch
from dicore.run.random import seeded
from dicore.run.request import TrainRequest, compile_request
from dicore_registry.errors import MissingPackageError
from dicore_registry.public_names import public_name
from dicore_tools.transfer import FromRunHook, begun_from, taken

QUICK = [
    "env.collector_env_num=1", "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
    "env.stop_value=inf", "pipeline.logger=[]", "policy.learn.batch_size=8",
    "pipeline.final_eval=false",
]  # fmt: skip
SAC = {"env": "pendulum", "policy": "sac"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of SAC with normalised observations."""
    folder = tmp_path_factory.mktemp("transfer") / "source"
    normed = ["env.env_wrapper=[obs_norm]", *QUICK]
    launch(**SAC, exp_name=str(folder), max_env_step=200, overrides=normed)
    return folder


def policy_of(run: Path, name: str = "final") -> Any:
    return read_state(run / "ckpt" / name)["learner"]["policy"]


def begun(source: Path, folder: Path, *overrides: str, **wishes: Any) -> Path:
    """A run that begins from another one and makes no update."""
    given = [*QUICK, "policy.collect.random_collect_size=0", *overrides]
    request = TrainRequest(**SAC, **wishes, exp_name=str(folder), max_env_step=1, overrides=given)
    launch(begun_from(request, source))
    return folder


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def test_networks_and_temperature_are_those_of_the_run(source: Path, tmp_path: Path) -> None:
    began = policy_of(begun(source, tmp_path / "a", "policy.learn.learning_rate=1e-30"))
    best = policy_of(source, "best") if (source / "ckpt/best").exists() else policy_of(source)
    for path in ("actor", "critic"):
        mine = {key: each for key, each in began["model"].items() if key.startswith(path)}
        assert mine
        for key, each in mine.items():
            np.testing.assert_allclose(each, best["model"][key], atol=1e-6, err_msg=key)
    assert began["update_count"] < best["update_count"]


def test_targets_follow_the_network_of_another_algorithm(source: Path) -> None:
    """Of a policy without target networks, such as behavioural cloning, they are the network."""
    state = policy_of(source)
    given = taken(state, {"model": state["model"]}, "x")
    assert same(given["target_model"], state["model"])
    assert not same(state["target_model"], state["model"])
    assert given["optimizers"] is state["optimizers"]
    assert (
        taken(state, {**state, "log_alpha": 5 * state["log_alpha"]}, "x")["log_alpha"]
        is not (state["log_alpha"])
    )


def test_a_target_of_a_part_of_the_network_is_that_of_the_run() -> None:
    """Such as the slow critic of dreamer; optimizers begin anew."""
    zero, one = np.zeros(2), np.ones(2)
    model = {"actor.0.weight": zero, "critic.0.weight": zero}
    state = {"model": model, "slow": {"0.weight": zero}, "optimizer": {"state": {"0": zero}}}
    theirs = {"model": model, "slow": {"0.weight": one}, "optimizer": {"state": {"0": one}}}
    given = taken(state, theirs, "x")
    assert given["slow"]["0.weight"] is one
    assert given["optimizer"]["state"]["0"] is zero


@pytest.mark.parametrize(("name", "part"), [("dreamer", "slow_critic"), ("tdmpc2", "target")])
def test_world_models_begin_with_the_targets_of_the_run(name: str, part: str) -> None:
    compiled = compile_request(TrainRequest(env="pendulum", policy=name))
    spec = spec_of(compiled.env, 0)
    states = []
    for seed in (0, 1):
        with seeded(seed):
            policy = bind(compiled, spec).policy.build(BuildContext(spec, seed=seed))
            states.append(policy.learn_mode.state_dict())
    assert not same(states[0][part], states[1][part])
    assert same(taken(*states, "x")[part], states[1][part])


def test_a_constant_temperature_is_that_of_the_config(source: Path, tmp_path: Path) -> None:
    fixed = ("policy.learn.auto_alpha=false", "policy.learn.alpha=0.01")
    found = policy_of(begun(source, tmp_path / "a", *fixed))["log_alpha"]
    assert found[0] == pytest.approx(np.log(0.01))


def test_what_wrappers_measured_goes_on(source: Path, tmp_path: Path) -> None:
    run = begun(source, tmp_path / "a", "env.env_wrapper=[obs_norm]")
    before, after = (
        read_state(each / "ckpt/final")["collector_env"]["layers"][0][0]["count"]
        for each in (source, run)
    )
    assert 100 < before <= after < before + 50
    evaluator = read_state(run / "ckpt/final")["evaluator"]["env"]["layers"]
    assert evaluator[0][0]["count"] >= 100


def test_a_resumed_run_keeps_its_own_weights(source: Path, tmp_path: Path) -> None:
    gone = shutil.copytree(source, tmp_path / "gone")
    run = begun(gone, tmp_path / "a")
    shutil.rmtree(gone)
    launch(resume=str(run), max_env_step=40)
    assert policy_of(run)["update_count"] > 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-e", "pendulum", "-p", "sac", "policy.model.actor_hidden_size_list=[7]"],
         "layer actor.layers.0.weight is [256, 3] there, [7, 3] here"),
        (["-e", "cartpole", "-p", "dqn"], "it has no layer"),
        (["-e", "pendulum", "-p", "td3"], "layer "),
    ],
)  # fmt: skip
def test_another_network_or_space_is_one_error_with_the_layer(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    folder = tmp_path / "new"
    command = ["train", *words, *QUICK, "-n", "1", "--from", str(source)]
    assert main([*command, "--exp-name", str(folder)]) == 2
    error = capfd.readouterr().err
    assert f"--from {source}: another network" in error
    assert text in error
    assert "set policy.model" in error
    assert not folder.exists()


def test_code_that_the_config_of_the_run_names_is_not_run(source: Path, tmp_path: Path) -> None:
    """Only its checkpoint is read, so that --trust is needed for nothing."""
    other = shutil.copytree(source, tmp_path / "other")
    config = (other / "config.json").read_text()
    assert '"type": "pendulum"' in config
    named = config.replace('"type": "pendulum"', '"type": "no_such_file.py:Env"')
    (other / "config.json").write_text(named)
    assert policy_of(begun(other, tmp_path / "a"))["update_count"] >= 0


@pytest.mark.parametrize("place", ["", "ckpt/final"])
def test_a_run_is_not_overwritten_by_what_begins_from_it(source: Path, place: str) -> None:
    request = TrainRequest(**SAC, exp_name=str(source), exist="overwrite", overrides=QUICK)
    with pytest.raises(UsageError, match="--exist overwrite would delete it"):
        begun_from(request, source / place)
    assert (source / "ckpt/final").exists()


def test_the_simple_form_of_the_hook_is_a_path(source: Path) -> None:
    hook = FromRunHook.from_value(str(source), "before_run")
    assert hook is not None
    assert (hook.name, hook.run) == ("from_run", str(source))
    assert FromRunHook.from_value("", "before_run") is None
    with pytest.raises(TypeError, match="folder of a run"):
        FromRunHook.from_value(3, "before_run")


@pytest.mark.parametrize("compare", [True, False])
def test_checkpoints_of_others_without_the_package_that_reads_them(
    compare: bool, source: Path, tmp_path: Path,
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def absent(name: str, where: str = "") -> object:
        if name == "peer_weights":
            raise MissingPackageError("'peer_weights' comes with dicore-compat")
        return public_name(name, where)

    monkeypatch.setattr("dicore_registry.public_names.public_name", absent)
    (tmp_path / "a.npz").touch()
    torch.save({"other.weight": torch.zeros(3)}, tmp_path / "a.pt")
    words = ["--run", str(source), *(["--compare", str(tmp_path / "a.npz")] if compare else [])]
    assert main(["import-weights", str(tmp_path / "a.pt"), *words]) == 2
    start = "error" if compare else "note"
    assert f"{start}: 'peer_weights' comes with dicore-compat" in capfd.readouterr().err


def test_nothing_to_begin_from(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "-e", "pendulum", "-p", "sac", "--from", str(tmp_path / "no")]) == 2
    assert "no such folder" in capfd.readouterr().err
    with pytest.raises(UsageError, match="resumed run has its own weights"):
        begun_from(TrainRequest(resume=str(source)), source)
    with pytest.raises(UsageError, match="not given what is trained") as told:
        begun_from(TrainRequest(env="pendulum"), source)
    assert "dicore train" in told.value.hint
    assert str(source / "config.json") in told.value.hint
