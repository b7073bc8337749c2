"""For existing jobs: spread the work over partitions, not the rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import IntegerType, NumericType, StructType

from grouping.scheduling.longest_first import longest_first
from optimizers.error_boundary import front_door
from optimizers.errors import InvalidValueError, PenstockError, UnknownNameError
from optimizers.runtime.task.key_reader import key_batch
from optimizers.spark import checks
from optimizers.spark.hash_slots import slots
from optimizers.spark.muted_logs import muted
from optimizers.spark.shipping import ship
from optimizers.spark.task_errors import as_penstock_errors
from sketches.arrays import Codes, Floats, Parts
from sketches.checks import whole
from sketches.cost_sketch import CostSketch

_SLOT = "penstock_slot"
_COUNT = "penstock_count"
_TASK = "penstock_task"

_WIDTH, _DEPTH = 1024, 4


@front_door
def balance(
    rows: DataFrame,
    partitions: int,
    *,
    costs: str | CostSketch | Mapping[Any, float],
    key: str | tuple[str, ...] | None = None,
    most: int = 2_000_000,
) -> DataFrame:
    """Spread rows over partitions so that all finish at about the same time.

    Use it instead of ``rows.repartition(8)``, which gives all partitions equal numbers of rows. The
    costliest rows are placed first, each in the partition that has least to do. The rows are not
    changed.

    Up to ``most`` rows are divided together: they are counted first, and computed once more for
    that (cache them if that takes long). If there are more, each task divides its own.

    Args:
        rows: the rows.
        partitions: over how many partitions.
        costs: the column with the cost of each row; or the cost of each key, as learned by
            `learn_costs` or written down. Unknown keys cost the mean.
        key: the column, or columns, of the key, unless costs are in a column.
        most: how many rows are divided together.
    """
    count = whole("partitions", partitions, at_least=1)
    limit = whole("most", most, at_least=0)
    checks.check_bounded(rows, "rows", "use repartition(), which looks at no row before it is sent")
    prices = _prices(rows, costs, checks.key_columns(rows, key))
    if _SLOT in rows.columns:
        raise InvalidValueError(f"a column is called {_SLOT!r}, which is needed here; rename it")
    ship(rows.sparkSession.sparkContext)
    counted = rows.select(functions.spark_partition_id().alias(_TASK), *prices.columns)
    grouped = counted.groupBy(_TASK, *prices.columns).agg(functions.count("*").alias(_COUNT))
    with muted(rows.sparkSession), as_penstock_errors():
        seen = grouped.limit(limit + 1).toArrow()
    shares = _divided(prices, seen, count) if _total(seen) <= limit else {}
    schema = StructType([*rows.schema.fields]).add(_SLOT, IntegerType(), nullable=False)
    spread = rows.mapInArrow(_Balancing(prices, count, shares), schema)
    return spread.repartition(count, _SLOT).drop(_SLOT)


@dataclass(frozen=True)
class _Prices:
    """The costs of rows: by a column of costs, or by their key.

    Attributes:
        columns: those that tell a row's cost: the key, or the cost itself.
        sketch: the costs of keys; None where they are in the column.
    """

    columns: tuple[str, ...]
    sketch: CostSketch | None

    def of(self, rows: pa.Table) -> tuple[Codes, Floats]:
        """Return for each row a number that rows of one cost share, and the cost."""
        if self.sketch is None:
            (name,) = self.columns
            column = rows.column(name).cast(pa.float64())
            costs = column.to_numpy(zero_copy_only=False).astype(np.float64)
            wrong = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
            if len(wrong):
                value = rows.column(name)[int(wrong[0])].as_py()
                raise InvalidValueError(
                    f"costs: column {name!r} holds {value!r}; a cost is a number from 0 up, so "
                    "fill in what is missing"
                )
            return (costs + 0.0).view(np.uint64), costs
        keys = key_batch(rows, self.columns, "balance")
        return keys.codes, keys.spread(self.sketch.estimate(keys.column))


def _prices(rows: DataFrame, costs: Any, columns: tuple[str, ...]) -> _Prices:
    if isinstance(costs, str):
        if columns:
            raise InvalidValueError(
                f"costs={costs!r} is a column, so that key={columns} says nothing; leave it out"
            )
        if costs not in rows.columns:
            raise UnknownNameError.among("column", costs, rows.columns)
        kind = rows.schema[costs].dataType
        if not isinstance(kind, NumericType):
            raise InvalidValueError(f"costs: column {costs!r} is of type {kind}, not of numbers")
        return _Prices((costs,), None)
    if not columns:
        raise InvalidValueError("costs are by key; name its column with key=")
    if isinstance(costs, Mapping):
        sketch = CostSketch(_WIDTH, _DEPTH, exact=len(costs))
        sketch.update(list(costs), list(costs.values()))
    elif isinstance(costs, CostSketch):
        sketch = costs.copy()
    else:
        raise InvalidValueError(
            f"costs={costs!r} are not costs; give a column, a mapping, or what learn_costs returned"
        )
    sketch.mean  # noqa: B018  # refuses costs of nothing
    return _Prices(columns, sketch)


def _total(seen: pa.Table) -> int:
    return int(seen.column(_COUNT).to_numpy().sum()) if len(seen) else 0


@dataclass(frozen=True)
class _InstanceShare:
    """The partitions of one task's rows: of those of each code, one after the other.

    Attributes:
        codes: in ascending order.
        starts: where the partitions of each begin; and where the last ones end.
        partitions: all of them.
    """

    codes: Codes
    starts: NDArray[np.int64]
    partitions: Parts


def _divided(prices: _Prices, seen: pa.Table, partitions: int) -> dict[int, _InstanceShare]:
    """Divide all rows, and return the share of each task."""
    codes, costs = prices.of(seen)
    tasks, counts = (seen.column(name).to_numpy() for name in (_TASK, _COUNT))
    chosen = longest_first(np.repeat(costs, counts), partitions)
    ends = np.cumsum(counts)
    shares = {}
    for task in np.unique(tasks).tolist():
        mine = np.flatnonzero(tasks == task)
        mine = mine[np.argsort(codes[mine], kind="stable")]
        places = [np.arange(ends[row] - counts[row], ends[row]) for row in mine.tolist()]
        starts = np.concatenate([[0], np.cumsum(counts[mine])])
        shares[task] = _InstanceShare(codes[mine], starts, chosen[np.concatenate(places)])
    return shares


@dataclass(frozen=True)
class _Balancing:
    """Adds to each row the slot of its partition, in one task."""

    prices: _Prices
    partitions: int
    shares: Mapping[int, _InstanceShare]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        spreader = _Spreader(self.shares.get(task), self.partitions, task)
        numbers = slots(self.partitions)
        for batch in batches:
            try:
                codes, costs = self.prices.of(pa.Table.from_batches([batch]))
            except PenstockError as error:  # it is the user's own action that shows it
                raise error.with_traceback(None) from None
            column = pa.array(numbers[spreader.spread(codes, costs)], pa.int32())
            fields = [*batch.schema, pa.field(_SLOT, pa.int32(), nullable=False)]
            yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=pa.schema(fields))


class _Spreader:
    """Chooses partitions for the rows of one task.

    Args:
        share: the decision for its rows, if there is one.
        partitions: how many there are.
        task: its number; tasks that decide for themselves begin with different partitions.
    """

    def __init__(self, share: _InstanceShare | None, partitions: int, task: int) -> None:
        self._share = share
        self._used = np.zeros(0 if share is None else len(share.codes), dtype=np.int64)
        self._order = (np.arange(partitions) + task) % partitions
        self._loads = np.zeros(partitions)

    def spread(self, codes: Codes, costs: Floats) -> Parts:
        """Return the partition of each row of a batch."""
        chosen = np.full(len(codes), -1, dtype=np.int32)
        if self._share is not None and len(self._share.codes):
            self._as_decided(self._share, codes, chosen)
        # Rows that were not there when they were counted, as the source now gave others.
        left = np.flatnonzero(chosen < 0)
        if len(left):
            places = longest_first(costs[left], len(self._order), loads=self._loads)
            self._loads += np.bincount(places, costs[left], len(self._loads))
            chosen[left] = self._order[places]
        return chosen

    def _as_decided(self, share: _InstanceShare, codes: Codes, chosen: Parts) -> None:
        # 1. Bring equal keys together, each with how often it comes.
        rows = np.argsort(codes, kind="stable")
        distinct, firsts, counts = np.unique(codes[rows], return_index=True, return_counts=True)
        # 2. Look up the decision for each key: a stretch of partitions, used up to some place.
        known = np.searchsorted(share.codes, distinct).clip(0, len(share.codes) - 1)
        there = share.codes[known] == distinct
        begun = np.where(there, share.starts[known] + self._used[known], 0)
        ends = np.where(there, share.starts[known + 1], 0)
        # 3. The n-th row of a key takes the n-th place that is left; more have none.
        ranks = np.arange(len(rows)) - np.repeat(firsts, counts)
        places = np.repeat(begun, counts) + ranks
        decided = places < np.repeat(ends, counts)
        chosen[rows[decided]] = share.partitions[places[decided]]
        # 4. Remember how many places are used.
        self._used[known[there]] += counts[there]
