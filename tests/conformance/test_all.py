"""Every registered component keeps the contract of its kind; what is known not to is listed."""

from __future__ import annotations

import inspect
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from gymnasium import spaces

from dicore.config import bind, compile_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext, make_env_manager, spec_of
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore.task import Context, OfflineRLContext, OnlineRLContext
from dicore.testing import Check, Suite, checks_of
from dicore.testing.component import Component
from dicore.testing.env import EnvContract
from dicore.testing.env_manager import EnvManagerContract
from dicore.testing.evaluator import EvaluatorContract
from dicore.testing.generic import ComponentContract
from dicore.testing.middleware import MiddlewareContract
from dicore.testing.model_wrapper import FakeModel, ModelWrapperContract
from dicore.testing.pipeline import PipelineContract
from dicore.testing.policy import PolicyContract
from dicore.testing.reward_model import RewardModelContract
from dicore.testing.role import RoleContract
from dicore_plugins.buffers import NaiveReplayBuffer
from dicore_plugins.datasets import NpzDataset, write_npz
from dicore_plugins.evaluators import Accuracy
from dicore_registry import Renamed
from tests.agents.policies.remembering import Collaborating, TwoGroups
from tests.core.testing.test_reward_model_suite import Novelty
from tests.plugins.datasets.recordings import EPISODES, SPACES, write
from tests.soak import SOAK, some

SMALL = {
    "env": {"type": "cartpole", "collector_env_num": 4, "evaluator_env_num": 2,
            "n_evaluator_episode": 2},
    "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [16]},
               "learn": {"batch_size": 16, "update_per_collect": 2},
               "collect": {"n_sample": 32}},
}  # fmt: skip
"""A training that takes a second."""


MODEL_BASED = {
    "env": {**SMALL["env"], "type": "pendulum"},
    "policy": {"type": "mbpo", "learn": {"batch_size": 16}, "collect": {"n_sample": 32},
               "model": {"actor_hidden_size_list": [8], "critic_hidden_size_list": [8]},
               "other": {"rollout_batch_size": 20}},
}  # fmt: skip
SHOWN = {
    **SMALL,
    "policy": {**SMALL["policy"], "type": "sqil"},
    "pipeline": {"expert": {"type": "random"}, "expert_episodes": 4},
}
"""The same from demonstrations of random actions."""


class Pipelines(PipelineContract):
    budget = 400 if SOAK else 200

    def configs(self) -> Iterator[dict[str, Any]]:
        """Yields one without a reward model, one from demonstrations, and some with one."""
        yield from (SMALL, SHOWN)
        path = Path.cwd() / "expert.npz"
        rng, end = np.random.default_rng(0), np.arange(40) % 10 < np.arange(40) // 10
        columns = {"obs": rng.normal(size=(40, 4)), "action": rng.integers(0, 2, 40)}
        write_npz(path, {**columns, "reward": np.ones(40), "terminated": end})
        expert = {"type": "npz", "path": str(path)}
        few = {"expert": expert, "expert_updates": 10, "hidden_size_list": [8]}
        for model in ("rnd", {"type": "gail", "expert": expert}, {"type": "trex", **few}):
            yield {**SMALL, "policy": {**SMALL["policy"], "reward_model": model}}
        ppo = {"type": "ppo", "collect": {"n_sample": 64}, "reward_model": {"type": "trex", **few}}
        yield {**SMALL, "policy": ppo}


class ParallelPipelines(Pipelines):
    """With few processes, which are started for each training."""

    overrides = (
        *PipelineContract.overrides,
        "pipeline.system.collector_num=1",
        "pipeline.system.heartbeat_timeout=60",
    )


class DistPipelines(Pipelines):
    """With its learner and collectors in threads."""

    overrides = (*PipelineContract.overrides, "pipeline.system.start=threads")


