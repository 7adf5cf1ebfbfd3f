"""The audit of dependencies: what is affected, and that silence is never "clean"."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from release.audit import ROOT, audit, findings, pins


def advisory(name: str, *events: dict[str, str], **more: Any) -> dict[str, Any]:
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
        **{key: more.pop(key) for key in ("versions",) if key in more},
    }
    return {"id": "GHSA-1", "summary": "Runs code.", "affected": [affected], **more}


@pytest.mark.parametrize(
    ("version", "events", "is_affected"),
    [
        ("1.4", [{"introduced": "0"}, {"fixed": "1.5"}], True),
        ("1.5", [{"introduced": "0"}, {"fixed": "1.5"}], False),
        ("1.5rc1", [{"introduced": "0"}, {"fixed": "1.5"}], True),
        ("1.4", [{"introduced": "1.4"}], True),
        ("1.3", [{"introduced": "1.4"}], False),
        ("1.4", [{"introduced": "1.0"}, {"last_affected": "1.4"}], True),
        ("1.4.1", [{"introduced": "1.0"}, {"last_affected": "1.4"}], False),
        ("2.1", [{"introduced": "0"}, {"fixed": "1.5"}, {"introduced": "2.0"}], True),
        ("1.10", [{"introduced": "0"}, {"fixed": "1.9"}], False),
    ],
)
def test_ranges(version: str, events: list[dict[str, str]], is_affected: bool) -> None:
    found = [*findings({"acme-rl": version}, iter([advisory("Acme_RL", *events)]))]
    assert bool(found) == is_affected


def test_lists_of_versions_and_what_does_not_count() -> None:
    packages = {"acme": "1.0"}
    listed = advisory("acme", versions=["1.0"])
    assert [each.advisory for each in findings(packages, iter([listed]))] == ["GHSA-1"]
    assert [*findings(packages, iter([{**listed, "withdrawn": "2030-01-01"}]))] == []
    listed["affected"][0]["package"]["ecosystem"] = "npm"
    assert [*findings(packages, iter([listed]))] == []


def test_pins_of_constraints() -> None:
    found = pins("# a\nNumPy==2.1\nruff[x]==0.1 ; python_version > '3'\nother>=1\n")
    assert found == {"numpy": "2.1", "ruff": "0.1"}
    assert len(pins((ROOT / "constraints.txt").read_text())) > 30


def test_without_a_database_it_is_not_audited(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit({"acme": "1.0"}, None, {}) == 0
    said = capsys.readouterr().out
    assert said.startswith("not audited: ")


@pytest.mark.parametrize("form", ["zip", "folder", "list"])
def test_a_database_of_any_form(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(advisory("acme", {"introduced": "0"}))
    path = tmp_path / "base"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("GHSA-1.json", text)
    elif form == "folder":
        path.mkdir()
        (path / "GHSA-1.json").write_text(text)
    else:
        path.write_text(f"[{text}]")
    assert audit({"acme": "1.0"}, path, {}) == 1
    assert "acme 1.0: GHSA-1: Runs code.\n" in capsys.readouterr().out
    assert audit({"acme": "1.0"}, path, {"GHSA-1": "not used"}) == 0
    assert "accepted: not used" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[]", "{}", "no json", '["x"]'])
def test_what_is_no_database_ends_it(content: str, tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(content)
    with pytest.raises(SystemExit, match=r"base\.json: "):
        audit({"acme": "1.0"}, tmp_path / "base.json", {})
