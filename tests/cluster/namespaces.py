"""Throughput by hash, locality and worst case, on links of limited speed. Needs root, half an hour.

    python tests/cluster/namespaces.py --out results

The experiment of section 4.2 of "Locality-aware routing in stateful streaming applications"
(Caneill et al., Middleware 2016): tuples of two keys and a padding, counted by the first key, then
by the second, on three hosts with an instance of each operator. In nine tuples of ten the keys go
together. Three routings take turns batch by batch, on the same tuples:

hash:      what engines do by default.
locality:  `Locality` at work; it has decided before anything is measured, and goes on observing,
           and deciding every ten batches, while batches go on.
worst:     its tables for the first operator, and for the second the instance on the next host.

Paddings are random, and Spark is told not to compress what it shuffles: on two cores for a whole
cluster its vain attempts would take time that hosts of a cluster have to spare. For the same reason
executors keep memory that they have freed (`KEEP_MEMORY`): given back to Linux after each batch and
asked for again, it takes a quarter of all the CPU time of a batch.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from network import DRIVER, Network, network
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from stage_metrics import group_metrics
from standalone import session_on, standalone

from grouping.groupings import RoutingTable, WorstCase
from optimizers import Fixed, Locality, Optimizer, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine
from optimizers.spark.engine import Run

WORKERS = (1, 2, 3)  # by their number as hosts; the master is on 0
KEYS = 300
LEARNING = 14  # batches; the optimizer is asked after ten, and batches go on while it thinks
LEARNED_FROM = 4_000  # bytes of padding; Java gets its methods compiled by them, too
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Variables by which the C library keeps what was freed, in Java and Python."""

_ATTEMPTS = 10
VARIANTS = ("hash", "locality", "worst")
A_TO_B = ("first", "second")


@dataclass(frozen=True)
class Batch:
    """What was measured of a batch.

    Attributes:
        variant: how it was routed.
        seconds: from the call to its end, with all that the driver does.
        stages: the seconds of the longest task of each stage: source, A and B.
        waited: how long tasks of each stage waited for remote bytes, at most.
        remote: bytes that each stage fetched from other hosts, as Spark counts them.
        crossed: bytes that came to the hosts over their links, as the kernel counts them.
        local: the share of tuples that stayed on their host between A and B.
        placed: whether all instances were where the plan says.
    """

    variant: str
    seconds: float
    stages: tuple[float, ...]
    waited: tuple[float, ...]
    remote: tuple[int, ...]
    crossed: int
    local: float
    placed: bool


@dataclass(frozen=True)
class Tuples:
    """Makes one partition of tuples: two keys that mostly go together, and a body."""

    padding: int
    together: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        random = np.random.default_rng([self.padding, context.partitionId()])
        for batch in batches:
            rows = len(batch)
            left = random.integers(0, KEYS, rows)
            other = random.integers(0, KEYS, rows)
            right = np.where(random.random(rows) < self.together, (left * 37 + 11) % KEYS, other)
            ends = np.arange(rows + 1, dtype=np.int32) * self.padding
            data = [None, pa.py_buffer(ends), pa.py_buffer(random.bytes(rows * self.padding))]
            body = pa.BinaryArray.from_buffers(pa.binary(), rows, data)
            yield pa.RecordBatch.from_arrays(
                [pa.array(left), pa.array(right), body], ["left", "right", "body"]
            )


