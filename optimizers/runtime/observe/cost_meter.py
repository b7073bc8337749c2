"""How long an operator without a key is busy with each tuple, by a key that the tuples have.

Seconds are those of the clock on the wall, for so long a tuple keeps its instance from others; but
for those spent waiting for a processor, which others had and which say nothing of the tuple.

A function of single rows (`each_row`) is timed row by row while it does its work. One of record
batches can only be timed by what it is given. At first it is tried on a stretch of tuples, and on
a few of them alone. Where a tuple costs alone about what it costs among others, tuples are handed
over by runs of one key in later batches, and timed so. Where it costs much more alone, the function
gets them all at once, and each tuple counts the same. The driver decides which it is, see
`call_mode`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import update_wrapper
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from optimizers.folds.rows import Batches, RowFunction
from optimizers.operators import columns_of
from optimizers.runtime.observe.busy_clock import BusyClock
from optimizers.runtime.observe.call_mode import SCHEMA, CallMode
from optimizers.runtime.observe.cost_tally import CostTally, KeyedRows, Seconds
from optimizers.runtime.observe.observation import EACH, MEAN, Observation, Seen, Sighting
from optimizers.runtime.work import JobContext, Ticket
from optimizers.statistics import Probe

Clock = Callable[[], float]
Timed = Generator[pa.RecordBatch, None, float]
"""Record batches, and at their end the seconds that it took to make them."""
Told = Generator[pa.RecordBatch, None, str]
"""Record batches, and at their end whether the seconds of their tuples are `EACH` or `MEAN`."""

_ALONE, _TOGETHER = 32, 128  # tuples that are tried alone and in one call, at most
_SHARE_ALONE = 5  # one tuple in this many is tried alone
_RUN = 128  # tuples of one key that are handed over at once
_CUT = 1 << 10  # tuples that are handed on together


def meter_for(work: JobContext, ticket: Ticket, operator: str) -> "CostMeter | None":
    """Return what measures the costs at an instance; None where they are not observed."""
    function = work.topology.operator(operator).function()
    keys = (edge.key for edge in work.topology.inputs(operator))
    if Probe.COSTS not in work.settings.observes or function is None:
        return None
    if work.topology.operator(operator).keyed or not any(map(columns_of, keys)):
        return None
    mode = ticket.modes.get(operator, CallMode.UNKNOWN)
    most, looked_at = work.most_keys(operator), work.settings.looked_at
    return CostMeter(operator, function, most, mode, looked_at=looked_at)


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
        looked_at: at how many tuples of a batch it is looked, at most, where not all are handed
            over apart; each then stands for several.

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
        looked_at: int = 1 << 11,
    ) -> None:
        self._operator = operator
        self._clock = clock or BusyClock()
        self._mode = mode
        self._looked_at = looked_at
        self._tallies = {kind: CostTally(most_keys) for kind in (EACH, MEAN)}
        self._calls: list[tuple[int, bool, float | None]] = []  # what was tried; see `SCHEMA`
        self._watch: _Stopwatch | None = None
        self.function = function
        if isinstance(function, RowFunction):
            self._watch = _Stopwatch(function.function, self._clock)
            self.function = replace(function, function=self._watch)

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
                self._watch.begin(0)
            yield from work(batch)
            return
        step = self._step(len(batch))
        rows = KeyedRows.of(batch, columns, f"costs of operator {self._operator!r}", step)
        seconds = np.zeros(len(batch))
        if self._watch is not None:
            self._watch.begin(step)
            spent = yield from self._timed(work(batch))
            mode = EACH
            seconds[::step] = self._watch.seconds(spent, len(batch))
        else:
            mode = yield from _cut(self._handed(work, batch, rows, seconds))
        self._tallies[mode].add(rows, seconds[::step], step)

    def tell(self) -> list[Sighting]:
        """Return what was measured."""
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

    def _step(self, length: int) -> int:
        """Return of how many tuples of a batch one is looked at."""
        each = self._watch is None and self._mode is CallMode.APART
        return 1 if each else max(1, -(-length // self._looked_at))

    def _handed(
        self, work: Batches, batch: pa.RecordBatch, rows: KeyedRows, seconds: Seconds
    ) -> Told:
        """Hand tuples over in the chosen mode, and note the seconds of each."""
        alone = min(_ALONE, len(batch) // _SHARE_ALONE)
        if self._mode is CallMode.APART:
            return (yield from self._apart(work, batch, rows, seconds))
        if self._mode is CallMode.UNKNOWN and alone:
            yield from self._tried(work, batch, seconds, alone)
            return MEAN
        spent = yield from self._timed(work(batch))
        seconds[:] = spent / len(batch)
        return MEAN

    def _tried(
        self, work: Batches, batch: pa.RecordBatch, seconds: Seconds, alone: int
    ) -> Iterator[pa.RecordBatch]:
        """Hand some tuples over together, some alone, and the rest in one call."""
        together = min(_TOGETHER, len(batch) - alone)
        spent = yield from self._timed(work(batch.slice(0, together)))
        self._calls.append((together, False, spent))
        ends = range(together + 1, together + alone + 1)
        place = yield from self._piecewise(work, batch, seconds, together, ends)
        self._calls += [(1, True, took) for took in seconds[together:place].tolist()]
        if place < together + alone:
            self._calls.append((1, True, None))
        if place < len(batch):
            spent += yield from self._timed(work(batch.slice(place)))
        # Those that were alone count as all others: their calls are no fault of theirs.
        seconds[:] = spent / (len(batch) - (place - together))

    def _apart(
        self, work: Batches, batch: pa.RecordBatch, rows: KeyedRows, seconds: Seconds
    ) -> Told:
        """Hand tuples over by runs of one key."""
        place = yield from self._piecewise(work, batch, seconds, 0, _ends(rows))
        if place == len(batch):
            return EACH
        self._calls.append((1, True, None))
        self._mode = CallMode.TOGETHER
        spent = yield from self._timed(work(batch.slice(place)))
        seconds[place:] = spent / (len(batch) - place)
        return MEAN

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
    """A function of rows that notes how long some of them took; it gives what the other gives.

    Args:
        function: the function.
        clock: what time it is.
    """

    def __init__(self, function: Callable[[dict[str, Any]], Any], clock: Clock) -> None:
        update_wrapper(self, function)
        self._function = function
        self._clock = clock
        self.begin(0)

    def begin(self, step: int) -> None:
        """Begin with a batch; one in ``step`` rows is timed, none if it is 0."""
        self._noted: list[float] = []
        self._step = step
        self._wait = 1 if step else -1  # rows until the next one that is timed

    def __call__(self, row: dict[str, Any]) -> Any:
        """Return what the function makes of a row."""
        self._wait -= 1
        if self._wait:
            return self._function(row)
        self._wait = self._step
        started = self._clock()
        try:
            made = self._function(row)
            if type(made) is not dict and isinstance(made, Iterator):
                made = list(made)  # what yields does its work only now
        finally:  # a row that it raises on has taken its time as well
            self._noted.append(self._clock() - started)
        return made

    def seconds(self, spent: float, rows: int) -> Seconds:
        """Return how long each row took that was timed, with its share of what no row took.

        Args:
            spent: how long all rows took.
            rows: how many they are.
        """
        seconds = np.array(self._noted)
        missing = -(-rows // self._step) - len(seconds)
        if missing:  # rows that could not be read, and were refused without a call
            seconds = np.append(seconds, np.zeros(missing))
        return seconds + max(0.0, spent - float(seconds.sum()) * self._step) / rows


def _ends(rows: KeyedRows) -> Iterator[int]:
    """Return where runs of one key end; long ones end now and then."""
    for start, stop in pairwise([*rows.runs().tolist(), len(rows.there)]):
        yield from range(start + _RUN, stop, _RUN)
        yield stop


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
            return str(end.value)
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
