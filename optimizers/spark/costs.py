"""For existing jobs: learn the costs of rows, by doing the work on some of them."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import DataType, DecimalType, IntegralType, LongType, StructType

from optimizers.error_boundary import front_door
from optimizers.errors import FunctionError, InvalidValueError, PenstockError
from optimizers.folds.rows import RowFunction, as_batches
from optimizers.runtime.observe.busy_clock import BusyClock
from optimizers.runtime.observe.cost_meter import CostMeter
from optimizers.runtime.observe.cost_tally import COUNT, SECONDS, count_costs
from optimizers.runtime.task.user_errors import raised_by
from optimizers.spark import checks
from optimizers.spark.call_costs import KEY, CallCosts
from optimizers.spark.muted_logs import muted
from optimizers.spark.shipping import ship
from optimizers.spark.task_errors import as_penstock_errors
from sketches.checks import number, seed, whole
from sketches.cost_sketch import CostSketch

_WIDTH, _DEPTH = 1024, 4

PANDAS, ARROW = "mapInPandas", "mapInArrow"

_ROW = "row"
_TELLING = 0.02  # seconds; to end takes some time as well, and now and then a process is held up


@front_door
def learn_costs(  # noqa: PLR0913
    rows: DataFrame,
    work: Callable[..., Any],
    *,
    key: str,
    given_to: str | None = None,
    sample: float = 0.05,
    most_keys: int = 4096,
    random_seed: int = 0,
) -> CostSketch:
    """Learn the cost of rows of each key, by doing the work on some of them.

    A function of several rows gets all sampled rows of one key, some of them twice: the fixed cost
    of a call is found by comparing small calls with larger ones, and subtracted. Results are
    dropped.

    Args:
        rows: rows as they will be.
        work: the work on them: the function given to ``mapInPandas`` or ``mapInArrow``, one of
            record batches, or one of rows, made by `optimizers.folds.each_row`.
        key: the column that the cost of a row depends on; of any type that has keys.
        given_to: ``"mapInPandas"`` or ``"mapInArrow"``, if the work is a function for these and
            does not say so in its annotations (``Iterator[pd.DataFrame]``).
        sample: the share of the rows on which the work is done.
        most_keys: how many keys have costs of their own, in each task.
        random_seed: chooses the rows.

    Returns:
        The costs in seconds, for `balance`.
    """
    share = number("sample", sample, above=0.0, up_to=1.0)
    most = whole("most_keys", most_keys, at_least=1)
    checks.check_bounded(rows, "rows", "learn from rows that are there, such as those of last week")
    if not isinstance(key, str):
        raise InvalidValueError(f"key={key!r} names no column; give the name of one")
    checks.key_columns(rows, key)
    if not callable(work):
        raise InvalidValueError(f"work={work!r} is not a function of record batches")
    form = _form(work, given_to)
    ship(rows.sparkSession.sparkContext)
    chosen = rows.sample(fraction=share, seed=seed(random_seed)) if share < 1 else rows
    sketch = CostSketch(_WIDTH, _DEPTH, exact=most)
    with muted(rows.sparkSession), as_penstock_errors():
        count_costs(sketch, _measured(chosen, work, key, form, most).toArrow())
    if not sketch.total:
        raise InvalidValueError(
            f"sample={share} of the rows is no row at all; take more to learn costs from"
        )
    return sketch


def _measured(
    rows: DataFrame, work: Callable[..., Any], key: str, form: str | None, most: int
) -> DataFrame:
    """Return the costs of keys, as each task has found them."""
    kind = rows.schema[key].dataType
    schema = StructType().add(KEY, LongType() if isinstance(kind, IntegralType) else kind)
    schema = schema.add(COUNT, "double").add(SECONDS, "double")
    if isinstance(work, RowFunction):
        return rows.mapInArrow(_TimingRows(work, key, most, _decimals(kind)), schema)
    # Rows of one key in one call: the more there are, the less the call itself matters.
    quoted = functions.col("`" + key.replace("`", "``") + "`")
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    gathered = rows.where(quoted.isNotNull()).repartition(tasks, quoted)
    gathered = gathered.sortWithinPartitions(quoted)
    if form == PANDAS:
        return gathered.mapInPandas(_TimingFrames(work, key, most, _decimals(kind)), schema)
    return gathered.mapInArrow(_TimingCalls(work, key, most, streams=form == ARROW), schema)


def _decimals(kind: DataType) -> pa.DataType | None:
    """Return the type of decimal keys; that of all others can be seen of each."""
    return pa.decimal128(kind.precision, kind.scale) if isinstance(kind, DecimalType) else None


def _form(work: Callable[..., Any], given_to: str | None) -> str | None:
    """Return the method that the function is for, as given or by its annotations; or None."""
    if given_to is not None:
        if given_to not in {PANDAS, ARROW}:
            raise InvalidValueError(
                f"given_to={given_to!r} is neither {PANDAS!r} nor {ARROW!r}; leave it out for a "
                "function of record batches, or of rows"
            )
        if isinstance(work, RowFunction):
            raise InvalidValueError(
                f"given_to={given_to!r} does not go with a function of rows; leave it out"
            )
        return given_to
    try:
        parameters = list(inspect.signature(work).parameters.values())
    except (ValueError, TypeError):  # of some functions nothing is known
        return None
    taken = str(parameters[0].annotation) if parameters else ""
    if "Iter" not in taken:
        return None
    return PANDAS if "DataFrame" in taken else ARROW if "RecordBatch" in taken else None


@dataclass(frozen=True)
class _TimingRows:
    """Does the work of a function of rows, and yields the cost of each key instead of results."""

    work: Callable[..., Any]
    key: str
    most_keys: int
    kind: pa.DataType | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        meter = CostMeter("work", self.work, self.most_keys, looked_at=sys.maxsize)
        function = as_batches(meter.function)
        with _function_errors():
            for batch in batches:
                for _ in meter.measured(function, batch, (self.key,)):
                    pass
        for _, table in meter.tell():
            if table.column_names == [KEY, COUNT, SECONDS]:
                kind = self.kind or table.column(KEY).type
                yield from table.set_column(0, KEY, table.column(KEY).cast(kind)).to_batches()


@dataclass(frozen=True)
class _TimingCalls:
    """Does the work of a function of record batches, or of a stream of these."""

    work: Callable[..., Any]
    key: str
    most_keys: int
    streams: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        costs, clock = CallCosts(self.key, self.most_keys), BusyClock()
        with _function_errors(hint=not self.streams):
            if self.streams:
                _work_through(self.work, costs, costs.pieces(batches))
            else:
                for piece in costs.pieces(batches):
                    started = clock()
                    for _ in as_batches(self.work)(piece):
                        pass
                    costs.note(clock() - started)
        table = costs.table()
        if table is not None:
            yield from table.to_batches()


@dataclass(frozen=True)
class _TimingFrames:
    """Does the work of a function of a stream of pandas frames, as Spark makes them."""

    work: Callable[..., Any]
    key: str
    most_keys: int
    kind: pa.DataType | None = None

    def __call__(self, frames: Iterable[Any]) -> Iterator[Any]:
        costs = CallCosts(self.key, self.most_keys)
        current: list[Any] = []

        def keys_of_frames() -> Iterator[pa.RecordBatch]:
            for frame in frames:
                current[:] = [frame]
                column = pa.array(frame[self.key], self.kind, from_pandas=True)
                numbers = pa.array(np.arange(len(frame)))
                yield pa.RecordBatch.from_arrays([column, numbers], [self.key, _ROW])

        def pieces() -> Iterator[Any]:
            for piece in costs.pieces(keys_of_frames()):
                chosen = piece.column(1).to_numpy()
                yield current[0].iloc[chosen].reset_index(drop=True)

        with _function_errors():
            _work_through(self.work, costs, pieces())
        table = costs.table()
        if table is not None:
            frame = table.select([COUNT, SECONDS]).to_pandas()
            keys = table.column(KEY)
            if pa.types.is_timestamp(keys.type):  # which Spark reads by the session's time zone
                frame.insert(0, KEY, keys.to_pandas())
            else:  # as objects: pandas makes floats of integers among which one is missing
                frame.insert(0, KEY, np.array(keys.to_pylist(), dtype=object))
            yield frame


def _work_through(work: Callable[..., Any], costs: CallCosts, pieces: Iterator[Any]) -> None:
    """Have a function of a stream do its work, and note how long it takes for each piece.

    That is from when it gets one to when it asks for the next.
    """
    clock = BusyClock()
    noted, ended, over = 0.0, clock(), False

    def given() -> Iterator[Any]:
        nonlocal noted, ended, over
        for piece in pieces:
            started = clock()
            yield piece
            spent = clock() - started
            noted += spent
            costs.note(spent)
        ended, over = clock(), True

    came_before = False
    for _ in work(given()):
        came_before = came_before or not over
    if not came_before and clock() - ended > max(noted, _TELLING):
        raise InvalidValueError(
            "work reads all rows before it works on them, so what those of each key cost "
            "cannot be measured; give a function that is done with a frame before it takes the next"
        )


@contextmanager
def _function_errors(*, hint: bool = False) -> Iterator[None]:
    """Raise what the work raises as an error of ours, in one line."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        ours = raised_by("work", error)
        if ours is None:
            raise
        remedy = f"; if it is what {PANDAS} takes, say given_to={PANDAS!r}" if hint else ""
        raise FunctionError(f"{ours}{remedy}") from error
