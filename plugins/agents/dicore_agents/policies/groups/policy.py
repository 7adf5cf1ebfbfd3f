"""Groups of agents that learn by different algorithms in one environment.

One collector acts for all. What a group sees, does and is paid are the rows of its agents, of which
its policy makes samples and learns as in an environment of its own; the other agents are a part of
that environment. A sample has the columns of each group under the name of the group.

Where no agent of a group would act in the next step, the episode has ended for the group; not so
where all agents are paid one reward, which comes without the group, too.

Shapes: T steps, N environments, B samples, K ready environments, A agents of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from torch import nn

from dicore.config.sections import PolicyConfig
from dicore.data import (
    Batch,
    Columns,
    EnvBatch,
    State,
    StateDict,
    TimestepBatch,
    Tree,
    tree_map,
)
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore.run.env_factory import BuildContext
from dicore_agents.policies.bridges import teaching_nothing
from dicore_agents.policies.groups.config import GroupsConfig
from dicore_plugins.functional import rows_after
from dicore_plugins.policies import Policy

if TYPE_CHECKING:
    from dicore_plugins.export import GreedyModule

__all__ = ["GroupsPolicy"]

_SHARED = ("end", "env_id")
"""Columns of samples that are those of the episode."""


class GroupsPolicy(Policy):
    """A policy of a team for each group of agents."""

    config_class: ClassVar[type[PolicyConfig]] = GroupsConfig
    attributes: ClassVar[tuple[str, ...]] = ("parts",)
    _cfg: GroupsConfig

    def _create_model(self) -> nn.Module:
        return self._built({})

    def _checked_model(self, model: nn.Module) -> nn.Module:
        model = super()._checked_model(model)
        names = [*self._cfg.parts]
        if isinstance(model, nn.ModuleDict) and [*model] == names:
            return self._built({name: {"model": each} for name, each in model.items()})
        raise UsageError(
            f"model: expected a ModuleDict of {', '.join(names)}, got {type(model).__name__}",
            hint="pass a network for each group",
        )

    def _built(self, models: Mapping[str, Mapping[str, Any]]) -> nn.Module:
        """Builds the policies of the groups; returns their networks by name."""
        ctx, modes = BuildContext(device=self._device), [*self._enabled]
        members = self._cfg.members
        if not members:
            raise UsageError("policy.members is missing", hint="bind the config to an env")
        self._parts: dict[str, Any] = {
            name: cfg.build(ctx, enable_field=modes, **models.get(name, {}))
            for name, cfg in self._cfg.parts.items()
        }
        for part in self._parts.values():
            if hasattr(part, "ends_with_agents"):
                part.ends_with_agents = not self._cfg.one_reward
        self._rows = {name: _index(members[name]) for name in self._parts}
        self._agents = sum(map(len, members.values()))
        return nn.ModuleDict(
            {name: part.get_attribute("model") for name, part in self._parts.items()}
        )

    def _each(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields the name, the policy and the rows of each group."""
        for name, part in self._parts.items():
            yield name, part, self._rows[name]

    @property
    def export_problem(self) -> str:
        """What keeps the policy from being one module."""
        remembers = [name for name, part in self._parts.items()
                     if getattr(part.get_attribute("model"), "rnn", None) is not None]  # fmt: skip
        return f"the group {remembers[0]} remembers" if remembers else ""

    def greedy_module(self) -> GreedyModule:
        """Returns a copy of the networks of all groups that selects the greedy actions."""
        from dicore_agents.policies.groups.exported import GroupsModule
        from dicore_plugins.export import GreedyModule

        parts = {name: GreedyModule.of(part) for name, part in self._parts.items()}
        return GroupsModule(self._cfg, parts, self._cfg.members or {}).eval()

    def exported_groups(
        self, obs: Tree, action: Any
    ) -> Iterator[tuple[str, GreedyModule, Tree, Any]]:
        """Yields for each group what its file is made of, and compared with.

        Args:
            obs: Observations of the team, [B, ...].
            action: Actions of all agents, [B, A, ...].

        Yields:
            The name, the module, the part of the observations that it takes, and of the actions.
        """
        from dicore_plugins.export import GreedyModule

        for name, part, rows in self._each():
            yield name, GreedyModule.of(part), _seen(obs, rows, 1), action[:, rows]

    # ---- acting

    def _forward_collect(self, obs: Mapping[int, Tree], **settings: Any) -> EnvBatch[Columns]:
        """Selects the actions of all groups.

        Args:
            obs: `{env_id: obs}` of K environments.
            **settings: Keyword arguments of the collect mode of each group, by its name.

        Raises:
            UsageError: a name is not that of a group.
        """
        if unknown := [name for name in settings if name not in self._parts]:
            raise UsageError(
                f"unknown argument '{unknown[0]}' of the collect mode of {self}; expected"
                f" {', '.join(self._parts)}",
                hint="pass policy_kwargs={'GROUP': {'eps': 0.1}}",
            )
        batch = EnvBatch.of(obs)
        acted = {
            name: part.collect_mode.forward(
                EnvBatch(batch.env_id, _seen(batch.value, rows, 1)), **settings.get(name, {})
            ).value
            for name, part, rows in self._each()
        }
        return batch.with_value({**acted, "action": self._joined(acted)})

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        acted = {
            name: part.eval_mode.forward(EnvBatch(batch.env_id, _seen(batch.value, rows, 1))).value
            for name, part, rows in self._each()
        }
        return batch.with_value({**acted, "action": self._joined(acted)})

    def _joined(self, acted: Mapping[str, Columns]) -> Any:
        """Returns the actions of all agents, [K, A, ...]."""
        first = next(iter(acted.values()))["action"]
        action = np.empty((len(first), self._agents, *first.shape[2:]), first.dtype)
        for name, each in acted.items():
            action[:, self._rows[name]] = each["action"]
        return action

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        for part in self._parts.values():
            part.collect_mode.reset(data_id)

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        for part in self._parts.values():
            part.eval_mode.reset(data_id)

    def _get_collect_state(self) -> StateDict:
        """Returns the memory of running episodes of each group, where there is any."""
        found = {
            name: part.get_attribute("collect_state")
            for name, part in self._parts.items()
            if hasattr(part, "_get_collect_state")
        }
        return {name: each for name, each in found.items() if each}

    def _set_collect_state(self, state: State) -> None:
        for name, part in self._parts.items():
            if hasattr(part, "_set_collect_state"):
                part.set_attribute("collect_state", state.get(name, {}))

    # ---- samples

    def _process_transition(
        self, obs: Tree, output: Columns, timestep: TimestepBatch
    ) -> dict[str, Any]:
        columns = super()._process_transition(obs, output, timestep)
        for name, part, rows in self._each():
            acted = {**output.get(name, {}), "action": output["action"][:, rows]}
            own = part.collect_mode.process_transition(_seen(obs, rows, 1), acted, timestep)
            if more := {key: each for key, each in own.items() if key not in columns}:
                columns[name] = more
        return columns

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Makes the samples of each group, as columns of its name."""
        found = {
            name: part.collect_mode.get_train_sample(
                self._block_of(name, rows, block, tail), _tail_of(tail, rows)
            )
            for name, part, rows in self._each()
        }
        found = self._alike(found)
        first = next(iter(found.values()))
        shared = {key: first[key] for key in _SHARED if key in first}
        return Batch({**{key: each.columns for key, each in found.items()}, **shared}, len(first))

    def _alike(self, found: dict[str, Batch]) -> dict[str, Batch]:
        """Returns as many samples of each group; those that are added teach nothing new."""
        most = max(map(len, found.values()))
        for name, each in found.items():
            if len(each) == most:
                continue
            if getattr(self._parts[name], "bridges", False):
                more = teaching_nothing(each, most - len(each))
                whole = tree_map(lambda *two: np.concatenate(two), each.columns, more.columns)
                found[name] = Batch(whole, most)
            elif not len(each):  # all episodes failed
                return {key: one[np.arange(0)] for key, one in found.items()}
            else:
                found[name] = each[np.arange(most) % len(each)]
        return found

    def _block_of(self, name: str, rows: Any, block: Batch, tail: Tail | None) -> Batch:
        """Returns the part of a block [T, N, ...] that a group has."""
        shared = {
            key: each
            for key, each in block.items()
            if key not in self._parts and key not in ("obs", "next_obs", "action", "reward")
        }
        reward, obs = block["reward"], _seen(block["obs"], rows, 2)
        own = {
            "obs": obs,
            "action": block["action"][:, :, rows],
            "reward": reward[:, :, rows] if reward.ndim > 2 else reward,
        }
        if "next_obs" in block:
            own["next_obs"] = _seen(block["next_obs"], rows, 2)
        if "alive" in obs and tail is not None and not self._cfg.one_reward:
            last, finals = (each["alive"][:, rows] if len(each) else obs["alive"][0, :0]
                            for each in (tail.obs, tail.final_obs))  # fmt: skip
            later = rows_after(obs["alive"], last, finals, tail)
            gone = ~(later != 0).any(-1)
            shared["done"], shared["end"] = (block["done"] != 0) | gone, block["end"] | gone
        return Batch({**shared, **own, **block.get(name, {})}, len(block))

    def _get_sample_len(self) -> int | Literal["episode"]:
        found: int | Literal["episode"] = self._first("sample_len")
        return found

    def _get_sample_stride(self) -> int:
        return int(self._first("sample_stride"))

    def _first(self, name: str) -> Any:
        """Returns an attribute of the first group, which all have alike."""
        return next(iter(self._parts.values())).get_attribute(name)

    # ---- learning

    def _forward_learn(self, data: Any, **settings: Any) -> Any:
        """Runs the updates of all groups.

        Args:
            data: Batch or list of B samples of `get_train_sample`.
            **settings: Keyword arguments of the learn mode of each group, by its name.

        Returns:
            The results of each group, with its name before theirs, and `total_loss`, their sum; of
            each update, if a group makes several. A group that does not act has none.
        """
        batch = data if isinstance(data, Batch) else Batch.from_rows(data)
        found: dict[str, list[Any]] = {}
        several = False
        for name, part in self._parts.items():
            own = Batch(batch[name], len(batch))
            whole = self._cfg.one_reward and not getattr(part, "bridges", False)
            samples = own if whole else _where_some_act(own)
            if samples is None:
                continue
            result = part.learn_mode.forward(samples, **settings.get(name, {}))
            several = several or isinstance(result, list)
            found[name] = result if isinstance(result, list) else [result]
        results = [
            _together({name: each for name, each in zip(found, row, strict=True) if each})
            for row in zip_longest(*found.values())
        ]
        return results if several or not results else results[0]

    def _get_skipped_updates(self) -> int:
        return sum(part.get_attribute("skipped_updates") for part in self._parts.values())

    def _monitor_vars_learn(self) -> list[str]:
        names = [
            f"{name}_{each}"
            for name, part in self._parts.items()
            for each in part.learn_mode.monitor_vars()
        ]
        return ["total_loss", *names]

    def _get_setting_learn(self, command_info: Mapping[str, int]) -> dict[str, Any]:
        found = {name: part.command_mode.get_setting_learn(command_info)
                 for name, part in self._parts.items()}  # fmt: skip
        return {name: each for name, each in found.items() if each}

    def _get_setting_collect(self, command_info: Mapping[str, int]) -> dict[str, Any]:
        found = {name: part.command_mode.get_setting_collect(command_info)
                 for name, part in self._parts.items()}  # fmt: skip
        return {name: each for name, each in found.items() if each}

    def _state_dict_learn(self) -> StateDict:
        parts = {name: part.learn_mode.state_dict() for name, part in self._parts.items()}
        return {**self._state_dict_model(), "groups": parts}

    def _load_state_dict_learn(self, state: State) -> None:
        for name, part in self._parts.items():
            part.learn_mode.load_state_dict(state["groups"][name])


def _index(members: tuple[int, ...]) -> Any:
    """Returns numbers of agents as a slice if they follow each other, which copies nothing."""
    first, last = members[0], members[-1]
    return slice(first, last + 1) if last - first == len(members) - 1 else [*members]


def _seen(obs: Mapping[str, Any], rows: Any, axis: int) -> dict[str, Any]:
    """Returns the rows of some agents, whose axis is `axis`, and the state of all."""
    at = (slice(None),) * axis + (rows,)
    return {key: each if key == "state" else each[at] for key, each in obs.items()}


def _tail_of(tail: Tail | None, rows: Any) -> Tail | None:
    if tail is None:
        return None
    finals = _seen(tail.final_obs, rows, 1) if len(tail.final_index) else tail.final_obs
    return tail._replace(obs=_seen(tail.obs, rows, 1), final_obs=finals)


def _where_some_act(samples: Batch) -> Batch | None:
    """Returns the steps in which an agent of the group acts; None: there are none."""
    alive = samples["obs"].get("alive")
    if alive is None or alive.ndim > 2:  # sequences are kept whole
        return samples
    some = (alive != 0).any(1)
    if bool(some.all()):
        return samples
    index = np.flatnonzero(np.asarray(some))
    return samples[index] if len(index) else None


def _together(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the results of an update of each group as one."""
    found = {f"{name}_{key}": each for name, part in results.items() for key, each in part.items()}
    return {**found, "total_loss": sum(part["total_loss"] for part in results.values())}
