"""A wheel says what it is made of and needs, in the same bytes each time."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

RELEASE = Path(__file__).parents[2] / "release"
METADATA = """Metadata-Version: 2.4
Name: acme-rl
Version: 0.3
License-Expression: MIT
Requires-Dist: dicore<0.2,>=0.1
Requires-Dist: numpy>=1.26
Requires-Dist: wandb; extra == "wandb"
"""


@pytest.fixture
def sbom(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(RELEASE))
    yield importlib.import_module("sbom")
    sys.modules.pop("sbom")


def wheel(folder: Path) -> Path:
    file = folder / "acme_rl-0.3-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in {
            "acme_rl/__init__.py": "",
            "acme_rl-0.3.dist-info/METADATA": METADATA,
            "acme_rl-0.3.dist-info/RECORD": "acme_rl/__init__.py,,\n",
        }.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 0, 0, 0)), text)
    return file


def test_it_names_the_distribution_and_what_it_needs_without_extras(sbom: Any) -> None:
    document = json.loads(sbom.sbom(METADATA))
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/acme-rl@0.3"
    assert document["metadata"]["component"]["licenses"] == [{"license": {"id": "MIT"}}]
    needed = {each["name"]: each["properties"][0]["value"] for each in document["components"]}
    assert needed == {"dicore": "<0.2,>=0.1", "numpy": ">=1.26"}
    assert document["dependencies"][0] == {"ref": "acme-rl", "dependsOn": ["dicore", "numpy"]}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None


def test_the_wheel_records_it_and_two_are_equal(sbom: Any, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        file = wheel(tmp_path / name)
        place = sbom.add_sbom(file)
        made.append(file.read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(file) as archive:
        rows = {row[0]: row[1:] for row in csv.reader(
            archive.read("acme_rl-0.3.dist-info/RECORD").decode().splitlines())}  # fmt: skip
        text = archive.read(place)
        assert archive.namelist()[-1] == "acme_rl-0.3.dist-info/RECORD"
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    assert rows[place] == [f"sha256={digest}", str(len(text))]
    assert set(rows) == {"acme_rl/__init__.py", place}
