"""The installed policies that can act in an action space, for error messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from dicore.errors import ConfigError, UsageError
from dicore_registry import default

if TYPE_CHECKING:
    from dicore.interfaces.env import EnvSpec, Space


_SHOWN = 12
_asking: ContextVar[bool] = ContextVar("policies are being asked whether they fit", default=False)


def hint_for(space: Space) -> str:
    """Returns what to do about a policy that does not fit an action space."""
    if _asking.get():  # the error is only caught
        return ""
    names = fitting(space)
    if names:
        first = [name for name in ("ppo", "dqn", "sac", "td3") if name in names]
        more = [name for name in names if name not in first][: _SHOWN - len(first)]
        rest = len(names) - len(first + more)
        end = f" and {rest} more (dicore list policy)" if rest else ""
        return f"choose a policy that fits: {', '.join(first + more)}{end}"
    if type(space).__name__ in ("Dict", "Tuple"):
        return "flatten it to MultiDiscrete or to one Box in an env wrapper"
    return "flatten or discretise the action space in an env wrapper"


def fitting(space: Space) -> list[str]:
    """Returns the names of the policies that learn in an action space."""
    from gymnasium.spaces import Box

    from dicore.config.signature import config_class
    from dicore.interfaces.env import EnvSpec

    seen, token, found = Box(-1.0, 1.0, (1,)), _asking.set(True), []
    try:
        for entry in default().entries("policy"):
            try:
                target = default().resolve("policy", f"{entry.dist}/{entry.name}").target
                config: Any = config_class(target, "policy")
                if config.learns and config().bind(EnvSpec(seen, space)):
                    found.append(entry.name)
            except Exception:  # noqa: S112 - a stranger's package, which this is not about
                continue
    finally:
        _asking.reset(token)
    return sorted(found)


def expect_one_agent(policy: str, spec: EnvSpec) -> None:
    """Raises an error if several agents act, or are paid, in an environment.

    Args:
        policy: Name of the policy.
        spec: What is known of the environment.

    Raises:
        ConfigError: it has several agents, in the form of `EnvSpec`.
        UsageError: a step has several rewards.
    """
    if spec.agents:
        raise ConfigError(
            f"policy.type: '{policy}' trains one agent; this env has {', '.join(spec.agents)}",
            hint="choose a policy of several agents (docs/concepts/agents.md), or make one agent of"
            " all: env.env_wrapper=agents_as_one; of one side of a game, as in leagues: =one_side",
        )
    refuse_rewards(policy, spec.reward_shape)


def refuse_rewards(policy: str, shape: Sequence[int]) -> None:
    """Raises UsageError for several rewards per step, which losses take for those of n steps.

    Args:
        policy: Name of the policy.
        shape: Shape of the reward of a step; () is accepted.
    """
    if not shape:
        return
    raise UsageError(
        f"policy {policy} learns from one reward per step, but the environment returns rewards"
        f" {[*shape]} (per agent or objective)",
        hint="add them up in the environment or in a wrapper (PettingZoo: env.team_reward=true), or"
        " choose another policy",
    )
