"""Checks that images have a range that models here scale: bytes, or floats from 0 to 1."""

from __future__ import annotations

from dicore.errors import ConfigError

__all__ = ["check_pixels"]


def check_pixels(name: str, space: object) -> None:
    """Raises an error if observations are images that no model here scales.

    Bytes are divided by 255. Other numbers are taken as they are, so they have to be from 0 to 1;
    where a space has no bounds, that is not checked.

    Args:
        name: Name of the policy.
        space: Space of observations.

    Raises:
        ConfigError: they are images of other numbers than bytes with a bound outside 0 to 1.
    """
    import numpy as np

    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    low, high = (np.asarray(getattr(space, end, np.nan), np.float64) for end in ("low", "high"))
    if shape is None or len(shape) != 3 or dtype is None or np.dtype(dtype) == np.uint8:
        return
    ends = np.concatenate([low.ravel(), high.ravel()])
    ends = ends[np.isfinite(ends)]
    if ends.size and (ends.min() < 0 or ends.max() > 1):
        range_ = f"{ends.min():g} to {ends.max():g}"
        wrapper = (
            f'env.env_wrapper=[{{"type":"static_obs_norm","mean":{ends.min():g},'
            f'"std":{ends.max() - ends.min():g}}}]'
        )
        raise ConfigError(
            f"policy.type: '{name}' takes images of bytes, which it divides by 255, or of floats"
            f" from 0 to 1; those of this env are {np.dtype(dtype).name} from {range_}",
            hint=f"return uint8 images, or scale them: '{wrapper}'",
        )
