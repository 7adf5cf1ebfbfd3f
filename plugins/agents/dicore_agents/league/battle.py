"""Plays two trained policies of the same game against each other.

Shapes: K environments, A agents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt
import torch  # noqa: F401 - with it, checkpoints are read as tensors

from dicore.config.sections import EnvConfig
from dicore.data import EnvBatch, tree_map
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext, make_env_manager
from dicore.run.random import seeded
from dicore_agents.league.opponents import LAST
from dicore_agents.league.sides import Sides

if TYPE_CHECKING:
    from dicore.data import Tree

__all__ = ["Battle", "Contestant", "battle", "find_contestant", "wilson"]

_Z = 1.959963984540054
"""Quantile of the normal distribution for intervals of 95 %."""
_ENVS = 16
_WRAPPERS = ("one_side", "versus")

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Battle:
    """Result of games between two policies, as the first one sees it.

    Args:
        names: Checkpoints of both.
        returns: Return of the first in each game, the mean of its agents.
        margins: That less the mean return of the others.
        seats: Number of the side that the first one played, of each game.
        seed: Seed of the games.
    """

    names: tuple[str, str]
    returns: list[float]
    margins: list[float]
    seats: list[int]
    seed: int

    def results(self, seat: int | None = None) -> tuple[int, int, int]:
        """Returns wins, draws and losses, on one side or on all."""
        found = [
            each for each, own in zip(self.margins, self.seats, strict=True) if seat in (None, own)
        ]
        wins, losses = sum(each > 0 for each in found), sum(each < 0 for each in found)
        return wins, len(found) - wins - losses, losses

    @property
    def win_interval(self) -> tuple[float, float]:
        """Wilson's interval of 95 % for the probability of a win."""
        return wilson(self.results()[0], len(self.margins))

    @property
    def mean_return(self) -> float:
        """Mean return of the first policy."""
        return float(np.mean(self.returns))

    @property
    def return_interval(self) -> tuple[float, float]:
        """Interval of 95 % for the mean return, by the normal approximation."""
        count = len(self.returns)
        spread = float(np.std(self.returns, ddof=1)) if count > 1 else math.inf
        half = _Z * spread / math.sqrt(count)
        return self.mean_return - half, self.mean_return + half

    def as_json(self) -> dict[str, Any]:
        """Returns all figures as plain values."""
        wins, draws, losses = self.results()
        seats = {str(seat): [*self.results(seat)] for seat in sorted({*self.seats})}
        low, high = self.return_interval
        return {
            "policies": [*self.names], "games": len(self.margins), "seed": self.seed,
            "wins": wins, "draws": draws, "losses": losses,
            "win_rate": wins / len(self.margins), "win_rate_95": [*self.win_interval],
            "mean_return": self.mean_return,
            "mean_return_95": [low, high] if math.isfinite(high) else None,
            "wins_draws_losses_by_side": seats,
        }  # fmt: skip

    def __str__(self) -> str:
        """`A against B: 120 won, 60 drawn, 20 lost of 200; win rate 0.60 [0.53, 0.67], …`."""
        wins, draws, losses = self.results()
        (low, high), (less, more) = self.win_interval, self.return_interval
        lines = [
            f"{self.names[0]} against {self.names[1]}: {wins} won, {draws} drawn, {losses} lost of"
            f" {len(self.margins)} games, seed {self.seed}",
            f"win rate {wins / len(self.margins):.3f} [{low:.3f}, {high:.3f}],"
            f" mean return {self.mean_return:.3f} [{less:.3f}, {more:.3f}] (95 % intervals)",
        ]
        for seat in sorted({*self.seats}):
            wins, draws, losses = self.results(seat)
            lines.append(f"as side {seat}: {wins} won, {draws} drawn, {losses} lost")
        return "\n".join(lines)


