"""Options of groups of agents that learn by different algorithms.

Importing this needs neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from dicore.config import default_config, to_dict
from dicore.config.schema import component, fields_of, frozen, option, section
from dicore.config.sections import CollectConfig, LearnConfig, PolicyConfig
from dicore.errors import ConfigError
from dicore_agents.policies.spaces import team_options
from dicore_plugins.policies import builds

if TYPE_CHECKING:
    from dicore.interfaces.env import EnvSpec

__all__ = ["GroupsConfig", "group_spec"]

_ALIKE = ("on_policy", "nstep", "collect.unroll_len", "collect.burn_in")
"""Options that say what a sample is, of which groups share one memory."""
_COLLECTED = ("collect.n_sample",)
_DRAWN = ("learn.batch_size", "learn.update_per_collect", "learn.update_per_step",
          "collect.random_collect_size")  # fmt: skip
"""Options of the one collector, and of the one buffer; by default those of the first group."""
_COLUMNS = frozenset(
    ("obs", "next_obs", "action", "reward", "done", "end", "valid", "env_id", "collect_iter",
     "priority", "IS", "weight", "replay_unique_id", "replay_buffer_idx", "use", "staleness",
     "logit", "mean", "log_std", "value", "raw_action", "prev_state", "log_prob", "total_loss")
)  # fmt: skip
"""Columns of samples and of what networks return, which no group may be called by."""


@frozen(kw_only=True)
class GroupsLearnConfig(LearnConfig):
    """Options of learning; those of a group's loss are in `groups.NAME.learn`."""

    batch_size: int = option(
        64, "samples drawn for an update of each group, if they learn from a replay buffer; by"
        " default as of the first group", ge=1,
    )  # fmt: skip
    update_per_collect: int | None = option(
        1, "updates of each group per collect, if they learn from a replay buffer; by default as of"
        " the first group", ge=1,
    )  # fmt: skip
    update_per_step: float | None = option(
        None, "updates of each group per env step, instead; by default as of the first group", gt=0
    )


@frozen(kw_only=True)
class GroupsCollectConfig(CollectConfig):
    """Options of collecting, which one collector does for all groups."""

    n_sample: int | None = option(
        256, "samples per collect; use a multiple of env.collector_env_num; by default as of the"
        " first group", ge=1,
    )  # fmt: skip
    random_collect_size: int = option(
        0, "samples collected with random actions before training; by default as of the first"
        " group", ge=0,
    )  # fmt: skip