MODES = {
    "her_learner": "learn_mode",
    "interaction_evaluator": "eval_mode",
    "metric_evaluator": "eval_mode",
    "multistep_trainer": "learn_mode",
    "offpolicy_learner": "learn_mode",
    "pretrainer": "learn_mode",
    "trainer": "learn_mode",
}
"""What a middleware's `policy` is, where it is not the collect mode."""


class Dataset:
    """Samples in memory."""

    def __init__(self, samples: Batch) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, index: Any) -> Batch:
        return self.samples[index]


class Drawn:
    """Keeps the goals of samples."""

    def episodes_per_batch(self, batch_size: int) -> int:
        return batch_size

    def relabel(self, episodes: Batch) -> Batch:
        return episodes


class Middleware(MiddlewareContract):
    """Made of the parts of a small training; what those before them write is there."""

    @property
    def context_class(self) -> type[Context]:  # type: ignore[override] # by component
        offline = self.registered.entry.name == "offline_data_fetcher"
        return OfflineRLContext if offline else OnlineRLContext

    def make(self) -> Any:
        from dicore_plugins.pipelines.parts import build_parts

        seed_everything(0)
        name = self.registered.entry.name
        compiled = compile_config(MODEL_BASED if name == "world_model_learner" else SMALL)
        cfg = bind(compiled, spec_of(compiled.env, 0)).cfg
        parts = self.parts = build_parts(cfg)
        self.data = parts.collector.collect_batch(n_sample=64)
        marks = ("end", "env_id")  # which tell where samples come from, and are not stored
        parts.buffer.push(Batch({k: each for k, each in self.data.items() if k not in marks}))
        mode = MODES.get(name, "collect_mode")
        offered = {
            "cfg": cfg,
            "policy": parts.policy if name == "ckpt_saver" else getattr(parts.policy, mode),
            "env": parts.evaluator_env if mode == "eval_mode" else parts.collector_env,
            "buffer_": parts.buffer,
            "seed": None,
            "reward_model": Novelty(),
            "her": Drawn(),
            "her_reward_model": Drawn(),
            "mode": "send" if "exchanger" in name else parts.policy.command_mode,
            "dataset": Dataset(self.data),
            "metric": Accuracy(),
            "model": parts.policy.collect_mode,
            "log": SimpleNamespace(log_scalars=lambda scalars, **counts: None),
            "data_path": "collected.npz",
            "device": "cpu",
            "name": "ended",
            "n_sample": 8,
            "world_model": Simulated(),
            "model_buffer": NaiveReplayBuffer({}),
            "samples": lambda: self.data,
        }
        target = self.registered.target
        wanted = inspect.signature(target).parameters
        return target(**{key: value for key, value in offered.items() if key in wanted})

    def prepare(self, ctx: Any) -> None:
        """What fetchers, collectors and inferencers write, for whoever reads it."""
        if isinstance(ctx, OfflineRLContext):
            return
        ready = self.parts.collector_env.ready_obs
        eps = {"eps": 0.5} if "eps" in self.parts.cfg.policy.other else {}
        output = self.parts.policy.collect_mode.forward(ready, **eps)
        ctx.train_data = self.data[:16]
        ctx.trajectories = self.data
        ctx.trajectory_end_idx = [len(self.data) - 1]
        ctx.obs, ctx.inference_output = ready, output
        ctx.action = output.with_value(output.value["action"])


class Simulated:
    """A world model that knows CartPole not at all."""

    def should_train(self, env_step: int) -> bool:
        return True

    def train(self, data: Batch) -> dict[str, float]:
        return {}

    def step(self, obs: Any, action: Any) -> tuple[Any, Any, Any]:
        return obs, np.zeros(len(obs), np.float32), np.zeros(len(obs), np.bool_)


PROVIDED = {"env/atari": "ALE/Asterix-v5", "env/gym": "Acrobot-v1",
            "env/gymnasium": "FrozenLake-v1", "env/pettingzoo": "classic.rps_v2",
            "env/gymnasium_agents": "rware:rware-tiny-2ag-v2",
            "env/open_spiel": "kuhn_poker", "env/pettingzoo_agents": "classic.rps_v2"}  # fmt: skip
