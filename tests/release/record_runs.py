"""Records small runs and a data set as fixtures: what this version writes, later ones have to read.

python -m tests.release.record_runs tests/release/recorded/0.1
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

from dicore.cli import main

_ENV = ["env.stop_value=inf", "env.collector_env_num=1", "env.evaluator_env_num=1",
        "env.n_evaluator_episode=1", "pipeline.logger=[]"]  # fmt: skip
RUNS = {
    "cartpole_dqn": [
        "-e", "cartpole", "-p", "dqn", "--no-preset", "policy.learn.update_per_collect=4",
        "policy.learn.batch_size=8", "policy.collect.n_sample=8",
        "policy.model.encoder_hidden_size_list=[8]", *_ENV,
    ],
    "cartpole_ppo": [
        "-e", "cartpole", "-p", "ppo", "--no-preset", "policy.learn.batch_size=8",
        "policy.collect.n_sample=16", "policy.model.encoder_hidden_size_list=[8]",
        "env.env_wrapper=[obs_norm]", *_ENV,
    ],
    "pendulum_sac": [
        "-e", "pendulum", "-p", "sac", "--no-preset", "policy.learn.batch_size=8",
        "policy.collect.random_collect_size=16", "policy.model.actor_hidden_size_list=[8]",
        "policy.model.critic_hidden_size_list=[8]", *_ENV,
    ],
    "two_step_qmix": [
        "-e", "two_step_game", "-p", "qmix", "--no-preset", "policy.learn.batch_size=8",
        "policy.model.encoder_hidden_size_list=[8]", *_ENV,
    ],
}  # fmt: skip
"""Command lines of the recorded trainings, 40 env steps each."""


def record(target: Path) -> None:
    """Trains the runs; keeps config, record, metrics and the last checkpoint of each."""
    target = target.absolute()
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
        for name, words in RUNS.items():
            run = Path(made, name)
            assert main(["train", *words, "-n", "40", "--exp-name", name, "-q"]) == 0
            facts = json.loads((run / "run.json").read_text())
            facts |= {"argv": ["dicore", "train", *words], "host": "host"}
            for file in ("config.json", "log/metrics.jsonl"):
                (target / name / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(run / file, target / name / file)
            (target / name / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
            shutil.copytree(run / "ckpt" / "final", target / name / "ckpt" / "final")
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                assert main(["eval", str(target / name), "-n", "2", "-s", "0", "--json"]) == 0
            returns = json.dumps({"returns": json.loads(told.getvalue())["returns"]})
            (target / name / "evaluation.json").write_text(returns + "\n")
        samples = target / "pendulum.npz"
        assert main(["collect", "-e", "pendulum", "-p", "random", "-n", "40", "-s", "0",
                     "-o", str(samples)]) == 0  # fmt: skip


if __name__ == "__main__":
    record(Path(sys.argv[1]))
