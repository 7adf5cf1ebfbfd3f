"""Several learners make the updates of one."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed

from dicore.errors import ConfigError, DicoreError, UsageError
from dicore_dist import average_gradients, sync_gradients
from dicore_dist.workers.learners import LearnerGroup
from dicore_plugins.models.flat import Flat
from dicore_plugins.policies import CrossQPolicy
from tests.dist.test_parallel import SMALL, train

CODE = """
import json, sys
import numpy as np, torch
from torch import distributed
from dicore.config.compiler import as_config
from dicore.data import Batch
from dicore.run.random import seed_everything
from dicore_dist import average_gradients, join_group, leave_group, sync_gradients
from dicore_plugins.policies import DQNPolicy
from dicore_plugins.hooks.log_reduce import mean_over_ranks
from dicore_plugins.models.running_norm import RunningNorm

rank, count, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if count > 1:
    join_group(address, rank, count, timeout=100)
seed_everything(0)
policy = DQNPolicy({"model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16]},
                    "learn": {"batch_size": 8, "max_grad_norm": 1.0}})
policy.norm = RunningNorm(4)
handles = average_gradients(policy.learn_mode) if count > 1 else []
rng, size = np.random.default_rng(1), 8 // count
for update in range(20):
    rows = {"obs": rng.normal(size=(8, 4)), "next_obs": rng.normal(size=(8, 4)),
            "reward": rng.normal(size=8), "done": np.zeros(8)}
    data = {key: each.astype(np.float32) for key, each in rows.items()}
    data["action"] = rng.integers(0, 2, 8)
    if len(sys.argv) > 4 and update == 3:
        if rank == 1 and sys.argv[4] == "die":
            sys.exit(7)
        if sys.argv[4] == "nan":
            data["reward"][-1] = np.nan
    share = Batch({key: each[rank * size : (rank + 1) * size] for key, each in data.items()})
    policy.learn_mode.forward(share)
    policy.norm.update(torch.from_numpy(share["obs"]) + 3)
if count > 1:
    means = mean_over_ranks({"loss": np.array([float(rank)])})
    assert means["loss"].tolist() == [0.5], means
    plain = torch.nn.Linear(2, 1)
    plain(torch.full((1, 2), float(rank))).sum().backward()
    sync_gradients(plain)
    assert plain.weight.grad.tolist() == [[0.5, 0.5]], plain.weight.grad
    leave_group()
state = policy.learn_mode.state_dict()
norm = policy.norm.state_dict()
flat = torch.cat([each.reshape(-1) for each in [*state["model"].values(), *norm.values()]])
print(json.dumps([flat.tolist(), policy.learn_mode.get_attribute("skipped_updates")]))
"""


def learned(count: int, *more: str) -> list[Any]:
    """Returns (exit code, result or error) of each of several processes."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, str(rank), str(count), address, *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(count)
    ]  # fmt: skip
    ends = [each.communicate(timeout=500) for each in processes]
    return [
        (each.returncode, json.loads(out) if not each.returncode else err)
        for each, (out, err) in zip(processes, ends, strict=True)
    ]


def test_two_halves_make_a_whole() -> None:
    (_, (whole, _)), *halves = learned(1) + learned(2)
    assert len(halves) == 2
    for code, (half, skipped) in halves:
        assert (code, skipped) == (0, 0)
        np.testing.assert_allclose(half, whole, atol=1e-6)


def test_a_loss_that_is_not_finite_is_skipped_by_all() -> None:
    (_, (first, skipped)), (_, (second, too)) = learned(2, "nan")
    assert (skipped, too) == (1, 1)
    assert first == second
    assert np.isfinite(first).all()


def test_a_learner_that_dies_ends_all() -> None:
    (code, error), (other, _) = learned(2, "die")
    assert other == 7
    assert code not in (0, 7)
    assert "cannot exchange gradients" in error


@pytest.mark.ray
def test_a_run_with_two_learners(tmp_path: Path) -> None:
    states = []
    for count in (1, 2):
        overrides = f"pipeline.system.learner_num={count}", "pipeline.system.collector_num=1"
        run = train(tmp_path / str(count), *overrides, max_env_step=160)
        assert run.result.train_iter == 10
        states.append(run.parts["learner"].state_dict()["policy"]["model"])
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, atol=1e-6, rtol=1e-5)


