"""What the hooks of a learner in another process log, until it is sent to the run's process."""

from __future__ import annotations

__all__ = ["Shown"]

_END = "_iter"


class Shown:
    """Keeps numbers by update, in the place of a TensorBoard writer."""

    def __init__(self) -> None:
        self._found: dict[int, dict[str, float]] = {}

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Keeps a number that is logged by updates; those by env steps are the same ones."""
        if name.endswith(_END):
            self._found.setdefault(int(step), {})[name.removesuffix(_END)] = float(value)

    def add_histogram(self, name: str, values: object, step: int) -> None:
        """Keeps nothing: histograms are not sent."""

    def taken(self) -> list[tuple[int, dict[str, float]]]:
        """Returns what was logged since the last call, by update."""
        found, self._found = self._found, {}
        return sorted(found.items())
