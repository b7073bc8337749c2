"""Checks of numbers that come from outside: each names the argument, the value and the remedy."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.errors import InvalidValueError

SEED_LIMIT = 1 << 64


def whole(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return ``value`` as an ``int`` in its range, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidValueError(f"{name}={value!r} is not a whole number; give an int")
    if value < at_least or (at_most is not None and value > at_most):
        limits = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise InvalidValueError(f"{name}={value!r} is out of range; it must be {limits}")
    return int(value)


def seed(value: object) -> int:
    """Return ``value`` as a seed: an unsigned 64-bit number."""
    return whole("seed", value, at_least=0, at_most=SEED_LIMIT - 1)


def number(name: str, value: object, *, above: float = -math.inf, up_to: float = math.inf) -> float:
    """Return ``value`` as a finite ``float`` in the half-open range ``(above, up_to]``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidValueError(f"{name}={value!r} is not a number; give an int or a float")
    try:
        result = float(value)
    except OverflowError:
        raise InvalidValueError(f"{name}= an int that is beyond all floats; give less") from None
    if not math.isfinite(result):
        raise InvalidValueError(f"{name}={value!r} is not finite")
    if not above < result <= up_to:
        raise InvalidValueError(
            f"{name}={value!r} is out of range; it must be in ({above}, {up_to}]"
        )
    return result


def amount(name: str, value: object, *, up_to: float = math.inf) -> float:
    """Return ``value`` as a finite ``float`` from 0 to ``up_to``."""
    result = number(name, value)
    if not 0 <= result <= up_to:
        raise InvalidValueError(f"{name}={value!r} is out of range; it must be in [0, {up_to}]")
    return result


def optional_amount(name: str, value: object, *, up_to: float = math.inf) -> float | None:
    """Return ``value`` as `amount` does, or None for what is not known."""
    return None if value is None else amount(name, value, up_to=up_to)


def weights(name: str, values: Any, length: int) -> NDArray[np.float64]:
    """Return ``values`` as ``length`` finite, non-negative doubles.

    Args:
        name: what the values are called in the message ("weights", "costs").
        values: one number for each key; anything numpy reads as a numeric array.
        length: how many keys there are.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InvalidValueError(f"{name} are not a column; give one number for each key") from None
    if array.dtype.kind not in "iuf":
        if array.size == 0 and length == 0:
            return np.empty(0)
        raise InvalidValueError(
            f"{name} of type {array.dtype} are not numbers; give an int or float for each key"
        )
    if array.shape != (length,):
        raise InvalidValueError(
            f"{name} of shape {array.shape} do not fit {length} keys; give one number for each key"
        )
    with np.errstate(over="ignore"):  # a long double can be beyond all doubles; refused below
        array = array.astype(np.float64, copy=False)
    # One pass for the common case: NaN fails both comparisons, so it is caught as well.
    if length and not (array.min() >= 0 and array.max() < np.inf):
        place = int(np.flatnonzero(~((array >= 0) & (array < np.inf)))[0])
        raise InvalidValueError(
            f"{name}[{place}]={float(array[place])!r} cannot be counted; "
            "each must be finite and not negative (drop or clip such tuples first)"
        )
    return array
