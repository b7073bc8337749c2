"""Batches on Spark under `Albic`, with each stage balanced, and with the sum of stages balanced.

Two keyed operators with equal work run one after the other on two cores. `Albic` decides by the
loads it observes, in one run for each stage and in the other for their sum; then batches of the two
runs alternate. Every tuple takes the same CPU time.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))

import numpy as np
import pyarrow as pa
from beginning import Beginning
from page import Json, table
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from optimizers import Albic, Cluster, Deployment, Operator, Plan, Topology
from optimizers.deployment import default_groups
from optimizers.folds import EachKey, Emit
from optimizers.runtime.work import Settings
from optimizers.spark import SparkEngine
from optimizers.spark.command_session import command_session
from optimizers.spark.engine import Run

ROWS, KEYS, GROUPS = 20_000, 500, 64
TUPLE = 50e-6  # CPU seconds
DECIDING, BATCHES = 4, 8
_NEVER = 1e9  # shares of the traffic for each share of the state
COLUMN = {"first": "k", "second": "l"}
NODES = ("node-0", "node-1")
VARIANTS = {"each stage": True, "the sum": False}


@dataclass(frozen=True)
class Work:
    """Takes CPU time for each tuple, and keeps a text for each key.

    Attributes:
        letters: the length of the text.
    """

    letters: int

    def __call__(self, key: tuple[Any, ...], rows: pa.Table, state: str | None) -> str:
        """Work through the tuples of a key."""
        until = time.process_time() + TUPLE * len(rows)
        while time.process_time() < until:
            pass
        return state or "x" * self.letters


@dataclass(frozen=True)
class Scenario:
    """A job, and where its key groups are at first.

    Attributes:
        letters: the length of the text that each operator keeps for a key.
        alone: whether all key groups are on one node at first.
        skew: the exponent of the keys' frequencies; 0 for equal ones.
    """

    letters: Mapping[str, int]
    alone: bool
    skew: float = 0.0

    def job(self) -> Topology:
        """Return the job."""
        found = Topology.source("in", parallelism=2)
        for name, column in COLUMN.items():
            emit = Emit.TUPLES if name == "first" else Emit.NOTHING
            fold = EachKey(Work(self.letters[name]), pa.string(), emit=emit)
            found = found.then(Operator(name, column, 2, fold, key_groups=GROUPS))
        return found

    def start(self, job: Topology) -> Plan:
        """Return where key groups are at first."""
        homes = {
            name: (0,) * GROUPS if self.alone else default_groups(job.operator(name))
            for name in COLUMN
        }
        return Plan(placement={name: Deployment(NODES, home) for name, home in homes.items()})

    def tuples(self, rows: int) -> pa.Table:
        """Return the tuples of all batches."""
        random = np.random.default_rng(1)
        chances = 1.0 / np.arange(1, KEYS + 1) ** self.skew
        columns = {
            name: random.permutation(KEYS)[random.choice(KEYS, rows, p=chances / chances.sum())]
            for name in COLUMN.values()
        }
        return pa.table(columns)


SCENARIOS = {
    "a second node comes, equal state": Scenario({"first": 200, "second": 200}, alone=True),
    "a second node comes, the second operator has a tenth of the state": Scenario(
        {"first": 2_000, "second": 200}, alone=True
    ),
    "skewed keys, dealt by hash": Scenario({"first": 200, "second": 200}, alone=False, skew=1.0),
}


def stages(scale: float) -> Json:
    """Measure alternating batches with each stage balanced, and with the sum balanced."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    rows, batches = max(500, int(ROWS * scale)), max(2, int(BATCHES * scale))
    with command_session(2) as session:
        return {
            name: _measured(session, scenario, rows, batches)
            for name, scenario in SCENARIOS.items()
        }


def _measured(session: SparkSession, scenario: Scenario, rows: int, batches: int) -> Json:
    job, tuples = scenario.job(), scenario.tuples(rows)
    frame = session.createDataFrame(tuples).repartition(2).persist()
    frame.count()
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    makespans: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with TemporaryDirectory() as folder:
        runs = {
            name: _run(session, f"{folder}/{number}", job, scenario.start(job), by_stage=by_stage)
            for number, (name, by_stage) in enumerate(VARIANTS.items())
        }
        for turn in range(DECIDING + batches):
            for name in list(runs)[:: 1 if turn % 2 else -1]:
                started = time.perf_counter()
                runs[name].execute(frame)
                if turn >= DECIDING:
                    seconds[name].append(time.perf_counter() - started)
                    makespans[name].append(runs[name].batches[-1].makespan or 0.0)
        found = {
            name: {
                "seconds": seconds[name],
                "makespan": makespans[name],
                "imbalance": {op: _imbalance(run, op) for op in COLUMN},
                "sum": _of_nodes(run),
                "moved in": sorted({said.after for said in run.decisions if said.applied}),
            }
            for name, run in runs.items()
        }
    frame.unpersist()
    sys.stdout.write(f"{_line(found)}\n")
    return found


def _run(session: SparkSession, folder: str, job: Topology, start: Plan, *, by_stage: bool) -> Run:
    # Without collocation, which would spread both operators over both nodes as well.
    strategy = Albic(
        budget="100 %", max_load_distance=0.05, resource="cpu", by_stage=by_stage, worth=_NEVER
    )
    engine = SparkEngine(
        checkpoint=folder,
        spark=session,
        cluster=Cluster.uniform(len(NODES)),
        every=1,
        seed=7,
        settings=Settings(keep_output=False),
    )
    return engine.run(job, [], Beginning(start, strategy))


def _imbalance(run: Run, operator: str) -> float:
    """Return the CPU time of the busiest instance in the last batch, relative to the average."""
    mine = [one.seconds for one in run.batches[-1].instances if one.operator == operator]
    return max(mine) * len(mine) / sum(mine)


def _of_nodes(run: Run) -> float:
    """Return the CPU time of the busiest node in the last batch, relative to the average."""
    held = dict.fromkeys(NODES, 0.0)
    for one in run.batches[-1].instances:
        held[one.node] += one.seconds if one.operator in COLUMN else 0.0
    return max(held.values()) * len(held) / sum(held.values())


def ratio(found: Json, fact: str = "seconds") -> float:
    """Return the time of a batch with the sum balanced, relative to each stage balanced."""
    each, whole = (median(found[name][fact]) for name in VARIANTS)
    return float(whole / each)


def _line(found: Json) -> str:
    told = ", ".join(f"{name} {median(found[name]['seconds']):.2f} s" for name in VARIANTS)
    return f"{told}: {ratio(found):.2f}, of CPU time {ratio(found, 'makespan'):.2f}"


def _stages(data: Json) -> str:
    rows = []
    for scenario, found in data.items():
        cells = [f"{median(found[name]['seconds']):.2f}" for name in VARIANTS]
        for name in VARIANTS:
            told = found[name]
            both = " and ".join(f"{told['imbalance'][op]:.2f}" for op in COLUMN)
            cells.append(f"{both}; {told['sum']:.2f}")
        rows.append(
            [scenario, *cells, f"{ratio(found, 'makespan'):.2f}", f"**{ratio(found):.2f}**"]
        )
    head = ["", *(f"{name}: s" for name in VARIANTS)]
    head += [f"{name}: busiest of each stage; of both" for name in VARIANTS]
    return table([*head, "times as fast, by CPU time", "by the clock"], rows)


SPARK_TABLES: dict[str, tuple[str, Callable[[Json], str]]] = {"stages": ("stages", _stages)}
