"""A small world of components, as a package of its own would bring them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from dicore.config import (
    REQUIRED,
    CollectConfig,
    ComponentConfig,
    EnvConfig,
    LearnConfig,
    ManagerConfig,
    PipelineConfig,
    PolicyConfig,
    components,
    frozen,
    option,
    section,
)
from dicore.config.schema import Section, component
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec


@frozen(kw_only=True)
class PoleEnvConfig(EnvConfig):
    """A pole to balance."""

    length: float = option(0.5, "length of the pole", gt=0, unit="m")


@frozen(kw_only=True)
class ProviderConfig(EnvConfig):
    """Any env of the provider, by its id."""

    env_id: str = option(REQUIRED, "id of the env")
    render_mode: str | None = option(None, "how to draw")

    @classmethod
    def knows(cls, env_id: str) -> bool:
        return env_id.startswith("Known")

    def from_spec(self) -> dict[str, Any]:
        if self.env_id == "Known-broken":
            raise KeyError("no spec")
        if self.env_id == "Known-odd":
            return {"stop_value": "high", "n_evaluator_episode": 0}
        return {"stop_value": 195, "n_evaluator_episode": 5, "unheard_of": 1}


class Countdown:
    """Counts down to zero.

    Args:
        start: Number to begin with.
        penalty: Lost by waiting,
            per step.
        rng: Where chance comes from.
    """

    def __init__(
        self,
        start: int = 5,
        penalty: float = 0.01,
        names: list[str] | None = None,
        rng: Random | None = None,
        verbose=False,
    ) -> None:
        self.start, self.penalty, self.names, self.verbose = start, penalty, names, verbose


class Random:
    """Stands for something that a config cannot hold."""


@frozen(kw_only=True)
class BaseManagerConfig(ManagerConfig):
    """Steps envs in turn."""


@frozen(kw_only=True)
class WorkersConfig(ManagerConfig):
    """Steps envs in workers."""

    workers: int = option(2, "processes", ge=1)


class WorkersManager:
    """What a custom main hands over: it names its config class."""

    config_class: ClassVar[type] = WorkersConfig


@frozen(kw_only=True)
class EpsConfig(Section):
    """Exploration."""

    type: Literal["exp", "linear"] = option("exp", "shape of the fall")
    start: float = option(0.95, "at first", ge=0, le=1)


@frozen(kw_only=True)
class ToyLearnConfig(LearnConfig):
    """How toy learns."""

    update_per_collect: int | None = option(3, "updates after each collect", ge=1)
    target: str = option("assign", "how the target follows", choices=("assign", "momentum"))
    hidden: list[int] = option([32], "sizes", ge=1)
    free: dict[Any, Any] = option({"a": 1, "deep": {"x": 1}}, "free form")


@frozen(kw_only=True)
class ToyCollectConfig(CollectConfig):
    """How toy collects."""

    n_sample: int | None = option(8, "training samples per collect", ge=1)
    eps: EpsConfig = section(EpsConfig)


@frozen(kw_only=True)
class ToyPolicyConfig(PolicyConfig):
    """Learns a little."""

    on_policy: bool = option(False, "only fresh data")
    model: Any = component("model", {"type": "net", "width": 16})
    learn: ToyLearnConfig = section(ToyLearnConfig)
    collect: ToyCollectConfig = section(ToyCollectConfig)

    def bind(self, spec: EnvSpec) -> dict[str, Any]:
        if spec.action == "box":
            raise ConfigError("policy.type: 'toy' needs discrete actions")
        return {
            "model.obs_shape": spec.observation,
            "model.no_such": 3,
            "collect.unroll_len": 2,
            **({"learn.no_such": 1} if spec.action == "bad author" else {}),
        }

    def check(self) -> Iterator[tuple[str, str]]:
        if self.priority and self.nstep > 5:
            yield "nstep", "too far for priority"


@frozen(kw_only=True)
class OldPolicyConfig(ToyPolicyConfig):
    """Takes two spaces, as before there was a spec."""

    def bind(self, observation_space: Any, action_space: Any) -> dict[str, Any]:  # type: ignore[override]
        return {"model.obs_shape": observation_space}


@frozen(kw_only=True)
class LatePolicyConfig(ToyPolicyConfig):
    """Registered by an import only."""


class ToyPolicy:
    """The component that ToyPolicyConfig configures."""

    config_class: ClassVar[type] = ToyPolicyConfig


@frozen(kw_only=True)
class BarePolicyConfig(PolicyConfig):
    """Leaves everything that must be given to others."""


@frozen(kw_only=True)
class OtherPolicyConfig(PolicyConfig):
    """Another algorithm."""

    on_policy: bool = option(True, "only fresh data")
    gae: float = option(0.95, "lambda", ge=0, le=1)
    collect: ToyCollectConfig = section(ToyCollectConfig)


def _short(value: str) -> str | None:
    return f"'{value}' is too long" if len(value) > 4 else None


@frozen(kw_only=True)
class VaultConfig(ComponentConfig):
    """Has secrets."""

    token: str = option("", "to get in")
    password: str = option("", "to stay in")
    pin_key: str = option("", "short", check=_short)
    salt: str = option("", "by declaration", secret=True)
    obs_key: str = option("state", "no secret at all", secret=False)


@frozen(kw_only=True)
class VaultPolicyConfig(OtherPolicyConfig):
    """Its model has secrets."""

    model: Any = component("model", "vault")


@frozen(kw_only=True)
class NetConfig(ComponentConfig):
    """A network."""

    obs_shape: int | tuple[int, ...] | None = option(None, "shape of one observation")
    width: int = option(64, "units", ge=1)


@frozen(kw_only=True)
class TableConfig(ComponentConfig):
    """A table, which asks for no shape."""

    rows: int = option(10, "rows")


@frozen(kw_only=True)
class LearnerConfig(ComponentConfig):
    """Drives updates."""

    hook: tuple[Any, ...] = components("learner_hook", default=("log_show",))


class LogShow:
    """Prints.

    Args:
        priority: Lower first.
        freq: Updates between lines.
    """

    def __init__(self, *, priority: int = 20, freq: int = 100) -> None:
        self.priority, self.freq = priority, freq


class SaveCkpt(LogShow):
    """Saves."""


@frozen(kw_only=True)
class CollectorConfig(ComponentConfig):
    """Collects samples."""

    n_sample: int | None = option(None, "samples", follows="policy.collect.n_sample")
    unroll_len: int = option(1, "steps", ge=1, follows="policy.collect.unroll_len")
    twice: int | None = option(None, "a chain", follows="policy.collect.collector.n_sample")


@frozen(kw_only=True)
class EvaluatorConfig(ComponentConfig):
    """Evaluates."""

    stop_value: float = option(REQUIRED, "when to stop", follows="env.stop_value")
    n_episode: int = option(REQUIRED, "episodes", ge=1, follows="env.n_evaluator_episode")
    batch: int = option(1, "follows without a second name", follows="policy.learn.batch_size")


@frozen(kw_only=True)
class RingConfig(ComponentConfig):
    """A ring."""

    size: int = option(1000, "rows", ge=1)


@frozen(kw_only=True)
class HeapConfig(ComponentConfig):
    """A heap."""

    alpha: float = option(0.6, "exponent", ge=0, le=1)

    def check(self) -> Iterator[tuple[str, str]]:
        if self.alpha == 0:
            yield "alpha", "no priority at all; use a ring"


@frozen(kw_only=True)
class SerialConfig(PipelineConfig):
    """In turn."""


def console(interval: float = 2.0) -> tuple[str, float]:
    """Prints."""
    return "console", interval


class NotDerived(ComponentConfig):
    """Registered as an env, but derived from nothing that an env needs."""


NOT_A_CLASS = 7

POLE_TOY = {
    "env": {"type": "pole", "stop_value": 475, "n_evaluator_episode": 10},
    "policy": {"type": "toy", "learn": {"batch_size": 32}, "n_sample": 16},
}
