"""What configs of DI-engine say about recorded data: offline training and demonstrations."""

from __future__ import annotations

from dicore_compat.migrate.changes import Tree

__all__ = ["offline"]

_RENAMED = {
    "dqfd": {
        "policy.learn.lambda1": "policy.learn.one_step_weight",
        "policy.learn.lambda2": "policy.learn.margin_weight",
        "policy.learn.lambda3": "policy.learn.weight_decay",
        "policy.learn.margin_function": "policy.learn.margin",
        "policy.learn.expert_replay_buffer_size": (
            "policy.other.replay_buffer.demo.replay_buffer_size"
        ),
    },
    "dt": {
        "policy.context_len": "policy.collect.unroll_len",
        "policy.rtg_target": "policy.eval.target_return",
        "policy.clip_grad_norm_p": "policy.learn.max_grad_norm",
        "policy.wt_decay": "policy.learn.optimizer.weight_decay",
        "policy.model.h_dim": "policy.model.hidden_size",
        "policy.model.n_blocks": "policy.model.num_layers",
        "policy.model.n_heads": "policy.model.num_heads",
        "policy.model.max_timestep": "policy.model.max_timestep",
    },
    "r2d3": {
        "policy.collect.pho": "policy.other.replay_buffer.demo.share",
        "policy.learn.margin_function": "policy.learn.margin",
        "policy.learn.lambda2": "policy.learn.margin_weight",
        "policy.learn.lambda3": "policy.learn.weight_decay",
    },
    "cql": {"policy.learn.min_q_weight": "policy.learn.conservative_weight"},
    "discrete_cql": {
        "policy.learn.min_q_weight": "policy.learn.conservative_weight",
        "policy.min_q_weight": "policy.learn.conservative_weight",
    },
    "edac": {
        "policy.learn.eta": "policy.learn.diversity",
        "policy.model.ensemble_num": "policy.model.num_critics",
    },
}
"""Options with another place, by policy."""

_SAID_ELSEWHERE = {
    "dt": {
        "policy.stop_value": "set by env.stop_value",
        "policy.env_name": "set by env.type",
        "policy.evaluator_env_num": "set by env.evaluator_env_num",
        "policy.num_eval_ep": "set by env.n_evaluator_episode",
        "policy.max_eval_ep_len": "episodes end as the environment says",
        "policy.model.context_len": "set by policy.collect.unroll_len",
        "policy.model.state_dim": "read from the environment",
        "policy.model.act_dim": "read from the environment",
        "policy.state_mean": "observations are used as they are",
        "policy.state_std": "observations are used as they are",
        "policy.weight_decay": "set by policy.learn.optimizer.weight_decay",
        "policy.warmup_steps": "the learning rate is constant",
        "dataset.env_type": "set by env.type",
        "dataset.context_len": "set by policy.collect.unroll_len",
        "policy.rtg_scale": "returns are scaled by those of the data set",
        "dataset.rtg_scale": "returns are scaled by those of the data set",
        "policy.log_dir": "a run has its folder",
    },
}

_PATHS = (
    "policy.collect.data_path",
    "policy.learn.data_path",
    "policy.learn.dataset_path",
    "dataset.data_dir_prefix",
)
_FROM_DATA = [
    "awac",
    "bc",
    "bcq",
    "cql",
    "discrete_bcq",
    "discrete_cql",
    "dt",
    "edac",
    "ibc",
    "iql",
    "td3_bc",
]
_WITH_DEMOS = ["bco", "dqfd", "r2d3", "rbc", "sqil", "sqil_sac"]
_NO_FILE = "data.npz"
_CONTEXT = 20
"""DI-engine's `context_len` of all its configs."""


def offline(tree: Tree) -> None:
    """Moves the options of recorded data and of the algorithms that learn from it."""
    policy = str(tree.get("policy.type", ""))
    if policy not in (*_FROM_DATA, *_WITH_DEMOS):
        return
    for path, reason in _SAID_ELSEWHERE.get(policy, {}).items():
        tree.drop(path, reason)
    if policy == "dt":
        tree.drop("policy.collect.unroll_len", "set by the length of the context")
        tree.drop("policy.nstep", "returns to go are used")
    for old, new in _RENAMED.get(policy, {}).items():
        if old != new:
            tree.move(old, new)
    _buffers(tree, policy)
    tree.drop("policy.learn.train_epoch", "set pipeline.max_train_iter, in updates", "lost")
    _source(tree)
    if policy == "dt":
        tree.put("pipeline.dataset.derived", ["return_to_go", "timestep"])
        length = tree.get("policy.collect.unroll_len", _CONTEXT)
        for path in ("policy.collect.unroll_len", "pipeline.dataset.unroll_len"):
            tree.put(path, length)
    tree.drop("dataset", "pipeline.dataset names a file or a data set", "lost")


def _buffers(tree: Tree, policy: str) -> None:
    """Two buffers, one of which has the demonstrations."""
    size = "policy.other.replay_buffer.replay_buffer_size"
    if policy in _FROM_DATA:
        tree.drop("policy.other.replay_buffer", "batches are drawn from the data set")
    elif size in tree:
        tree.move(size, "policy.other.replay_buffer.agent.replay_buffer_size")
    for name in ("type", "alpha", "beta", "max_use", "enable_track_used_data"):
        tree.drop(f"policy.other.replay_buffer.{name}", "set it for agent or demo", "lost")
    kind = {"r2d3": "advanced", "sqil": "naive", "sqil_sac": "naive"}.get(policy)
    for role in ("agent", "demo") if kind and "policy.other.replay_buffer" in tree else ():
        tree.put(f"policy.other.replay_buffer.{role}.type", kind)


def _source(tree: Tree) -> None:
    """The file of the data set."""
    given = ""
    for path in _PATHS:
        value = tree.pop(path) if path in tree else None
        if isinstance(value, str) and ("/" in value or "." in value):
            given = given or value
            tree.note(path, "moved", f"pipeline.dataset.path = {value}")
    if not given:
        given = _NO_FILE
        tree.note(
            "pipeline.dataset.path",
            "changed",
            f"{given}: name a file of dicore collect, a .npz or .hdf5, or a data set of Minari",
        )
    tree.put("pipeline.dataset.path", given)