@dataclass
class Contestant:
    """A trained policy and the game that it plays.

    Args:
        compiled: Its config.
        name: Of its checkpoint.
        state: Its parameters.
    """

    compiled: Any
    name: str
    state: Any
    _mode: Any = field(default=None, repr=False)
    _settings: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def by_side(self) -> bool:
        """It sees one side; else all agents, of which one side's actions count."""
        wrappers = self.compiled.env.env_wrapper
        return bool(wrappers) and wrappers[-1].type in _WRAPPERS

    @property
    def groups(self) -> Any:
        """Names of the agents by side, where the config tells."""
        return getattr(self.compiled.env.env_wrapper[-1], "sides", None) if self.by_side else None

    @property
    def game(self) -> EnvConfig:
        """Section of the whole game."""
        env: EnvConfig = self.compiled.env
        return attrs.evolve(env, env_wrapper=env.env_wrapper[:-1]) if self.by_side else env

    def build(self, spec: EnvSpec, *, sample: bool) -> None:
        """Builds the policy for the spaces that it sees."""
        from dicore.config import bind

        policy = attrs.evolve(bind(self.compiled, spec).policy, cuda=False)
        built = policy.build(BuildContext(spec, seed=self.compiled.seed))
        self._mode = built.collect_mode if sample else built.eval_mode
        if sample:
            self._settings = built.command_mode.get_setting_collect(LAST)
        self._mode.load_state_dict(self.state)

    def begin(self, numbers: list[int]) -> None:
        """Begins an episode of the sides numbered; see `IOpponent`."""
        self._mode.reset(numbers)

    def act(self, ids: Ids, obs: Tree, sides: Sides, seats: Ids) -> Tree:
        """Returns the actions of its side, for observations of all agents [K, A, ...]."""
        seen = sides.seen(obs, seats) if self.by_side else obs
        answer = EnvBatch.of(self._mode.forward(EnvBatch(ids, seen), **self._settings))
        actions = np.asarray(answer.value["action"])
        return actions if self.by_side else sides.taken(actions, seats)


def find_contestant(
    where: str | Path, load_path: str | Path | None = None, *, trust: bool = False
) -> Contestant:
    """Returns the policy of a run, or of the folder of a checkpoint.

    Raises:
        UsageError: the folder is not that of a run, or has no policy.
        ConfigError: its config names what is not installed.
        CheckpointError: there is no valid checkpoint.
    """
    import dicore

    trained = dicore.find_policy(where, load_path, trust=trust)
    if trained.read is None:
        raise UsageError(f"{where}: no checkpoint")
    state = trained.read()
    name = state.name or trained.name
    shown = f"{where}" if Path(where).name == Path(name).name else f"{where} ({Path(name).name})"
    return Contestant(trained.compiled, shown, state.policy)


def battle(
    run: str | Path,
    against: str | Path,
    *,
    n_episode: int = 200,
    seed: int = 0,
    load_path: str | Path | None = None,
    sample: bool = False,
    trust: bool = False,
) -> Battle:
    """Plays the policies of two runs against each other, as often on each side.

    Args:
        run: A run folder, or the folder of a checkpoint.
        against: Another one, or the same.
        n_episode: Number of games.
        seed: Seed of the games.
        load_path: Name or path of a checkpoint of the first run.
        sample: Draw actions as in training, with the least exploration; False: greedy actions.
        trust: Run code that `config.json` names by path instead of a registered name.

    Raises:
        ConfigError: they play different games, or the game has no sides.
        UsageError: a folder is not that of a run.
        CheckpointError: there is no valid checkpoint.
    """
    pair = find_contestant(run, load_path, trust=trust), find_contestant(against, trust=trust)
    check_same_game(*pair)
    with seeded(seed):
        game = attrs.evolve(pair[0].game, evaluator_env_num=min(_ENVS, n_episode))
        envs = make_env_manager(game, "evaluator", seed)
        try:
            whole = EnvSpec.of(envs)
            sides = Sides(whole, pair[0].groups)
            for each in pair:
                each.build(sides.spec if each.by_side else whole, sample=sample)
            envs.launch()
            returns, margins, seats = _played(envs, sides, pair, n_episode)
        finally:
            envs.close()
    return Battle((pair[0].name, pair[1].name), returns, margins, seats, seed)


