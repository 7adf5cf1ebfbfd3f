"""Any environment that gymnasium knows, by its id."""

from __future__ import annotations

from typing import Any

from dicore.config.declare import frozen, option
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError


@frozen(kw_only=True)
class GymnasiumConfig(EnvConfig):
    """An environment of gymnasium, or of a package that registers its own there."""

    env_id: str = option("", "id under which gymnasium knows it: CartPole-v1")
    make_kwargs: dict[str, Any] = option({}, "further arguments of gymnasium.make")

    @classmethod
    def knows(cls, env_id: str) -> bool:
        """Says whether gymnasium has this id; `module:Id` imports the module first."""
        import gymnasium

        try:
            gymnasium.spec(env_id)
        except (gymnasium.error.Error, ModuleNotFoundError):
            return False
        return True

    def from_spec(self) -> dict[str, Any]:
        """Returns what the id's registration says: its reward threshold as `stop_value`."""
        import gymnasium

        if not self.env_id or not self.knows(self.env_id):
            return {}
        threshold = gymnasium.spec(self.env_id).reward_threshold
        return {} if threshold is None else {"stop_value": float(threshold)}

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes one environment.

        Raises:
            ConfigError: gymnasium has no such id, or making it failed for want of a package.
        """
        import gymnasium

        try:
            return gymnasium.make(self.env_id, **self.make_kwargs)
        except gymnasium.error.DependencyNotInstalled as error:
            raise ConfigError(
                f"env.env_id: '{self.env_id}' needs another package: {error}"
            ) from error
        except gymnasium.error.UnregisteredEnv as error:
            raise ConfigError(
                f"env.env_id: gymnasium has no '{self.env_id}': {error}", hint=_newer(self.env_id)
            ) from error


def _newer(env_id: str) -> str:
    """Suggests the version or spelling that gymnasium has instead."""
    import difflib

    import gymnasium

    name = env_id.rpartition("-v")[0] or env_id
    same = sorted(known for known in gymnasium.registry if known.rpartition("-v")[0] == name)
    close = same or difflib.get_close_matches(env_id, gymnasium.registry, 1)
    return f"did you mean '{close[-1]}'?" if close else "gymnasium.pprint_registry() shows all ids"
