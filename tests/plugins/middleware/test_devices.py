"""Batches that are fetched and copied to a device while the one before is trained on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from dicore.data import Batch
from dicore.task import OfflineRLContext, OnlineRLContext, Task, middleware
from dicore_plugins.datasets import NpzDataset, write_npz
from dicore_plugins.middleware import (
    device_prefetcher,
    offline_data_fetcher,
    offpolicy_data_fetcher,
)
from tests.plugins.middleware.test_data import filled, rows


def test_batches_become_tensors(make: Any) -> None:
    prefetch, ctx = device_prefetcher("cpu"), OnlineRLContext()
    prefetch(ctx)
    assert ctx.train_data is None
    ctx.train_data = rows(8)
    prefetch(ctx)
    assert all(isinstance(each, torch.Tensor) for each in ctx.train_data.columns.values())
    ctx.train_data = {"a": rows(8), "b": rows(4)}
    prefetch(ctx)
    assert [len(each["obs"]) for each in ctx.train_data.values()] == [8, 4]


def test_the_next_batch_is_there_while_one_is_trained_on(make: Any) -> None:
    """It does not overwrite the memory of the one that is trained on."""
    cfg, *_ = make()
    meet = threading.Barrier(2)
    seen: list[bool] = []

    @middleware(reads=["train_data"], uses=[])
    def fetched(ctx: Any) -> None:
        if 0 < ctx.total_step < 5:
            meet.wait(60)

    @middleware(reads=["train_data", "train_iter"], writes=["train_iter"], uses=[])
    def train(ctx: Any) -> None:
        before = ctx.train_data["obs"].clone()
        if ctx.total_step < 4:
            meet.wait(60)
        seen.append(torch.equal(before, ctx.train_data["obs"]))
        ctx.train_iter += 1

    with Task().start(True, ctx=OnlineRLContext()) as task:
        task.use(offpolicy_data_fetcher(cfg, filled())).use(device_prefetcher("cpu"))
        task.use(fetched).use(train).run(max_step=6)
    assert seen == [True] * 6


@pytest.mark.parametrize("lag", [1, 3])
def test_recorded_batches_stay_as_they_are(make: Any, lag: int, tmp_path: Any) -> None:
    """Each sample once per epoch, however many batches are fetched ahead."""
    cfg, *_ = make()
    data = rows(64)
    columns = {key: data[key] for key in ("obs", "action", "reward")}
    end = data["action"] > 5
    end[-1] = True
    write_npz(tmp_path / "x.npz", {**columns, "terminated": end})
    seen: dict[bool, list[Any]] = {False: [], True: []}
    for mode in (False, True):

        @middleware(reads=["train_data", "train_iter"], writes=["train_iter"], uses=[])
        def train(ctx: Any, kept: list[Any] = seen[mode]) -> None:
            threading.Event().wait(0.003)
            kept.append(Batch(ctx.train_data.columns)["obs"].copy())
            ctx.train_iter += 1

        with Task().start(mode, ctx=OfflineRLContext()) as task:
            if mode:
                task.executor.max_lag = lag
            dataset = NpzDataset({"path": str(tmp_path / "x.npz")})
            task.use(offline_data_fetcher(cfg, dataset)).use(train).run(max_step=8)
    assert all((one == other).all() for one, other in zip(*seen.values(), strict=True))
