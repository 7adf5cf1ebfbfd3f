"""An evaluator process beside training."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dicore.errors import DicoreError, UsageError
from dicore.interfaces.evaluator import EvalResult
from dicore.task import OnlineRLContext, middleware, task
from dicore.task.middleware import Role
from dicore_dist.coordinator.restarts import Restarts
from dicore_dist.links.ray_runtime import RayRuntime
from dicore_dist.workers.processes import RoleProcess, end_processes, raise_failure
from dicore_dist.workers.weights import as_arrays
from dicore_plugins.evaluators.scheduled import Asked, ScheduledEvaluator
from dicore_plugins.middleware.callbacks import BEST_EVALUATION, EvalSettings, eval_kwargs

if TYPE_CHECKING:
    from dicore.data import State, StateDict
    from dicore.interfaces.evaluator import ISerialEvaluator
    from dicore.interfaces.policy import LearnMode
    from dicore_dist.parallel.config import SystemConfig

__all__ = ["ParallelEvaluation", "RemoteEvaluator"]


class RemoteEvaluator(ScheduledEvaluator):
    """Evaluates in a process of its own, one evaluation at a time.

    Its results and its state are those of the configured evaluator, which is never launched here.
    If the process dies, the evaluation is left out; the next one starts another process. A process
    that dies more often than `max_restarts`, with no evaluation in between, ends the run.

    Args:
        local: The configured evaluator; decides when to evaluate, and holds the results.
        runtime: Stores the parameters.
        mode: Eval mode of the policy that is trained.
        start: Starts a process, from a state of the evaluator.
        log: Receives what evaluations log; None: no log.
        system: The section `pipeline.system`.
    """

    def __init__(
        self,
        local: ISerialEvaluator,
        runtime: RayRuntime,
        mode: LearnMode,
        start: Callable[[Any], RoleProcess],
        *,
        log: object,
        system: SystemConfig,
    ) -> None:
        self._local, self._runtime, self._policy = local, runtime, mode
        self._start, self._log, self.system = start, log, system
        self._restarts = Restarts(system.max_restarts, system.restart_window)
        self._env = None
        self._process: RoleProcess | None = None
        self._pending: Any = None
        self._on_best: Callable[[], object] = _nothing
        self._begun, self._asked = 0.0, -1
        self.missing = 0

    @property
    def best_return(self) -> float:
        """Highest measured value so far."""
        return float(self._local.best_return)

    @property
    def last_result(self) -> EvalResult | None:
        """Result of the latest evaluation."""
        result: EvalResult | None = self._local.last_result
        return result

    @property
    def has_stopped(self) -> bool:
        """Whether the last evaluations reached the stop value."""
        return bool(getattr(self._local, "has_stopped", False))

    def state_dict(self) -> StateDict:
        """Returns the state of the configured evaluator."""
        return dict(self._local.state_dict())

    @property
    def process(self) -> RoleProcess | None:
        """The process, if one is running."""
        return self._process

    @property
    def busy(self) -> bool:
        """An evaluation is under way."""
        return self._pending is not None

    def should_eval(self, train_iter: int) -> bool:
        """Returns whether an evaluation is due; never while one is under way.

        A checkpoint that is saved meanwhile has it as due: a resumed run makes it.
        """
        if self.busy or not self._local.should_eval(train_iter):
            return False
        self._asked = train_iter
        if isinstance(self._local, ScheduledEvaluator):
            self._local.put_off()
        return True

    def prepare(self) -> None:
        """Starts the process, so that the first evaluation need not wait for it."""
        if self._process is None:
            self._process = self._start(self._local.state_dict())

    def begin(
        self,
        train_iter: int,
        env_step: int,
        kwargs: Mapping[str, object] | None = None,
        on_best: Callable[[], object] | None = None,
    ) -> None:
        """Begins to evaluate the present parameters.

        Args:
            train_iter: Updates so far.
            env_step: Env steps so far.
            kwargs: Further arguments of the evaluator's `eval`.
            on_best: Called when the result exceeds all before.
        """
        self.prepare()
        assert self._process is not None
        address = self._runtime.put(as_arrays(self._policy.state_dict()))
        self._on_best = on_best or _nothing
        call = address, train_iter, env_step, dict(kwargs or {})
        self._pending = self._process.call("evaluate", *call)
        self._begun = time.monotonic()

    def poll(self, timeout: float = 0.0) -> EvalResult | None:
        """Returns the result of the evaluation under way, once; None: it has not ended.

        Raises:
            DicoreError: the process has died too often, see the class; or what it raised.
        """
        if self._pending is None:
            return None
        try:
            if not self._runtime.ready([self._pending], timeout):
                self._check()
                return None
            failure, found = self._runtime.get(self._pending)
            assert self._process is not None
            self._process.is_ready()  # takes its process id
        except Exception as error:
            if not self._runtime.is_death(error):
                raise
            self._lost("its process ended")
            return None
        self._pending = None
        if failure is not None:
            raise_failure("evaluator", failure)
        return None if found is None else self._finished(found)

    def _check(self) -> None:
        """Gives an evaluator up that does not start, or gives no sign of life."""
        process, now = self._process, time.monotonic()
        assert process is not None
        self._runtime.check()
        if process.silence(now) > self.system.heartbeat_timeout:
            self._lost("it has been silent")
        elif not process.is_ready() and now - process.started > self.system.start_timeout:
            self._lost(f"it did not start within {self.system.start_timeout:g} s")

    def _lost(self, reason: str) -> None:
        self._pending = None
        self._local.should_eval(self._asked)  # it is left out
        self.missing += 1
        if self._process is not None:
            self._process.kill()
        self._process = None
        if self._restarts.lost("evaluator") is None:
            raise DicoreError(
                f"evaluator: {reason}; lost {self._restarts.count('evaluator')} times, with no"
                " evaluation in between",
                hint="see evaluator/output.txt in the run folder",
            )
        if self._log is not None:
            text = f"evaluator: {reason}; this evaluation is missing, training goes on"
            self._log.log_text(text, channel="parallel")

    def _finished(self, found: Mapping[str, Any]) -> EvalResult:
        result: EvalResult = found["result"]
        self._restarts.delivered("evaluator")
        self._local.load_state_dict(found["state"])
        self._local.last_result = result
        if self._log is not None:
            for method, what, at in found["log"]:
                getattr(self._log, method)(what, **at)
        if found["best"]:
            self._on_best()
        return result

    def _evaluate(self, asked: Asked) -> EvalResult:
        """Evaluates the present parameters and waits for the result.

        An evaluation under way is completed first; if it ends the training, it is the result.
        """
        stop, save = asked.should_stop, asked.save_ckpt_fn
        while self.busy and not stop():
            if (earlier := self.poll(0.1)) is not None and earlier.stop:
                return earlier
        given = {"policy_kwargs": dict(asked.policy_kwargs), "n_episode": asked.n_episode}
        kwargs = {key: each for key, each in given.items() if each}
        on_best = None if save is None else lambda: save("ckpt_best.pth.tar")
        result: EvalResult | None = None
        for _ in range(3):
            if stop():
                break
            self.begin(asked.train_iter, asked.envstep, kwargs, on_best)
            while self.busy and not stop() and result is None:
                result = self.poll(0.1)
            if result is not None:
                return result
        return self._local.last_result or EvalResult(False, [], interrupted=True)

    def close(self) -> None:
        """Ends the process; later calls do nothing."""
        if self._process is not None:
            end_processes(self._runtime, [self._process])
        self._process = self._pending = None
        self._local.close()
        super().close()


@middleware(
    reads=["train_iter"],
    writes=["eval_value", "eval_output", "last_eval_iter", "last_eval_value"],
    optional=["env_step"],
    role=Role.EVALUATOR,
)
class ParallelEvaluation:
    """Begins an evaluation when it is due, and finishes the task when one reaches `stop_value`.

    Args:
        evaluator: Evaluates beside training.
        run: Run that saves the best checkpoint; None: none.
        settings: `get_setting_eval` of the policy's command mode; None: no annealed settings.
    """

    def __init__(
        self, evaluator: RemoteEvaluator, *, run: Any = None, settings: EvalSettings | None = None
    ) -> None:
        self._evaluator, self._run, self._settings = evaluator, run, settings
        self._train_iter = -1
        self.uses: tuple[object, ...] = ()

    def __call__(self, ctx: OnlineRLContext) -> None:
        self._take(ctx)
        if not task.finish and self._evaluator.should_eval(ctx.train_iter):
            run = self._run
            state = None if run is None else copy.deepcopy(run.state_dict(bulky=False))
            now = self._train_iter, _ = ctx.train_iter, ctx.env_step
            kwargs = eval_kwargs(self._settings, *now)
            self._evaluator.begin(*now, kwargs, lambda: self._save(ctx, state))

    def _take(self, ctx: OnlineRLContext) -> None:
        """Takes the result of an evaluation that has ended."""
        result = self._evaluator.poll()
        if result is None:
            return
        if not hasattr(result, "mean_return"):
            raise UsageError(
                f"the evaluator returned a {type(result).__name__}",
                hint="return an EvalResult (dicore.interfaces.evaluator)",
            )
        ctx.eval_output, ctx.last_eval_iter = result, self._train_iter
        ctx.eval_value = ctx.last_eval_value = result.mean_return
        if result.stop:
            task.finish = True

    def _save(self, ctx: OnlineRLContext, state: State | None) -> None:
        """Saves what was evaluated as the best checkpoint."""
        best, run = self._evaluator.best_return, self._run
        if run is not None and state is not None:
            run.set_result(best_return=best)
            run.save_checkpoint("best", {**state, "evaluator": self._evaluator.state_dict()})
        task.emit(BEST_EVALUATION, ctx)


def _nothing() -> None:
    """What is called after an evaluation that is not the best."""
