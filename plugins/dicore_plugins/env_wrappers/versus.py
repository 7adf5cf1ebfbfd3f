"""An environment of two agents as one of a single agent, whose opponent is part of it.

The environment has observations [2, ...] (of each leaf), actions [2, ...] and rewards [2]. If it
has an attribute `to_play`, the agents act in turn: it is the number of the one whose action counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import gymnasium
import numpy as np
from gymnasium import spaces

from dicore.data import Info, State, Tree, tree_map
from dicore.errors import ConfigError, EnvError
from dicore.interfaces.env import EnvSpec

if TYPE_CHECKING:
    from dicore.config import Compiled
    from dicore.interfaces.env import Env, Space

__all__ = ["Snapshot", "Versus", "save_snapshot"]

_STARTS: Final = 100
"""Episodes in a row that may end before the agent's first turn."""
_LOOSE: Final = spaces.Box(-np.inf, np.inf, (), np.float32)

Step = tuple[Tree, Tree, bool, bool, Info]


class Versus(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Plays one agent of an environment of two by an opponent.

    Observations, actions and rewards are those of the other agent, and steps at which only the
    opponent acts are made with the step before. `info["side"]` is the number of the agent.

    Args:
        env: Has observations [2, ...], actions [2, ...] and rewards [2].
        opponent: `random`; `scripted`: what the environment's `scripted_action(side)` returns; else
            the path of a file that `save_snapshot` wrote, which is read again at the first reset
            after it has changed.
        side: The number of the agent, 0 or 1; None: drawn for each episode.

    Raises:
        ConfigError: the environment does not have two agents, or not this opponent.
    """

    def __init__(self, env: Env, opponent: str = "random", side: int | None = None) -> None:
        super().__init__(env)
        self._seen_by = env.observation_space
        self.observation_space = _side_space(env.observation_space, "observations")
        self.action_space = _side_space(env.action_space, "actions")
        reward = getattr(env.unwrapped, "reward_space", None)
        if getattr(reward, "shape", None) != (2,):
            raise _misfit("rewards", reward)
        self.reward_space, self.agent_ids, self.state_space = _LOOSE, (), None
        self._fixed, self._side = side, side or 0
        self._obs: Tree = None
        self._idle = self.action_space.sample()  # of the agent that does not act; it is ignored
        self._snapshot: Snapshot | None = None
        self._choose = self._chooser(opponent)

    def _chooser(self, opponent: str) -> Callable[[], Tree]:
        """Returns what chooses the opponent's next action."""
        if opponent == "scripted":
            scripted = getattr(self.env.unwrapped, "scripted_action", None)
            if scripted is None:
                raise ConfigError(
                    "env.env_wrapper: versus: the environment has no scripted opponent",
                    hint="write a method scripted_action(side), or set opponent=random",
                )
            return lambda: scripted(1 - self._side)
        if opponent == "random":
            return self._random
        snapshot = Snapshot(Path(opponent), EnvSpec(self.observation_space, self.action_space))
        self._snapshot = snapshot
        return lambda: snapshot.act(_side(self._obs, 1 - self._side))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode; the opponent acts until it is the agent's turn."""
        for _ in range(_STARTS):
            self._obs, info = self.env.reset(seed=seed, options=options)
            self._side = int(self.np_random.integers(2)) if self._fixed is None else self._fixed
            if self._snapshot is not None:
                self._snapshot.begin()
            over = False
            while not over and not self._is_my_turn():
                self._obs, _, terminated, truncated, info = self._stepped(self._idle)
                over = terminated or truncated
            if not over:
                return _side(self._obs, self._side), {**info, "side": self._side}
            seed = None
        raise EnvError(f"{_STARTS} episodes in a row ended before the agent's first turn")

    def step(self, action: Tree) -> Step:
        """Makes the agent's action, and those of the opponent until it is the agent's turn."""
        total = 0.0
        while True:
            self._obs, reward, terminated, truncated, info = self._stepped(action)
            total += float(reward[self._side])
            if terminated or truncated or self._is_my_turn():
                break
        info = {**info, "side": self._side}
        return _side(self._obs, self._side), total, terminated, truncated, info

    def _is_my_turn(self) -> bool:
        turn = getattr(self.env.unwrapped, "to_play", None)
        return turn is None or int(turn) == self._side

    def _stepped(self, action: Tree) -> Step:
        """Steps both agents."""
        turn = getattr(self.env.unwrapped, "to_play", None)
        theirs = self._idle if turn == self._side else self._choose()
        both = (action, theirs) if self._side == 0 else (theirs, action)
        stepped: Step = self.env.step(_stacked(self.action_space, both))
        return stepped

    def _random(self) -> Tree:
        from dicore_plugins.policies.random import draw_masked, masks_in

        seen = tree_map(lambda leaf: np.asarray(leaf)[None], _side(self._obs, 1 - self._side))
        masks = masks_in(self.action_space, seen)
        drawn = draw_masked(self.action_space, masks, 1, self.np_random)
        return tree_map(lambda leaf: leaf[0], drawn)


class Snapshot:
    """A policy as it was at some update, read from a file.

    Args:
        path: A file that `save_snapshot` wrote.
        spec: Spaces of one agent.

    Raises:
        ConfigError: there is no such file.
    """

    def __init__(self, path: Path, spec: EnvSpec) -> None:
        if not path.is_file():
            raise ConfigError(
                f"env.env_wrapper: versus: opponent '{path}': no such file",
                hint="expected random, scripted, or a file of save_snapshot",
            )
        self._path, self._spec = path, spec
        self._stamp: object = None
        self._config: str | None = None
        self._mode: Any = None

    def begin(self) -> None:
        """Begins an episode, with what the file holds now."""
        from dicore_plugins.messages import load_file

        status = self._path.stat()
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._stamp:
            found = load_file(self._path)
            if self._mode is None or found["config"] != self._config:
                self._mode, self._config = self._built(found["config"]), found["config"]
            self._mode.load_state_dict(found["state"])
            self._stamp = stamp
        self._mode.reset([0])

    def act(self, obs: Tree) -> Tree:
        """Returns the action for one observation, without exploration."""
        return self._mode.forward({0: obs})[0]["action"]

    def _built(self, config: str) -> object:
        """Returns the eval mode of a config's policy, with parameters that are loaded next."""
        from dicore.config import bind, compile_config
        from dicore.data.json_codec import loads
        from dicore.run.env_factory import BuildContext
        from dicore.run.random import seeded

        compiled: Compiled = compile_config(loads(config), saved=True)
        with seeded(0):  # the process that steps environments keeps its random state
            cfg: Any = bind(compiled, self._spec).cfg
            context = BuildContext(self._spec)
            return attrs.evolve(cfg.policy, cuda=False).build(context).eval_mode


def save_snapshot(path: Path, config: str, state: State) -> None:
    """Writes a policy for `Versus`; readers see the old or the new one.

    Args:
        path: The file.
        config: Text of a `config.json`.
        state: The `state_dict` of a collect or eval mode.
    """
    from dicore_plugins.messages import save_file

    save_file(path, {"config": config, "state": state})


def _side(tree: Tree, index: int) -> Tree:
    """Returns what belongs to one agent; copied, as the environment may write its arrays again."""
    return tree_map(lambda leaf: np.array(leaf[index]), tree)


def _stacked(space: Space, both: tuple[Tree, Tree]) -> Tree:
    """Returns the actions of both agents as one, [2, ...]."""
    dtype = np.int64 if isinstance(space, spaces.Discrete) else space.dtype
    return np.stack([np.asarray(each, dtype) for each in both])


def _side_space(space: Space, what: str) -> Space:
    """Returns the space of one agent, of a space of two alike [2, ...]."""
    if isinstance(space, spaces.Dict) and what == "observations":
        return spaces.Dict({key: _side_space(part, what) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Box) and space.shape[:1] == (2,):
        if (space.low[0] == space.low[1]).all() and (space.high[0] == space.high[1]).all():
            return spaces.Box(space.low[0], space.high[0], space.shape[1:], space.dtype.type)
    elif isinstance(space, spaces.MultiDiscrete) and len(space.nvec) == 2:
        sizes, starts = space.nvec, space.start
        if (sizes[0] == sizes[1]).all() and (starts[0] == starts[1]).all():
            if sizes.ndim > 1:
                return spaces.MultiDiscrete(sizes[0], start=starts[0])
            return spaces.Discrete(int(sizes[0]), start=int(starts[0]))
    elif isinstance(space, spaces.MultiBinary) and space.shape[:1] == (2,):
        return spaces.MultiBinary(list(space.shape[1:]) or 1)
    raise _misfit(what, space)


def _misfit(what: str, space: object) -> ConfigError:
    return ConfigError(
        f"env.env_wrapper: 'versus' needs {what} of two agents alike, [2, ...], got {space}",
        hint="list wrappers innermost first",
    )
