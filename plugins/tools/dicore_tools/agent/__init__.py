"""Training in five lines: an agent is an environment, an algorithm, and what it has learned.

    from dicore import Agent

    agent = Agent("CartPole-v1", policy="dqn")
    print(agent.train(step=20_000).stop)
    agent.deploy(video="cartpole.mp4")

For each policy there is a class of its name: `from dicore_tools.agent import DQNAgent`.
"""

from __future__ import annotations

from functools import cache

from dicore_tools.agent.agent import Agent, TrainResult

__all__ = ["Agent", "TrainResult"]

_ENDING = "Agent"


@cache
def __getattr__(name: str) -> type[Agent]:
    """Makes the class of a policy's agents: `DQNAgent` is `Agent` with `policy="dqn"`."""
    from dicore_registry import default

    asked = name.removesuffix(_ENDING)
    if name.endswith(_ENDING) and not name.startswith("_"):
        for entry in default().entries("policy"):
            if entry.name.replace("_", "").casefold() == asked.casefold():
                doc = f"An agent that learns by the policy '{entry.name}'."
                return type(name, (Agent,), {"algorithm": entry.name, "__doc__": doc})
    raise AttributeError(f"module '{__name__}' has no attribute '{name}' (dicore list policy)")
