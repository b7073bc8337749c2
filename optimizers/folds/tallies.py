"""The different values of a column, and the most weighty of them, for each key."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.errors import FoldError
from optimizers.folds.columns import array_of, filled, one_array, present, type_of
from optimizers.folds.fold import Fold, check_parts
from optimizers.folds.ordinals import is_ordered, ordinals, ranks
from optimizers.folds.sums import added, sum_type
from sketches.checks import whole
from sketches.keys import Codes, as_keys


@dataclass(frozen=True, repr=False)
class Distinct(Fold):
    """How many different values a column has had, for each key: exactly.

    Kept are the 64-bit codes of the values, ascending; so two different texts, byte strings or
    decimals may be taken for one, with a probability of about 2^-64 for any two. Nulls are not
    values. All NaN are one value, and so are the two zeros.

    >>> visits = pa.table({"user": ["ann", "bob", "ann"], "page": ["/", "/", "/exit"]})
    >>> Distinct("page")(visits, "user").to_pydict()
    {'user': ['ann', 'bob'], 'distinct': [2, 1]}

    Attributes:
        column: the column whose values are counted; of any type that has an order.
    """

    column: str

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept, of lists."""
        _check_ordered(self, self.column, tuples)
        return pa.schema([("codes", pa.large_list(pa.uint64()))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add the values of each key to those it had."""
        numbers = self.checked(tuples, keys, before)
        values, numbers = filled(array_of(tuples, self.column), numbers)
        return _united(before, numbers, _codes(values))

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Return the values that either has."""
        check_parts(one, other)
        keys, codes = _flat(other, "codes")
        return _united(one, keys, codes.to_numpy())

    def results(self, state: pa.Table) -> pa.Table:
        """Return how many values there are."""
        lengths = one_array(state.column("codes")).value_lengths().fill_null(0)
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
        object.__setattr__(self, "k", whole("k", self.k, at_least=1))

    def state(self, tuples: pa.Schema) -> pa.Schema:
        """Return the one column that is kept, of lists of values and totals."""
        _check_ordered(self, self.column, tuples)
        entry = pa.struct(
            [
                ("value", type_of(tuples, self.column)),
                ("total", pa.int64() if self.by is None else sum_type(self, self.by, tuples)),
            ]
        )
        return pa.schema([("totals", pa.large_list(entry))])

    def absorb(self, tuples: pa.Table, keys: NDArray[np.int64], before: pa.Table) -> pa.Table:
        """Add to the totals of each key."""
        numbers = self.checked(tuples, keys, before)
        values = array_of(tuples, self.column)
        if self.by is None:
            values, numbers = filled(values, numbers)
            return self._totalled(before, numbers, values, np.ones(len(values), dtype=np.int64))
        weights = array_of(tuples, self.by)
        if values.null_count or weights.null_count:
            there = present(values) & present(weights)
            values, weights = values.filter(pa.array(there)), weights.filter(pa.array(there))
            numbers = numbers[there]
        return self._totalled(before, numbers, values, weights.to_numpy())

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Add the totals of both."""
        check_parts(one, other)
        keys, entries = _flat(other, "totals")
        return self._totalled(one, keys, entries.field("value"), entries.field("total").to_numpy())

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
        self, before: pa.Table, keys: NDArray[np.int64], values: pa.Array, weights: NDArray[Any]
    ) -> pa.Table:
        """Add weights to the totals of values: those kept come first, so no cut shows."""
        kept_keys, kept = _flat(before, "totals")
        all_keys = np.concatenate([kept_keys, keys])
        numbers, to_values = ordinals(pa.concat_arrays([kept.field("value"), values]))
        places, distinct = ranks(numbers)
        width = max(len(distinct), 1)
        rows, pairs = ranks(all_keys * width + places)
        totals = np.zeros(len(pairs), dtype=kept.field("total").to_numpy().dtype)
        name = self.column if self.by is None else self.by
        for part_rows, part in (
            (rows[: len(kept)], kept.field("total").to_numpy()),
            (rows[len(kept) :], weights),
        ):
            totals = added(name, totals, part, part_rows)
        entries = pa.StructArray.from_arrays(
            [to_values(distinct[pairs % width]), pa.array(totals)], fields=list(kept.type)
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


def _united(before: pa.Table, keys: NDArray[np.int64], codes: Codes) -> pa.Table:
    """Add codes to the sorted lists of codes of their keys."""
    kept_keys, kept = _flat(before, "codes")
    places, distinct = ranks(np.concatenate([kept.to_numpy(), codes]))
    width = max(len(distinct), 1)
    pairs = ranks(np.concatenate([kept_keys, keys]) * width + places).distinct
    lists = _lists(pairs // width, pa.array(distinct[pairs % width]), len(before))
    return pa.table([lists], schema=before.schema)


def _codes(values: pa.Array) -> Codes:
    """Return a code for each value, equal for equal values in every batch."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return as_keys(values.cast(pa.string())).codes
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return as_keys(values).codes
    if isinstance(values, pa.StringArray | pa.LargeStringArray) or "binary" in str(kind):
        return as_keys(values).codes
    return ordinals(values).numbers.view(np.uint64)


def _check_ordered(fold: Fold, column: str, tuples: pa.Schema) -> None:
    kind = type_of(tuples, column)
    if not is_ordered(kind):
        raise FoldError(
            f"{fold!r} cannot tell values of column {column!r} of type {kind} apart; "
            "cast it to numbers, texts, bytes or times"
        )
