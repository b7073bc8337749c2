"""What it costs to send a stream to several consumers: each by itself, or packed once for all.

Rivals are the outboxes that tasks use. *Distinct* is one outbox for each edge, *shared* one for all
edges, which shares what it can: keys that are read once, and parcels that are packed once where
edges spread tuples alike. *Matrix* are the paper's shared batches for consumers that are not alike:
one parcel for each combination of their instances (`Settings.shared_batches`). They overtake each
other, so each tuple travels with its place, and the receivers sort. These run in this process, in
CPU time, by turns.

Then whole batches on Spark, by the clock on the wall, by turns: three consumers that are alike; the
same but for their numbers of key groups, so that nothing is shared; and one operator with all three
folds, whose tuples cross once.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from harness import Result, interleaved
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, functions

from optimizers import Cluster, Edge, Operator, Plan, Topology
from optimizers.folds import Count, Max, Sum, Together
from optimizers.layout import Instance, Layout
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.outbox import Outbox
from optimizers.runtime.task.parcels import Parcel, as_batches, from_batches
from optimizers.runtime.task.shared_parcels import in_order
from optimizers.runtime.work import JobContext, Settings
from optimizers.spark import SparkEngine, local_session
from optimizers.spark.engine import Run

ROWS = 1 << 18
AT_ONCE = 1 << 16
INSTANCES = 8
SPARK_ROWS = 1_000_000
WARM = 2  # batches that are not looked at


def run(scale: float) -> list[Result]:
    """Measure senders with two to four consumers, on narrow and wide rows."""
    rows = max(1_000, int(ROWS * scale))
    results = []
    for name, tuples in (("narrow", _narrow(rows)), ("wide", _wide(rows))):
        results += [_alike(name, tuples, consumers) for consumers in (2, 3, 4)]
        results += _not_alike(name, tuples)
    return [*results, *_on_spark(max(1_000, int(SPARK_ROWS * scale)), 12 if scale >= 1 else 2)]


def _narrow(rows: int) -> list[pa.RecordBatch]:
    """Return tuples of two integers, of which each is a key."""
    rng = np.random.default_rng(5)
    columns = {"a": rng.integers(0, 10_000, rows), "b": rng.integers(0, 10_000, rows)}
    return list(pa.table(columns).to_batches(max_chunksize=10_000))


def _wide(rows: int) -> list[pa.RecordBatch]:
    """Return tuples of twelve columns, some 200 bytes, with keys of text."""
    rng = np.random.default_rng(6)
    words = np.array([f"#tag-{number}" for number in range(10_000)])
    columns = {name: words[rng.integers(0, len(words), rows)] for name in ("a", "b")}
    columns |= {f"number-{n}": rng.random(rows) for n in range(8)}
    text = np.array(["".join(map(chr, rng.integers(97, 122, 60))) for _ in range(100)])
    columns |= {f"text-{n}": text[rng.integers(0, len(text), rows)] for n in range(2)}
    return list(pa.table(columns).to_batches(max_chunksize=10_000))


def _work(keys: Sequence[str]) -> JobContext:
    """Return a job of one source and a consumer by each of these keys."""
    names = [f"by-{number}" for number in range(len(keys))]
    operators = [Operator(n, key, INSTANCES) for n, key in zip(names, keys, strict=True)]
    job = Topology((Operator("s"), *operators), tuple(Edge("s", name) for name in names))
    return JobContext(
        Layout.of(job, Cluster.uniform(2), Plan()), {}, Location("/nowhere"), Settings()
    )


def _sender(
    work: JobContext, groups: Sequence[Sequence[Edge]], tuples: list[pa.RecordBatch]
) -> int:
    """Send tuples by some outboxes, as rows that could travel, and return how many bytes these."""
    bad = BadRows(work.location, Attempt("s", 0, 0, "x"))
    boxes = [Outbox(work, edges, Instance("s", 0), 0, bad) for edges in groups]

    def parcels() -> Iterator[Parcel]:
        for batch in tuples:
            for box in boxes:
                yield from box.send(batch)
        for box in boxes:
            yield from box.finish()

    return sum(batch.nbytes for batch in as_batches(parcels()))


def _rivals(work: JobContext, tuples: list[pa.RecordBatch]) -> dict[str, Callable[[], int]]:
    edges = work.topology.edges
    return {
        "distinct": lambda: _sender(work, [(edge,) for edge in edges], tuples),
        "shared": lambda: _sender(work, [edges], tuples),
    }


def _alike(name: str, tuples: list[pa.RecordBatch], consumers: int) -> Result:
    rivals = _rivals(_work(["a"] * consumers), tuples)
    if rivals["shared"]() != rivals["distinct"]():
        raise AssertionError("what is shared is not what would be sent otherwise")
    seconds = interleaved(rivals)
    return Result(
        name=f"{name} rows, {consumers} consumers alike: sender, distinct against shared",
        measured=seconds["distinct"] / seconds["shared"],
        unit="x",
        goal=0.4 + 0.4 * consumers,
    )


def _not_alike(name: str, tuples: list[pa.RecordBatch]) -> list[Result]:
    """Measure consumers by other keys: senders, and the matrix with its receivers."""
    work = _work(["a", "b"])
    seconds = interleaved(_rivals(work, tuples))
    matrix = _with_receivers(replace(work, settings=Settings(shared_batches=True)), tuples)
    distinct = _with_receivers(work, tuples)
    sizes = distinct(), matrix()
    both = interleaved({"distinct": distinct, "matrix": matrix})
    return [
        Result(
            name=f"{name} rows, 2 consumers by other keys: sender, distinct against shared",
            measured=seconds["distinct"] / seconds["shared"],
            unit="x",
            goal=0.9,
        ),
        Result(
            name=f"  {name} rows: sender and receivers, distinct against a matrix of batches",
            measured=both["distinct"] / both["matrix"],
            unit="x",
        ),
        Result(
            name=f"  {name} rows: bytes, matrix against distinct",
            measured=sizes[1] / sizes[0],
            unit="x",
        ),
    ]


def _with_receivers(work: JobContext, tuples: list[pa.RecordBatch]) -> Callable[[], int]:
    """Return what sends parcels as the job's settings say, and unpacks them as receivers do."""
    edges, shared = work.topology.edges, work.settings.shared_batches

    def both() -> int:
        bad = BadRows(work.location, Attempt("s", 0, 0, "x"))
        box = Outbox(work, edges, Instance("s", 0), 0, bad)
        size = 0
        for table in _blocks(tuples):
            (batch,) = table.to_batches()
            size += _received([*box.send(batch), *box.close()], shared=shared)
        return size

    return both