"""One environment of each provider that makes environments by id."""

SLOW = {
    "env/atari", "env/breakout", "env/car_racing", "env/dm_control", "env/pong", "env/vmas",
}  # fmt: skip
"""Environments that are checked with fewer steps."""


FAMILIES = {
    **dict.fromkeys(("env/box2d", "env/classic_control", "env/mujoco_env", "env/toy_text"), 4),
    "pipeline/serial": 3,
    "logger/child": 3,
}
"""Components that differ in little more than options, of which each has one in so many checks:
environments of Gymnasium by their module, which one function makes, serial pipelines, and loggers
that write in a process of their own, which imports their package."""
CHILDREN = ("logger/comet", "logger/mlflow", "logger/wandb")
SHARES = {
    "policy": 10, "env": 2, "env_manager": 2, "middleware": 2, "model": 2,
}  # fmt: skip
"""Kinds with many components that share base classes: each has one in so many checks."""

SIMBA = {"actor_hidden_size_list": (16,), "critic_hidden_size_list": (16, 16)}
DREAMER = {"deter": 32, "units": 16, "layers": 1, "groups": 4, "classes": 4}
MUZERO = {"latent": 16, "units": 16, "cnn_depth": 4}
TDMPC2 = {"latent": 16, "units": 16, "encoder_units": 16, "cnn_depth": 4}
MRQ = {"state_features": 16, "action_features": 8, "joint_features": 16, "units": 16}
BRO = {"actor_hidden_size_list": [16], "critic_hidden_size_list": [16], "num_quantiles": 8}
FAST_TD3 = {"actor_hidden_size_list": [16], "critic_hidden_size_list": [16]}
FLASH_SAC = {"actor_hidden_size_list": [16], "critic_hidden_size_list": [16]}
DIFFUSION = {"model": {"units": 16, "blocks": 1}, "sample_steps": 4}
GUMBEL = {"model": MUZERO, "planner": {"type": "gumbel", "simulations": 8}}
SEQUENCES = {"collect": {"unroll_len": 6, "burn_in": 2}}
QGPO = {f"{part}_hidden_size_list": [16] for part in ("actor", "critic", "energy")}
SIZES: dict[str, dict[str, Any]] = {
    "model/simba": SIMBA,
    "model/bro": BRO,
    "policy/bro": {"model": BRO},
    "model/mrq": MRQ,
    "policy/mrq": {"model": MRQ},
    "policy/fast_td3": {"model": FAST_TD3},
    "model/flash_sac": FLASH_SAC,
    "policy/flash_sac": {"model": FLASH_SAC},
    "policy/diffusion_policy": DIFFUSION,
    "model/qgpo": QGPO,
    "policy/qgpo": {
        "model": QGPO,
        "sample_steps": 4,
        "learn": {"n_action": 4, "support_steps": 4, "behaviour_updates": 0},
    },
    "policy/simba": {"model": SIMBA},
    "model/dreamer": DREAMER,
    "policy/dreamer": {"model": DREAMER},
    "model/tdmpc2": TDMPC2,
    "policy/tdmpc2": {"model": TDMPC2, "collect": {"num_samples": 16, "num_elites": 4}},
    "policy/r2d2": SEQUENCES,
    "policy/r2d3": SEQUENCES,
    "policy/muzero": {"model": MUZERO, "planner": {"simulations": 8}},
    "policy/gumbel_muzero": GUMBEL,
    "policy/efficient_zero": GUMBEL,
}
"""Options of what is large or long in its paper; each is made and trained dozens of times."""


