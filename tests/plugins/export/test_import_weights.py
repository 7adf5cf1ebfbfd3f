"""Weights from elsewhere: by names and shapes, without running code."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 - to write what must be refused
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import save_file

from dicore.cli import main
from dicore.errors import CheckpointUnsafeError, RunLockedError, UsageError
from dicore.run.checkpoint_io import read_state
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.folder import RunFolder
from dicore.run.launch import launch
from dicore.run.request import TrainRequest
from dicore_plugins.export.import_weights import (
    _policy_of,
    import_weights,
    read_tensors,
    suggested_table,
)
from dicore_tools.evaluation.evaluate import evaluate
from dicore_tools.sessions import create

Tensors = dict[str, torch.Tensor]


def trained(folder: Path, seed: int) -> Path:
    launch(
        env="cartpole", policy="dqn", seed=seed, exp_name=str(folder), max_env_step=200,
        overrides=["pipeline.logger=[]", "policy.model.encoder_hidden_size_list=[16, 8]"],
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of one config with different weights."""
    folder = tmp_path_factory.mktemp("work")
    return trained(folder / "a", 1), trained(folder / "b", 2)


def weights_of(run: Path) -> Tensors:
    model = read_state(run / "ckpt/final")["learner"]["policy"]["model"]
    return {name: torch.as_tensor(value).clone() for name, value in model.items()}


