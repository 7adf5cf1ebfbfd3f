"""What a reward model needs of the other parts of a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config import NamedConfig
from dicore.config.schema import ComponentConfig
from dicore.config.sections import RunConfig

_PLACE = "policy.reward_model"


def reward_model_problems(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for options that do not fit the reward model of a config."""
    section, policy = cfg.policy.reward_model, cfg.policy
    only = getattr(cfg.pipeline, "reward_models", ())
    if section is None or (only and section.type not in only):
        which = " or ".join(f"'{name}'" for name in only) or "one (dicore list reward_model)"
        has = None if section is None else section.type
        yield (
            _PLACE,
            f"'{cfg.pipeline.type}' trains with a reward model; expected {which}, got {has}",
        )
        return
    bridges = policy.nstep > 1 or policy.collect.unroll_len > 1
    if getattr(section, "hindsight", False):
        yield from _of_hindsight(cfg, bridges=bridges)
        return
    if getattr(section, "needs_expert", False):
        yield from _of_expert(section)
    if getattr(section, "needs_order", False) and bridges:
        path = "policy.nstep" if policy.nstep > 1 else "policy.collect.unroll_len"
        yield path, f"'{section.type}' sees each step once, in time order; expected 1"
    relabels = section.get("relabel") and not policy.on_policy
    if relabels and bridges and not getattr(section, "keeps_sums", False):
        yield (
            f"{_PLACE}.relabel",
            "samples over several steps keep the rewards that they were made with; expected False"
            " (or policy.nstep=1 and policy.collect.unroll_len=1)",
        )


def _of_expert(section: ComponentConfig) -> Iterator[tuple[str, str]]:
    """Yields why there are no steps of an expert."""
    making, expert = "dicore collect RUN --episodes 10 -o demo.npz makes", section.get("expert")
    if not expert:
        needed = f"'{section.type}' needs steps of an expert"
        yield f"{_PLACE}.expert.path", f"{needed}; {making} them of a trained policy"
        return
    several = isinstance(expert, tuple)
    for at, each in enumerate(expert if several else (expert,)):
        if absent := getattr(each, "absent", lambda: None)():
            place = f"{_PLACE}.expert.{at}.path" if several else f"{_PLACE}.expert.path"
            yield place, f"{absent}; {making} one of a trained policy"


def _of_hindsight(cfg: Any, *, bridges: bool) -> Iterator[tuple[str, str]]:
    """Yields the problems of a reward model that replaces goals."""
    policy, name = cfg.policy, cfg.policy.reward_model.type
    if policy.on_policy or policy.offline:
        yield _PLACE, f"'{name}' replaces goals in a replay buffer; choose an off-policy policy"
        return
    buffer = policy.other.replay_buffer
    if isinstance(buffer, NamedConfig) or buffer.type != "episode" or buffer.get("padded"):
        yield (
            "policy.other.replay_buffer",
            f"'{name}' needs whole episodes, not padded; set policy.other.replay_buffer=episode",
        )
    if bridges:
        yield (
            "policy.nstep" if policy.nstep > 1 else "policy.collect.unroll_len",
            f"'{name}' computes the rewards of single steps; expected 1",
        )
