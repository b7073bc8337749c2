"""Constants of a cost model from measured batches: how sure they are, and where they hold."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from batching.checks import amounts
from batching.errors import FitError, OutsideRangeError
from batching.stages import FEATURES, StageCosts
from sketches.arrays import Floats, Marks
from sketches.checks import amount
from sketches.errors import InvalidValueError
from sketches.values import ArrayValue, listed, numeric, protect

_MOST_CONSTANTS = 10
_SAME = 1e-9  # directions that differ by less are one


@dataclass(frozen=True, eq=False)
class Fit(ArrayValue):
    """Constants of a linear cost model, and what is known of them.

    Attributes:
        names: the name of each constant.
        constants: seconds for one of what each counts; none is negative.
        lowest: the least that each counted in the measured batches.
        highest: the most.
        error: by what share batches that were left out of the fit were mistaken, on average.
        worst: the same for the batch that was mistaken most.
    """

    names: tuple[str, ...]
    constants: Floats
    lowest: Floats
    highest: Floats
    error: float
    worst: float

    def __post_init__(self) -> None:
        protect(self, "constants", "lowest", "highest")

    def predict(self, counted: Any, *, beyond: float = 0.0) -> Floats:
        """Return what batches will take.

        Args:
            counted: a row for each batch, a column for each constant.
            beyond: by what share what is counted may be outside the range that was measured.

        Raises:
            OutsideRangeError: something is counted that was not measured like that.
        """
        rows = _table("counted", counted, len(self.names))
        self._require(rows, amount("beyond", beyond))
        found: Floats = rows @ self.constants
        return found

    def stage_costs(self, beside: Iterable[str] = ()) -> StageCosts:
        """Return the constants of a batch on Spark; those that were not fitted are 0, or 1 of work.

        Args:
            beside: what else was fitted, and is left out.

        Raises:
            FitError: a constant is none of `batching.stages.FEATURES`.
        """
        found = {"base": 0.0, "stage": 0.0, "task": 0.0, "byte": 0.0, "work": 1.0}
        left_out = set(beside)
        for name, value in zip(self.names, self.constants.tolist(), strict=True):
            if name in left_out:
                continue
            if name not in found:
                raise FitError(
                    f"{name!r} is no constant of a batch; they are {', '.join(FEATURES)}"
                )
            found[name] = value
        return StageCosts(**found)

    def _require(self, rows: Floats, beyond: float) -> None:
        low, high = self.lowest * (1 - beyond), self.highest * (1 + beyond)
        outside = np.argwhere((rows < low) | (rows > high))
        if len(outside):
            row, column = outside[0].tolist()
            raise OutsideRangeError(
                f"counted[{row}]: {self.names[column]!r} counts {rows[row, column]:g}, but was "
                f"measured from {self.lowest[column]:g} to {self.highest[column]:g} only; measure "
                f"such a batch, or allow it with beyond="
            )


def fit(names: Iterable[str], counted: Any, seconds: Any, *, groups: Any = None) -> Fit:
    """Fit constants that are not negative to measured batches, by relative error.

    >>> tasks, seconds = [1, 2, 4, 8], [0.14, 0.20, 0.32, 0.56]
    >>> found = fit(["base", "task"], [[1, count] for count in tasks], seconds)
    >>> found.constants.round(6).tolist(), round(found.error, 6)
    ([0.08, 0.06], 0.0)

    Args:
        names: what the constants are called.
        counted: a row for each batch: by what each constant counts in it, as
            `batching.stages.features` returns it.
        seconds: what each batch took.
        groups: a number for each batch; those of one number were measured under one setting, and
            are left out together to tell the error. Without, batches that count the same are one.

    Raises:
        InvalidValueError: columns do not fit, or a number is out of range.
        FitError: the batches do not tell the constants apart.
    """
    titles = listed("names", names)
    if not 1 <= len(titles) <= _MOST_CONSTANTS:
        raise FitError(f"{len(titles)} constants; fit from 1 to {_MOST_CONSTANTS} at a time")
    rows = _table("counted", counted, len(titles))
    times = amounts("seconds", seconds, len(rows), "batch")
    _require_time(times)
    _require_apart(titles, rows)
    members = _groups(rows, groups)
    relative = rows / times[:, None]
    constants = nonnegative_least_squares(relative, np.ones(len(rows)))
    # Each setting is predicted by the others.
    mistaken = np.empty(len(rows))
    for chosen in members:
        others = nonnegative_least_squares(relative[~chosen], np.ones(int((~chosen).sum())))
        mistaken[chosen] = np.abs(relative[chosen] @ others - 1)
    return Fit(
        names=titles,
        constants=constants,
        lowest=rows.min(axis=0),
        highest=rows.max(axis=0),
        error=float(mistaken.mean()),
        worst=float(mistaken.max()),
    )


def nonnegative_least_squares(table: Floats, target: Floats) -> Floats:
    """Return the numbers, none negative, by which columns add up closest to a target.

    Exact: in the best solution some columns count and the others are 0, and the first are a least
    squares solution. All choices of columns are tried, which for up to ten is a matter of
    milliseconds.
    """
    columns = table.shape[1]
    scale = np.linalg.norm(table, axis=0)
    even = table / np.where(scale > 0, scale, 1.0)
    best, least = np.zeros(columns), float(target @ target)
    for size in range(1, columns + 1):
        for chosen in itertools.combinations(range(columns), size):
            part = even[:, chosen]
            found = np.linalg.lstsq(part, target, rcond=None)[0]
            if (found < 0).any():
                continue
            missed = part @ found - target
            if float(missed @ missed) < least:
                best, least = np.zeros(columns), float(missed @ missed)
                best[list(chosen)] = found
    solution: Floats = best / np.where(scale > 0, scale, 1.0)
    return solution


def _table(name: str, values: Any, columns: int) -> Floats:
    array = numeric(name, values)
    if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[1] != columns:
        raise InvalidValueError(
            f"{name} of shape {array.shape} and type {array.dtype}: give a row of {columns} "
            "numbers for each batch"
        )
    table = array.astype(np.float64)
    wrong = np.argwhere(~(np.isfinite(table) & (table >= 0)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise InvalidValueError(
            f"{name}[{row}][{column}]={table[row, column]}: each must be finite and not negative"
        )
    return table


def _require_time(times: Floats) -> None:
    none = np.flatnonzero(times == 0)
    if len(none):
        raise InvalidValueError(
            f"seconds[{none[0]}]=0.0: a batch takes time; leave out what was not measured"
        )


def _require_apart(names: tuple[str, ...], rows: Floats) -> None:
    """Refuse batches that do not tell constants apart, by name."""
    absent = [name for name, column in zip(names, rows.T, strict=True) if not column.any()]
    if absent:
        raise FitError(
            f"{', '.join(absent)} count 0 in all batches; measure some with them, or leave them out"
        )
    even = rows / np.linalg.norm(rows, axis=0)
    _, sizes, directions = np.linalg.svd(even, full_matrices=True)
    sizes = np.pad(sizes, (0, len(names) - len(sizes)))
    unseen = directions[sizes <= _SAME * max(1.0, float(sizes.max(initial=0.0)))]
    mixed = np.flatnonzero((np.abs(unseen) > _SAME).any(axis=0)).tolist()
    if mixed:
        raise FitError(
            f"{len(rows)} batches do not tell {', '.join(names[place] for place in mixed)} apart; "
            "measure more that differ in them"
        )


def _groups(rows: Floats, groups: Any) -> list[Marks]:
    if groups is None:
        numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    else:
        numbers = numeric("groups", groups)
        if numbers.shape != (len(rows),):
            raise InvalidValueError(
                f"groups of shape {numbers.shape} do not fit {len(rows)} batches; give one for each"
            )
    different = np.unique(numbers)
    if len(different) <= rows.shape[1]:
        raise FitError(
            f"{len(different)} settings for {rows.shape[1]} constants; measure at least one more, "
            "or the error stays unknown"
        )
    return [numbers == number for number in different]
