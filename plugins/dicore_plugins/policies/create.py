"""Building a policy from its config, by registered name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dicore.config.checks import derived_options
from dicore.config.paths import to_dict
from dicore.config.schema import ComponentConfig
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.values import Tree
from dicore_plugins.named import section_of, target_of

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


__all__ = ["create_policy", "get_policy_cls"]


def create_policy(
    cfg: ComponentConfig | Mapping[str, Any] | str,
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    **parts: object,
) -> Any:
    """Builds the policy that a config describes.

    Args:
        cfg: `cfg.policy` of a compiled config, or `{"type": name, **options}`, or a name alone.
        observation_space: Observations of one environment (`gymnasium.Space`). With it and
            `action_space`, the shapes of the network and the range of the actions are derived; else
            `cfg` must contain them.
        action_space: Actions of one environment.
        **parts: Further arguments of the policy: `model`, `enable_field`, `device`.

    Returns:
        The policy; see `dicore_plugins.policies.Policy`.

    Raises:
        ConfigError: `type` is missing, an option is unknown or invalid, or the policy does not fit
            the spaces.
        UnknownComponentError: no installed package provides a policy of that name.
    """
    section = section_of("policy", cfg)
    spec = None
    if observation_space is not None and action_space is not None:
        spec = EnvSpec(observation_space, action_space)
        section = _bound(section, section if isinstance(cfg, ComponentConfig) else cfg, spec)
    return section.build(BuildContext(spec), **parts)


def get_policy_cls(cfg: ComponentConfig | Mapping[str, Any] | str) -> type[Any]:
    """Returns the class of the policy that a config describes.

    Args:
        cfg: As for `create_policy`; only its `type` matters.

    Raises:
        UsageError: the package of the policy does not tell.
        UnknownComponentError: no installed package provides a policy of that name.
    """
    target: type[Any] = target_of("policy", cfg)
    if not issubclass(target, ComponentConfig):
        return target
    found = getattr(getattr(target, "build", None), "policy_class", None)
    if found is None:
        raise UsageError(
            f"{target.__name__} does not tell the class of its policy",
            hint="declare it: build = builds('module:Class') (dicore_plugins.policies.builds)",
        )
    policy_class: type[Any] = found()
    return policy_class


def _bound(section: Any, given: Any, spec: EnvSpec) -> Any:
    """Returns the section with what follows from the spaces, where no option is given."""
    options = to_dict(given) if isinstance(given, ComponentConfig) else _tree(given)
    for path, value in derived_options(section, spec).items():
        *above, name = path.split(".")
        at = options
        for key in above:
            at[key] = _tree(at.get(key) or {})
            at = at[key]
        if at.get(name) is None:
            at[name] = value
        elif path in section.fixed_by_spaces and _list(at[name]) != _list(value):
            raise ConfigError(
                f"policy.{path}: expected {value!r}, as the environment has, got {at[name]!r}",
                hint="omit this option: it is derived from the spaces",
            )
    return section_of("policy", options)


def _tree(given: Mapping[str, Tree] | str) -> dict[str, Any]:
    return {"type": given} if isinstance(given, str) else dict(given)


def _list(shape: Any) -> list[Any]:
    """Returns a shape as a list, one number as that of a vector."""
    return list(shape) if isinstance(shape, list | tuple) else [shape]
