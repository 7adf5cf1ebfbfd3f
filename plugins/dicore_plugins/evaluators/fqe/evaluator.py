"""Fitted Q evaluation: the return of a policy, estimated from recorded steps alone.

Le et al. 2019, arXiv:1903.08738; Paine et al. 2020, arXiv:2007.09055. A Q network is fitted to

    y = r + gamma (1 - done) Q'(s', pi(s'))

over the data set, pi being the policy that is evaluated. The estimate is the mean of Q(s, pi(s))
over the first states of the recorded episodes: a discounted return. It compares policies; its value
is as good as the data covers what the policy does.

Shapes: B samples, E episodes, `...` one item.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.config.compiler import as_config
from dicore.data import Batch, EnvBatch, Info, State, StateDict, Tree
from dicore.data.tree import tree_len
from dicore.errors import UsageError
from dicore.interfaces.evaluator import EvalResult
from dicore.interfaces.policy import EvalMode, check_mode
from dicore.run.random import stream, torch_stream
from dicore_plugins.evaluators.fqe.config import FQEConfig
from dicore_plugins.evaluators.scheduled import Asked, ScheduledEvaluator
from dicore_plugins.functional.distributional import quantile_target
from dicore_plugins.functional.samples import to_batch
from dicore_plugins.functional.td import bridged, td_loss
from dicore_plugins.models.encoders.mlp import MLP
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.shapes import observation_options
from dicore_plugins.optimizers.config import build_optimizer

if TYPE_CHECKING:
    from dicore.interfaces.env import Space
    from dicore.interfaces.env_manager import IEnvManager

__all__ = ["FQEvaluator", "StateActionValue"]

_SEEN = 10_000
"""Samples that the scales of observations and returns are computed from."""


class StateActionValue(nn.Module):
    """Q(s, a) for observations and actions of any space that encoders take.

    Args:
        observation_space: Space of one observation; vectors are normalised.
        action_space: Space of one action.
        hidden: Units of each hidden layer.
        scale: Factor of the output: about the size of the returns.
    """

    def __init__(
        self, observation_space: Space, action_space: Space, hidden: tuple[int, ...], scale: float
    ) -> None:
        super().__init__()
        seen, chosen = (_options(each) for each in (observation_space, action_space))
        self.state = ObsEncoder(**seen)
        if not self.state.learned:
            self.state = ObsEncoder(**seen, normalise=True)
        self.choice = ObsEncoder(**chosen)
        sizes = (self.state.features + self.choice.features, *hidden, 1)
        self.value = MLP(sizes, initial_weights="uniform")
        self.scale = scale

    def forward(self, obs: Tree, action: Tree) -> Tensor:
        """Computes Q(s, a): float32 [B]."""
        features = torch.cat((self.state.forward(obs), self.choice.forward(action)), -1)
        return self.value.forward(features).squeeze(-1) * self.scale


def _options(space: Space) -> dict[str, Any]:
    return {path.removeprefix("model."): each for path, each in observation_options(space).items()}


class FQEvaluator(ScheduledEvaluator):
    """Evaluates a policy on a data set; the contract is `ISerialEvaluator`.

    The policy acts greedily on single observations: recurrent policies cannot be evaluated. Values
    that targets go on with are between the lowest and the highest reward (or 0) so far, times
    1 / (1 - gamma): no return is beyond, and a fit that leaves the data diverges otherwise.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        env_manager: Not stepped; closed with the evaluator.
        policy: Eval mode of the policy.
        dataset: See `IDataset`; single steps. The first states of its episodes, by the attribute
            `end` (bool [N]), are those whose values are averaged; without it, 10,000 samples.
        observation_space: Space of one observation.
        action_space: Space of one action.
        log: Receives statistics by `log_scalars(scalars, env_step=…, train_iter=…)`; None: no log.

    Attributes:
        best_return: Highest estimate so far; -inf before the first evaluation.
        last_result: Result of the latest evaluation, or None.

    Raises:
        UsageError: there is no data set, or its samples bridge several steps.
    """

    config_class = FQEConfig

    def __init__(
        self,
        cfg: FQEConfig | Mapping[str, object] | None = None,
        env_manager: Any = None,
        policy: Any = None,
        *,
        dataset: Any = None,
        observation_space: Any = None,
        action_space: Any = None,
        log: Any | None = None,
    ) -> None:
        self._cfg = as_config(cfg, FQEConfig)
        if dataset is None:
            raise UsageError(
                "fitted Q evaluation needs a dataset", hint="set pipeline.dataset, or pass one"
            )
        if policy is not None:
            check_mode(policy, "eval", "forward", "reset")
        self._env, self._policy, self._data, self._log = env_manager, policy, dataset, log
        self._reward_scale = float(getattr(dataset, "reward_scale", 1.0))
        self._rng = stream("evaluator/fqe")
        self._prepare(observation_space, action_space)
        self._clear_results()

    def _prepare(self, observation_space: Space, action_space: Space) -> None:
        """Makes the network and its target; scales them by some of the samples."""
        cfg, count = self._cfg, len(self._data)
        some = self._data.take(np.linspace(0, count - 1, min(count, _SEEN)).astype(np.int64))
        for name, what, option in (
            ("value_gamma", "bridge several", "policy.nstep"),
            ("valid", "are sequences", "pipeline.dataset.unroll_len"),
        ):
            if name in some:
                raise UsageError(
                    f"fitted Q evaluation needs single steps; the samples {what}",
                    hint=f"set {option}=1, or choose another evaluator",
                )
        end = getattr(self._data, "end", None)
        starts = np.linspace(0, count - 1, len(some)).astype(np.int64)
        self._starts = starts if end is None else np.flatnonzero(np.append(True, end[:-1]))
        length = count / max(len(self._starts), 1)
        self._horizon = 1 / max(1 - cfg.discount_factor, 1e-9)
        scale = max(float(np.abs(some["reward"]).mean()) * min(length, self._horizon), 1e-6)
        self._rewards = 0.0, 0.0
        with torch_stream("evaluator/fqe/model"):
            self._net = StateActionValue(
                observation_space, action_space, cfg.hidden_size_list, scale
            )
        if self._net.state.norm is not None:
            seen = to_batch(some, "cpu")["obs"]
            self._net.state.norm.update(self._net.state.vector(seen))
        self._flat = Flat(self._net)
        self._target = copy.deepcopy(self._net).requires_grad_(False)
        self._target_flat = Flat(self._target)
        self._optimizer = build_optimizer(
            None, self._flat, learning_rate=cfg.learning_rate, max_grad_norm=None
        )

    def _clear_results(self) -> None:
        self._last_eval_iter = self._eval_iter_before = -1
        self.best_return = float("-inf")
        self.last_result: EvalResult | None = None

    def reset_env(self, env: IEnvManager | None = None) -> None:
        """Does nothing: no environment is stepped."""

    def reset(self, policy: EvalMode | None = None, env: IEnvManager | None = None) -> None:
        """Clears the results so far; the network stays."""
        self.reset_policy(policy)
        self._clear_results()

    # ---- evaluating

    def _evaluate(self, asked: Asked) -> EvalResult:
        """Fits the Q network to the policy, and returns the values of first states."""
        begun, kwargs = time.perf_counter(), asked.policy_kwargs
        before = copy.deepcopy(self._networks()), copy.deepcopy(self._rng.bit_generator.state)
        errors = []
        for _ in range(self._cfg.updates):
            if asked.should_stop():
                self._load_networks(before[0])
                self._rng.bit_generator.state = before[1]
                self._last_eval_iter = self._eval_iter_before
                return EvalResult(False, [], {"return_mean": float("nan")}, interrupted=True)
            errors.append(self._update(kwargs))
        values = self._values(kwargs, asked.n_episode)
        statistics = _statistics(values, errors, time.perf_counter() - begun)
        mean = statistics["return_mean"]
        self._eval_iter_before = self._last_eval_iter
        self._write(statistics, asked, _line(statistics, asked.train_iter))
        if mean > self.best_return:
            self.best_return = mean
            if asked.save_ckpt_fn is not None:
                asked.save_ckpt_fn("ckpt_best.pth.tar")
        stop = mean >= self._cfg.stop_estimate and asked.train_iter != 0
        infos: list[Info] = [{} for _ in values]
        self.last_result = EvalResult(stop, values.tolist(), statistics, infos)
        return self.last_result

    def _update(self, kwargs: Mapping[str, object]) -> Tensor:
        """Fits the network to one batch; returns the mean absolute error."""
        cfg = self._cfg
        index = self._rng.integers(0, len(self._data), cfg.batch_size)
        columns = self._data.take(index)
        after = self._chosen(columns["next_obs"], kwargs)
        batch = to_batch(Batch({**columns.columns, "next_action": after}, len(index)), "cpu")
        seen = batch["reward"]
        low, high = self._rewards
        self._rewards = low, high = min(low, float(seen.min())), max(high, float(seen.max()))
        with torch.no_grad():
            value = self._target.forward(batch["next_obs"], batch["next_action"])
            value = value.clamp(low * self._horizon, high * self._horizon)
            y = quantile_target(value.unsqueeze(1), *bridged(batch, cfg.discount_factor, 1))
        q, size = self._net.forward(batch["obs"], batch["action"]), self._net.scale
        loss, error = td_loss(q / size, y.squeeze(1) / size, criterion="mse")  # values are means
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        self._target_flat.data.lerp_(self._flat.data, cfg.target_theta)
        return error.mean() * (size / self._reward_scale)

    def _chosen(self, obs: Tree, kwargs: Mapping[str, object]) -> Tree:
        """Returns the actions of the policy, each for an observation of its own: [B, ...]."""
        self._policy.reset()
        batch = EnvBatch(np.arange(tree_len(obs)), obs)
        return EnvBatch.of(self._policy.forward(batch, **kwargs)).value["action"]

    @torch.no_grad()
    def q_values(self, obs: Tree, action: Tree) -> npt.NDArray[np.float64]:
        """Computes the fitted Q(s, a) [B], in units of the rewards of the environment."""
        batch = to_batch(Batch({"obs": obs, "action": action}), "cpu")
        q: npt.NDArray[np.float64] = (
            self._net.forward(batch["obs"], batch["action"]).double().numpy()
        )
        return q / self._reward_scale

    def _values(self, kwargs: Mapping[str, object], count: int | None) -> Tree:
        """Returns the values of first states: float64 [E]."""
        found = []
        chosen = self._starts[:count]
        for at in range(0, len(chosen), 1024):
            obs = self._data.take(chosen[at : at + 1024])["obs"]
            found.append(self.q_values(obs, self._chosen(obs, kwargs)))
        return np.concatenate(found)

    # ---- state

    def _networks(self) -> dict[str, Any]:
        return {
            "net": self._net.state_dict(),
            "target": self._target.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "rewards": self._rewards,
        }

    def _load_networks(self, state: State) -> None:
        low, high = state.get("rewards", self._rewards)
        self._rewards = float(low), float(high)
        self._net.load_state_dict(state["net"])
        self._target.load_state_dict(state["target"])
        self._optimizer.load_state_dict(state["optimizer"])

    def state_dict(self) -> StateDict:
        """Returns the results so far and the Q network."""
        return {
            "last_eval_iter": self._last_eval_iter,
            "best_return": self.best_return,
            **self._networks(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._last_eval_iter = self._eval_iter_before = int(state["last_eval_iter"])
        self.best_return = float(state["best_return"])
        self._load_networks(state)


def _statistics(values: Tree, errors: list[Tensor], seconds: float) -> dict[str, float]:
    return {
        "return_mean": float(values.mean()),
        "return_std": float(values.std()),
        "return_max": float(values.max()),
        "return_min": float(values.min()),
        "return_median": float(np.median(values)),
        "episode_count": float(len(values)),
        "envstep_count": 0.0,
        "td_error": float(torch.stack(errors[-100:]).mean()),
        "evaluate_time": seconds,
    }


def _line(statistics: Mapping[str, float], train_iter: int) -> str:
    return (
        f"update {max(train_iter, 0)}: estimated discounted return"
        f" {statistics['return_mean']:.6g} (std {statistics['return_std']:.4g}) of"
        f" {statistics['episode_count']:.0f} first states, error {statistics['td_error']:.4g}"
    )
