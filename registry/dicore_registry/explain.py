"""Errors of a failed lookup: misspelt, of another kind, not installed, ambiguous, unusable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING

from dicore_registry.entry import LOCAL, Entry, canonical, family
from dicore_registry.errors import (
    MissingDependencyError,
    PluginConflictError,
    PluginLoadError,
    PluginVersionError,
    RegistryError,
    UnknownComponentError,
)
from dicore_registry.installing import install_line
from dicore_registry.known import known
from dicore_registry.requirements import dist_name

if TYPE_CHECKING:
    from dicore_registry.metadata import Dist

_SHOWN = 20
"""Number of names printed; the rest is counted."""

_WORDS = dict.fromkeys(("algorithm", "algo", "agent"), "policy") | {
    "environment": "env", "wrapper": "env_wrapper", "hook": "learner_hook", "network": "model",
}  # fmt: skip
"""What others call a kind."""
_CUTOFF = 0.6
_CUTOFF_ELSEWHERE = 0.78
_BONUS = 0.1
_LONGEST = 100
_MOST_INITIALS = 6
"""Letters of a name that may still be a misspelt one."""


def at(where: str, text: str) -> str:
    """Prefixes a text with its config path."""
    return f"{where}: {text}" if where else text


def absent(kind: str) -> str:
    """States that no component of a kind is installed, and which package provides most."""
    counts = Counter(known(kind).values())
    dist = max(counts, key=counts.__getitem__, default="")
    hint = f"; '{dist}' provides some: {install_line(dist)}" if dist else ""
    return f"no {kind} is installed{hint}"


def provider(kind: str) -> str:
    """Says which first-party package provides a kind that is not there; "": none."""
    dist = min(known(kind).values(), default="")
    return f"it is provided by '{dist}': {install_line(dist)}" if dist else ""


_ELSEWHERE = {
    "command": {
        **dict.fromkeys(("learn", "fit", "run"), "train"),
        **dict.fromkeys(("resume", "continue"), "train --resume RUN"),
        **dict.fromkeys(("test", "evaluate", "predict", "load"), "eval"),
        **dict.fromkeys(("play", "render", "visualize", "video"), "enjoy"),
        **dict.fromkeys(("rollout", "record"), "collect"),
        **dict.fromkeys(("optimize", "hpo", "sweep"), "tune"),
        "compare": "plot RUN RUN, report RUN RUN, or config diff RUN RUN",
        "tensorboard": "board",
    },
    "policy": {
        "maskable_ppo": "ppo, which obeys an action_mask in the observation",
        **dict.fromkeys(
            ("recurrent_ppo", "ppo_lstm", "lstm_ppo"), "ppo with policy.model.rnn=lstm"
        ),
        **dict.fromkeys(("ppo_continuous_action", "ppo_continuous"), "ppo"),
        **dict.fromkeys(("reinforce", "vpg"), "pg"),
        **dict.fromkeys(("qr_dqn", "quantile_dqn"), "qrdqn"),
        **dict.fromkeys(("sac_discrete", "sacd"), "discrete_sac"),
        "double_dqn": "ddqn",
        "dueling_dqn": "dueling",
        "drqn": "r2d2",
        "td3bc": "td3_bc",
        "discrete_bc": "bc",
        "her": "dqn (sac for continuous actions) with policy.reward_model=her",
    },
    "env_wrapper": {
        **dict.fromkeys(("normalize_observation", "normalizeobservation"), "obs_norm"),
        **dict.fromkeys(("normalize_reward", "normalizereward"), "reward_norm"),
        "vecnormalize": "obs_norm, and reward_norm for rewards",
        **dict.fromkeys(("vecframestack", "framestack", "framestackobservation"), "frame_stack"),
        **dict.fromkeys(("flattenobservation", "flatten_observation"), "flat_obs"),
        "rescaleaction": "rescale_action",
        "timelimit": "time_limit",
    },
}
"""What other libraries call a component, by kind; what to write here begins with its name."""


def unknown_kind(kind: str, kinds: Iterable[str], where: str) -> UnknownComponentError:
    """Returns the error for an unknown kind: its package, a near one, or all."""
    kinds = sorted(kinds)
    close = _WORDS.get(kind) or nearest(kind, kinds)
    hint = f"did you mean '{close}'?" if close else f"expected one of {', '.join(kinds)}"
    hint = provider(kind) or hint
    if not kinds:
        hint = "no installed package declares kinds: pip install dicore"
    return UnknownComponentError(at(where, f"unknown kind '{kind}'; {hint}"))


def unknown(
    kind: str, written: str, entries: Sequence[Entry], order: Sequence[str], where: str
) -> UnknownComponentError:
    """Returns the error for an unknown name, with a suggestion.

    Args:
        kind: The requested kind.
        written: The name as written, `name` or `dist/name`.
        entries: All declared components, those of the kind with their judged status.
        order: Kinds in the order in which to list them.
        where: Config path of the name.
    """
    dist, slash, bare = written.rpartition("/")
    name = f"{dist_name(dist)}{slash}{canonical(bare)}"
    hint = beside(written) or _hint(kind, name, entries, order)
    text = f"no {kind} named '{written}'; {hint}"
    return UnknownComponentError(at(where, text), context={"kind": kind, "name": name})


def gone(kind: str, name: str, dist: str, version: str) -> str:
    """Returns the message about a component that a run used, and is not there now."""
    how = f"the run used it from {dist} {version}: install that package again"
    if dist == LOCAL:
        how = f"it was registered where the run was trained, by register('{kind}', '{name}') or an"
        how += f" Agent: dicore --plugin FILE.py … runs a file with register('{kind}', '{name}')(…)"
        how += " outside of if __name__ == '__main__'"
    return f"no {kind} named '{name}' is installed; {how}"


def beside(written: str) -> str:
    """Returns how to write a class of a file that is here, for `a.b`, `a.py::b`; "" if none is."""
    file, _, name = written.replace(".py", "").replace("::", ":").rpartition(":")
    pairs = [(file, name), written.replace(".py", "").rpartition(".")[::2], (written, "CLASS")]
    for stem, attr in pairs:
        if stem and attr.isidentifier() and os.path.isfile(f"{stem}.py"):  # noqa: PTH113
            return f"{stem}.py is here: for a class of it, write {stem}.py:{attr}"
    if "." in written and os.path.isfile(f"{written.replace('.', '/')}.py"):  # noqa: PTH113
        return f"it is a module that is here: for a class of it, write {written}:CLASS"
    return ""


def _hint(kind: str, name: str, entries: Sequence[Entry], order: Sequence[str]) -> str:
    of_kind = [entry for entry in entries if entry.kind == kind]
    names = {entry.name for entry in of_kind if entry.status not in ("broken", "deprecated")}
    if "/" in name:
        return _qualified_hint(kind, name, of_kind)
    meant = _ELSEWHERE.get(kind, {}).get(name.rpartition(".")[2], "")
    if meant and meant.split()[0].strip(",") in names:
        return f"here it is {meant}"
    return (
        _misplaced(kind, name, entries)
        or _not_installed(kind, name)
        or _versions(name, names)
        or _other_kinds(name, entries, order)
        or _misspelt(kind, name, names, {entry.name for entry in of_kind} - names)
        or _installed(kind, names)
    )


def _misplaced(kind: str, name: str, entries: Sequence[Entry]) -> str:
    """Finds the name in a misspelt group of this kind."""
    for entry in entries:
        if entry.name == name and f"did you mean 'dicore.{kind}'" in entry.reason:
            return f"{entry.kind}/{entry.name} ({entry.provider}) is broken: {entry.reason}"
    return ""


def _not_installed(kind: str, name: str) -> str:
    dist = known(kind).get(name)
    return f"it is provided by '{dist}': {install_line(dist)}" if dist else ""


def _versions(name: str, names: Iterable[str]) -> str:
    stem, number = family(name)
    if number is None:
        return ""
    numbered = sorted((family(known)[1] or 0, known) for known in names if family(known)[0] == stem)
    return f"available: {', '.join(repr(known) for _, known in numbered)}" if numbered else ""


def _other_kinds(name: str, entries: Sequence[Entry], order: Sequence[str]) -> str:
    others = {entry.kind for entry in entries if entry.name == name}
    found = [article(other) for other in order if other in others]
    return f"'{name}' is {' and '.join(found)}" if found else ""


def _misspelt(kind: str, name: str, names: set[str], unusable: set[str]) -> str:
    providers = known(kind)
    close = nearest(name, names | set(providers) - unusable)
    if not close or close in names:
        return f"did you mean '{close}'?" if close else ""
    dist = providers[close]
    return f"did you mean '{close}', provided by '{dist}': {install_line(dist)}?"


def _installed(kind: str, names: set[str]) -> str:
    if names:
        return f"installed: {_listed(sorted(names))} (dicore list {kind})"
    return absent(kind)


def _qualified_hint(kind: str, name: str, of_kind: Sequence[Entry]) -> str:
    dist, _, bare = name.rpartition("/")
    if not dist or "/" in dist or not bare:
        return "expected 'name' or 'package/name'"
    same_dist = sorted(entry.qualified for entry in of_kind if entry.dist == dist)
    same_name = sorted(entry.qualified for entry in of_kind if entry.name == bare)
    if close := nearest(name, [*same_dist, *same_name]):
        return f"did you mean '{close}'?"
    if same_dist:
        return f"{dist} provides {_listed(same_dist)}"
    advice = (
        f": {install_line(dist)}" if dist in known(kind).values() else f"; no file '{name}' either"
    )
    return f"no installed package '{dist}' provides {article(kind)}{advice}"


def article(kind: str) -> str:
    """Returns the kind with its indefinite article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def no_package(
    dist: str, entries: Iterable[Entry], installed: Mapping[str, Dist]
) -> UnknownComponentError:
    """Returns the error for a package that declares nothing for dicore, or is not installed."""
    name = dist_name(dist)
    known = {entry.dist for entry in entries}
    found = installed.get(name)
    if found is not None:
        hint = f"{found.fault}; reinstall it" if found.fault else ""
        return UnknownComponentError(f"package '{name}' provides no components", hint=hint)
    close = nearest(name, known)
    hint = f"did you mean '{close}'?" if close else f"packages: {', '.join(sorted(known))}"
    return UnknownComponentError(
        f"no installed package '{dist}' provides components; {hint}",
        hint="" if close else "install it; from its source folder: pip install -e .",
    )


