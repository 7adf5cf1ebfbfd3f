"""Options of the Q network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from dicore.config.declare import ComponentConfig, frozen, option
from dicore_plugins.models.shapes import Part, action_shape_problem, obs_shape_problem


@frozen(kw_only=True)
class DQNModelConfig(ComponentConfig):
    """Q network: MLP or Nature convolutions by the observations' shape; dueling; multi-discrete."""

    obs_shape: int | tuple[int, ...] | None = option(
        None, "shape of one observation; None: taken from the environment", ge=1
    )
    action_shape: int | tuple[int, ...] | None = option(
        None, "number of actions, or one number per head; None: taken from the environment", ge=1
    )
    encoder_hidden_size_list: tuple[int, ...] = option(
        (128, 128, 64), "units of the dense layers (of images: behind the convolutions)", ge=1
    )
    head_hidden_size_list: tuple[int, ...] = option(
        (), "units of hidden layers in each head, or in each stream of a dueling head", ge=1
    )
    dueling: bool = option(False, "split each head into value and advantage (Wang et al. 2016)")
    activation: Literal["relu", "tanh", "elu", "gelu"] = option(
        "relu", "between dense layers; all but gelu can act by numpy"
    )
    obs_parts: tuple[Part, ...] | None = option(
        None,
        "parts of categorical, dict and tuple observations (keys, numbers; of categories their"
        " sizes and least values); None: taken from the environment",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Finds shapes that no network here takes; unknown ones are bound later."""
        if self.obs_shape is not None and (problem := obs_shape_problem(self.obs_shape)):
            yield "obs_shape", problem
        if self.action_shape is not None and (problem := action_shape_problem(self.action_shape)):
            yield "action_shape", problem
        for at, (_, _, sizes, start) in enumerate(self.obs_parts or ()):
            if len(sizes) != len(start):
                yield f"obs_parts.{at}", "must have as many least values as sizes of categories"

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the network.

        Raises:
            ConfigError: a shape is missing or unsupported.
        """
        from dicore_plugins.models.dqn.model import DQN

        return DQN(
            obs_shape=self.obs_shape,
            action_shape=self.action_shape,
            encoder_hidden_size_list=self.encoder_hidden_size_list,
            head_hidden_size_list=self.head_hidden_size_list,
            dueling=self.dueling,
            activation=self.activation,
            obs_parts=self.obs_parts,
        )
