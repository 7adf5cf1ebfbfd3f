"""Parts that do nothing but note what they were given, in a registry of their own."""

from __future__ import annotations

import gc
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dicore.config import (
    ComponentConfig,
    EnvConfig,
    ManagerConfig,
    PipelineConfig,
    PolicyConfig,
    component,
    components,
    frozen,
    option,
)
from dicore.errors import ConfigError, EnvCreateError
from dicore.run import random as rng
from dicore_registry import Registry

TOYS = Registry()
"""What is installed, and beside it the parts below; nobody else sees them."""
register = TOYS.register


class Manager:
    """Makes one environment for its spaces, as managers do."""

    closed = 0

    def __init__(self, env_fn: Any) -> None:
        self._env_fn = env_fn

    def seed(self, seed: int, *, role: str) -> None:
        self.seeded = (seed, role, len(self._env_fn))

    observation_space = property(lambda self: self._env_fn[0]().observation_space)
    action_space = property(lambda self: self._env_fn[0]().action_space)

    def close(self) -> None:
        Manager.closed += 1


class Env:
    """Spaces and nothing else; a wrapper may be around it."""

    def __init__(self, observation_space: str, env: Any = None) -> None:
        self.observation_space, self.action_space = observation_space, "discrete"


class Policy:
    """Remembers what it was loaded with."""

    def __init__(self) -> None:
        self.eval_mode = self
        self.loaded: Any = None

    def load_state_dict(self, state: Any) -> None:
        self.loaded = state


class Evaluator:
    """Returns what was loaded, once for each episode."""

    def __init__(self, manager: Any, policy: Any) -> None:
        self._manager, self._policy = manager, policy

    def eval(self, n_episode: int | None) -> Any:
        _, _, env_num = self._manager.seeded
        seen = type("Result", (), {})()
        seen.returns = [float(self._policy.loaded["value"]) + env_num] * (n_episode or 10)
        return seen

    def close(self) -> None:
        self._manager.close()


class Counter:
    """A learner, as far as a run is concerned."""

    train_iter = 7

    def state_dict(self) -> dict[str, Any]:
        return {"policy": {"value": 3}}

    def load_state_dict(self, state: Any) -> None: ...


class Mute(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Pipeline:
    """Does what its option says."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def run(self, compiled: Any, run: Any, *, model: Any | None = None) -> Any:
        assert (run.folder.path / "config.json").is_file()
        assert json.loads(run.folder.metadata.read_text())["result"] is None
        assert rng.ambient_streams() is run.streams
        run.register("learner", Counter(), counts={"train_iter": lambda: 7})
        run.first_step()
        assert gc.isenabled()
        if self._cfg.act == "fail":
            raise RuntimeError("lost the thread")
        if self._cfg.act == "exit":
            exit(0)  # noqa: PLR1722 - scripts do
        if self._cfg.act == "mute":
            raise Mute
        if self._cfg.act == "move":
            Path("elsewhere").mkdir()
            os.chdir("elsewhere")
        if self._cfg.act == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            assert run.stop_requested
        if self._cfg.act == "two signals":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("the second signal does not return")
        run.log.log_scalars({"evaluator/return_mean": 5.0}, env_step=9, train_iter=7)
        run.save_best(5.0)
        run.set_result(stop=self._cfg.act == "solve", train_iter=7, env_step=9)
        return compiled if model is None else model


@register("env", "launch_env")
@frozen(kw_only=True)
class LaunchEnvConfig(EnvConfig):
    """Env of these tests."""

    env_id: str = option("", "which")

    def build(self, ctx: Any, **parts: Any) -> Any:
        if self.env_id == "broken":
            raise EnvCreateError("env 'broken' cannot be made")
        return Env("flat")


@register("env", "launch_spec")
@frozen(kw_only=True)
class LaunchSpecConfig(LaunchEnvConfig):
    """Env that describes itself in part."""

    def from_spec(self) -> dict[str, Any]:
        return {"stop_value": 195.0}


@register("env_wrapper", "launch_wrapper")
@frozen(kw_only=True)
class LaunchWrapperConfig(ComponentConfig):
    """Shows something else."""

    def build(self, ctx: Any, *, env: Any, **parts: Any) -> Any:
        return Env(f"wrapped {env.observation_space}")


@register("env_manager", "launch_manager")
@frozen(kw_only=True)
class LaunchManagerConfig(ManagerConfig):
    """Manager of these tests."""

    def build(self, ctx: Any, *, env_fn: Any, **parts: Any) -> Any:
        return Manager(env_fn)


@frozen(kw_only=True)
class LaunchPartConfig(ComponentConfig):
    """Any other part."""

    obs_shape: str | None = option(None, "filled in by bind")

    def build(self, ctx: Any, **parts: Any) -> Any:
        return Evaluator(parts["env_manager"], parts["policy"])


for kind in ("model", "learner", "collector", "evaluator", "buffer"):
    register(kind, "launch_part")(LaunchPartConfig)


@register("policy", "launch_policy")
@frozen(kw_only=True)
class LaunchPolicyConfig(PolicyConfig):
    """Policy of these tests."""

    on_policy: bool = option(False, "no")
    model: Any = component("model", default="launch_part")
    misfit: bool = option(False, "does not fit any env")

    def bind(self, spec: Any) -> dict[str, Any]:
        if self.misfit:
            raise ConfigError("policy.type: does not fit")
        return {"model.obs_shape": spec.observation}

    def build(self, ctx: Any, **parts: Any) -> Any:
        assert ctx.observation_space == "flat"
        return Policy()


@register("pipeline", "launch_pipeline")
@frozen(kw_only=True)
class LaunchPipelineConfig(PipelineConfig):
    """Pipeline of these tests."""

    act: str = option("learn", "what to do")
    logger: tuple[Any, ...] = components("logger")

    def build(self, ctx: Any, **parts: Any) -> Any:
        return Pipeline(self)


PARTS: dict[str, Any] = {
    "env": {"manager": "launch_manager"},
    "policy": {
        "learn": {"learner": "launch_part"},
        "collect": {"collector": "launch_part", "n_sample": 8},
        "eval": {"evaluator": "launch_part"},
        "other": {"replay_buffer": "launch_part"},
    },
    "pipeline": {"type": "launch_pipeline"},
}
register("preset", "launch_env_launch_policy")(
    {
        **PARTS,
        "env": {"type": "launch_env", "stop_value": 475.0, **PARTS["env"]},
        "policy": {"type": "launch_policy", "nstep": 3, **PARTS["policy"]},
    }
)
NAMES: dict[str, Any] = {"env": "launch_env", "policy": "launch_policy"}


def config(**changes: Any) -> dict[str, Any]:
    env = {"type": "launch_env", "stop_value": 1.0, "n_evaluator_episode": 2, **PARTS["env"]}
    policy = {"type": "launch_policy", **PARTS["policy"]}
    return {**PARTS, "env": env, "policy": policy, **changes}
