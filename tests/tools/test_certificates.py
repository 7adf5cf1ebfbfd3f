"""Certificates: an equal run is signed; another key and each change of its files is one error."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")
pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization as keys
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore_tools import certificates
from dicore_tools.certificates import CertificateError, check_certificate
from tests.tools.test_verify import SMALL, changed


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Writes a private key and its public one, in PEM."""
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(
        key.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.PKCS8, keys.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(keys.Encoding.PEM, keys.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    launch(SMALL, exp_name=str(folder), max_env_step=200)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def signed(run: Path, tmp_path: Path) -> Path:
    """A run with a certificate; the public key is mine.pub beside it."""
    private, _ = write_keys(tmp_path, "mine")
    statement = {"until": None, "rows": 3, "signed": "today", "files": certificates.hashes(run)}
    certificates.sign(run, statement, certificates.read_private_key(private))
    return run


def checked(run: Path, key: str = "mine.pub") -> dict[str, Any]:
    return check_certificate(run, certificates.read_public_key(run.parent / key))


def test_an_equal_run_is_signed_and_checked(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = write_keys(tmp_path, "mine")
    before = certificates.hashes(run)
    left_out = [
        name
        for name in before
        if name == "code.diff" or (name.startswith("log/") and name != "log/metrics.jsonl")
    ]
    signed = {name: each for name, each in before.items() if name not in left_out}
    assert main(["verify", "-q", str(run), "--sign", str(private), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"] == str(run / "certificate.json")
    assert main(["verify", str(run), "--certificate", str(public)]) == 0
    out = capsys.readouterr().out
    assert f"{len(signed)} files as signed on" in out
    assert f"not compared and not signed: {', '.join(left_out)}" in out
    assert "verified: the whole run" in out
    assert main(["verify", str(run), "--certificate", str(public), "--json"]) == 0
    statement = json.loads(capsys.readouterr().out)
    assert (statement["parameters"], statement["files"]) == (True, signed)
    assert statement["left_out"] == left_out
    assert private.read_text().splitlines()[1] not in (run / "certificate.json").read_text()


def test_a_run_that_differs_is_not_signed(run: Path, tmp_path: Path) -> None:
    def shift(row: dict[str, Any]) -> None:
        if "evaluator/return_mean" in row:
            row["evaluator/return_mean"] += 1.0

    changed(run / "log" / "metrics.jsonl", shift)
    private, _ = write_keys(tmp_path, "mine")
    assert main(["verify", "-q", str(run), "--sign", str(private)]) == 1
    assert not (run / "certificate.json").exists()


def test_a_checkpoint_of_another_run_is_not_signed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(SMALL, exp_name=str(tmp_path / "other"), max_env_step=200, seed=1)
    shutil.rmtree(run / "ckpt" / "best")
    shutil.copytree(tmp_path / "other" / "ckpt" / "best", run / "ckpt" / "best")
    private, _ = write_keys(tmp_path, "mine")
    assert main(["verify", "-q", str(run), "--sign", str(private)]) == 1
    assert "checkpoint 'best': learner.policy" in capsys.readouterr().out
    assert not (run / "certificate.json").exists()


def test_of_a_part_only_what_was_compared_is_signed(run: Path, tmp_path: Path) -> None:
    private, public = write_keys(tmp_path, "mine")
    assert main(["verify", "-q", str(run), "--until", "100", "--sign", str(private)]) == 0
    statement = checked(run)
    assert set(statement["files"]) == {"config.json", "log/metrics.jsonl"}
    assert {"run.json", "ckpt/best/manifest.json", "total_config.py"} <= {*statement["left_out"]}
    (run / "run.json").write_text("{}")
    assert checked(run, public.name) == statement
    (run / "ckpt" / "evil").write_text("x")
    with pytest.raises(CertificateError, match="added since the run was signed: ckpt/evil"):
        checked(run)


def test_a_run_that_changes_while_it_is_verified_is_not_signed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dicore_tools.commands import verify as module

    def verified(*_: object, **__: object) -> module.Verdict:
        (run / "run.json").write_text("{}")
        return module.Verdict(str(run), None)

    monkeypatch.setattr(module, "verify", verified)
    private, _ = write_keys(tmp_path, "mine")
    assert main(["verify", str(run), "--sign", str(private)]) == 1
    assert "changed while it was verified" in capsys.readouterr().err
    assert not (run / "certificate.json").exists()


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def link(run: Path) -> None:
    (run / "config.json").rename(run.parent / "moved.json")
    (run / "config.json").symlink_to(run.parent / "moved.json")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "parameters": (lambda run: flip(run / "ckpt/final/tensors.safetensors"), "changed.*final"),
    "metrics": (lambda run: flip(run / "log/metrics.jsonl"), "changed.*metrics"),
    "missing": (lambda run: (run / "run.json").unlink(), "missing.*run.json"),
    "no checkpoints": (lambda run: shutil.rmtree(run / "ckpt"), r"missing.*ckpt/.* and \d+ more"),
    "added": (lambda run: (run / "ckpt/evil").write_text("x"), "added.*ckpt/evil"),
    "link": (link, "config.json: .*symbolic link"),
    "linked folder": (lambda run: (run / "more").symlink_to(run.parent), "more: "),
    "no certificate": (lambda run: (run / "certificate.json").unlink(), "there is no cert"),
    "no json": (lambda run: (run / "certificate.json").write_text("{"), "not a certificate"),
    "a list": (lambda run: (run / "certificate.json").write_text("[]"), "not a certificate"),
    "deep": (lambda run: (run / "certificate.json").write_text("[" * 10**5), "not a certificate"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_of_a_folder_is_one_error(signed: Path, name: str) -> None:
    assert checked(signed)["rows"] == 3
    change, message = CHANGES[name]
    change(signed)
    with pytest.raises(CertificateError, match=message):
        checked(signed)


def test_a_changed_statement_is_found(signed: Path) -> None:
    changed(signed / "certificate.json", lambda all_: all_["statement"].update(rows=4))
    with pytest.raises(CertificateError, match="changed after it was signed"):
        checked(signed)
    changed(signed / "certificate.json", lambda all_: all_.update(signature="AAAA"))
    with pytest.raises(CertificateError, match="changed after it was signed"):
        checked(signed)


def test_another_key_is_found_before_any_file_is_read(
    signed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other = write_keys(signed.parent, "other")
    monkeypatch.setattr(certificates, "hashes", lambda folder: pytest.fail("read"))
    assert main(["verify", str(signed), "--certificate", str(other)]) == 1
    err = capsys.readouterr().err
    assert "signed by another key: SHA256:" in err
    assert err.count("error:") == 1


def test_a_forged_name_of_the_key_does_not_help(signed: Path) -> None:
    """Signed by another key that calls itself by the fingerprint of the trusted one."""
    private, _ = write_keys(signed.parent, "forger")
    statement = json.loads((signed / "certificate.json").read_text())["statement"]
    mine = certificates.fingerprint(certificates.read_public_key(signed.parent / "mine.pub"))
    certificates.sign(signed, statement, certificates.read_private_key(private))
    changed(signed / "certificate.json", lambda all_: all_.update(key=mine))
    with pytest.raises(CertificateError, match="changed after it was signed"):
        checked(signed)


def test_videos_of_later_commands_and_hidden_files_may_be_there(signed: Path) -> None:
    (signed / "video").mkdir(exist_ok=True)
    (signed / "video" / "a.mp4").write_bytes(b"x")
    (signed / ".lock").write_bytes(b"")
    assert checked(signed)["rows"] == 3


def test_keys_of_openssh_are_read_too(signed: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = signed.parent / "id", signed.parent / "id.pub"
    private.write_bytes(
        key.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.OpenSSH, keys.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(keys.Encoding.OpenSSH, keys.PublicFormat.OpenSSH)
    )
    certificates.sign(signed, {"files": {}, "rows": 1}, certificates.read_private_key(private))
    with pytest.raises(CertificateError, match="added since"):
        checked(signed, "id.pub")
    blob = base64.b64decode(public.read_text().split()[1])
    from hashlib import sha256

    name = base64.b64encode(sha256(blob).digest()).decode().rstrip("=")
    assert certificates.fingerprint(key.public_key()) == f"SHA256:{name}"


def test_what_is_no_key_is_refused_before_a_training(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = write_keys(tmp_path, "mine")
    monkeypatch.setattr("dicore_tools.commands.verify.verify", lambda *_, **__: pytest.fail("ran"))
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "rsa.pem").write_bytes(
        other.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.PKCS8, keys.NoEncryption())
    )
    (tmp_path / "locked.pem").write_bytes(
        ed25519.Ed25519PrivateKey.generate().private_bytes(
            keys.Encoding.PEM, keys.PrivateFormat.PKCS8, keys.BestAvailableEncryption(b"x")
        )
    )
    (tmp_path / "text.pem").write_text("hello")
    for name, message in [
        ("nothing.pem", "cannot read the private key"), ("rsa.pem", "a key of another kind"),
        ("locked.pem", "the key has a password"), ("text.pem", "not a private key"),
        ("mine.pub", "not a private key"), (".", "cannot read the private key"),
    ]:  # fmt: skip
        assert main(["verify", str(run), "--sign", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(UsageError, match="not a public key"):
        certificates.read_public_key(private)
    words = ["verify", str(run), "--certificate", str(public)]
    assert main([*words, "--sign", str(private)]) == 2
    assert "--certificate trains nothing" in capsys.readouterr().err
