"""Options of SQL."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.dqn.config import DQNConfig, DQNLearnConfig
from dicore_plugins.policies.sqn.config import SQNOtherConfig


@frozen(kw_only=True)
class SQLLearnConfig(DQNLearnConfig):
    """Options of learning."""

    double: bool = option(False, "no effect: the target has no greedy action; keep it False")
    alpha: float = option(
        0.1, "temperature; the policy is softmax(Q / alpha); raise it to explore more", gt=0
    )


@frozen(kw_only=True)
class SQLConfig(DQNConfig):
    """Soft Q-learning with a fixed temperature (Haarnoja et al. 2017)."""

    learn: SQLLearnConfig = section(SQLLearnConfig)
    other: SQNOtherConfig = section(SQNOtherConfig)

    build = builds("dicore_plugins.policies.sql.policy:SQLPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.learn.double:
            yield "learn.double", "sql has no greedy action in its target; set it to False"