def test_equal_names_need_no_table(runs: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = runs
    weights = weights_of(source)
    torch.save({"model": weights, "epoch": 3}, tmp_path / "a.pt")
    done = import_weights(target, tmp_path / "a.pt")
    assert (len(done.rows), done.kept, done.unused) == (len(weights), [], [])
    policy = read_state(done.checkpoint)["learner"]["policy"]
    for part in ("model", "target_model"):
        for name, value in weights.items():
            assert torch.equal(torch.as_tensor(policy[part][name]), value)
    given: Any = {"seed": 5, "n_episode": 4}
    wanted = evaluate(source, load_path="final", **given).returns
    assert evaluate(target, load_path="imported", **given).returns == wanted
    hook = "policy.learn.learner.hook.load_ckpt_before_run=" + str(done.checkpoint)
    launch(str(target / "config.json"), exp_name=str(tmp_path / "on"), overrides=[hook])


def test_a_table_maps_names_prefixes_and_transposed_matrices(
    runs: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = runs
    weights = weights_of(source)
    turned = {f"net/{name}": (value.T if value.ndim == 2 else value).contiguous()
              for name, value in weights.items()}  # fmt: skip
    save_file(turned, tmp_path / "flax.safetensors")
    words = ("import-weights", str(tmp_path / "flax.safetensors"), "--run", str(target))
    table = tmp_path / "table.yaml"
    assert main([*words, "--suggest", str(table)]) == 0
    assert ", 0 without a tensor" in capfd.readouterr().out
    found = yaml.safe_load(table.read_text())
    assert all(own.endswith("bias") or other.endswith(".T") for own, other in found.items())
    rows = {f"model.{n}": f"net/{n}" + (".T" if v.ndim == 2 else "") for n, v in weights.items()}
    table.write_text(yaml.safe_dump(rows))
    assert main([*words, "--table", str(table), "--name", "flax"]) == 0
    assert f"{len(weights)} tensors of" in capfd.readouterr().out
    made = read_state(target / "ckpt/flax")["learner"]["policy"]["model"]
    assert all(torch.equal(torch.as_tensor(made[name]), value) for name, value in weights.items())


def test_an_archive_of_stable_baselines3(runs: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = runs
    weights = {f"q_net.{name}": value for name, value in weights_of(source).items()}
    torch.save(weights, tmp_path / "policy.pth")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.write(tmp_path / "policy.pth", "policy.pth")
        archive.writestr("data", b"cos\nsystem\n(S'exit 1'\ntR.")  # is not read
    done = import_weights(target, tmp_path / "model.zip", table={"model.*": "q_net.*"}, name="sb3")
    assert len(done.rows) == len(weights)
    assert suggested_table(target, tmp_path / "model.zip")


def test_checkpoints_of_training_stay(runs: tuple[Path, Path], tmp_path: Path) -> None:
    source, trained_run = runs
    target = tmp_path / "target"
    shutil.copytree(trained_run, target)
    store = CheckpointStore(target / "ckpt", keep=20)
    for number in range(8):
        store.save(f"iteration_{number}", {"learner": {}}, train_iter=number)
    names = set(store.names())
    torch.save({"model": weights_of(source)}, tmp_path / "a.pt")
    for name in ("final", "ckpt_final.pth.tar", "iteration_3"):
        with pytest.raises(UsageError, match="holds what the run has trained"):
            import_weights(target, tmp_path / "a.pt", name=name)
    for name in ("imported", "mine", "mine"):
        import_weights(target, tmp_path / "a.pt", name=name)
    assert set(store.names()) == {*names, "imported", "mine"}


def test_a_run_that_is_being_trained_is_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = runs
    torch.save({"model": weights_of(source)}, tmp_path / "a.pt")
    trainer = RunFolder.open(target)
    trainer.lock()
    try:
        with pytest.raises(RunLockedError):
            import_weights(target, tmp_path / "a.pt", name="meanwhile")
    finally:
        trainer.unlock()
    assert not (target / "ckpt/meanwhile").exists()


def test_every_network_that_follows_gets_the_weights(tmp_path: Path) -> None:
    run = create(TrainRequest(env="cartpole", policy="acer", exp_name=str(tmp_path / "a"))).path
    with _policy_of(run, trust=False) as policy:
        state = policy.learn_mode.state_dict()
    weights = {name: torch.rand_like(torch.as_tensor(v)) for name, v in state["model"].items()}
    save_file(weights, tmp_path / "a.safetensors")
    done = read_state(import_weights(run, tmp_path / "a.safetensors").checkpoint)
    for part in ("model", "average_model"):
        for name, value in weights.items():
            assert torch.equal(torch.as_tensor(done["learner"]["policy"][part][name]), value)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("evil",)


@pytest.mark.parametrize(
    ("change", "table", "text"),
    [
        (lambda w: w | {next(iter(w)): torch.zeros(3, 3)}, None, "is [16, 4] here"),
        (lambda w: w | {next(iter(w)): torch.full((16, 4), torch.nan)}, None, "not finite"),
        (lambda w: dict(list(w.items())[1:]), None, "no weights for 1 of"),
        (lambda w: {n: v / 0 for n, v in w.items()}, None, "an earlier checkpoint"),
        (lambda w: {n: v * (1 + 1j) for n, v in w.items()}, None, "has complex numbers"),
        (lambda w: {}, None, "has no tensors"),
        (lambda w: w, {"model.x.*": "y.*"}, "the policy has no"),
        (lambda w: w, {"model.*": "q_net.*"}, "the file has no 'q_net.*'"),
    ],
    ids=["shape", "nan", "hint", "missing", "complex", "empty", "own", "theirs"],
)
def test_mistakes_are_named_and_nothing_is_written(
    runs: tuple[Path, Path], tmp_path: Path, change: Any, table: Any, text: str
) -> None:
    source, target = runs
    torch.save(change(weights_of(source)), tmp_path / "a.pt")
    with pytest.raises(UsageError, match=text.replace("[", r"\[").replace("*", r"\*")):
        import_weights(target, tmp_path / "a.pt", table=table, name="wrong")
    assert not (target / "ckpt/wrong").exists()


@pytest.mark.parametrize("version", ["2.9.1+cpu", "1.13.0"])
def test_a_torch_whose_loader_can_be_made_to_run_code_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    torch.save({"x": torch.zeros(2)}, tmp_path / "x.pt")
    assert read_tensors(tmp_path / "x.pt").keys() == {"x"}
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(CheckpointUnsafeError, match=f"torch {re.escape(version)} may run") as told:
        read_tensors(tmp_path / "x.pt")
    assert "torch>=2.10" in told.value.hint


def test_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(CheckpointUnsafeError, match="more than tensors"):
        read_tensors(tmp_path / "evil.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": Evil()}))
    with pytest.raises((CheckpointUnsafeError, UsageError)):
        read_tensors(tmp_path / "plain.pt")
    assert not (tmp_path / "evil").exists()
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_tensors(tmp_path / "none.pt")
    (tmp_path / "cut.safetensors").write_bytes(b"abc")
    with pytest.raises(UsageError, match="not a file of tensors"):
        read_tensors(tmp_path / "cut.safetensors")


def test_what_is_no_plain_tensor_is_refused(tmp_path: Path) -> None:
    cycle: dict[str, Any] = {"a": torch.ones(2)}
    cycle["b"] = cycle
    matrix = torch.ones(2, 2)
    told = [
        "not a file of tensors, or a damaged one",
        *["a is sparse, quantized or without values"] * 2,
    ]
    for content, text in zip([cycle, matrix.to_sparse(), matrix.to("meta")],
                             told, strict=True):  # fmt: skip
        torch.save({"a": content}, tmp_path / "x.pt")
        with pytest.raises(UsageError, match=text):
            read_tensors(tmp_path / "x.pt")


@pytest.mark.parametrize(("content", "text"), [
    (b"", "is empty"),
    (b"hello", "not a file of tensors, or a damaged one"),
    (None, "not a file of tensors, or a damaged one"),
    (torch.ones(3), "is one tensor without a name"),
    ([1, 2], "has no tensors"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_plain_sentence(
    content: Any, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save({"a": torch.ones(9)} if content is None else content, file)
    if content is None:
        file.write_bytes(file.read_bytes()[:400])
    with pytest.raises(UsageError) as caught:
        read_tensors(file)
    assert caught.value.message == f"{file}: {text}"
    assert caught.value.hint
