"""The results of a step, joined from the memory of a transport and the replies of workers.

Shapes: K environments.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from dicore.data import Info, Tree, tree_row
from dicore_plugins.env_managers.faults import RemoteError
from dicore_plugins.env_managers.subprocess.channel import loads
from dicore_plugins.env_managers.subprocess.worker import Reply

__all__ = ["Joined"]

_LOG = logging.getLogger("dicore.env")
_NOTHING = Reply({}, {}, {}, {}, {}, {})


class Joined:
    """Infos, ended episodes and exceptions of K environments by row; see `Results`.

    Args:
        ids: The environments.

    Attributes:
        resets: Environments that were reset by themselves, with what was not stored of it.
    """

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids
        self.infos: list[Info] = [{} for _ in ids]
        self.ended: dict[int, tuple[Tree, Tree]] = {}
        self.raised: dict[int, BaseException] = {}
        self.resets: list[tuple[int, Tree]] = []
        self._apart: dict[int, tuple[Tree, Tree]] = {}

    def add(self, row_of: Mapping[int, int], answer: bytes, stored: Sequence[int]) -> None:
        """Adds the answer of a worker.

        Args:
            row_of: The rows of its environments, by position; what it says of others is dropped.
            answer: Its message, not empty.
            stored: `ended` of the results that it stored; see `IEnvTransport`.
        """
        try:
            worked, found = (True, _NOTHING) if len(answer) == 1 else loads(answer)
        except Exception as raised:  # an info may pickle and not unpickle
            worked, found = False, RemoteError.of(raised)
        reply: Any = found
        if not worked:
            self.raised |= dict.fromkeys(row_of.values(), reply)
            return
        flags = dict(enumerate(stored))
        for at, (obs, reward, flag) in reply.results.items():
            flags[at] = flag
            if at in row_of:
                self._apart[row_of[at]] = obs, reward
        for at, error in reply.raised.items():
            flags.pop(at, None)
            if at in row_of:
                self.raised[row_of[at]] = error
        for at, info in reply.infos.items():
            if at in row_of:
                self.infos[row_of[at]] = info
        for left_out in reply.left_out.items():
            _warn_of_info(*left_out)
        self._add_ends(row_of, flags, reply)

    def _add_ends(self, row_of: Mapping[int, int], flags: Mapping[int, int], reply: Reply) -> None:
        for at, row in row_of.items():
            flag = flags.get(at, 0)
            if flag & 3:
                self.ended[row] = bool(flag & 1), bool(flag & 2)
            if flag & 4:
                self.resets.append((self._ids[row], reply.resets.get(at)))
            if at in reply.ended:
                self.ended[row] = reply.ended[at]

    def columns(self, stored: tuple[Tree, Tree] | None) -> tuple[object, object]:
        """Returns observations and rewards: stacked, or as lists if a message brought some."""
        count = len(self._ids)
        if stored is None:
            obs: list[Tree] = [None] * count
            rewards: list[Tree] = [0.0] * count
        elif not self._apart:
            return stored
        else:
            obs = [tree_row(stored[0], row) for row in range(count)]
            rewards = list(stored[1])
        for row, each in self._apart.items():
            obs[row], rewards[row] = each
        return obs, rewards


@cache
def _warn_of_info(key: str, why: str) -> None:
    """Warns, once per key, of a part of infos that does not reach the main process."""
    _LOG.warning("info['%s'] does not pickle and is left out: %s", key, why)
