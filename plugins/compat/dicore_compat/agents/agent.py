"""The agent of Digideep's guide: `action_generator` for the explorer, `update` for the runner.

A new agent is a sampler and a policy: a chain of units that makes batches of the memory, and a
network with the two methods that act by it and compute its loss.

Shapes: K environments, B workers, T steps, M rows of a batch, F ended episodes; `...` one item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree, tree_map, tree_row
from dicore.errors import ReplayUnderflowError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.env_factory import BuildContext
from dicore.run.random import torch_stream
from dicore_compat.agents.config import AgentConfig
from dicore_compat.agents.trajectories import RunningEpisodes, TrajectoryMemory
from dicore_compat.samplers.trajectory import nested_keys, trajectory_of
from dicore_compat.samplers.units import Compose
from dicore_plugins.functional.samples import rows_after
from dicore_plugins.models.flat import Flat
from dicore_plugins.optimizers.config import optimizer_of
from dicore_plugins.policies.base import Policy
from dicore_plugins.policies.unit_actions import UnitActions

__all__ = ["AgentBase"]

Array = npt.NDArray[Any]
_OWN = {
    *("obs", "action", "chosen", "reward", "done", "mask", "hidden_state"),
    *("end", "valid", "env_id", "next_values"),
}


class AgentBase(Policy):
    """Acts by `action_generator` and learns from the batches of `policy.sampler` by `loss`.

    A subclass implements these two. Further methods that it may override: `reset_hidden_state`,
    `step`, `update`, and those of `Policy` (`_create_model`, `_init_learn`, `_state_dict_learn`).

    Args:
        cfg: Options, see `AgentConfig`.
        context: What it is built with: device and run; its memory is part of the run's state.
        **parts: See `Policy`: `model`, `enable_field`.

    Attributes:
        name: Name of the agent, in the keys of the trajectories.
    """

    config_class = AgentConfig
    name = "agent"

    def __init__(
        self,
        cfg: Any = None,
        context: BuildContext | None = None,
        **parts: Any,
    ) -> None:
        device = parts.pop("device", getattr(context, "device", None))
        super().__init__(cfg, device=device, **parts)
        collect = self._cfg.collect
        self._store = TrajectoryMemory(
            collect.n_sample or 1, collect.n_steps, self._cfg.memory_chunks
        )
        run = getattr(context, "run", None)
        if run is not None and "learn" in self._enabled:
            run.register("memory", self._store, bulky=True)
        self._collecting = RunningEpisodes(self._first_states)
        self._evaluating = RunningEpisodes(self._first_states)
        self._sampler = Compose([_unit(each) for each in self._cfg.sampler])

    # ---- what a new agent is

    def action_generator(
        self,
        observations: Tree,
        hidden_state: Array | None,
        masks: Array,
        deterministic: bool = False,
    ) -> Mapping[str, object]:
        """Chooses actions.

        Args:
            observations: Arrays [K, ...], as the environments return them.
            hidden_state: Recurrent states [K, ...] of `reset_hidden_state`, or None.
            masks: float32 [K, 1]; 0: an episode begins.
            deterministic: Choose the best action, without exploration.

        Returns:
            `actions` [K, ...]; `hidden_state` [K, ...] for the next step, if there is one; and
            `artifacts`: further arrays [K, ...] by name that training needs, such as `values`.
        """
        raise NotImplementedError

    def loss(self, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Computes the loss of a batch of the sampler.

        Args:
            batch: Tensors [M, ...] by flat key, `/observations`, `/agents/<name>/actions`, ….

        Returns:
            `total_loss`, a scalar with its graph, and other scalars to log.
        """
        raise NotImplementedError

    def tensor(self, arrays: Tree) -> Tree:
        """Returns an array, or a tree of them, as tensors on the device of the network."""

        def converted(leaf: Tree) -> Tensor:
            return torch.from_numpy(np.require(leaf, requirements=["C", "W"])).to(self._device)

        return tree_map(converted, arrays)

    @cached_property
    def _units(self) -> UnitActions:
        """Scales continuous actions to those of the environment."""
        return UnitActions(self._cfg, "cpu")

    def env_actions(self, actions: Tree) -> object:
        """Returns actions [K, ...] as the environment takes them.

        Discrete ones count from `policy.action_start`; continuous ones are scaled from [-1, 1] to
        the bounds and clipped to them.
        """
        if self._cfg.action_low is None:
            return actions + np.asarray(self._cfg.action_start)
        flat = self._units.env(actions.reshape(len(actions), -1))
        return flat.reshape(actions.shape)

    def reset_hidden_state(self, num_workers: int) -> Array | None:
        """Returns the first recurrent states [num_workers, ...]; None: there is none."""
        return None

    # ---- learning

    @property
    def agents(self) -> dict[str, AgentBase]:
        """The agents that act together, by name."""
        return {self.name: self}

    @property
    def memory(self) -> Any:
        """The trajectories; see `dicore_compat.samplers.Memory`."""
        return self._store.memory

    def join(self, name: str, store: TrajectoryMemory) -> None:
        """Becomes one of several agents, with a name and with their memory."""
        self.name, self._store = name, store

    def _create_model(self) -> nn.Module | None:
        if self._cfg.model is None:
            return None
        with torch_stream("model"):
            model: nn.Module = self._cfg.model.build(BuildContext())
            return model

    def _init_learn(self) -> None:
        if not isinstance(self._model, nn.Module):
            return
        learn = self._cfg.learn
        self._flat = Flat(self._model.to(self._device))
        self._optimizer = optimizer_of(learn, self._flat)

    def _forward_learn(self, data: Any, **_: object) -> list[dict[str, object]]:
        """Stores trajectories and updates the agents after each chunk of all workers."""
        results: list[dict[str, object]] = []
        for _chunk in self._store.add(data):
            for agent in self.agents.values():
                results += agent.update()
        return results

    def update(self) -> list[dict[str, Any]]:
        """Runs the sampler and learns its batches, `learn.n_update` times.

        Returns:
            The result of each batch; none as long as the memory has too little for one.
        """
        results: list[dict[str, object]] = []
        for _ in range(self._cfg.learn.n_update):
            try:
                batches = self.batches()
            except ReplayUnderflowError:
                if self.memory.full:
                    raise
                return results
            results += [self.step(batch) for batch in batches]
        return results

    def batches(self) -> Iterable[Mapping[str, Any]]:
        """Runs the sampler on the memory; returns its batches, arrays by flat key."""
        info = {"agent_name": self.name, "batch_size": self._cfg.learn.batch_size}
        found = self._sampler(self.memory, info)
        return [found] if isinstance(found, Mapping) else found

    def step(self, batch: Mapping[str, Tree]) -> dict[str, object]:
        """Runs one gradient update on a batch of the sampler; returns what `loss` does.

        Raises:
            UsageError: `loss` returned no `total_loss`.
        """
        found = dict(self.loss({key: self.tensor(each) for key, each in batch.items()}))
        loss = found.get("total_loss")
        if not isinstance(loss, Tensor):
            raise UsageError(
                f"{type(self).__name__}.loss returned {', '.join(found) or 'nothing'}",
                hint='return {"total_loss": a tensor, …}',
            )
        if not self._flat.intact():
            self._flat.rebind()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        detached = {k: v.detach() if isinstance(v, Tensor) else v for k, v in found.items()}
        return {"cur_lr": self._optimizer.learning_rate, **detached}

    def _state_dict_learn(self) -> StateDict:
        return {**self._state_dict_model(), "optimizer": self._optimizer.state_dict()}

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._optimizer.load_state_dict(state["optimizer"])

    # ---- acting

    def _first_states(self, count: int) -> dict[str, Array | None]:
        return {name: agent.reset_hidden_state(count) for name, agent in self.agents.items()}

    def _joined(self, parts: Mapping[str, Any]) -> Tree:
        """Returns the part of the only agent; of several, all parts by name."""
        return dict(parts) if len(parts) > 1 else next(iter(parts.values()))

    def _generate(
        self,
        obs: Tree,
        hidden: Mapping[str, Array | None],
        masks: Array,
        deterministic: bool = False,
    ) -> dict[str, Mapping[str, Any]]:
        """Returns what each agent's `action_generator` does, as arrays."""
        with torch.no_grad():
            return {
                name: tree_map(
                    _array,
                    dict(agent.action_generator(obs, hidden[name], masks, deterministic)),
                )
                for name, agent in self.agents.items()
            }

    def _act(
        self, obs: Tree, episodes: RunningEpisodes, *, deterministic: bool
    ) -> EnvBatch[dict[str, Tree]]:
        batch = EnvBatch.of(obs)
        masks, hidden = episodes.of(batch.env_id)
        found = self._generate(batch.value, hidden, masks, deterministic)
        episodes.keep(batch.env_id, _states(found))
        agents = self.agents
        columns = {
            "action": {name: agents[name].env_actions(e["actions"]) for name, e in found.items()},
            "chosen": {name: each["actions"] for name, each in found.items()},
            **_by_artifact(found),
        }
        states = {name: each for name, each in hidden.items() if each is not None}
        joined = {key: self._joined(each) for key, each in columns.items()}
        if states:
            joined["hidden_state"] = self._joined(states)
        return batch.with_value({**joined, "mask": masks[:, 0]})

    def _forward_collect(self, obs: Tree, **_: object) -> EnvBatch[Tree]:
        return self._act(obs, self._collecting, deterministic=False)

    def _forward_eval(self, obs: Tree) -> EnvBatch[Tree]:
        return self._act(obs, self._evaluating, deterministic=True)

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        self._collecting.reset(data_id)

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        self._evaluating.reset(data_id)

    def _get_collect_state(self) -> dict[str, object]:
        return self._collecting.state_dict()

    def _set_collect_state(self, state: State) -> None:
        self._collecting.load_state_dict(state)

    # ---- trajectories

    def _get_sample_len(self) -> int:
        return int(self._cfg.collect.n_steps)

    def _get_sample_stride(self) -> int:
        return int(self._cfg.collect.n_steps)

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Any:
        infos = {name: _info(timestep, name) for name in self._cfg.collect.infos}
        columns = super()._process_transition(obs, output, timestep)
        rest = {key: each for key, each in output.items() if key != "chosen"}
        return {**rest, **infos, **columns, "action": output["chosen"]}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Returns trajectories [B, T + 1, ...], with the half step; see `trajectory_of`."""
        assert tail is not None
        steps, chunks = self._cfg.collect.n_steps, []
        for start in range(0, tail.starts, steps):
            piece, after = _piece(block, tail, start, steps)
            chunks.append(self._trajectories(piece, after))
        return Batch.concat(chunks)

    def _trajectories(self, block: Batch, tail: Tail) -> Batch:
        columns = dict(block.columns)
        valid, masks = columns.pop("valid"), columns.pop("mask")
        last, following = self._half_step(block, tail)
        chunk = trajectory_of(
            Batch({**columns, **following}, len(block)),
            tail,
            agents=[*self.agents],
            infos=self._cfg.collect.infos,
            masks=masks[0],
            last=last,
        )
        found = Batch({**nested_keys(chunk), "env_id": np.array(block["env_id"][0])})
        whole = np.asarray(valid).all(0)
        return found if whole.all() else found[np.flatnonzero(whole)]

    def _half_step(self, block: Batch, tail: Tail) -> tuple[dict[str, Array], dict[str, object]]:
        """Returns what the agents would do after the block, and the values of its next states."""
        end = np.asarray(block["end"])
        workers = end.shape[1]
        final = np.stack(np.divmod(np.asarray(tail.final_index, np.int64), workers))
        hidden = self._hidden_after(block, np.full(workers, len(block) - 1), np.arange(workers))
        masks = 1.0 - end[-1].astype(np.float32)[:, None]
        first = self._first_states(workers)
        for name, each in hidden.items():
            if each is not None:
                each[end[-1]] = np.asarray(first[name])[end[-1]]
        chosen = self._generate(tail.obs, hidden, masks)
        last = _flat_of(chosen, hidden)
        if not all("values" in each.get("artifacts", {}) for each in chosen.values()):
            return last, {}
        ended: Any = {name: {"artifacts": {"values": np.empty(0)}} for name in chosen}
        if final.size:
            ended = self._generate(
                tail.final_obs,
                self._hidden_after(block, *final),
                np.ones((final.shape[1], 1), np.float32),
                deterministic=True,
            )
        values = block["values"] if len(chosen) > 1 else {self.name: block["values"]}
        following = {
            name: rows_after(
                np.asarray(values[name]).reshape(end.shape),
                each["artifacts"]["values"].reshape(workers),
                ended[name]["artifacts"]["values"].reshape(-1),
                tail,
            )
            for name, each in chosen.items()
        }
        return last, {"next_values": self._joined(following)}

    def _hidden_after(self, block: Batch, rows: Array, workers: Array) -> dict[str, Array | None]:
        """Returns the recurrent states [F, ...] after some rows of a block, by agent."""
        if "hidden_state" not in block:
            return dict.fromkeys(self.agents)

        def at(leaf: Tree) -> Tree:
            return np.asarray(leaf)[rows, workers]

        column = block["hidden_state"]
        states = column if len(self.agents) > 1 else {self.name: column}
        hidden = {name: at(states[name]) if name in states else None for name in self.agents}
        masks = at(block["mask"])[:, None]
        return _states(self._generate(tree_map(at, block["obs"]), hidden, masks, True))


def _unit(section: Any) -> Tree:
    """Returns a unit of a chain by its section of the config."""

    def unit(data: Any, info: Any) -> Tree:
        return section.build(None, data=data, info=info)

    unit.__name__ = str(section.type)
    return unit


def _array(leaf: Tree) -> Tree:
    return leaf.detach().cpu().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)


def _states(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Array | None]:
    """Returns the recurrent states that agents returned."""
    return {name: each.get("hidden_state") for name, each in found.items()}


def _by_artifact(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the artifacts of agents by name of the artifact and of the agent.

    Raises:
        UsageError: an artifact has the name of another column.
    """
    columns: dict[str, dict[str, Any]] = {}
    for name, each in found.items():
        for key, array in (each.get("artifacts") or {}).items():
            if key in _OWN:
                raise UsageError(f"an artifact cannot be named '{key}'", hint="rename it")
            columns.setdefault(key, {})[name] = array
    return columns


