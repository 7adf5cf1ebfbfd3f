"""Makes a dicore config of a DI-engine config."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dicore.config.layers import CREATE_PATHS
from dicore_compat.migrate.changes import Change, Tree, leaves
from dicore_compat.migrate.di_engine_data import offline
from dicore_compat.migrate.di_engine_defaults import defaults
from dicore_compat.migrate.di_engine_forms import check_forms
from dicore_compat.migrate.di_engine_names import (
    DROPPED,
    ENTRIES,
    ENV_IDS,
    ENVS,
    LOST,
    MUJOCO,
    POLICIES,
    RENAMED,
)
from dicore_compat.migrate.di_engine_worlds import worlds
from dicore_compat.migrate.read_config import ABSENT

__all__ = ["convert"]

_HEADS = ("actor", "critic")
_ON_POLICY = ("ppo", "a2c", "pg", "ppg")
_RATES = {
    "policy.learn.learning_rate_q": "policy.learn.learning_rate",
    "policy.learn.learning_rate_critic": "policy.learn.learning_rate",
    "policy.learn.critic_learning_rate": "policy.learn.learning_rate",
    "policy.learn.learning_rate_policy": "policy.learn.learning_rate",
    "policy.learn.learning_rate_actor": "policy.learn.learning_rate",
    "policy.learn.learning_rate_alpha": "policy.learn.learning_rate",
    "policy.learn.learning_rate_value": "policy.learn.learning_rate",
}


def convert(
    main: Mapping[str, Any], create: Mapping[str, Any], entry: str = ""
) -> tuple[dict[str, object], list[Change]]:
    """Converts a config; what dicore does not know remains where it is.

    Args:
        main: DI-engine's main config.
        create: Its create config.
        entry: Entry function that the file calls: `serial_pipeline_sqil`.

    Returns:
        One tree with the types in it, and all differences.

    Raises:
        ConfigError: values that are computed with are no numbers, names or lists.
    """
    tree = Tree(main)
    tree.entry = entry.removeprefix("serial_pipeline").strip("_")
    for name, section in create.items():
        if name in CREATE_PATHS and isinstance(section, Mapping):
            for path, value in leaves(section):
                tree.put(f"{CREATE_PATHS[name]}.{path}", value)
        else:
            tree.note(name, "lost", "dicore has no such part of a create config")
    check_forms(tree)
    worlds(tree)
    for name in ("reward_model", "world_model"):
        if name in tree:
            for path, value in leaves(tree.pop(name)):
                tree.put(f"{CREATE_PATHS[name]}.{path}", value)
    for step in _STEPS:
        step(tree)
    return tree.values, tree.changes


def _env(tree: Tree) -> None:
    old = tree.get("env.type")
    env_id = str(tree.get("env.env_id", ""))
    if old in ("mujoco", "d4rl"):
        new = MUJOCO.get(env_id.lower().partition("-")[0])
        if new is not None:
            tree.put("env.type", new)
            tree.note("env.type", "changed", f"{new} (was {old})")
            tree.pop("env.env_id")
            tree.note("env.env_id", "changed", f"that of {new} (was {env_id}): a newer version")
        return
    if old in ENVS:
        tree.put("env.type", ENVS[old])
        tree.note("env.type", "changed", f"{ENVS[old]} (was {old})")
    if env_id == "LunarLanderContinuous-v2":
        tree.put("env.type", "lunarlander_continuous")
        tree.pop("env.env_id")
        tree.note("env.env_id", "changed", "env.type = lunarlander_continuous, a newer version")
    elif env_id in ENV_IDS:
        _env_id(tree, env_id)
    elif old == "atari" and "NoFrameskip-" in env_id:
        _game(tree, env_id)
    elif old == "cartpole" and not env_id:
        tree.put("env.make_kwargs.max_episode_steps", 200)
        tree.note("env.env_id", "changed", "CartPole-v1 with 200 steps at most, as CartPole-v0")


def _env_id(tree: Tree, old: str) -> None:
    new = ENV_IDS[old]
    if new is None:
        tree.drop("env.env_id", "the id of env.type is used")
    else:
        tree.put("env.env_id", new)
        tree.note("env.env_id", "changed", f"{new}, which replaced {old}")


def _game(tree: Tree, old: str) -> None:
    game, _, version = old.partition("NoFrameskip-")
    tree.put("env.env_id", f"ALE/{game}-v5")
    tree.put("env.repeat_action_probability", 0.0 if version == "v4" else 0.25)
    tree.note("env.env_id", "changed", f"ALE/{game}-v5 with the repeats of {old}")


def _env_options(tree: Tree) -> None:
    kind = tree.get("env.type")
    if kind == "atari" and tree.get("env.frame_stack") == 4:
        tree.drop("env.frame_stack", "the default wrappers stack four frames")
    for name in ("env.norm_obs", "env.norm_reward"):
        if name in tree and not tree.get(f"{name}.use_norm"):
            tree.drop(name, "off")
    if tree.get("env.replay_path", "") is None:
        tree.pop("env.replay_path")
    if "env.n_evaluator_episode" not in tree and "env.evaluator_env_num" in tree:
        tree.put("env.n_evaluator_episode", tree.get("env.evaluator_env_num"))
        tree.note("env.n_evaluator_episode", "changed", "one episode per environment")
    if tree.get("env.manager.type") == "env_pool":
        tree.put("env.manager.type", "envpool")
    if tree.get("env.manager.type") == "subprocess":
        tree.put("env.manager.type", "sync_subprocess")
        tree.note("env.manager.type", "changed", "sync_subprocess (was subprocess)")


def _of_type(tree: Tree) -> None:
    """Options of single environments."""
    kind = tree.get("env.type")
    if tree.get("env.env_wrapper") == "mujoco_default":
        tree.drop("env.env_wrapper", "see env.env_wrapper", "lost")
    if kind == "pendulum" and tree.get("env.continuous") is False:
        tree.pop("env.continuous")
        tree.put("env.env_wrapper", [{"type": "discretize_action", "bins": 11}])
        tree.note("env.continuous", "moved", "env.env_wrapper: discretize_action with 11 values")
    if kind == "bit_flip":
        tree.put("env.step_reward", 0.0)
        tree.note("env.step_reward", "changed", "the return is 1 for success, as in DI-engine")
    if "policy.other.her" in tree:
        tree.put("policy.reward_model.type", "her")
        tree.move("policy.other.her.her_strategy", "policy.reward_model.strategy")
        tree.move("policy.other.her.her_replay_k", "policy.reward_model.replay_k")
        for name in ("episode_size", "sample_per_episode"):
            tree.move(f"policy.other.her.{name}", f"policy.reward_model.{name}")
        tree.pop("policy.other.her")
    if kind == "frozenlake":
        for name in ("desc", "map_name", "is_slippery"):
            tree.move(f"env.{name}", f"env.make_kwargs.{name}")
    if kind == "taxi":
        tree.move("env.max_episode_steps", "env.make_kwargs.max_episode_steps")


def _policy(tree: Tree) -> None:
    old = str(tree.get("policy.type", ""))
    new = old.removesuffix("_command")
    tree.policy = {"sac_discrete": "discrete_sac"}.get(new, new)
    new = POLICIES.get(new, new)
    if new == "ppo" and (tree.get("policy.on_policy") is False):
        tree.policy = new = "ppo_offpolicy"
    new = ENTRIES.get(tree.entry, {}).get(new, new)
    if new in ("sqn", "sqil"):
        tree.move("policy.learn.alpha", "policy.model.temperature")
        tree.policy = "sqil" if old == "sql" else tree.policy
    if new == "discrete_cql":
        tree.drop("policy.model.num_quantiles", "it learns mean values, not quantiles", "lost")
    if new and new != old:
        tree.put("policy.type", new)
        tree.note("policy.type", "changed", f"{new} (was {old})")
    kind = tree.get("policy.collect.collector.type")
    if kind == "zergling":
        tree.drop("policy.collect.collector.type", "one process trains: parallel training", "lost")
    if kind == "episode" and new == "pg":
        tree.put("policy.collect.collector.get_train_sample", True)
    else:
        if kind == "episode":
            tree.drop("policy.collect.collector.type", "the policy's own unit is collected")
        tree.drop("policy.collect.collector.get_train_sample", "set by the policy")


def _multi_pass(tree: Tree) -> None:
    if tree.pop("policy.model.multi_pass"):
        tree.move("policy.model.action_mask", "policy.model.args_mask")
    else:
        tree.drop("policy.model.action_mask", "without multi_pass all arguments are passed")


def _discount(tree: Tree) -> None:
    """One discount factor: on-policy the collector's counted, off-policy the learner's."""
    places = ["policy.collect.discount_factor", "policy.learn.discount_factor"]
    if tree.get("policy.type") not in _ON_POLICY:
        places.reverse()
    for place in places:
        tree.move(place, "policy.discount_factor")


def _rates(tree: Tree) -> None:
    for old, new in _RATES.items():
        tree.move(old, new)


def _noise(tree: Tree) -> None:
    if tree.get("policy.learn.noise"):
        tree.pop("policy.learn.noise")
        tree.move("policy.learn.noise_sigma", "policy.learn.target_noise")
        span = tree.pop("policy.learn.noise_range")
        if isinstance(span, Mapping):
            tree.put("policy.learn.target_noise_clip", span["max"])
            even = span.get("min", -span["max"]) == -span["max"]
            tree.note(
                "policy.learn.noise_range",
                "moved" if even else "lost",
                f"policy.learn.target_noise_clip = {span['max']}"
                + ("" if even else f", on both sides (min was {span['min']})"),
            )
    elif "policy.learn.noise" in tree:
        tree.pop("policy.learn.noise")
        if tree.get("policy.type") in ("td3", "td3_bc"):
            tree.put("policy.learn.target_noise", 0.0)
            tree.note("policy.learn.noise", "moved", "policy.learn.target_noise = 0.0")
    sigma = tree.get("policy.collect.noise_sigma")
    tree.pop("policy.collect.noise") if tree.get("policy.collect.noise") is True else None
    if isinstance(sigma, Mapping):
        start = sigma.get("start")
        tree.pop("policy.collect.noise_sigma")
        tree.put("policy.collect.noise", start)
        tree.note("policy.collect.noise_sigma", "lost", f"constant noise {start}, no schedule")
    tree.move("policy.collect.noise_sigma", "policy.collect.noise")
    if isinstance(tree.get("policy.collect.noise_range"), Mapping):
        tree.drop("policy.collect.noise_range", "actions are clipped to their bounds")


def _clipping(tree: Tree) -> None:
    kind = tree.get("policy.learn.grad_clip_type")
    for value in ("policy.learn.grad_clip_value", "policy.learn.clip_value"):
        if kind in ("clip_norm", None):
            tree.move(value, "policy.learn.max_grad_norm")
        else:
            tree.drop(value, f"gradients are clipped by their norm only, not by {kind}", "lost")
    tree.drop("policy.learn.grad_clip_type", "gradients are clipped by their norm")


def _heads(tree: Tree) -> None:
    """Hidden layers of actor and critic as lists; `head_layer_num` counts those after the first."""
    model = "policy.model"
    twin = tree.get(f"{model}.twin_critic")
    if twin is not None:
        tree.move(f"{model}.twin_critic", f"{model}.num_critics", 2 if twin else 1)
    on_encoder = f"{model}.encoder_hidden_size_list" in tree or (
        tree.get("policy.type") in (*_ON_POLICY, "impala", "ppo_offpolicy", "acer", "bco")
    )
    for head in _HEADS:
        size = f"{model}.{head}_head_hidden_size"
        layers = f"{model}.{head}_head_layer_num"
        name = f"{head}_head_hidden_size_list" if on_encoder else f"{head}_hidden_size_list"
        if size not in tree:
            if on_encoder and tree.get(layers) == 0:
                tree.move(layers, f"{model}.{name}", [])
            tree.drop(layers, "without a size", "lost")
            continue
        width, count = tree.get(size), tree.pop(layers)
        count = 1 if count is None else count
        if isinstance(width, list):
            sizes = list(width)
        else:
            sizes = [width] * (count if on_encoder else count + 1)
        tree.move(size, f"{model}.{name}", sizes)
    tree.move(f"{model}.hidden_size_list", f"{model}.encoder_hidden_size_list")
    width, layers = tree.pop(f"{model}.head_hidden_size"), tree.pop(f"{model}.head_layer_num")
    if width is not None or layers is not None:
        encoder = tree.get(f"{model}.encoder_hidden_size_list") or [128, 128, 64]
        sizes = [width or encoder[-1]] * (1 if layers is None else layers)
        tree.put(f"{model}.head_hidden_size_list", sizes)
        tree.note(f"{model}.head_layer_num", "moved", f"{model}.head_hidden_size_list = {sizes}")


def _optimizer(tree: Tree) -> None:
    """The optimizer of `bc`, whose name and options are beside each other."""
    place = "policy.learn.optimizer"
    name = tree.get(place)
    if isinstance(name, str):
        tree.put(place, {"type": name.lower()})
        tree.note(place, "changed", f"{place}.type = {name.lower()}")
        if name.lower() == "sgd":
            tree.move("policy.learn.momentum", f"{place}.momentum")
        tree.drop("policy.learn.momentum", f"{name.lower()} has none")
        tree.move("policy.learn.weight_decay", f"{place}.weight_decay")


def _activation(tree: Tree) -> None:
    value = tree.get("policy.model.activation")
    if isinstance(value, Mapping) and ABSENT in value:
        name = str(value[ABSENT]).removesuffix("()").rpartition(".")[2].lower()
        tree.move("policy.model.activation", "policy.model.activation", name, "changed")


def _deviation(tree: Tree) -> None:
    """A fixed standard deviation of actions: dicore learns it, from the same value on."""
    kind = tree.get("policy.model.sigma_type")
    if kind == "fixed":
        value = round(math.log(tree.get("policy.model.fixed_sigma_value", 0.3)), 4)
        tree.put("policy.model.log_std_init", value)
        tree.drop("policy.model.sigma_type", f"learned, from log_std_init = {value} on", "lost")
        tree.pop("policy.model.fixed_sigma_value")
    elif kind == "conditioned":
        tree.drop("policy.model.sigma_type", "learned, but the same in all states", "lost")
    elif tree.get("policy.type") in _ON_POLICY:
        tree.drop("policy.model.sigma_type", "the same in all states here, too")


def _buffer(tree: Tree) -> None:
    place = "policy.other.replay_buffer"
    if tree.get("policy.reward_model.type") == "her":
        tree.put(f"{place}.type", "episode")
    elif tree.get(f"{place}.type") in ("naive", "episode", "deque"):
        tree.drop(f"{place}.type", "the buffer that the policy needs is chosen")
    if f"{place}.max_use" in tree or f"{place}.max_staleness" in tree:
        tree.put(f"{place}.type", "advanced")
        tree.note(place, "changed", "advanced, which has max_use and max_staleness")
    if tree.get(f"{place}.max_staleness", 0) >= 1e9:
        tree.drop(f"{place}.max_staleness", "no limit")
    for name in ("policy", "value"):
        tree.drop(f"{place}.{name}", "one buffer holds the samples of policy and value", "lost")
    for name in ("alpha", "beta", "anneal_step"):
        if f"{place}.{name}" in tree and not tree.get("policy.priority"):
            tree.drop(f"{place}.{name}", "without policy.priority it has no effect")


def _windows(tree: Tree) -> None:
    """R2D2's windows: `unroll_len` of the collector counts burn-in too."""
    if "policy.learn_unroll_len" in tree or "policy.burnin_step" in tree:
        tree.drop("policy.collect.unroll_len", "set by the length of learning and burn-in")
        tree.drop("policy.unroll_len", "set by the length of learning and burn-in")
    tree.move("policy.unroll_len", "policy.collect.unroll_len")


