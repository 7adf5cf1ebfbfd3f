"""Which forms the values have that a conversion of DI-engine's configs computes with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dicore.errors import ConfigError
from dicore_compat.migrate.changes import Tree

__all__ = ["check_forms"]


def _is_number(value: Any) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and math.isfinite(value)


def _is_name(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_list(value: Any) -> bool:
    return value is None or isinstance(value, list | tuple)


def _is_range(value: Any) -> bool:
    return not isinstance(value, Mapping) or _is_number(value.get("max"))


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping)


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "env.type": (_is_name, "a name"),
    "env.manager.type": (_is_name, "a name"),
    "policy.type": (_is_name, "a name"),
    "policy.other.eps.decay": (_is_number, "a number"),
    "policy.eval.evaluator.eval_freq": (_is_number, "a number"),
    "policy.model.fixed_sigma_value": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "policy.model.encoder_hidden_size_list": (_is_list, "a list of layer sizes"),
    "policy.learn.noise_range": (_is_range, "{min: …, max: …}"),
    "reward_model": (_is_section, "a dict"),
    "world_model": (_is_section, "a dict"),
}


def check_forms(tree: Tree) -> None:
    """Checks the values that later steps compute with; what dicore reads itself, it checks itself.

    Raises:
        ConfigError: some have another form; it names all.
    """
    wrong = []
    for path, (fits, form) in _FORMS.items():
        if path in tree and not fits(value := tree.get(path)):
            wrong.append(f"{path}: expected {form}, got {value!r}")
    if wrong:
        raise ConfigError(wrong)
