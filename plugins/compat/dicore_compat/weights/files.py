"""Reads and checks files beside the tensors of a checkpoint: its archive, statistics, values."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from dicore.errors import UsageError
from dicore_compat.weights.chains import Scale

__all__ = ["check_archive", "check_finite", "read_scale"]


def check_finite(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises UsageError if a tensor has values that are not finite."""
    for name, each in tensors.items():
        if not bool(torch.isfinite(each).all()):
            raise UsageError(
                f"{name} has values that are not finite",
                hint="its training diverged: take an earlier checkpoint of it",
            )


def check_archive(file: str | Path) -> None:
    """Refuses a damaged archive: torch reads it without a look at its checksums."""
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, OSError):  # no archive, or the reader says what is wrong
        return
    except (zlib.error, EOFError, RuntimeError) as error:  # the last one: needs a password
        damaged = f"a member ({error})"
    if damaged is not None:
        raise UsageError(f"{file}: {damaged} is damaged", hint="copy the file again")


def read_scale(file: str | Path) -> Scale:
    """Reads `mean`, `var`, and maybe `epsilon` and `clip`, of observations from an .npz file.

    Raises:
        UsageError: it cannot be read, or has other values.
    """
    try:
        with np.load(file, allow_pickle=False) as data:
            mean, var = (torch.as_tensor(data[name]).flatten() for name in ("mean", "var"))
            epsilon = float(data["epsilon"]) if "epsilon" in data else 1e-8
            clip = float(data["clip"]) if "clip" in data else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--obs-norm: {file}: expected an .npz with mean and var: {error}"
        ) from error
    if mean.is_complex() or var.is_complex():
        raise UsageError(f"--obs-norm: {file}: mean and var are complex, not real numbers")
    mean, var = mean.double(), var.double()
    if mean.shape != var.shape or not bool((var >= 0).all()):
        raise UsageError(
            f"--obs-norm: {file}: mean and var are not of one size, or var is negative or NaN"
        )
    if not bool((torch.isfinite(mean) & torch.isfinite(var) & (var + epsilon > 0)).all()):
        raise UsageError(
            f"--obs-norm: {file}: mean or var is not finite, or var + epsilon is not positive",
            hint="leave epsilon out to add 1e-8 to variances of zero",
        )
    return Scale(mean, (var + epsilon).sqrt(), clip)