class Sized(Component):
    """A component that has other defaults."""

    def config(self, options: Mapping[str, object] | None = None) -> ComponentConfig:
        return super().config(_merged(SIZES[self.label], options or {}))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = below.keys() & above.keys()
    deeper = {key: _merged(below[key], above[key]) for key in both if isinstance(below[key], dict)}
    return {**below, **above, **deeper}


AS_ATARI = {"env/breakout", "env/pong"}
"""Environments that are `env/atari` with the id of a game; tests/contrib_envs steps them."""


class Envs(EnvContract):
    @property
    def options(self) -> dict[str, Any]:  # type: ignore[override] # by component
        """Providers are asked for one of their environments."""
        if self.registered.label == "env/recorded":
            return {"path": write("npz_next", Path.cwd(), EPISODES), "format": "npz"}
        env_id = PROVIDED.get(self.registered.label)
        return {} if env_id is None else {"env_id": env_id}

    @property
    def steps(self) -> int:  # type: ignore[override] # by component
        return 40 if self.registered.label in SLOW else EnvContract.steps


class EnvPools(EnvManagerContract):
    """The checks for which any environment will do: EnvPool steps no others than its own."""

    def make(self, env_fn: Any, options: Any = None) -> Any:
        return super().make(env_fn, {"task_id": "Acrobot-v1", "num_threads": 1, **(options or {})})

    @classmethod
    def checks(cls) -> tuple[str, ...]:
        """Returns those that look at no scripted environment."""
        return (
            "has_the_methods", "second_launch_raises", "use_while_closed_raises",
            "random_actions_are_legal", "steps_only_given_envs", "step_error_names_the_env",
            "resets_only_given_envs", "waits_for_reset_without_auto_reset", "same_seed_same_data",
            "returned_data_is_not_overwritten",
        )  # fmt: skip


class AtariGames(EnvPools):
    """The same checks with a game: `ale_py` steps no others than its own."""

    def make(self, env_fn: Any, options: Any = None) -> Any:
        return EnvPools.make(self, env_fn, {"task_id": "ALE/Pong-v5", **(options or {})})


class Hybrid(FakeModel):
    """A model with all outputs that wrappers of hybrid actions and of memories need."""

    def forward(self, obs: Any, memory: Any = None) -> dict[str, Any]:
        self.returned = {**super().forward(obs)}
        for name in ("action_args", "mean", "log_std", "memory"):
            self.returned[name] = np.asarray(obs)[..., :2] / 8
        return self.returned

    __call__ = forward


class ModelWrappers(ModelWrapperContract):
    def model(self) -> Any:
        """Returns a model with logits, or with the outputs that the wrapper needs."""
        from dicore_plugins.models import DRQN, VAC

        name = self.registered.entry.name
        if name in ("action_noise", "deterministic_sample", "reparam_sample"):
            return VAC(4, 3, continuous=True)
        if name == "hidden_state":
            return DRQN(obs_shape=4, action_shape=3)
        if name == "transformer_memory" or name.startswith("hybrid"):
            return Hybrid()
        if name.startswith("transformer"):
            return FakeModel()
        return super().model()


@cache
def trained() -> TemporaryDirectory[str]:
    """A short run; it is removed when Python ends."""
    folder = TemporaryDirectory()
    launch(
        env="cartpole", policy="ppo", seed=0, exp_name=f"{folder.name}/run", max_env_step=64,
        overrides=["pipeline.logger=[]", "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
                   "policy.collect.n_sample=64"],
    )  # fmt: skip
    return folder


class Policies(PolicyContract):
    """With every space that it accepts once; with all pairs of them in a soak."""

    def space_pairs(self) -> list[tuple[Any, Any]]:
        """Each action with vectors, each other observation with one action, by its name."""
        accepted = super().space_pairs()
        by_observation = [[*found] for _, found in groupby(accepted, lambda pair: str(pair[0]))]
        chosen = by_observation[0]
        for number, found in enumerate(by_observation[1:]):
            chosen += some(found, 1, f"{self.registered.entry.name}{number}")
        return chosen


