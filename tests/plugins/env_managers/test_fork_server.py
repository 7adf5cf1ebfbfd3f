"""The fork server of worker processes: one that does not answer is ended, and told.

In a module of its own: the managers of other tests would lose the exit codes of their workers.
"""

from __future__ import annotations

import multiprocessing.forkserver
import os
import signal
from contextlib import closing

import pytest

from dicore.errors import EnvResetError
from dicore_plugins.env_managers import SyncSubprocessManager

from .toy_envs import CountEnv


def test_a_fork_server_that_is_suspended_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"connect_timeout": 1.0, "envs_per_worker": 1, "max_retry": 1, "restart_budget": 1}
    with closing(SyncSubprocessManager([CountEnv] * 2, options)) as manager:
        manager.launch()
        monkeypatch.setattr("dicore_plugins.env_managers.subprocess.process._SERVER_S", 1.0)
        server = multiprocessing.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        os.kill(server, signal.SIGSTOP)
        os.kill(manager.worker_pids()[0], signal.SIGKILL)
        told = rf"process {server}\) did not answer for 1 s and was ended"
        steps = (manager.step(dict.fromkeys(manager.ready_obs, 0)) for _ in range(3))
        with pytest.raises(EnvResetError, match=told) as raised:
            list(steps)
        assert "connect_timeout" in raised.value.hint
        monkeypatch.undo()
    with closing(SyncSubprocessManager([CountEnv])) as manager:
        manager.launch()  # by another fork server