class Experiment:
    """The three routings of one job, in one session.

    Args:
        session: on the hosts.
        net: what is between them.
        folder: for checkpoints.
    """

    def __init__(self, session: SparkSession, net: Network, folder: Path) -> None:
        self._session, self._net, self._folder = session, net, folder
        self._batches = 0
        self.runs = {name: self._run(name, optimizer) for name, optimizer in _OPTIMIZERS.items()}

    def learn(self, tuples: DataFrame) -> None:
        """Let locality decide, warm up, and find the worst case of what was decided."""
        for _ in range(LEARNING):
            for name in self.runs:
                self.measure(name, tuples)
        layout = self.runs["locality"].layout
        first, second = (layout.owners(name) for name in A_TO_B)
        if first.table is None or second.table is None:
            raise TypeError(f"locality has not decided: {self.runs['locality'].decisions}")
        first, second = (
            RoutingTable(owners.table.keys, owners.assign(owners.table.keys), len(WORKERS))
            for owners in (first, second)
        )
        worst = Plan(routing={"first": first, "second": WorstCase(second)})
        self.runs["worst"] = self._run("worst", Fixed(worst))

    def measure(self, name: str, tuples: DataFrame) -> Batch:
        """Run a batch under one routing."""
        self._batches += 1
        group = f"{name} {self._batches}"
        run = self.runs[name]
        self._session.sparkContext.setJobGroup(group, "one batch")
        before = sum(map(self._net.received, WORKERS))
        started = time.perf_counter()
        run.execute(tuples)
        seconds = time.perf_counter() - started
        crossed = sum(map(self._net.received, WORKERS)) - before
        layout = run.layout
        stages = group_metrics(self._session, group)
        stages = stages[-len(layout.stages) :]  # a new plan makes anchors first
        edge = run.batches[-1].edges[A_TO_B]
        return Batch(
            name,
            seconds,
            tuple(max(task.seconds for task in stage.tasks) for stage in stages),
            tuple(max(task.waited for task in stage.tasks) for stage in stages),
            tuple(stage.remote for stage in stages),
            crossed,
            edge.local / edge.tuples,
            all(
                task.host == layout.node_of(instance)
                for stage, instances in zip(stages[1:], layout.stages[1:], strict=True)
                for task, instance in zip(stage.tasks, instances, strict=True)
            ),
        )

    def tidy(self) -> None:
        """Let Spark forget what it has shuffled, which it does once Java has lost it."""
        self._session._jvm.System.gc()  # noqa: SLF001

    def _run(self, name: str, optimizer: Optimizer | None) -> Run:
        job = Topology.source("in", parallelism=len(WORKERS))
        job = job.then("first", key="left", parallelism=len(WORKERS), apply=Count(emit=Emit.TUPLES))
        job = job.then("second", key="right", parallelism=len(WORKERS), apply=Count())
        checkpoint = str(self._folder / name)
        settings = Settings(keep_output=False)
        engine = SparkEngine(
            checkpoint=checkpoint, spark=self._session, meanwhile=True, settings=settings
        )
        return engine.run(job, [], optimizer)


_OPTIMIZERS: dict[str, Optimizer | None] = {"hash": None, "locality": Locality()}


def main(arguments: list[str] | None = None) -> int:
    """Measure all that was asked for, and print and keep it."""
    options = _options(arguments)
    settings = {
        "spark_driver_host": DRIVER,
        "spark_driver_bindAddress": DRIVER,
        "spark_executor_memory": "1500m",
        "spark_shuffle_compress": str(options.compress).lower(),
    }
    if not options.give_back:
        os.environ.update(KEEP_MEMORY)  # workers and executors inherit it
    figures = []
    with tempfile.TemporaryDirectory() as place, network(1 + len(WORKERS)) as net:
        folder = Path(place)
        cluster = standalone(
            folder=folder, memory="2g", master=net.hosts[0], hosts=[net.hosts[n] for n in WORKERS]
        )
        with cluster as url, session_on(url, len(WORKERS), **settings) as session:
            experiment = Experiment(session, net, folder)
            with _tuples(session, options, LEARNED_FROM) as (tuples, _):
                experiment.learn(tuples)
            print(_HEAD, flush=True)
            for padding in options.paddings:
                with _tuples(session, options, padding) as (tuples, rows):
                    for rate in options.rates:
                        net.shape(WORKERS, rate or None)
                        measured = _measured(experiment, tuples, options.batches)
                        figure = _figure(net, rate, padding, rows, measured)
                        figures.append(figure)
                        print(_line(figure), flush=True)
                        _keep(options, figures)
    return 0