class Games(PolicyContract):
    def space_pairs(self) -> list[tuple[Any, Any]]:
        """The spaces of the board games."""
        from dicore_worlds import GAMES, BoardGame

        games = [BoardGame(rules) for rules in GAMES.values()]
        return [(game.observation_space, game.action_space) for game in games]


class Mazes(PolicyContract):
    def space_pairs(self) -> list[tuple[Any, Any]]:
        """The spaces of mazes, with actions from other numbers on."""
        from dicore_contrib import Maze

        return [(Maze(size).observation_space, spaces.Discrete(4, start=size)) for size in (3, 5)]


class Experts(PolicyContract):
    def space_pairs(self) -> list[tuple[Any, Any]]:
        """The spaces of CartPole, which the expert was trained for."""
        return [(spaces.Box(-1.0, 1.0, (4,), np.float32), spaces.Discrete(2))]

    def make(self, enable_field: Any = None) -> Any:
        """Returns the policy of a run."""
        parts = {} if enable_field is None else {"enable_field": enable_field}
        context = BuildContext(EnvSpec(*self.spaces()))
        return self.registered.build({"run": f"{trained().name}/run"}, ctx=context, **parts)


class Datasets(RoleContract):
    """Opened on a file with the same episodes in each format."""

    def make(self) -> Any:
        folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
        return self.registered.build({"path": write(self.registered.entry.name, folder, EPISODES)})

    def test_samples(self) -> None:
        """It returns samples by index, in that order, and batches of them."""
        made = self.make()
        index = np.arange(len(made))[::-1]
        samples = made.take(index)
        assert {"obs", "action", "reward", "next_obs", "done"} <= samples.keys()
        for start, batch in zip(range(0, len(index), 5), made.take_batches(index, 5), strict=True):
            for key, column in made.take(index[start : start + 5]).items():
                np.testing.assert_array_equal(batch[key], column)


class RewardModels(RewardModelContract):
    """With few updates on the expert's data."""

    def make(self, seed: int = 0) -> Any:
        seed_everything(seed)
        context = BuildContext(EnvSpec(self.observation_space, self.action_space), seed=seed)
        few = {"expert_updates": 20} if "expert_updates" in self.registered.example() else {}
        return self.registered.build(few, ctx=context)


class Goals(RewardModelContract):
    """With the environments that compute rewards, and their observations."""

    def make(self, seed: int = 0) -> Any:
        seed_everything(seed)
        env = compile_config({"env": "bit_flip", "policy": "random"}).env
        return self.registered.build(env_manager=make_env_manager(env, "collector", seed))

    def data(self, seed: int = 0, count: int = 64) -> Batch:
        rng = np.random.default_rng(seed)
        flat = super().data(seed, count)
        bits = [rng.integers(0, 2, (2, count, 8)).astype(np.int8) for _ in range(2)]
        for key, (achieved, desired) in zip(("obs", "next_obs"), bits, strict=True):
            flat.columns[key] = {"achieved_goal": achieved, "desired_goal": desired}
        return flat


class FittedQ(EvaluatorContract):
    """The checks in which no environment is stepped."""

    def make(self, env_manager: Any, eval_mode: Any, options: Any) -> Any:
        data = NpzDataset({"path": write("npz", Path.cwd(), EPISODES)})
        given = {"eval_freq": options["eval_freq"], "updates": 2}
        return self.registered.build(
            given, ctx=BuildContext(EnvSpec(*SPACES)), dataset=data, env_manager=env_manager,
            policy=eval_mode,
        )  # fmt: skip

    @classmethod
    def checks(cls) -> tuple[str, ...]:
        """Returns those that look at no episode."""
        return ("has_the_methods", "is_due_at_intervals", "close_is_final")


