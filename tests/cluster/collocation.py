"""What `Albic` saves on links of limited speed. Needs root, and some minutes.

    python tests/cluster/collocation.py

The workload `airline` on three hosts, an instance of each operator on each: delays by airplane,
their sums by airplane, sums by route. Key groups are scattered at first, as the paper's are, so
that two tuples of three cross a link on each edge. Each flight carries random bytes. Two variants
take turns batch by batch, on the same flights:

scattered:  groups stay where they are.
albic:      `Albic` is asked after every fifth batch, while batches go on. It brings groups that
            send each other much together, under its budget; the batches that are measured come
            when it leaves all as it is.

At the end both variants have to have the same sums, and no group may have moved while batches were
measured.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))

import numpy as np
import pyarrow as pa
from beginning import Beginning
from pyspark.sql import DataFrame
from shaped import WORKERS, Batch, ShapedHosts, shaped_hosts

from optimizers import Albic, Deployment, Operator, Plan, Topology
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine
from optimizers.spark.engine import Run
from optimizers.workloads import workload

VARIANTS = {"scattered": None, "albic": Albic(budget="20 %")}
EDGES = (("delays", "by_plane"), ("by_plane", "by_route"))
GROUPS = 96
EVERY = 5
MOST_LEARNING = 60  # batches, after which it is an error if groups still move
RESTED = 4 * EVERY  # batches without a move


@dataclass(frozen=True)
class Tickets:
    """Adds random bytes to flights."""

    padding: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(self.padding)
        for batch in batches:
            rows = len(batch)
            ends = np.arange(rows + 1, dtype=np.int32) * self.padding
            data = [None, pa.py_buffer(ends), pa.py_buffer(random.bytes(rows * self.padding))]
            body = pa.BinaryArray.from_buffers(pa.binary(), rows, data)
            yield batch.append_column("ticket", body)


def job() -> Topology:
    """Return the job, with an instance of each operator on each host."""
    found = Topology.source("flights", parallelism=len(WORKERS))
    for old in workload("airline").topology.operators:
        if old.keyed:
            new = Operator(old.name, old.key, len(WORKERS), old.apply, key_groups=GROUPS)
            found = found.then(new)
    return found


def scattered(hosts: list[str]) -> Plan:
    """Return a plan with as many groups of each operator on each host, at random."""
    drawn = np.random.default_rng(5)
    dealt = np.arange(GROUPS) % len(hosts)
    return Plan(
        placement={
            operator.name: Deployment(tuple(hosts), tuple(drawn.permutation(dealt).tolist()))
            for operator in job().operators
            if operator.keyed
        }
    )


class Experiment:
    """The job under both variants.

    Args:
        hosts: where it runs.
    """

    def __init__(self, hosts: ShapedHosts) -> None:
        self.hosts = hosts
        self._measured_from = 0
        start = scattered([hosts.net.hosts[number].address for number in WORKERS])
        self.runs = {
            name: self._run(name, Beginning(start, strategy)) for name, strategy in VARIANTS.items()
        }

    def measure(self, name: str, tuples: DataFrame) -> Batch:
        """Run a batch under one variant."""
        return self.hosts.measure(name, self.runs[name], tuples, EDGES)

    def learn(self, tuples: DataFrame) -> int:
        """Let groups come together, and return after how many batches they rest.

        Raises:
            RuntimeError: they do not.
        """
        run = self.runs["albic"]
        for number in range(MOST_LEARNING):
            for name in self.runs:
                self.measure(name, tuples)
            last = max((said.after for said in run.decisions if said.applied), default=-1)
            if number >= max(last, 0) + RESTED:
                self._measured_from = number + 1
                return last + 1
        raise RuntimeError(f"groups still move after {MOST_LEARNING} batches: {run.decisions[-1]}")

    def check(self) -> None:
        """Compare the results of both, and where groups were.

        Raises:
            RuntimeError: the results differ, or groups moved while batches were measured.
        """
        run = self.runs["albic"]
        for said in run.decisions:
            print(said, flush=True)
        moving = [
            batch.batch
            for batch in run.batches
            if batch.changed and batch.batch >= self._measured_from
        ]
        if moving:
            raise RuntimeError(f"groups moved with batches {moving}, which were measured")
        sums = [
            {
                name: sorted(map(tuple, run.state(name).to_pandas().itertuples(index=False)))
                for name in ("by_plane", "by_route")
            }
            for run in self.runs.values()
        ]
        if sums[0] != sums[1]:
            raise RuntimeError("the sums of both variants differ")

    def _run(self, name: str, optimizer: Beginning) -> Run:
        engine = SparkEngine(
            checkpoint=str(self.hosts.folder / name),
            spark=self.hosts.session,
            every=EVERY,
            meanwhile=True,
            settings=Settings(keep_output=False),
        )
        return engine.run(job(), [], optimizer)


def main(arguments: list[str] | None = None) -> int:
    """Measure batches at each speed of the links, print a table and keep all."""
    options = _options(arguments)
    figures = []
    with shaped_hosts() as hosts:
        experiment = Experiment(hosts)
        with _flights(hosts, options.rows, 0) as flights:
            rested = experiment.learn(flights)
        print(f"groups rest after {rested} batches\n\n{_HEAD}", flush=True)
        with _flights(hosts, options.rows, options.padding) as flights:
            for rate in options.rates:
                hosts.limit(rate)
                figure = _figure(hosts, rate, _batches(experiment, flights, options.batches))
                figures.append(figure)
                print(_line(figure), flush=True)
        experiment.check()
    if options.out is not None:
        found = {"rested": rested, "padding": options.padding, "rows": options.rows}
        options.out.write_text(json.dumps({**found, "figures": figures}, indent=1))
    return 0


@contextmanager
def _flights(hosts: ShapedHosts, rows: int, padding: int) -> Iterator[DataFrame]:
    """Yield flights with their tickets, a third of them in the memory of each host."""
    batches = workload("airline").stream(rows / 10_000, 0)
    table = next(iter(batches))["flights"].slice(0, rows)
    at_once = str(max(100, min(10_000, 4_000_000 // (padding + 30))))
    hosts.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", at_once)
    hosts.session.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", at_once)
    schema = "plane string, route string, delay long, ticket binary"
    made = hosts.session.createDataFrame(table).mapInArrow(Tickets(padding), schema)
    with hosts.kept(made) as flights:
        yield flights


def _batches(experiment: Experiment, flights: DataFrame, count: int) -> list[Batch]:
    """Return a number of batches of each variant, which take turns; one more of each warms up."""
    found = []
    for turn in range(count + 1):
        for name in list(VARIANTS)[:: 1 if turn % 2 else -1]:
            batch = experiment.measure(name, flights)
            batch.check()
            if turn:
                found.append(batch)
        experiment.hosts.forget()
    return found


def _figure(hosts: ShapedHosts, rate: float, batches: list[Batch]) -> dict[str, Any]:
    """Sum up the batches at one speed of the links by medians."""
    mine = {name: [batch for batch in batches if batch.variant == name] for name in VARIANTS}
    return {
        "rate": rate,
        "link": hosts.speed,
        "seconds": {name: median(b.seconds for b in mine[name]) for name in VARIANTS},
        "remote": {name: median(sum(b.remote) for b in mine[name]) for name in VARIANTS},
        "edge": {name: median(b.remote[2] for b in mine[name]) for name in VARIANTS},
        "local": {name: median(b.local for b in mine[name]) for name in VARIANTS},
        "batches": [asdict(batch) for batch in batches],
    }


_HEAD = """\
| link, Mbit/s | local, scattered | local, Albic | remote MB, scattered | Albic \
| of these delays to by_plane | Albic | s a batch, scattered | Albic | times as fast |
| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |"""


def _line(figure: dict[str, Any]) -> str:
    """Return a speed of the links as a line of the table."""
    cells = ["as fast as it goes" if not figure["rate"] else f"{figure['link']:.0f}"]
    cells += [f"{figure['local'][name]:.2f}" for name in VARIANTS]
    cells += [f"{figure[fact][name] / 1e6:.1f}" for fact in ("remote", "edge") for name in VARIANTS]
    seconds = [figure["seconds"][name] for name in VARIANTS]
    cells += [f"{one:.2f}" for one in seconds]
    return f"| {' | '.join(cells)} | **{seconds[0] / seconds[1]:.2f}** |"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--rates", type=float, nargs="+", default=[0, 1000, 200], help="Mbit/s; 0 for no limit")
    add("--padding", type=int, default=4_000, help="bytes of each flight's ticket")
    add("--rows", type=int, default=20_000, help="of a batch")
    add("--batches", type=int, default=7, help="of each variant, at each speed")
    add("--out", type=Path, help="a file for all that was measured")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