@pytest.mark.ray
def test_another_learner_that_is_killed_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, calls = LearnerGroup.train, itertools.count()

    def killing(self: LearnerGroup, *args: Any, **options: Any) -> Any:
        if next(calls) == 3:
            os.kill(self.others[0].pid, signal.SIGKILL)
        return learn(self, *args, **options)

    monkeypatch.setattr(LearnerGroup, "train", killing)
    overrides = "pipeline.system.learner_num=2", "pipeline.system.collector_num=1"
    with pytest.raises(DicoreError) as caught:
        train(tmp_path, *overrides, max_env_step=320)
    assert "learner 1" in str(caught.value) or "another learner has ended" in str(caught.value)
    assert next(calls) == 4


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"policy": {"learn": {"batch_size": 15}}}, "batch_size: must be a multiple of 2"),
        ({"policy": {"type": "ppo", "learn": {"target_kl": 0.1}}}, "target_kl: would end"),
        ({"policy": {"type": "ppo", "learn": {"recompute_adv": True}}}, "recompute_adv: needs all"),
        ({"policy": {"type": "ppg"}}, "policy.type: keeps samples between updates"),
    ],
)
def test_what_several_learners_cannot_do(tmp_path: Path, options: Any, problem: str) -> None:
    config = {**SMALL, **options}
    config["policy"] = {"type": "dqn", "collect": {"n_sample": 32}, **config["policy"]}
    with pytest.raises(ConfigError, match=problem):
        train(tmp_path, "pipeline.system.learner_num=2", config=config)


def test_gradients_without_other_learners() -> None:
    with pytest.raises(UsageError, match="joined no other learners"):
        sync_gradients(Flat(torch.nn.Linear(1, 1)))
    with pytest.raises(UsageError, match="has no optimizer"):
        average_gradients(object())


def test_a_network_that_normalises_by_its_batch_is_refused() -> None:
    model = {"obs_shape": 3, "action_shape": 1}
    policy = CrossQPolicy({"model": model, "action_low": [-1.0], "action_high": [1.0]})
    with pytest.raises(UsageError, match=r"CrossQPolicy.*BatchRenorm.*differ between learners"):
        average_gradients(policy.learn_mode)


def test_learners_that_do_not_come() -> None:
    from dicore_dist import join_group

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with pytest.raises(DicoreError, match=f"cannot join the others at 127.0.0.1:{port}"):
        join_group(f"127.0.0.1:{port}", 0, 2, timeout=0.5)


UNDER_TORCHRUN = """
import json, os, sys
from pathlib import Path
import numpy as np, torch
from torch import distributed
from dicore.data import Batch
from dicore.run.random import seed_everything
from dicore_dist import average_gradients, join_group, leave_group
from dicore_plugins.policies import DQNPolicy

folder, dies = Path(sys.argv[1]), sys.argv[2] == "True"
join_group()
rank, size = distributed.get_rank(), 8 // distributed.get_world_size()
seed_everything(0)
policy = DQNPolicy({"model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16]},
                    "learn": {"batch_size": 8}})
mode, file, start = policy.learn_mode, folder / "checkpoint.pt", 0
average_gradients(mode)
if file.exists():
    start, state = torch.load(file, weights_only=False)
    mode.load_state_dict(state)
for update in range(start, 30):
    if dies and update == 15 and rank and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), 9)
    rng = np.random.default_rng(update)
    rows = {"obs": rng.normal(size=(8, 4)), "next_obs": rng.normal(size=(8, 4)),
            "reward": rng.normal(size=8), "done": np.zeros(8)}
    data = {key: each.astype(np.float32) for key, each in rows.items()}
    data["action"] = rng.integers(0, 2, 8)
    mode.forward(Batch({key: each[rank * size : (rank + 1) * size] for key, each in data.items()}))
    if update % 10 == 9:
        if not rank:
            torch.save((update + 1, mode.state_dict()), folder / "new.pt")
            (folder / "new.pt").replace(file)
        distributed.barrier()
flat = torch.cat([each.reshape(-1) for each in mode.state_dict()["model"].values()])
(folder / f"end{rank}.json").write_text(json.dumps(flat.tolist()))
leave_group()
"""


@pytest.mark.slow
def test_torchrun_starts_learners_again_from_their_checkpoint(tmp_path: Path) -> None:
    """RELIABILITY I10."""
    program, ends = tmp_path / "program.py", {}
    program.write_text(UNDER_TORCHRUN)
    for count, dies in ((1, False), (2, True)):
        folder = tmp_path / str(count)
        folder.mkdir()
        launcher = ["-m", "torch.distributed.run", "--standalone", "--max-restarts=1"]
        words = [*launcher, f"--nproc-per-node={count}", str(program), str(folder), str(dies)]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        assert (folder / "died").exists() is dies
        ends[count] = [
            json.loads((folder / f"end{rank}.json").read_text()) for rank in range(count)
        ]
    assert ends[2][0] == ends[2][1]
    np.testing.assert_allclose(ends[2][0], ends[1][0], atol=1e-6)


def test_join_group_takes_what_torchrun_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from dicore_dist import join_group, leave_group

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    given = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    join_group()
    try:
        assert distributed.get_world_size() == 1
    finally:
        leave_group()


def test_join_group_outside_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    from dicore_dist import join_group

    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(UsageError, match="join_group: RANK is not set"):
        join_group()
