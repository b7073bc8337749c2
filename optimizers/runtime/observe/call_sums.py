"""What calls of an operator's function take: for themselves, and for what is in them.

A call takes ``fixed + per tuple * tuples + per key * keys + per byte * bytes of state``. Calls are
added up as they are reported, in a few numbers whatever their number, from which the least squares
of relative errors are found. Errors are relative so that small calls tell as much as large ones,
and one that was held up by something else counts for little.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats

Call: TypeAlias = tuple[float, float, float, float]
"""The tuples, the keys and the bytes of state of a call, and how many seconds it took."""

FACTORS = 4  # the call itself, its tuples, its keys, its bytes of state
_SIZE = FACTORS + 1
_UPPER = np.triu_indices(_SIZE)
_LEAST = 1e-7  # seconds; the clock is hardly finer
_SURE = 0.01  # no call is told better than that, however well calls agree

SUMS = len(_UPPER[0])
"""How many numbers calls add up to."""


def call_sums(calls: Iterable[Call]) -> Floats:
    """Return what calls add up to."""
    given = np.array(list(calls), dtype=np.float64).reshape(-1, FACTORS)
    if not len(given):
        return np.zeros(SUMS)
    seconds = np.maximum(given[:, 3], _LEAST)
    ones = np.ones(len(given))
    rows = np.column_stack([seconds, ones, given[:, 0], given[:, 1], given[:, 2]])
    rows /= seconds[:, None]
    sums: Floats = (rows.T @ rows)[_UPPER]
    return sums


@dataclass(frozen=True)
class CallModel:
    """What calls take.

    Attributes:
        rates: the seconds of a call, of a tuple, of a key and of a byte of state.
        errors: how uncertain these are, and together: their covariance.
    """

    rates: Floats
    errors: NDArray[np.float64]

    @classmethod
    def of(cls, sums: Floats) -> "CallModel | None":
        """Return what explains calls best, none of it negative; None where too few are known."""
        whole = np.zeros((_SIZE, _SIZE))
        whole[_UPPER] = sums
        whole += np.triu(whole, 1).T
        calls, squares, products = whole[0, 0], whole[1:, 1:], whole[0, 1:]
        scale = np.sqrt(np.diag(squares))
        there = np.flatnonzero(scale)
        best: tuple[float, tuple[int, ...], Floats] | None = None
        for count in range(1, len(there) + 1):
            for chosen in combinations(there.tolist(), count):
                fitted = _solved(squares, products, scale, chosen)
                if fitted is None or (fitted < 0).any():
                    continue
                rest = max(calls - float(fitted @ products[list(chosen)]), 0.0)
                if best is None or rest < best[0]:
                    best = rest, chosen, fitted
        if best is None or calls <= len(there) + 1:
            return None
        rest, chosen, fitted = best
        rates, errors = np.zeros(FACTORS), np.zeros((FACTORS, FACTORS))
        rates[list(chosen)] = fitted
        # How uncertain a rate is that came out as nothing is seen by letting it be what it likes.
        sizes = scale[there]
        values, vectors = np.linalg.eigh(squares[np.ix_(there, there)] / np.outer(sizes, sizes))
        inverse = (vectors / np.maximum(values, _SINGULAR)) @ vectors.T / np.outer(sizes, sizes)
        spread = max(rest / (calls - len(there)), _SURE**2)
        errors[np.ix_(there, there)] = inverse * spread
        return cls(rates, errors)

    def seconds(self, amounts: NDArray[np.float64]) -> Floats:
        """Return what rows of calls, tuples, keys and bytes of state take."""
        taken: Floats = amounts @ self.rates
        return taken

    def uncertainty(self, amounts: NDArray[np.float64]) -> Floats:
        """Return the standard error of `seconds` of each row."""
        squares = np.einsum("ij,jk,ik->i", amounts, self.errors, amounts)
        errors: Floats = np.sqrt(np.maximum(squares, 0.0))
        return errors


_SINGULAR = 1e-9


def _inverse(
    squares: NDArray[np.float64], scale: Floats, chosen: tuple[int, ...]
) -> NDArray[np.float64] | None:
    """Return the inverse of a part of a matrix; None where that says nothing."""
    at, sizes = np.ix_(chosen, chosen), scale[list(chosen)]
    scaled = squares[at] / np.outer(sizes, sizes)
    if np.linalg.eigvalsh(scaled)[0] < _SINGULAR:
        return None
    inverse: NDArray[np.float64] = np.linalg.inv(scaled) / np.outer(sizes, sizes)
    return inverse


def _solved(
    squares: NDArray[np.float64], products: Floats, scale: Floats, chosen: tuple[int, ...]
) -> Floats | None:
    inverse = _inverse(squares, scale, chosen)
    if inverse is None:
        return None
    solved: Floats = inverse @ products[list(chosen)]
    return solved
