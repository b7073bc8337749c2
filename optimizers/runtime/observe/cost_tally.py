"""What tuples of each key cost at one instance, as a small table that travels with its report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.key_batch import KeyBatch
from optimizers.runtime.observe.table_sums import heaviest
from optimizers.runtime.task.key_reader import key_batch, namable_keys, reworded
from sketches.cost_sketch import CostSketch
from sketches.key_identity import distinct
from sketches.keys import IntegerKeys, KeyColumn, PairKeys, Pairs

Seconds = NDArray[np.float64]

COUNT, SECONDS = "count", "seconds"

_TYPES = {
    "int": pa.int64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": None,  # of as many digits as they have
}
_KEPT = 4  # times as many keys as are reported are told apart meanwhile


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The keys that the costs of some tuples are counted by; one without a name counts for none.

    Attributes:
        keys: the keys of those that have one.
        there: which of the tuples these are.
    """

    keys: KeyBatch
    there: NDArray[np.bool_]

    @classmethod
    def of(
        cls, batch: pa.RecordBatch | pa.Table, columns: Sequence[str], where: str
    ) -> "KeyedRows":
        """Read the keys of tuples.

        Raises:
            FoldError: a column is not there, or holds what is no key.
        """
        tuples = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        if not set(columns) <= set(batch.schema.names):
            key_batch(tuples, columns, where)  # knows what to say
        there = namable_keys(tuples, columns)
        if not there.all():
            tuples = reworded(tuples.filter(pa.array(there)), columns)
        keys = key_batch(tuples, columns, where)
        if len(columns) > 2:  # there is no way to write them down; their codes may meet
            keys = KeyBatch(IntegerKeys(keys.codes))
        return cls(keys, there)

    def runs(self) -> NDArray[np.int64]:
        """Return where another key begins than that of the tuple before.

        Keys whose codes meet, which hardly ever happens, are one run where they are neighbours.
        """
        codes = np.zeros(len(self.there), dtype=np.uint64)
        codes[self.there] = self.keys.codes
        other = (codes[1:] != codes[:-1]) | (self.there[1:] != self.there[:-1])
        return np.flatnonzero(np.concatenate([[True], other]))


@dataclass(slots=True)
class _Kind:
    """All keys of one kind so far, some perhaps several times."""

    columns: list[KeyColumn] = field(default_factory=list)
    counts: list[Seconds] = field(default_factory=list)
    seconds: list[Seconds] = field(default_factory=list)
    length: int = 0
    rest: tuple[float, float] = 0.0, 0.0


class CostTally:
    """Adds up how long an instance was busy with the tuples of each key.

    >>> tally = CostTally(most_keys=1)
    >>> batch = pa.record_batch({"place": ["Rome", "Oslo", "Rome"]})
    >>> tally.add(KeyedRows.of(batch, ["place"], "doctest"), np.array([1.0, 2.0, 4.0]))
    >>> [table.to_pylist() for _, table in tally.tables()]
    [[{'key': 'Rome', 'count': 2.0, 'seconds': 5.0}, {'key': None, 'count': 1.0, 'seconds': 2.0}]]

    Args:
        most_keys: how many keys are reported at most, those that took longest.
    """

    def __init__(self, most_keys: int) -> None:
        self._most = most_keys
        self._kinds: dict[str, _Kind] = {}

    def add(self, rows: KeyedRows, seconds: Seconds, weights: Seconds | None = None) -> None:
        """Count tuples, each with the seconds it took.

        Args:
            rows: their keys.
            seconds: how long each took.
            weights: for how many tuples each stands; None for one.
        """
        if not len(rows.keys):
            return
        numbers, firsts = rows.keys.distinct()
        places = firsts if rows.keys.places is None else rows.keys.places[firsts]
        kind = self._kinds.setdefault(rows.keys.column.kind, _Kind())
        kind.columns.append(rows.keys.column.take(places))
        own = None if weights is None else weights[rows.there]
        kind.counts.append(np.bincount(numbers, own).astype(np.float64, copy=False))
        known = seconds[rows.there]
        sums = np.bincount(numbers, known if own is None else known * own)
        kind.seconds.append(sums.astype(np.float64, copy=False))
        kind.length += len(firsts)
        if kind.length > _KEPT * self._most:
            self._reduce(kind, _KEPT * self._most // 2)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Return for each kind of key the table of the heaviest keys, and the sum of the others.

        The others are in a row whose key is null. A key of two columns has two.
        """
        for name, kind in self._kinds.items():
            self._reduce(kind, self._most)
            (column,), (counts,), (seconds,) = kind.columns, kind.counts, kind.seconds
            keys = _written(column)
            if kind.rest[0]:
                counts = np.append(counts, kind.rest[0])
                seconds = np.append(seconds, kind.rest[1])
                keys = {
                    side: pa.chunked_array([*known.chunks, _null(known)])
                    for side, known in keys.items()
                }
            yield name, pa.table({**keys, COUNT: counts, SECONDS: seconds})

    @staticmethod
    def _reduce(kind: _Kind, most: int) -> None:
        """Add up what is there of each key, and let go of all but the heaviest."""
        first, *others = kind.columns
        column = first.joined(*others)
        numbers, firsts = distinct(column)
        counts, seconds = (
            np.bincount(numbers, np.concatenate(parts)).astype(np.float64, copy=False)
            for parts in (kind.counts, kind.seconds)
        )
        chosen = heaviest(seconds, most)
        light = np.ones(len(counts), dtype=np.bool_)
        light[chosen] = False
        count, cost = kind.rest
        kind.rest = count + float(counts[light].sum()), cost + float(seconds[light].sum())
        kind.columns = [column.take(firsts[chosen])]
        kind.counts, kind.seconds = [counts[chosen]], [seconds[chosen]]
        kind.length = len(chosen)


def count_costs(sketch: CostSketch, table: pa.Table) -> None:
    """Count in a sketch what a table of `CostTally` tells."""
    names = [name for name in table.column_names if name not in {COUNT, SECONDS}]
    known = namable_keys(table, names)
    named, rest = table.filter(pa.array(known)), table.filter(pa.array(~known))
    columns = [named.column(name) for name in names]
    keys = columns[0] if len(columns) == 1 else Pairs(*columns)
    sketch.update(keys, *(named.column(name).to_numpy() for name in (SECONDS, COUNT)))
    for count, cost in zip(
        *(rest.column(name).to_pylist() for name in (COUNT, SECONDS)), strict=True
    ):
        sketch.spread(count, cost)


def _written(column: KeyColumn) -> dict[str, pa.ChunkedArray]:
    """Return keys as columns of a table."""
    sides = {"key": column}
    if isinstance(column, PairKeys):
        sides = {"left": column.left, "right": column.right}
    return {
        name: pa.chunked_array([pa.array(side.objects().tolist(), _TYPES[side.kind])])
        for name, side in sides.items()
    }


def _null(column: pa.ChunkedArray) -> pa.Array:
    return pa.nulls(1, column.type)
