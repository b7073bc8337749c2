"""What rows of each key cost a function of many rows, with the price of the calls taken off.

A function of record batches, or of frames of pandas, takes a while for each call, for any rows
in it. In a job thousands of rows share a call, so it costs each of them next to nothing. Here the
rows of one key are handed over together, so that they can be timed, and they may be few: then the
call is most of what is measured, and all keys seem to cost the same. So now and then some rows are
handed over once more, first in several small calls and then in one. What the small ones took longer
is the price of all calls but one. Functions in a job are tried the same way, see
`optimizers.runtime.observe.call_mode`.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from optimizers.folds.key_codes import take_rows
from optimizers.folds.types import plain
from optimizers.runtime.observe.cost_tally import COUNT, SECONDS, KeyedRows
from optimizers.runtime.observe.table_sums import heaviest

KEY = "key"

_SMALL = 8  # calls that are compared with one
_FEW = 2  # rows of each, at most
_TRIES = 4  # comparisons for each batch
_ENOUGH = 32  # comparisons for each task
_SHARED = 10_000  # rows that share a call in a job: as many as Spark hands over at once


class CallCosts:
    """Hands rows out by runs of one key, takes in how long each took, and says what keys cost.

    >>> costs = CallCosts("user", most_keys=2)
    >>> rows = pa.record_batch({"user": [7, 7, 7, 8, 9]})
    >>> for piece in costs.pieces([rows]):  # a call takes a second, and a row as many as its key
    ...     costs.note(1 + sum(piece.column("user").to_pylist()))
    >>> [(row["key"], row["count"], round(row["seconds"])) for row in costs.table().to_pylist()]
    [(7, 3.0, 21), (9, 1.0, 9), (None, 1.0, 8)]

    Args:
        key: the column of the key; without nulls.
        most_keys: of how many keys it tells, those that took longest.
    """

    def __init__(self, key: str, most_keys: int) -> None:
        self._key = key
        self._most = most_keys
        self._keys: list[pa.ChunkedArray] = []
        self._counts: list[int] = []
        self._seconds: list[float] = []
        self._prices: list[float] = []
        self._last = 0.0

    def note(self, seconds: float) -> None:
        """Say how long the piece took that was handed out last."""
        self._last = seconds

    def pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield pieces of batches, each to be worked on and then noted; rows may come twice.

        The longer the runs of one key in the batches, the less of what is measured is calls.
        """
        begun = False
        for batch in batches:
            if not len(batch):
                continue
            if not begun:
                yield batch.slice(0, 1)  # what is done only once is done now
                begun = True
            rows = KeyedRows.of(batch, (self._key,), "learn_costs")
            bounds = [*rows.runs().tolist(), len(batch)]
            for start, stop in pairwise(bounds):
                yield batch.slice(start, stop - start)
                self._counts.append(stop - start)
                self._seconds.append(self._last)
            starts = pa.array(bounds[:-1])
            keys = take_rows(pa.Table.from_batches([batch]).select([self._key]), starts)
            self._keys.append(keys.column(0))
            for turn in range(min(_TRIES, _ENOUGH - len(self._prices))):
                yield from self._compared(batch, np.array(bounds), turn)

    def _compared(
        self, batch: pa.RecordBatch, bounds: NDArray[np.int64], turn: int
    ) -> Iterator[pa.RecordBatch]:
        """Hand rows of several keys over in small calls, and all of them in one."""
        starts = bounds[:-1]
        chosen = (np.arange(_SMALL) * len(starts) // _SMALL + turn) % len(starts)
        places = np.unique(starts[chosen])
        few = _FEW
        if len(places) < 2:  # all rows are of one key
            few = min(_FEW, len(batch) // 2)
            if not few:
                return
            places = np.arange(0, len(batch), few)[:_SMALL]
        ends = np.minimum(bounds[np.searchsorted(bounds, places, side="right")], places + few)
        small = [
            batch.slice(start, stop - start)
            for start, stop in zip(places.tolist(), ends.tolist(), strict=True)
        ]
        apart = 0.0
        for piece in small:
            yield piece
            apart += self._last
        yield pa.Table.from_batches(small).combine_chunks().to_batches()[0]
        self._prices.append((apart - self._last) / (len(small) - 1))

    @property
    def price(self) -> float:
        """The seconds that a call takes for itself; 0 if that could not be found out."""
        return max(0.0, median(self._prices)) if self._prices else 0.0

    def table(self) -> pa.Table | None:
        """Return the costs of the costliest keys, and in a row without a key those of the others.

        None if there were no rows.
        """
        if not self._keys:
            return None
        counts = np.array(self._counts, dtype=np.float64)
        price = self.price
        seconds = np.maximum(np.array(self._seconds) - price, 0.0) + counts * price / _SHARED
        columns = {KEY: _plain(pa.chunked_array([c for key in self._keys for c in key.chunks]))}
        summed = (
            pa.table({**columns, COUNT: counts, SECONDS: seconds})
            .group_by(KEY)
            .aggregate([(COUNT, "sum"), (SECONDS, "sum")])
            .rename_columns([KEY, COUNT, SECONDS])
        )
        chosen = heaviest(summed.column(SECONDS).to_numpy(), self._most)
        kept = take_rows(summed, chosen)
        if len(kept) == len(summed):
            return kept
        rest = [
            pc.sum(summed.column(name)).as_py() - pc.sum(kept.column(name)).as_py()
            for name in (COUNT, SECONDS)
        ]
        others = [pa.nulls(1, summed.schema.field(KEY).type), *(pa.array([n]) for n in rest)]
        return pa.concat_tables([kept, pa.table(others, names=kept.column_names)])


def _plain(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return keys as 64-bit integers, texts or bytes, or as they are if they are none of those."""
    types, kind = pa.types, plain(keys.type)
    if types.is_integer(kind):
        return keys.cast(pa.int64())
    if types.is_string(kind) or types.is_large_string(kind):
        return keys.cast(pa.string())
    return keys.cast(pa.binary()) if "binary" in str(kind) else keys.cast(kind)
