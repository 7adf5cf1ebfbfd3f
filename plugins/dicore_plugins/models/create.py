"""Building a model from its config, by registered name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.config.schema import ComponentConfig
from dicore.errors import ConfigError
from dicore.run.env_factory import BuildContext


def create_model(cfg: ComponentConfig | Mapping[str, Any] | str, ctx: Any = None) -> Any:
    """Builds the model that a config describes.

    Args:
        cfg: A compiled section, or `{"type": name, **options}`, or a name alone.
        ctx: Values that a config cannot hold (`dicore.run.BuildContext`); None for models that
            need only their options.

    Returns:
        The network, a `torch.nn.Module` for the components of this package.

    Raises:
        ConfigError: `type` is missing, an option is unknown or invalid, or a shape is missing.
        UnknownComponentError: no installed package provides a model of that name.
    """
    if not isinstance(cfg, ComponentConfig):
        cfg = _compiled({"type": cfg} if isinstance(cfg, str) else dict(cfg))
    return cfg.build(BuildContext() if ctx is None else ctx)


def _compiled(options: dict[str, Any]) -> ComponentConfig:
    from dicore.config.compiler import compile_section
    from dicore.config.signature import config_class

    name = options.get("type")
    if not isinstance(name, str) or not name:
        raise ConfigError(
            "model.type: must be given: the registered name of a model",
            hint="set model.type=dqn",
        )
    return compile_section(config_class(_target(name), "model"), options)


def _target(name: str) -> Any:
    from dicore_registry import default

    return default().resolve("model", name, where="model.type").target