def _blocks(tuples: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tuples as many at a time as are routed at once."""
    whole = pa.Table.from_batches(tuples)
    for start in range(0, len(whole), AT_ONCE):
        yield whole.slice(start, AT_ONCE).combine_chunks()


def _received(parcels: list[Parcel], *, shared: bool) -> int:
    """Let parcels travel, and put together what each instance gets; return their bytes."""
    batches = list(as_batches(parcels))
    arrived: dict[tuple[int, int], list[Parcel]] = {}
    for parcel in from_batches(batches):
        arrived.setdefault((parcel.edge, parcel.target), []).append(parcel)
    for mine in arrived.values():
        tables = (parcel.tuples() for parcel in mine)
        pa.concat_tables((table for _, table in in_order(mine)) if shared else tables)
    return sum(batch.nbytes for batch in batches)


FOLDS = {"seen": Count(), "total": Sum("n"), "most": Max("n")}


def _on_spark(rows: int, batches: int) -> list[Result]:
    """Measure whole batches of three consumers on Spark."""
    # Workers do not find this file by its name.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = local_session(2, memory="2g")
    jobs = {"distinct": _apart(tell_apart=True), "shared": _apart(tell_apart=False)}
    fold = Together(FOLDS)
    jobs["one"] = _source().then("all", key="key", parallelism=2, apply=fold)
    quiet = Settings(keep_output=False)
    results = []
    for name, wide in (("narrow", False), ("wide", True)):
        runs: dict[str, Run] = {
            rival: SparkEngine(checkpoint=tempfile.mkdtemp(), spark=spark, settings=quiet).run(
                job, []
            )
            for rival, job in jobs.items()
        }
        seconds: dict[str, list[float]] = {rival: [] for rival in jobs}
        shipping: dict[str, list[float]] = {rival: [] for rival in jobs}
        for batch in range(WARM + batches):
            turn = batch % len(runs)
            for rival in [*runs][turn:] + [*runs][:turn]:
                start = time.perf_counter()
                runs[rival].execute(_rows(spark, rows // (4 if wide else 1), wide=wide))
                if batch >= WARM:
                    seconds[rival].append(time.perf_counter() - start)
                    instances = runs[rival].batches[-1].instances
                    shipping[rival].append(sum(one.shipping for one in instances))
        whole = {rival: statistics.median(taken) for rival, taken in seconds.items()}
        sent = {rival: statistics.median(taken) for rival, taken in shipping.items()}
        sizes = {
            rival: sum(edge.bytes for edge in of.batches[-1].edges.values())
            for rival, of in runs.items()
        }
        results += [
            Result(
                name=f"Spark, {name} rows, 3 consumers alike: batch, distinct against shared",
                measured=whole["distinct"] / whole["shared"],
                unit="x",
                goal=0.9,
            ),
            Result(
                name=f"  {name} rows: CPU for routing and packing",
                measured=sent["distinct"] / sent["shared"],
                unit="x",
                goal=1.3,
            ),
            Result(
                name=f"  {name} rows: bytes",
                measured=sizes["distinct"] / sizes["shared"],
                unit="x",
            ),
            Result(
                name=f"  {name} rows: batch, distinct against one operator with all folds",
                measured=whole["distinct"] / whole["one"],
                unit="x",
            ),
            Result(
                name=f"  {name} rows: its bytes",
                measured=sizes["distinct"] / sizes["one"],
                unit="x",
            ),
        ]
    return results


def _source() -> Topology:
    return Topology.source("in", parallelism=2)


def _apart(*, tell_apart: bool) -> Topology:
    """Return a job of three consumers; told apart by how many key groups they have, if at all."""
    job = _source()
    for number, (name, fold) in enumerate(FOLDS.items()):
        groups = 128 - number if tell_apart else 128
        job = job.then(name, key="key", after="in", parallelism=2, key_groups=groups, apply=fold)
    return job


def _rows(spark: SparkSession, rows: int, *, wide: bool) -> DataFrame:
    numbers = spark.range(0, rows, 1, 2)
    scattered = functions.col("id") * functions.lit(2_654_435_761) % 1_000
    key = functions.concat(functions.lit("#tag-"), scattered) if wide else scattered
    columns = [key.alias("key"), functions.col("id").alias("n")]
    if wide:
        columns += [(functions.col("id") * n).alias(f"number-{n}") for n in range(8)]
        text = functions.md5(scattered.cast("string"))
        columns += [functions.concat(text, text).alias(f"text-{n}") for n in range(2)]
    return numbers.select(*columns)
