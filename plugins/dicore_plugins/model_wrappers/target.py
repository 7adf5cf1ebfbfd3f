"""Target networks: frozen copies that are updated from the trained model.

`assign` copies every n updates (Mnih et al. 2015, doi:10.1038/nature14236); `momentum` is a soft
(Polyak) update each time (Lillicrap et al. 2016, arXiv:1509.02971): w <- w + theta (source - w).
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
    """Wraps a frozen copy of the model as target network, with hard or soft updates.

    Args:
        model: Model to copy; it is not changed.
        update_type: `assign` (hard copies) or `momentum` (soft updates).
        kw: `freq` or `theta` as a dict, for example `{"freq": 100}`.
        freq: Updates between two copies (assign).
        theta: Soft-update coefficient in (0, 1] (momentum).

    Raises:
        UsageError: `update_type` is unknown or a number is out of range.
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
        """Updates the copy from the source.

        Args:
            source: `Flat` of the trained model (one operation), or its `state_dict()`.
            direct: Copy now and restart the counter.

        Raises:
            SchemaError: the parameters of the source differ.
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
                f"the target has {self._flat.data.numel()} parameters, the source has"
                f" {source.data.numel()}"
            )
        self._flat.follow(source, theta)

    def _move_by_name(self, source: Mapping[str, Tensor], theta: float | None) -> None:
        from dicore_plugins.models.flat import follow

        mine = self._network().state_dict()
        if mine.keys() != source.keys():
            odd = sorted(mine.keys() ^ source.keys())
            raise SchemaError(f"the parameters of source and target differ: {odd}")
        for name, value in mine.items():
            follow(value, source[name].detach(), theta)

    def _network(self) -> Any:
        """Returns the copied module, below any wrappers."""
        return self.layers[-1]


def _check(update_type: str, options: Mapping[str, float]) -> None:
    if update_type not in ("assign", "momentum"):
        raise UsageError(f"unknown update_type '{update_type}'; expected assign, momentum")
    unknown = sorted(options.keys() - {"freq", "theta"})
    if unknown:
        raise UsageError(
            f"unknown options {unknown}; a target takes freq (assign) or theta (momentum)"
        )
    if options["freq"] < 1:
        raise UsageError(f"freq of a target must be >= 1, got {options['freq']!r}")
    if not 0 < options["theta"] <= 1:
        raise UsageError(f"theta of a target must be in (0, 1], got {options['theta']!r}")
