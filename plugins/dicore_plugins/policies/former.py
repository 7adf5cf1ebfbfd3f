"""Names of config classes that became defaults of a section; they work until dicore 0.3."""

from __future__ import annotations

from importlib import import_module

from dicore.config.schema import Section, fields_of
from dicore.deprecation import deprecated

__all__ = ["FORMER", "former"]

FORMER = {
    "A2CLearnConfig": "A2CConfig.learn",
    "BCOLearnConfig": "BCOConfig.learn",
    "BCOOtherConfig": "BCOConfig.other",
    "CrossQLearnConfig": "CrossQConfig.learn",
    "D4PGOtherConfig": "D4PGConfig.other",
    "DDPGLearnConfig": "DDPGConfig.learn",
    "DQfDOtherConfig": "DQfDConfig.other",
    "DTCollectConfig": "DTConfig.collect",
    "DiscreteSACLearnConfig": "DiscreteSACConfig.learn",
    "IMPALACollectConfig": "IMPALAConfig.collect",
    "IMPALAOtherConfig": "IMPALAConfig.other",
    "MBPOLearnConfig": "MBPOConfig.learn",
    "PDQNOtherConfig": "PDQNConfig.other",
    "PPOOffPolicyCollectConfig": "PPOOffPolicyConfig.collect",
    "PPOOffPolicyLearnConfig": "PPOOffPolicyConfig.learn",
    "PPOOffPolicyOtherConfig": "PPOOffPolicyConfig.other",
    "PQNCollectConfig": "PQNConfig.collect",
    "PQNOtherConfig": "PQNConfig.other",
    "R2D2OtherConfig": "R2D2Config.other",
    "R2D3OtherConfig": "R2D3Config.other",
    "RainbowEpsConfig": "RainbowConfig.other.eps",
    "RainbowOtherConfig": "RainbowConfig.other",
    "SQILLearnConfig": "SQILConfig.learn",
    "SQILOtherConfig": "SQILConfig.other",
    "SQILSACOtherConfig": "SQILSACConfig.other",
    "SQNEpsConfig": "SQNConfig.other.eps",
    "SQNOtherConfig": "SQNConfig.other",
}


def former(name: str) -> type[Section]:
    """Returns the class that stands where a former one stood, with a warning.

    Raises:
        AttributeError: there was none of this name.
    """
    if name not in FORMER:
        raise AttributeError(f"module 'dicore_plugins.policies' has no attribute '{name}'")
    owner, *path = FORMER[name].split(".")
    cls: type[Section] = getattr(import_module("dicore_plugins.policies"), owner)
    for key in path:
        cls = fields_of(cls)[key].metadata["section"]
    base = cls.__name__
    deprecated(name, instead=f"section({base}, …) in your config", since="0.1", stacklevel=3)
    return cls
