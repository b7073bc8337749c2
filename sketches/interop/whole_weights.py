"""Weights that are counts, as other systems count: whole numbers that fit 64 bits."""

from typing import Any

import numpy as np

from sketches.arrays import Integers
from sketches.checks import weights as checked
from sketches.errors import InvalidValueError


def whole_weights(weights: Any, length: int, *, most: int) -> Integers:
    """Return a weight for each of ``length`` keys: 1 where no weights are given.

    Raises:
        InvalidValueError: they are no whole numbers from 0 on, or add up to more than ``most``.
    """
    if weights is None:
        return np.ones(length, dtype=np.int64)
    checked("weights", weights, length)
    array = np.asarray(weights)
    if length and array.dtype.kind not in "iu":
        raise InvalidValueError(
            f"weights of type {array.dtype} are not counted here; give whole numbers"
        )
    total = sum(array.tolist())
    if total > most:
        raise InvalidValueError(
            f"weights add up to {total}, and {most} is left up to 2^63 - 1; count less"
        )
    return array.astype(np.int64)
