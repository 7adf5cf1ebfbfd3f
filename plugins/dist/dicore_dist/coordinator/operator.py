"""An operator that starts and replaces processes (DI-engine's for Kubernetes), asked by HTTP."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dicore.errors import DicoreError, MissingDependencyError, UsageError
from dicore_dist.links.errors import PeerError, RemoteTaskError

__all__ = ["OperatorServer"]

_LOG = logging.getLogger("dicore.comm")
_TIMEOUT_S: Final = 10.0
_MOST_TEXT: Final = 500


class OperatorServer:
    """The replica API of an operator: requests and responses are JSON.

    `GET`, `POST` and `DELETE` of `replicas` return, start and end processes by kind;
    `POST replicasFailed` names processes to be replaced. Responses have `success`, `code`,
    `message` and `data`.

    Args:
        host: Name or address of the operator, or `host:port`.
        port: Port, if `host` has none.
        api_version: First part of the path.
    """

    def __init__(self, host: str, port: int | None = None, api_version: str = "v1alpha1") -> None:
        address = host if port is None else f"{host}:{port}"
        name, _, number = address.rpartition(":")
        if not name or not number.isdecimal() or "/" in address:
            raise UsageError(f"not the address of an operator: {address!r}; expected host:port")
        self._address, self._url = address, f"http://{address}/{api_version}"

    def get_replicas(self, name: str | None = None) -> Mapping[str, object]:
        """Returns the processes by kind (`collectors`, `learners`), or those of one name."""
        return self._ask("GET", "replicas", params=None if name is None else {"name": name})

    def post_replicas(self, collectors: int = 0, learners: int = 0) -> Mapping[str, object]:
        """Asks for more processes."""
        return self._ask("POST", "replicas", json=_counts(collectors, learners))

    def delete_replicas(self, collectors: int = 0, learners: int = 0) -> Mapping[str, object]:
        """Asks to end processes."""
        return self._ask("DELETE", "replicas", json=_counts(collectors, learners))

    def post_replicas_failed(
        self, collectors: Sequence[str] = (), learners: Sequence[str] = ()
    ) -> Mapping[str, object]:
        """Names processes that failed, which the operator replaces."""
        failed = {"collectors": [*collectors], "learners": [*learners]}
        return self._ask("POST", "replicasFailed", json=failed)

    def report(self, name: str) -> None:
        """Names one process that failed; an operator that does not answer is a warning."""
        kind = f"{name.rstrip('0123456789')}s"
        try:
            self.post_replicas_failed(**{kind: [name]})
        except DicoreError as error:
            _LOG.warning("%s is not replaced: %s", name, error.message)

    def _ask(self, method: str, path: str, **content: Any) -> Mapping[str, object]:
        try:
            import requests
        except ImportError as error:
            raise MissingDependencyError(
                "an operator is asked by the package requests, which is not installed",
                hint="pip install 'dicore-dist[comm]'",
            ) from error
        try:
            with requests.Session() as session:
                session.trust_env = False
                url = f"{self._url}/{path}"
                response = session.request(
                    method, url, timeout=_TIMEOUT_S, allow_redirects=False, **content
                )
            found = response.json()
        except requests.JSONDecodeError:
            raise RemoteTaskError(
                f"the operator at {self._address} answered {response.status_code} without JSON",
                hint="check that this is the address of the operator",
            ) from None
        except requests.RequestException as error:
            raise PeerError(
                f"no operator answers at {self._address}: {type(error).__name__}",
                hint="pipeline.system.operator is its host:port",
            ) from error
        if not isinstance(found, Mapping) or not found.get("success"):
            text = found.get("message") if isinstance(found, Mapping) else found
            raise RemoteTaskError(
                f"the operator at {self._address} refuses {method} {path}: {text}"[:_MOST_TEXT],
                hint="see the log of the operator",
            )
        data: Mapping[str, Any] = found.get("data") or {}
        return data


def _counts(collectors: int, learners: int) -> dict[str, dict[str, int]]:
    """Returns numbers of processes as the API has them."""
    counts = {"collectors": collectors, "learners": learners}
    return {kind: {"replicas": count} for kind, count in counts.items() if count}
