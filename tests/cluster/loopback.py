"""Remote bytes by hash, and by locality: ``python tests/cluster/loopback.py``.

A standalone cluster of three workers on loopback addresses, two keyed operators of three instances
each, tuples whose keys go together in nine of ten. What Spark itself counts as read from
other hosts is compared with what the engine says has crossed nodes.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from stage_metrics import StageMetrics, group_metrics
from standalone import session_on, standalone

from optimizers import Locality, Optimizer, Topology
from optimizers.folds import Count, Emit
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine
from optimizers.spark.engine import Run

BATCHES = 6


def main(arguments: list[str] | None = None) -> int:
    """Run hash and locality in turn, and print what crossed hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--padding", type=int, default=200)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with standalone(3, folder=folder) as url, session_on(url, 3) as session:
            print(f"{'':10} {'local':>6} {'remote MB':>10} {'of Spark':>10}  placed")
            for name, optimizer in (("hash", None), ("locality", Locality(worth=0))):
                _measure(session, folder / name, name, optimizer, options)
    return 0


def _measure(session, folder, name: str, optimizer: Optimizer | None, options) -> None:
    job = Topology.source("in", parallelism=3)
    job = job.then("first", key="left", parallelism=3, apply=Count(emit=Emit.TUPLES))
    job = job.then("second", key="right", parallelism=3, apply=Count())
    settings = Settings(keep_output=False)
    engine = SparkEngine(checkpoint=str(folder), spark=session, every=2, settings=settings)
    run = engine.run(job, [], optimizer)
    for batch in range(BATCHES):
        rows = session.createDataFrame(_tuples(batch, options.rows, options.padding))
        rows = rows.repartition(3).persist()
        rows.count()
        session.sparkContext.setJobGroup(f"{name} {batch}", "one batch")
        run.execute(rows)
        moved = group_metrics(session, f"{name} {batch}")
        rows.unpersist()
        _tell(name, run, moved)


def _tell(name: str, run: Run, stages: list[StageMetrics]) -> None:
    stages = stages[-len(run.layout.stages) :]  # a new plan makes anchors first
    edge = run.batches[-1].edges["first", "second"]
    remote = edge.bytes * (1 - edge.local / edge.tuples)
    layout = run.layout
    placed = [
        task.host == layout.node_of(instance)
        for stage, instances in zip(stages[1:], layout.stages[1:], strict=True)
        for task, instance in zip(stage.tasks, instances, strict=True)
    ]
    print(
        f"{name:10} {edge.local / edge.tuples:6.3f} {remote / 1e6:10.2f} "
        f"{stages[2].remote / 1e6:10.2f}  {sum(placed)} of {len(placed)}"
    )


def _tuples(batch: int, rows: int, padding: int) -> pd.DataFrame:
    random = np.random.default_rng(batch)
    left = random.integers(0, 300, rows)
    partner = (left * 37 + 11) % 300
    right = np.where(random.random(rows) < 0.9, partner, random.integers(0, 300, rows))
    body = random.bytes(padding // 2).hex()
    return pd.DataFrame({"left": left, "right": right, "body": body})


if __name__ == "__main__":
    sys.exit(main())
