"""How policies learn, and what no pipeline can train."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config import NamedConfig
from dicore.config.schema import ComponentConfig
from dicore.config.sections import PolicyConfig, RunConfig

__all__ = ["SCHOOLS", "evaluates", "incompatibilities", "needs_dataset", "school_of"]

SCHOOLS = {
    "off_policy": "learns from a replay buffer",
    "on_policy": "learns on-policy",
    "offline": "learns from a dataset",
    "demonstrations": "learns from demonstrations and its own steps",
}
"""What a policy can declare, see `school_of`."""


def school_of(policy: PolicyConfig) -> str:
    """Returns how a policy's section declares to learn, as a key of `SCHOOLS`.

    An off-policy one with a buffer `demo` beside `agent` learns from a dataset and own steps.
    """
    buffer = policy.get("other", {}).get("replay_buffer")
    if getattr(policy, "demonstrations", False) or (
        isinstance(buffer, NamedConfig) and {"agent", "demo"} <= {*buffer.keys()}
    ):
        return "demonstrations"
    return "offline" if policy.offline else "on_policy" if policy.on_policy else "off_policy"


def evaluates(cfg: RunConfig) -> bool:
    """Returns whether policies can be evaluated: in recorded episodes, only on the dataset."""
    return _has_dynamics(cfg) or needs_dataset(cfg.policy.eval.evaluator)


def _has_dynamics(cfg: RunConfig) -> bool:
    """Returns whether actions have effects in the environment."""
    return bool(getattr(cfg.env, "has_dynamics", True))


def needs_dataset(evaluator: ComponentConfig) -> bool:
    """Returns whether an evaluator's section declares that it evaluates on the dataset."""
    return bool(getattr(type(evaluator), "needs_dataset", False))


def incompatibilities(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for what every pipeline checks."""
    if cfg.policy.priority_IS_weight and not cfg.policy.priority:
        yield "policy.priority_IS_weight", "has no effect without policy.priority; expected False"
    if cfg.policy.reward_model is not None or hasattr(cfg.pipeline, "reward_models"):
        from dicore_plugins.pipelines.reward_problems import reward_model_problems

        yield from reward_model_problems(cfg)
    for index, wrapper in enumerate(cfg.env.env_wrapper):
        if wrapper.type == "gymnasium.wrappers:NormalizeReward":
            yield (
                f"env.env_wrapper[{index}]",
                "its returns are of scaled rewards; write reward_norm, which reports unscaled ones",
            )
    school = school_of(cfg.policy)
    collects = school in ("on_policy", "demonstrations") or cfg.pipeline.get("dataset") is None
    if not _has_dynamics(cfg) and collects:
        yield (
            "env.type",
            f"'{cfg.env.type}' replays recorded episodes, so nothing can be collected in it;"
            " expected an environment, or pipeline.dataset for an off-policy or offline policy",
        )
    if school == "on_policy" and cfg.pipeline.get("dataset") is not None:
        yield "pipeline.dataset", f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
    evaluator = cfg.policy.eval.evaluator
    if needs_dataset(evaluator) and cfg.pipeline.get("dataset") is None:
        reason = f"'{evaluator.type}' evaluates on a dataset"
        yield "policy.eval.evaluator", f"{reason}; set pipeline.dataset"
    if school in ("on_policy", "off_policy") and cfg.pipeline.get("expert") is not None:
        yield "pipeline.expert", f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
    if school in ("on_policy", "offline") and cfg.policy.learn.update_per_step is not None:
        reason = f"has no effect: '{cfg.policy.type}' {SCHOOLS[school]}"
        yield "policy.learn.update_per_step", f"{reason}; set policy.learn.update_per_collect=1"
