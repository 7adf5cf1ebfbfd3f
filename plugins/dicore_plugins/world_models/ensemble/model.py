"""An ensemble of probabilistic networks as a model of an environment (PETS, MBPO).

Chua et al. 2018, arXiv:1805.12114; Janner et al. 2019, arXiv:1906.08253. Each network predicts a
Gaussian of (s' - s, r), and the probability of a termination. A simulated step samples from one of
the elite networks, chosen at random for each row.

Shapes: B samples, F features of observation and action, O of the observation, `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from dicore.config.compiler import as_config
from dicore.data import State, StateDict, Tree
from dicore.errors import ConfigError, UsageError
from dicore.run.random import stream, torch_stream
from dicore_plugins.functional.world_models import gaussian_nll_error
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.shapes import observation_options
from dicore_plugins.optimizers.config import build_optimizer
from dicore_plugins.world_models.ensemble.config import EnsembleConfig
from dicore_plugins.world_models.ensemble.network import GaussianEnsemble

__all__ = ["EnsembleWorldModel"]

_BETTER = 0.01
"""Least relative improvement of the held-out error that counts."""
_BOUND = 0.01
"""Weight of the range of log variances, which keeps it narrow."""


class EnsembleWorldModel:
    """Learns next observations, rewards and terminations; implements `IWorldModel`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        observation_space: Space of one observation: an array.
        action_space: Space of one action.
        device: Device of the networks.

    Raises:
        ConfigError: observations are not one array of real numbers.
    """

    config_class = EnsembleConfig

    def __init__(
        self,
        cfg: EnsembleConfig | Mapping[str, Any] | None = None,
        *,
        observation_space: Any,
        action_space: Any,
        device: str = "cpu",
    ) -> None:
        self._cfg = cfg = as_config(cfg, EnsembleConfig)
        kind = getattr(observation_space, "dtype", None)
        if kind is None or kind.kind != "f" or len(observation_space.shape) > 1:
            raise ConfigError(
                f"policy.world_model: '{cfg.type or 'ensemble'}' predicts vectors of real numbers;"
                f" the observations of this env are {observation_space}",
                hint="flatten the observations: env.env_wrapper=flat_obs",
            )
        self._device, self._width = device, int(np.prod(observation_space.shape))
        found = observation_options(action_space)
        self._encode = ObsEncoder(**{k.removeprefix("model."): v for k, v in found.items()})
        outputs = self._width + 1
        with torch_stream("world_model"):
            inputs = self._width + self._encode.features
            self._net = GaussianEnsemble(
                cfg.ensemble_size, inputs, outputs, cfg.hidden_size_list, cfg.activation
            ).to(device)
        self._flat = Flat(self._net)
        self._optimizer = build_optimizer(
            None, self._flat, learning_rate=cfg.learning_rate, max_grad_norm=None
        )
        self._elites = np.arange(cfg.elite_size)
        self._rng, self._last = stream("world_model"), 0
        self._trained = self._terminates = False

    def should_train(self, env_step: int) -> bool:
        """Returns True once every `train_freq` env steps."""
        due = env_step - self._last >= self._cfg.train_freq
        if due:
            self._last = env_step
        return due

    # ---- training

    def train(self, data: Any) -> dict[str, float]:
        """Trains until the error on held-out samples no longer falls.

        Args:
            data: B samples: obs [B, ...], action, reward, next_obs, done; not modified.

        Returns:
            `world_model_error` (mean squared error of the normalised predictions of the elites on
            held-out samples), `world_model_epochs` and `world_model_samples`.

        Raises:
            UsageError: there are fewer than 2 samples.
        """
        if len(data) < 2:
            raise UsageError(f"a world model needs at least 2 samples, got {len(data)}")
        cfg, columns = self._cfg, self._columns(data)
        order = self._rng.permutation(len(data))
        self._terminates = bool((columns[2] > 0).any())
        held = min(max(int(cfg.holdout * len(data)), 1), cfg.max_holdout)
        rest, test = order[held:], [each[order[:held]] for each in columns]
        self._net.normalise_by(columns[0][rest], columns[1][rest])
        best, kept, waited, epoch = self._errors(test), self._flat.data.clone(), 0, 0
        best = np.full_like(best, np.inf) if not self._trained else best
        while waited < cfg.patience and epoch < cfg.max_epoch:
            self._epoch(columns, rest)
            epoch, errors = epoch + 1, self._errors(test)
            better = errors < best * (1 - _BETTER)
            self._keep(kept, better)
            best = np.where(better, errors, best)
            waited = 0 if better.any() else waited + 1
        self._flat.data.copy_(kept)
        self._elites, self._trained = np.argsort(best, kind="stable")[: cfg.elite_size], True
        return {
            "world_model_error": float(best[self._elites].mean()),
            "world_model_epochs": float(epoch),
            "world_model_samples": float(len(data)),
        }

    def _columns(self, data: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Returns inputs [B, F], targets [B, O + 1] and terminations [B], not normalised."""
        obs, after = (self._tensor(data[k]).reshape(len(data), -1) for k in ("obs", "next_obs"))
        reward, done = (self._tensor(data[k]).reshape(len(data)) for k in ("reward", "done"))
        inputs = self._inputs(obs, data["action"])
        return inputs, torch.cat((after - obs, reward.unsqueeze(1)), 1), done

    def _inputs(self, obs: Tensor, action: Tree) -> Tensor:
        given = torch.as_tensor(action, device=self._device)
        return torch.cat((obs, self._encode.forward(given)), 1)

    def _tensor(self, column: Tree) -> Tensor:
        return torch.as_tensor(column, device=self._device).float()

    def _epoch(self, columns: tuple[Tensor, Tensor, Tensor], rows: npt.NDArray[np.int64]) -> None:
        """Makes one pass; each network sees the samples in an order of its own."""
        cfg, net = self._cfg, self._net
        orders = np.stack([self._rng.permutation(rows) for _ in range(cfg.ensemble_size)])
        for start in range(0, len(rows), cfg.batch_size):
            picked = torch.from_numpy(orders[:, start : start + cfg.batch_size])
            inputs, target, done = (each[picked] for each in columns)
            found = net.forward(inputs)
            target = (target - net.target_mean) / net.target_std
            loss = gaussian_nll_error(found.mean, found.log_var, target)
            ended = functional.binary_cross_entropy_with_logits(found.done, done)
            loss = loss + ended * len(picked) + _BOUND * (net.high - net.low).sum()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step(loss)
            if cfg.weight_decay:
                self._flat.data.mul_(1 - cfg.learning_rate * cfg.weight_decay)

    @torch.no_grad()
    def _errors(self, test: list[Tensor]) -> npt.NDArray[np.float64]:
        """Returns the mean squared error of each network, normalised: float64 [E]."""
        net, (inputs, target, _) = self._net, test
        error = net.forward(inputs).mean - (target - net.target_mean) / net.target_std
        return error.square().mean((1, 2)).double().cpu().numpy()

    def _keep(self, kept: Tensor, better: npt.NDArray[np.bool_]) -> None:
        """Copies the parameters of the networks that are better than before."""
        rows = torch.from_numpy(better)
        for own, place in zip(self._flat, self._flat.split(kept), strict=True):
            if own.dim() == 3:  # of each network
                place[rows] = own.detach()[rows]
            else:
                place.copy_(own.detach())

    # ---- simulated steps

    @torch.no_grad()
    def step(self, obs: Tree, action: Tree) -> tuple[Any, Any, Any]:
        """Simulates one step, each row by a random elite network.

        Without a termination in the samples of the last training, there are none.

        Args:
            obs: float32 [B, ...].
            action: [B, ...]; in the units of the environment.

        Returns:
            Arrays: next_obs float32 [B, ...], reward float32 [B] and done bool [B].
        """
        net, shape = self._net, np.shape(obs)
        start = self._tensor(obs).reshape(len(obs), -1)
        found = net.forward(self._inputs(start, action))
        chosen = torch.from_numpy(self._rng.choice(self._elites, len(obs)))
        rows = torch.arange(len(obs))
        mean, log_var, done = (each[chosen, rows] for each in found)
        noise = self._rng.standard_normal(tuple(mean.shape), np.float32)
        drawn = mean + (0.5 * log_var).exp() * torch.from_numpy(noise).to(self._device)
        changed = drawn * net.target_std + net.target_mean
        after = (start + changed[:, :-1]).cpu().numpy().reshape(shape)
        chance = torch.sigmoid(done).double().cpu().numpy() * self._terminates
        ended = self._rng.random(len(obs)) < chance
        return after, changed[:, -1].cpu().numpy(), ended

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns networks, optimizer, elites and schedule."""
        return {
            "net": self._net.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "elites": self._elites.copy(),
            "last": self._last,
            "trained": self._trained,
            "terminates": self._terminates,
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        net = {name: torch.as_tensor(each) for name, each in state["net"].items()}
        self._net.load_state_dict(net)
        self._optimizer.load_state_dict(state["optimizer"])
        self._elites = np.array(state["elites"])
        self._last, self._trained = int(state["last"]), bool(state["trained"])
        self._terminates = bool(state["terminates"])