def _tables(tree: Tree) -> None:
    for old, new in RENAMED.items():
        if new is not None:
            tree.move(old, new)
    for path, reason in DROPPED.items():
        if path == "policy.collect.noise" and isinstance(tree.get(path), float | int):
            continue
        tree.drop(path, reason)
    for path, reason in LOST.items():
        tree.drop(path, reason, "lost")


_EXPERT = "policy.reward_model.expert: name recorded steps of the expert, see dicore collect --help"


def _reward_model(tree: Tree) -> None:
    place = "policy.reward_model"
    if place not in tree:
        return
    size = tree.get(f"{place}.hidden_size")
    if isinstance(size, int):
        tree.move(f"{place}.hidden_size", f"{place}.hidden_size_list", [size, size], "changed")
    tree.move(f"{place}.max_snippet_length", f"{place}.snippet_len")
    if tree.get(f"{place}.intrinsic_reward_weight", 0) is None:
        tree.pop(f"{place}.intrinsic_reward_weight")
    tree.move(f"{place}.intrinsic_reward_weight", f"{place}.weight")
    for name in ("obs_shape", "action_shape", "input_size", "action_size", "continuous"):
        if f"{place}.{name}" in tree:
            tree.pop(f"{place}.{name}")
            tree.note(f"{place}.{name}", "dropped", "read from the environment")
    for name in ("expert_model_path", "data_path", "offline_data_path", "reward_model_path"):
        tree.drop(f"{place}.{name}", _EXPERT, "lost")


