"""Base class of reward models that train a network on collected samples.

Shapes: B samples, `...` one item.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from dicore.config.compiler import as_config
from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree, tree_map
from dicore.data.tree import is_tensor
from dicore.errors import SchemaError, UsageError
from dicore.run.random import stream, torch_stream
from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer
from dicore_plugins.models.encoders.mlp import MLP
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import observation_options
from dicore_plugins.optimizers.config import build_optimizer
from dicore_plugins.reward_models.config import RewardModelConfig

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


__all__ = ["EncodedMLP", "NetworkRewardModel", "encoder_of"]

_ORIGIN = ("env_id", "end")
_FEW = 256
"""Rows up to which NumPy is faster than torch."""


def encoder_of(space: Space, limit: float | None = 5.0) -> ObsEncoder:
    """Returns an encoder of what is in a space.

    Args:
        space: Space of one item; a Dict for several columns.
        limit: Normalise vectors by running statistics, to at most this absolute value; None: do
            not. Images are not normalised.
    """
    found = observation_options(space)
    encoder = ObsEncoder(found["model.obs_shape"], found.get("model.obs_parts"))
    if limit is not None and not encoder.learned:
        encoder.norm = RunningNorm(encoder.features, limit)
    return encoder


class EncodedMLP(nn.Module):
    """An MLP on what an encoder returns.

    Args:
        encoder: See `encoder_of`.
        sizes: Sizes of the hidden layers and of the output.
        activation: Activation function of the hidden layers.
    """

    def __init__(self, encoder: ObsEncoder, sizes: tuple[int, ...], activation: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.mlp = MLP([encoder.features, *sizes], activation)

        self._by_numpy: tuple[Any, Any] | None = None

    def forward(self, x: Any) -> Tensor:
        """Maps a tree of tensors or arrays [B, ...] to float32 [B, output]."""
        if not torch.is_grad_enabled():
            encode, head = self._by_numpy or self._functions()
            if encode and head and len(rows := encode(_arrays(x))) <= _FEW:
                return torch.from_numpy(head(rows))
        return self.head(self.encode(x))

    def encode(self, x: Any) -> Tensor:
        """Encodes a tree of tensors or arrays [B, ...] as float32 [B, F].

        On the CPU and without gradients by NumPy, which takes half the time of torch for few rows.
        """
        if torch.is_grad_enabled() or not (by_numpy := (self._by_numpy or self._functions())[0]):
            device = next(self.mlp.parameters()).device
            return self.encoder.forward(tree_map(lambda leaf: _tensor_of(leaf).to(device), x))
        return torch.from_numpy(by_numpy(_arrays(x)))

    def head(self, x: Tensor) -> Tensor:
        """Maps what `encode` returned, float32 [B, F], to [B, output].

        On the CPU and without gradients by NumPy up to `_FEW` rows, where it is faster than torch.
        """
        few = len(x) <= _FEW and not torch.is_grad_enabled()
        if not few or not (by_numpy := (self._by_numpy or self._functions())[1]):
            return self.mlp.forward(x)
        return torch.from_numpy(by_numpy(x.numpy()))

    def _functions(self) -> tuple[Any, Any]:
        """Returns encoder and MLP as functions of arrays; None where there is no such function."""
        on_cpu = self.mlp.layers[0].weight.device.type == "cpu"
        self._by_numpy = (self.encoder.by_numpy(), self.mlp.by_numpy()) if on_cpu else (None, None)
        return self._by_numpy

    def _apply(self, *args: object, **kwargs: object) -> Any:
        self._by_numpy = None  # views of statistics that move
        return super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call] # of torch

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what has views of the statistics."""
        return {**self.__dict__, "_by_numpy": None}


