"""The toy world as an installed package: a real registry over written metadata."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from dicore.config import Compiled, compile_config
from dicore.errors import ConfigError
from dicore_registry import Registry

PARTS = "tests.core.config.toy_parts"
ENTRIES = {
    "default": {
        "env": "provider",
        "env_manager": "base",
        "learner": "plain",
        "collector": "sample",
        "evaluator": "episodes",
        "buffer": "ring",
        "pipeline": "serial",
    },
    "env": {
        "pole": "PoleEnvConfig",
        "provider": "ProviderConfig",
        "countdown": "Countdown",
        "underived": "NotDerived",
        "seven": "NOT_A_CLASS",
        "crashes": "no_such_attribute",
    },
    "env_manager": {"base": "BaseManagerConfig", "workers": "WorkersConfig"},
    "policy": {
        "toy": "ToyPolicyConfig",
        "bare": "BarePolicyConfig",
        "other": "OtherPolicyConfig",
        "vault": "VaultPolicyConfig",
    },
    "model": {"net": "NetConfig", "table": "TableConfig", "vault": "VaultConfig"},
    "learner": {"plain": "LearnerConfig"},
    "learner_hook": {"log_show": "LogShow", "save_ckpt": "SaveCkpt"},
    "collector": {"sample": "CollectorConfig"},
    "evaluator": {"episodes": "EvaluatorConfig"},
    "buffer": {"ring": "RingConfig", "heap": "HeapConfig"},
    "pipeline": {"serial": "SerialConfig"},
    "logger": {"console": "console"},
    "preset": {"pole_toy": "POLE_TOY"},
}


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    folder = tmp_path_factory.mktemp("site") / "toy_parts-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-parts\nVersion: 1.0\nRequires-Dist: dicore>=0.1,<0.2\n"
    )
    lines = []
    for kind, entries in ENTRIES.items():
        lines.append(f"[dicore.{kind}]")
        lines += [
            f"{name} = {target if kind == 'default' else f'{PARTS}:{target}'}"
            for name, target in entries.items()
        ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    toys = importlib.metadata.PathDistribution(Path(folder))
    return Registry([importlib.metadata.distribution("dicore"), toys], environ={})


def least() -> dict[str, Any]:
    """Everything that a person must say, and no more."""
    return {"env": {"type": "pole", "stop_value": 475, "n_evaluator_episode": 10}, "policy": "toy"}


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problems_of(build: Any, *args: Any, **kwargs: Any) -> tuple[str, ...]:
    """Returns the problems of a config that does not compile."""
    with pytest.raises(ConfigError) as caught:
        build(*args, **kwargs)
    return caught.value.problems


@pytest.fixture
def build(registry: Registry) -> Any:
    """Compiles with the toy registry; without arguments, the least config."""

    def compile_toy(main: Any = None, *args: Any, **kwargs: Any) -> Compiled:
        return compile_config(least() if main is None else main, *args, registry=registry, **kwargs)

    return compile_toy