def _flat_of(
    chosen: Mapping[str, Mapping[str, Any]], hidden: Mapping[str, Array | None]
) -> dict[str, Array]:
    """Returns actions, artifacts and states before them by flat key."""
    found: dict[str, Array] = {}
    for name, each in chosen.items():
        prefix = f"/agents/{name}"
        found[f"{prefix}/actions"] = each["actions"]
        for key, array in (each.get("artifacts") or {}).items():
            found[f"{prefix}/artifacts/{key}"] = array
        if (state := hidden[name]) is not None:
            found[f"{prefix}/hidden_state"] = state
    return found


def _info(timestep: Tree, name: str) -> Array:
    """Returns an info of K environments; NaN where it is missing."""
    return np.array([info.get(name, np.nan) for info in timestep.info], np.float32)


def _piece(block: Batch, tail: Tail, start: int, steps: int) -> tuple[Batch, Tail]:
    """Returns some rows of a block, and what follows them."""
    stop, workers = start + steps, np.asarray(block["end"]).shape[1]
    if start == 0 and stop == len(block):
        return block, tail
    index = np.asarray(tail.final_index)
    inside = np.flatnonzero((index >= start * workers) & (index < stop * workers))
    last = tail.obs if stop == len(block) else tree_row(block["obs"], stop)
    final = tree_row(tail.final_obs, inside) if len(inside) else tail.final_obs
    found = Tail(last, index[inside] - start * workers, final, steps)
    return block[start:stop], found
