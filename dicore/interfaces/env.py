"""The env role, which any `gymnasium.Env` satisfies, and protocols of optional features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from dicore.values import Info, State, Tree
from dicore_registry import Kind

if TYPE_CHECKING:
    import gymnasium

    from dicore.interfaces.env_manager import IEnvManager

    Env: TypeAlias = gymnasium.Env[Tree, Tree]
    Space: TypeAlias = gymnasium.Space[Tree]

KIND = Kind(
    name="env",
    summary="simulates a task: observations, actions and rewards (`gymnasium.Env`)",
    contract="dicore.interfaces.env:IEnv",
    section="env",
    suite="dicore.testing.env:EnvContract",
    use="dicore train -e {name} -p {policy}{needed} --max-env-step 20000",
)

WRAPPER_KIND = Kind(
    name="env_wrapper",
    summary="changes observations, actions or rewards of an environment",
    contract="dicore.interfaces.env:IEnv",
    section="env.env_wrapper",
    suite="dicore.testing.env_wrapper:EnvWrapperContract",
    use="dicore train -e cartpole -p dqn 'env.env_wrapper=[{item}]'",
)


@frozen
class EnvSpec:
    """What is known of an environment before its first episode.

    `bind` of a policy's config, `BuildContext` and env managers share it.

    Args:
        observation: Space of the observations of one environment.
        action: Space of its actions.
        reward: Space of the reward of a step; None: one number.
        state: Space of the global state that several agents share; None: there is none.
        agents: Ids of the agents; empty: a single agent.

    An environment of several agents has the attribute `agent_ids`, and may have `state_space`. Its
    observations are a Dict: `obs` [A, ...], and where they exist `alive` [A] (the agents that act
    next), `action_mask` [A, n] and `state` [...]; actions are [A, ...], rewards [] or [A].
    """

    observation: Space
    action: Space
    reward: Space | None = None
    state: Space | None = None
    agents: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: IEnv | IEnvManager) -> EnvSpec:
        """Returns the spec of an environment or of an env manager."""
        if isinstance(own := getattr(source, "spec", None), cls):
            return own
        reward, state, agents = (
            _declared(source, name) for name in ("reward_space", "state_space", "agent_ids")
        )
        spaces = source.observation_space, source.action_space
        return cls(*spaces, reward, state, tuple(agents or ()))

    @classmethod
    def given(cls, spec: Any, action_space: Any, what: str) -> EnvSpec:
        """Returns a spec that was given, or, with a warning, that of two spaces.

        Args:
            spec: A spec, or the observation space.
            action_space: The action space, if `spec` is the observation space.
            what: Name of what was called, for the warning.
        """
        if isinstance(spec, cls):
            return spec
        from dicore.deprecation import deprecated

        told = f"{what} with an observation and an action space"
        deprecated(told, instead="an EnvSpec(observation, action)", since="0.1", stacklevel=3)
        return cls(spec, action_space)

    @property
    def reward_shape(self) -> tuple[int, ...]:
        """Shape of the reward of a step; () for one number."""
        return () if self.reward is None else tuple(self.reward.shape or ())


def _declared(source: object, name: str) -> Any:
    """Returns an attribute of the outermost wrapper that has it, else of the env; None: of none."""
    get = getattr(source, "get_wrapper_attr", None)
    try:
        return getattr(source, name) if get is None else get(name)
    except AttributeError:
        return None


@runtime_checkable
class IEnv(Protocol):
    """The part of `gymnasium.Env` that env managers use."""

    observation_space: Space
    action_space: Space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode; returns its first observation and info."""

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Returns observation, reward, terminated, truncated and info."""

    def close(self) -> None:
        """Frees the resources of the environment; later calls do nothing."""


@runtime_checkable
class SupportsReplay(Protocol):
    """An env that can record its episodes."""

    def enable_save_replay(self, replay_path: str) -> None:
        """Records all following episodes to a folder."""


@runtime_checkable
class SupportsState(Protocol):
    """An env whose state can be saved within an episode."""

    def get_state(self) -> State: ...

    def set_state(self, state: State) -> None: ...
