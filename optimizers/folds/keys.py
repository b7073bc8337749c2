"""The keys of a table: one 64-bit code for each row, and numbers for those that differ."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.hashing import key_places
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, InvalidKeyError
from sketches.keys import Codes, pair_codes

Numbers = NDArray[np.int64]

# What views are cast to where Arrow cannot do without.
SOLID = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


class KeyNumbers(NamedTuple):
    """The keys of a table, numbered from 0 in the order of their places on the ring of hashes.

    That is the order in which state is kept, so rows by number need no sorting.

    Attributes:
        keys: for each row, the number of its key.
        firsts: for each key, the row at which it first came.
        codes: for each key, its 64-bit code.
    """

    keys: Numbers
    firsts: Numbers
    codes: Codes


def codes_of(table: pa.Table, columns: str | Sequence[str], seed: int = 0) -> Codes:
    """Return the code of each row's key, by the hash of a seed.

    One column has the codes of `sketches.keys.as_keys`, two those of its pairs; each further
    column makes a pair with the code of those before it.

    Raises:
        FoldError: a column is not there, or is there twice.
        InvalidKeyError: a key is missing, or of a type that cannot be a key.

    >>> table = pa.table({"user": [7, 8], "place": ["Rome", "Oslo"]})
    >>> codes_of(table, "user").tolist()
    [7, 8]
    >>> len(codes_of(table, ("user", "place")))
    2
    """
    first, *others = key_names(columns)
    codes = _column(table, first, seed).codes
    for name in others:
        codes = pair_codes(codes, _column(table, name, seed).codes, seed)
    return codes


def key_numbers(table: pa.Table, columns: str | Sequence[str], seed: int = 0) -> KeyNumbers:
    """Number the keys of a table in the order of their places by the hash of a seed.

    Raises:
        FoldError: a column is not there, or is there twice.
        InvalidKeyError: a key is missing, or of a type that cannot be a key.

    >>> table = pa.table({"user": ["ann", "bob", "ann"]})
    >>> keys, firsts, codes = key_numbers(table, "user")
    >>> keys.tolist(), firsts.tolist(), len(codes)
    ([0, 1, 0], [0, 1], 2)
    """
    names = key_names(columns)
    if len(names) > 1:
        return _of_codes(codes_of(table, names, seed), seed)
    batch = _column(table, names[0], seed)
    if batch.places is None:
        return _of_codes(batch.column.codes, seed)
    return _of_words(batch.places, batch.column.codes, seed)


def key_names(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a key; at least one."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) for name in names):
        raise FoldError(f"key={columns!r} names no column; give a column, or a tuple of columns")
    return names


def column_index(schema: pa.Schema, name: str) -> int:
    """Return where the one column of this name stands; refuse none and several."""
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return int(places[0])
    if places:
        raise FoldError(f"{len(places)} columns are called {name!r}; rename all but one")
    known = ", ".join(map(repr, schema.names)) or "none"
    raise FoldError(f"the tuples have no column {name!r}; their columns: {known}")


def _column(table: pa.Table, name: str, seed: int) -> KeyBatch:
    column = table.column(column_index(table.schema, name))
    try:
        return KeyBatch.read(column, seed)
    except InvalidKeyError as error:
        raise InvalidKeyError(f"key column {name!r}: {error}") from None


def _of_codes(codes: Codes, seed: int) -> KeyNumbers:
    """Number codes by a hash table, which is many times faster than sorting all of them."""
    encoded = pa.array(codes).dictionary_encode()
    rows = encoded.indices.to_numpy().astype(np.int64)
    return _in_order(rows, encoded.dictionary.to_numpy(), seed)


def _of_words(places: NDArray[np.intp], words: Codes, seed: int) -> KeyNumbers:
    """Number the words that rows use; several words may be one key, and some be unused."""
    distinct = _of_codes(words, seed)
    rows = distinct.keys[places]
    used = np.zeros(len(distinct.codes), dtype=np.bool_)
    used[rows] = True
    if used.all():
        return KeyNumbers(rows, _firsts(rows, len(distinct.codes)), distinct.codes)
    numbers = np.cumsum(used) - 1
    rows = numbers[rows]
    return KeyNumbers(rows, _firsts(rows, int(used.sum())), distinct.codes[used])


def _in_order(rows: Numbers, codes: Codes, seed: int) -> KeyNumbers:
    """Number distinct codes anew by their places, given the number that each row has so far."""
    order = np.argsort(key_places(codes, seed))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    rows = numbers[rows]
    return KeyNumbers(rows, _firsts(rows, len(codes)), codes[order])


def _firsts(rows: Numbers, count: int) -> Numbers:
    """Return the first row of each number; where one index comes often, NumPy keeps the last."""
    firsts = np.empty(count, dtype=np.int64)
    firsts[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return firsts


def take_rows(table: pa.Table, rows: Any) -> pa.Table:
    """Return these rows of a table, in this order, in one chunk a column."""
    places = pa.array(rows)
    columns = [_taken(column, places) for column in table.combine_chunks().columns]
    return pa.table(columns, schema=table.schema)


def _taken(column: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray:
    solid = SOLID.get(column.type)  # Arrow cannot take from views
    if solid is None:
        return column.take(places)
    return column.cast(solid).take(places).cast(column.type)
