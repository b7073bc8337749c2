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

Paddings are random, and Spark is told not to compress what it shuffles; executors keep memory that
they have freed (see `shaped`).
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from shaped import WORKERS, Batch, ShapedHosts, shaped_hosts

from grouping.groupings import RoutingTable, WorstCase
from optimizers import Fixed, Locality, Optimizer, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine
from optimizers.spark.engine import Run

KEYS = 300
LEARNING = 14  # batches; the optimizer is asked after ten, and batches go on while it thinks
LEARNED_FROM = 4_000  # bytes of padding; Java gets its methods compiled by them, too
VARIANTS = ("hash", "locality", "worst")
A_TO_B = ("first", "second")


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
    """The three routings of one job.

    Args:
        hosts: where it runs.
    """

    def __init__(self, hosts: ShapedHosts) -> None:
        self.hosts = hosts
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
        return self.hosts.measure(name, self.runs[name], tuples, [A_TO_B])

    def _run(self, name: str, optimizer: Optimizer | None) -> Run:
        job = Topology.source("in", parallelism=len(WORKERS))
        job = job.then("first", key="left", parallelism=len(WORKERS), apply=Count(emit=Emit.TUPLES))
        job = job.then("second", key="right", parallelism=len(WORKERS), apply=Count())
        checkpoint = str(self.hosts.folder / name)
        settings = Settings(keep_output=False)
        engine = SparkEngine(
            checkpoint=checkpoint, spark=self.hosts.session, meanwhile=True, settings=settings
        )
        return engine.run(job, [], optimizer)


_OPTIMIZERS: dict[str, Optimizer | None] = {"hash": None, "locality": Locality()}


def main(arguments: list[str] | None = None) -> int:
    """Measure all that was asked for, and print and keep it."""
    options = _options(arguments)
    figures = []
    with shaped_hosts(compress=options.compress, give_back=options.give_back) as hosts:
        experiment = Experiment(hosts)
        with _tuples(hosts, options, LEARNED_FROM) as (tuples, _):
            experiment.learn(tuples)
        print(_HEAD, flush=True)
        for padding in options.paddings:
            with _tuples(hosts, options, padding) as (tuples, rows):
                for rate in options.rates:
                    hosts.limit(rate)
                    batches = _batches(experiment, tuples, options.batches)
                    figure = _figure(hosts, rate, padding, rows, batches)
                    figures.append(figure)
                    print(_line(figure), flush=True)
                    _keep(options, figures)
    return 0


@contextmanager
def _tuples(
    hosts: ShapedHosts, options: argparse.Namespace, padding: int
) -> Iterator[tuple[DataFrame, int]]:
    """Yield tuples, a third of them in the memory of each host, and how many they are."""
    rows = int(min(options.rows, options.megabytes * 1e6 // (padding + 16)))
    # What Spark handles at once is to be of a few megabytes, whatever the padding.
    at_once = str(max(100, min(10_000, 4_000_000 // (padding + 16))))
    hosts.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", at_once)
    hosts.session.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", at_once)
    made = hosts.session.range(0, rows, 1, len(WORKERS)).mapInArrow(
        Tuples(padding, options.together), "left long, right long, body binary"
    )
    with hosts.kept(made) as tuples:
        yield tuples, rows


def _batches(experiment: Experiment, tuples: DataFrame, batches: int) -> list[Batch]:
    """Return a number of batches of each routing, which take turns; one more of each warms up."""
    found = []
    for turn in range(batches + 1):
        for place in range(len(VARIANTS)):
            batch = experiment.measure(VARIANTS[(turn + place) % len(VARIANTS)], tuples)
            if turn:
                found.append(batch)
        experiment.hosts.forget()
    return found


def _figure(
    hosts: ShapedHosts, rate: float, padding: int, rows: int, batches: list[Batch]
) -> dict[str, Any]:
    """Sum up one setting by medians over its batches."""
    by_variant = {name: [batch for batch in batches if batch.variant == name] for name in VARIANTS}
    for batch in batches:
        batch.check()
    end = {name: _median(b.seconds for b in got) for name, got in by_variant.items()}
    hop = {name: _median(b.stages[-1] for b in got) for name, got in by_variant.items()}
    return {
        "rate": rate,
        "link": hosts.speed,
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
