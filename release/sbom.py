"""A software bill of materials in a wheel (PEP 770): what it is made of and what it needs.

The document is CycloneDX 1.6, without a time and with an identity that follows from its content, so
that the same sources give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import uuid
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

__all__ = ["add_sbom", "sbom"]

_PLACE = "sboms/dicore.cdx.json"
_TIME = (2020, 2, 2, 0, 0, 0)
"""Of all files in a wheel that hatchling builds."""


def sbom(metadata: str) -> str:
    """Returns the document of a distribution.

    Args:
        metadata: Its METADATA, of which name, version, licence and requirements without an extra
            are taken.
    """
    told = HeaderParser().parsestr(metadata)
    subject = _component(told["Name"], told["Version"])
    subject.licenses.add(LicenseFactory().make_from_string(told["License-Expression"]))
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, metadata))
    bom.metadata.component = subject
    parts = []
    for each in map(Requirement, told.get_all("Requires-Dist") or ()):
        if not (each.marker and "extra" in str(each.marker)):
            part = _component(each.name, None)
            part.properties.add(Property(name="dicore:specifier", value=str(each.specifier)))
            bom.components.add(part)
            parts.append(part)
    bom.register_dependency(subject, parts)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    return json.dumps(document, indent=2) + "\n"


def _component(name: str, version: str | None) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=name,
        purl=PackageURL("pypi", name=name, version=version),
    )


def add_sbom(wheel: Path) -> str:
    """Writes the document of a wheel into it; returns its place in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        content = [(info, archive.read(info)) for info in archive.infolist()]
    record, lines = next((info, data) for info, data in content if _is(info, "RECORD"))
    metadata = next(data for info, data in content if _is(info, "METADATA")).decode()
    place = record.filename.replace("RECORD", _PLACE)
    text = sbom(metadata).encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    added = f"{place},sha256={digest},{len(text)}\n".encode()
    rest = [(info, data) for info, data in content if info is not record]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for info, data in (*rest, (_info(place), text), (record, added + lines)):
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    wheel.write_bytes(made.getvalue())
    return place


def _is(info: zipfile.ZipInfo, name: str) -> bool:
    folder, _, file = info.filename.rpartition("/")
    return folder.endswith(".dist-info") and file == name


def _info(place: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(place, _TIME)
    info.external_attr = 0o100644 << 16
    return info
