"""What DI-engine takes where a config says nothing, if dicore takes something else.

Counted in DI-engine 0.5.3, from the defaults of its policies and networks.
"""

from __future__ import annotations

from dicore_compat.migrate.changes import Tree

__all__ = ["defaults"]

_SIZE = "other.replay_buffer.replay_buffer_size"
_CRITERION = {"learn.criterion": "mse"}
_HEAD = {"model.head_hidden_size_list": "last"}
_Q = {**_CRITERION, **_HEAD, "model.dueling": True}
_QAC = {"model.actor_hidden_size_list": [64, 64], "model.critic_hidden_size_list": [64, 64]}
_VAC = {
    "model.encoder_hidden_size_list": [128, 128, 64],
    "model.actor_head_hidden_size_list": [64],
    "model.critic_head_hidden_size_list": [64],
    "model.share_encoder": True,
    "model.activation": "relu",
}
_ADAM = {"learn.optimizer.type": "adam", "learn.optimizer.eps": 1e-8}
_DDPG = {
    **_QAC,
    "collect.random_collect_size": 25_000,
    "learn.update_per_collect": 1,
    _SIZE: 100_000,
}
_SAC = {
    **_QAC,
    "collect.n_sample": 1,
    "collect.random_collect_size": 10_000,
    "learn.alpha": 0.2,
    "learn.update_per_collect": 1,
    _SIZE: 1_000_000,
}
_R2D2 = {
    **_Q,
    "collect.unroll_len": 80,
    "learn.batch_size": 64,
    "learn.learning_rate": 1e-4,
    "learn.target_theta": 0.001,
    "learn.update_per_collect": 1,
    "other.eps.end": 0.05,
}
_DEFAULTS: dict[str, dict[str, object]] = {
    "a2c": {
        **_VAC, **_ADAM, "collect.gae_lambda": 0.95, "discount_factor": 0.9, "learn.batch_size": 64,
        "learn.entropy_weight": 0.01, "learn.learning_rate": 1e-3,
    },
    "acer": {
        "discount_factor": 0.9, "learn.batch_size": 16, "learn.c_clip": 10.0,
        "learn.entropy_weight": 1e-4, "learn.learning_rate": 5e-4, "learn.update_per_collect": 4,
        _SIZE: 1000,
    },
    "bc": {
        "learn.batch_size": 32, "learn.learning_rate": 1e-5, "learn.optimizer.momentum": 0.9,
        "learn.optimizer.type": "sgd", "learn.optimizer.weight_decay": 1e-4,
    },
    "bcq": {"learn.batch_size": 100, "learn.learning_rate": 3e-4},
    "bdq": {**_CRITERION},
    "c51": {**_HEAD},
    "cql": {**_QAC, "learn.alpha": 0.2, "learn.conservative_weight": 1.0},
    "d4pg": {
        **_DDPG, "model.v_max": 10.0, "model.v_min": -10.0, _SIZE: 1_000_000,
    },
    "ddpg": _DDPG,
    "discrete_sac": _SAC,
    "dqfd": {
        **_Q, "discount_factor": 0.99, "other.replay_buffer.agent.replay_buffer_size": 10_000,
    },
    "dqn": _Q,
    "dt": {"learn.learning_rate": 1e-4},
    "edac": {**_QAC, "learn.alpha": 0.2, "learn.diversity": 0.1},
    "fqf": {
        **_HEAD, "learn.learning_rate": 5e-5, "learn.fraction_learning_rate": 2.5e-9,
    },
    "ibc": {
        "learn.batch_size": 256, "learn.learning_rate": 1e-5, "eval.evaluator.eval_freq": 10_000,
    },
    "impala": {
        **_VAC, "collect.unroll_len": 32, "learn.batch_size": 16, "learn.entropy_weight": 1e-4,
        "learn.learning_rate": 5e-4, "learn.vtrace_lambda": 0.95,
    },
    "iqn": {**_HEAD},
    "mdqn": {**_Q, "collect.n_sample": 4},
    "pdqn": {
        "discount_factor": 0.97, "learn.batch_size": 64, "learn.update_per_collect": 3,
    },
    "pg": {
        "learn.batch_size": 64, "learn.entropy_weight": 0.01, "learn.learning_rate": 1e-3,
        "learn.max_grad_norm": 5.0, "model.encoder_hidden_size_list": [128, 128, 64],
        "model.activation": "relu",
    },
    "ppg": {
        "learn.adv_norm": False, "learn.collect_per_phase": 8, "learn.entropy_weight": 0.01,
        "learn.learning_rate": 1e-3, "learn.max_grad_norm": 10.0,
    },
    "ppo": {
        **_VAC, **_ADAM, "learn.recompute_adv": True, "model.value_norm": True,
    },
    "ppo_offpolicy": {
        **_VAC, **_ADAM, "learn.adv_norm": False, "learn.entropy_weight": 0.01,
        "learn.learning_rate": 1e-3, "learn.update_per_collect": 5, "model.value_norm": True,
        _SIZE: 10_000,
    },
    "qrdqn": {**_HEAD},
    "r2d2": {**_R2D2, "collect.burn_in": 20, "collect.n_sample": 32, _SIZE: 10_000},
    "r2d3": {
        **_R2D2, "collect.burn_in": 2, "other.replay_buffer.agent.replay_buffer_size": 10_000,
    },
    "rainbow": {
        **_HEAD, "discount_factor": 0.99, "learn.batch_size": 32, "learn.update_per_collect": 1,
        "other.eps.start": 0.05, "other.eps.end": 0.05, "other.eps.decay": 100_000, _SIZE: 100_000,
    },
    "sac": _SAC,
    "sqil": {**_Q, "model.temperature": 0.1},
    "sql": {**_Q, "learn.alpha": 0.1, "other.eps.start": 0.95, "other.eps.end": 0.1},
    "sqn": {
        **_Q, "discount_factor": 0.99, "learn.target_entropy": 0.2, "learn.target_theta": 0.005,
        "learn.update_per_collect": 16, "other.eps.start": 1.0, "other.eps.end": 0.8,
        "other.eps.decay": 2000, _SIZE: 100_000,
    },
    "td3": _DDPG,
    "td3_bc": {**_QAC, "learn.learning_rate": 1e-3, "eval.evaluator.eval_freq": 5000},
}  # fmt: skip
"""Values by policy type of DI-engine and path below `policy`."""