class NetworkRewardModel:
    """Base class of reward models with a network; implements `IRewardModel`.

    The newest samples are kept in a ring. `train` draws batches from it uniformly, which a subclass
    turns into a loss. A subclass implements `_make` (whose result has an `encoder`), `_inputs`,
    `_loss` and `_rewards`, and lists in `keys` the columns that they read.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        observation_space: Of one environment.
        action_space: Of one environment.
        device: Device of the networks.
    """

    config_class: ClassVar[type[ComponentConfig]] = RewardModelConfig
    keys: ClassVar[tuple[str, ...]] = ("obs", "action")
    stored: ClassVar[tuple[str, ...]] = ()
    """Columns that it is trained on besides `keys`; `collect_data` of a subclass adds them."""

    def __init__(
        self,
        cfg: ComponentConfig | Mapping[str, Any] | None = None,
        *,
        observation_space: Space,
        action_space: Space,
        device: str = "cpu",
    ) -> None:
        self._cfg: Any = as_config(cfg, self.config_class)
        self._device = device
        self.observation_space, self.action_space = observation_space, action_space
        with torch_stream("reward_model"):
            self._net = self._make(observation_space, action_space).to(device)
        trained = [each for each in self._net.parameters() if each.requires_grad]
        self._optimizer = build_optimizer(
            None,
            Flat(trained),
            learning_rate=self._cfg["learning_rate"],
            max_grad_norm=self._cfg["max_grad_norm"],
        )
        size = {"replay_buffer_size": self._cfg.get("replay_buffer_size", 1)}
        self._rng = stream("reward_model")
        self._samples = NaiveReplayBuffer(size, rng=self._rng)
        self._new: list[Batch] = []
        self._facts: dict[str, Tensor] = {}

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Returns all options with their defaults, as a plain dict."""
        from dicore.config import default_config

        return dict(default_config(cls.config_class))

    # ---- implemented by a subclass

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        """Creates the networks."""
        raise NotImplementedError

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        """Returns what of a batch the encoder is given."""
        raise NotImplementedError

    def _loss(self, batch: Mapping[str, Tree]) -> Tensor:
        """Computes the loss of a batch of tensors, a scalar."""
        raise NotImplementedError

    def _rewards(self, batch: Mapping[str, Tree]) -> Tensor:
        """Computes the rewards of a batch of tensors or arrays: float32 [B]."""
        raise NotImplementedError

    def _see(self, new: Batch) -> None:
        """Adds new samples, in time order by environment, to the statistics of the inputs."""
        encoder: Any = self._net.encoder
        if encoder.norm is not None:
            with torch.no_grad():
                encoder.norm.update(encoder.vector(self._inputs(self._tensors(new, self.keys))))

    def _batches(self, count: int, size: int) -> Iterator[Batch]:
        """Yields the batches that it trains on."""
        yield from self._samples.sample_batches(count, size)

    # ---- the contract

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with estimated rewards; see `IRewardModel`."""
        self._check(data, (*self.keys, "reward"))
        if not len(data):
            return data
        columns = data.columns
        with torch.no_grad():
            reward: Tree = self._rewards(columns)
        if columns["reward"].__class__ is np.ndarray or not is_tensor(columns["reward"]):
            reward = reward.numpy() if self._device == "cpu" else reward.cpu().numpy()
        return Batch({**columns, "reward": reward}, len(data))

    def collect_data(self, data: Batch) -> None:
        """Stores a copy of samples for the next `train`; see `IRewardModel`."""
        if not len(data):
            return
        names = [name for name in (*self.keys, *self.stored, *_ORIGIN) if name in data]
        if "end" not in data and "done" in data:
            names.append("done")
        self._check(data, self.keys)
        self._new.append(Batch({name: tree_map(np.array, data[name]) for name in names}, len(data)))
        kept = sum(map(len, self._new))
        while kept - len(self._new[0]) >= self._cfg.replay_buffer_size:
            kept -= len(self._new.pop(0))

    def train(self) -> None:
        """Runs gradient updates on the stored samples; does nothing without any."""
        new = self._take_new()
        count = self._samples.count()
        if not count:
            return
        size = min(self._cfg.batch_size, count)
        updates = self._cfg.update_per_collect or max(1, math.ceil(new / size))
        self._net.train()
        for batch in self._batches(updates, size):
            self._update(self._loss(self._tensors(batch, (*self.keys, *self.stored))))
        self._net.eval()

    @property
    def statistics(self) -> dict[str, float]:
        """What the last update tells: `loss`, and others of a subclass; empty before the first."""
        return {name: float(each) for name, each in self._facts.items()}

    def _update(self, loss: Tensor) -> None:
        """Runs one gradient update."""
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        self._facts["loss"] = loss.detach()

    def _take_new(self) -> int:
        """Moves new samples to the ring and to the statistics; returns their number."""
        if not self._new:
            return 0
        new, self._new = Batch.concat(self._new), []
        self._see(new)
        kept = (*self.keys, *self.stored)
        self._samples.push(Batch({key: new[key] for key in kept}, len(new)))
        return len(new)

    def clear_data(self) -> None:
        """Removes the stored samples, but keeps the trained model."""
        self._new.clear()
        self._samples.clear()

    def state_dict(self) -> StateDict:
        """Returns networks, optimizer, statistics and stored samples."""
        return {
            "net": {key: each.clone() for key, each in self._net.state_dict().items()},
            "optimizer": self._optimizer.state_dict(),
            "samples": self._samples.state_dict(),
            "new": [dict(each.columns) for each in self._new],
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; training goes on identically."""
        self._net.load_state_dict({k: torch.as_tensor(v) for k, v in state["net"].items()})
        self._optimizer.load_state_dict(state["optimizer"])
        self._samples.load_state_dict(state["samples"])
        self._new = [Batch(dict(each)) for each in state["new"]]

    # ---- columns

    def _tensors(self, data: Batch, keys: tuple[str, ...]) -> dict[str, Any]:
        """Returns columns as tensors on the device; memory on the CPU is shared."""
        self._check(data, keys)
        return {key: self._tensor(data[key]) for key in keys}

    def _tensor(self, column: Tree) -> Tree:
        if column.__class__ is np.ndarray and self._device == "cpu":
            return torch.from_numpy(column)
        return tree_map(lambda leaf: _tensor_of(leaf).to(self._device), column)

    def _check(self, data: Batch, keys: tuple[str, ...]) -> None:
        columns = data.columns
        for key in keys:
            if key not in columns:
                raise SchemaError(
                    f"{self}: the samples have no column '{key}', only"
                    f" {', '.join(map(str, data.keys()))}",
                    hint="return it from process_transition of the policy",
                )
        if "reward" in keys and columns["reward"].ndim > 1:
            raise UsageError(
                f"{self} estimates one reward per step, but the environment returns rewards"
                f" {list(data['reward'].shape[1:])}",
                hint="add them up in the environment or in a wrapper",
            )

    def __repr__(self) -> str:
        return f"reward model '{self._cfg.type or type(self).__name__.lower()}'"


def _arrays(tree: Tree) -> Any:
    """Returns tensors as arrays; a third of the time of `tree_map`."""
    if tree.__class__ is np.ndarray:
        return tree
    if tree.__class__ is dict or isinstance(tree, Mapping):
        return {key: _arrays(each) for key, each in tree.items()}
    if isinstance(tree, Tensor):
        return tree.numpy()
    return tree_map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, tree)


def _tensor_of(leaf: Tree) -> Tensor:
    return leaf if is_tensor(leaf) else torch.as_tensor(np.asarray(leaf))
