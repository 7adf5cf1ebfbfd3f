"""Attributes that a policy does not declare, as they were found before `facts` and `attributes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.deprecation import deprecated

if TYPE_CHECKING:
    from dicore_plugins.policies.base import Policy

__all__ = ["undeclared"]


def undeclared(policy: Policy, name: str) -> Any:
    """Returns an attribute or an option that a policy does not declare.

    Args:
        policy: The policy.
        name: A private attribute without its underscore, or an option of the policy, of `collect`
            or of `learn`.

    Raises:
        AttributeError: there is neither.
    """
    what, kind = f"get_attribute('{name}')", type(policy).__name__
    if hasattr(policy, f"_{name}"):
        deprecated(what, instead=f"it after {kind}.attributes names '{name}'", since="0.1")
        return getattr(policy, f"_{name}")
    cfg = policy.get_attribute("cfg")
    for place, options in (("", cfg), (".learn", cfg.learn), (".collect", cfg.collect)):
        if name in options:
            deprecated(what, instead=f"get_attribute('cfg'){place}.{name}", since="0.1")
            return options[name]
    raise AttributeError(f"{policy} has no attribute '{name}'")
