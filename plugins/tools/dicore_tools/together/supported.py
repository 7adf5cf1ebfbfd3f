"""Which configs can be trained together, and by which updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dicore.interfaces.policy import LearnMode
from dicore_plugins.models.encoders.mlp import SLOPES
from dicore_tools.together.learning import JointLearner

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.run.launch import TrainRequest

__all__ = ["joint_learner", "problems"]


def _q_learning(modes: Sequence[LearnMode]) -> JointLearner:
    from dicore_tools.together.q_learning import JointQLearning

    return JointQLearning(modes)


def _actor_critic(modes: Sequence[LearnMode]) -> JointLearner:
    from dicore_tools.together.actor_critic import JointActorCritic

    return JointActorCritic(modes)


def _sac(modes: Sequence[LearnMode]) -> JointLearner:
    from dicore_tools.together.continuous import JointSAC

    return JointSAC(modes)


def _td3(modes: Sequence[LearnMode]) -> JointLearner:
    from dicore_tools.together.continuous import JointTD3

    return JointTD3(modes)


_UPDATES: dict[str, tuple[str, Callable[[Sequence[LearnMode]], JointLearner]]] = {
    **dict.fromkeys(("dqn", "ddqn", "dueling"), ("dqn", _q_learning)),
    **dict.fromkeys(("a2c", "ppo"), ("vac", _actor_critic)),
    "sac": ("qac", _sac),
    **dict.fromkeys(("td3", "ddpg"), ("qac", _td3)),
}
"""By the name of the policy: its network, and what updates several of them."""


def joint_learner(modes: Sequence[LearnMode]) -> JointLearner:
    """Returns what updates the networks of several seeds at once, by their learn modes."""
    name: str = modes[0].get_attribute("cfg").type
    return _UPDATES[name][1](modes)


def problems(compiled: Compiled, request: TrainRequest) -> Iterator[tuple[str, str]]:
    """Yields (path, problem) for what cannot be trained together."""
    cfg: Any = compiled.cfg
    if request.profile:
        yield "--profile", "times one training; leave it out"
    pipeline = cfg.pipeline
    if pipeline.type not in ("serial", "serial_onpolicy"):
        yield "pipeline.type", f"'{pipeline.type}' trains each seed alone; expected serial"
    for name in ("async_mode", "dataset", "expert"):
        if pipeline.get(name):
            yield f"pipeline.{name}", "has no joint training; leave it out"
    if cfg.policy.type not in _UPDATES:
        expected = ", ".join(_UPDATES)
        yield "policy.type", f"'{cfg.policy.type}' has no joint update; expected {expected}"
        return
    yield from _policy_problems(cfg.policy)
    yield from _network_problems(cfg.policy, _UPDATES[cfg.policy.type][0])


def _policy_problems(policy: Any) -> Iterator[tuple[str, str]]:
    """Yields the options of a policy that joint updates do not obey."""
    for name in ("cuda", "reward_model", "world_model"):
        if policy.get(name):
            yield f"policy.{name}", "has no joint update; leave it out"
    for name in ("compile", "autocast", "recompute_adv"):
        if policy.learn.get(name):
            yield f"policy.learn.{name}", "has no joint update; leave it out"
    if policy.learn.get("target_entropy_end") is not None:
        yield "policy.learn.target_entropy_end", "has no joint update; leave it out"


def _network_problems(policy: Any, network: str) -> Iterator[tuple[str, str]]:
    """Yields what networks that are updated together cannot be."""
    model = policy.model
    if model.type != network:
        yield "policy.model.type", f"'{model.type}' has no joint update; expected {network}"
        return
    if model.activation not in SLOPES:
        expected = f"expected {' or '.join(SLOPES)}"
        yield "policy.model.activation", f"'{model.activation}' has no joint update; {expected}"
    if any(len(shape) > 1 for shape in _shapes(model)):
        yield "policy.model.obs_shape", "images need a CNN, which has no joint update"
    if not isinstance(model.action_shape, int):
        yield "policy.model.action_shape", "several heads have no joint update"
    names = ("rnn", "noisy", "args_shape", "gsde", "fixed_std", "renorm")
    for name in (*names, "critic_layer_norm", "critic_dropout"):
        if model.get(name):
            yield f"policy.model.{name}", "has no joint update; leave it out"


def _shapes(model: Any) -> Iterator[tuple[int, ...]]:
    """Yields the shapes of the parts of an observation."""
    shape = model.obs_shape
    if isinstance(shape, tuple):
        yield shape
    for part in model.obs_parts or ():
        yield tuple(part.shape) if hasattr(part, "shape") else ()
