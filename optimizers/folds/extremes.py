"""The smallest, the largest and the latest value of a column, for each key."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError
from optimizers.folds.casting import one_array
from optimizers.folds.columns import array_of, filled, normal_type_of, present, type_of
from optimizers.folds.fold import Fold, check_column, check_parts
from optimizers.folds.ordinals import is_ordered, ordinals
from optimizers.folds.types import normal


@dataclass(frozen=True, repr=False)
class _Extreme(Fold):
    """The value of a column that stands at one end of its order, for each key."""

    even = True

    column: str

    result: ClassVar[str]
    worst: ClassVar[int]
    better: ClassVar[np.ufunc]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column")

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept, of the type of the column in normal form."""
        kind = type_of(tuples, self.column)
        if not is_ordered(kind):
            raise FoldError(
                f"{self!r} cannot compare values of column {self.column!r} of type {kind}; "
                "cast it to numbers, texts, bytes or times"
            )
        return pa.schema([(self.result, normal(kind))])

    def given_types(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column, of the type of the column."""
        return pa.schema([(self.result, type_of(tuples, self.column))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Compare the values of each key with what was kept."""
        numbers = self.checked(tuples, keys, before)
        return self._best(before, array_of(tuples, self.column), numbers)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Return the better value of both."""
        check_parts(one, other)
        return self._best(one, array_of(other, self.result), np.arange(len(one)))

    def _best(self, before: pa.Table, column: pa.Array, keys: NDArray[np.int64]) -> pa.Table:
        kept = one_array(before.column(self.result))
        there = present(kept).copy()
        values, keys = filled(column, keys)
        all_keys = np.concatenate([np.flatnonzero(there), keys])
        numbers, to_values = ordinals(pa.concat_arrays([kept.drop_null(), values]))
        best = np.full(len(before), self.worst, dtype=np.int64)
        self.better.at(best, all_keys, numbers)
        there[keys] = True
        places = pa.array(np.cumsum(there) - 1, mask=~there)
        return pa.table([to_values(best[there]).take(places)], schema=before.schema)


@dataclass(frozen=True, repr=False)
class Min(_Extreme):
    """The smallest value of a column for each key; of any type that has an order.

    Nulls are left out, and a key that had nothing else has no smallest value (null). Texts are
    compared by code points. NaN is larger than every other number.

    >>> orders = pa.table({"user": ["ann", "bob", "ann"], "item": ["pear", "fig", "apple"]})
    >>> Min("item")(orders, "user").to_pydict()
    {'user': ['ann', 'bob'], 'min': ['apple', 'fig']}

    Attributes:
        column: the column whose smallest value it is.
    """

    result = "min"
    worst = np.iinfo(np.int64).max
    better = np.minimum


@dataclass(frozen=True, repr=False)
class Max(_Extreme):
    """The largest value of a column for each key; of any type that has an order.

    Nulls are left out, and a key that had nothing else has no largest value (null). Texts are
    compared by code points. NaN is larger than every other number.

    >>> orders = pa.table({"user": ["ann", "bob", "ann"], "item": ["pear", "fig", "apple"]})
    >>> Max("item")(orders, "user").to_pydict()
    {'user': ['ann', 'bob'], 'max': ['pear', 'fig']}

    Attributes:
        column: the column whose largest value it is.
    """

    result = "max"
    worst = np.iinfo(np.int64).min
    better = np.maximum


@dataclass(frozen=True, repr=False)
class Last(Fold):
    """What a column held in the last tuple of each key to arrive; of any type.

    That may be a null. If a key is split over instances, its states cannot be merged, as they do
    not say which tuple came last.

    >>> visits = pa.table({"user": ["ann", "bob", "ann"], "page": ["/", "/", "/exit"]})
    >>> Last("page")(visits, "user").to_pydict()
    {'user': ['ann', 'bob'], 'last': ['/exit', '/']}

    Attributes:
        column: the column whose last value it is.
    """

    even = True

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column")

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept, of the type of the column in normal form."""
        return pa.schema([("last", normal_type_of(tuples, self.column))])

    def given_types(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column, of the type of the column."""
        return pa.schema([("last", type_of(tuples, self.column))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Take the last value of each key."""
        numbers = self.checked(tuples, keys, before)
        rows = np.arange(len(before))
        # Where one index comes often, NumPy keeps what is assigned last.
        rows[numbers] = len(before) + np.arange(len(numbers))
        kept = one_array(before.column("last"))
        values = pa.concat_arrays([kept, array_of(tuples, self.column)])
        return pa.table([values.take(pa.array(rows))], schema=before.schema)
