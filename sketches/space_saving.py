"""The heaviest keys of a stream, or pairs of keys, in bounded memory."""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from sketches import checks, wire
from sketches.arrays import Floats
from sketches.errors import (
    CorruptDataError,
    InvalidKeyError,
    InvalidValueError,
    MergeError,
)
from sketches.key_columns import KeyColumn, packed, unified, unpacked
from sketches.keys import as_keys
from sketches.space_saving_block import PartialBlock, weight_of
from sketches.space_saving_rows import LARGEST_TOTAL, Rows, combine, nothing
from sketches.space_saving_stored import restored, stored

_TYPE = "SpaceSaving"
_VERSION = 2
_LEAST_BLOCK = 1 << 18


class HeavyHitter(NamedTuple):
    """A heavy key: its weight is at most ``estimate`` and at least ``estimate - error``.

    Attributes:
        key: an ``int``, ``str`` or ``bytes``, or a tuple of two.
        estimate: the upper bound.
        error: how far the estimate may be above the truth.
    """

    key: Any
    estimate: float
    error: float


class SpaceSaving:
    """The heaviest keys of a stream, each with an upper bound of its weight and its error.

    At most ``capacity`` keys are tracked. Of every key, tracked or not, the true weight lies in
    its `bracket`; an untracked one has at most `floor`, which is never more than
    ``total / (capacity + 1)``. Every heavier key is tracked. This is certain, not likely; it is
    exact as long as sums of the weights are (whole numbers, for instance), and holds up to
    rounding otherwise.

    The stream is counted in blocks: the last, unfinished one is kept as it came, and questions
    look at it without closing it. So the answers depend on the stream, but not on how it was cut
    into updates. Larger blocks take more memory for a while and find more of the heavy keys.

    Keys are of one kind in one sketch, as `sketches.keys` has it; pairs are `Pairs`, tuples or two
    columns. Text, bytes, decimals and pairs are told apart by 64-bit fingerprints only: two keys
    that share one are counted as one, see there how likely that is. A sketch of integers, or of
    pairs of integers from 0 to 2^32 - 1, needs 24 bytes for a counter.

    There is no datasketches backend here, as its ``frequent_items_sketch`` has neither weights
    that are not whole nor a free choice of capacity; `CountMin` has one.

    Args:
        capacity: how many keys are tracked at most.
        block: how many keys of the stream are counted exactly before they are merged in; twice
            the capacity if left out, and at least 2^18.

    References:
        Metwally, Agrawal, El Abbadi: Efficient computation of frequent and top-k elements in data
        streams. ICDT 2005. Agarwal, Cormode, Huang, Phillips, Wei, Yi: Mergeable summaries. PODS
        2012. What is proven for this variant is in `sketches.space_saving_rows`.

    >>> sketch = SpaceSaving(2)
    >>> sketch.update([("Asia", "#java"), ("Asia", "#java"), ("Oceania", "#ruby")])
    >>> sketch.top(1)
    [HeavyHitter(key=('Asia', '#java'), estimate=2.0, error=0.0)]
    >>> sketch.update(["Asia"])
    Traceback (most recent call last):
    sketches.errors.InvalidKeyError: keys of kind str cannot be counted together with (str, str) ...
    """

    __slots__ = ("_block", "_capacity", "_kind", "_partial", "_rows", "_summary")

    __hash__ = None  # type: ignore[assignment]  # it changes, and equality looks at the content

    def __init__(self, capacity: int, *, block: int | None = None) -> None:
        self._capacity = checks.whole("capacity", capacity, at_least=1)
        usual = max(_LEAST_BLOCK, 2 * self._capacity)
        self._block = usual if block is None else checks.whole("block", block, at_least=1)
        self._kind: str | None = None
        self._rows: Rows | None = None  # the whole blocks
        self._partial = PartialBlock()
        self._summary: Rows | None = None  # both together, from the first question on

    @property
    def capacity(self) -> int:
        """How many keys are tracked at most."""
        return self._capacity

    @property
    def block(self) -> int:
        """How many keys of the stream are counted exactly before they are merged in."""
        return self._block

    @property
    def kind(self) -> str | None:
        """The kind of the keys, such as "int" or "(str, int)"; None before the first key."""
        return self._kind

    @property
    def floor(self) -> float:
        """What a key that is not tracked was seen at most."""
        rows = self._all()
        return rows.floor if rows else 0.0

    @property
    def total(self) -> float:
        """The weight of the whole stream."""
        rows = self._all()
        return rows.total if rows else 0.0

    @property
    def nbytes(self) -> int:
        """Memory of the counters, in bytes, without the unfinished block."""
        rows = self._all()
        return rows.nbytes if rows else 0

    def __len__(self) -> int:
        """How many keys are tracked."""
        rows = self._all()
        return len(rows.keys) if rows else 0

    def update(self, keys: Any, weights: Any = None) -> None:
        """Count keys.

        Args:
            keys: any container of keys of one kind; see `SpaceSaving`.
            weights: one finite number of at least 0 for each key; without, each key weighs 1.
                Keys of weight 0 are passed over.

        Raises:
            InvalidKeyError: a key cannot be counted, or is of another kind than those before it.
            InvalidValueError: a weight cannot be counted. The sketch is as it was in either case.
        """
        column = self._read(keys)
        given: Floats | None = None
        if weights is not None:
            given = checks.weights("weights", weights, len(column))
            if (given == 1).all():
                given = None
            elif not given.all():
                column, given = column.take(np.flatnonzero(given)), given[given > 0]
        if len(column):
            self._check_total(weight_of(column, given))
            self._count(column, given)

    def add(self, key: Any, weight: float = 1.0) -> None:
        """Count one key. Most of the cost is that of the call: prefer `update` for many."""
        self.update([key], [weight])

    def bracket(self, keys: Any) -> tuple[Floats, Floats]:
        """Return, for each key, what its weight is at least and at most."""
        column = packed(self._read(keys))
        rows = self._all()
        if rows is None or not len(column):
            return np.zeros(len(column)), np.zeros(len(column))
        tracked, asked = unified(rows.keys, column)
        rows = rows.with_keys(tracked)  # which sorts them again, as they have other ids
        ids = rows.keys.ids
        places = np.searchsorted(ids, asked.ids)
        places[places == len(ids)] = 0
        known = ids[places] == asked.ids
        upper = np.where(known, rows.counts[places], rows.floor)
        return np.where(known, upper - rows.errors[places], 0.0), upper

    def estimate(self, keys: Any) -> Floats:
        """Return, for each key, what its weight is at most; `floor` for those not tracked."""
        return self.bracket(keys)[1]

    def top(self, k: int | None = None) -> list[HeavyHitter]:
        """Return the `k` heaviest of the tracked keys, or all of them, the heaviest first."""
        limit = None if k is None else checks.whole("k", k, at_least=0)
        rows = self._all()
        if rows is None:
            return []
        order = rows.heaviest_first()[:limit]
        columns = (rows.keys.take(order).objects(), rows.counts[order], rows.errors[order])
        return [HeavyHitter(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def arrays(self, *, heaviest_first: bool = True) -> tuple[Any, Floats, Floats]:
        """Return the tracked keys, their estimates and their errors.

        The keys are an int64 array, an array of objects for text and bytes, or `Pairs` of such.

        Args:
            heaviest_first: whether to sort them so; any order is several times quicker.
        """
        rows = self._all()
        if rows is None:
            return np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
        if not heaviest_first:
            return rows.keys.joined().values, rows.counts.copy(), rows.errors.copy()
        order = rows.heaviest_first()
        return rows.keys.take(order).values, rows.counts[order], rows.errors[order]

    def columns(self) -> tuple[KeyColumn, Floats, Floats]:
        """Return the tracked keys as a column, their estimates and their errors, in any order.

        Pairs are `PairKeys`. It makes no Python object of any key.
        """
        rows = self._all()
        if rows is None:
            return as_keys([]), np.empty(0), np.empty(0)
        return unpacked(rows.keys), rows.counts.copy(), rows.errors.copy()

    def __or__(self, other: object) -> "SpaceSaving":
        """Return the sketch of both streams. It has the larger of the two blocks.

        Raises:
            MergeError: the sketches have different capacities or kinds of keys.
        """
        if not isinstance(other, SpaceSaving):
            return NotImplemented
        if self.capacity != other.capacity:
            raise MergeError(
                f"a sketch of capacity {self.capacity} cannot be merged with one of capacity "
                f"{other.capacity}; merging sketches of other shape needs equal capacities"
            )
        if self.kind and other.kind and self.kind != other.kind:
            raise MergeError(
                f"a sketch of {self.kind} keys cannot be merged with one of {other.kind} keys; "
                "use one sketch for each kind"
            )
        self._check_total(other.total)
        merged = SpaceSaving(self.capacity, block=max(self.block, other.block))
        merged._kind = self.kind or other.kind
        mine, theirs = self._all(), other._all()
        merged._rows = combine(mine, theirs, self.capacity) if mine and theirs else mine or theirs
        return merged

    def copy(self) -> "SpaceSaving":
        """Return a sketch that answers the same, now and after the same updates."""
        twin = SpaceSaving(self.capacity, block=self.block)
        twin._kind, twin._rows = self._kind, self._rows
        twin._partial, twin._summary = self._partial, self._summary
        return twin

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes. Its unfinished block is merged in, there but not here."""
        rows = self._all()
        fields: dict[str, Any] = {"capacity": self.capacity, "block": self.block}
        if rows is None:
            return wire.pack(_TYPE, _VERSION, fields, {})
        more, arrays = stored(rows)
        return wire.pack(_TYPE, _VERSION, fields | more, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the sketch that `to_bytes` wrote.

        Raises:
            CorruptDataError: the bytes are truncated, damaged, or not those of such a sketch.
        """
        fields, arrays = wire.unpack(data, _TYPE, _VERSION)
        try:
            capacity, block = (
                checks.whole(name, fields.get(name), at_least=1) for name in ("capacity", "block")
            )
            sketch = cls(capacity, block=block)
            if arrays:
                sketch._rows = restored(fields, arrays, capacity)
                sketch._kind = sketch._rows.keys.kind
        except InvalidValueError as error:
            raise CorruptDataError(f"no {_TYPE} has these contents: {error}") from None
        return sketch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpaceSaving):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return (
            f"{_TYPE}(capacity={self.capacity}, block={self.block}): {len(self)} keys of kind "
            f"{self.kind}, total {self.total:g}, floor {self.floor:g}"
        )

    def _read(self, keys: Any) -> KeyColumn:
        """Read keys; they are good until the caller has control again."""
        column = as_keys(keys, copy=False, seed=0)
        if len(column) and self._kind not in (None, column.kind):
            raise InvalidKeyError(
                f"keys of kind {column.kind} cannot be counted together with {self._kind} keys; "
                "use one sketch for each kind"
            )
        return column

    def _check_total(self, more: float) -> None:
        so_far = self._partial.weight + (self._rows.total if self._rows else 0.0)
        if not so_far + more <= LARGEST_TOTAL:
            raise InvalidValueError(
                f"weights that sum to {so_far + more} are too large to be added up; "
                f"scale them down to at most {LARGEST_TOTAL:.3g} in all"
            )

    def _count(self, keys: KeyColumn, weights: Floats | None) -> None:
        """Close all blocks that these keys fill, and keep the rest of them."""
        rows, partial = self._rows, self._partial
        start = 0
        while start < len(keys):
            cut = slice(start, start + self._block - len(partial))
            part, some = keys.take(cut), None if weights is None else weights[cut]
            if len(partial) + len(part) < self._block:
                partial = partial.extended(part, some)
            else:
                rows = _added(rows, partial.closed(part, some), self._capacity)
                partial = PartialBlock()
            start += len(part)
        self._kind, self._rows, self._partial, self._summary = keys.kind, rows, partial, None

    def _all(self) -> Rows | None:
        """Return the summary of the whole stream, which the unfinished block is a part of."""
        if self._summary is None:
            self._summary = self._rows
            if len(self._partial):
                self._summary = _added(self._rows, self._partial.rows(), self._capacity)
        return self._summary


def _added(rows: Rows | None, block: Rows, capacity: int) -> Rows:
    if rows is None and len(block.keys) <= capacity:
        return replace(block, keys=block.keys.joined())  # in memory for these keys only
    return combine(nothing(block.keys) if rows is None else rows, block, capacity)
