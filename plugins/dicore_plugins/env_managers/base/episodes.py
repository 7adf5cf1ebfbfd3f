"""The books of a manager: where each environment stands in its episode.

Shapes: N environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dicore.errors import EnvStateError
from dicore.interfaces.env_manager import EnvState

__all__ = ["Episodes"]

_OWN_RETURN = frozenset({"eval_episode_return", "final_eval_reward"})
"""Names under which an environment may tell the return of the episode itself."""
_NOTHING: dict[str, Any] = {}


RUN, RESET = EnvState.RUN, EnvState.RESET  # an enum's own look-up costs a fifth of an episode's end


class Episodes:
    """States, lengths, returns and seeds of the running episodes.

    One clock counts steps for all environments, so that a step costs the same however many there
    are; what an environment missed is added to its start.

    Args:
        limits: Steps after which an environment's episode is truncated, [N]; inf: never.
        episode_num: Episodes after which an environment is done.
        auto_reset: Whether the next episode begins by itself.

    Attributes:
        clock: Steps made since the launch.
        deadline: Clock at which an episode may meet its time limit.
        state: Where each environment stands.
        all_run: Every one waits for an action.
        total: Undiscounted return so far, float64 [N].
        seed: Seed of each running episode.
        finished: Episodes finished, without those cut by a fault.
        restarts: Episodes that were cut by a fault and begun anew.
    """

    def __init__(self, limits: Sequence[float], episode_num: float, *, auto_reset: bool) -> None:
        count = len(limits)
        self._limits = list(limits)
        self._auto_reset = auto_reset
        self._episode_num = episode_num
        self.clock = 0
        self._start = [0] * count
        self.deadline = float("inf")
        self.state = [EnvState.INIT] * count
        self.all_run = False
        self.total = np.zeros(count)
        self.seed = [0] * count
        self.finished = [0] * count
        self.restarts = [0] * count

    def begin(self, env_id: int, seed: int) -> None:
        """Opens an episode; the first observation is there."""
        self._start[env_id] = self.clock
        self.deadline = min(self.deadline, self.clock + self._limits[env_id])
        self.total[env_id] = 0.0
        self.seed[env_id] = seed
        self.state[env_id] = RUN
        if not self.all_run:
            self.all_run = all(each is RUN for each in self.state)

    def resume(self, env_id: int, length: int, total: float) -> None:
        """Says that an episode just begun is `length` steps old and has earned `total`."""
        self._start[env_id] = self.clock - length
        self.deadline = min(self.deadline, self._start[env_id] + self._limits[env_id])
        self.total[env_id] = total

    def stop(self, env_id: int, state: EnvState) -> None:
        """Moves an environment to a state in which it cannot be stepped."""
        self.state[env_id] = state
        self.all_run = False

    def length(self, env_id: int) -> int:
        """Returns the steps made in the running episode of an environment."""
        return self.clock - self._start[env_id]

    def where(self, env_id: int) -> str:
        """Returns `step 3 of the episode with seed 17`."""
        return f"step {self.length(env_id)} of the episode with seed {self.seed[env_id]}"

    def check_known(self, env_id: int) -> None:
        """Raises EnvStateError if there is no such environment."""
        if not 0 <= env_id < len(self.state):
            raise EnvStateError(
                f"there is no env {env_id}", hint=f"there are 0..{len(self.state) - 1}",
                context={"env_id": env_id},
            )  # fmt: skip

    def check_running(self, env_ids: Sequence[int]) -> None:
        """Raises EnvStateError if an environment named does not wait for an action."""
        for env_id in env_ids:
            self.check_known(env_id)
            state = self.state[env_id]
            if state is not EnvState.RUN:
                raise EnvStateError(
                    f"env {env_id} is {state.name} ({state.value}) and cannot be stepped",
                    hint=f"reset({{{env_id}: None}}) it first",
                    context={"env_id": env_id, "state": state.name},
                )
        if len(set(env_ids)) < len(env_ids):
            raise EnvStateError(f"environments {list(env_ids)}: one is named twice")

    def reopen(self, env_ids: Sequence[int]) -> None:
        """Lets environments that are done, or all, play their number of episodes again."""
        everyone = len(env_ids) == len(self.state)
        for env_id in env_ids:
            self.check_known(env_id)
            if everyone or self.state[env_id] is EnvState.DONE:
                self.finished[env_id] = 0

    def tick(self, env_ids: Sequence[int], ended: dict[int, tuple[bool, bool]]) -> None:
        """Accounts for a step in which some were left out, or a deadline is met.

        Args:
            env_ids: The environments that made the step, row by row.
            ended: (terminated, truncated) by row; those that met their time limit are added.
        """
        if len(env_ids) < len(self.state):
            for env_id in set(range(len(self.state))).difference(env_ids):
                self._start[env_id] += 1
        nearest = min(map(sum, zip(self._start, self._limits, strict=True)))
        self.deadline = max(nearest, self.clock + 1)
        for row, env_id in enumerate(env_ids):
            if self.length(env_id) >= self._limits[env_id]:
                terminated, _ = ended.get(row, (False, False))
                ended[row] = (terminated, True)

    def end(self, env_id: int, info: Mapping[str, Any] | None) -> dict[str, Any]:
        """Closes an episode; returns its last info with the return and length of all of it."""
        facts = {
            **(info or _NOTHING),
            "eval_episode_return": self.total.item(env_id),
            "episode_length": self.clock - self._start[env_id],
        }
        if info and not _OWN_RETURN.isdisjoint(info):
            own = info.get("eval_episode_return", info.get("final_eval_reward"))
            facts["eval_episode_return"] = float(np.asarray(own).item())
        self.finished[env_id] += 1
        if self.finished[env_id] >= self._episode_num:
            self.stop(env_id, EnvState.DONE)
        elif not self._auto_reset:
            self.stop(env_id, EnvState.NEED_RESET)
        return facts

    def cut(self, env_id: int) -> None:
        """Closes an episode that a fault spoilt; it is not counted."""
        self.restarts[env_id] += 1
        if not self._auto_reset:
            self.stop(env_id, EnvState.NEED_RESET)

    @property
    def done(self) -> bool:
        """Every environment has finished its episodes."""
        return all(count >= self._episode_num for count in self.finished)
