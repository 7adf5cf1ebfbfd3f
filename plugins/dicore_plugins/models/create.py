"""Building a model from its config, by registered name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.config.schema import ComponentConfig
from dicore.run.env_factory import BuildContext
from dicore_plugins.named import section_of


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
    return section_of("model", cfg).build(BuildContext() if ctx is None else ctx)
