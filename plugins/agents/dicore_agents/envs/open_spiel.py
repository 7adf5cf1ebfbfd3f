"""Games of OpenSpiel with the API of parallel environments.

Shapes: n actions.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.errors import ConfigError

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["OpenSpielAsParallel"]


class OpenSpielAsParallel:
    """A game of OpenSpiel, in turns or simultaneous, of perfect or imperfect information.

    Players see the tensor of their information state, or of their observation where the game has
    only that, and a mask of legal actions. An action that is not legal counts as the first legal
    one. Chance is drawn here, by the seed.

    Args:
        name: Name of the game, for instance `leduc_poker`, or `leduc_poker(players=3)`.
        **parameters: Parameters of the game.

    Attributes:
        game: What `pyspiel` loaded, for its measures (exploitability).
        turn_based: One player acts in each step.
        agents: Players of the running game; empty when it is over.

    Raises:
        ConfigError: there is no such game or parameter, or players see no tensors, or it is a game
            of mean fields.
    """

    render_mode = None

    def __init__(self, name: str, **parameters: object) -> None:
        self.game = _loaded(name, parameters)
        kind = self.game.get_type()
        if kind.dynamics.name == "MEAN_FIELD":
            raise ConfigError(
                f"env.env_id: OpenSpiel's '{name}' is played by the mean of a population",
                hint="choose a game of players that act in turn or at once",
            )
        if kind.provides_information_state_tensor:
            self._tensor, size = "information_state_tensor", "information_state_tensor_size"
        elif kind.provides_observation_tensor:
            self._tensor, size = "observation_tensor", "observation_tensor_size"
        else:
            raise ConfigError(f"env.env_id: players of OpenSpiel's '{name}' see no tensor")
        self.metadata: dict[str, Any] = {"render_modes": []}
        self.turn_based = kind.dynamics.name == "SEQUENTIAL"
        self.possible_agents = [f"player_{each}" for each in range(self.game.num_players())]
        self._actions = int(self.game.num_distinct_actions())
        seen = spaces.Box(-np.inf, np.inf, (getattr(self.game, size)(),), np.float32)
        mask = spaces.MultiBinary(self._actions)
        self._seen = spaces.Dict({"observation": seen, "action_mask": mask})
        self.agents: list[str] = []
        self._rng = np.random.default_rng()
        self._state: Any = None

    @property
    def to_play(self) -> str | None:
        """The player whose turn it is; None: all act, or the game is over."""
        player = self._state.current_player()
        return self.possible_agents[player] if player >= 0 else None

    def observation_space(self, agent: str) -> Any:
        """Returns what a player sees."""
        return self._seen

    def action_space(self, agent: str) -> Any:
        """Returns what a player can do."""
        return spaces.Discrete(self._actions)

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Any], dict[str, Info]]:
        """Begins a game."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state = self.game.new_initial_state()
        self._draw()
        self.agents = [*self.possible_agents]
        return self._observed(), {}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], Any, Any, Any, Any]:
        """Acts for the player `to_play`, or for all."""
        before = np.array(self._state.returns())
        player = self._state.current_player()
        chosen = [
            self._legal(each, actions[name]) for each, name in enumerate(self.possible_agents)
        ]
        if player >= 0:
            self._state.apply_action(chosen[player])
        else:
            self._state.apply_actions(chosen)
        self._draw()
        rewards = (np.array(self._state.returns()) - before).tolist()
        over = bool(self._state.is_terminal())
        names = self.possible_agents
        self.agents = [] if over else [*names]
        ends = dict.fromkeys(names, over), dict.fromkeys(names, False)
        return self._observed(), dict(zip(names, rewards, strict=True)), *ends, {}

    def close(self) -> None:
        """Frees nothing."""

    def __str__(self) -> str:
        return f"open_spiel:{self.game}"

    def _legal(self, player: int, action: int) -> int:
        legal = self._state.legal_actions(player)
        return int(action) if action in legal or not legal else int(legal[0])

    def _draw(self) -> None:
        """Makes the moves of chance."""
        while self._state.is_chance_node():
            outcomes, chances = zip(*self._state.chance_outcomes(), strict=True)
            self._state.apply_action(int(self._rng.choice(outcomes, p=chances)))

    def _observed(self) -> dict[str, Any]:
        told = {}
        for player, name in enumerate(self.possible_agents):
            seen = np.array(getattr(self._state, self._tensor)(player), np.float32)
            mask: npt.NDArray[np.int8] = np.zeros(self._actions, np.int8)
            mask[self._state.legal_actions(player) or [0]] = 1
            told[name] = {"observation": seen, "action_mask": mask}
        return told


def _loaded(name: str, parameters: dict[str, object]) -> Any:
    spiel: Any = importlib.import_module("pyspiel")
    plain = name.partition("(")[0]
    if plain not in (known := spiel.registered_names()):
        close = difflib.get_close_matches(plain, known, 1)
        raise ConfigError(
            f"env.env_id: OpenSpiel has no game '{name}'",
            hint=f"did you mean '{close[0]}'?"
            if close
            else "pyspiel.registered_names() lists them",
        )
    try:
        return spiel.load_game(name, parameters) if parameters else spiel.load_game(name)
    except (spiel.SpielError, TypeError, RuntimeError) as error:
        raise ConfigError(f"env.make_kwargs: OpenSpiel's '{name}': {error}") from error
