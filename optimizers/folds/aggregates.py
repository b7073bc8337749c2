"""How many, how much, and how much on average, for each key."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.casting import one_array
from optimizers.folds.columns import (
    array_of,
    filled,
    numbers_of,
    or_null,
    present,
    seen_in,
    type_of,
)
from optimizers.folds.decimals import mean_decimals
from optimizers.folds.fold import Fold, check_column, check_parts
from optimizers.folds.sums import added, added_rows, null_unless, sum_type, sums_in


@dataclass(frozen=True, repr=False)
class Count(Fold):
    """How many tuples a key has had; with a column, how many in which that is not null.

    >>> visits = pa.table({"user": ["ann", "bob", "ann"], "page": ["/", "/", None]})
    >>> Count()(visits, "user").to_pydict()
    {'user': ['ann', 'bob'], 'count': [2, 1]}
    >>> Count("page")(visits, "user").to_pydict()
    {'user': ['ann', 'bob'], 'count': [1, 1]}

    Attributes:
        column: the column whose values are counted; None to count tuples.
    """

    even = True

    column: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column", optional=True)

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept."""
        if self.column is not None:
            type_of(tuples, self.column)
        return pa.schema([("count", pa.int64())])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add the number of tuples of each key."""
        numbers = self.checked(tuples, keys, before)
        if self.column is not None:
            values = array_of(tuples, self.column)
            numbers = numbers[present(values)] if values.null_count else numbers
        counts = numbers_of(before, "count")
        counts += np.bincount(numbers, minlength=len(before))
        return pa.table([pa.array(counts)], schema=before.schema)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Add both numbers."""
        check_parts(one, other)
        counts = numbers_of(one, "count") + numbers_of(other, "count")
        return pa.table([pa.array(counts)], schema=one.schema)


@dataclass(frozen=True, repr=False)
class Sum(Fold):
    """The sum of a column of numbers for each key.

    Nulls are left out, and a key that had nothing else has no sum (null). Sums of integers are
    exact, or refused as soon as one does not fit 64 bits; so are those of decimals, with 38 digits
    and the column's number of digits after the point. Sums of floats are added one after the other
    in double precision: n numbers give an error of at most n * 2^-53 times the sum of their
    absolute values. The order is that of arrival, so the result is the same to the last bit for any
    cut of the stream into batches; only `merge` rounds differently. NaN and infinities are numbers
    like others: they stay in the sum.

    >>> orders = pa.table({"user": ["ann", "bob", "ann"], "amount": [3, 5, 4]})
    >>> Sum("amount")(orders, "user").to_pydict()
    {'user': ['ann', 'bob'], 'sum': [7, 5]}

    Attributes:
        column: the column that is added up; integers, decimals or floats.
    """

    even = True

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column")

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept: int64, float64 or a decimal of 38 digits."""
        return pa.schema([("sum", sum_type(self, self.column, tuples))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add the numbers of each key."""
        numbers = self.checked(tuples, keys, before)
        values, numbers = filled(array_of(tuples, self.column), numbers)
        sums = added(self.column, sums_in(before, "sum"), values, numbers)
        there = seen_in(one_array(before.column("sum")), numbers)
        return pa.table([null_unless(sums, there)], schema=before.schema)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Add both sums."""
        check_parts(one, other)
        first, second = one_array(one.column("sum")), one_array(other.column("sum"))
        sums = added_rows(self.column, sums_in(one, "sum"), sums_in(other, "sum"))
        there = present(first) | present(second)
        return pa.table([null_unless(sums, there)], schema=one.schema)


@dataclass(frozen=True, repr=False)
class Mean(Fold):
    """The mean of a column of numbers for each key.

    Kept are the sum, as `Sum` keeps it, and how many numbers are in it; nulls are left out.
    The mean is a float64, and null where a key had only nulls. The mean of decimals is a decimal
    with four more digits after the point, rounded half away from zero.

    >>> orders = pa.table({"user": ["ann", "bob", "ann"], "amount": [3, 5, 4]})
    >>> Mean("amount")(orders, "user").to_pydict()
    {'user': ['ann', 'bob'], 'mean': [3.5, 5.0]}

    Attributes:
        column: the column whose mean it is; integers, decimals or floats.
    """

    even = True

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column")

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the two columns that are kept."""
        return pa.schema(
            [("sum", sum_type(self, self.column, tuples)), ("count", pa.int64())],
        )

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add the numbers of each key, and their count."""
        numbers = self.checked(tuples, keys, before)
        values, numbers = filled(array_of(tuples, self.column), numbers)
        sums = added(self.column, sums_in(before, "sum"), values, numbers)
        counts = numbers_of(before, "count")
        counts += np.bincount(numbers, minlength=len(before))
        return pa.table([sums, pa.array(counts)], schema=before.schema)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Add both sums and both numbers."""
        check_parts(one, other)
        sums = added_rows(self.column, sums_in(one, "sum"), sums_in(other, "sum"))
        counts = numbers_of(one, "count") + numbers_of(other, "count")
        return pa.table([sums, pa.array(counts)], schema=one.schema)

    def results(self, state: pa.Table) -> pa.Table:
        """Return the sums divided by the numbers."""
        sums, counts = sums_in(state, "sum"), numbers_of(state, "count")
        if pa.types.is_decimal(sums.type):
            exact = mean_decimals(sums, np.maximum(counts, 1))
            return pa.table({"mean": null_unless(exact, counts > 0)})
        means = sums.to_numpy().astype(np.float64) / np.maximum(counts, 1)
        return pa.table({"mean": or_null(means, counts > 0)})