def preferred(kind: str, name: str, dist: str, where: str) -> UnknownComponentError:
    """Returns the error for a preferred package that does not provide the name."""
    text = f"the project prefers '{dist}/{name}', but no installed package '{dist}' provides it"
    return UnknownComponentError(
        at(where, text), hint=f"pip install {dist}, or edit tool.dicore.prefer in pyproject.toml"
    )


def ambiguous(kind: str, name: str, rivals: Sequence[Entry], where: str) -> PluginConflictError:
    """Returns the error for a name of several packages, with the spelling of each."""
    if kind == "api":
        spellings = [f"from {entry.module} import {entry.attr}" for entry in rivals]
    else:
        spellings = [entry.qualified for entry in rivals]
    choices = ", ".join(f"'{spelling}'" for spelling in spellings)
    text = f"{kind} '{name}' is provided by {len(rivals)} packages; write one of: {choices}"
    return PluginConflictError(at(where, text), context={"choices": tuple(spellings)})


def default_conflict(kind: str, rivals: Sequence[Entry], where: str) -> PluginConflictError:
    """Returns the error for a kind whose default is set by several packages."""
    each = ", ".join(f"{entry.dist}: '{entry.target}'" for entry in rivals)
    text = f"{len(rivals)} packages set the default {kind} ({each}); name one in the config"
    return PluginConflictError(at(where, text))


