"""Acting by an exported policy (ONNX, one thread) compared with the eval mode of the policy.

python -m benchmarks.export
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import contest, missing
from dicore.data import EnvBatch
from dicore.run.env_factory import BuildContext, EnvFactory
from dicore.run.launch import launch
from dicore_plugins.export.policy import export_policy
from dicore_tools.evaluation.policy_loader import find_policy

TARGET = 1.0
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "vector": ("cartpole", "ppo", ()),
    "layer norm": ("cartpole", "dqn", ()),
    "continuous": ("pendulum", "sac", ("policy.collect.random_collect_size=32",)),
    "memory": ("t_maze", "r2d2", ()),
}
ENVS = (1, 8)


def train(folder: Path, env: str, policy: str, options: tuple[str, ...]) -> Any:
    """Returns a policy after a few steps; its speed does not depend on what it has learned."""
    small = ["pipeline.logger=[]", "env.stop_value=inf", "policy.collect.n_sample=32"]
    return launch(
        env=env, policy=policy, seed=0, exp_name=str(folder), max_env_step=32,
        overrides=[*small, "env.n_evaluator_episode=1", "env.evaluator_env_num=1", *options],
    ).policy  # fmt: skip


def main() -> None:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        missing("export", "onnxruntime")
        sys.exit(0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            run, file = Path(folder) / "run", Path(folder) / "policy.onnx"
            policy = train(run, *case)
            export_policy(run, file)
            session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
            env = EnvFactory(find_policy(run).compiled.env, BuildContext())()
            first = np.asarray(env.reset(seed=0)[0], np.float32)
            env.close()
        model, mode = policy.get_attribute("model"), policy.eval_mode
        for envs in ENVS:
            obs = np.stack([first] * envs)
            given = {"obs": obs}
            if len(session.get_inputs()) > 1:
                given["state"] = np.zeros((envs, model.state_size), np.float32)
            batch = EnvBatch(np.arange(envs), obs)
            contest(
                f"export {name}, {envs} envs",
                {
                    "exported": lambda s=session, g=given: s.run(None, g),  # type: ignore[misc]
                    "eval mode": lambda m=mode, b=batch: m.forward(b),  # type: ignore[misc]
                },
                envs,
                "actions/s",
                against={"eval mode": TARGET},
                ours="exported",
            )


if __name__ == "__main__":
    main()
