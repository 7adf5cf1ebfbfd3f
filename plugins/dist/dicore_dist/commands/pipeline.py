"""The pipeline `dist`: this process coordinates; learner and collectors are other processes."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dicore.config import NamedConfig, PolicyConfig, RunConfig
from dicore.config.writer import saved_tree
from dicore.console import say
from dicore.data.json_codec import dumps
from dicore.errors import DicoreError, UsageError
from dicore_dist.commands.config import system_of
from dicore_dist.coordinator.coordinator import Addresses, Coordinator, Observer
from dicore_dist.coordinator.dist_status import DistStatus
from dicore_dist.coordinator.flow import BlockBuffer, Replay
from dicore_dist.coordinator.journal import Journal
from dicore_dist.coordinator.observed import POLICY, Observed
from dicore_dist.coordinator.operator import OperatorServer
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.coordinator.rounds import Flow, Rounds, Share
from dicore_dist.coordinator.supervisor import Job, Supervisor
from dicore_dist.links.exchange import FileStore, Store
from dicore_dist.links.token_file import forget_token, kept_token
from dicore_dist.parallel.config import autocast_problems
from dicore_dist.workers.serving import Place, in_threads, serve
from dicore_plugins.pipelines.serial.on_policy import OnPolicyPipeline
from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
from dicore_plugins.pipelines.training import TrainingPipeline, school_of
from dicore_plugins.private import private_folder
from dicore_registry import code_paths, default

if TYPE_CHECKING:
    from dicore.run import Run
    from dicore_dist.commands.config import DistSystemConfig
    from dicore_dist.links.blocks import BlockMeta

__all__ = ["DistPipeline"]

_LOG = logging.getLogger("dicore.comm")


class DistPipeline(TrainingPipeline):
    """Trains by tasks for a learner and collectors, see `Coordinator`; implements `IPipeline`."""

    def trains(self, policy: PolicyConfig) -> bool:
        """Returns whether a policy learns from samples that are collected while it learns."""
        return school_of(policy) in ("off_policy", "on_policy")

    def check(self, compiled: Any) -> None:
        """Checks the config, and that a given Ray cluster answers."""
        super().check(compiled)
        system = system_of(compiled.cfg)
        if system.operator is not None:  # a saved config does not choose whom this process asks
            code_paths.check(system.operator, "pipeline.system.operator")
        if system.comm[0] == "ray":
            from dicore_dist.links.ray_runtime import check_address, import_ray

            if system.address is not None:
                check_address(system.address)
            import_ray(system.address)

    def problems(self, cfg: RunConfig) -> Iterator[tuple[str, str]]:
        """Yields what the processes cannot do."""
        policy = cfg.policy
        system = system_of(cfg)
        for kind, name in zip(("learner", "collector"), system.comm, strict=True):
            try:
                default().resolve(f"comm_{kind}", name)
            except DicoreError as error:
                yield f"pipeline.system.comm_{kind}", error.message
        serial = OnPolicyPipeline if policy.on_policy else SerialPipeline
        yield from serial(self._cfg).problems(cfg)
        yield from autocast_problems(cfg)
        buffer = policy.other.get("replay_buffer")
        if not policy.on_policy and (
            isinstance(buffer, NamedConfig) or buffer.type not in ("naive", "advanced")
        ):
            kinds = "several" if isinstance(buffer, NamedConfig) else f"'{buffer.type}'"
            yield "policy.other.replay_buffer", f"expected naive or advanced, got {kinds}"
        wrappers = [each.type for each in cfg.env.env_wrapper]
        commander = system.commander
        try:
            commander.build(None)
        except UsageError as error:
            yield "pipeline.system.commander", error.message
        needs_one = getattr(getattr(type(commander), "_target", None), "opponent", False)
        if needs_one and wrappers.count("versus") != 1:
            yield "env.env_wrapper", f"expected versus, for the commander {commander.type}"
        if policy.reward_model is not None:
            yield (
                "policy.reward_model",
                "needs samples before they are stored; use serial, or null",
            )
        if policy.get("world_model") is not None:
            yield "policy.world_model", "is trained by the pipeline serial_dyna"

    def run(self, compiled: Any, run: Run, *, model: Any | None = None) -> Any:
        """Trains until the commander or a request to stop ends it; returns the policy."""
        cfg = compiled.cfg
        system = system_of(cfg)
        data = Path(system.path_data or run.folder.path / "data").absolute()
        policies = Path(system.path_policy or run.folder.path / "policy").absolute()
        for folder in (data, policies):
            private_folder(folder)
        journal = Journal(policies / "journal.jsonl")
        try:
            place = Place(str(data), str(policies), kept_token(policies))
            with _stores(system, place, run.folder.metadata) as stores:
                return self._trained(compiled, run, model, journal, place, stores)
        finally:
            journal.close()

    def _trained(
        self, compiled: Any, run: Run, model: Any, journal: Journal, place: Place, stores: _Stores
    ) -> Any:
        """Trains; returns the policy."""
        cfg, folder = compiled.cfg, run.folder.path
        failed: list[BaseException] = []
        saved = FileStore(Path(place.path_policy), place.token)
        observed = Observed(cfg, run, stores.policies, saved, journal.job_id, model)
        if getattr(run, "resumed_from", None) is not None:
            _check_journal(journal)
            run.restore(whole_log=True)  # the journal goes on
        run.first_step()
        coordinator = self._coordinator(compiled, folder, journal, place, stores)
        observed.of(coordinator)
        facts = system_facts(cfg, stores.address)
        status = DistStatus(run.folder.log, Path(place.path_policy), coordinator)
        with (
            _replicas(system_of(cfg)) as operator,
            _processes(cfg, facts, place, folder, failed, coordinator.restarts) as replace,
        ):
            coordinator.observers.append(_Watch(status, replace, operator))
            try:
                coordinator.run(lambda: bool(failed or run.stop_requested))
            finally:
                run.cpu.stop()  # before processes end that this one does not wait for
                status.write(ended=True)
        if failed:
            raise failed[0]
        observed.finish()
        if not run.stop_requested:  # nothing goes on from the samples
            for store in (stores.data, stores.policies):
                store.clear(journal.job_id)
            forget_token(Path(place.path_policy))
        return observed.policy

    def _coordinator(
        self, compiled: Any, folder: Path, journal: Journal, place: Place, stores: _Stores
    ) -> Coordinator:
        cfg = compiled.cfg
        system = system_of(cfg)
        commander = system.commander.build(None)
        job = {
            "config": dumps(saved_tree(compiled)),
            "code": list(code_paths.state()[1]),
            "job_id": journal.job_id,
            "policy_id": POLICY,
            "buffer_id": "buffer",
            "folder": str(folder),
        }
        peers = Addresses(system_of(cfg), Path(place.path_policy), place.token)
        flow = flow_of(cfg, stores.data, journal.blocks)
        return Coordinator(cfg, job, flow, commander, journal, peers)


class _Watch(Observer):
    """Writes the status, and has processes replaced."""

    def __init__(
        self, status: DistStatus, replace: Callable[[str], None], operator: OperatorServer | None
    ) -> None:
        self._status, self._replace, self._operator = status, replace, operator

    def looked(self) -> None:
        self._status.write()

    def silent(self, name: str) -> None:
        self._replace(name)

    def lost(self, name: str) -> None:
        if self._operator is not None:
            self._operator.report(name)


@dataclass(frozen=True)
class _Stores:
    """Where samples and parameters are, and the Ray cluster of a training over Ray."""

    data: Store
    policies: Store
    address: str | None = None


@contextlib.contextmanager
def _stores(system: DistSystemConfig, place: Place, record: Path) -> Iterator[_Stores]:
    """Yields the stores of a training; starts Ray for it if it needs one, and none is there."""
    if system.comm[0] != "ray":
        data = FileStore(Path(place.path_data), place.token)
        yield _Stores(data, FileStore(Path(place.path_policy), place.token))
        return
    from dicore_dist.links.ray_link import RayStore
    from dicore_dist.links.ray_runtime import RayRuntime

    runtime = RayRuntime(address=system.address, record=record)
    try:
        address = str(runtime.ray.get_runtime_context().gcs_address)
        store = RayStore(place.token, address)
        yield _Stores(store, store, address)
    finally:
        runtime.close()


def _check_journal(journal: Journal) -> None:
    """Refuses to go on from a training whose samples were removed when it ended."""
    if not journal.resumed:
        raise UsageError(
            "a run of -m dist that has ended cannot be continued: its samples are gone",
            hint="start a new run with larger budgets",
        )


@contextlib.contextmanager
def _replicas(system: DistSystemConfig) -> Iterator[OperatorServer | None]:
    """Asks the operator for the processes, and to end them; None: there is no operator."""
    if system.operator is None:
        yield None
        return
    operator = OperatorServer(system.operator)
    operator.post_replicas(collectors=system.collector_num, learners=1)
    try:
        yield operator
    finally:
        with contextlib.suppress(DicoreError):  # the coordinator has asked them to end, too
            operator.delete_replicas(collectors=system.collector_num, learners=1)


def flow_of(cfg: RunConfig, store: Store, blocks: Sequence[BlockMeta] = ()) -> Flow:
    """Returns what is between collectors and learner, with the blocks of an earlier coordinator."""
    policy, system = cfg.policy, system_of(cfg)
    if policy.on_policy:
        unit = "n_episode" if policy.collect.get("n_sample") is None else "n_sample"
        amount = unit, int(policy.collect[unit])
        return Rounds(*amount, system.collector_num, store, system.task_timeout)
    buffer = policy.other.replay_buffer.build(None)
    flow = Replay(BlockBuffer(buffer, store, policy.learn.batch_size), cfg)
    if blocks and store.stamp(str(blocks[-1]["file_path"])) is None:
        raise UsageError(
            "the samples of this training are gone: it cannot go on",
            hint="over Ray they end with the cluster; start a new run",
        )
    for meta in blocks:
        flow.put(Share({}), meta)
    return flow


@contextlib.contextmanager
def _processes(
    cfg: RunConfig,
    facts: Mapping[str, Any],
    place: Place,
    folder: Path,
    failed: list[BaseException],
    restarts: Restarts,
) -> Iterator[Callable[[str], None]]:
    """Starts learner and collectors on this machine, if the config says so.

    Yields:
        A function that replaces the process of a name: it does not answer.
    """
    system = system_of(cfg)
    if not system.starts:
        if system.operator is None:
            say(
                f"waiting for learner0 and {system.collector_num} collectors (dicore -m dist"
                " --module learner, ...); pipeline.system.start=processes starts them here"
            )
        yield lambda name: None
        return
    roles = [("learner", 0), *(("collector", index) for index in range(system.collector_num))]
    if system.start == "threads":
        with in_threads(roles, facts, place, failed):
            yield lambda name: None
        return
    jobs = []
    for kind, index in roles:
        output = folder / "log" / f"{kind}{index}" / "output.txt"
        given = kind, facts, place, index, str(folder)
        jobs.append(Job(f"{kind}{index}", serve, given, str(output)))
    supervisor = Supervisor(jobs, restarts=restarts, tells_errors=True)
    thread = threading.Thread(target=partial(_supervise, supervisor, failed), daemon=True)
    thread.start()
    try:
        yield lambda name: supervisor.replace(name, system.heartbeat_timeout)
    finally:
        supervisor.end()
        thread.join(timeout=15)


def _supervise(supervisor: Supervisor, failed: list[BaseException]) -> None:
    try:
        supervisor.run()
    except BaseException as error:
        failed.append(error)


def system_facts(cfg: RunConfig, address: str | None = None) -> dict[str, object]:
    """Returns what a process needs of the options of the system, as plain data."""
    system = system_of(cfg)
    return {
        "comm_learner": system.comm[0],
        "comm_collector": system.comm[1],
        "address": address,
        "learner_host": system.learner_host,
        "learner_port": system.learner_port,
        "collector_host": system.collector_host,
        "collector_port": system.collector_port,
        "send_policy_freq": system.send_policy_freq,
        "send_learn_info_freq": system.send_learn_info_freq,
        "update_policy_second": system.update_policy_second,
        "learner_cache": system.learner_cache,
    }
