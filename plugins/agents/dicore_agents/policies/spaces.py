"""What policies of several agents read of an environment.

Importing this needs neither torch nor numpy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dicore.errors import ConfigError

if TYPE_CHECKING:
    from dicore.config.sections import PolicyConfig
    from dicore.interfaces.env import EnvSpec, Space

__all__ = ["discrete_options", "expect_ends", "team_options"]


def team_options(spec: EnvSpec, algorithm: str, *, state: bool) -> dict[str, object]:
    """Returns the options of a model that describe the observations of a team.

    Args:
        spec: What is known of the environment.
        algorithm: Name of the policy, for the error.
        state: The model has `state_shape`: the numbers in the state of the team, or in all
            observations where the environment gives no state.

    Returns:
        `model.agents`, `model.obs_shape` (numbers that one agent sees), `model.state_shape`.

    Raises:
        ConfigError: the environment has one agent, or observations that do not fit.
    """
    if not spec.agents:
        raise ConfigError(
            f"policy.type: '{algorithm}' trains several agents; this env has one",
            hint="games of PettingZoo have agents as env.type=pettingzoo_agents (pettingzoo: one"
            " made of all); one agent: choose its policy, or set env.env_wrapper=one_as_agents",
        )
    twice = sorted({name for name in spec.agents if spec.agents.count(name) > 1})
    if twice:
        raise ConfigError(
            f"env: several agents are called '{twice[0]}'; this env has {', '.join(spec.agents)}",
            hint="give each agent a name of its own in agent_ids",
        )
    parts: dict[str, Any] = dict(getattr(spec.observation, "spaces", None) or {})
    rows, count = parts.get("obs"), len(spec.agents)
    shape = tuple(getattr(rows, "shape", None) or ())
    if type(rows).__name__ not in ("Box", "MultiBinary") or shape[:1] != (count,):
        raise ConfigError(
            f"policy.type: '{algorithm}' needs observations Dict(obs: Box({count}, ...)), a row for"
            f" each agent; this env has {' '.join(str(spec.observation).split())}",
            hint="env.env_wrapper=[agent_flat_obs] makes a row of the parts that an agent sees"
            if getattr(rows, "spaces", None)
            else "agents with unequal observations: pad them in the environment",
        )
    if spec.reward_shape not in ((), (count,)):
        raise ConfigError(
            f"policy.type: '{algorithm}' needs a reward of the team, or one for each of {count}"
            f" agents; this env returns rewards {[*spec.reward_shape]}",
            hint="return one number, or one per agent, and say so in reward_space",
        )
    found: dict[str, object] = {
        "model.agents": count,
        "model.obs_shape": math.prod(shape[1:]),
    }
    if state:
        whole = parts["state"].shape if "state" in parts else shape
        found["model.state_shape"] = math.prod(whole)
    return found


def expect_ends(cfg: PolicyConfig, spec: EnvSpec) -> None:
    """Checks that `learn.ignore_done` has an effect.

    Raises:
        ConfigError: the environment tells which agents act, and after an end none does.
    """
    if cfg.learn.ignore_done and "alive" in (getattr(spec.observation, "spaces", None) or ()):
        raise ConfigError(
            "policy.learn.ignore_done: this env tells which agents act, and after an end none does,"
            " so that no value follows",
            hint="report time limits as truncated; or env.alive=false, where no agent dies",
        )


def discrete_options(spec: EnvSpec, algorithm: str) -> dict[str, object]:
    """Returns the options of a model for one discrete action of each agent: `model.action_shape`.

    Raises:
        ConfigError: the actions are others, or agents have different numbers of them.
    """
    count, space = len(spec.agents), spec.action
    sizes = _sizes(space)
    if sizes is None or len(sizes) != count:
        raise ConfigError(
            f"policy.type: '{algorithm}' needs one discrete action of each of {count} agents,"
            f" MultiDiscrete with {count} numbers from 0 on; this env has"
            f" {' '.join(str(space).split())}",
        )
    if len({*sizes}) > 1:
        raise ConfigError(
            f"policy.type: '{algorithm}' needs agents with equal numbers of actions; this env has"
            f" {sizes}",
            hint="give all agents the largest number, and an action_mask that forbids the others",
        )
    return {"model.action_shape": sizes[0]}


def _sizes(space: Space) -> list[int] | None:
    """Returns the numbers of actions of the agents; None if the space is another."""
    found: Any = getattr(space, "nvec", None)
    start: Any = getattr(space, "start", None)
    if found is None or found.ndim != 1 or (start is not None and start.any()):
        return None
    return [int(each) for each in found]
