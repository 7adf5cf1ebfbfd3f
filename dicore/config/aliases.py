"""Every short form and second name of a key, in one table; the right side is the one shape.

A short form means the same whatever the policy, so no component may declare an option of that path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dicore.config.merge import combine
from dicore.config.plain import lookup

if TYPE_CHECKING:
    from dicore.config.problems import Problems

__all__ = ["ALIASES", "CREATE_PATHS", "expand_aliases"]

CREATE_PATHS: dict[str, str] = {
    "env": "env",
    "env_manager": "env.manager",
    "policy": "policy",
    "model": "policy.model",
    "learner": "policy.learn.learner",
    "collector": "policy.collect.collector",
    "evaluator": "policy.eval.evaluator",
    "replay_buffer": "policy.other.replay_buffer",
    "buffer": "policy.other.replay_buffer",
    "reward_model": "policy.reward_model",
    "world_model": "policy.world_model",
    "pipeline": "pipeline",
}
"""Where the entries of a `create_config` land; a main config may use these names too."""

ALIASES: dict[str, str] = {
    **{name: path for name, path in CREATE_PATHS.items() if name != path},
    "policy.batch_size": "policy.learn.batch_size",
    "policy.update_per_collect": "policy.learn.update_per_collect",
    "policy.learning_rate": "policy.learn.learning_rate",
    "policy.n_sample": "policy.collect.n_sample",
    "policy.n_episode": "policy.collect.n_episode",
    "policy.unroll_len": "policy.collect.unroll_len",
    "policy.learn.nstep": "policy.nstep",
    "policy.collect.nstep": "policy.nstep",
    "policy.collect.discount_factor": "policy.discount_factor",
    "policy.learn.multi_gpu": "policy.multi_gpu",
    "policy.replay_buffer": "policy.other.replay_buffer",
    "policy.learn.hook": "policy.learn.learner.hook",
    "policy.collect.collector.n_sample": "policy.collect.n_sample",
    "policy.collect.collector.n_episode": "policy.collect.n_episode",
    "policy.collect.collector.unroll_len": "policy.collect.unroll_len",
    "policy.eval.evaluator.stop_value": "env.stop_value",
    "policy.eval.evaluator.n_episode": "env.n_evaluator_episode",
    "policy.eval.evaluator.n_evaluator_episode": "env.n_evaluator_episode",
    "env.env_manager": "env.manager",
}


def expand_aliases(
    tree: Mapping[str, Any], problems: Problems, layer: Any = None, *, below: str = ""
) -> dict[str, Any]:
    """Moves what stands under a short form to where it belongs.

    Args:
        tree: A plain tree of this call's own; it may be changed.
        problems: Takes a finding where both forms are given and differ.
        layer: Where the tree came from, for the findings.
        below: Only move what stays below this path.
    """
    expanded = dict(tree)
    for alias, path in ALIASES.items():
        if not (alias.startswith(below) and path.startswith(below)):
            continue
        value = _take(expanded, alias)
        if value is None:
            continue

        def contradicts(
            at: str, first: Any, second: Any, *, alias: str = alias, path: str = path
        ) -> None:
            said = f"{second!r} contradicts {at}, which is {first!r}; give one of them"
            problems.add(f"{alias}{at.removeprefix(path)}", said, layer)

        held = lookup(expanded, path)
        joined = value if held is None else combine(held, value, path, contradicts)
        if not _put(expanded, path.split("."), joined):
            problems.add(alias, f"stands for {path}, whose section is not a dict", layer)
    return expanded


def _take(tree: dict[str, Any], path: str) -> Any:
    *above, key = path.split(".")
    node: Any = tree
    for name in above:
        node = node.get(name) if isinstance(node, dict) else None
    return node.pop(key, None) if isinstance(node, dict) else None


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> bool:
    *above, last = keys
    node = tree
    for name in above:
        below = node.get(name)
        if below is None:
            below = node[name] = {}
        elif isinstance(below, str | type):
            below = node[name] = {"type": below}
        if not isinstance(below, dict):
            return False
        node = below
    node[last] = value
    return True
