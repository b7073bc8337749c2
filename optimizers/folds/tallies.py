"""The different values of a column, and those of most weight, for each key."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError
from optimizers.folds.casting import one_array
from optimizers.folds.columns import array_of, filled, normal_type_of, present, type_of
from optimizers.folds.fold import Fold, check_column, check_parts
from optimizers.folds.ordinals import is_ordered, ordinals, ranks
from optimizers.folds.sums import added, sum_type, zeros
from sketches.checks import whole


@dataclass(frozen=True, repr=False)
class Distinct(Fold):
    """How many different values a column has had, for each key: exactly.

    Kept are the values themselves, in their order. Nulls are not values. All NaN are one value,
    and so are the two zeros.

    >>> visits = pa.table({"user": ["ann", "bob", "ann"], "page": ["/", "/", "/exit"]})
    >>> Distinct("page")(visits, "user").to_pydict()
    {'user': ['ann', 'bob'], 'distinct': [2, 1]}

    Attributes:
        column: the column whose values are counted; of any type that has an order.
    """

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column")

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept, of lists of values in normal form."""
        _check_ordered(self, self.column, tuples)
        kind = normal_type_of(tuples, self.column)
        return pa.schema([("values", pa.large_list(kind))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add the values of each key to those it had."""
        numbers = self.checked(tuples, keys, before)
        values, numbers = filled(array_of(tuples, self.column), numbers)
        return _united(before, numbers, values)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Return the values that either has."""
        check_parts(one, other)
        return _united(one, *_flat(other, "values"))

    def results(self, state: pa.Table) -> pa.Table:
        """Return how many values there are."""
        lengths = one_array(state.column("values")).value_lengths().fill_null(0)
        return pa.table({"distinct": lengths.cast(pa.int64())})


@dataclass(frozen=True, repr=False)
class TopK(Fold):
    """The ``k`` values of a column with the largest totals, for each key: exactly.

    The total of a value is the number of tuples that have it, or what a second column adds up to
    in these tuples. The largest comes first, and of equal totals the one with the smaller value.
    Kept are all values with their totals, so that a value can rise; where that is too much,
    `sketches.SpaceSaving` estimates. Tuples with a null in one of the columns are left out.
    Totals are added up as `Sum` does it.

    >>> visits = pa.table({"user": ["ann", "bob", "ann"], "page": ["/", "/", "/exit"]})
    >>> TopK("page", 1)(visits, "user").to_pydict()["top"]
    [[{'value': '/', 'total': 1}], [{'value': '/', 'total': 1}]]

    Attributes:
        column: the column whose values are ranked; of any type that has an order.
        k: how many of them; at least one.
        by: the column that is added up; None to count tuples.
    """

    column: str
    k: int
    by: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_column(self, "column")
        check_column(self, "by", optional=True)
        object.__setattr__(self, "k", whole("k", self.k, at_least=1))

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept, of lists of values in normal form and totals."""
        return self._totals(tuples, normal_type_of(tuples, self.column))

    def given_types(self, tuples: pa.Schema) -> pa.Schema:
        """Return the same with values of the type of the column."""
        return self._totals(tuples, type_of(tuples, self.column))

    def _totals(self, tuples: pa.Schema, kind: pa.DataType) -> pa.Schema:
        _check_ordered(self, self.column, tuples)
        total = pa.int64() if self.by is None else sum_type(self, self.by, tuples)
        entry = pa.struct([("value", kind), ("total", total)])
        return pa.schema([("totals", pa.large_list(entry))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add to the totals of each key."""
        numbers = self.checked(tuples, keys, before)
        values = array_of(tuples, self.column)
        if self.by is None:
            values, numbers = filled(values, numbers)
            ones = pa.array(np.ones(len(values), dtype=np.int64))
            return self._totalled(before, numbers, values, ones)
        weights = array_of(tuples, self.by)
        if values.null_count or weights.null_count:
            there = present(values) & present(weights)
            values, weights = values.filter(pa.array(there)), weights.filter(pa.array(there))
            numbers = numbers[there]
        return self._totalled(before, numbers, values, weights)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Add the totals of both."""
        check_parts(one, other)
        keys, entries = _flat(other, "totals")
        return self._totalled(one, keys, *entries.flatten())

    def results(self, state: pa.Table) -> pa.Table:
        """Return the first ``k`` of each key, largest total first."""
        keys, entries = _flat(state, "totals")
        # Entries are in the order of their values, and the sort keeps that among equals.
        order = np.lexsort((~ordinals(entries.field("total")).numbers, keys))
        counts = np.bincount(keys, minlength=len(state))
        places = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = order[places < self.k]
        lists = _lists(keys[first], entries.take(pa.array(first)), len(state))
        return pa.table({"top": lists.cast(pa.list_(entries.type))})

    def _totalled(
        self, before: pa.Table, keys: NDArray[np.int64], values: pa.Array, weights: pa.Array
    ) -> pa.Table:
        """Add weights to the totals of values: those kept come first, so no cut shows."""
        kept_keys, kept = _flat(before, "totals")
        kept_values, kept_totals = kept.flatten()
        all_keys = np.concatenate([kept_keys, keys])
        numbers, to_values = ordinals(pa.concat_arrays([kept_values, values]))
        places, distinct = ranks(numbers)
        width = max(len(distinct), 1)
        rows, pairs = ranks(all_keys * width + places)
        name = self.column if self.by is None else self.by
        totals = zeros(kept_totals.type, len(pairs))
        totals = added(name, totals, kept_totals, rows[: len(kept)])
        totals = added(name, totals, weights, rows[len(kept) :])
        entries = pa.StructArray.from_arrays(
            [to_values(distinct[pairs % width]), totals], fields=list(kept.type)
        )
        return pa.table([_lists(pairs // width, entries, len(before))], schema=before.schema)


class _Flat(NamedTuple):
    """Lists one after the other: the number of each entry's key, and the entries."""

    keys: NDArray[np.int64]
    entries: pa.Array


def _flat(state: pa.Table, name: str) -> _Flat:
    lists = one_array(state.column(name))
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    return _Flat(np.repeat(np.arange(len(lists)), lengths), lists.flatten())


def _lists(keys: NDArray[np.int64], entries: pa.Array, count: int) -> pa.Array:
    """Return the entries, sorted by key, as one list for each key."""
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), entries)


def _united(before: pa.Table, keys: NDArray[np.int64], values: pa.Array) -> pa.Table:
    """Add values to the sorted lists of values of their keys."""
    kept_keys, kept = _flat(before, "values")
    numbers, to_values = ordinals(pa.concat_arrays([kept, values]))
    places, distinct = ranks(numbers)
    width = max(len(distinct), 1)
    pairs = ranks(np.concatenate([kept_keys, keys]) * width + places).distinct
    lists = _lists(pairs // width, to_values(distinct[pairs % width]), len(before))
    return pa.table([lists], schema=before.schema)


def _check_ordered(fold: Fold, column: str, tuples: pa.Schema) -> None:
    kind = type_of(tuples, column)
    if not is_ordered(kind):
        raise FoldError(
            f"{fold!r} cannot tell values of column {column!r} of type {kind} apart; "
            "cast it to numbers, texts, bytes or times"
        )
