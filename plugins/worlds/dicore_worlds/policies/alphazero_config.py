"""Options of AlphaZero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from dicore.config import (
    CollectConfig,
    ComponentConfig,
    LearnConfig,
    OtherConfig,
    PolicyConfig,
    component,
    frozen,
    option,
    section,
)
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.optimizers import optimizer_problems
from dicore_plugins.policies import builds, expect_one_agent

__all__ = ["AlphaZeroCollectConfig", "AlphaZeroConfig", "AlphaZeroLearnConfig"]


@frozen(kw_only=True)
class AlphaZeroLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int = option(128, "moves per gradient update", ge=1)
    update_per_collect: int | None = option(
        8, "gradient updates after each collect; raise to learn more of each game", ge=1
    )
    learning_rate: float = option(2e-3, "learning rate", gt=0, lt=float("inf"))
    max_grad_norm: float | None = option(10.0, "maximum gradient norm; None: off", gt=0)
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )
    weight_decay: float = option(1e-4, "weight decay", ge=0)
    symmetries: bool = option(
        True, "turn and mirror each board at random, if the game stays the same"
    )
    value_weight: float = option(1.0, "weight of the loss of values beside that of policies", ge=0)


@frozen(kw_only=True)
class AlphaZeroCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(256, "moves per collect; whole games are returned", ge=1)
    temperature: float = option(
        1.0, "of the draw among searched moves; 0: the best. A factor of Gumbel's noise", ge=0
    )
    drawn_moves: int | None = option(
        None, "moves of a game that are drawn; after them the best is made. None: all", ge=0
    )


@frozen(kw_only=True)
class AlphaZeroConfig(PolicyConfig):
    """AlphaZero: learns a game from its rules, by playing itself (Silver et al. 2018)."""

    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "on_policy": (False, "learns from a replay buffer; set it to False"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "priority": (False, "draws moves uniformly; set it to False"),
        "priority_IS_weight": (False, "draws moves uniformly; set it to False"),
        "discount_factor": (1.0, "learns the results of games; set it to 1"),
        "nstep": (1, "learns the results of games; set it to 1"),
        "learn.ignore_done": (False, "learns the results of games; set it to False"),
        "collect.unroll_len": (1, "learns from single moves; set it to 1"),
    }
    own_steps_only: ClassVar[bool] = True

    on_policy: bool = option(False, "False: trains from a replay buffer")
    discount_factor: float = option(1.0, "1: the result of a game counts in full", ge=0, le=1)
    model: ComponentConfig = component("model", default="board", help="policy and value of boards")
    planner: ComponentConfig = component(
        "planner", default="puct", help="searches with the rules before a move is made"
    )
    learn: AlphaZeroLearnConfig = section(AlphaZeroLearnConfig)
    collect: AlphaZeroCollectConfig = section(AlphaZeroCollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer={"replay_buffer_size": 20_000})

    build = builds("dicore_worlds.policies.alphazero:AlphaZeroPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the network from the spaces.

        Raises:
            ConfigError: no game with known rules has these spaces.
        """
        from dicore_worlds.games.line_game import rules_of

        name = self.type or "alphazero"
        expect_one_agent(name, spec)
        parts = getattr(spec.observation, "spaces", {})
        if not isinstance(parts, Mapping) or not {"obs", "player"} <= parts.keys():
            raise ConfigError(
                f"policy.type: '{name}' needs a game whose observations are a Dict with 'obs' and"
                f" 'player'; this env has {spec.observation}",
                hint="choose env=board_game",
            )
        shape, actions = parts["obs"].shape, getattr(spec.action, "n", 0)
        if rules_of(shape, actions) is None:
            raise ConfigError(
                f"policy.type: '{name}' knows no rules of a game with observations {list(shape)}"
                f" and {actions} actions",
                hint="choose env=board_game, or add the rules to dicore_worlds.GAMES",
            )
        return {"model.obs_shape": tuple(shape), "model.action_shape": int(actions)}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        for path, problem in optimizer_problems(self.learn):
            yield f"learn.{path}", problem
        buffer = self.other.replay_buffer
        size = buffer.get("replay_buffer_size")
        if size is not None and self.learn.batch_size > size:
            yield "learn.batch_size", f"must be <= {size}, the capacity of other.replay_buffer"
        if buffer.get("unroll_len", 1) > 1 or buffer.get("burn_in", 0):
            yield "other.replay_buffer", "must not make sequences: single moves are learned from"
