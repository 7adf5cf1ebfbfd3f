"""Trains an agent in five lines: `python examples/agent.py --step 20000`."""

from __future__ import annotations

import argparse
from typing import Any

from dicore import Agent


def main(step: int = 20_000, video: str | None = None, **options: Any) -> Agent:
    agent = Agent("cartpole", policy="dqn", seed=0, **options)
    result = agent.train(step=step)
    print(f"stop value reached: {result.stop}, best mean return {result.best_return}")
    print(f"20 fresh episodes: {agent.best.evaluate(n_episode=20, seed=1).mean_return:.1f}")
    print(f"one episode: {agent.best.deploy(video=video):.1f}")
    return agent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=20_000)
    parser.add_argument("--exp-name", default="runs/agent")
    parser.add_argument("--video", metavar="FILE.mp4")
    main(**vars(parser.parse_args()))
