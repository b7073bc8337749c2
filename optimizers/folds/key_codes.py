"""The keys of a table: one 64-bit code for each row, and numbers for those that differ."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from grouping.hashing import key_places
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, InvalidKeyError
from optimizers.folds.casting import cast, one_array, take_rows
from optimizers.folds.describe import in_line
from optimizers.folds.types import SOLID, normal_key
from sketches.arrays import Codes, Integers
from sketches.keys import as_keys, pair_codes

__all__ = [
    "SOLID",
    "KeyNumbers",
    "Numbered",
    "codes_of",
    "column_index",
    "key_names",
    "key_numbers",
    "row_numbers",
    "take_rows",
]


_WORTH_HASHING = 1 << 15  # rows
_SAMPLE = 1 << 13
_MOSTLY = 0.96  # share of different keys in a sample, above which most keys come once or twice


class KeyNumbers(NamedTuple):
    """The keys of a table, numbered from 0 in the order of their places on the ring of hashes.

    State is kept in that order, so rows by number need no sorting. Keys have different numbers even
    if their codes or places are equal.

    Attributes:
        keys: for each row, the number of its key.
        firsts: for each key, the row at which it first came.
        codes: for each key, its 64-bit code.
    """

    keys: Integers
    firsts: Integers
    codes: Codes


class Numbered(NamedTuple):
    """Rows by their values: equal rows have equal numbers, different rows different ones.

    Attributes:
        rows: for each row, the number of its values.
        size: how many different rows there are; each number below is in use.
    """

    rows: Integers
    size: int


def codes_of(table: pa.Table, columns: str | Sequence[str], seed: int = 0) -> Codes:
    """Return the code of each row's key, by the hash of a seed.

    One column has the codes of `sketches.keys.as_keys`, two those of its pairs; each further
    column makes a pair with the code of those before it.

    Raises:
        FoldError: a column is missing, or there twice.
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
    """Number the keys of a table, by the keys themselves and not their codes.

    Their order is that of their places by the hash of a seed.

    Raises:
        FoldError: a column is missing, or there twice.
        InvalidKeyError: a key is missing, or of a type that cannot be a key.

    >>> table = pa.table({"user": ["ann", "bob", "ann"]})
    >>> keys, firsts, codes = key_numbers(table, "user")
    >>> keys.tolist(), firsts.tolist(), len(codes)
    ([0, 1, 0], [0, 1], 2)
    """
    names = key_names(columns)
    found = [_words(table, name, seed) for name in names]
    numbered = found[0].numbered
    for words in found[1:]:
        numbered = _combined(numbered, words.numbered)
    codes = found[0].hashed(names[0], seed)
    if len(found) > 1:
        firsts = _firsts(numbered)
        codes = codes[found[0].numbered.rows[firsts]]
        for name, words in zip(names[1:], found[1:], strict=True):
            own = words.hashed(name, seed)[words.numbered.rows[firsts]]
            codes = pair_codes(codes, own, seed)
    order = _by_place(key_places(codes, seed))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    keys = numbers[numbered.rows]
    return KeyNumbers(keys, _firsts(Numbered(keys, numbered.size)), codes[order])


def row_numbers(columns: Sequence[pa.ChunkedArray], rows: int) -> Numbered:
    """Number rows by all their columns; without columns, all are equal.

    Args:
        columns: columns of one length, of types that state keeps.
        rows: how many rows there are.
    """
    numbered = Numbered(np.zeros(rows, dtype=np.int64), min(rows, 1))
    for column in columns:
        numbered = _combined(numbered, _encoded(column).numbered)
    return numbered


