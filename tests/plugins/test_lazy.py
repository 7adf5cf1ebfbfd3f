"""What options build: networks by the names of their options."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from dicore.config import frozen, option
from dicore.errors import ConfigError
from dicore_plugins.lazy import builds_network
from dicore_plugins.models import DQN, QAC, CrossQModelConfig, QACConfig


@frozen(kw_only=True)
class Wider(QACConfig):
    """A network that is changed after it was built."""

    more: int = option(1, "another option")


@frozen(kw_only=True)
class Fixed(QACConfig):
    """A network with arguments that are no options."""

    warm_up: int = option(7, "batches")

    build = builds_network(
        "dicore_plugins.models.qac.model:QAC", renamed={"warm_up": "renorm"}, num_critics=5
    )


def test_a_network_takes_the_options_of_the_class_that_builds_it() -> None:
    built: Any = Wider(obs_shape=3, action_shape=2, num_critics=4).build(None)
    assert type(built) is QAC
    assert built.critic.count == 4


def test_arguments_can_be_renamed_and_fixed() -> None:
    built: Any = Fixed(obs_shape=3, action_shape=2, num_critics=4).build(None)
    assert built.critic.count == 5
    assert built.critic.norms[0].warm_up == 7
    crossq: Any = CrossQModelConfig(obs_shape=3, action_shape=2, renorm_warm_up=9).build(None)
    assert crossq.critic.norms[0].warm_up == 9


def test_missing_shapes_are_errors_of_the_network() -> None:
    with pytest.raises(ConfigError, match=r"model\.obs_shape"):
        QACConfig(action_shape=2).build(None)
    assert DQN.config_class(obs_shape=3, action_shape=2).build(None).__class__ is DQN