_HARD = ("dqn", "c51", "dqfd", "fqf", "iqn", "mdqn", "qrdqn", "rainbow", "sqil", "sql")
"""Their defaults have `target_update_freq`, which comes before `target_theta`."""
_IMAGES = ("atari", "car_racing", "procgen")


def defaults(tree: Tree) -> None:
    """Writes out what DI-engine takes where the config says nothing; a note for each."""
    kind = tree.policy
    if kind in _HARD:
        tree.drop(
            "policy.learn.target_theta",
            f"{kind} of DI-engine copies the network every target_update_freq updates",
        )
    for name, value in _DEFAULTS.get(kind, {}).items():
        path = f"policy.{name}"
        if path in tree or _is_said_otherwise(tree, path):
            continue
        encoder = tree.get("policy.model.encoder_hidden_size_list") or [64]
        taken = encoder[-1:] if value == "last" else value
        tree.put(path, taken)
        tree.note(path, "changed", f"{taken}, the default of DI-engine")


def _is_said_otherwise(tree: Tree, path: str) -> bool:
    """Returns whether the config has the matter of a default elsewhere, or cannot have it."""
    if path.startswith("policy.model."):  # networks for images differ in more than sizes
        return tree.get("env.type") in _IMAGES or "policy.model.type" in tree
    if path.startswith("policy.learn.optimizer."):
        return "policy.learn.optimizer.type" in tree and not path.endswith("eps")
    if path.endswith("learn.update_per_collect"):
        return "policy.learn.update_per_step" in tree
    if path == "policy.learn.learning_rate":
        return "policy.learning_rate" in tree
    if path == f"policy.{_SIZE}":  # not of the buffers `agent` and `demo`
        return "policy.other.replay_buffer.demo" in tree
    if path == "policy.collect.n_sample":
        return "policy.collect.n_episode" in tree or "policy.collect.collector.n_sample" in tree
    return False
