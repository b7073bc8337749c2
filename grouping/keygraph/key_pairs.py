"""Key pairs: which key of one operator was followed by which key of the next, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.keygraph.kept_keys import column_of, joined, keeping_keys
from sketches.arrays import Floats, Indices
from sketches.checks import amount, weights
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.keys import KeyColumn, PairKeys
from sketches.space_saving import SpaceSaving
from sketches.values import ArrayValue, numeric, protected

_MOST_TOSSES = 1 << 62  # what numpy can toss at once; of more, the rest is shared equally


@keeping_keys("left", "right")
@dataclass(frozen=True, eq=False)
class KeyPairs(ArrayValue):
    """The counted key pairs between two keyed operators; row ``i`` is one pair.

    >>> pairs = KeyPairs(["Asia", "Oceania"], ["#java", "#python"], [3463, 3011])
    >>> len(pairs), pairs.total
    (2, 6474.0)

    Attributes:
        left: the keys at the first operator.
        right: the keys at the second operator.
        counts: how many tuples had both; finite and not negative.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    counts: NDArray[np.float64]

    def __post_init__(self) -> None:
        left, right = self.columns
        if len(left) != len(right):
            raise InvalidValueError(
                f"{len(left)} left keys do not pair with {len(right)} right keys; "
                "the two columns must have the same length"
            )
        counts = weights("counts", numeric("counts", self.counts), len(left))
        object.__setattr__(self, "counts", protected(counts))

    @property
    def columns(self) -> tuple[KeyColumn, KeyColumn]:
        """Both sides as columns, which take less than arrays of objects."""
        return column_of(self, "left"), column_of(self, "right")

    def take(self, rows: Indices) -> "KeyPairs":
        """Return the pairs of these rows."""
        return _pairs([column.take(rows) for column in self.columns], self.counts[rows])

    @classmethod
    def of(cls, sketch: SpaceSaving) -> "KeyPairs":
        """Read the pairs of a sketch, each with the middle of its bounds as its count."""
        if not isinstance(sketch, SpaceSaving):
            raise InvalidValueError(f"{sketch!r} is not a SpaceSaving; give the sketch of pairs")
        pairs, estimates, errors = sketch.columns()
        if not len(estimates):
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), estimates)
        if not isinstance(pairs, PairKeys):
            raise InvalidKeyError(
                f"the sketch holds keys of kind {sketch.kind}, not pairs; "
                "update it with pairs, such as (left, right) columns"
            )
        return _pairs((pairs.left, pairs.right), estimates - errors / 2)

    def faded(self, factor: float) -> "KeyPairs":
        """Return the same pairs with lower counts."""
        return _pairs(self.columns, self.counts * amount("factor", factor, up_to=1.0))

    def together(self, other: "KeyPairs") -> "KeyPairs":
        """Return the pairs of both; pairs in both are listed twice, which means the same."""
        if not len(self) or not len(other):
            return self if len(self) else other
        both = zip(self.columns, other.columns, strict=True)
        sides = [joined(mine, theirs) for mine, theirs in both]
        return _pairs(sides, np.concatenate([self.counts, other.counts]))

    def halved(self, seed: int = 0) -> tuple["KeyPairs", "KeyPairs"]:
        """Divide the tuples at random into two independent halves.

        Whatever one half teaches and the other confirms is not chance. The fraction of a count that
        is not whole is shared equally.

        Args:
            seed: equal seeds give equal halves.
        """
        whole = np.minimum(np.floor(self.counts), _MOST_TOSSES)
        random = np.random.default_rng(seed)
        drawn = random.binomial(whole.astype(np.int64), 0.5) + (self.counts - whole) / 2
        first, second = (
            _pairs(self.columns, counts).take(np.flatnonzero(counts > 0))
            for counts in (drawn, self.counts - drawn)
        )
        return first, second

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def total(self) -> float:
        """How many tuples the pairs account for."""
        return float(self.counts.sum())


def _pairs(columns: Sequence[Any], counts: Floats) -> KeyPairs:
    """Return the pairs of two columns."""
    left, right = columns
    return KeyPairs(left, right, counts)
