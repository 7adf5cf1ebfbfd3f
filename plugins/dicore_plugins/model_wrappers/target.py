"""A target network: a copy of a model that follows it at a distance.

`assign` copies every n updates (Mnih et al. 2015, doi:10.1038/nature14236); `momentum` moves by a
share theta each time (Lillicrap et al. 2016, arXiv:1509.02971): w <- w + theta (source - w).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from dicore.errors import SchemaError, UsageError
from dicore.interfaces.model import IModel, IModelWrapper
from dicore_plugins.model_wrappers.base import BaseWrapper

if TYPE_CHECKING:
    from torch import Tensor

    from dicore_plugins.models.flat import Flat


class TargetNetwork(BaseWrapper):
    """Holds a frozen copy of a model; the model itself is left alone.

    Args:
        model: What to copy.
        update_type: `assign` or `momentum`.
        kw: The same as `freq` or `theta`, in the documents' form: `{"freq": 100}`.
        freq: Updates between two copies (assign).
        theta: Share of the way to the source in one update (momentum), in (0, 1].

    Raises:
        UsageError: the type is unknown or a number is out of its range.
    """

    def __init__(
        self,
        model: IModel | IModelWrapper,
        update_type: Literal["assign", "momentum"] = "assign",
        kw: Mapping[str, float] | None = None,
        *,
        freq: int = 100,
        theta: float = 0.005,
    ) -> None:
        from dicore_plugins.models.flat import Flat

        options = {"freq": freq, "theta": theta, **(kw or {})}
        _check(update_type, options)
        super().__init__(copy.deepcopy(model))
        self._network().requires_grad_(requires_grad=False)
        self._update_type = update_type
        self._freq = int(options["freq"])
        self._theta = float(options["theta"])
        self._flat = Flat(self._network())
        self.update_count = 0

    def update(self, source: Flat | Mapping[str, Tensor], direct: bool = False) -> None:
        """Follows the source by one update.

        Args:
            source: The `Flat` of the model that learns (one operation), or its `state_dict()`.
            direct: Copy at once, and count anew.

        Raises:
            SchemaError: the source is of other parameters.
        """
        if direct:
            self.update_count = 0
            self._move(source, None)
            return
        self.update_count += 1
        if self._update_type == "momentum":
            self._move(source, self._theta)
        elif self.update_count % self._freq == 0:
            self._move(source, None)

    def _move(self, source: Flat | Mapping[str, Tensor], theta: float | None) -> None:
        if not self._flat.intact():
            self._flat.rebind()
        if isinstance(source, Mapping):
            self._move_by_name(source, theta)
            return
        if source.data.shape != self._flat.data.shape:
            raise SchemaError(
                f"the target has {self._flat.data.numel()} parameters, the source"
                f" {source.data.numel()}"
            )
        _follow(self._flat.data, source.data, theta)
        buffers = zip(self._network().buffers(), source.module.buffers(), strict=True)
        for mine, theirs in buffers:
            _follow(mine, theirs, theta)

    def _move_by_name(self, source: Mapping[str, Tensor], theta: float | None) -> None:
        mine = self._network().state_dict()
        if mine.keys() != source.keys():
            odd = sorted(mine.keys() ^ source.keys())
            raise SchemaError(f"source and target differ in their parameters: {odd}")
        for name, value in mine.items():
            _follow(value, source[name], theta)

    def _network(self) -> Any:
        """Returns the copied module itself, below any layers."""
        return self.layers[-1]


def _follow(mine: Tensor, theirs: Tensor, theta: float | None) -> None:
    if theta is None or not mine.is_floating_point():
        mine.copy_(theirs.detach())
    else:
        mine.lerp_(theirs.detach(), theta)


def _check(update_type: str, options: Mapping[str, float]) -> None:
    if update_type not in ("assign", "momentum"):
        raise UsageError(
            f"no way to update a target is named '{update_type}'", hint="one of assign, momentum"
        )
    unknown = sorted(options.keys() - {"freq", "theta"})
    if unknown:
        raise UsageError(f"a target takes freq (assign) or theta (momentum), not {unknown}")
    if options["freq"] < 1:
        raise UsageError(f"freq of a target must be >= 1, got {options['freq']!r}")
    if not 0 < options["theta"] <= 1:
        raise UsageError(f"theta of a target must lie in (0, 1], got {options['theta']!r}")
