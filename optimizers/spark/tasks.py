"""The functions that Spark runs on its executors: each is one task of `optimizers.runtime`."""

import gc
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute
from pyspark import Broadcast, TaskContext
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from optimizers.errors import MissingPackageError
from optimizers.runtime.log.mark import check_shared
from optimizers.runtime.task.parcels import SCHEMA
from optimizers.runtime.task.task import run_source, run_task
from optimizers.runtime.work import JobContext, Ticket
from optimizers.spark.hash_slots import slots
from optimizers.spark.hosts import executor_host
from optimizers.spark.task_errors import causes_noted

COLUMNS = StructType(
    [
        StructField("task", IntegerType()),
        StructField("parcel", from_arrow_schema(pa.schema(list(SCHEMA)[1:]))),
    ]
)
"""The schema of parcels, as Spark has it: as types, for text would be parsed at each stage of each
batch, and in few columns, as PySpark asks the JVM for each by itself."""

ANCHOR = -2
"""The edge of the rows of an anchor, which only say where a task should run; see `pinning`."""

SOURCE = "source"
"""The column that tells sources apart where several came as one."""

_RUNS = 4  # runs whose work a process keeps, if several take turns

# The work of each run that this process has had, by the number of its plan.
_WORK: OrderedDict[str, tuple[int, JobContext]] = OrderedDict()

_TASKS = count(1)  # that this process runs


@dataclass(frozen=True)
class SharedWork:
    """The work under one plan, sent to each executor once.

    Attributes:
        run: the run it is of; no two runs share a name.
        plan: sets it apart from the work of this run under other plans.
        pickled: the work, pickled by value where it is defined in a script or notebook.
        checkpoint: the name of the checkpoint, which this process has to see too; None if that is
            not to be checked.
    """

    run: str
    plan: int
    pickled: "Broadcast[bytes]"
    checkpoint: str | None = None

    def get(self) -> JobContext:
        """Return the work; unpickled once in each process, which forgets that of other plans."""
        _spare_the_collector()
        plan, work = _WORK.pop(self.run, (None, None))
        if work is None or plan != self.plan:
            work = None  # both at once would take twice the memory
            # Tasks share the cores among them; more threads in each would be in each other's way.
            pa.set_cpu_count(1)
            work = _loaded(self.pickled.value)
            if self.checkpoint is not None:
                check_shared(work.location, self.checkpoint)
        _WORK[self.run] = self.plan, work
        while len(_WORK) > _RUNS:
            _WORK.popitem(last=False)
        return work


def _loaded(pickled: bytes) -> JobContext:
    """Return the work, or say what a task lacks for the functions of the job."""
    try:
        work: JobContext = pickle.loads(pickled)  # noqa: S301  # the driver's own
    except (ImportError, AttributeError) as error:
        missing = getattr(error, "name", None)
        remedy = (
            "give executors the module as the driver has it, with spark.sparkContext.addPyFile(...)"
            " or spark-submit --py-files, or install it there"
        )
        if isinstance(error, ModuleNotFoundError) and missing:
            text = f"a task cannot import {missing!r}, which functions of the job come from"
            raise MissingPackageError(f"{text}; {remedy}") from error
        raise MissingPackageError(
            f"a task cannot load the functions of the job: {error}; {remedy}"
        ) from error
    return work


def _spare_the_collector() -> None:
    """Take what stays in a worker out of what Python's garbage collector looks at.

    Spark has each worker collect garbage after each task. Going through the objects of all imported
    modules takes tens of milliseconds of CPU time, which was most of what short tasks took. What is
    there before a task has outlived such a collection. It is set aside before the first task, the
    second, the fourth, and so on: modules are imported late, too, and of what is set aside and no
    longer needed by then, only reference cycles stay, a few times in the life of a process.
    """
    number = next(_TASKS)
    if number & (number - 1) == 0:
        gc.freeze()


SharedTicket: TypeAlias = "Ticket | Broadcast[Ticket]"
"""A ticket, which goes with each task; if it is too large for that, once to each executor."""