@contextmanager
def _tuples(
    session: SparkSession, options: argparse.Namespace, padding: int
) -> Iterator[tuple[DataFrame, int]]:
    """Yield tuples, a third of them in the memory of each host, and how many they are."""
    rows = int(min(options.rows, options.megabytes * 1e6 // (padding + 16)))
    # What Spark handles at once is to be of a few megabytes, whatever the padding.
    at_once = str(max(100, min(10_000, 4_000_000 // (padding + 16))))
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", at_once)
    session.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", at_once)
    made = session.range(0, rows, 1, len(WORKERS)).mapInArrow(
        Tuples(padding, options.together), "left long, right long, body binary"
    )
    try:
        _spread(session, made)
        yield made, rows
    finally:
        made.unpersist(blocking=True)


def _spread(session: SparkSession, made: DataFrame) -> None:
    """Keep rows in memory, one partition on each host: two would have to share a link.

    Raises:
        RuntimeError: Spark did not come to that.
    """
    for attempt in range(_ATTEMPTS):
        group = f"spread {time.monotonic_ns()} {attempt}"
        session.sparkContext.setJobGroup(group, "tuples to memory")
        made.persist().count()
        if len({task.host for task in group_metrics(session, group)[0].tasks}) == len(WORKERS):
            return
        made.unpersist(blocking=True)
    raise RuntimeError("partitions are not on a host each; run it again when this machine is idle")


def _measured(experiment: Experiment, tuples: DataFrame, batches: int) -> list[Batch]:
    """Return a number of batches of each routing, which take turns; one more of each warms up."""
    found = []
    for turn in range(batches + 1):
        for place in range(len(VARIANTS)):
            batch = experiment.measure(VARIANTS[(turn + place) % len(VARIANTS)], tuples)
            if turn:
                found.append(batch)
        experiment.tidy()
    return found


def _figure(
    net: Network, rate: float, padding: int, rows: int, batches: list[Batch]
) -> dict[str, Any]:
    """Sum up one setting by medians over its batches.

    Raises:
        RuntimeError: bytes have not gone the way they were to go, so that nothing was measured.
    """
    by_variant = {name: [batch for batch in batches if batch.variant == name] for name in VARIANTS}
    for batch in batches:
        if batch.crossed < sum(batch.remote) or not batch.placed:
            raise RuntimeError(f"bytes did not cross the links, or tasks ran elsewhere: {batch}")
    end = {name: _median(b.seconds for b in got) for name, got in by_variant.items()}
    hop = {name: _median(b.stages[-1] for b in got) for name, got in by_variant.items()}
    return {
        "rate": rate,
        "link": net.speed(WORKERS[0], WORKERS[1]),
        "padding": padding,
        "rows": rows,
        "rows a second": {name: rows / seconds for name, seconds in end.items()},
        "hop seconds": hop,
        "megabytes of the hop": {
            name: _median(b.remote[-1] for b in got) / 1e6 for name, got in by_variant.items()
        },
        "local": {name: _median(b.local for b in got) for name, got in by_variant.items()},
        "hop": {name: hop[name] / hop["locality"] for name in ("hash", "worst")},
        "end": {name: end[name] / end["locality"] for name in ("hash", "worst")},
        "batches": [asdict(batch) for batch in batches],
    }


_HEAD = """\
| link, Mbit/s | padding | tuples a batch | hash, tuples/s | locality | worst case \
| A to B, MB by hash | by locality | A to B: times as fast as hash | as worst case \
| end to end: times as fast as hash | as worst case |
| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |"""


def _line(figure: dict[str, Any]) -> str:
    """Return a setting as a line of the table."""
    rates = figure["rows a second"]
    cells = [
        "as fast as it goes" if not figure["rate"] else f"{figure['link']:.0f}",
        f"{figure['padding'] / 1e3:g} kB",
        f"{figure['rows']:,}",
        *(f"{rates[name]:,.0f}" for name in VARIANTS),
        *(f"{figure['megabytes of the hop'][name]:.1f}" for name in ("hash", "locality")),
        *(f"{figure[part][name]:.2f}" for part in ("hop", "end") for name in ("hash", "worst")),
    ]
    return f"| {' | '.join(cells)} |"


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def _keep(options: argparse.Namespace, figures: list[dict[str, Any]]) -> None:
    """Write what is there so far."""
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        asked = {**vars(options), "out": str(options.out)}
        document = {"options": asked, "keys": KEYS, "workers": len(WORKERS), "figures": figures}
        (options.out / "namespaces.json").write_text(json.dumps(document, indent=1))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--rates", type=float, nargs="+", default=[0, 1000, 200], help="Mbit/s; 0 for no limit")
    add("--paddings", type=int, nargs="+", default=[0, 4_000, 12_000, 20_000], help="bytes")
    add("--rows", type=int, default=100_000, help="of a batch, at most")
    add("--megabytes", type=float, default=120.0, help="of a batch, at most")
    add("--batches", type=int, default=7, help="of each routing, in each setting")
    add("--together", type=float, default=0.9, help="the share of tuples whose keys go together")
    add("--compress", action="store_true", help="let Spark compress what it shuffles")
    add("--give-back", action="store_true", help="let executors give freed memory back")
    add("--out", type=Path, help="a folder for namespaces.json, with all that was measured")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