def _shapes(tree: Tree) -> None:
    for name in ("obs_shape", "action_shape"):
        if f"policy.model.{name}" in tree:
            tree.pop(f"policy.model.{name}")
            tree.note(f"policy.model.{name}", "dropped", "read from the environment")


def _values(tree: Tree) -> None:
    """Values whose type is stricter here."""
    decay = tree.get("policy.other.eps.decay")
    if isinstance(decay, float):
        tree.put("policy.other.eps.decay", int(decay))
    if tree.get("policy.learn.trust_region") is True:
        tree.drop("policy.learn.trust_region", "on, with the bound of the paper")
    for path in ("policy.multi_gpu", "policy.learn.multi_gpu"):
        if tree.get(path):
            tree.drop(path, "one process", "lost")
        else:
            tree.pop(path)
    if "env.stop_value" not in tree and "env.type" in tree:
        tree.put("env.stop_value", float("inf"))
        tree.note("env.stop_value", "changed", "inf: training ends by its budget only")
    if tree.get("policy.eval.evaluator.eval_freq", 1) < 1:
        tree.drop("policy.eval.evaluator.eval_freq", "off; set it to evaluate while training")
    _units(tree)
    if isinstance(tree.get("policy.reward_model"), Mapping) and not tree.get(
        "policy.reward_model.type"
    ):
        tree.drop("policy.reward_model", "it has no type", "lost")
    for path, value in list(leaves(tree.values)):
        if value == {} and path.count("."):
            tree.pop(path)


def _units(tree: Tree) -> None:
    """What a policy counts: samples or episodes, updates or passes over the samples."""
    if tree.get("policy.cuda") is True:
        tree.note("policy.cuda", "changed", "needs a GPU; without one: policy.cuda=false")
    policy = tree.get("policy.type")
    if policy in _ON_POLICY:
        tree.drop("policy.learn.update_per_collect", "passes over the samples are counted", "lost")
    elif "policy.collect.n_episode" in tree and policy != "pg":
        tree.drop("policy.collect.n_episode", "set policy.collect.n_sample", "lost")
    if policy in ("acer", "impala"):
        tree.drop("policy.nstep", "set by policy.collect.unroll_len")


_STEPS: tuple[Callable[[Tree], None], ...] = (
    _env,
    _env_options,
    _of_type,
    _policy,
    _multi_pass,
    _discount,
    _rates,
    _noise,
    _clipping,
    _optimizer,
    _heads,
    _activation,
    _deviation,
    _buffer,
    offline,
    _windows,
    _tables,
    _shapes,
    _reward_model,
    defaults,
    _values,
)