class Metrics(FittedQ):
    def make(self, env_manager: Any, eval_mode: Any, options: Any) -> Any:
        data = NpzDataset({"path": write("npz", Path.cwd(), EPISODES)})
        given = {"eval_freq": options["eval_freq"]}
        return self.registered.build(given, dataset=data, env_manager=env_manager, policy=eval_mode)


class WorldModels(RoleContract):
    """Made for the spaces of a small environment."""

    def make(self) -> Any:
        obs = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        return self.registered.build(ctx=BuildContext(EnvSpec(obs, spaces.Discrete(2))))

    def test_learns_and_simulates(self) -> None:
        """It trains on samples and predicts arrays of their form."""
        made, rng = self.make(), np.random.default_rng(0)
        obs = rng.normal(size=(32, 3)).astype(np.float32)
        zeros = np.zeros(32, np.float32)
        columns = {"obs": obs, "action": np.arange(32) % 2, "reward": zeros}
        made.train(Batch({**columns, "next_obs": obs, "done": zeros}, 32))
        after, reward, done = made.step(obs[:5], columns["action"][:5])
        assert (after.shape, reward.shape, done.shape) == ((5, 3), (5,), (5,))
        assert (after.dtype, reward.dtype, done.dtype) == (np.float32, np.float32, np.bool_)


SUITES: dict[str, type[Suite]] = {
    "evaluator/fqe": FittedQ,
    "evaluator/metric": Metrics,
    "world_model": WorldModels,
    "policy": Policies,
    "policy/alphazero": Games,
    "policy/expert": Experts,
    "policy/procedure_cloning": Mazes,
    "policy/collaq": Collaborating,
    "policy/groups": TwoGroups,
    "dataset": Datasets,
    "env": Envs,
    "env_manager/ale_vector": AtariGames,
    "env_manager/envpool": EnvPools,
    "middleware": Middleware,
    "model_wrapper": ModelWrappers,
    "pipeline": Pipelines,
    "pipeline/dist": DistPipelines,
    "pipeline/parallel": ParallelPipelines,
    "reward_model": RewardModels,
    "reward_model/her": Goals,
}

_BY_EXPERT = "it is trained on the expert's data, when it receives them"
EXPECTED = {
    "env_wrapper/episodic_life:episodes_are_independent": "the next life continues the game",
    "env_wrapper/obs_norm:seeds": "its statistics span episodes",
    "env_wrapper/obs_norm:reset_mid_episode": "its statistics span episodes",
    "env_wrapper/obs_norm:episodes_are_independent": "its statistics span episodes",
    "env_wrapper/reward_norm:seeds": "its statistics span episodes",
    "env_wrapper/reward_norm:episodes_are_independent": "its statistics span episodes",
    "model/bcq:gradients_reach_every_parameter": "the encoder learns, but does not act",
    "model/discrete_bcq:gradients_reach_every_parameter": "the imitation only forbids actions",
    "model/bco:gradients_reach_every_parameter": "`inverse` has outputs that `forward` lacks",
    "model/dt:gradients_reach_every_parameter": "a first step has no action before it",
    "model/ppg:gradients_reach_every_parameter": "`auxiliary` has an output that `forward` lacks",
    **{
        f"model/{name}:gradients_reach_every_parameter": "the team's value is another method"
        for name in ("collaq", "maddpg", "masac", "qmix", "qplex", "qtran", "wqmix")
    },
    "reward_model/drex:training_changes_the_estimates": _BY_EXPERT,
    "reward_model/her:training_changes_the_estimates": "it has no parameters",
    "reward_model/pwil:training_changes_the_estimates": "it has no parameters",
    "reward_model/red:training_changes_the_estimates": _BY_EXPERT,
    "reward_model/trex:training_changes_the_estimates": _BY_EXPERT,
    "pipeline/dist:same_seed_same_result": "collecting and learning are not in step",
    "policy/coma:environments_are_apart_in_samples": "it draws the actions after the last step",
    "policy/ppo_offpolicy:small_blocks_give_the_samples_of_a_large_one": (
        "its advantages end where a block ends, as those of ppo"
    ),
    "policy/random:eval_is_deterministic": "it samples every action at random",
    "policy/random:eval_uses_no_random_numbers": "it samples every action at random",
    "policy/random:memory_is_kept_by_env_id": "it samples every action at random",
    "model_wrapper/target:shares_the_model": "it is a copy that follows the model",
    "model_wrapper/teacher:shares_the_model": "it is a frozen copy",
}


