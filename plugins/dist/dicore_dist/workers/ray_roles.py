"""The comm component `ray`: a learner and collectors whose tasks and samples go over Ray."""

from __future__ import annotations

from pathlib import Path

from dicore_dist.links.channel import token_of
from dicore_dist.links.exchange import FileStore, Link
from dicore_dist.links.ray_link import RayStore, RayTransport
from dicore_dist.workers.collector import TaskCollector
from dicore_dist.workers.learner import TaskLearner

__all__ = ["RayCollector", "RayLearner"]


def _link(path_policy: str, token: str, address: str | None) -> Link:
    transport, store = RayTransport(token=token, address=address), RayStore(token, address)
    return Link(transport, store, store, FileStore(Path(path_policy), token_of(token)))


class RayLearner(TaskLearner):
    """A comm learner over Ray: tasks by actors, samples and policy in the object store.

    Args:
        address: host:port of the Ray cluster; None: the one of this process.
        path_policy: Folder of the learner's saved state.
        send_policy_freq: Updates between two published versions of the parameters.
        send_learn_info_freq: Updates between two learn infos, and updates of one demand of data.
        cache: Samples that are kept in memory after they were read, in MiB.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
    """

    def __init__(
        self,
        address: str | None = None,
        path_policy: str = "policy",
        send_policy_freq: int = 1,
        send_learn_info_freq: int = 10,
        cache: int = 512,
        token: str = "",
    ) -> None:
        link = _link(path_policy, token, address)
        super().__init__(link, send_policy_freq, send_learn_info_freq, cache)


class RayCollector(TaskCollector):
    """A comm collector over Ray: tasks by actors, samples and policy in the object store.

    Args:
        address: host:port of the Ray cluster; None: the one of this process.
        path_policy: Folder of the opponents of environments, in self-play.
        update_policy_second: Seconds between two looks for new parameters.
        token: The shared token; "": that of the variable `DICORE_TOKEN`.
    """

    def __init__(
        self,
        address: str | None = None,
        path_policy: str = "policy",
        update_policy_second: float = 0.0,
        token: str = "",
    ) -> None:
        super().__init__(_link(path_policy, token, address), update_policy_second)
