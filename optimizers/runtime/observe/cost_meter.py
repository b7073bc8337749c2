"""How long an operator without a key is busy with each tuple, by a key that the tuples have.

Seconds are those of the clock on the wall, for so long a tuple keeps its instance from others; but
for those spent waiting for a processor, which others had and which say nothing of the tuple.

A function of single rows (`each_row`) is timed row by row while it does its work. One of record
batches can only be timed by what it is given. At first it is tried on a stretch of tuples, and on
a few of them alone. Where a tuple costs alone about what it costs among others, some tuples are
handed over alone in later batches, with those of their key that follow at once, and timed so. Where
it costs much more alone, the function gets them all at once, and each tuple counts the same. The
driver decides which it is, and of how many tuples one is timed, see `call_mode`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.folds.key_codes import take_rows
from optimizers.folds.rows import Batches, RowFunction
from optimizers.folds.rows import Rows as GivenRows
from optimizers.operators import columns_of
from optimizers.runtime.observe.busy_clock import BusyClock
from optimizers.runtime.observe.call_mode import SCHEMA, CallMode, Calls
from optimizers.runtime.observe.cost_tally import CostTally, KeyedRows, Seconds
from optimizers.runtime.observe.observation import EACH, MEAN, Observation, Seen, Sighting
from optimizers.runtime.observe.sampling import Rows, Sample, Sampler
from optimizers.runtime.work import JobContext, Ticket
from optimizers.statistics import Probe

Clock = Callable[[], float]
Call = Callable[[dict[str, Any]], Any]
Timed = Generator[pa.RecordBatch, None, float]
"""Record batches, and at their end the seconds that it took to make them."""
Told = Generator[pa.RecordBatch, None, "_Times"]
"""Record batches, and at their end how long their tuples took."""

_ALONE, _TOGETHER = 32, 128  # tuples that are tried alone and in one call, at most
_SHARE_ALONE = 5  # one tuple in this many is tried alone
_FEWER = 8  # one of so many is looked at, of those that were, where all count alike
_RUN = 128  # tuples of one key that are handed over at once
_CUT = 1 << 10  # tuples that are handed on together
_COUNTED_AT_ONCE = 1 << 16  # tuples whose times are kept waiting, at most
_NONE: Rows = np.zeros(0, dtype=np.int64)


class _Times(NamedTuple):
    """How long some tuples of a batch took.

    Attributes:
        mode: whether it is their own time, `EACH`, or that of the mean tuple of a call, `MEAN`.
        rows: which tuples.
        weights: for how many tuples each stands.
        seconds: how long each took.
    """

    mode: str
    rows: Rows
    weights: NDArray[np.int64] | Seconds
    seconds: Seconds


class _Keyed(NamedTuple):
    """Tuples whose times are known, as `_Times`, with the columns of their keys."""

    keys: pa.Table
    seconds: Seconds
    weights: NDArray[np.int64] | Seconds


def meter_for(work: JobContext, ticket: Ticket, operator: str, sender: int) -> "CostMeter | None":
    """Return what measures the costs at an instance; None where they are not observed.

    Args:
        work: the job.
        ticket: the batch.
        operator: the operator.
        sender: the number of the instance among those that work on the batch.
    """
    function = work.topology.operator(operator).function()
    keys = (edge.key for edge in work.topology.inputs(operator))
    if Probe.COSTS not in work.settings.observes or function is None:
        return None
    if work.topology.operator(operator).keyed or not any(map(columns_of, keys)):
        return None
    calls = ticket.calls.get(operator, Calls())
    most, looked_at = work.most_keys(operator), work.settings.looked_at
    place = work.topology.order.index(operator)
    sampler = Sampler(work.topology.seed, place, sender, ticket.batch)
    return CostMeter(
        operator,
        function,
        most,
        calls.mode,
        every=calls.every,
        looked_at=looked_at,
        sampler=sampler,
    )


class CostMeter:
    """Measures what tuples cost at one instance in one batch.

    >>> from optimizers.folds.rows import as_batches
    >>> meter = CostMeter("big", lambda batch: batch, 10)
    >>> batch = pa.record_batch({"user": [7, 8, 7]})
    >>> [len(made) for made in meter.measured(as_batches(meter.function), batch, ["user"])]
    [3]
    >>> [seen.about for seen, table in meter.tell()]
    [('big', 'int', 'mean')]

    Args:
        operator: the operator.
        function: what it does.
        most_keys: of how many keys it reports, at most.
        mode: how tuples are handed over to a function of batches.
        clock: what time it is, in seconds.
        every: of how many rows one is timed, at most; and of how many runs of one key one is handed
            over alone, where tuples are told apart.
        looked_at: at how many tuples it is looked, at most, where not all are handed over apart;
            each then stands for several. Of as many tuples again it is looked at half as many, of
            the next at a third, and so on.
        sampler: chooses them.

    Attributes:
        function: what is to be called in place of the operator's function.
    """

    def __init__(  # noqa: PLR0913
        self,
        operator: str,
        function: Callable[..., Any],
        most_keys: int,
        mode: CallMode = CallMode.UNKNOWN,
        clock: Clock | None = None,
        *,
        every: int = 1,
        looked_at: int = 1 << 11,
        sampler: Sampler | None = None,
    ) -> None:
        self._operator = operator
        self._clock = clock or BusyClock()
        self._mode = mode
        self._every = every
        self._looked_at = looked_at
        self._sampler = sampler or Sampler(0)
        self._tuples = 0
        self._where = f"costs of operator {operator!r}"
        self._read: set[tuple[pa.Schema, tuple[str, ...]]] = set()  # where keys could be read
        self._tallies = {kind: CostTally(most_keys) for kind in (EACH, MEAN)}
        self._waiting: dict[str, list[_Keyed]] = {EACH: [], MEAN: []}
        self._kept = dict.fromkeys(self._waiting, 0)  # tuples that wait
        self._calls: list[tuple[int, bool, float | None]] = []  # what was tried; see `SCHEMA`
        self._alone = 0  # tuples that were to be tried alone
        self._watch: _Stopwatch | None = None
        self.function = function
        if isinstance(function, RowFunction):
            self._watch = _Stopwatch(function.function, self._clock)
            self.function = _WatchedRows(function.function, function.output, self._watch)

    def measured(
        self, work: Batches, batch: pa.RecordBatch, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Return what the function makes of a batch, one by one, having timed it.

        Args:
            work: the function, as `folds.rows.as_batches` returns it.
            batch: the tuples.
            columns: the columns of the key that costs are counted by; none to measure nothing.

        Raises:
            FoldError: a column of the key is not there, or holds what is no key.
        """
        if not columns or not len(batch):
            if self._watch is not None:
                self._watch.begin(_NONE)
            yield from work(batch)
            return
        self._check(batch, columns)
        if self._watch is not None:
            sample = self._sample(len(batch), self._looked_at, self._every)
            self._watch.begin(sample.rows)
            spent = yield from self._timed(work(batch))
            self._calls.append((len(batch), False, spent))
            found = _Times(EACH, *sample, self._watch.seconds(spent, len(batch)))
        else:
            found = yield from _cut(self._handed(work, batch, columns))
        self._keep(batch, columns, found)

    def tell(self) -> list[Sighting]:
        """Return what was measured."""
        for mode in self._waiting:
            self._count(mode)
        found = [
            (Observation(Seen.COSTS, (self._operator, kind, mode)), table)
            for mode, tally in self._tallies.items()
            for kind, table in tally.tables()
        ]
        if self._calls:
            columns = [list(column) for column in zip(*self._calls, strict=True)]
            tried = pa.table(columns, schema=SCHEMA)
            found.append((Observation(Seen.TRIAL, (self._operator,)), tried))
        return found

    def _timed(self, results: Iterator[pa.RecordBatch]) -> Timed:
        """Pass results on, and return how long it took to make them, but not what came between."""
        spent = 0.0
        while True:
            started = self._clock()
            made = next(results, None)
            spent += self._clock() - started
            if made is None:
                return spent
            yield made

    def _check(self, batch: pa.RecordBatch, columns: Sequence[str]) -> None:
        """Raise an error if tuples have no such key; that is seen of their columns' types."""
        kind = batch.schema, tuple(columns)
        if kind not in self._read:
            KeyedRows.of(batch.slice(0, 0), columns, self._where)
            self._read.add(kind)

    def _keep(self, batch: pa.RecordBatch, columns: Sequence[str], times: "_Times") -> None:
        """Keep how long tuples took; what it is by key, that is counted of many at once."""
        keys = pa.Table.from_batches([batch]).select(list(columns))
        if len(times.rows) < len(batch):
            keys = take_rows(keys, times.rows)
        waiting = self._waiting[times.mode]
        if waiting and not waiting[0].keys.schema.equals(keys.schema):
            self._count(times.mode)
        waiting.append(_Keyed(keys, times.seconds, times.weights))
        self._kept[times.mode] += len(keys)
        if self._kept[times.mode] >= _COUNTED_AT_ONCE:
            self._count(times.mode)

    def _count(self, mode: str) -> None:
        """Add up by key what is kept waiting."""
        waiting = self._waiting[mode]
        if waiting:
            tuples = pa.concat_tables([each.keys for each in waiting])
            rows = KeyedRows.of(tuples, tuples.column_names, self._where)
            seconds = np.concatenate([each.seconds for each in waiting])
            weights = np.concatenate([each.weights for each in waiting])
            self._tallies[mode].add(rows, seconds, weights)
            waiting.clear()
            self._kept[mode] = 0

    def _sample(self, length: int, looked_at: int, every: int = 1) -> Sample:
        """Return at which of the next tuples it is looked, at one of ``every`` at most."""
        # The more there were before, the less each further one tells.
        self._tuples += length
        return self._sampler.of(length, max(every, -(-self._tuples // looked_at)))

    def _alike(self, length: int, each: float) -> "_Times":
        """Return the times of tuples that took the same each: that is so for all keys."""
        sample = self._sample(length, max(1, self._looked_at // _FEWER))
        return _Times(MEAN, *sample, np.full(len(sample.rows), each))

    def _handed(self, work: Batches, batch: pa.RecordBatch, columns: Sequence[str]) -> Told:
        """Hand tuples over in the chosen mode, and note the seconds of each."""
        if self._mode is CallMode.APART:
            return (yield from self._apart(work, batch, columns))
        alone = min(_ALONE - self._alone, len(batch) // _SHARE_ALONE)
        if self._mode is CallMode.UNKNOWN and alone:
            return (yield from self._tried(work, batch, alone))
        spent = yield from self._timed(work(batch))
        return self._alike(len(batch), spent / len(batch))

    def _tried(self, work: Batches, batch: pa.RecordBatch, alone: int) -> Told:
        """Hand some tuples over together, some alone, and the rest in one call."""
        self._alone += alone
        together = min(_TOGETHER, len(batch) - alone)
        spent = yield from self._timed(work(batch.slice(0, together)))
        self._calls.append((together, False, spent))
        ends = range(together + 1, together + alone + 1)
        seconds = np.zeros(len(batch))
        place = yield from self._piecewise(work, batch, seconds, together, ends)
        self._calls += [(1, True, took) for took in seconds[together:place].tolist()]
        if place < together + alone:
            self._calls.append((1, True, None))
        if place < len(batch):
            spent += yield from self._timed(work(batch.slice(place)))
        # Those that were alone count as all others: their calls are no fault of theirs.
        return self._alike(len(batch), spent / (len(batch) - (place - together)))

    def _apart(self, work: Batches, batch: pa.RecordBatch, columns: Sequence[str]) -> Told:
        """Hand tuples over by runs of one key, or some runs alone and those between them."""
        ends = _ends(KeyedRows.of(batch, columns, self._where))
        starts = np.concatenate([[0], ends[:-1]])
        # The first of all shows whether the function can do with a few.
        others = self._sampler.of(len(ends) - 1, self._every)
        stands_for = np.zeros(len(ends))
        stands_for[0], stands_for[1 + others.rows] = 1, others.weights
        alone = stands_for > 0
        cuts = np.union1d(starts[alone][1:], np.append(ends[alone], len(batch)))
        seconds = np.zeros(len(batch))
        place = yield from self._piecewise(work, batch, seconds, 0, cuts.tolist())
        if place == len(batch):
            weights = np.repeat(stands_for, ends - starts)
            rows = np.flatnonzero(weights)
            weights = weights[rows] * (len(batch) / weights.sum())
            return _Times(EACH, rows, weights, seconds[rows])
        self._calls.append((1, True, None))
        self._mode = CallMode.TOGETHER
        spent = yield from self._timed(work(batch.slice(place)))
        seconds[place:] = spent / (len(batch) - place)
        sample = self._sample(len(batch), self._looked_at)
        return _Times(MEAN, *sample, seconds[sample.rows])

    def _piecewise(
        self,
        work: Batches,
        batch: pa.RecordBatch,
        seconds: Seconds,
        first: int,
        ends: Iterable[int],
    ) -> Generator[pa.RecordBatch, None, int]:
        """Hand tuples over in small pieces, as far as that can be done; return how far.

        There are functions that cannot do with a few tuples, or make columns of other types of
        them. Nothing of such a piece is passed on, and from there on they get all at once. What
        was made of a few must not say either of which types all has to be.
        """
        schema, begin = work.schema, first
        for end in ends:
            # That it can do with a few it has to have shown before rows of a piece are refused.
            piece = work.again(schema, guarded=first > begin)
            started = self._clock()
            try:
                made = list(piece(batch.slice(first, end - first)))
            except Exception:  # noqa: BLE001  # unless it is for the few, it comes again at once
                break
            seconds[first:end] = (self._clock() - started) / (end - first)
            yield from made
            schema, first = piece.schema, end
        return first


class _Stopwatch:
    """Notes how long a function of rows takes for some of them.

    Args:
        function: the function.
        clock: what time it is.
    """

    def __init__(self, function: Call, clock: Clock) -> None:
        self._function = function
        self._clock = clock
        self.begin(_NONE)

    def begin(self, rows: Rows) -> None:
        """Begin with a batch, of which these rows are timed."""
        self._rows = rows
        self._noted: list[float] = []
        self._calling = 0.0

    def stretches(self, rows: GivenRows) -> Iterator[tuple[Call, GivenRows]]:
        """Return what is called for the first rows of a batch, for those after them, and so on."""
        self._calling -= self._clock()
        place = 0
        for row in self._rows.tolist():
            yield self._function, rows[place:row]
            self._noted.append(0.0)  # it stays so if the row cannot be read: then nothing is called
            yield self._timed, rows[row : row + 1]
            place = row + 1
        yield self._function, rows[place:]
        self._calling += self._clock()

    def seconds(self, spent: float, rows: int) -> Seconds:
        """Return how long each row took that was timed, with its share of what was done for all.

        That is what was spent before the first call of the function, and after the last one.

        Args:
            spent: how long all rows took.
            rows: how many they are.
        """
        return np.array(self._noted) + max(0.0, spent - self._calling) / rows

    def _timed(self, row: dict[str, Any]) -> Any:
        """Return what the function makes of a row, and note how long it took."""
        started = self._clock()
        try:
            made = self._function(row)
            if type(made) is not dict and isinstance(made, Iterator):
                made = list(made)  # what yields does its work only now
        finally:  # a row that it raises on has taken its time as well
            self._noted[-1] = self._clock() - started
        return made


@dataclass(frozen=True, repr=False)
class _WatchedRows(RowFunction):
    """A function of rows, some of which are timed; it makes of them what the other makes."""

    watch: _Stopwatch | None = None

    def stretches(self, rows: GivenRows) -> Iterator[tuple[Call, GivenRows]]:
        """Return what is called for the first rows of a batch, for those after them, and so on."""
        return super().stretches(rows) if self.watch is None else self.watch.stretches(rows)


def _ends(rows: KeyedRows) -> Rows:
    """Return where runs of one key end; long ones end now and then."""
    starts = rows.runs()
    stops = np.append(starts[1:], len(rows.there))
    parts = -(-(stops - starts) // _RUN)
    part = np.arange(parts.sum()) - np.repeat(parts.cumsum() - parts, parts)
    ends: Rows = np.minimum(np.repeat(starts, parts) + (part + 1) * _RUN, np.repeat(stops, parts))
    return ends


def _cut(made: Told) -> Told:
    """Pass on the same tuples, a limited number at a time, and return what comes at their end."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    while True:
        try:
            part = next(made)
        except StopIteration as end:
            if waiting:
                yield _one(waiting)
            times: _Times = end.value
            return times
        if waiting and not part.schema.equals(waiting[0].schema):
            yield _one(waiting)
            waiting, size = [], 0
        waiting.append(part)
        size += len(part)
        if size >= _CUT:
            yield _one(waiting)
            waiting, size = [], 0


def _one(made: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several batches of the same columns as one."""
    if len(made) == 1:
        return made[0]
    return pa.Table.from_batches(made).combine_chunks().to_batches()[0]
