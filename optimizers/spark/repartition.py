"""For existing jobs: learn the owners of keys, and spread a DataFrame by them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import IntegerType, StructType

from grouping.groupings import Fields, Grouping
from grouping.key_batch import KeyBatch
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import Partition, partition_keys
from grouping.routing_table import RoutingTable
from optimizers.error_boundary import front_door
from optimizers.errors import InvalidValueError, PenstockError
from optimizers.runtime.task.key_reader import key_batch
from optimizers.spark import checks
from optimizers.spark.hash_slots import slots
from optimizers.spark.muted_logs import muted
from optimizers.spark.shipping import ship
from optimizers.spark.task_errors import as_penstock_errors
from sketches.checks import whole

_SLOT = "penstock_slot"
_COUNT = "penstock_count"


@dataclass(frozen=True)
class LearnedTables(Partition):
    """The owners of keys of two columns, and their locality on the rows they were learned from.

    Attributes:
        tables: for each column, the owner of each key; what `repartition` takes.
        locality: the share of all rows with both keys whose keys are in one part.
        imbalance: for each column, the rows of the fullest part, in averages.
        moved: the share of the rows that had another owner by the previous tables.
        rack_locality: the same as the locality.
        hash_locality: the share of these rows whose keys are in one part if both go by hash.
        looked_at: the share of these rows whose pair of keys was among the most frequent ones,
            which were used to divide the keys.
    """

    hash_locality: float
    looked_at: float


@front_door
def learn_tables(  # noqa: PLR0913
    rows: DataFrame,
    left: str,
    right: str,
    parts: int,
    *,
    imbalance: float = 1.03,
    most_pairs: int = 1_000_000,
    previous: Sequence[RoutingTable] | None = None,
    seed: int = 0,
) -> LearnedTables:
    """Learn who should own the keys of two columns, so that keys of one row are together.

    Args:
        rows: rows as they will be, such as those of last week.
        left: the column of the first key.
        right: the column of the second key.
        parts: the number of partitions or machines to divide the keys among.
        imbalance: the most rows that a part may get by either key, in averages.
        most_pairs: how many pairs of keys are used, the most frequent ones.
        previous: the tables in force, if keys are to move only as far as it pays.
        seed: equal seeds give equal answers.

    Returns:
        The tables, one for each key, and the share of rows whose keys they bring together, beside
        that of hashing. If there are more pairs than are used, all rows are read once more to know
        it.
    """
    limit = whole("most_pairs", most_pairs, at_least=1)
    checks.check_bounded(rows, "rows", "learn from rows that are there, such as those of last week")
    checks.key_columns(rows, (left, right))
    known = rows.select(left, right).dropna()
    counted = known.groupBy(left, right).agg(functions.count("*").alias(_COUNT))
    heaviest = counted.orderBy(functions.desc(_COUNT)).limit(limit)
    with muted(rows.sparkSession), as_penstock_errors():
        pairs = heaviest.toArrow()
        counts = {name: _key_counts(known, name) for name in (left, right)}
    if not len(pairs):
        raise InvalidValueError(
            f"there is no row with both {left!r} and {right!r}; there is nothing to learn from"
        )
    seen = KeyPairs(pairs.column(0), pairs.column(1), pairs.column(2).to_numpy())
    graph = KeyGraph.of({(left, right): seen}, (left, right), counts=counts)
    found = partition_keys(graph, parts, imbalance=imbalance, previous=previous, seed=seed)
    judge = _Judging(found.tables, parts)
    if len(pairs) < limit:
        sums = judge.sums(pairs, pairs.column(2).to_numpy())
    else:
        ship(rows.sparkSession.sparkContext)
        judged = known.mapInArrow(judge, "total long, by_table long, by_hash long")
        with muted(rows.sparkSession), as_penstock_errors():
            sums = np.array(judged.groupBy().sum().collect()[0])
    total, by_table, by_hash = sums.tolist()
    return LearnedTables(
        found.tables,
        by_table / total,
        found.imbalance,
        found.moved,
        by_table / total,
        hash_locality=by_hash / total,
        looked_at=int(pairs.column(2).to_numpy().sum()) / total,
    )


@front_door
def repartition(
    rows: DataFrame,
    partitions: int,
    grouping: Grouping | None = None,
    *,
    key: str | tuple[str, ...] | None = None,
) -> DataFrame:
    """Spread the rows of a DataFrame over partitions by any grouping.

    Other than ``rows.repartition(8, "user")``, which uses Spark's hash, it can spread by a learned
    table, deal rows out in turn, or split heavy keys over several partitions. Each row is exactly
    in the partition that the grouping says; rows are not changed.

    Args:
        rows: the rows.
        partitions: over how many partitions.
        grouping: decides the partition; by default the hash of the key, or in turn without a key.
        key: the column, or columns, of the key; not needed by groupings that do not choose by it.
    """
    number = whole("partitions", partitions, at_least=1)
    checks.check_frame("rows", rows)
    columns = checks.key_columns(rows, key)
    chosen = Fields() if grouping is None else grouping
    if not isinstance(chosen, Grouping):
        raise InvalidValueError(
            f"grouping={chosen!r} is not a grouping; give one, such as Shuffle()"
        )
    if chosen.needs_key and not columns:
        raise InvalidValueError(f"{chosen.kind} chooses by a key; name its column with key=")
    chosen.router(number)  # refuses a grouping that was made for another number
    checks.check_table(rows, columns, chosen, number)
    if _SLOT in rows.columns:
        raise InvalidValueError(f"a column is called {_SLOT!r}, which is needed here; rename it")
    ship(rows.sparkSession.sparkContext)
    schema = StructType([*rows.schema.fields]).add(_SLOT, IntegerType(), nullable=False)
    spread = rows.mapInArrow(_Spreading(chosen, number, columns), schema)
    return spread.repartition(number, _SLOT).drop(_SLOT)


@dataclass(frozen=True)
class _Spreading:
    """Adds to each row the slot of its partition; one router for each task."""

    grouping: Grouping
    partitions: int
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        sender = context.partitionId() if context is not None else 0
        router = self.grouping.router(self.partitions, sender=sender)
        numbers = slots(self.partitions)
        for batch in batches:
            keys = None
            try:
                if self.columns:
                    keys = key_batch(pa.Table.from_batches([batch]), self.columns, "repartition")
                column = pa.array(numbers[router.route(len(batch), keys)], pa.int32())
            except PenstockError as error:  # it is the user's own action that shows it
                raise error.with_traceback(None) from None
            fields = [*batch.schema, pa.field(_SLOT, pa.int32(), nullable=False)]
            yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=pa.schema(fields))


@dataclass(frozen=True)
class _Judging:
    """Counts the rows whose two keys are in one part, by tables and by hash."""

    tables: tuple[RoutingTable, ...]
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sums = self.sums(pa.Table.from_batches([batch]), np.ones(len(batch), dtype=np.int64))
            columns = [pa.array([count]) for count in sums.tolist()]
            yield pa.RecordBatch.from_arrays(columns, ["total", "by_table", "by_hash"])

    def sums(self, pairs: pa.Table, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many rows there are, and how many are together by tables and by hash.

        Args:
            pairs: the two keys, in its first two columns.
            counts: how many rows each stands for.
        """
        keys = [KeyBatch.read(pairs.column(side)) for side in range(2)]
        together = [np.ones(len(pairs), dtype=np.bool_)]
        for groupings in (self.tables, (Fields(), Fields())):
            one, other = (
                grouping.router(self.parts).route(len(pairs), side)
                for grouping, side in zip(groupings, keys, strict=True)
            )
            together.append(one == other)
        return np.array([counts[mask].sum() for mask in together])


def _key_counts(rows: DataFrame, column: str) -> KeyCounts:
    counted = rows.groupBy(column).agg(functions.count("*").alias(_COUNT)).toArrow()
    return KeyCounts(counted.column(0), counted.column(1).to_numpy())
