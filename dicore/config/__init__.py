"""One frozen, checked config from dicts, files, presets and the command line.

compiled = compile_config([main_config, create_config], seed=0)
compiled = bind(compiled, spec_of(compiled.env, compiled.seed))
compiled.policy.learn.batch_size
"""

from typing import TYPE_CHECKING

from attrs import define, field

from dicore.config.checks import bind, derived_options
from dicore.config.compiler import as_config, compile_config, compile_section
from dicore.config.layers import parse_override
from dicore.config.paths import differences, flatten, merge, to_dict
from dicore.config.resolver import NamedConfig
from dicore.config.schema import (
    REQUIRED,
    ComponentConfig,
    Section,
    component,
    components,
    frozen,
    option,
    section,
)
from dicore.config.sections import (
    CollectConfig,
    Compiled,
    EnvConfig,
    EvalConfig,
    LearnConfig,
    ManagerConfig,
    OtherConfig,
    PipelineConfig,
    PolicyConfig,
    RunConfig,
)
from dicore.config.signature import config_class, default_config
from dicore.config.writer import write_config

if TYPE_CHECKING:
    from dicore.config.reader import is_config, read_config

__all__ = [
    "REQUIRED",
    "CollectConfig",
    "Compiled",
    "ComponentConfig",
    "EnvConfig",
    "EvalConfig",
    "LearnConfig",
    "ManagerConfig",
    "NamedConfig",
    "OtherConfig",
    "PipelineConfig",
    "PolicyConfig",
    "RunConfig",
    "Section",
    "as_config",
    "bind",
    "compile_config",
    "compile_section",
    "component",
    "components",
    "config_class",
    "default_config",
    "define",
    "derived_options",
    "differences",
    "field",
    "flatten",
    "frozen",
    "is_config",
    "merge",
    "option",
    "parse_override",
    "read_config",
    "section",
    "to_dict",
    "write_config",
]


def __getattr__(name: str) -> object:
    """Imports what reads config files when it is asked for: most trainings have none."""
    if name not in ("is_config", "read_config"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from dicore.config import reader

    return getattr(reader, name)