def check_same_game(one: Contestant, other: Contestant) -> None:
    """Raises ConfigError if two policies play different games."""
    common = {each.name for each in attrs.fields(EnvConfig)}
    first, second = (_facts(each.game, common) for each in (one, other))
    for key in sorted({*first, *second}, key=lambda name: name != "env.type"):
        if first.get(key) != second.get(key):
            raise ConfigError(
                f"{key}: a battle is of one game, but {one.name} was trained with"
                f" {first.get(key)!r} and {other.name} with {second.get(key)!r}",
                hint="name two runs of the same environment with the same options",
            )
    if one.by_side and other.by_side and one.groups != other.groups:
        raise ConfigError(
            f"env.env_wrapper: one_side.sides: {one.name} was trained with {one.groups} and"
            f" {other.name} with {other.groups}",
            hint="name two runs with the same sides",
        )


def _facts(game: Any, common: set[str]) -> dict[str, Any]:
    """Returns what makes a game what it is, by key path."""
    own = [each.name for each in attrs.fields(type(game)) if each.name not in common]
    wrappers = [wrapper.type for wrapper in game.env_wrapper]
    options = {f"env.{name}": getattr(game, name) for name in own}
    return {"env.type": game.type, **options, "env.env_wrapper": wrappers}


def _played(
    envs: Any, sides: Sides, pair: tuple[Contestant, Contestant], games: int
) -> tuple[list[float], list[float], list[int]]:
    """Plays games; each environment has a quota, so that short games do not count more."""
    count = int(envs.env_num)
    quota = np.array([games // count + (env < games % count) for env in range(count)])
    begun = np.zeros(count, np.int64)
    first = np.cumsum(quota) - quota  # number of the first game of each environment
    found: dict[int, tuple[float, float, int]] = {}
    while (begun < quota).any():
        ready = envs.ready_obs
        keep = np.flatnonzero(begun[ready.env_id] < quota[ready.env_id])
        ids = ready.env_id[keep]
        obs = tree_map(lambda leaf, at=keep: leaf[at], ready.value)
        seats = (first[ids] + begun[ids]) % len(sides)
        answer = envs.step(EnvBatch(ids, {"action": _joint(ids, obs, sides, seats, pair)}))
        for row in np.flatnonzero(answer.value.done).tolist():
            env_id, seat = int(ids[row]), int(seats[row])
            total = np.asarray(answer.value.info[row]["eval_episode_return"], np.float64)
            own = sides.earned(total[None].astype(np.float32), seats[[row]])[0]
            number = int(first[env_id] + begun[env_id])
            found[number] = float(np.mean(own)), sides.margin(total, seat), seat
            begun[env_id] += 1
            others = len(sides) - 1
            pair[0].begin([env_id])
            pair[1].begin([env_id * others + side for side in range(others)])
    returns, margins, played = zip(*(found[number] for number in range(games)), strict=True)
    return [*returns], [*margins], [*played]


def _joint(
    ids: Ids, obs: Tree, sides: Sides, seats: Ids, pair: tuple[Contestant, Contestant]
) -> npt.NDArray[Any]:
    """Returns the actions of all agents, [K, A, ...]: the second policy plays all other sides.

    A policy of all agents sees each step, as in its training, also those in which its side waits.
    """
    actions = sides.idle(len(ids))
    for ahead in range(len(sides)):
        player, theirs = pair[min(ahead, 1)], (seats + ahead) % len(sides)
        acts = sides.acts(obs, theirs)
        rows = np.flatnonzero(acts) if player.by_side else np.arange(len(ids))
        if len(rows):
            seen = tree_map(lambda leaf, at=rows: leaf[at], obs)
            part = actions[rows]
            numbers = ids[rows] * (len(sides) - 1) + ahead - 1 if ahead else ids[rows]
            chosen = player.act(numbers, seen, sides, theirs[rows])
            sides.put(part, theirs[rows], chosen)
            actions[rows] = part
    return actions


def wilson(successes: int, count: int) -> tuple[float, float]:
    """Returns Wilson's score interval of 95 % for a probability (Wilson 1927)."""
    if not count:
        return 0.0, 1.0
    share, square = successes / count, _Z**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    spread = share * (1 - share) / count + square / (4 * count**2)
    half = _Z * math.sqrt(spread) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)
