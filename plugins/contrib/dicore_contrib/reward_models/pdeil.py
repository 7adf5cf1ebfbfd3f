"""PDEIL: imitation by estimated densities (Liu et al. 2021, arXiv:2112.06746).

With the densities of the expert's states rho_E, of its actions pi_E, and of the agent's states
rho_u, the reward is

    r(s, a) = rho_E(s) pi_E(a|s) / (alpha rho_E(s) + (1 - alpha) rho_u(s))

which is greatest for what the expert does where it is. All densities are normal ones of normalised
numbers: of states, and, for continuous actions, of states and actions together, whose density is
rho_E pi_E. For one discrete action there is a normal density of the states for each action, of
which follows

    pi_E(a|s) = p(a) rho_E(s|a) / sum_b p(b) rho_E(s|b),

where DI-engine has a support-vector machine. rho_u is fitted to the newest samples when it is
trained; before that, it is rho_E.

Shapes: B samples, N expert samples, F numbers of an observation, G of it with an action.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Box, Discrete, Space

from dicore.config import ComponentConfig, as_config
from dicore.data import Batch, State, StateDict
from dicore.errors import SchemaError, UsageError
from dicore_contrib.reward_models.pdeil_config import PDEILConfig
from dicore_plugins.reward_models import ExpertVectors, checked_samples, pair_space, steps_of

__all__ = ["PDEIL", "Gaussian"]

Floats = npt.NDArray[np.float64]


class Gaussian(NamedTuple):
    """A normal distribution.

    Args:
        mean: float64 [F].
        whiten: float64 [F, F]; the inverse of the Cholesky factor of the covariance.
    """

    mean: Floats
    whiten: Floats

    @classmethod
    def fitted(cls, rows: Floats, ridge: float) -> Gaussian:
        """Returns the distribution of rows [N, F]; `ridge` is added to each variance."""
        mean = rows.mean(0)
        centred = rows - mean
        covariance = centred.T @ centred / len(rows) + ridge * np.eye(rows.shape[1])
        return cls(mean, np.linalg.inv(np.linalg.cholesky(covariance)))

    def log_prob(self, rows: Floats) -> Floats:
        """Computes the logarithms of the density at rows [B, F]: float64 [B]."""
        white = (rows - self.mean) @ self.whiten.T
        scale = np.log(np.diag(self.whiten)).sum() - 0.5 * len(self.mean) * math.log(2 * math.pi)
        found: Floats = scale - 0.5 * (white**2).sum(1)
        return found


class PDEIL:
    """Rewards what the expert does where it is, by densities; implements `IRewardModel`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        observation_space: Of one environment.
        action_space: Of one environment.
        expert: Data set of the expert's steps (`IDataset`); None: call `load_expert_data`.
        device: Ignored: densities are computed by NumPy.

    Raises:
        UsageError: observations are images, or actions neither one choice nor real numbers.
    """

    config_class: ClassVar[type[ComponentConfig]] = PDEILConfig

    def __init__(
        self,
        cfg: PDEILConfig | Mapping[str, Any] | None = None,
        *,
        observation_space: Space[Any],
        action_space: Space[Any],
        expert: Any = None,
        device: str = "cpu",
    ) -> None:
        self._cfg: PDEILConfig = as_config(cfg, PDEILConfig)
        self._actions = None
        if isinstance(action_space, Discrete):
            self._actions = np.arange(action_space.n) + int(action_space.start)
        elif not isinstance(action_space, Box):
            raise UsageError(
                f"{self} needs one discrete action or real numbers, got {action_space}",
                hint="choose gail",
            )
        self._states = ExpertVectors(observation_space, self)
        self._pairs = ExpertVectors(pair_space(observation_space, action_space), self)
        self._expert: list[Gaussian] = []
        self._log_share: Floats = np.zeros(0)
        self._agent: Gaussian | None = None
        self._seen: Floats = np.zeros((0, len(self._states.norm.mean)))
        self._dataset = expert
        if expert is not None:
            self.load_expert_data(steps_of(expert))

    def load_expert_data(self, data: Batch) -> None:
        """Fits the densities of the expert.

        Raises:
            UsageError: there are none.
            SchemaError: a column is missing.
            NonFiniteError: a number is NaN or infinite.
        """
        copied, ridge = checked_samples(data, ("obs", "action"), self), self._cfg.ridge
        self._states.fit(copied["obs"])
        self._pairs.fit(copied.columns)
        states = _floats(self._states(copied["obs"]))
        self._expert, self._log_share = [Gaussian.fitted(states, ridge)], np.zeros(0)
        if self._actions is None:
            pairs = _floats(self._pairs(copied.columns))
            self._expert.append(Gaussian.fitted(pairs, ridge))
        else:
            chosen = [states[np.asarray(copied["action"]) == each] for each in self._actions]
            self._expert += [Gaussian.fitted(each if len(each) else states, ridge)
                             for each in chosen]  # fmt: skip
            with np.errstate(divide="ignore"):  # an action that was never taken
                self._log_share = np.log([len(each) / len(states) for each in chosen])
        self._agent = None

    # ---- the contract

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with the rewards of the densities; see `IRewardModel`."""
        self._check(data, "obs", "action", "reward")
        if not len(data):
            return data
        if not self._expert:
            raise UsageError(f"{self} has no expert data", hint="call load_expert_data")
        states = _floats(self._states(data["obs"]))
        of_expert = self._expert[0].log_prob(states)
        of_agent = of_expert if self._agent is None else self._agent.log_prob(states)
        alpha = self._cfg.alpha
        with np.errstate(divide="ignore"):
            below = np.logaddexp(np.log(alpha) + of_expert, np.log(1 - alpha) + of_agent)
        log_reward = self._log_joint(data, states, of_expert) - below
        reward = np.exp(np.minimum(log_reward, math.log(self._cfg.limit))).astype(np.float32)
        given: Any = data["reward"]
        found = torch.from_numpy(reward).to(given.device) if torch.is_tensor(given) else reward
        return Batch({**data.columns, "reward": found}, len(data))

    def _log_joint(self, data: Batch, states: Floats, of_expert: Floats) -> Floats:
        """Computes the logarithms of rho_E(s) pi_E(a|s): float64 [B]."""
        if self._actions is None:
            pairs = _floats(self._pairs({"obs": data["obs"], "action": data["action"]}))
            return self._expert[1].log_prob(pairs)
        each = (
            np.stack([one.log_prob(states) for one in self._expert[1:]]) + self._log_share[:, None]
        )
        action = np.asarray(torch.as_tensor(data["action"]).cpu()) - self._actions[0]
        chosen = each[action.reshape(-1), np.arange(len(states))]
        found: Floats = of_expert + chosen - np.logaddexp.reduce(each, 0)
        return found

    def collect_data(self, data: Batch) -> None:
        """Keeps the states of samples for the next `train`, the newest ones."""
        self._check(data, "obs")
        if len(data):
            new = _floats(self._states.plain(data["obs"]))
            self._seen = np.concatenate([self._seen, new])[-self._cfg.replay_buffer_size :]

    def train(self) -> None:
        """Fits the density of the agent's states; does nothing without samples."""
        if not len(self._seen):
            return
        with torch.no_grad():
            states = _floats(self._states.norm(torch.from_numpy(self._seen).float()))
        self._agent = Gaussian.fitted(states, self._cfg.ridge)

    def clear_data(self) -> None:
        """Removes the stored states, but keeps the densities."""
        self._seen = self._seen[:0]

    def state_dict(self) -> StateDict:
        """Returns densities, statistics, stored states, and the hash of the expert's data set."""
        facts = None if self._dataset is None else self._dataset.state_dict()
        return {
            "expert": facts,
            "densities": [[*each] for each in self._expert],
            "log_share": self._log_share,
            "agent": None if self._agent is None else [*self._agent],
            "seen": self._seen,
            "norms": {"states": self._states.state_dict(), "pairs": self._pairs.state_dict()},
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned.

        Raises:
            UsageError: the expert's data set is another.
        """
        if self._dataset is not None and state["expert"] is not None:
            self._dataset.load_state_dict(state["expert"])
        self._states.load_state_dict(state["norms"]["states"])
        self._pairs.load_state_dict(state["norms"]["pairs"])
        self._expert = [_gaussian(each) for each in state["densities"]]
        self._log_share = np.asarray(state["log_share"])
        self._agent = None if state["agent"] is None else _gaussian(state["agent"])
        self._seen = np.array(state["seen"], np.float64)

    def _check(self, data: Batch, *keys: str) -> None:
        for key in keys:
            if key not in data:
                raise SchemaError(
                    f"{self}: the samples have no column '{key}'",
                    hint="return it from process_transition of the policy",
                )
        if "reward" in keys and np.ndim(data["reward"]) > 1:
            raise UsageError(
                f"{self} estimates one reward per step, but the environment returns several",
                hint="add them up in the environment or in a wrapper",
            )

    def __repr__(self) -> str:
        return "reward model 'pdeil'"


def _floats(rows: torch.Tensor) -> Floats:
    found: Floats = rows.double().numpy()
    return found


def _gaussian(saved: Any) -> Gaussian:
    mean, whiten = saved
    return Gaussian(np.asarray(mean), np.asarray(whiten))