@dataclass(frozen=True)
class SourceTask:
    """Lets in one partition of a source, or of several that came as one; see `rows_of`."""

    shared: SharedWork
    ticket: SharedTicket
    sources: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the tuples as parcels."""
        work = self.shared.get()
        by_source: Sequence[Iterable[pa.RecordBatch]] = [batches]
        if len(self.sources) > 1:
            by_source = _apart(batches, len(self.sources))
        for source, rows in zip(self.sources, by_source, strict=True):
            ticket, host = _ticket(self.ticket), executor_host()
            parcels = run_source(
                work, ticket, source, _partition(), rows, known_as=_stage(), host=host
            )
            with causes_noted():
                yield from _addressed(parcels, work, 1)


@dataclass(frozen=True)
class StageTask:
    """Runs one task of a stage."""

    shared: SharedWork
    ticket: SharedTicket
    stage: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task emits and passes on as parcels."""
        work = self.shared.get()
        ticket, host = _ticket(self.ticket), executor_host()
        arrived, stage = _arrived(batches), self.stage
        parcels = run_task(work, ticket, stage, _partition(), arrived, known_as=_stage(), host=host)
        with causes_noted():
            yield from _addressed(parcels, work, self.stage + 1)


def rows_of(source: int) -> str:
    """Return the column that the rows of a source are in where several came as one."""
    return f"rows_{source}"


def _apart(batches: Iterable[pa.RecordBatch], sources: int) -> list[Iterator[pa.RecordBatch]]:
    """Return by source the rows of several that came as one; the first to be asked for reads all.

    So it is the first source that is seen to wait for them.
    """
    read: list[list[list[pa.RecordBatch]]] = []

    def rows(number: int) -> Iterator[pa.RecordBatch]:
        if not read:
            read.append(_by_source(batches, sources))
        yield from read[0][number]

    return [rows(number) for number in range(sources)]


def _by_source(batches: Iterable[pa.RecordBatch], sources: int) -> list[list[pa.RecordBatch]]:
    """Return the rows of each source, each with its own columns."""
    found: list[list[pa.RecordBatch]] = [[] for _ in range(sources)]
    for batch in batches:
        numbers = batch.column(SOURCE)
        for source, rows in enumerate(found):
            mine = batch.filter(pa.compute.equal(numbers, source))
            if len(mine):
                structs = mine.column(rows_of(source))
                rows.append(pa.RecordBatch.from_struct_array(structs))
    return found


def _arrived(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return parcels as tasks have them, without the rows of anchors."""
    for batch in map(as_tasks_have, batches):
        edges = batch.column("edge").to_numpy()
        if ANCHOR in edges:
            yield batch.filter(pa.array(edges != ANCHOR))
        else:
            yield batch


def _ticket(shared: SharedTicket) -> Ticket:
    return shared if isinstance(shared, Ticket) else shared.value


def _partition() -> int:
    context: Any = TaskContext.get()
    return int(context.partitionId())


def _stage() -> int:
    context: Any = TaskContext.get()
    return int(context.stageId())


def _addressed(
    batches: Iterable[pa.RecordBatch], work: JobContext, stage: int
) -> Iterator[pa.RecordBatch]:
    """Return parcels as Spark has them, each for the slot of its task, if there is a next stage."""
    last = stage >= len(work.layout.stages)
    numbers = None if last else slots(len(work.layout.stages[stage]))
    for batch in batches:
        task, *parcel = batch.columns
        if numbers is not None:
            task = pa.array(numbers[task.to_numpy()], pa.int32())
        struct = pa.StructArray.from_arrays(parcel, fields=list(SCHEMA)[1:])
        yield pa.RecordBatch.from_arrays([task, struct], names=["task", "parcel"])


def as_tasks_have(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return parcels as tasks have them, from what Spark has them as."""
    return pa.RecordBatch.from_arrays(
        [batch.column(0), *batch.column(1).flatten()], names=SCHEMA.names
    )
