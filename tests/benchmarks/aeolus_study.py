"""What docs/results/aeolus.md is about, measured part by part."""

import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from aeolus_grid import spark_grid
from aeolus_held_out import held_out
from aeolus_rates import spark_rates
from aeolus_spark import spark
from aeolus_topologies import Job, linear_road, sentiment
from aeolus_waves import waves
from page import Json

from batching.calibration import nonnegative_least_squares
from batching.dataflow import Dataflow
from batching.planner import plan_tuples
from batching.planner_published import plan_as_published
from batching.tuple_costs import Shipping
from optimizers import Cluster, Plan, Topology
from optimizers.calibration import Calibration
from optimizers.cli import main
from optimizers.control.settings import Asking
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings
from optimizers.simulation import Network, SimulationEngine, Stream, Work
from optimizers.strategies.fixed import Fixed


def planning(scale: float) -> Json:
    """Time planners on a dataflow of 2,000 operators."""
    operators = max(20, int(2000 * scale))
    random = np.random.default_rng(7)
    names = [f"o{place}" for place in range(operators)]
    edges = [
        (names[producer], names[consumer])
        for consumer in range(1, operators)
        for producer in sorted({*random.integers(0, consumer, random.integers(1, 3)).tolist()})
    ]
    fed = {consumer for _, consumer in edges}
    settings: dict[str, Any] = {
        "seconds": random.uniform(0, 1e-3, operators),
        "rates": [0.0 if name in fed else 1_000.0 for name in names],
        "selectivity": random.uniform(0.0, 0.9, len(edges)),
        "sizes": random.integers(10, 500, len(edges)),
        "hottest": 0.0,
    }
    flow = Dataflow.of(names, edges, **settings)
    shipping = Shipping(1e-4, 1e-8)
    workers = operators + 5
    found = {
        "build": _cpu(lambda: Dataflow.of(names, edges, **settings)),
        "plan": _cpu(lambda: plan_tuples(flow, shipping)),
        "capped": _cpu(lambda: plan_tuples(flow, shipping, workers=workers, throttle=True)),
        "published": _cpu(lambda: plan_as_published(flow, shipping)),
    }
    return {"operators": operators, "edges": len(edges), "ms": found}


