"""Columns of keys that are strings of bytes: text, bytes, and decimals in their normal form."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Codes, Indices
from sketches.fingerprints import (
    LONGEST_VECTORISED,
    fingerprints_of,
    padded,
    same_strings,
    unaligned_words,
)
from sketches.key_columns import DECIMAL, TEXT, KeyColumn
from sketches.key_decimals import as_decimals

# Keys compared or copied at a time: few enough that all arrays on the way are small ones, whose
# memory is used again. With large ones, getting it from the system takes several times as long.
_AT_ONCE = 1 << 14


class StringKeys(KeyColumn):
    """Strings of bytes, as places in one buffer.

    Args:
        kind: text, bytes or decimals.
        data: the buffer.
        starts: where each key begins in it.
        lengths: how many bytes each key has.
        codes: the fingerprints, if they are known.
        seed: of the hash.
        buffer: the data once more, `padded`, if that was done.
    """

    __slots__ = ("_buffer", "_data", "_starts", "codes", "kind", "lengths", "seed")

    codes: Codes

    def __init__(  # noqa: PLR0913
        self,
        kind: str,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        codes: Codes | None = None,
        *,
        seed: int = 0,
        buffer: NDArray[np.uint8] | None = None,
    ) -> None:
        self.kind = kind
        self._data = data
        self._buffer = buffer
        self._starts = starts
        self.lengths = lengths
        self.seed = seed
        if codes is None:
            codes = fingerprints_of(kind, self._padded, starts, lengths, seed)
        self.codes = codes

    @property
    def _padded(self) -> NDArray[np.uint8]:
        """The data with some zeros behind it, so that whole words can be read to its end."""
        if self._buffer is None:
            self._buffer = padded(self._data)
            self._data = self._buffer[: len(self._data)]  # one copy is enough
        return self._buffer

    def seeded(self, seed: int) -> Self:
        """Return the same keys with the codes of another seed."""
        return self if seed == self.seed else self._of(self._starts, self.lengths, None, seed)

    def take(self, indices: Indices | slice) -> Self:
        """Return the keys at these places."""
        starts, lengths = self._starts[indices], self.lengths[indices]
        return self._of(starts, lengths, self.codes[indices], self.seed)

    def _of(
        self,
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        codes: Codes | None,
        seed: int,
    ) -> Self:
        """Return other keys in the same buffer."""
        kind, data, buffer = self.kind, self._data, self._buffer
        return type(self)(kind, data, starts, lengths, codes, seed=seed, buffer=buffer)

    @property
    def nbytes(self) -> int:
        """Memory of the keys, in bytes."""
        arrays = (self._data, self._starts, self.lengths, self.codes)
        return sum(array.nbytes for array in arrays)

    def same(self, places: Indices, other: Self, others: Indices) -> NDArray[np.bool_]:
        """Return for each two places, here and in the other column, whether the keys are equal."""
        equal = np.zeros(len(places), dtype=np.bool_)
        for start in range(0, len(places) if self.kind == other.kind else 0, _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            equal[block] = self._same(places[block], other, others[block])
        return equal

    def _same(self, places: Indices, other: Self, others: Indices) -> NDArray[np.bool_]:
        lengths = self.lengths[places]
        equal: NDArray[np.bool_] = lengths == other.lengths[others]
        words = unaligned_words(self._padded), unaligned_words(other._padded)
        if equal.all() and lengths.max(initial=0) <= LONGEST_VECTORISED:  # as it mostly is
            return same_strings(words, (self._starts[places], other._starts[others]), lengths)
        rows = np.flatnonzero(equal & (lengths <= LONGEST_VECTORISED))
        starts = self._starts[places[rows]], other._starts[others[rows]]
        equal[rows] = same_strings(words, starts, lengths[rows])
        for row in np.flatnonzero(equal & (lengths > LONGEST_VECTORISED)).tolist():
            equal[row] = self._string(places[row]) == other._string(others[row])
        return equal

    def _string(self, place: np.intp) -> bytes:
        start = int(self._starts[place])
        return self._data[start : start + int(self.lengths[place])].tobytes()

    def joined(self, *others: Self) -> Self:
        """Return these keys and then those of the others, in memory of their own."""
        columns = [self, *(other.seeded(self.seed) for other in others)]
        lengths = np.concatenate([column.lengths for column in columns])
        return type(self)(
            self.kind,
            np.concatenate([column.content() for column in columns]),
            np.cumsum(lengths) - lengths,
            lengths,
            np.concatenate([column.codes for column in columns]),
            seed=self.seed,
        )

    def objects(self) -> NDArray[np.object_]:
        """Return the keys as Python objects."""
        keys = np.empty(len(self), dtype=object)
        data = np.ascontiguousarray(self._data).data
        spans = zip(self._starts.tolist(), self.lengths.tolist(), strict=True)
        if self.kind == TEXT:
            keys[:] = [str(data[start : start + length], "utf-8") for start, length in spans]
        else:
            keys[:] = [bytes(data[start : start + length]) for start, length in spans]
        return as_decimals(keys) if self.kind == DECIMAL else keys

    @property
    def values(self) -> NDArray[np.object_]:
        """The keys as an array of objects."""
        return self.objects()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the bytes of all keys, one key after the other, and their lengths."""
        return {"data": self.content(), "lengths": self.lengths}

    def content(self) -> NDArray[np.uint8]:
        """Return the bytes of these keys only, one key after the other."""
        ends = self._starts + self.lengths
        if np.array_equal(ends[:-1], self._starts[1:]):
            first = int(self._starts[0]) if len(ends) else 0
            span = slice(first, first + int(self.lengths.sum()))
            return self._data[span]
        ends = np.cumsum(self.lengths)
        content = np.empty(int(ends[-1]), dtype=np.uint8)
        # A place takes eight times as much memory as the byte that is there.
        for start in range(0, len(ends), _AT_ONCE):
            lengths = self.lengths[start : start + _AT_ONCE]
            first = int(ends[start] - lengths[0])
            shifts = self._starts[start : start + _AT_ONCE] - (np.cumsum(lengths) - lengths)
            places = np.repeat(shifts, lengths)
            places += np.arange(len(places))
            np.take(self._data, places, out=content[first : first + len(places)], mode="clip")
        return content
