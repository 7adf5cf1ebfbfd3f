"""Options that are `auto`: a run measures, before it trains, which value to take.

What is taken, and why, is logged and recorded (`chosen` in `run.json`); a resumed run takes that.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dicore.config.paths import replace
from dicore.config.sections import RunConfig
from dicore.run.random import seeded
from dicore.run.run import Run
from dicore.task import StepInterrupted, Task

if TYPE_CHECKING:
    from dicore_plugins.pipelines.training import TrainingPipeline

AUTOCAST = "policy.learn.autocast"
_KEYS = ("policy", "learn", "autocast")
_GAIN, _SECONDS, _STEPS = 1.2, 5.0, 10_000
"""Least gain of bfloat16; how long pairs are timed; steps in which the first update must come."""


def settled(
    cfg: RunConfig, run: Run, pipeline: TrainingPipeline, model: Any | None = None
) -> RunConfig:
    """Returns a bound config with recorded, else measured, values in place of `auto`."""
    manager: Any = cfg.env.manager
    if hasattr(manager, "chosen"):
        took = _taken(
            "env.manager.type", run, manager.names(), lambda: manager.chosen(cfg.env, cfg.seed)
        )
        cfg = replace(cfg, ("env", "manager"), manager.named(took))
    if cfg.policy.learn.get("autocast") == "auto":
        plain = replace(cfg, _KEYS, None)
        took = _taken(AUTOCAST, run, (None, "bfloat16"), lambda: _measured(plain, pipeline, model))
        cfg = replace(cfg, _KEYS, took)
    return cfg


def _taken(
    path: str, run: Run, values: tuple[str | None, ...], choose: Callable[[], dict[str, Any]]
) -> Any:
    """Returns what the record says if it is one of the values, else what is chosen now."""
    record = run.metadata.values.get("chosen")
    record = dict(record) if isinstance(record, Mapping) else {}
    found = record.get(path)
    if not isinstance(found, Mapping) or found.get("took", 0) not in values:
        found = record[path] = choose()
        run.metadata.values["chosen"] = record
        run.metadata.write("running")  # also a run that is killed goes on with it
    run.log.log_text(f"{path}=auto took {found['took'] or 'float32'}: {found.get('why')}")
    return found["took"]


def has_bfloat16(*, cuda: bool) -> bool:
    """Returns whether the device has instructions for matrix products in bfloat16."""
    if cuda:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    known = torch.cpu.get_capabilities()
    return any(has for name, has in known.items() if "bf16" in name)


def _measured(cfg: RunConfig, pipeline: TrainingPipeline, model: Any | None) -> dict[str, Any]:
    if not has_bfloat16(cuda=cfg.policy.cuda):
        return {"took": None, "why": "the device has no bfloat16 instructions"}
    with seeded(cfg.seed):  # the training draws as if nothing was measured
        ratios = _ratios(cfg, pipeline, model)
    if not ratios:
        return {"took": None, "why": f"no update in the first {_STEPS} steps"}
    ratio = median(ratios)
    why = f"updates in float32 take {ratio:.2f} times as long (median of {len(ratios)} pairs)"
    return {"took": "bfloat16" if ratio >= _GAIN else None, "ratio": round(ratio, 3), "why": why}


def _ratios(cfg: RunConfig, pipeline: TrainingPipeline, model: Any | None) -> list[float]:
    """Returns seconds of updates in float32 per second in bfloat16, by pair.

    The stages of the pipeline make the batch, with parts of their own.
    """
    if cfg.policy.collect.get("random_collect_size"):
        cfg = replace(cfg, ("policy", "collect", "random_collect_size"), 0)
    collects = pipeline.school != "offline"
    parts = pipeline.parts(cfg, model=copy.deepcopy(model), collects=collects)
    other = replace(cfg.policy, _KEYS[1:], "bfloat16")
    reduced = other.build(parts.ctx, model=copy.deepcopy(model)).learn_mode
    plain, ratios = parts.policy.learn_mode, list[float]()

    def measured(*batch: Any, **settings: Any) -> NoReturn:
        pair = [partial(_seconds, each.forward, *batch, **settings) for each in (plain, reduced)]
        _ = [update() for update in (*pair, *pair)]  # the first ones prepare kernels
        end = time.perf_counter() + _SECONDS
        while len(ratios) < 3 or (len(ratios) < 30 and time.perf_counter() < end):
            ratios.append(pair[0]() / pair[1]())
        raise StepInterrupted

    try:
        mode = plain._replace(forward=measured)
        parts.learner = cfg.policy.learn.learner.build(parts.ctx, policy=mode, run=None)
        with Task().start(ctx=pipeline.context()) as task:
            for each in pipeline.stages(parts):
                task.use(each)
            task.run(_STEPS)
    finally:
        parts.close()
    return ratios


def _seconds(update: Any, *batch: Any, **settings: Any) -> float:
    start = time.perf_counter()
    update(*batch, **settings)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - start