@frozen(kw_only=True)
class GroupsConfig(PolicyConfig):
    """Groups of agents, each with an algorithm, networks and an optimizer of its own."""

    on_policy: bool = option(True, "train only on current samples; read from the groups")
    agents: dict[str, tuple[str, ...]] = option(
        {}, "agents of each group: {'predators': ['adversary_*'], …}; * stands for any letters"
    )
    groups: Any = component(
        "policy", optional=True, named=True,
        help="policy of each group, for teams: {'predators': 'mappo', …}",
    )  # fmt: skip
    members: dict[str, tuple[int, ...]] | None = option(
        None, "numbers of the agents of each group; read from the env"
    )
    one_reward: bool = option(
        False, "all agents are paid one reward, that of the team; read from the env"
    )
    learn: GroupsLearnConfig = section(GroupsLearnConfig)
    collect: GroupsCollectConfig = section(GroupsCollectConfig)

    requires = {  # noqa: RUF012 - as in other configs
        "priority": (False, "groups share samples, but no priorities; set it to False"),
        "nstep": (1, "n-step returns are an option of each group; set groups.NAME.nstep"),
        "multi_gpu": (False, "learns in one process; set it to False"),
        "traj_len_inf": (False, "learns from pieces of episodes; set it to False"),
        "reward_model": (None, "groups have rewards of their own; leave it out"),
        "collect.n_episode": (None, "collects samples; use collect.n_sample"),
        "discount_factor": (0.97, "is an option of each group; set groups.NAME.discount_factor"),
        "priority_IS_weight": (False, "groups share samples, but no priorities; set it to False"),
        "learn.ignore_done": (
            False,
            "is an option of each group; set groups.NAME.learn.ignore_done",
        ),
        "collect.unroll_len": (1, "sequences are an option of each group; set groups.NAME.collect"),
    }

    build = builds("dicore_agents.policies.groups.policy:GroupsPolicy")

    @property
    def parts(self) -> dict[str, Any]:
        """The sections of the groups by name."""
        named = self.groups is not None and "type" not in self.groups
        return {name: self.groups[name] for name in self.groups} if named else {}

    @property
    def fixed_by_spaces(self) -> tuple[str, ...]:  # type: ignore[override] # those of the groups
        """Values that `bind` derives and that a source may not set differently."""
        found = [f"groups.{name}.{each}" for name, cfg in self.parts.items()
                 for each in cfg.fixed_by_spaces]  # fmt: skip
        return (*found, "members", "one_reward")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        parts = self.parts
        if not parts:  # bind refuses it
            return
        for name in sorted({*parts} - {*self.agents}):
            yield f"agents.{name}", f"is missing; list the agents of the group '{name}'"
        for name in sorted({*self.agents} - {*parts}):
            yield f"groups.{name}", f"is missing; name the policy of the group '{name}'"
        for name in sorted({*parts} & _COLUMNS):
            yield f"groups.{name}", f"samples have a column '{name}'; choose another name"
        teams = {}
        for name, cfg in parts.items():
            if not cfg.learns or cfg.offline or not hasattr(cfg.model, "agents"):
                yield f"groups.{name}", f"'{cfg.type}' trains no team; choose mappo, qmix, maddpg…"
                continue
            teams[name] = cfg
            if cfg.priority:
                yield f"groups.{name}.priority", "groups share samples; set it to False"
        if teams:
            yield from self._unlike(teams)
        if len(teams) == len(parts) and self.members is not None:
            yield from self._unused(teams)

    def _unlike(self, parts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields the options in which groups differ that have to be alike."""
        first, *others = parts
        for path in _ALIKE:
            wanted = _at(parts[first], path)
            for name in others:
                found = _at(parts[name], path)
                if found == wanted:
                    continue
                if path == "on_policy":
                    kinds = ("replayed", "current")
                    yield (
                        f"groups.{name}",
                        f"'{parts[name].type}' learns from {kinds[found]} samples and"
                        f" '{parts[first].type}' of the group '{first}' from {kinds[wanted]} ones,"
                        " which one collector cannot give; choose policies of one kind",
                    )
                else:
                    yield f"groups.{name}.{path}", f"must be {wanted}, as in the group '{first}'"

    def _unused(self, parts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields the options that are set, but that the collector and buffer of all do not read."""
        first = next(iter(parts))
        current = parts[first].on_policy
        for name, cfg in parts.items():
            for path in () if name == first else _COLLECTED if current else (*_COLLECTED, *_DRAWN):
                if _is_set(cfg, path) and _at(cfg, path) != _at(self, path):
                    why = "has no effect: groups have it alike"
                    yield f"groups.{name}.{path}", f"{why}; set policy.{path}"
            if not _is_default(cfg.other):
                why = "has no effect: one buffer is the groups'"
                yield f"groups.{name}.other.replay_buffer", f"{why}; set policy.other.replay_buffer"
        for path in _DRAWN if current else ():
            if _is_set(self, path):
                out = f"set groups.NAME.{path}" if path == "learn.batch_size" else "leave it out"
                yield path, f"has no effect: these groups learn from current samples; {out}"

    def _of_the_first(self) -> dict[str, Any]:
        """Returns what is common to all groups, as the first one has it."""
        if not self.parts:
            return {}
        first = next(iter(self.parts.values()))
        found = {"on_policy": first.on_policy, "collect.n_sample": first.collect.n_sample}
        if first.on_policy:
            return found
        found["learn.batch_size"] = first.learn.batch_size
        found["learn.update_per_collect"] = first.learn.update_per_collect
        found["learn.update_per_step"] = first.learn.update_per_step
        found["collect.random_collect_size"] = first.collect.get("random_collect_size", 0)
        return found

    def bind(self, spec: EnvSpec) -> dict[str, Any]:
        """Derives the options of each group from the part of the spaces that it has.

        Raises:
            ConfigError: the environment has one agent, groups do not share out its agents, or one
                does not fit its policy.
        """
        if not self.parts:
            raise ConfigError(
                "policy.groups: there are no groups",
                hint="name them and their policies: policy.groups={'hunters': 'mappo', …}",
            )
        team_options(spec, self.type or "groups", state=False)
        members, parts = _members(self.agents, spec.agents), self.parts
        found: dict[str, Any] = {"members": members, "one_reward": not spec.reward_shape}
        found |= self._of_the_first()
        for name, cfg in parts.items():
            try:
                derived = cfg.bind(group_spec(spec, members.get(name, ())))
            except ConfigError as error:
                raise ConfigError(
                    f"policy.groups.{name}: {error.message}", hint=error.hint
                ) from error
            found |= {f"groups.{name}.{path}": value for path, value in derived.items()}
        return found


def _at(cfg: Any, path: str) -> Any:
    """Returns an option, 0 where a policy has none."""
    for name in path.split("."):
        cfg = cfg.get(name, 0)
    return cfg


def _is_set(cfg: Any, path: str) -> bool:
    """Returns whether an option has another value than its default; None is no value."""
    above, name = path.split(".")
    section = cfg.get(above)
    value = section.get(name)
    return value is not None and value != fields_of(type(section))[name].default()


def _is_default(other: Any) -> bool:
    """Returns whether the replay buffer is the default one; options may follow others."""
    if other.replay_buffer is None:
        return True
    wanted = default_config(type(other)).get("replay_buffer", {})
    given = to_dict(other.replay_buffer)
    return all(given.get(key) == each for key, each in wanted.items() if key != "cfg_type")


def _members(
    wanted: Mapping[str, tuple[str, ...]], agents: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """Returns the numbers of the agents of each group.

    Raises:
        ConfigError: groups do not share out the agents.
    """
    group: dict[int, str] = {}
    for name, patterns in wanted.items():
        before = len(group)
        for pattern in patterns:
            matched = [n for n, agent in enumerate(agents) if fnmatchcase(agent, pattern)]
            if not matched:
                raise ConfigError(
                    f"policy.agents.{name}: there is no agent '{pattern}'; this env has"
                    f" {', '.join(agents)}",
                    hint="list names of agents; * stands for any letters",
                )
            for number in matched:
                if group.setdefault(number, name) != name:
                    raise ConfigError(
                        f"policy.agents.{name}: {agents[number]} is in the group"
                        f" '{group[number]}' already",
                        hint="each agent is in one group",
                    )
        if len(group) == before:
            raise ConfigError(
                f"policy.agents.{name}: the group has no agents", hint="list them, or leave it out"
            )
    for number, agent in enumerate(agents):
        if number not in group:
            raise ConfigError(
                f"policy.agents: {agent} is in no group",
                hint="each agent is in one group; * stands for any letters",
            )
    return {name: tuple(n for n in sorted(group) if group[n] == name) for name in wanted}


def group_spec(spec: EnvSpec, members: tuple[int, ...]) -> EnvSpec:
    """Returns what an environment is to some of its agents, by their numbers."""
    from gymnasium import spaces

    from dicore.interfaces.env import EnvSpec

    index = [*members]
    parts: dict[str, Any] = dict(spec.observation.spaces)  # type: ignore[attr-defined]

    def rows(space: Any) -> Any:
        if isinstance(space, spaces.MultiBinary):
            shape = (len(index), *space.shape[1:])
            return spaces.MultiBinary(shape if len(shape) > 1 else shape[0])
        if isinstance(space, spaces.MultiDiscrete):
            return spaces.MultiDiscrete(space.nvec[index], start=space.start[index])
        return spaces.Box(space.low[index], space.high[index], dtype=space.dtype)

    seen = {key: each if key == "state" else rows(each) for key, each in parts.items()}
    reward = rows(spec.reward) if spec.reward_shape else spec.reward
    names = tuple(spec.agents[number] for number in members)
    return EnvSpec(spaces.Dict(seen), rows(spec.action), reward, spec.state, names)
