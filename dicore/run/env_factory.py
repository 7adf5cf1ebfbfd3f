"""Build context of components, and env managers from a config's `env` section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_registry import code_paths

if TYPE_CHECKING:
    from dicore.config.sections import EnvConfig
    from dicore.interfaces.env import Env, Space
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.run.run import Run

__all__ = [
    "BuildContext", "EnvFactory", "EnvRecorder", "env_sections", "make_env_manager", "spaces_of",
    "spec_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True, init=False)
class BuildContext:
    """What a component needs to be built besides its config; passed to every `build`.

    Args:
        spec: What is known of the environment; None before it is.
        observation_space: Deprecated, as `action_space` is: spaces of the environment.
        device: Device of tensors: `cpu`, `cuda`, `cuda:1`.
        seed: Seed of the run.
        run: The run that the component becomes part of; None outside of a run.
    """

    spec: EnvSpec | None
    device: str
    seed: int
    run: Run | None

    def __init__(
        self,
        spec: EnvSpec | None = None,
        action_space: Space | None = None,
        device: str = "cpu",
        seed: int = 0,
        run: Run | None = None,
        *,
        observation_space: Space | None = None,
    ) -> None:
        told = observation_space if spec is None else spec
        known = None if told is None else EnvSpec.given(told, action_space, "BuildContext")
        for name, value in (("spec", known), ("device", device), ("seed", seed), ("run", run)):
            object.__setattr__(self, name, value)

    @property
    def observation_space(self) -> Any:
        """Observation space of one environment; None before it is known."""
        return None if self.spec is None else self.spec.observation

    @property
    def action_space(self) -> Any:
        """Action space of one environment; None before it is known."""
        return None if self.spec is None else self.spec.action

    def with_spec(self, spec: EnvSpec) -> BuildContext:
        """Returns a copy for an environment."""
        return replace(self, spec=spec)

    def with_spaces(self, observation_space: Space, action_space: Space) -> BuildContext:
        """Returns a copy for an environment with two spaces (deprecated)."""
        return replace(self, spec=EnvSpec.given(observation_space, action_space, "with_spaces"))

    def __reduce__(self) -> tuple[object, ...]:  # a run stays in its process
        return _elsewhere, (self.spec, self.device, self.seed, code_paths.state())


def _elsewhere(spec: EnvSpec | None, device: str, seed: int, may_import: Any) -> BuildContext:
    """Returns a context in another process, which then imports no more than the first one."""
    code_paths.restore(may_import)
    return BuildContext(spec, device=device, seed=seed)


class EnvRecorder(Protocol):
    """Records the episodes of an env manager, for instance as videos."""

    def section(self, env: EnvConfig, /) -> EnvConfig:
        """Returns the `env` section with which environments can be recorded."""

    def check(self, env: EnvConfig, /) -> None:
        """Raises an error if environments of this section cannot be recorded."""

    def around(self, env_id: int, make: Callable[[], Env], /) -> Callable[[], Env]:
        """Returns a factory whose environments are recorded."""


@dataclass(frozen=True)
class EnvFactory:
    """Makes one environment of a section with its wrappers, innermost first; it pickles."""

    env: EnvConfig
    ctx: BuildContext

    def __call__(self) -> Env:
        made: Env = self.env.build(self.ctx)
        for wrapper in self.env.env_wrapper:
            made = wrapper.build(self.ctx, env=made)
        return made


def env_sections(env: EnvConfig, role: str) -> list[EnvConfig]:
    """Returns one section per environment of a role (`collector` or `evaluator`).

    All are `env`, unless it has `create_collector_env_cfg` and `create_evaluator_env_cfg`, or the
    registered class has them as static methods from a dict of options to a list of dicts.
    """
    role = "evaluator" if role == "evaluator" else "collector"  # others use the latter's
    name = f"create_{role}_env_cfg"
    if hasattr(env, name):
        return list(getattr(env, name)())
    create = getattr(getattr(type(env), "_target", None), name, None)
    if create is None:
        return [env] * getattr(env, f"{role}_env_num")
    from dicore.config.compiler import compile_section
    from dicore.config.paths import plain

    given = plain(env)
    try:
        found = [{**given, **each} for each in create(dict(given))]
    except TypeError as error:
        hint = "make it a static method from a dict of options to a list of dicts, one per env"
        raise ConfigError(f"env.type: {name} of '{env.type}': {error}", hint=hint) from error
    if not found:
        raise ConfigError(f"env.type: {name} of '{env.type}' returned no config")
    return [compile_section(type(env), each) for each in found]


def make_env_manager(
    env: EnvConfig,
    role: str,
    seed: int,
    *,
    at_most: int | None = None,
    ctx: BuildContext | None = None,
    recorder: EnvRecorder | None = None,
) -> IEnvManager:
    """Makes the configured env manager for one role; it is not launched yet.

    Args:
        env: The compiled `env` section.
        role: `collector` or `evaluator`; their episode seeds differ.
        seed: Seed of the run.
        at_most: Maximum number of environments.
        ctx: Passed to the config classes.
        recorder: Records the episodes.
    """
    context = BuildContext(seed=seed) if ctx is None else ctx
    sections = env_sections(env, role)[:at_most]
    if recorder is not None:
        sections = [recorder.section(each) for each in sections]
        recorder.check(sections[0])
    factories: list[Callable[[], Env]] = [EnvFactory(each, context) for each in sections]
    if recorder is not None:
        factories = [recorder.around(env_id, make) for env_id, make in enumerate(factories)]
    manager: IEnvManager = env.manager.build(context, env_fn=factories)
    manager.seed(seed, role=role)
    return manager


def spec_of(env: EnvConfig, seed: int) -> EnvSpec:
    """Returns what is known of a temporary environment.

    Args:
        env: The compiled `env` section.
        seed: Seed of the run.
    """
    manager = make_env_manager(env, "collector", seed, at_most=1)
    try:
        return EnvSpec.of(manager)
    finally:
        manager.close()


def spaces_of(env: EnvConfig, seed: int) -> tuple[Space, Space]:
    """Returns observation and action space of a temporary environment (deprecated)."""
    from dicore.deprecation import deprecated

    deprecated("spaces_of(env, seed)", instead="spec_of(env, seed)", since="0.1", stacklevel=2)
    spec = spec_of(env, seed)
    return spec.observation, spec.action
