"""A keyed stream whose hosts leave, come and are given back: ``python tests/cluster/machines.py``.

A standalone cluster on loopback addresses. One worker is killed in the middle of a batch, another
joins; then the plan wants a node less, which Spark gives back, and one more, which Spark brings.
After each batch it is told where the plan has instances and where Spark has run them. It fails if
they are elsewhere than the plan says, a batch after the killed worker; if what counts as local is
not what was local; if a node is given back that has an instance; or if a key is not counted right.
"""

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
from file_stream import FileStream
from standalone import Host, another_worker, session_on, standalone

from optimizers import Optimizer, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.spark import SparkExecutors
from optimizers.spark.engine import Run
from optimizers.spark.executors import HostReader
from optimizers.spark.session import QUICK_START
from sketches.keys import as_keys

KEYS = 3_000
INSTANCES = 3
KILLED, JOINING = "127.0.0.7", "127.0.0.9"
HOP = ("first", "second")
JOB = (
    Topology.source("in", parallelism=INSTANCES)
    .then("first", key="k", parallelism=INSTANCES, apply=Count(emit=Emit.TUPLES))
    .then("second", key="l", parallelism=INSTANCES, apply=Count())
)
WANTED = {3: 2, 5: 3}
"""After which batches the optimizer wants how many nodes."""


_SETTINGS = {
    "spark_task_maxFailures": "8",
    "spark_driver_extraJavaOptions": QUICK_START,
    "spark_executor_extraJavaOptions": QUICK_START,
}


class Wanting(Optimizer):
    """Wants other numbers of nodes after some batches; it is asked after each."""

    def plan(self, topology, cluster, statistics, current) -> Plan:
        if not statistics or statistics.epoch not in WANTED:
            return Plan()
        return Plan(nodes=WANTED[statistics.epoch])


class Story:
    """The stream, and what is wrong with it so far.

    Args:
        session: the session.
        folder: for its input and its checkpoint.
    """

    def __init__(self, session, folder: Path) -> None:
        self.read = HostReader(session)
        self.failures: list[str] = []
        self.files = FileStream(
            session, folder, JOB, "k long, l long", Wanting(), provisioner=SparkExecutors()
        )

    @property
    def run(self) -> Run:
        """What has happened so far."""
        return self.files.run

    @property
    def hosts(self) -> set[str]:
        """Where executors run."""
        return self.files.hosts

    def batch(self, *, disturbed: bool = False) -> None:
        """Have one batch come in and wait until it is done, and look at what came of it.

        Args:
            disturbed: whether a host leaves meanwhile, so that tasks may run anywhere.
        """
        keys = np.arange(KEYS)
        self.files.put(pa.table({"k": keys, "l": keys}))
        number = self.files.await_batch()
        ran, wanted = self.files.ran()[1:], self.files.placed()[1:]
        _say(f"batch {number}: executors on {sorted(self.hosts)}\n  ran {ran}, placed {wanted}")
        for said in self.run.decisions:
            if said.after == number and (said.of_machines or said.applied):
                _say(f"  {said}")
        self._judge(number, ran if not disturbed else None, wanted)

    def _judge(self, number: int, ran: list[list[str]] | None, wanted: list[list[str]]) -> None:
        run = self.run
        for name in HOP:
            counts = run.state(name).column("count").to_pylist()
            if counts != [number + 1] * KEYS:
                self.failures.append(f"batch {number}: {name} counts {set(counts)}")
        named = {host for stage in wanted for host in stage}
        if not named <= self.hosts:
            self.failures.append(f"after batch {number} the plan names hosts that left: {wanted}")
        if ran is None:
            return
        if ran != wanted:
            self.failures.append(f"batch {number} ran {ran}, and the plan says {wanted}")
        places = [
            np.array(hosts)[run.layout.owners(name).assign(as_keys(np.arange(KEYS)))]
            for name, hosts in zip(HOP, ran, strict=True)
        ]
        local = int((places[0] == places[1]).sum())
        if run.batches[-1].edges[HOP].local != local:
            told = run.batches[-1].edges[HOP].local
            self.failures.append(f"batch {number}: {told} tuples count as local, {local} were")


def main() -> int:
    """Tell the story, and return 1 if anything in it is wrong."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        url = stack.enter_context(standalone(2, folder=folder))
        third = ExitStack()
        third.enter_context(another_worker(url, Host(KILLED), folder=folder))
        session = stack.enter_context(session_on(url, INSTANCES, **_SETTINGS))
        story = Story(session, folder)
        # 1. A worker is killed while tasks run; the next batch runs as the plan says.
        story.batch()
        threading.Timer(0.3, third.close).start()
        story.batch(disturbed=True)
        third.close()
        story.files.await_hosts(2)
        story.batch()
        # 2. Another joins, and gets its share with the next batch.
        stack.enter_context(another_worker(url, Host(JOINING), folder=folder))
        before = story.files.await_hosts(3)
        story.batch()  # 3, after which two nodes are wanted
        run = story.run
        if JOINING not in _used(run):
            story.failures.append(f"nothing runs on {JOINING}, which has joined")
        # 3. One is left with the next batch, and given back once that is done.
        story.batch()
        after = story.files.await_hosts(2)
        _say(f"given back: {sorted(before - after)}")
        story.batch()  # 5, after which three are wanted
        if len(story.hosts) != 2:
            story.failures.append(f"executors came that no plan wants: {sorted(story.hosts)}")
        # 4. One more is asked for at the end of the next, and used as soon as it is there.
        story.batch()
        story.files.await_hosts(3)
        story.batch()
        if _used(run) != story.hosts:
            story.failures.append(f"instances are on {_used(run)}, executors on {story.hosts}")
        totals = run.totals
        if (totals.provisioned, totals.refused) != (2, 0):
            story.failures.append(f"nodes were asked for or given back as in {totals}")
        story.files.stream.stop()
        started = time.perf_counter()
        for _ in range(100):
            story.read()
        _say(
            f"to look which executors are there takes {(time.perf_counter() - started) * 10:.2f} ms"
        )
    _say("\n".join(story.failures) or "all is as it should be")
    return bool(story.failures)


def _used(run) -> set[str]:
    return {name for home in run.layout.homes.values() for name in home.nodes}


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
