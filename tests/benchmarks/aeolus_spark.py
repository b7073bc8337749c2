"""What Aeolus does to jobs on Spark: eight stateless operators, and a keyed job."""

import sys
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from page import Json

from optimizers import Cluster, Plan, Topology, compare
from optimizers.optimizer import Optimizer
from optimizers.spark.command_session import command_session
from optimizers.spark.cores import slots_of
from optimizers.spark.engine import SparkEngine
from optimizers.strategies.aeolus import Aeolus
from optimizers.strategies.fixed import Fixed


def spark(scale: float) -> Json:
    """Run jobs as declared, with many tasks, by Algorithm 1 and by Aeolus, side by side."""
    stateless = Topology.source("s", parallelism=2)
    for number in range(8):
        stateless = stateless.then(f"step-{number}", parallelism=2)
    keyed = (
        Topology.source("s", parallelism=2)
        .then("clean", parallelism=2)
        .then("count", key="k", parallelism=2)
        .then("score", parallelism=2)
        .then("total", key="l", parallelism=2)
    )
    found = {}
    for name, job in (("eight stateless operators", stateless), ("a keyed job", keyed)):
        widest = {op.name: 8 for op in job.operators if op.name != "s"}
        variants: dict[str, Optimizer | None] = {
            "as declared": None,
            "8 tasks a stage": Fixed(Plan(parallelism=widest)),
            "published": Aeolus.published(),
            "Aeolus": Aeolus(),
        }
        found[name] = _compared(job, variants, max(6, int(12 * scale)))
    return found


def _compared(job: Topology, variants: dict[str, Optimizer | None], batches: int) -> Json:
    tables = [_table(number) for number in range(batches)]
    with command_session("*") as session, TemporaryDirectory() as folder:
        engine = SparkEngine(
            checkpoint=folder, spark=session, every=2, cluster=Cluster.uniform(slots_of(session))
        )
        result = compare(job, tables, variants, engine=engine, warm_up=2)
    seconds = {
        outcome.name: median(batch.seconds for batch in outcome.batches[-batches // 2 :])
        for outcome in result.variants
    }
    sys.stdout.write(f"{result}\n")
    told = [decision.text for decision in result["Aeolus"].decisions if decision.applied]
    return {"seconds": seconds, "correct": result.correct, "rows": len(tables[0]), "told": told}


def _table(number: int) -> pa.Table:
    random = np.random.default_rng(number)
    return pa.table({"k": random.integers(0, 500, 20_000), "l": random.integers(0, 90, 20_000)})
