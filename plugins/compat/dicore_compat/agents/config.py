"""Options of agents: a sampler, a memory of trajectories, and how often to update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import attrs

from dicore.config.schema import component, components, frozen, option, section
from dicore.config.sections import CollectConfig, LearnConfig, PolicyConfig
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds

PPO_CHAIN = (
    "get_memory_params",
    "get_last_chunk",
    "compute_advantages",
    "truncate_datalists",
    "wrap_ff",
)
"""Units of `sampler_ff`: mini-batches of the newest trajectories, with advantages."""


@frozen(kw_only=True)
class AgentLearnConfig(LearnConfig):
    """Options of learning."""

    n_update: int = option(
        1, "times per collect that the sampler is run and all its batches are learned", ge=1
    )
    max_grad_norm: float | None = option(
        0.5, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: Any = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )


@frozen(kw_only=True)
class AgentCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        None, "trajectories per collect: one of each env", ge=1, follows="env.collector_env_num"
    )
    n_steps: int = option(
        32, "length of a trajectory, of each env per collect", ge=1, unit="env steps"
    )
    infos: tuple[str, ...] = option((), "infos of the env to store, under /infos/<name>")


@frozen(kw_only=True)
class AgentConfig(PolicyConfig):
    """An agent after Digideep: acts, keeps trajectories, learns from batches of its sampler."""

    on_policy: bool = option(True, "True: what is collected goes to the agent, which remembers it")
    discount_factor: float = option(
        0.99, "discount factor gamma; raise it if rewards are far in the future", ge=0, le=1
    )
    sampler: tuple[Any, ...] = components(
        "sampler", default=PPO_CHAIN, help="units from the memory to batches, in order"
    )
    memory_chunks: int = option(
        1, "trajectories that the memory keeps of each env; then the oldest is replaced", ge=1
    )
    model: Any = component("model", default="vac", help="network of the agent")
    action_start: int | tuple[int, ...] = option(
        0, "lowest action index (`Discrete.start`), per head for MultiDiscrete; read from the env"
    )
    action_low: tuple[float, ...] | None = option(
        None, "lowest continuous actions; read from the env"
    )
    action_high: tuple[float, ...] | None = option(
        None, "highest continuous actions; read from the env"
    )
    formerly: ClassVar[Mapping[str, Any]] = {"action_scaling": False}
    action_scaling: bool = option(
        True,
        "scale continuous actions from [-1, 1] to the bounds of the action space; False: actions"
        " are in the units of the environment; both are clipped to the bounds",
    )
    learn: AgentLearnConfig = section(AgentLearnConfig)
    collect: AgentCollectConfig = section(AgentCollectConfig)

    build = builds("dicore_compat.agents.agent:AgentBase", takes="context")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the network and the bounds of actions from the spaces.

        Raises:
            ConfigError: the actions are neither discrete nor real numbers, or the network does not
                take the observations.
        """
        from dicore_plugins.models.shapes import action_options, options_for

        if hasattr(spec.action, "spaces"):
            raise ConfigError(
                f"policy.type: '{self.type}' needs discrete actions or real numbers; this env has"
                f" {' '.join(str(spec.action).split())}",
                hint="use a team with one agent for each part of the action (TeamConfig)",
            )
        found = action_options(spec.action, algorithm=self.type or "agent")
        found.pop("action_dims", None)
        return {**options_for(self.model, spec.observation), **found}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other or have no effect."""
        yield from self.common_problems()
        if not self.sampler:
            yield "sampler", "is empty; expected at least one unit: dicore list sampler"
        for at, unit in enumerate(self.sampler):
            gamma = unit.get("gamma")
            if gamma is not None and gamma != self.discount_factor:
                yield (
                    f"sampler.{at}.gamma",
                    f"{gamma} differs from policy.discount_factor={self.discount_factor}; set both",
                )

    def common_problems(self) -> Iterator[tuple[str, str]]:
        """Yields what no agent supports."""
        if not self.on_policy:
            yield "on_policy", "an agent has a memory of its own; set it to True"
        if self.collect.n_episode is not None:
            yield (
                "collect.n_episode",
                "agents collect collect.n_steps steps; leave it out",
            )
        if self.collect.unroll_len != 1:
            yield "collect.unroll_len", "has no effect; set collect.n_steps"
        if self.learn.update_per_step is not None or self.learn.update_per_collect not in (None, 1):
            yield "learn.update_per_collect", "has no effect; set learn.n_update"
        if self.nstep != 1:
            yield "nstep", "has no effect; choose units of policy.sampler"
        if self.priority:
            yield "priority", "agents draw no samples by priority; set it to False"
        if self.multi_gpu:
            yield "multi_gpu", "an agent learns in one process; set it to False"


@frozen(kw_only=True)
class TeamConfig(AgentConfig):
    """Several agents in one env: each has a part of the action, all remember the same."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = ()

    model: Any = component("model", help="none; each agent has its own", optional=True)
    members: Any = component(
        "policy",
        help="agents by name, the names of the parts of the action: {left: {type: …}, …}",
        optional=True,
        named=True,
    )

    build = builds("dicore_compat.agents.team:Team", takes="context")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives what each agent needs from the observations and its part of the action.

        Raises:
            ConfigError: the parts of the action have other names than the agents.
        """
        members = self.by_name()
        parts = dict(getattr(spec.action, "spaces", None) or {})
        if parts.keys() != members.keys():
            told = ", ".join(map(str, parts)) or f"{' '.join(str(spec.action).split())}, no parts"
            raise ConfigError(
                f"policy.members: the agents are {', '.join(members) or 'none'}; the action of this"
                f" env has the parts {told}",
                hint="name one agent for each part of a Dict action space",
            )
        return {
            f"members.{name}.{path}": value
            for name, member in members.items()
            for path, value in member.bind(attrs.evolve(spec, action=parts[name])).items()
        }

    def by_name(self) -> dict[str, AgentConfig]:
        """Returns the agents' sections by name."""
        from dicore.config import NamedConfig

        if not isinstance(self.members, NamedConfig):
            return {}
        return {name: self.members[name] for name in self.members.keys()}  # noqa: SIM118

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other or have no effect."""
        yield from self.common_problems()
        members = self.by_name()
        if len(members) < 2:
            yield "members", "expected two or more: {left: {type: …}, right: {type: …}}"
        for name, member in members.items():
            if not isinstance(member, AgentConfig) or isinstance(member, TeamConfig):
                yield f"members.{name}.type", f"'{member.type}' is not an agent (AgentConfig)"
