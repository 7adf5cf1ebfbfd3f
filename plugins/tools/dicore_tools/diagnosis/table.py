"""The rules of the diagnosis in the order of causes: a fault explains those that follow it.

What the data are comes before what is learned from them, and options that are wrong by themselves
before their consequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from dicore_tools.diagnosis.evidence import Evidence
from dicore_tools.diagnosis.finding import Finding, MissingEvidenceError
from dicore_tools.diagnosis.rules_data import (
    constant_observations,
    constant_rewards,
    normalisation_drifts,
    observation_scale,
    reward_scale,
)
from dicore_tools.diagnosis.rules_evaluation import evaluation_noise
from dicore_tools.diagnosis.rules_policy import (
    actions_saturated,
    entropy_collapsed,
    entropy_dominates,
    exploration_ended,
    exploration_goes_on,
    kl_spikes,
    mostly_clipped,
)
from dicore_tools.diagnosis.rules_updates import (
    buffer_small,
    dead_units,
    gradients_clipped,
    gradients_vanish,
    hardly_any_updates,
    learning_rate_high,
    learning_rate_low,
    loss_explodes,
    replay_ratio_high,
    replay_ratio_low,
    updates_skipped,
)
from dicore_tools.diagnosis.rules_values import (
    ends_ignored,
    frozen_target,
    no_target,
    short_horizon,
    values_too_high,
)

__all__ = ["RULES", "Diagnosis", "Rule", "diagnose"]

Rule = Callable[[Evidence], Finding | None]
"""Looks at the evidence; named like the function, whose docstring begins with the fault."""

RULES: Final[tuple[Rule, ...]] = (
    constant_rewards,
    constant_observations,
    observation_scale,
    normalisation_drifts,
    reward_scale,
    hardly_any_updates,
    replay_ratio_high,
    replay_ratio_low,
    buffer_small,
    exploration_ended,
    exploration_goes_on,
    short_horizon,
    no_target,
    frozen_target,
    ends_ignored,
    entropy_dominates,
    learning_rate_high,
    learning_rate_low,
    gradients_clipped,
    mostly_clipped,
    kl_spikes,
    values_too_high,
    entropy_collapsed,
    updates_skipped,
    loss_explodes,
    dead_units,
    gradients_vanish,
    actions_saturated,
    evaluation_noise,
)


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


def diagnose(run: Evidence, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Applies all rules.

    Args:
        run: The evidence.
        rules: The rules, causes before consequences.
    """
    findings: list[Finding] = []
    not_checked: dict[str, str] = {}
    for rule in rules:
        try:
            with np.errstate(all="ignore"):
                found = rule(run)
        except MissingEvidenceError as error:
            not_checked[rule.__name__] = str(error)
        except _ODD as error:
            not_checked[rule.__name__] = f"config or checkpoint are of another form: {error!r}"
        else:
            if found is not None:
                findings.append(replace(found, rule=rule.__name__))
    return Diagnosis(findings, not_checked)
