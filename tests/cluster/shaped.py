"""Batches on hosts behind links of limited speed: the hosts, and what is measured of a batch."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from network import DRIVER, Network, network
from pyspark.sql import DataFrame, SparkSession
from stage_metrics import group_metrics
from standalone import session_on, standalone

from optimizers.spark.engine import Run
from optimizers.topology import EdgeName

WORKERS = (1, 2, 3)  # by their number as hosts; the master is on 0
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Variables by which the C library keeps what was freed, in Java and Python.

Given back to Linux after each batch and asked for again, memory takes a quarter of all the CPU time
of a batch, on two cores for a whole cluster.
"""

_ATTEMPTS = 10


@dataclass(frozen=True)
class Batch:
    """What was measured of a batch.

    Attributes:
        variant: under what it ran.
        seconds: from the call to its end, with all that the driver does.
        stages: the seconds of the longest task of each stage, the source's first.
        waited: how long tasks of each stage waited for remote bytes, at most.
        remote: bytes that each stage fetched from other hosts, as Spark counts them.
        crossed: bytes that came to the hosts over their links, as the kernel counts them.
        local: the share of tuples that stayed on their host, on the edges that were asked for.
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

    def check(self) -> None:
        """Refuse a batch that says nothing of links.

        Raises:
            RuntimeError: bytes have not gone the way they were to go.
        """
        if self.crossed < sum(self.remote) or not self.placed:
            raise RuntimeError(f"bytes did not cross the links, or tasks ran elsewhere: {self}")


@contextmanager
def shaped_hosts(*, compress: bool = False, give_back: bool = False) -> Iterator["ShapedHosts"]:
    """Yield three hosts with a session on them.

    Spark does not compress what it shuffles unless told to: for random bytes it takes time in vain
    that hosts of a cluster have to spare, and two cores for all of them have not.

    Args:
        compress: whether Spark compresses what it shuffles.
        give_back: whether executors give freed memory back.
    """
    settings = {
        "spark_driver_host": DRIVER,
        "spark_driver_bindAddress": DRIVER,
        "spark_executor_memory": "1500m",
        "spark_shuffle_compress": str(compress).lower(),
    }
    if not give_back:
        os.environ.update(KEEP_MEMORY)  # workers and executors inherit it
    with tempfile.TemporaryDirectory() as place, network(1 + len(WORKERS)) as net:
        folder = Path(place)
        cluster = standalone(
            folder=folder, memory="2g", master=net.hosts[0], hosts=[net.hosts[n] for n in WORKERS]
        )
        with cluster as url, session_on(url, len(WORKERS), **settings) as session:
            yield ShapedHosts(session, net, folder)


@dataclass(frozen=True)
class ShapedHosts:
    """Three hosts with a link each.

    Attributes:
        session: on the hosts.
        net: what is between them.
        folder: for checkpoints.
    """

    session: SparkSession
    net: Network
    folder: Path

    def limit(self, rate: float) -> None:
        """Hold links to a number of megabits a second; 0 for as fast as they go."""
        self.net.shape(WORKERS, rate or None)

    @property
    def speed(self) -> float:
        """How many megabits a second get through from one host to another."""
        return self.net.speed(WORKERS[0], WORKERS[1])

    def measure(self, name: str, run: Run, tuples: DataFrame, edges: Sequence[EdgeName]) -> Batch:
        """Run a batch, and return what was measured of it.

        Args:
            name: of the variant.
            run: of the job.
            tuples: of the batch.
            edges: of which the local share is wanted.
        """
        group = f"{name} {time.monotonic_ns()}"
        self.session.sparkContext.setJobGroup(group, "one batch")
        before = sum(map(self.net.received, WORKERS))
        started = time.perf_counter()
        run.execute(tuples)
        seconds = time.perf_counter() - started
        crossed = sum(map(self.net.received, WORKERS)) - before
        layout = run.layout
        stages = group_metrics(self.session, group)
        stages = stages[-len(layout.stages) :]  # a new plan makes anchors first
        return Batch(
            name,
            seconds,
            tuple(max(task.seconds for task in stage.tasks) for stage in stages),
            tuple(max(task.waited for task in stage.tasks) for stage in stages),
            tuple(stage.remote for stage in stages),
            crossed,
            run.batches[-1].locality(edges),
            all(
                task.host == layout.node_of(instance)
                for stage, instances in zip(stages[1:], layout.stages[1:], strict=True)
                for task, instance in zip(stage.tasks, instances, strict=True)
            ),
        )

    @contextmanager
    def kept(self, made: DataFrame) -> Iterator[DataFrame]:
        """Keep rows in memory, one partition on each host: two would have to share a link.

        Raises:
            RuntimeError: Spark did not come to that.
        """
        try:
            for attempt in range(_ATTEMPTS):
                group = f"spread {time.monotonic_ns()} {attempt}"
                self.session.sparkContext.setJobGroup(group, "tuples to memory")
                made.persist().count()
                tasks = group_metrics(self.session, group)[0].tasks
                if len({task.host for task in tasks}) == len(WORKERS):
                    break
                made.unpersist(blocking=True)
            else:
                raise RuntimeError(
                    "partitions are not on a host each; run it again when this machine is idle"
                )
            yield made
        finally:
            made.unpersist(blocking=True)

    def forget(self) -> None:
        """Let Spark forget what it has shuffled, which it does once Java has lost it."""
        self.session._jvm.System.gc()  # noqa: SLF001