def key_names(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a key; at least one."""
    names: object = (columns,) if isinstance(columns, str) else columns
    if (
        not isinstance(names, Sequence)
        or not len(names)
        or not all(isinstance(name, str) for name in names)
    ):
        raise FoldError(
            f"key={in_line(columns)} names no column; give a column, or a tuple of columns"
        )
    return tuple(names)


def column_index(schema: pa.Schema, name: str) -> int:
    """Return the place of the column of this name; refuse none and several."""
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return int(places[0])
    if places:
        raise FoldError(f"{len(places)} columns are called {name!r}; rename all but one")
    known = ", ".join(map(repr, schema.names)) or "none"
    raise FoldError(f"the tuples have no column {name!r}; their columns: {known}")


class _Words(NamedTuple):
    """The different keys of a column, and which of them each row has.

    Attributes:
        numbered: the number of each row's key.
        words: the keys by number; None where their codes are known.
        codes: their codes; None where they are not known.
    """

    numbered: Numbered
    words: pa.Array | None
    codes: Codes | None = None

    def hashed(self, name: str, seed: int) -> Codes:
        """Return the codes of the keys by number; each key is hashed once."""
        if self.codes is not None:
            return self.codes
        with _named(name):
            return as_keys(self.words, copy=False, seed=seed).codes


def _words(table: pa.Table, name: str, seed: int) -> _Words:
    """Read a column of keys.

    Raises:
        InvalidKeyError: a key is missing, or of a type that cannot be a key.
    """
    column = table.column(column_index(table.schema, name))
    with _named(name):
        KeyBatch.read(column.slice(0, 0))  # refuses types that cannot be keys
        dictionary = _dictionary_of(column)
        if dictionary is not None:
            return _used(dictionary)
        try:
            normal = cast(column, normal_key(column.type))
        except pa.ArrowInvalid:  # an integer without a sign that is too large for one with a sign
            KeyBatch.read(column)
            raise
        if normal.null_count:
            KeyBatch.read(column)  # says which is missing
        return _hashed(normal, seed) or _encoded(normal)


def _dictionary_of(column: pa.ChunkedArray) -> pa.DictionaryArray | None:
    """Return a column as one dictionary array without gaps; None if it is not worth it."""
    if not pa.types.is_dictionary(column.type) or not column.num_chunks:
        return None
    array = one_array(column)
    if not isinstance(array, pa.DictionaryArray) or len(array.dictionary) > len(array):
        return None
    return None if array.null_count or array.dictionary.null_count else array


def _used(array: pa.DictionaryArray) -> _Words:
    """Number the words that rows use; several words may be one key, and some may be unused."""
    words = pa.chunked_array([array.dictionary])
    distinct = _encoded(cast(words, normal_key(words.type)))
    indices = array.indices.to_numpy(zero_copy_only=False)
    numbered = _compact(distinct.numbered.rows[indices], distinct.numbered.size)
    if numbered.size == distinct.numbered.size:
        return _Words(numbered, distinct.words)
    used = np.unique(distinct.numbered.rows[indices])
    return _Words(numbered, distinct.words.take(pa.array(used)))  # type: ignore[union-attr]


def _hashed(column: pa.ChunkedArray, seed: int) -> _Words | None:
    """Number texts by their codes, and check the texts for collisions.

    Where most keys come once, that is faster than a hash table of texts. None where it is not
    faster, and where codes collide.
    """
    if len(column) < _WORTH_HASHING or not (
        pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    ):
        return None
    sample = column.slice(0, _SAMPLE)
    if pc.count_distinct(sample).as_py() < _MOSTLY * _SAMPLE:
        return None
    texts = one_array(column)
    encoded = pa.array(as_keys(texts, copy=False, seed=seed).codes).dictionary_encode()
    rows = encoded.indices.to_numpy().astype(np.int64)
    numbered = Numbered(rows, len(encoded.dictionary))
    firsts = _firsts(numbered)[rows]
    again = np.flatnonzero(firsts != np.arange(len(rows)))
    if not pc.all(
        pc.equal(texts.take(pa.array(again)), texts.take(pa.array(firsts[again]))), min_count=0
    ).as_py():
        return None
    return _Words(numbered, None, encoded.dictionary.to_numpy())


def _compact(rows: Integers, count: int) -> Numbered:
    """Return numbers without gaps, in the same order."""
    used = np.zeros(count, dtype=np.bool_)
    used[rows] = True
    if used.all():
        return Numbered(rows, count)
    return Numbered((np.cumsum(used) - 1)[rows], int(used.sum()))


def _encoded(column: pa.ChunkedArray) -> _Words:
    """Number the values of a column by a hash table, many times faster than by sorting."""
    if not len(column):
        return _Words(Numbered(np.empty(0, dtype=np.int64), 0), pa.nulls(0, column.type))
    encoded = column.dictionary_encode(null_encoding="encode").chunks
    rows = np.concatenate([piece.indices.to_numpy() for piece in encoded]).astype(np.int64)
    words = encoded[-1].dictionary  # of all pieces
    return _Words(Numbered(rows, len(words)), words)


def _combined(one: Numbered, other: Numbered) -> Numbered:
    """Number pairs of numbers; there are fewer than 2^31 of each, so pairs fit 64 bits."""
    if one.size <= 1 or other.size == len(other.rows):
        return other
    if other.size <= 1 or one.size == len(one.rows):
        return one
    pairs = one.rows * other.size + other.rows
    return _encoded(pa.chunked_array([pa.array(pairs)])).numbered


def _by_place(places: Codes) -> Integers:
    """Return the order of places; keys of one place keep the order that they have."""
    order = np.argsort(places)
    ordered = places[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.argsort(places, kind="stable")
    return order


def _firsts(numbered: Numbered) -> Integers:
    """Return the first row of each number; where one index comes often, NumPy keeps the last."""
    rows = numbered.rows
    firsts = np.empty(numbered.size, dtype=np.int64)
    firsts[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return firsts


def _column(table: pa.Table, name: str, seed: int) -> KeyBatch:
    column = table.column(column_index(table.schema, name))
    with _named(name):
        return KeyBatch.read(column, seed)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the key column to any error."""
    try:
        yield
    except InvalidKeyError as error:
        raise InvalidKeyError(f"key column {name!r}: {error}") from None