def unusable(entry: Entry, where: str) -> RegistryError:
    """Returns the error for a declared component that cannot be used."""
    error: type[RegistryError] = {
        "broken": PluginLoadError,
        "incompatible": PluginVersionError,
        "unavailable": MissingDependencyError,
    }.get(entry.status, RegistryError)
    text = f"{entry.label} is {entry.status}: {entry.reason}"
    return error(at(where, text), context={"entry": entry})


def failed(label: str, module: str, error: BaseException, where: str) -> PluginLoadError:
    """Returns the error for a component whose import failed."""
    text = f"{label} failed to import {module}: {brief(error)}"
    gone = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
    hint = (
        "install its package again after a change of entry points or names: pip install -e FOLDER"
    )
    return PluginLoadError(at(where, text), hint=hint if gone else "", context={"module": module})


def brief(error: BaseException) -> str:
    """Returns the class and the first line of an error, even if its `__str__` raises."""
    try:
        lines = str(error).strip().splitlines() or [""]
    except Exception:
        lines = [""]
    return f"{type(error).__name__}: {lines[0]}".rstrip(": ")


_SHORT = 4
"""Letters up to which a close name in the same place beats every name of another place."""


def nearest(name: str, known: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
    """Returns the known name that is closest to a misspelt one; "" if none is close.

    Args:
        name: The name as written; case, `_` and `-` do not count.
        known: Names in the place where it was written; preferred among equally close ones, and to
            all others if the name is short.
        elsewhere: Dotted paths of other places, compared by their last key.
    """
    if len(name) > _LONGEST:
        return ""
    wanted = _word(name)
    known = sorted(known) if isinstance(known, Set) else list(known)
    best, best_score = "", _CUTOFF
    for each in known:
        score = _likeness(wanted, _word(each), max(_CUTOFF, best_score - _BONUS))
        if score >= _CUTOFF and score + _BONUS > best_score:
            best, best_score = each, score + _BONUS
    size, bag = len(wanted[0]), wanted[1]
    least = max(_CUTOFF_ELSEWHERE, best_score)
    for path in elsewhere if not best or size > _SHORT else ():
        other = _last(path)
        if 2 * (bag & other[1]).bit_count() < least * (size + len(other[0])):
            continue  # most paths: a call for each would take most of the time
        score = _likeness(wanted, other, least)
        if score >= _CUTOFF_ELSEWHERE and score > best_score:
            best, best_score, least = path, score, max(_CUTOFF_ELSEWHERE, score)
    if not best and 1 < len(wanted[0]) <= _MOST_INITIALS:  # `lr`, or `lrr`
        short = {wanted[0], *(wanted[0][:i] + wanted[0][i + 1 :] for i in range(2, len(wanted[0])))}
        return next((each for each in (*known, *elsewhere) if _initials(each) in short), "")
    return best


@lru_cache(maxsize=4096)
def _initials(path: str) -> str:
    name = path.rpartition(".")[2]
    return "".join(word[0] for word in name.lower().split("_") if word)


@lru_cache(maxsize=4096)
def _word(name: str) -> tuple[str, int]:
    """Returns the letters of a name, and a bit for each letter and each time that it occurs."""
    text = name.lower().replace("_", "").replace("-", "")
    bag, seen = 0, Counter[int]()
    for letter in text:
        code = ord(letter) & 127
        bag |= 1 << (code + 128 * seen[code])
        seen[code] += 1
    return text, bag


@lru_cache(maxsize=4096)
def _last(path: str) -> tuple[str, int]:
    return _word(path.rpartition(".")[2])


def _likeness(first: tuple[str, int], second: tuple[str, int], least: float) -> float:
    """Returns the similarity of two words, from 0 to 1; 0.0 if it is below `least`."""
    if first[0] == second[0]:
        return 1.0
    if first[1] == second[1]:
        return 0.9  # the same letters in another order
    if 2 * (first[1] & second[1]).bit_count() < least * (len(first[0]) + len(second[0])):
        return 0.0  # an upper bound: the letters that they share, in any order
    from difflib import SequenceMatcher

    return SequenceMatcher(None, first[0], second[0], autojunk=False).ratio()
