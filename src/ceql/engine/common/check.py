"""Checks the arrays of a restored machine, whichever its loop.

Kernels do not check their indices. A number from outside that is an index must be looked at before one of them runs.
Each loop adds what its own arrays need (`Machine.check`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ceql.errors import DataError
from ceql.jit import Array


def require(holds: object, what: str) -> None:
    """Refuse the state unless this holds."""
    if not holds:
        raise DataError(f"the snapshot is damaged: {what}")


def require_shape(arrays: Mapping[str, Array], name: str, *shape: int | None) -> Array:
    """The array of this name as int64, of integers and of this shape; None stands for any length."""
    require(name in arrays, f"the array '{name}' is missing")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    require(array.dtype.kind == "i" and fits, f"the array '{name}' has another form")
    return array.astype(np.int64, copy=False)


def require_between(numbers: Array, least: int, below: Array | int, what: str) -> None:
    """Refuse the state unless all these numbers are at least `least` and less than `below`."""
    require(bool(((numbers >= least) & (numbers < below)).all()), what)