def _cpu(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(9):
        started = time.process_time()
        run()
        taken.append(1000 * (time.process_time() - started))
    return median(taken)


def shipping(scale: float) -> Json:
    """Measure what a parcel and a byte cost the senders of the in-process runner."""
    counted, seconds, rows = [], [], []
    for width, batch in itertools.product((1, 20), (1, 10, 100, 1000)):
        count = int(min(20_000, 400 * batch) * max(scale, 0.1))
        table = pa.table({f"c{n}": np.arange(count) for n in range(width)})
        parcels, size, taken = _shipped(table, batch)
        counted.append([parcels, size])
        seconds.append(taken)
        rows.append([width * 8, batch, taken / count * 1e6])
    message, byte = nonnegative_least_squares(
        np.array(counted) / np.array(seconds)[:, None], np.ones(len(seconds))
    ).tolist()
    expected = np.array(counted) @ (message, byte)
    error = float(np.mean(np.abs(expected / np.array(seconds) - 1)))
    return {"message_us": message * 1e6, "byte_ns": byte * 1e9, "error": error, "rows": rows}


def _shipped(table: pa.Table, batch: int) -> tuple[float, float, float]:
    job = Topology.source("s").then("a", parallelism=2)
    with TemporaryDirectory() as folder:
        checkpoint = Checkpoint.create_or_open(Location(folder), job, seed=0)
        coordinator = Coordinator(
            job,
            Cluster.uniform(1),
            Fixed(Plan(batch={"s": batch})),
            checkpoint,
            asking=Asking(),
            settings=Settings(keep_output=False),
        )
        best = (1.0, 1.0, float("inf"))
        for _ in range(4):
            assignment = coordinator.assign()
            reports = run_batch(assignment.work, assignment.ticket, {"s": [table.to_batches()]})
            summary = coordinator.commit(assignment, reports, 1.0)
            edge = summary.edges["s", "a"]
            taken = sum(each.shipping for each in summary.instances if each.operator == "s")
            if taken < best[2]:
                best = (len(table) / batch, edge.bytes, taken)
    return best


def topologies(scale: float) -> Json:
    """Run both topologies of the paper in its four configurations, in the simulation."""
    measured = shipping(0.3)
    costs = Shipping(measured["message_us"] / 1e6, measured["byte_ns"] / 1e9)
    found = {}
    for name, job, workers in (
        ("Linear Road", linear_road(int(20_000 * scale)), 96),
        ("Sentiment Analysis", sentiment(int(4_000 * scale)), 96),
    ):
        found[name] = _configurations(job, costs, workers)
    return {"message_us": measured["message_us"], "byte_ns": measured["byte_ns"], "jobs": found}


def _configurations(job: Job, costs: Shipping, workers: int) -> Json:
    flow = job.flow(np.inf)
    plan = plan_tuples(flow, costs, workers=workers, throttle=True)
    instances = dict(zip(flow.names, plan.instances.tolist(), strict=True))
    batches = dict(zip(flow.names, plan.batches.tolist(), strict=True))
    ones = dict.fromkeys(flow.names, 1)
    runs = {
        "optimised": (instances, batches),
        "not optimised": (ones, ones),
        "no batching": (instances, ones),
        "only batching": (ones, batches),
    }
    outcomes = {name: _simulated(job, costs, *run) for name, run in runs.items()}
    return {
        "ppt_us": {name: 1e6 * seconds for name, seconds in job.seconds.items()},
        "dop": instances,
        "batch": batches,
        "scale": plan.scale,
        "runs": outcomes,
    }


def _simulated(
    job: Job, costs: Shipping, instances: dict[str, int], batches: dict[str, int]
) -> Json:
    count = len(next(iter(job.columns.values())))
    emits = {name: partial(_one_of, every) for name, every in job.every.items()}
    work = {name: Work(seconds, emits=emits.get(name, 1)) for name, seconds in job.seconds.items()}
    engine = SimulationEngine(
        network=Network(per_batch=costs.message, per_byte=costs.byte),
        cluster=Cluster.uniform(12),
        cores=math.inf,  # as the cost model of tuples has it: each instance works at any time
    )
    stream = Stream(np.zeros(count), job.columns, bytes=job.bytes)
    plan = Plan(
        parallelism={name: number for name, number in instances.items() if name != job.names[0]},
        batch=batches,
    )
    run = engine.run(job.topology(), stream, plan, work=work)
    ended = np.sort(np.concatenate([times.ended for times in run.operators.values()]))
    last = float(ended[-1])
    times = [last * part / 8 for part in range(1, 9)]
    emitted = np.searchsorted(ended, times, side="right").tolist()
    return {"uptime": last, "emitted": emitted, "times": times}


def _one_of(every: int, columns: Any) -> Any:
    rows = np.arange(len(next(iter(columns.values()))))
    return (rows % every == 0).astype(np.int64)


def grid(scale: float) -> Json:
    """Compare the chosen configuration with a whole grid, at a source as fast as it can be."""
    costs, workers = Shipping(2e-4, 1e-8), 9
    job = Job(
        ("s", "parse", "agg"),
        (("s", "parse", None), ("parse", "agg", ("k",))),
        {"s": 0.0, "parse": 3e-4, "agg": 1e-4},
        {},
        80.0,
        {"k": np.arange(int(8_000 * max(scale, 0.2))) % 997},
    )
    # Batches of at most 51 tuples: with larger ones the end of so short a stream would count.
    plan = plan_tuples(job.flow(np.inf), costs, workers=workers, throttle=True, batch_bytes=51 * 80)
    ours = [*plan.instances[1:].tolist(), *plan.batches[:2].tolist()]
    found = [
        [*point, _point(job, costs, point)]
        for point in itertools.product(range(2, 8), range(1, 5), (1, 4, 16, 51), (1, 4, 16, 51))
        if 1 + point[0] + point[1] <= workers
    ]
    mine = _point(job, costs, ours)
    best = min(found, key=lambda row: row[4])
    worst = max(row[4] for row in found)
    return {"points": len(found), "ours": [*ours, mine], "best": best, "worst": worst}


def _point(job: Job, costs: Shipping, point: Sequence[int]) -> float:
    """Return how long a job takes with these instances of both operators, and these batches."""
    instances = {"s": 1, "parse": point[0], "agg": point[1]}
    batches = {"s": point[2], "parse": point[3], "agg": 1}
    return float(_simulated(job, costs, instances, batches)["uptime"])


def calibration(scale: float) -> Json:
    """Measure the constants of a batch in this process, as `penstock calibrate` does."""
    rounds = max(1, round(3 * scale))
    with TemporaryDirectory() as folder:
        path = f"{folder}/found.json"
        main(["calibrate", "--on", "in-process", "--rounds", str(rounds), "--json", path])
        found = Calibration.load(path)
    return json.loads(found.to_json())


MEASURED = {
    "planning": planning,
    "shipping": shipping,
    "topologies": topologies,
    "grid": grid,
    "waves": waves,
    "calibration": calibration,
    "held-out": held_out,
    "spark": spark,
    "spark-grid": spark_grid,
    "spark-rates": spark_rates,
}
