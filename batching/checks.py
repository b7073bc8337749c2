"""Checks of columns that describe operators, edges and stages."""

from typing import Any

import numpy as np

from sketches.arrays import Floats, Integers, Marks
from sketches.errors import InvalidValueError
from sketches.values import numeric


def amounts(  # noqa: PLR0913
    name: str,
    values: Any,
    length: int,
    what: str,
    *,
    at_least: float = 0.0,
    at_most: float = np.inf,
    finite: bool = True,
) -> Floats:
    """Return one double for each operator, edge or stage, or say which is out of range.

    Args:
        name: what the values are called.
        values: one number for all, or one for each.
        length: how many there are.
        what: what there is one for: "operator", "edge".
        at_least: the least that each may be.
        at_most: the most that each may be.
        finite: infinity is refused.
    """
    array = numeric(name, values)
    if array.dtype.kind not in "iuf" and array.size:
        raise InvalidValueError(f"{name} of type {array.dtype} are not numbers; give floats")
    column: Floats = _each(name, array.astype(np.float64), length, what)
    good = (column >= at_least) & (column <= at_most) & (~np.isinf(column) | (not finite))
    wrong = np.flatnonzero(~good)
    if len(wrong):
        limits = f"at least {at_least:g}" if np.isinf(at_most) else f"{at_least:g} to {at_most:g}"
        raise InvalidValueError(
            f"{name}[{wrong[0]}]={float(column[wrong[0]])!r}: each must be {limits}"
            f"{' and finite' if finite else ''}"
        )
    return column


def counts(name: str, values: Any, length: int, what: str, *, at_least: int = 0) -> Integers:
    """Return one whole number for each operator, edge or stage, or say which is out of range."""
    array = numeric(name, values)
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidValueError(
            f"{name} of type {array.dtype} are not whole numbers; give integers"
        )
    most = np.iinfo(np.int32).max
    wrong = np.flatnonzero((array < at_least) | (array > most))
    if len(wrong):
        raise InvalidValueError(
            f"{name}[{wrong[0]}]={array.reshape(-1)[wrong[0]]}: each must be {at_least} to {most}"
        )
    found: Integers = _each(name, array.astype(np.int64), length, what)
    return found


def marks(name: str, values: Any, length: int, what: str) -> Marks:
    """Return one boolean for each operator, edge or stage."""
    array = numeric(name, values)
    if array.dtype.kind != "b" and array.size:
        raise InvalidValueError(f"{name} of type {array.dtype} are not booleans; give True, False")
    found: Marks = _each(name, array.astype(np.bool_), length, what)
    return found


def _each(name: str, array: Any, length: int, what: str) -> Any:
    if array.ndim == 0:
        return np.full(length, array)
    if array.shape != (length,):
        raise InvalidValueError(
            f"{name} of shape {array.shape} do not fit {length} {what}s; give one for each {what}"
        )
    return array
