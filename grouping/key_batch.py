"""A batch of keys, read once, with work done once for each word of a dictionary."""

from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Codes, Indices
from sketches.key_identity import distinct, first_rows
from sketches.keys import KeyColumn, as_keys

Scalar = TypeVar("Scalar", bound=np.generic)


class KeyBatch:
    """The keys of a batch: one for each row, or the words of a dictionary and the word of each row.

    Arrow's dictionary arrays hold each text once and a number in every row. Results for the words
    are then spread over the rows, which costs far less than working row by row.

    >>> batch = KeyBatch.read(["Asia", "Oceania", "Asia"])
    >>> len(batch), batch.column.kind
    (3, 'str')

    Attributes:
        column: the keys to work on.
        places: for each row, where its key is in the column; None where row i has key i.
    """

    __slots__ = ("column", "places")

    def __init__(self, column: KeyColumn, places: Indices | None = None) -> None:
        self.column = column
        self.places = places

    @classmethod
    def read(cls, keys: Any, seed: int | None = None) -> Self:
        """Read keys out of any container; a batch is returned as it is.

        The batch may share the caller's memory, and is valid until the caller writes there.

        Args:
            keys: keys of one kind in any container that `sketches.keys.as_keys` reads.
            seed: of the hash; without, that of keys that were read before, and else 0.

        Raises:
            InvalidKeyError: a key is missing, or is not of one kind with the others.
        """
        if isinstance(keys, cls):
            return keys if seed is None else cls(as_keys(keys.column, seed=seed), keys.places)
        encoded = _dictionary_array(keys)
        if encoded is None:
            return cls(as_keys(keys, copy=False, seed=seed))
        places = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp, copy=False)
        return cls(as_keys(encoded.dictionary, seed=seed), places)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.column) if self.places is None else len(self.places)

    @property
    def codes(self) -> Codes:
        """The code of each row's key."""
        return self.spread(self.column.codes)

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each row the number of its key, and for each key the row it first came at."""
        numbers, firsts = distinct(self.column)
        if self.places is None:
            return numbers, firsts
        used, rows = np.unique(numbers[self.places], return_inverse=True)
        return rows, first_rows(rows, len(used))

    def spread(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return for each row the result for its key."""
        if self.places is None:
            return values
        spread: NDArray[Scalar] = values[self.places]
        return spread


def _dictionary_array(keys: Any) -> Any:
    """Return the keys as one Arrow dictionary array without gaps, or None if they are not one.

    None too where there is nothing to gain, as more words are listed than there are rows.
    """
    if not str(getattr(keys, "type", "")).startswith("dictionary"):
        return None
    if hasattr(keys, "chunks"):
        keys = keys.unify_dictionaries().combine_chunks()
    if keys.null_count or keys.dictionary.null_count or len(keys.dictionary) > len(keys):
        return None
    return keys
