"""Words of other libraries for options of dicore: Stable-Baselines3, CleanRL, RLlib, tianshou."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from click import NoSuchOption

__all__ = ["meant_flag", "meant_option", "unit_of_word"]

_LEARN, _COLLECT = "policy.learn.", "policy.collect."
_BUFFER = "policy.other.replay_buffer."

_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "gamma": ("policy.discount_factor",),
    "discount": ("policy.discount_factor",),
    "lr": (f"{_LEARN}learning_rate",),
    "learning_rate": (f"{_LEARN}learning_rate",),
    "policy_lr": (f"{_LEARN}learning_rate",),
    "actor_lr": (f"{_LEARN}learning_rate",),
    "q_lr": (f"{_LEARN}learning_rate",),
    "critic_lr": (f"{_LEARN}learning_rate",),
    **dict.fromkeys(
        ("anneal_lr", "lr_schedule", "lr_scheduler", "lr_decay", "learning_rate_schedule"),
        (f"{_LEARN}learning_rate_end",),
    ),
    "callback": (f"{_LEARN}learner.hook",),
    "callbacks": (f"{_LEARN}learner.hook",),
    "policy_kwargs": ("policy.model",),
    "model_kwargs": ("policy.model",),
    "n_envs": ("env.collector_env_num",),
    "num_envs": ("env.collector_env_num",),
    "num_env_runners": ("env.collector_env_num",),
    "num_workers": ("env.collector_env_num",),
    "training_num": ("env.collector_env_num",),
    "test_num": ("env.evaluator_env_num",),
    "n_epochs": (f"{_LEARN}epoch_per_collect", f"{_LEARN}update_per_collect"),
    "update_epochs": (f"{_LEARN}epoch_per_collect",),
    "num_epochs": (f"{_LEARN}epoch_per_collect",),
    "num_sgd_iter": (f"{_LEARN}epoch_per_collect",),
    "repeat_per_collect": (f"{_LEARN}epoch_per_collect",),
    "gradient_steps": (f"{_LEARN}update_per_collect",),
    "update_per_step": (f"{_LEARN}update_per_step",),
    "batch_size": (f"{_LEARN}batch_size",),
    "minibatch_size": (f"{_LEARN}batch_size",),
    "num_minibatches": (f"{_LEARN}batch_size",),
    "train_batch_size": (f"{_COLLECT}n_sample",),
    "n_steps": (f"{_COLLECT}n_sample",),
    "num_steps": (f"{_COLLECT}n_sample",),
    "train_freq": (f"{_COLLECT}n_sample",),
    "train_frequency": (f"{_COLLECT}n_sample",),
    "step_per_collect": (f"{_COLLECT}n_sample",),
    "rollout_fragment_length": (f"{_COLLECT}n_sample",),
    "learning_starts": (f"{_COLLECT}random_collect_size",),
    "start_timesteps": (f"{_COLLECT}random_collect_size",),
    "gae_lambda": (f"{_COLLECT}gae_lambda",),
    "lambda": (f"{_COLLECT}gae_lambda",),
    "ent_coef": (f"{_LEARN}entropy_weight", f"{_LEARN}alpha"),
    "entropy_coeff": (f"{_LEARN}entropy_weight", f"{_LEARN}alpha"),
    "alpha": (f"{_LEARN}alpha",),
    "autotune": (f"{_LEARN}auto_alpha",),
    "target_entropy": (f"{_LEARN}target_entropy",),
    "vf_coef": (f"{_LEARN}value_weight",),
    "vf_loss_coeff": (f"{_LEARN}value_weight",),
    "clip_range": (f"{_LEARN}clip_ratio",),
    "clip_coef": (f"{_LEARN}clip_ratio",),
    "clip_param": (f"{_LEARN}clip_ratio",),
    "eps_clip": (f"{_LEARN}clip_ratio",),
    "max_grad_norm": (f"{_LEARN}max_grad_norm",),
    "grad_clip": (f"{_LEARN}max_grad_norm",),
    "normalize_advantage": (f"{_LEARN}adv_norm",),
    "norm_adv": (f"{_LEARN}adv_norm",),
    "target_kl": (f"{_LEARN}target_kl",),
    "tau": (f"{_LEARN}target_theta",),
    "polyak": (f"{_LEARN}target_theta",),
    "target_update_interval": (f"{_LEARN}target_update_freq",),
    "target_network_frequency": (f"{_LEARN}target_update_freq",),
    "target_network_update_freq": (f"{_LEARN}target_update_freq",),
    "policy_delay": (f"{_LEARN}actor_update_freq",),
    "policy_frequency": (f"{_LEARN}actor_update_freq",),
    "buffer_size": (f"{_BUFFER}replay_buffer_size",),
    "capacity": (f"{_BUFFER}replay_buffer_size",),
    "replay_size": (f"{_BUFFER}replay_buffer_size",),
    "exploration_fraction": ("policy.other.eps.decay",),
    "exploration_initial_eps": ("policy.other.eps.start",),
    "exploration_final_eps": ("policy.other.eps.end",),
    "start_e": ("policy.other.eps.start",),
    "end_e": ("policy.other.eps.end",),
    "exploration_noise": (f"{_COLLECT}noise",),
    "net_arch": ("policy.model.encoder_hidden_size_list", "policy.model.actor_hidden_size_list"),
    "hidden_sizes": (
        "policy.model.encoder_hidden_size_list", "policy.model.actor_hidden_size_list",
    ),
    "fcnet_hiddens": (
        "policy.model.encoder_hidden_size_list", "policy.model.actor_hidden_size_list",
    ),
    "activation_fn": ("policy.model.activation",),
    "use_sde": ("policy.model.gsde",),
    "prioritized_replay": ("policy.priority",),
    **dict.fromkeys(
        (
            "steps", "total_steps", "max_steps", "env_steps", "num_env_steps", "timesteps",
            "n_timesteps", "num_timesteps", "total_timesteps", "max_timesteps",
            "episodes", "num_episodes", "max_episodes",
        ),
        ("pipeline.max_env_step",),
    ),
    **dict.fromkeys(
        ("iterations", "num_iterations", "train_steps", "updates", "num_updates"),
        ("pipeline.max_train_iter",),
    ),
    "n_eval_episodes": ("env.n_evaluator_episode",),
    "eval_episodes": ("env.n_evaluator_episode",),
    "evaluation_duration": ("env.n_evaluator_episode",),
    "evaluation_interval": ("policy.eval.evaluator.eval_freq",),
    "eval_freq": ("policy.eval.evaluator.eval_freq",),
    "reward_threshold": ("env.stop_value",),
    "stop_reward": ("env.stop_value",),
    "device": ("policy.cuda",),
    "cuda": ("policy.cuda",),
    "gpu": ("policy.cuda",),
    "no_cuda": ("policy.cuda",),
    "num_gpus": ("policy.cuda",),
    **dict.fromkeys(("env_id", "environment", "enviroment", "env_name"), ("env",)),
    "algo": ("policy",),
    "algorithm": ("policy",),
    "agent": ("policy",),
    "env_kwargs": ("env.make_kwargs",),
    "env_config": ("env.make_kwargs",),
    "normalize": ("env.env_wrapper",),
    **dict.fromkeys(("max_episode_steps", "time_limit", "horizon"), ("env.env_wrapper",)),
    "frame_stack": ("env.env_wrapper",),
    "track": ("pipeline.logger",),
    "wandb": ("pipeline.logger",),
    "tensorboard_log": ("pipeline.logger",),
    "wandb_project_name": ("pipeline.logger",),
    "exp_name": ("exp_name",),
    **dict.fromkeys(
        ("data", "dataset", "data_path", "dataset_path", "expert_data", "expert_path", "demo"),
        ("pipeline.dataset.path", "pipeline.dataset"),
    ),
}  # fmt: skip


_VIDEOS: Final = ("capture_video", "record_video", "save_video", "video")
_SCREENS: Final = ("render", "render_mode", "show", "human")
_CHECKPOINTS: Final = ("checkpoint", "ckpt", "model", "weights", "model_path")
_FORMATS: Final = ("onnx", "torchscript", "jit", "format")
_OF_ALL: Final = "counts the steps of all environments together"
_UPDATES: Final = "counts updates, not env steps"
_UNITS: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("n_steps", "num_steps", "train_freq", "train_frequency", "rollout_fragment_length"),
        _OF_ALL,
    ),
    **dict.fromkeys(
        ("target_update_interval", "target_network_frequency", "target_network_update_freq"),
        _UPDATES,
    ),
    "eval_freq": f"{_UPDATES}; policy.eval.evaluator.eval_env_step: env steps",
    "evaluation_interval": _UPDATES,
    "exploration_fraction": "is a length in env steps, not a share of the budget",
    "num_minibatches": "is the size of a minibatch, not the number of them",
    **dict.fromkeys(
        ("anneal_lr", "lr_schedule", "lr_scheduler", "lr_decay", "learning_rate_schedule"),
        "is the share of the rate that is left at the end",
    ),
    **dict.fromkeys(
        ("max_episode_steps", "time_limit", "horizon"),
        "takes [{type: time_limit, max_episode_steps: N}]",
    ),
    "no_cuda": "is true for a GPU",
    "num_gpus": "is true for a GPU",
    **dict.fromkeys(("episodes", "num_episodes", "max_episodes"), "counts env steps"),
}


def unit_of_word(word: str) -> str:
    """Returns what the option of `meant_option` counts where the other library counts another.

    Args:
        word: As for `meant_option`.

    Returns:
        The end of a sentence that names the option; "" if both take the same values.
    """
    unit = _UNITS.get(_plain(word))
    return f", which {unit}" if unit else ""


def meant_option(word: str, paths: Container[str] | None = None) -> str:
    """Returns the path of the option that another library calls by this word; "" if none does.

    Args:
        word: The last key of what was written, with `-` or `_`.
        paths: The options that there are; None: all that policies have.
    """
    found = _WORDS.get(_plain(word), ())
    return next((path for path in found if paths is None or path in paths), "")


def meant_flag(error: NoSuchOption) -> str:
    """Returns the end of a message about an unknown option of a command: what may be meant.

    Args:
        error: Names the option, the command, and options of a near spelling.

    Returns:
        An argument or an option of the command, or an option of the config; "" if none is near.
    """
    word, path = error.option_name, meant_option(error.option_name)
    if _plain(word) in _VIDEOS:
        return "; dicore eval RUN --replay-path DIR records videos"
    if _plain(word) in _FORMATS:
        return "; the ending of -o FILE tells the format: .onnx, .pt2 or .ts"
    if "." in word.strip("-"):
        return f"; write {word.lstrip('-')}=VALUE"
    if _plain(word) in _SCREENS:
        return "; dicore enjoy RUN shows a policy in a window"
    close = next(iter(error.possibilities or ()), "")
    flags = {each.name: each.opts for each in error.ctx.command.params} if error.ctx else {}
    if error.ctx and [word.lstrip("-")] in flags.values():  # an argument
        return f"; write {error.ctx.command_path} {word.lstrip('-').upper()}"
    if _plain(word) in _CHECKPOINTS and "load_path" in flags:
        return "; write --load-path CKPT"
    own = flags.get(path.rpartition(".")[2])
    if path and own is None and not path.startswith("pipeline.max_"):  # of trainings
        return f"; write {path}=VALUE{unit_of_word(word)}"
    own = own or next((each for each in flags.values() if close in each), [close])
    close = next((flag for flag in own if flag.startswith("--")), close)
    return f"; did you mean '{close}'?" if close else ""


def _plain(word: str) -> str:
    return word.lower().lstrip("-").replace("-", "_")
