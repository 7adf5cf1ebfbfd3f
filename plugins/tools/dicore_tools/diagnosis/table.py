"""The rules of the diagnosis in the order of causes: a fault explains those that follow it.

What the data are comes before what is learned from them, and options that are wrong by themselves
before their consequences. Rules are components of the kind `diagnosis_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from dicore.errors import DicoreError
from dicore_registry import Entry, Kind, default
from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Finding, MissingEvidenceError

__all__ = ["KIND", "ORDER", "Diagnosis", "Rule", "diagnose", "installed_rules"]

KIND = Kind(
    name="diagnosis_rule",
    summary="finds a fault of learning in the evidence of a run",
    suite="dicore_tools.diagnosis.contract:DiagnosisRuleContract",
    use="diagnose(read_evidence(RunFolder(RUN)))  # dicore diagnose RUN",
)

Rule = Callable[[Evidence], Finding | None]
"""Looks at the evidence of a run; the first line of its docstring says what it finds."""

ORDER: Final = (
    "constant_rewards",
    "constant_observations",
    "observation_scale",
    "normalisation_drifts",
    "reward_scale",
    "hardly_any_updates",
    "replay_ratio_high",
    "replay_ratio_low",
    "buffer_small",
    "exploration_ended",
    "exploration_goes_on",
    "learning_rate_ended",
    "short_horizon",
    "no_target",
    "frozen_target",
    "ends_ignored",
    "entropy_dominates",
    "learning_rate_high",
    "learning_rate_low",
    "gradients_clipped",
    "mostly_clipped",
    "kl_spikes",
    "values_too_high",
    "entropy_collapsed",
    "updates_skipped",
    "loss_explodes",
    "dead_units",
    "gradients_vanish",
    "actions_saturated",
    "evaluation_noise",
)
"""Names of rules, causes before consequences; others follow."""

_ODD: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of a rule at files of a stranger's components, or that were edited."""


class Diagnosis(NamedTuple):
    """What the rules say of a run.

    Args:
        findings: The faults found, likely causes first.
        not_checked: Rules that do not apply: what they need, and the run does not record.
    """

    findings: list[Finding]
    not_checked: dict[str, str]


def installed_rules() -> dict[str, Rule]:
    """Returns the rules of all installed packages by name, in the order of causes."""
    entries = [each for each in default().entries(KIND.name) if each.status == "ok"]
    place = {name: number for number, name in enumerate(ORDER)}
    entries.sort(key=lambda each: (place.get(each.name, len(place)), each.name))
    return {each.name: _loaded(each) for each in entries}


def _loaded(entry: Entry) -> Rule:
    """Returns a rule; one that cannot be imported says so when it is applied."""
    try:
        rule: Rule = default().load(entry)
    except DicoreError as error:
        text = str(error)

        def missing(run: Evidence) -> Finding | None:
            raise MissingEvidenceError(text)

        return missing
    return rule


def diagnose(run: Evidence, rules: Mapping[str, Rule] | None = None) -> Diagnosis:
    """Applies rules.

    Args:
        run: The evidence.
        rules: The rules by name, causes before consequences; None: those that are installed.
    """
    findings: list[Finding] = []
    not_checked: dict[str, str] = {}
    for name, rule in (installed_rules() if rules is None else rules).items():
        try:
            with np.errstate(all="ignore"):
                found = rule(run)
        except MissingEvidenceError as error:
            not_checked[name] = str(error)
        except _ODD as error:
            not_checked[name] = f"config or checkpoint are of another form: {error!r}"
        else:
            if found is not None:
                findings.append(replace(found, rule=name))
    return Diagnosis(findings, not_checked)
