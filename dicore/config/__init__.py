"""One frozen, checked config out of dicts, files, presets and the command line.

compiled = compile_config([main_config, create_config], seed=0)
compiled = bind(compiled, observation_space, action_space)
compiled.policy.learn.batch_size
"""

from dicore.config.bind import bind
from dicore.config.coerce import as_config
from dicore.config.compile import compile_config, compile_section
from dicore.config.compiled import Compiled
from dicore.config.declare import (
    REQUIRED,
    ComponentConfig,
    Section,
    component,
    components,
    frozen,
    option,
    section,
)
from dicore.config.defaults import default_config
from dicore.config.differ import differences
from dicore.config.merge import merge
from dicore.config.named import NamedConfig
from dicore.config.overrides import parse_override
from dicore.config.plain import flatten, to_dict
from dicore.config.read import is_config, read_config
from dicore.config.sections import (
    CollectConfig,
    EnvConfig,
    EvalConfig,
    LearnConfig,
    ManagerConfig,
    OtherConfig,
    PipelineConfig,
    PolicyConfig,
    RunConfig,
)
from dicore.config.signature import config_class
from dicore.config.write import write_config

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
    "differences",
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
