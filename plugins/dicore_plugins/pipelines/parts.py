"""The parts of a run, created from its compiled config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext, make_env_manager

_STATE = ("state_dict", "load_state_dict")
_METHODS = {
    "collector": ("collect_batch", "reset_policy", "close", *_STATE),
    "evaluator": ("should_eval", "eval", "close", *_STATE),
    "learner": ("train", "register_hook", "call_hook", "close", *_STATE),
    "buffer": ("push", "count", "sample_batch", *_STATE),
}
"""Methods of each role that training calls."""


@dataclass
class Parts:
    """The parts of an online training.

    Args:
        policy: The policy, with all its modes.
        collector_env: Env manager for collecting.
        evaluator_env: Env manager for evaluation.
        collector: Collects samples with the policy's collect mode.
        evaluator: Evaluates the policy's eval mode.
        learner: Updates the policy's learn mode.
        buffer: Replay buffer; None for on-policy training.
    """

    policy: Any
    collector_env: Any
    evaluator_env: Any
    collector: Any
    evaluator: Any
    learner: Any
    buffer: Any | None


def build_parts(cfg: Any, run: Any | None = None, *, model: Any | None = None) -> Parts:
    """Creates the parts, each from its section of the config.

    Args:
        cfg: A bound config.
        run: Run for logs, checkpoints and the state of all parts; None: no run.
        model: Network to use instead of the configured one.

    Raises:
        UsageError: a part lacks methods of its role.
    """
    parts = _create_parts(cfg, run, model)
    for role, methods in _METHODS.items():
        _check_methods(role, getattr(parts, role), methods)
    if run is not None:
        _register_parts(run, parts)
    return parts


def _create_parts(cfg: Any, run: Any | None, model: Any | None) -> Parts:
    collector_env = make_env_manager(cfg.env, "collector", cfg.seed)
    evaluator_env = make_env_manager(cfg.env, "evaluator", cfg.seed)
    ctx = BuildContext(
        observation_space=collector_env.observation_space,
        action_space=collector_env.action_space,
        device="cpu" if run is None else run.device,
        seed=cfg.seed,
        run=run,
    )
    log = None if run is None else run.log
    if ctx.device.startswith("cuda:"):
        import torch

        torch.cuda.set_device(ctx.device)  # the device of plain `cuda`
    policy = cfg.policy.build(ctx, model=model)
    return Parts(
        policy=policy,
        collector_env=collector_env,
        evaluator_env=evaluator_env,
        collector=cfg.policy.collect.collector.build(
            ctx, env_manager=collector_env, policy=policy.collect_mode, log=log
        ),
        evaluator=cfg.policy.eval.evaluator.build(
            ctx, env_manager=evaluator_env, policy=policy.eval_mode, log=log
        ),
        learner=cfg.policy.learn.learner.build(ctx, policy=policy.learn_mode, run=run),
        buffer=None if cfg.policy.on_policy else cfg.policy.other.replay_buffer.build(ctx),
    )


def _register_parts(run: Any, parts: Parts) -> None:
    for hook in run.learner_hooks:
        parts.learner.register_hook(hook)
    counts = {
        "learner": {"train_iter": lambda: parts.learner.train_iter},
        "collector": {"env_step": lambda: parts.collector.envstep},
    }
    for name in ("learner", "collector_env", "collector", "evaluator", "buffer"):
        part = getattr(parts, name)
        if part is not None:
            run.register(name, part, bulky=name == "buffer", counts=counts.get(name))


def _check_methods(role: str, part: Any, methods: tuple[str, ...]) -> None:
    missing = [name for name in methods if not callable(getattr(part, name, None))]
    if part is not None and missing:
        raise UsageError(
            f"{type(part).__name__} is not a {role}: it lacks {', '.join(missing)}",
            hint=f"create a complete {role} with dicore new plugin NAME --kind {role}",
        )
