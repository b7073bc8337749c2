"""Key counts: how often each key of one operator came."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.keygraph.kept_keys import column_of, keeping_keys
from sketches.checks import weights
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.key_identity import distinct
from sketches.keys import KeyColumn, PairKeys
from sketches.space_saving import SpaceSaving
from sketches.values import ArrayValue, numeric, protected


@keeping_keys("keys")
@dataclass(frozen=True, eq=False)
class KeyCounts(ArrayValue):
    """The counted keys of one operator, each once; row ``i`` is one key.

    Pairs give a key's count only as far as they were reported: too little for a key with many rare
    partners, and a division that balances these counts is not balanced.

    Attributes:
        keys: the keys.
        counts: how many tuples had each; finite and not negative.
    """

    keys: NDArray[Any]
    counts: NDArray[np.float64]

    def __post_init__(self) -> None:
        keys = self.column
        _, first = distinct(keys)
        if len(first) < len(keys):
            twice = np.setdiff1d(np.arange(len(keys)), first)[0]
            key = keys.take(slice(twice, twice + 1)).objects().tolist()[0]
            raise InvalidValueError(f"key {key!r} is counted twice; add its counts up")
        counts = weights("counts", numeric("counts", self.counts), len(keys))
        object.__setattr__(self, "counts", protected(counts))

    @property
    def column(self) -> KeyColumn:
        """The keys as a column, which takes less than an array of objects."""
        return column_of(self, "keys")

    @classmethod
    def of(cls, sketch: SpaceSaving) -> "KeyCounts":
        """Read the keys of a sketch, each with the middle of its bounds as its count."""
        if not isinstance(sketch, SpaceSaving):
            raise InvalidValueError(f"{sketch!r} is not a SpaceSaving; give the sketch of keys")
        keys, estimates, errors = sketch.columns()
        if isinstance(keys, PairKeys):
            raise InvalidKeyError(
                f"the sketch holds keys of kind {sketch.kind}, which are pairs; "
                "update it with the keys of one operator"
            )
        given: Any = keys
        return cls(given, estimates - errors / 2)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def total(self) -> float:
        """How many tuples the keys account for."""
        return float(self.counts.sum())
