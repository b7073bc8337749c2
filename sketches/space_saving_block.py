"""The end of a stream that does not fill a block yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sketches.arrays import Floats
from sketches.key_columns import KeyColumn, packed
from sketches.space_saving_rows import Rows, exact


class Part(NamedTuple):
    """Keys as they came, each with its weight; without weights, each weighs 1."""

    keys: KeyColumn
    weights: Floats | None


@dataclass(frozen=True, slots=True)
class PartialBlock:
    """The keys since the last whole block, in their order; never changed, but replaced.

    Attributes:
        parts: what came in, in memory of its own. Each part is longer than the next, so there are
            only few of them, however small the updates are.
        weight: the sum of their weights, up to rounding.
    """

    parts: tuple[Part, ...] = ()
    weight: float = 0.0

    def __len__(self) -> int:
        """How many keys there are."""
        return sum(len(part.keys) for part in self.parts)

    def extended(self, keys: KeyColumn, weights: Floats | None) -> "PartialBlock":
        """Return a partial block that ends with these keys, in memory of its own."""
        grown = [Part(keys.joined(), None if weights is None else weights.copy())]
        parts = list(self.parts)
        while parts and len(parts[-1].keys) <= sum(len(part.keys) for part in grown):
            grown.insert(0, parts.pop())
        return PartialBlock((*parts, _joined(grown)), self.weight + weight_of(keys, weights))

    def closed(self, keys: KeyColumn, weights: Floats | None) -> Rows:
        """Return the exact summary of these keys after those that are here."""
        return _rows(_joined([*self.parts, Part(keys, weights)]))

    def rows(self) -> Rows:
        """Return the exact summary of the keys that are here (at least one)."""
        return _rows(_joined(self.parts))


def weight_of(keys: KeyColumn, weights: Floats | None) -> float:
    """Return the sum of the weights; infinite if it is beyond all doubles."""
    if weights is None:
        return float(len(keys))
    with np.errstate(over="ignore"):
        return float(weights.sum())


def _joined(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    first, *others = (part.keys for part in parts)
    keys = first.joined(*others)
    if all(part.weights is None for part in parts):
        return Part(keys, None)
    weights = [np.ones(len(p.keys)) if p.weights is None else p.weights for p in parts]
    return Part(keys, np.concatenate(weights))


def _rows(part: Part) -> Rows:
    return exact(packed(part.keys), part.weights)
