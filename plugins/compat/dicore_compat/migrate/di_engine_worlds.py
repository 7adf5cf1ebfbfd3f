"""What configs of DI-engine say about world models: `dreamer`, `mbsac`, `stevesac`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dicore.errors import ConfigError
from dicore_compat.migrate.changes import Tree

__all__ = ["worlds"]

_WITHOUT = {
    "mbsac": "SAC with gradients of values through rollouts of its world model",
    "stevesac": "SAC with values expanded by an ensemble of world models (STEVE)",
}
_MODELS = {
    "ddppo": "a world model whose gradients are learned",
}
_MOVED = {
    "policy.imag_horizon": "policy.learn.horizon",
    "policy.learn.lambda_": "policy.learn.td_lambda",
    "policy.learn.batch_length": "policy.other.replay_buffer.unroll_len",
    "policy.learn.discount": "policy.discount_factor",
    "policy.learn.learning_rate": "policy.learn.behaviour_learning_rate",
    "policy.learn.grad_clip": "policy.learn.behaviour_max_grad_norm",
    "policy.learn.slow_target_fraction": "policy.learn.target_theta",
    "policy.learn.actor_entropy": "policy.learn.entropy_weight",
    "world_model.model.model_lr": "policy.learn.learning_rate",
    "world_model.model.grad_clip": "policy.learn.max_grad_norm",
    "world_model.model.kl_rscale": "policy.learn.dynamics_weight",
    "world_model.model.kl_lscale": "policy.learn.representation_weight",
    "world_model.model.kl_free": "policy.learn.free_nats",
    "world_model.model.dyn_deter": "policy.model.deter",
    "world_model.model.dyn_stoch": "policy.model.groups",
    "world_model.model.dyn_discrete": "policy.model.classes",
    "world_model.model.units": "policy.model.units",
    "world_model.model.cnn_depth": "policy.model.cnn_depth",
}
_SAID_ELSEWHERE = {
    "policy.learn.imag_sample": "imagined actions are always drawn",
    "policy.learn.reward_EMA": "advantages are always divided by the range of returns",
    "policy.learn.slow_value_target": "the critic is always kept near a slow one",
    "policy.learn.slow_target_update": "the slow critic moves in every update",
    "policy.collect.unroll_len": "set by policy.other.replay_buffer.unroll_len",
    "policy.collect.action_size": "read from the environment",
    "policy.collect.collect_dyn_sample": "the latent states of acting are always stored",
    "policy.model.actor_dist": "set by the actions of the environment",
    "policy.other.replay_buffer.type": "the buffer that the policy needs is chosen",
    "world_model.cuda": "set by policy.cuda",
    "world_model.model.batch_size": "set by policy.learn.batch_size",
    "world_model.model.actor_dist": "set by the actions of the environment",
}
_READ = ("state_size", "obs_type", "action_size", "action_type", "reward_size", "device")
_OF_IMAGES = ("warp_frame", "scale", "resize", "frame_stack", "channels_first", "height", "width")


def worlds(tree: Tree) -> None:
    """Moves the options of `dreamer` and of its world model; refuses what dicore has not.

    Raises:
        ConfigError: the policy or the world model has no counterpart.
    """
    kind = str(tree.get("policy.type", "")).removesuffix("_command")
    created = "policy.world_model"  # where a create config's is put
    model = tree.get(f"{created}.type", tree.get("world_model.type"))
    problem = next(_problems(kind, model), None)
    if problem is not None:
        raise ConfigError([problem], hint="choose policy 'mbpo', 'dreamer' or 'tdmpc2'")
    if kind != "dreamer":
        return
    for old, new in _MOVED.items():
        tree.move(old, new)
    for path, reason in _SAID_ELSEWHERE.items():
        tree.drop(path, reason)
    for name in _READ:
        tree.drop(f"world_model.model.{name}", "read from the environment")
    every: Any = tree.pop("world_model.train_freq")
    if every is not None:
        if isinstance(every, bool) or not isinstance(every, int | float) or every <= 0:
            raise ConfigError([f"world_model.train_freq: expected a number above 0, got {every!r}"])
        tree.pop("policy.learn.update_per_collect")
        tree.put("policy.learn.update_per_step", 1 / every)
        tree.note("world_model.train_freq", "moved", f"policy.learn.update_per_step = {1 / every}")
    tree.drop("world_model.pretrain", "training begins with the first batch", "lost")
    left = tree.get("world_model.model")
    for name in [*left] if isinstance(left, Mapping) else []:
        tree.drop(f"world_model.model.{name}", "as in the paper of DreamerV3", "lost")
    for place in ("world_model", created):
        tree.drop(place, "the world model is the network of the policy")
    _env(tree)


def _problems(policy: str, model: object) -> Iterator[str]:
    """Yields what of a config has no counterpart."""
    if policy in _WITHOUT:
        yield f"policy.type: '{policy}' is {_WITHOUT[policy]}, which dicore has not"
    elif model in _MODELS:
        yield f"world_model.type: '{model}' is {_MODELS[str(model)]}, which dicore has not"


def _env(tree: Tree) -> None:
    """Tasks of `dmc2gym`, of which dicore has the numbers, not the images."""
    if tree.get("env.type") != "dmc2gym":
        return
    domain, task = (str(tree.pop(f"env.{name}") or "") for name in ("domain_name", "task_name"))
    tree.put("env.type", "dm_control")
    tree.note("env.type", "changed", "dm_control (was dmc2gym)")
    if domain and task:
        new = f"dm_control/{domain}-{task}-v0"
        tree.put("env.env_id", new)
        tree.note("env.env_id", "changed", f"{new}, of env.domain_name and env.task_name")
    repeat = tree.pop("env.action_repeat") or tree.pop("env.frame_skip") or 1
    tree.pop("env.frame_skip")
    if repeat != 1:
        tree.put("env.env_wrapper", [{"type": "action_repeat", "action_repeat": repeat}])
        tree.note("env.action_repeat", "moved", f"env.env_wrapper: action_repeat of {repeat} steps")
    if tree.pop("env.from_pixels"):
        tree.note("env.from_pixels", "lost", "observations are vectors; images: an own environment")
    for name in _OF_IMAGES:
        tree.drop(f"env.{name}", "of images")
    if tree.pop("env.clip_rewards"):
        tree.note(
            "env.clip_rewards", "lost", "rewards are not clipped; see the wrapper clip_reward"
        )
