"""Key pairs: which key of one operator was followed by which key of the next, and how often."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketches.checks import amount, weights
from sketches.errors import InvalidKeyError, InvalidValueError
from sketches.keys import Pairs, as_keys
from sketches.space_saving import SpaceSaving
from sketches.values import ArrayValue, numeric, protected

_MOST_TOSSES = 1 << 62  # what numpy can toss at once; of more, the rest is shared equally


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
        left, right = as_array(self.left), as_array(self.right)
        if len(left) != len(right):
            raise InvalidValueError(
                f"{len(left)} left keys do not pair with {len(right)} right keys; "
                "the two columns must have the same length"
            )
        counts = weights("counts", numeric("counts", self.counts), len(left))
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)
        object.__setattr__(self, "counts", protected(counts))

    @classmethod
    def of(cls, sketch: SpaceSaving) -> "KeyPairs":
        """Read the pairs of a sketch, each with the middle of its bounds as its count."""
        if not isinstance(sketch, SpaceSaving):
            raise InvalidValueError(f"{sketch!r} is not a SpaceSaving; give the sketch of pairs")
        pairs, estimates, errors = sketch.arrays(heaviest_first=False)
        if not len(estimates):
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), estimates)
        if not isinstance(pairs, Pairs):
            raise InvalidKeyError(
                f"the sketch holds keys of kind {sketch.kind}, not pairs; "
                "update it with pairs, such as (left, right) columns"
            )
        return cls(pairs.left, pairs.right, estimates - errors / 2)

    def faded(self, factor: float) -> "KeyPairs":
        """Return the same pairs with lower counts."""
        return KeyPairs(self.left, self.right, self.counts * amount("factor", factor, up_to=1.0))

    def together(self, other: "KeyPairs") -> "KeyPairs":
        """Return the pairs of both; pairs in both are listed twice, which means the same."""
        if not len(self) or not len(other):
            return self if len(self) else other
        return KeyPairs(
            np.concatenate([self.left, other.left]),
            np.concatenate([self.right, other.right]),
            np.concatenate([self.counts, other.counts]),
        )

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
        halves = []
        for counts in (drawn, self.counts - drawn):
            some = counts > 0
            halves.append(KeyPairs(self.left[some], self.right[some], counts[some]))
        return halves[0], halves[1]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def total(self) -> float:
        """How many tuples the pairs account for."""
        return float(self.counts.sum())


def as_array(keys: Any) -> NDArray[Any]:
    """Return the keys as a write-protected array: integers as int64, others as objects."""
    column = as_keys(keys)
    array = column.codes.view(np.int64) if column.kind == "int" else column.objects()
    return protected(array)
