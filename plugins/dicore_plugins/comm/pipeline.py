"""The pipeline `dist`: this process coordinates; learner and collectors are other processes."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dicore.config import NamedConfig
from dicore.config.layers import Problems, is_place
from dicore.config.writer import saved_tree
from dicore.data.json_codec import dumps
from dicore.run.env_factory import BuildContext, spaces_of
from dicore_plugins.comm.channel import token_of
from dicore_plugins.comm.coordinator import Coordinator, addresses
from dicore_plugins.comm.flow import BlockBuffer
from dicore_plugins.comm.frames import load_file
from dicore_plugins.comm.journal import Journal
from dicore_plugins.comm.roles import Place, in_threads, serve_collector, serve_learner
from dicore_plugins.comm.supervisor import Job, Supervisor
from dicore_plugins.pipelines.training import school_of

__all__ = ["DistPipeline"]

_LOG = logging.getLogger("dicore.comm")
_POLICY = "policy"


class DistPipeline:
    """Trains by tasks for a learner and collectors, see `Coordinator`; implements `IPipeline`.

    Args:
        cfg: The pipeline's section of the config.
    """

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def check(self, compiled: Any) -> None:
        """Checks that this pipeline can train the policy.

        Raises:
            ConfigError: it cannot; the error lists all reasons.
        """
        cfg, origin = compiled.cfg, compiled.origin
        problems = Problems(places={path: at for path, at in origin.items() if is_place(at)})
        problems.extend(self._problems(cfg))
        problems.raise_if_any()

    def _problems(self, cfg: Any) -> Iterator[tuple[str, str]]:
        policy = cfg.policy
        if not policy.learns or school_of(policy) != "off_policy":
            yield (
                "pipeline.type",
                f"'dist' trains policies that learn from a replay buffer, '{policy.type}' does not;"
                " expected serial or parallel",
            )
            return
        buffer = policy.other.replay_buffer
        if isinstance(buffer, NamedConfig) or buffer.type not in ("naive", "advanced"):
            kinds = "several" if isinstance(buffer, NamedConfig) else f"'{buffer.type}'"
            yield "policy.other.replay_buffer", f"expected naive or advanced, got {kinds}"
        if policy.reward_model is not None:
            yield "policy.reward_model", "'dist' trains without one; expected None"

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> Any:
        """Trains until the commander or a request to stop ends it; returns the policy."""
        cfg = compiled.cfg
        system = cfg.pipeline.system
        data = Path(system.path_data or run.folder.path / "data").absolute()
        policies = Path(system.path_policy or run.folder.path / "policy").absolute()
        for folder in (data, policies):
            folder.mkdir(parents=True, exist_ok=True)
        token = token_of() or secrets.token_hex(16)
        observed = _Observed(cfg, run, policies, model)
        run.first_step()
        journal = Journal(policies / "journal.jsonl")
        failed: list[BaseException] = []
        try:
            coordinator = self._coordinator(compiled, journal, data, policies, token)
            observed.of(coordinator)
            with _processes(cfg, data, policies, token, run.folder.path, failed):
                coordinator.run(lambda: bool(failed or run.stop_requested))
        finally:
            journal.close()
        if failed:
            raise failed[0]
        observed.finish()
        if not run.stop_requested:  # nothing goes on from the samples
            for file in data.glob("collector_task_*.frame"):
                file.unlink(missing_ok=True)
        return observed.policy

    def _coordinator(
        self, compiled: Any, journal: Journal, data: Path, policies: Path, token: str
    ) -> Coordinator:
        cfg = compiled.cfg
        buffer = cfg.policy.other.replay_buffer.build(None)
        stored = BlockBuffer(buffer, data, cfg.policy.learn.batch_size)
        commander = cfg.pipeline.system.commander.build(None)
        job = {
            "config": dumps(saved_tree(compiled)),
            "job_id": journal.job_id,
            "policy_id": _POLICY,
            "buffer_id": "buffer",
        }
        find = addresses(cfg.pipeline.system, policies)
        return Coordinator(cfg, job, stored, commander, journal, find, token)


class _Observed:
    """The policy, the run's counters, and the best checkpoint."""

    def __init__(self, cfg: Any, run: Any, folder: Path, model: Any) -> None:
        self._run, self._folder = run, folder
        spaces = spaces_of(cfg.env, cfg.seed)
        ctx = BuildContext(*spaces, "cpu", cfg.seed, run)
        self.policy = cfg.policy.build(ctx, model=model)
        self._learner = cfg.policy.learn.learner.build(ctx, policy=self.policy.learn_mode)
        self._coordinator: Any = None
        self._best = float("-inf")
        self._lock = threading.Lock()
        run.register("learner", self._learner, counts={"train_iter": self._updates})
        run.register("coordinator", self, counts={"env_step": self._env_steps})

    def of(self, coordinator: Coordinator) -> None:
        """Observes the evaluations of a coordinator."""
        self._coordinator = coordinator
        coordinator.on_evaluation = self._evaluated

    def state_dict(self) -> dict[str, Any]:
        """Returns the counters."""
        return {"env_step": self._env_steps(), "best": self._best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Does nothing: a restarted coordinator reads its journal."""

    def _updates(self) -> int:
        return 0 if self._coordinator is None else int(self._coordinator.train_iter)

    def _env_steps(self) -> int:
        return 0 if self._coordinator is None else int(self._coordinator.env_step)

    def _evaluated(self, result: Mapping[str, Any]) -> None:
        value, train_iter = float(result["mean_return"]), int(result["policy_iter"])
        with self._lock:
            at = {"train_iter": max(0, train_iter), "env_step": self._env_steps()}
            self._run.log.log_scalars({"eval/return_mean": value}, **at)
            if value > self._best:
                self._best = value
                self._load(str(result["policy_path"]))
                self._learner.last_iter = max(0, train_iter)
                self._run.save_best(value)
            with contextlib.suppress(FileNotFoundError):
                (self._folder / str(result["policy_path"])).unlink()
            if result["stop"]:
                self._run.set_result(stop=True)

    def finish(self) -> None:
        """Loads the last parameters, and saves them."""
        with contextlib.suppress(FileNotFoundError):
            self._load(f"{_POLICY}.frame")
            self._learner.last_iter = self._updates()
        self._run.save_checkpoint("final")

    def _load(self, name: str) -> None:
        found = load_file(self._folder / Path(name).name)
        self.policy.collect_mode.load_state_dict(found["state"])


@contextlib.contextmanager
def _processes(
    cfg: Any, data: Path, policies: Path, token: str, folder: Path, failed: list[BaseException]
) -> Iterator[None]:
    """Starts learner and collectors on this machine, if the config says so."""
    system = cfg.pipeline.system
    if system.start == "none":
        yield
        return
    place, facts = Place(str(data), str(policies), token), system_facts(cfg)
    roles = [("learner0", serve_learner, 0)]
    roles += [(f"collector{n}", serve_collector, n) for n in range(system.collector_num)]
    if system.start == "threads":
        with in_threads(roles, facts, place):
            yield
        return
    jobs = [Job(name, call, (facts, place, index, str(folder))) for name, call, index in roles]
    supervisor = Supervisor(jobs, auto_recover=True)
    thread = threading.Thread(target=partial(_supervise, supervisor, failed), daemon=True)
    thread.start()
    try:
        yield
    finally:
        supervisor.end()
        thread.join(timeout=15)


def _supervise(supervisor: Supervisor, failed: list[BaseException]) -> None:
    try:
        supervisor.run()
    except Exception as error:
        failed.append(error)


def system_facts(cfg: Any) -> dict[str, Any]:
    """Returns what a process needs of the options of the system, as plain data."""
    system = cfg.pipeline.system
    return {
        "comm_learner": system.comm_learner,
        "comm_collector": system.comm_collector,
        "learner_host": system.learner_host,
        "learner_port": system.learner_port,
        "collector_host": system.collector_host,
        "collector_port": system.collector_port,
        "send_policy_freq": system.send_policy_freq,
        "send_learn_info_freq": system.send_learn_info_freq,
        "update_policy_second": system.update_policy_second,
        "learner_cache": system.learner_cache,
    }
