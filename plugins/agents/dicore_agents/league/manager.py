"""An env manager whose environments show one side of a game; opponents play the others.

Shapes: N environments, K of them named, A agents, `...` what a side sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.data import EnvBatch, State, StateDict, TimestepBatch, Tree, tree_map
from dicore.errors import EnvError, UsageError

if TYPE_CHECKING:
    from dicore.interfaces.env import EnvSpec
    from dicore.interfaces.env_manager import IEnvManager
    from dicore_agents.league.opponents import IOpponent
    from dicore_agents.league.sides import Sides

__all__ = ["SideManager"]

_STARTS = 100
"""Episodes in a row that may end before the side's first choice."""

Ids = npt.NDArray[np.int64]


class SideManager:
    """Steps the environments of another manager; opponents act for all environments at once.

    It does what the wrapper `one_side` does to a single environment. The contract is `IEnvManager`.

    Args:
        envs: Steps the whole game; it declares `lockstep`.
        sides: The sides of the game.
        opponent: Plays all sides but one; may be replaced between episodes.
        seat: Number of the side that is shown; None: drawn for each episode.
        seed: Seed of these draws.

    Attributes:
        margins: Of the episodes that ended: mean return of the side's agents less that of others.
        ended: Their environments.
        seats: Number of the side shown in each environment, int64 [N].

    Raises:
        UsageError: the manager does not step environments together.
    """

    def __init__(
        self,
        envs: IEnvManager,
        sides: Sides,
        opponent: IOpponent,
        *,
        seat: int | None = None,
        seed: int = 0,
    ) -> None:
        if "lockstep" not in envs.capabilities:
            raise UsageError(
                f"{type(envs).__name__} does not step environments together",
                hint="set env.manager=base or env.manager=sync_subprocess",
            )
        self.capabilities = frozenset({"lockstep"})
        self._envs: Any = envs
        self.sides, self.opponent, self.seat = sides, opponent, seat
        self._seed = seed
        self.seats: Ids = np.zeros(envs.env_num, np.int64)
        self._episodes = np.zeros(envs.env_num, np.int64)
        self._lengths = np.zeros(envs.env_num, np.int64)
        self._paid = np.zeros((envs.env_num, *sides.spec.reward_shape), np.float32)
        self.margins: list[float] = []
        self.ended: list[int] = []
        self._ids: Ids = np.arange(envs.env_num)
        self._obs: Any = None

    @property
    def spec(self) -> EnvSpec:
        """That of a side."""
        return self.sides.spec

    @property
    def observation_space(self) -> Any:
        """What a side sees."""
        return self.sides.spec.observation

    @property
    def action_space(self) -> Any:
        """What a side does."""
        return self.sides.spec.action

    @property
    def env_num(self) -> int:
        """N."""
        return int(self._envs.env_num)

    @property
    def closed(self) -> bool:
        """Not launched yet, or closed."""
        return bool(self._envs.closed)

    @property
    def done(self) -> bool:
        """Every environment has finished `episode_num` episodes."""
        return bool(self._envs.done)

    @property
    def ready_obs(self) -> EnvBatch[Tree]:
        """What the side sees in each environment that waits for an action."""
        ids = self._envs.ready_obs.env_id
        ids = self._ids if len(ids) == len(self._ids) else ids
        seen = self.sides.seen(self._rows(ids), self.seats[ids])
        return EnvBatch(ids, seen)

    def launch(self, reset_param: Any = None) -> None:
        """Makes all environments and begins an episode in each."""
        self._envs.launch(reset_param)
        self._begin(self._ids)

    def reset(self, reset_param: Any = None) -> None:
        """Begins new episodes in all environments, or in those named."""
        self._envs.reset(reset_param)
        named = self._ids if reset_param is None else np.array([*reset_param], np.int64)
        self._begin(named)

    def seed(self, seed: Any, dynamic_seed: bool | None = None, *, role: str = "collector") -> None:
        """Seeds the next episodes."""
        self._envs.seed(seed, dynamic_seed, role=role)

    def step(self, action: Mapping[int, Tree]) -> EnvBatch[TimestepBatch]:
        """Acts for the side; opponents act until it has a choice again, or the episode ends."""
        batch = EnvBatch.of(action)
        given = batch.value
        chosen = np.asarray(given["action"] if isinstance(given, Mapping) else given)
        ids, count = batch.env_id, len(batch.env_id)
        reward, self._paid[ids] = self._paid[ids], 0  # before the first choice
        terminated, truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        abnormal = np.zeros(count, np.bool_)
        infos: list[Any] = [{} for _ in range(count)]
        last: Any = tree_map(lambda leaf: leaf[ids], self._obs)
        waits = np.arange(count)  # rows that go on without a choice of the side
        acts: Tree | None = chosen
        while len(waits):
            timestep = self._stepped(ids[waits], acts)
            acts = None
            seats = self.seats[ids[waits]]
            reward[waits] += self.sides.earned(timestep.reward, seats)
            tree_map(lambda leaf, new, at=waits: leaf.__setitem__(at, new), last, timestep.obs)
            terminated[waits], truncated[waits] = timestep.terminated, timestep.truncated
            if timestep.abnormal is not None:
                abnormal[waits] = timestep.abnormal
            for row, info in zip(waits.tolist(), timestep.info, strict=True):
                infos[row] = info
            going = ~timestep.done & ~self.sides.acts(timestep.obs, seats)
            waits = waits[going]
        self._lengths[ids] += 1
        done = terminated | truncated
        seen = self.sides.seen(last, self.seats[ids])
        for row in np.flatnonzero(done).tolist():
            infos[row] = self._ended(int(ids[row]), infos[row], bool(abnormal[row]))
        if done.any():
            self._begin(ids[done])
        flags = abnormal if abnormal.any() else None
        return EnvBatch(ids, TimestepBatch(seen, reward, terminated, truncated, infos, flags))

    def _stepped(self, ids: Ids, chosen: Tree | None) -> TimestepBatch:
        """Steps all agents of the environments named; None: the side has no choice in them."""
        actions = self.sides.idle(len(ids))
        obs, seats = self._rows(ids), self.seats[ids]
        if chosen is not None:
            self.sides.put(actions, seats, chosen)
        for ahead in range(1, len(self.sides)):
            others = (seats + ahead) % len(self.sides)
            rows = np.flatnonzero(self.sides.acts(obs, others))
            if len(rows):
                seen = self.sides.seen(tree_map(lambda leaf, at=rows: leaf[at], obs), others[rows])
                numbers = ids[rows] * (len(self.sides) - 1) + ahead - 1  # of who remembers
                theirs = self.opponent.act(numbers, seen)
                part = actions[rows]
                self.sides.put(part, others[rows], theirs)
                actions[rows] = part
        answer = self._envs.step(EnvBatch(ids, {"action": actions}))
        self._obs = self._envs.ready_obs.value  # N rows: it steps environments together
        return answer.value  # type: ignore[no-any-return]

    def _begin(self, ids: Ids) -> None:
        """Draws sides for new episodes, and lets opponents act until the side has a choice."""
        self._obs = self._envs.ready_obs.value
        for _ in range(_STARTS):
            self._draw(ids)
            self._paid[ids] = 0
            others = len(self.sides) - 1
            self.opponent.reset((ids[:, None] * others + np.arange(others)).ravel().tolist())
            again: list[int] = []
            waits = ids[~self.sides.acts(self._rows(ids), self.seats[ids])]
            while len(waits):
                timestep = self._stepped(waits, None)
                again += waits[timestep.done].tolist()
                seats = self.seats[waits]
                self._paid[waits] += self.sides.earned(timestep.reward, seats)
                going = ~timestep.done & ~self.sides.acts(timestep.obs, seats)
                waits = waits[going]
            if not again:
                return
            ids = np.array(again, np.int64)
        raise EnvError(f"{_STARTS} episodes in a row ended before the side's first choice")

    def _draw(self, ids: Ids) -> None:
        for env_id in ids.tolist():
            if self.seat is None:
                rng = np.random.default_rng([self._seed, env_id, int(self._episodes[env_id])])
                self.seats[env_id] = rng.integers(len(self.sides))
            else:
                self.seats[env_id] = self.seat
            self._episodes[env_id] += 1
            self._lengths[env_id] = 0

    def _ended(self, env_id: int, info: Mapping[str, Any], abnormal: bool) -> dict[str, Any]:
        """Returns the last info of an episode as the side sees it."""
        seat = int(self.seats[env_id])
        told: dict[str, Any] = {**info, "side": seat, "episode_length": int(self._lengths[env_id])}
        if "eval_episode_return" in info:
            returns = np.asarray(info["eval_episode_return"], np.float32)
            if not abnormal:
                self.margins.append(self.sides.margin(returns, seat))
                self.ended.append(env_id)
            own = self.sides.earned(returns[None], self.seats[[env_id]])[0]
            told["eval_episode_return"] = float(own) if self.sides.of_one else own
        return told

    def _rows(self, ids: Ids) -> Any:
        if len(ids) == len(self._ids):
            return self._obs
        return tree_map(lambda leaf: leaf[ids], self._obs)

    def state_dict(self) -> StateDict:
        """Returns the state of the manager below, and how many episodes began."""
        return {"envs": self._envs.state_dict(), "episodes": self._episodes.copy()}

    def load_state_dict(self, state: State) -> None:
        """Restores it; the running episodes are those that `reset` begins."""
        self._envs.load_state_dict(state["envs"])
        self._episodes = np.array(state["episodes"], np.int64)
        if not self._envs.closed:
            self._obs = self._envs.ready_obs.value

    def close(self) -> None:
        """Closes all environments; later calls do nothing."""
        self._envs.close()


def outcome(margin: float) -> Sequence[int]:
    """Returns (wins, draws, losses) of an episode by its margin."""
    return int(margin > 0), int(margin == 0), int(margin < 0)
