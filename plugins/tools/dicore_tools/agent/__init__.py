"""Training in a few lines: an agent combines an environment, an algorithm and learned parameters.

    from dicore import Agent

    agent = Agent("CartPole-v1", policy="dqn")
    print(agent.train(step=20_000).stop)
    agent.deploy(video="cartpole.mp4")

Each policy has a class named after it: `from dicore_tools.agent import DQNAgent`.
"""

from __future__ import annotations

from functools import cache

from dicore_tools.agent.agent import Agent
from dicore_tools.agent.result import TrainResult

__all__ = ["Agent", "TrainResult"]

_SUFFIX = "Agent"


@cache
def __getattr__(name: str) -> type[Agent]:
    """Creates the agent class of a policy: `DQNAgent` is `Agent` with `policy="dqn"`."""
    from dicore_registry import default

    policy = name.removesuffix(_SUFFIX)
    if name.endswith(_SUFFIX) and not name.startswith("_"):
        for entry in default().entries("policy"):
            if entry.name.replace("_", "").casefold() == policy.casefold():
                doc = f"An agent that uses the policy '{entry.name}'."
                return type(name, (Agent,), {"algorithm": entry.name, "__doc__": doc})
    raise AttributeError(f"module '{__name__}' has no attribute '{name}' (dicore list policy)")