def _units() -> Iterator[Any]:
    """Yields lists of checks that are one test: those of a component, each one of a pipeline.

    Those of a family share its checks, and of the kinds in SHARES each component has a share.
    """
    every = [
        replace(check, component=Sized(check.component.entry, check.component.registry))
        if check.component.label in SIZES
        else check
        for check in checks_of(suites=SUITES)
    ]
    unknown = EXPECTED.keys() - {check.id for check in every}
    assert not unknown, f"these are no checks: {unknown}"
    seen: Counter[str] = Counter()
    for label, found in groupby(every, lambda check: check.component.label):
        checks = [*found]
        family = _family(checks[0])
        if not SOAK and family in FAMILIES:
            seen[family] += 1
            checks = checks[seen[family] % FAMILIES[family] :: FAMILIES[family]]
        elif (kind := label.partition("/")[0]) in SHARES:
            checks = some(checks, -(-len(checks) // SHARES[kind]), label)
        if label.startswith("pipeline/"):
            yield from (pytest.param([check], id=check.id) for check in checks)
        else:
            marks = pytest.mark.soak if label in AS_ATARI else ()
            yield pytest.param(checks, id=label, marks=marks)


def _family(check: Check) -> str:
    """Returns that of FAMILIES, or the kind."""
    if check.component.label in CHILDREN:
        return "logger/child"
    kind = check.component.entry.kind
    module = str(getattr(check.component.target, "__module__", ""))
    name = "serial" if check.component.entry.name.startswith("serial") else module
    return found if (found := f"{kind}/{name.rpartition('.')[2]}") in FAMILIES else kind


@pytest.mark.parametrize("soak", [True, False])
def test_no_check_is_left_out(monkeypatch: pytest.MonkeyPatch, *, soak: bool) -> None:
    """All are in a soak; of each kind, each is in `make test`, and of each family."""
    monkeypatch.setattr("tests.soak.SOAK", soak)
    monkeypatch.setattr(f"{__name__}.SOAK", soak)
    every = checks_of(suites=SUITES)
    units = [unit.values[0] for unit in _units() if soak or not unit.marks]
    tested: list[Check] = [check for checks in units for check in checks]
    if soak:
        assert {check.id for check in tested} == {check.id for check in every}
    family, of_each = [
        {(_family(check), check.name) for check in checks} for checks in (tested, every)
    ]
    assert family == of_each


@pytest.mark.usefixtures("hints_are_kept")
@pytest.mark.parametrize("checks", [*_units()])
def test_component(checks: list[Check], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[Exception] = []
    made: list[bool] = []  # of those of its kind: the others skipped themselves
    for check in checks:
        folder = tmp_path / check.name
        folder.mkdir()
        monkeypatch.chdir(folder)
        applies = True
        try:
            check()
        except SkipTest:
            applies = False
        except Exception as error:
            if check.id not in EXPECTED:
                failed.append(error)
        else:
            if check.id in EXPECTED:
                failed.append(AssertionError(f"{check.id} holds, but: {EXPECTED[check.id]}"))
        if not _is_generic(check):
            made.append(applies)
    if failed:
        raise ExceptionGroup(f"checks of {checks[0].component.label}", failed)
    assert len(made) < 2 or any(made), "all checks of its kind were skipped"


def _is_generic(check: Check) -> bool:
    """Returns whether it is no check of a kind; the former name of a component has none."""
    return check.suite is ComponentContract or isinstance(check.component.target, Renamed)
