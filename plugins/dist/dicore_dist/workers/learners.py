"""Several learner processes as one learner: each makes the update of a share of the batch.

Shapes: B samples.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch

from dicore.config import NamedConfig, RunConfig
from dicore.data import Batch, Columns, State, StateDict
from dicore.errors import DicoreError
from dicore.run.env_factory import BuildContext
from dicore_dist.links.ray_runtime import RayRuntime
from dicore_dist.parallel.config import system_of
from dicore_dist.workers.gradients import average_gradients, join_group, leave_group
from dicore_dist.workers.processes import RoleProcess, end_processes, raise_failure
from dicore_dist.workers.roles import RoleSpec
from dicore_dist.workers.weights import as_arrays, as_tensors

if TYPE_CHECKING:
    from dicore.data import Row
    from dicore.interfaces.learner import ILearner
    from dicore_dist.parallel.config import SystemConfig

__all__ = ["LearnerGroup", "LearnerRole", "share_config"]

_RESUME = "resume the run from its checkpoint"
_KEPT_HOOKS = ("log_reduce", "log_show")
"""Hooks that other learners have too: those exchange numbers, and forget what was shown."""


def share_config(policy: Any, learner_num: int) -> Any:
    """Returns the section of a policy that learns from a share of each batch."""
    size = policy.learn.batch_size
    if learner_num == 1 or size is None:
        return policy
    return attrs.evolve(policy, learn=attrs.evolve(policy.learn, batch_size=size // learner_num))


def learner_problems(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    """Yields what several learners cannot do, as (path, problem)."""
    number, learn = system_of(cfg).learner_num, cfg.policy.learn
    size = learn.batch_size
    if size is not None and size % number:
        yield "policy.learn.batch_size", f"must be a multiple of {number} learners, got {size}"
    n_sample = cfg.policy.collect.n_sample
    if cfg.policy.on_policy and n_sample is not None and n_sample % number:
        yield "policy.collect.n_sample", f"must be a multiple of {number} learners, got {n_sample}"
    if cfg.policy.cuda:
        yield "policy.cuda", "several learners train on CPUs; expected False"
    if isinstance(cfg.policy.other.replay_buffer, NamedConfig):
        yield "policy.other.replay_buffer", "several learners draw from a single buffer"
    if why := getattr(cfg.policy, "one_learner", ""):
        yield "policy.type", f"{cfg.policy.type} {why}; expected learner_num 1"
    elif learn.get("target_kl") is not None:
        yield "policy.learn.target_kl", "would end the updates of some learners; expected None"
    if learn.get("collect_per_phase") is not None:
        text = "keeps samples between updates, of which a checkpoint has those of one learner"
        yield "policy.type", f"{text}; expected learner_num 1"
    if learn.get("recompute_adv"):
        yield "policy.learn.recompute_adv", "needs all samples in one learner; expected False"


class LearnerRole:
    """Makes the updates of a share of each batch, together with the other learners.

    Args:
        spec: What to build it from; `index` is its rank, `state` is the `EnvSpec`.
    """

    def __init__(self, spec: RoleSpec) -> None:
        cfg, self._rank = spec.cfg, spec.index
        torch.set_num_threads(cfg.pipeline.num_threads)
        spec.seeded("learner")
        self._count = system_of(cfg).learner_num
        context = BuildContext(spec.state, seed=cfg.seed)
        section = share_config(cfg.policy, self._count)
        policy = section.build(context, model=spec.model)
        mode = policy.learn_mode
        info = (self._rank, self._count)
        self._learner = cfg.policy.learn.learner.build(context, policy=mode, dist_info=info)
        for hooks in self._learner._hooks.values():  # noqa: SLF001 - only learner 0 saves
            hooks[:] = [each for each in hooks if each.name.startswith(_KEPT_HOOKS)]
        self._handles = average_gradients(mode)

    def join(self, address: str, timeout: float) -> None:
        """Joins the other learners."""
        join_group(address, self._rank, self._count, timeout=timeout)

    def load(self, state: State) -> None:
        """Continues from the state of learner 0."""
        self._learner.load_state_dict(as_tensors(state))

    def train(
        self, columns: Columns, length: int, env_step: int, kwargs: Mapping[str, object] | None
    ) -> object:
        """Makes the updates of a share of a batch; returns its priorities, or None."""
        results = self._learner.train(Batch(columns, length), env_step, kwargs)
        priority = results[-1].get("priority") if results else None
        return priority.numpy() if isinstance(priority, torch.Tensor) else priority

    def progress(self) -> dict[str, int]:
        """Returns the updates so far."""
        return {"train_iter": self._learner.train_iter}

    def stop(self) -> None:
        """Does nothing: an update ends by itself."""

    def close(self) -> None:
        """Leaves the other learners."""
        leave_group()


class LearnerGroup:
    """Learner 0, in this process, and the others; implements `ILearner`.

    Args:
        learner: Learner 0.
        start: Starts another learner of a rank.
        runtime: Stores their data.
        system: The section `pipeline.system`.
    """

    def __init__(
        self,
        learner: ILearner,
        start: Callable[[int], RoleProcess],
        runtime: RayRuntime,
        system: SystemConfig,
    ) -> None:
        self._learner, self._runtime, self.system = learner, runtime, system
        self._handles = average_gradients(learner.policy)
        self.others = [start(rank) for rank in range(1, system.learner_num)]
        self._joined = False
        self._priority: object = None

    # ---- what a learner has

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name == "_learner":
            raise AttributeError(name)
        return getattr(self._learner, name)

    @property
    def train_iter(self) -> int:
        """Updates made so far."""
        return int(self._learner.train_iter)

    @property
    def priority_info(self) -> dict[str, object]:
        """Priorities of the whole last batch."""
        info = dict(self._learner.priority_info)
        if info and self._whole is not None:
            info["priority"] = self._priority
            for key in ("replay_buffer_idx", "replay_unique_id"):
                if key in self._whole:
                    info[key] = self._whole[key]
        return info

    _whole: Any = None

    def train(
        self,
        data: Batch | list[Row],
        envstep: int = -1,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> list[dict[str, object]]:
        """Trains every learner with its share of a batch; see `BaseLearner.train`.

        Raises:
            DicoreError: another learner failed or ended.
        """
        if not self._joined:
            self._join()
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
        size = len(batch) // self.system.learner_num
        calls = []
        for at, process in enumerate(self.others, 1):
            share = batch[at * size : (at + 1) * size] if size else batch
            calls.append(process.call("train", share.columns, len(share), envstep, policy_kwargs))
        own = batch[:size] if size else batch
        results: list[Columns] = self._learner.train(own, envstep, policy_kwargs)
        rest = [self._result(*each) for each in zip(self.others, calls, strict=True)]
        first = results[-1].get("priority") if results else None
        if first is not None:
            self._priority = np.concatenate([np.asarray(each) for each in (first, *rest)])
            self._whole = batch[: size * self.system.learner_num]
        return results

    def _result(self, process: RoleProcess, call: Any) -> Any:
        with self._alive(process):
            failure, result = self._runtime.get(call, self.system.learner_timeout)
        if failure is not None:
            raise_failure(process.name, failure)
        return result

    @contextmanager
    def _alive(self, process: RoleProcess) -> Iterator[None]:
        """Within the block, a process that ended or does not answer is told as an error."""
        try:
            yield
        except TimeoutError as error:
            limit = f"pipeline.system.learner_timeout = {self.system.learner_timeout:g} s"
            raise DicoreError(f"{process.name}: no answer within {limit}", hint=_RESUME) from error
        except Exception as error:
            if not self._runtime.is_death(error):
                raise
            raise DicoreError(f"{process.name}: its process ended", hint=_RESUME) from error

    def _are_ready(self) -> bool:
        ready = True
        for each in self.others:
            with self._alive(each):
                ready = each.is_ready() and ready
        return ready

    def _join(self) -> None:
        """Waits until all learners are built, connects them, and gives them the same state."""
        until = time.monotonic() + self.system.start_timeout
        while not self._are_ready():
            if time.monotonic() > until:
                told = f"{self.system.start_timeout:g} s"
                raise DicoreError(f"the other learners did not start within {told}")
            time.sleep(0.05)
        address = f"{self._runtime.host}:{_free_port(self._runtime.host)}"
        limit = self.system.learner_timeout
        calls = [each.call("join", address, limit) for each in self.others]
        join_group(address, 0, self.system.learner_num, timeout=limit)
        state = self._runtime.put(as_arrays(dict(self._learner.state_dict())))
        calls += [each.call("load", state) for each in self.others]
        for process, call in zip([*self.others, *self.others], calls, strict=True):
            self._result(process, call)
        self._joined = True

    def state_dict(self) -> StateDict:
        """Returns the state of learner 0; the others have the same parameters."""
        return dict(self._learner.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._learner.load_state_dict(state)

    def close(self) -> None:
        """Ends the other learners; later calls do nothing."""
        end_processes(self._runtime, self.others)
        self.others = []
        for each in self._handles:
            each.remove()
        if self._joined:
            leave_group()
            self._joined = False
        self._learner.close()


def _free_port(host: str) -> int:
    """Returns a port on which nobody listens."""
    with socket.socket() as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])
