"""The contract of rules of the diagnosis: silent without evidence, clear and read-only with it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dicore.run.folder import RunFolder
from dicore.testing.suite import Suite, expect
from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Finding, MissingEvidenceError
from dicore_tools.reports.run_data import RunData

__all__ = ["DiagnosisRuleContract"]

_CURVES = ("collector/reward_mean", "evaluator/return_mean", "learner/total_loss")


class DiagnosisRuleContract(Suite):
    """Conformance suite of rules: subclass it and override `make`."""

    def make(self) -> Any:
        """Returns the rule: a function of the evidence of a run."""
        return self.registered.target

    def evidence(self, curves: Mapping[str, Any]) -> Evidence:
        """Returns the evidence of a run with these metrics and nothing else: float64 [P, 4]."""
        with tempfile.TemporaryDirectory() as folder:
            return Evidence(RunData(RunFolder(Path(folder)), {}, {}, curves), None)

    def test_says_what_it_finds(self) -> None:
        """The first line of its docstring names the fault."""
        lines = (getattr(self.make(), "__doc__", None) or "").strip().splitlines()
        expect(lines and lines[0].strip(), "it has no docstring")

    def test_is_silent_without_evidence(self) -> None:
        """Of a run that records nothing it says nothing, or that evidence is missing."""
        try:
            found = self.make()(self.evidence({}))
        except MissingEvidenceError:
            return
        expect(found is None, f"it found {found!r} in a run that records nothing")

    def test_finds_or_returns_none(self) -> None:
        """What it returns is a `Finding` or None; other errors than missing evidence are faults."""
        rising = np.stack([np.arange(1.0, 41.0)] * 4, 1)
        try:
            found = self.make()(self.evidence(dict.fromkeys(_CURVES, rising)))
        except MissingEvidenceError:
            return
        expect(found is None or isinstance(found, Finding), f"it returned {found!r}, no Finding")

    def test_changes_nothing(self) -> None:
        """It does not write into the metrics, which other rules read."""
        curves = {name: np.stack([np.arange(1.0, 41.0)] * 4, 1) for name in _CURVES}
        before = {name: each.copy() for name, each in curves.items()}
        with contextlib.suppress(MissingEvidenceError):
            self.make()(self.evidence(curves))
        same = all(np.array_equal(curves[name], before[name]) for name in _CURVES)
        expect(same, "it changed the metrics that it read")
