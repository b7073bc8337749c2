"""A job whose hosts leave and come while it runs: ``python tests/cluster/machines.py``.

A standalone cluster of loopback addresses. One worker is killed in the middle of a batch's work and
another, on an address of its own, joins later. After each batch it is told which hosts executors
run on, where the plan has the instances, where they ran, and whether the state is right.
"""

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from stage_metrics import group_metrics
from standalone import Host, another_worker, session_on, standalone

from optimizers import Optimizer, Plan, Topology
from optimizers.deployment import Deployment, default_groups
from optimizers.folds import Count, Emit
from optimizers.spark import SparkEngine
from optimizers.spark.engine import Run
from optimizers.spark.executors import HostReader

KEYS = 3_000
INSTANCES = 3
PATIENCE = 90.0


class PlacedOnce(Optimizer):
    """Names a node for each instance of "second" before the first batch, in its own order."""

    def plan(self, topology, cluster, statistics, current) -> Plan:
        if statistics:
            return Plan()
        homes = [node.name for node in cluster.nodes][::-1]
        groups = default_groups(topology.operator("second"))
        return Plan(placement={"second": Deployment(tuple(homes), groups)})


def main() -> int:
    """Run the job, and return 1 if its state is wrong or instances are not where the plan says."""
    failures = []
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        url = stack.enter_context(standalone(2, folder=folder))
        third = ExitStack()
        third.enter_context(another_worker(url, Host("127.0.0.7"), folder=folder))
        session = stack.enter_context(session_on(url, INSTANCES, spark_task_maxFailures="8"))
        job = Topology.source("in", parallelism=INSTANCES)
        job = job.then("first", key="k", parallelism=INSTANCES, apply=Count(emit=Emit.TUPLES))
        job = job.then("second", key="l", parallelism=INSTANCES, apply=Count())
        engine = SparkEngine(checkpoint=str(folder / "job"), spark=session, every=2)
        run = engine.run(job, [], PlacedOnce())
        keys = list(range(KEYS))
        rows = session.createDataFrame(pa.table({"k": keys, "l": keys})).repartition(INSTANCES)
        for batch in range(10):
            if batch == 3:
                threading.Timer(0.2, third.close).start()  # while tasks run
            if batch == 6:
                fourth = another_worker(url, Host("127.0.0.9"), folder=folder)
                stack.enter_context(fourth)
                _await(session, "127.0.0.9")
            session.sparkContext.setJobGroup(f"batch {batch}", "one batch")
            run.execute(rows)
            failures += _tell(session, run, batch)
            if batch == 3:
                third.close()
    _say("\n".join(failures) or "all is as it should be")
    return bool(failures)


def _tell(session, run: Run, batch: int) -> list[str]:
    hosts = sorted(HostReader(session)())
    stages = group_metrics(session, f"batch {batch}")[-len(run.layout.stages) :]
    ran = [[task.host for task in stage.tasks] for stage in stages[1:]]
    wanted = [[run.layout.node_of(i) for i in stage] for stage in run.layout.stages[1:]]
    counts = set(run.state("second").column("count").to_pylist())
    _say(f"batch {batch}: executors on {hosts}\n  ran on {ran}\n  from now on {wanted}")
    for said in run.decisions[-2:]:
        if said.fits and said.after == batch:
            _say(f"  {said}")
    failures = [] if counts == {batch + 1} else [f"batch {batch}: counts {counts}"]
    if batch in {5, 9} and not {host for stage in wanted for host in stage} <= set(hosts):
        failures.append(f"after batch {batch} the plan names hosts that are gone: {wanted}")
    if batch == 9 and ran != wanted:
        failures.append(f"batch {batch}: instances ran elsewhere than the plan says")
    return failures


def _await(session, host: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while host not in HostReader(session)():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no executor came to {host}")
        time.sleep(0.2)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
