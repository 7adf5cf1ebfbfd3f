"""The audit of dependencies: what is affected, and that silence is never "clean"."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime, timedelta
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
    now = datetime.now(UTC).isoformat()
    told = {"id": "GHSA-1", "modified": now, "summary": "Runs code.", "affected": [affected]}
    return {**told, **more}


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
        ("1.4+cpu", [{"introduced": "0"}, {"last_affected": "1.4"}], True),
        ("0.dev0", [{"introduced": "0"}], True),
        ("1.4", [{"introduced": "first-release"}], True),
        ("1.4", [{"introduced": "first-release"}, {"fixed": "1.4"}], True),
        ("1.4", [{"introduced": "0"}, {"fixed": "the-mend"}], True),
    ],
)
def test_ranges(version: str, events: list[dict[str, str]], is_affected: bool) -> None:
    found = [*findings({"acme-rl": version}, iter([advisory("Acme_RL", *events)]))]
    assert bool(found) == is_affected


@pytest.mark.parametrize(
    ("version", "listed"),
    [("1.0", "1.0.0"), ("1.0.0", "1.0"), ("1.0+cpu", "1.0"), ("1.0+cpu", "1.0+cpu"), ("1", "v1")],
)
def test_listed_versions_are_compared_as_versions(version: str, listed: str) -> None:
    found = advisory("acme", versions=[listed, "odd one"])
    assert [*findings({"acme": version}, iter([found]))]
    assert not [*findings({"acme": "1.1"}, iter([found]))]


def test_lists_of_versions_and_what_does_not_count() -> None:
    packages = {"acme": "1.0"}
    listed = advisory("acme", versions=["1.0"])
    assert [each.advisory for each in findings(packages, iter([listed]))] == ["GHSA-1"]
    assert [*findings(packages, iter([{**listed, "withdrawn": "2030-01-01"}]))] == []
    listed["affected"][0]["package"]["ecosystem"] = "npm"
    assert [*findings(packages, iter([listed]))] == []


def test_pins_of_constraints() -> None:
    found = pins("# a\nNumPy==2.1\nruff[x]==0.1 ; python_version > '3'\nb == 1.0\nc===2\n")
    assert found == {"numpy": "2.1", "ruff": "0.1", "b": "1.0", "c": "2"}
    assert len(pins((ROOT / "constraints.txt").read_text())) > 30


@pytest.mark.parametrize(
    "line", ["demo>=1.0", "demo", "demo==1.*", "demo===odd", "-r more.txt", ""]
)
def test_a_line_without_a_pin_is_not_audited(line: str) -> None:
    with pytest.raises(SystemExit, match="not audited: "):
        pins(f"# packages\n{line}\n")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"modified": "2015-01-01T00:00:00Z"}, "the newest advisory is of 2015-01-01"),
        ({"modified": None}, "no advisory says when"),
        ({"affected": [{"package": {"ecosystem": "npm", "name": "acme"}}]}, "no advisory of PyPI"),
    ],
)
def test_a_database_that_says_nothing_of_today_is_not_audited(
    change: dict[str, Any], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "base.json"
    path.write_text(json.dumps({**advisory("other", {"introduced": "0"}), **change}))
    assert audit({"acme": "1.0"}, path, {}) == 1
    said = capsys.readouterr().out
    assert said.startswith("not audited: base.json: ")
    assert why in said


def test_the_age_is_an_option_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "base.json"
    date = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    path.write_text(json.dumps(advisory("other", {"introduced": "0"}, modified=date)))
    assert audit({"acme": "1.0"}, path, {}) == 1
    assert audit({"acme": "1.0"}, path, {}, most_days=50) == 0
    assert f"the newest of {date}: 0 not accepted" in capsys.readouterr().out


def test_without_a_database_it_is_not_audited(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit({"acme": "1.0"}, None, {}) == 1
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
