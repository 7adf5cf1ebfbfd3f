"""Makes a dicore config of an entry of rl-zoo3's hyper-parameter files (Stable-Baselines3)."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dicore.errors import ConfigError, DicoreError, UsageError
from dicore_compat.migrate.changes import Change, Tree
from dicore_compat.migrate.sb3_defaults import DEFAULTS, ENVS, OFF_POLICY, ON_POLICY
from dicore_registry.explain import brief, nearest
from dicore_tools.config_formats.text_files import read_yaml

__all__ = ["convert_entry", "entries"]

_NAMES = {
    "buffer_size": "policy.other.replay_buffer.replay_buffer_size",
    "learning_starts": "policy.collect.random_collect_size",
    "batch_size": "policy.learn.batch_size",
    "gamma": "policy.discount_factor",
    "gae_lambda": "policy.collect.gae_lambda",
    "n_epochs": "policy.learn.epoch_per_collect",
    "ent_coef": "policy.learn.entropy_weight",
    "vf_coef": "policy.learn.value_weight",
    "max_grad_norm": "policy.learn.max_grad_norm",
    "normalize_advantage": "policy.learn.adv_norm",
    "target_kl": "policy.learn.target_kl",
    "top_quantiles_to_drop_per_net": "policy.learn.top_quantiles_to_drop",
    "sde_sample_freq": "policy.collect.sde_sample_freq",
    "policy_delay": "policy.learn.actor_update_freq",
    "n_envs": "env.collector_env_num",
    "n_timesteps": "pipeline.max_env_step",
}
"""Options that are the same under another name."""

_HANDLED = frozenset(
    [
        "policy_kwargs",
        "learning_rate",
        "clip_range",
        "n_steps",
        "train_freq",
        "gradient_steps",
        "tau",
        "net_arch",
        "target_update_interval",
        "exploration_fraction",
        "exploration_final_eps",
        "frame_stack",
        "env_wrapper",
        "exploration_initial_eps",
        "noise_type",
        "noise_std",
        "use_sde",
        "use_rms_prop",
        "normalize",
        "ent_coef",
        "replay_buffer_class",
        "replay_buffer_kwargs",
    ]
)
"""Options that take more than a new name."""

_IGNORED = {
    "policy": "the model is chosen by the observations",
    "optimize_memory_usage": "next observations are never stored twice",
    "device": "set policy.cuda",
}


def entries(file: Path) -> dict[str, dict[str, object]]:
    """Returns the entries of a hyper-parameter file by environment.

    Raises:
        ConfigError: the file is no YAML of that form.
    """
    tree = read_yaml(file)
    if not isinstance(tree, Mapping) or not all(isinstance(e, Mapping) for e in tree.values()):
        raise ConfigError(
            f"{file}: not a file of hyper-parameters",
            hint="it has one entry per environment: CartPole-v1: {n_timesteps: 50000, …}",
        )
    return {str(name): dict(entry) for name, entry in tree.items()}


def convert_entry(
    file: Path, env_id: str, algorithm: str | None = None
) -> tuple[dict[str, object], list[Change]]:
    """Converts the entry of an environment.

    Args:
        file: A hyper-parameter file, such as `ppo.yml`.
        env_id: Name of the entry: a Gymnasium id, or `atari`.
        algorithm: Algorithm of Stable-Baselines3; None: the name of the file.

    Returns:
        A config with all options that the algorithm has in Stable-Baselines3, its defaults too, and
        all differences.

    Raises:
        ConfigError: the file cannot be read, or values of the entry are not those of such files.
        UsageError: there is no such entry, or dicore has no such algorithm.
    """
    name = algorithm or file.stem
    if name not in DEFAULTS:
        raise UsageError(
            f"{file}: dicore has no counterpart of '{name}'",
            hint=f"known: {', '.join(DEFAULTS)}; name the algorithm: --policy ppo",
        )
    every = entries(file)
    if env_id not in every:
        raise UsageError(f"{file}: no entry '{env_id}'; {nearest(env_id, every)}")
    entry = {**DEFAULTS[name], **every.get("default", {}), **every[env_id]}
    entry = {key: _number(value) for key, value in entry.items()}
    if wrong := [f"{file}: {env_id}.{problem}" for problem in _problems(entry, DEFAULTS[name])]:
        raise ConfigError(wrong)
    tree = Tree({"policy": {"type": "ppo" if name == "ppo_lstm" else name}})
    try:
        _Entry(tree, name, entry).convert(env_id)
    except DicoreError:
        raise
    except Exception as error:  # values of any type
        raise ConfigError(f"{file}: {env_id}: not such an entry: {brief(error)}") from error
    return tree.values, tree.changes


_COUNTS = ("n_envs", "n_steps", "n_timesteps", "train_freq", "batch_size", "gradient_steps")
_TEXTS = {
    "learning_rate": ("lin_",),
    "clip_range": ("lin_",),
    "ent_coef": ("auto_", "auto"),
}
"""What may stand before or instead of a number."""


def _problems(entry: Mapping[str, Any], defaults: Mapping[str, object]) -> Iterator[str]:
    """Yields what is wrong with the values of an entry."""
    for key, value in entry.items():
        default = defaults.get(key, 1 if key in (*_COUNTS, "noise_std") else None)
        problem: str | None = None
        if isinstance(default, bool):
            problem = None if isinstance(value, bool) else "expected true or false"
        elif isinstance(default, list):
            sizes = [*value.values()] if isinstance(value, Mapping) else [value]
            whole = all(isinstance(each, list) for each in sizes)
            problem = None if whole else "expected a list of layer sizes"
        elif default is not None and not (key == "train_freq" and isinstance(value, list)):
            problem = _number_problem(key, value)
        if problem:
            yield f"{key}: {problem}, got {value!r}"


def _number_problem(key: str, value: Any) -> str | None:
    """Returns what is wrong with a number, which may be a schedule or `auto`."""
    number = value
    for text in _TEXTS.get(key, ()):
        if isinstance(number, str) and number.startswith(text):
            number = _number(number.removeprefix(text) or "0")
    if isinstance(number, bool) or not isinstance(number, int | float):
        return "expected a number"
    if not math.isfinite(number):
        return "expected a finite number"
    least = -1 if key == "gradient_steps" else 1
    return f"must be >= {least}" if key in _COUNTS and (number < least or not number) else None


class _Entry:
    """One entry under conversion."""

    def __init__(self, tree: Tree, algorithm: str, entry: Mapping[str, Any]) -> None:
        self.tree, self.algorithm = tree, algorithm
        self.entry = dict(entry)

    def convert(self, env_id: str) -> None:
        """Writes all of it to the tree."""
        self._env(env_id)
        for key, path in _NAMES.items():
            if key in self.entry:
                self.tree.put(path, self._whole(key))
        steps: list[Callable[[], None]] = [self._network, self._rates, self._exploration]
        steps.append(self._on_policy if self.algorithm in ON_POLICY else self._off_policy)
        for step in steps:
            step()
        for key, value in self.entry.items():
            if key in _IGNORED:
                self.tree.note(key, "dropped", _IGNORED[key])
            elif key not in _NAMES and key not in _HANDLED:
                self.tree.note(key, "lost", f"dicore has nothing for it (was {value})")
        if self.algorithm in ("sac", "tqc", "crossq"):
            self._temperature()

    def _whole(self, key: str) -> object:
        value = self.entry[key]
        return (
            int(value) if isinstance(value, float) and value.is_integer() and value > 1 else value
        )

    def _env(self, env_id: str) -> None:
        known = ENVS.get(env_id.partition("-v")[0])
        if known is None:
            self.tree.put("env", {"type": "gymnasium", "env_id": env_id})
            self.tree.put("env.n_evaluator_episode", 10)
            self.tree.put("env.stop_value", float("inf"))
            self.tree.note("env", "changed", f"any Gymnasium id ({env_id}), no stop value")
        else:
            self.tree.put("env.type", known)
        for key in ("env_wrapper", "frame_stack"):
            if key in self.entry and known not in ("atari", "pong", "breakout"):
                self.tree.note(key, "lost", f"{self.entry[key]}: name it in env.env_wrapper")

    def _network(self) -> None:
        kwargs = self._kwargs()
        sizes = kwargs.pop("net_arch", self.entry.get("net_arch"))
        places = {"actor": "actor_hidden_size_list", "critic": "critic_hidden_size_list"}
        if self.algorithm not in ("sac", "td3", "ddpg", "tqc", "crossq"):
            places = {"actor": "encoder_hidden_size_list"}
        for role, place in places.items():
            sizes_of = sizes
            if isinstance(sizes, Mapping):
                sizes_of = sizes.get({"actor": "pi", "critic": "qf"}[role])
                if role == "actor" and sizes.get("vf", sizes_of) != sizes_of:
                    self.tree.note("policy_kwargs.net_arch.vf", "lost", "as large as the actor")
            if sizes_of is not None:
                self.tree.put(f"policy.model.{place}", list(sizes_of))
        if self.algorithm == "ppo_lstm":
            self.tree.put("policy.model.rnn", "lstm")
            if "lstm_hidden_size" in kwargs:
                self.tree.put("policy.model.rnn_hidden_size", kwargs.pop("lstm_hidden_size"))
        self._network_options(kwargs)

    def _network_options(self, kwargs: dict[str, object]) -> None:
        names = {
            "log_std_init": "policy.model.log_std_init",
            "n_critics": "policy.model.num_critics",
            "n_quantiles": "policy.model.num_quantiles",
            "activation_fn": "policy.model.activation",
        }
        for key, value in kwargs.items():
            if key == "ortho_init" and value:
                reason = "the initial weights are orthogonal"
                self.tree.note(f"policy_kwargs.{key}", "dropped", reason)
            elif key == "ortho_init":
                self.tree.put("policy.model.initial_weights", "uniform")
            elif key in names:
                self.tree.put(names[key], value)
            else:
                self.tree.note(f"policy_kwargs.{key}", "lost", f"dicore has nothing for {value}")

    def _kwargs(self) -> dict[str, Any]:
        """Returns `policy_kwargs`, which the files hold as the text of a call of dict."""
        given = self.entry.get("policy_kwargs", {})
        if isinstance(given, Mapping):
            return dict(given)
        try:
            call = ast.parse(str(given).strip(), mode="eval").body
            assert isinstance(call, ast.Call)
            return {str(each.arg): _value(each.value) for each in call.keywords}
        except (SyntaxError, ValueError, AssertionError) as error:
            raise ConfigError(f"policy_kwargs: not a call of dict: {given}") from error

    def _rates(self) -> None:
        rate, falls = _schedule(self.entry["learning_rate"])
        self.tree.put("policy.learn.learning_rate", rate)
        if falls and self.algorithm in ON_POLICY:
            self.tree.put("policy.learn.learning_rate_end", 0.0)
            self.tree.put("policy.learn.anneal", int(self.entry["n_timesteps"]))
        elif falls:
            self.tree.note("learning_rate", "lost", f"constant {rate}: no linear schedule")
        if "clip_range" in self.entry:
            clip, falls = _schedule(self.entry["clip_range"])
            self.tree.put("policy.learn.clip_ratio", clip)
            if falls:
                self.tree.put("policy.learn.clip_ratio_end", 0.0)
                self.tree.put("policy.learn.anneal", int(self.entry["n_timesteps"]))

    def _on_policy(self) -> None:
        envs, steps = int(self.entry["n_envs"]), int(self.entry["n_steps"])
        self.tree.put("policy.collect.n_sample", envs * steps)
        if self.algorithm == "ppo_lstm":  # samples and batches count sequences
            self.tree.put("policy.collect.n_sample", envs)
            self.tree.put("policy.collect.unroll_len", steps)
            batch = max(1, round(int(self.entry["batch_size"]) / steps))
            self.tree.put("policy.learn.batch_size", batch)
            self.tree.note("batch_size", "changed", f"{batch} sequences of {steps} steps")
        optimizer = {"type": "rmsprop", "alpha": 0.99, "eps": 1e-5}
        if self.algorithm != "a2c" or not self.entry.get("use_rms_prop", True):
            optimizer = {"type": "adam", "eps": 1e-5}
        self.tree.put("policy.learn.optimizer", optimizer)
        self.tree.put("policy.model.activation", self.tree.get("policy.model.activation", "tanh"))
        obs, rewards = self._normalized()
        if obs:
            self.tree.put("policy.model.obs_norm", True)
            self.tree.note("normalize", "changed", "policy.model.obs_norm")
        if rewards:
            norm = {"type": "reward_norm", "reward_discount": self.entry["gamma"]}
            self.tree.put("env.env_wrapper", [norm])
            text = "env.env_wrapper reward_norm: each env by statistics of its own, not clipped"
            self.tree.note("normalize", "changed", text)
        if self.entry.get("use_sde"):
            self.tree.note("use_sde", "lost", "noise of each step; gSDE is for sac and tqc")
            self.tree.pop("policy.collect.sde_sample_freq")

    def _normalized(self) -> tuple[bool, bool]:
        """Returns whether observations and rewards are normalised: `True`, or a dict as text."""
        given = self.entry.get("normalize", False)
        if isinstance(given, str):
            try:
                given = _value(ast.parse(given.strip(), mode="eval").body)
            except (SyntaxError, ValueError) as error:
                raise ConfigError(f"normalize: neither a bool nor a dict: {given}") from error
        if not isinstance(given, Mapping):
            return bool(given), bool(given)
        return bool(given.get("norm_obs", True)), bool(given.get("norm_reward", True))

    def _off_policy(self) -> None:
        freq, steps = self.entry["train_freq"], int(self.entry["gradient_steps"])
        if isinstance(freq, list) and freq[1:] == ["step"]:
            freq = freq[0]
        elif isinstance(freq, list):
            self.tree.note("train_freq", "lost", f"updates after each env step, not each {freq}")
            freq, steps = 1, 1
        count = int(freq) * int(self.entry.get("n_envs", 1))
        self.tree.put("env.collector_env_num", int(self.entry.get("n_envs", 1)))
        self.tree.put("policy.collect.n_sample", count)
        self.tree.put("policy.learn.update_per_collect", count if steps < 0 else steps)
        tau = self.entry["tau"]
        interval = self.entry.get("target_update_interval", 1)
        if self.algorithm in OFF_POLICY["value"]:
            each = max(1, round(interval * (count if steps < 0 else steps) / count))
            self.tree.put("policy.learn.target_theta", None if tau == 1 else tau)
            self.tree.put("policy.learn.target_update_freq", each)
        elif "tau" in self.entry and self.algorithm != "crossq":
            self.tree.put("policy.learn.target_theta", tau)
        if self.entry.get("use_sde") and self.algorithm == "crossq":
            self.tree.note("use_sde", "lost", "noise of each step: no gSDE with crossq")
        elif self.entry.get("use_sde"):
            self.tree.put("policy.model.gsde", True)
        if "Her" in str(self.entry.get("replay_buffer_class", "")):
            self._hindsight()
        elif "replay_buffer_class" in self.entry:
            self.tree.note("replay_buffer_class", "dropped", "named by the algorithm")
        names = ("observations", "rewards")
        if off := [each for each, on in zip(names, self._normalized(), strict=True) if on]:
            text = f"{' and '.join(off)} are not normalised"
            self.tree.note("normalize", "lost", text)

    def _hindsight(self) -> None:
        """Hindsight experience replay: a reward model here, which draws from whole episodes."""
        given = self.entry.get("replay_buffer_kwargs", {})
        if isinstance(given, str):
            try:
                given = _value(ast.parse(given.strip(), mode="eval").body)
            except (SyntaxError, ValueError) as error:
                raise ConfigError(f"replay_buffer_kwargs: not a call of dict: {given}") from error
        strategy = str(given.get("goal_selection_strategy", "future")).lower()
        her = {"type": "her", "strategy": strategy, "replay_k": given.get("n_sampled_goal", 4)}
        self.tree.put("policy.reward_model", her)
        self.tree.put("policy.other.replay_buffer.type", "episode")
        steps = int(self.tree.get("policy.other.replay_buffer.replay_buffer_size", 1_000_000))
        self.tree.put("policy.other.replay_buffer.replay_buffer_size", max(1, steps // 100))
        text = f"policy.reward_model=her; {max(1, steps // 100)} episodes, not {steps} env steps"
        self.tree.note("replay_buffer_class", "changed", text)

    def _exploration(self) -> None:
        if "exploration_fraction" in self.entry:
            decay = int(self.entry["exploration_fraction"] * self.entry["n_timesteps"])
            eps = {"start": self.entry.get("exploration_initial_eps", 1.0)}
            eps |= {"end": self.entry["exploration_final_eps"], "decay": max(decay, 1)}
            self.tree.put("policy.other.eps", {"type": "linear", **eps})
        if self.algorithm in ("td3", "ddpg"):
            self.tree.put("policy.collect.noise", float(self.entry.get("noise_std", 0.0)))
            if self.entry.get("noise_type", "normal") != "normal":
                kind = self.entry["noise_type"]
                self.tree.note("noise_type", "lost", f"normal noise, not {kind}")

    def _temperature(self) -> None:
        _, _, first = str(self.entry["ent_coef"]).rpartition("auto")
        self.tree.pop("policy.learn.entropy_weight")
        self.tree.put("policy.learn.auto_alpha", "auto" in str(self.entry["ent_coef"]))
        if first := first.removeprefix("_"):
            self.tree.put("policy.learn.alpha", float(first))


def _number(value: Any) -> object:
    """Returns a number that YAML 1.1 reads as text (`1e6`), else the value."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _schedule(value: Any) -> tuple[float, bool]:
    """Returns the first value of a schedule, and whether it falls linearly to zero."""
    if isinstance(value, str) and value.startswith("lin_"):
        return float(value.removeprefix("lin_")), True
    return float(value), False


def _value(node: ast.expr) -> object:
    """Returns a literal, a dict call, or the last name of a dotted name in lower case."""
    if isinstance(node, ast.Attribute | ast.Name):
        return (node.attr if isinstance(node, ast.Attribute) else node.id).lower()
    if isinstance(node, ast.Call):
        return {str(each.arg): _value(each.value) for each in node.keywords}
    return ast.literal_eval(node)
