"""What shapes of observations and actions the networks of this package take; no torch here."""

from __future__ import annotations

from collections.abc import Sequence

SMALLEST_IMAGE = 36
"""Least height and width that three Nature convolutions leave anything of, in pixels."""

Part = tuple[tuple[str | int, ...], int, tuple[int, ...], tuple[int, ...]]
"""A part of an observation: keys from the outside inwards, how many numbers it makes; of categories
their sizes and their least values."""
ObsShape = int | Sequence[int]
ActionShape = int | Sequence[int]


def obs_shape_problem(shape: ObsShape | None) -> str | None:
    """Says what is wrong with the shape of one observation, or None.

    Vectors are an int or a 1-tuple, images a 3-tuple (channels, height, width).
    """
    if shape is None:
        return "is not known; give it, or let the run take it from the environment"
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(_counts(size) for size in sizes):
        return f"must be made of whole numbers >= 1, got {shape!r}"
    if len(sizes) not in (1, 3):
        return (
            "must be an int or 1-tuple (vectors, by MLP) or a 3-tuple (images, by convolution),"
            f" got {shape!r}"
        )
    if len(sizes) == 3 and min(sizes[1:]) < SMALLEST_IMAGE:
        return (
            f"must be (channels, height, width) with height and width >= {SMALLEST_IMAGE} for the"
            f" convolutions, got {shape!r}"
        )
    return None


def action_shape_problem(shape: ActionShape | None) -> str | None:
    """Says what is wrong with a number of actions (or one number per head), or None."""
    if shape is None:
        return "is not known; give it, or let the run take it from the environment"
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or not all(_counts(size) for size in sizes):
        return f"must be an int >= 1, or a list of such (one per head), got {shape!r}"
    return None


def _counts(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1
