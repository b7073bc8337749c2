"""`penstock calibrate`: measures the cost of a micro-batch here, as constants for planning."""

import argparse
import os
import platform
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from optimizers.calibrating import LocalBench, calibrated
from optimizers.calibration import Calibration
from optimizers.cluster import Cluster
from optimizers.control.summary import BatchSummary
from optimizers.spark.command_session import quiet_session
from optimizers.spark.cores import slots_of
from optimizers.spark.engine import SparkEngine
from optimizers.topology import Topology
from sketches.checks import whole

if TYPE_CHECKING:
    from optimizers.spark.run import Run

_MEANING = {
    "base": "seconds for a batch",
    "stage": "seconds for a stage",
    "task": "seconds of a core for a task",
    "work": "seconds for a second of measured work",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add(
        "--on",
        choices=("spark", "in-process"),
        default="spark",
        help="between what rows are sent (default: spark)",
    )
    add("--rounds", type=int, default=3, help="how often all is measured (default: 3)")
    add("--cores", type=int, help="how many cores Spark uses (default: all)")
    add("--json", type=Path, metavar="FILE", help="write the constants to a file")


def run(options: argparse.Namespace) -> int:
    """Measure, print the result, and return the exit code."""
    rounds = whole("rounds", options.rounds, at_least=1)
    console = Console()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    with TemporaryDirectory(prefix="penstock-calibrate-") as folder:
        if options.on == "in-process":
            found = calibrated("in-process", machine, 1, partial(LocalBench, folder), rounds=rounds)
        else:
            cores = "*" if options.cores is None else whole("cores", options.cores, at_least=1)
            with quiet_session(cores) as session:
                where = f"Spark {session.version} on {session.sparkContext.master}, {machine}"
                bench = partial(SparkBench, session, folder)
                found = calibrated("spark", where, slots_of(session), bench, rounds=rounds)
    show(found, console)
    if options.json is not None:
        options.json.write_text(found.to_json(), encoding="utf-8")
        console.print(f"Written to {options.json}.", highlight=False, soft_wrap=True)
    return 0


class SparkBench:
    """A job that runs on Spark."""

    def __init__(self, session: Any, folder: str, topology: Topology) -> None:
        instances = topology.operator("rows").parallelism
        checkpoint = f"{folder}/{len(topology.operators)}-{instances}"
        engine = SparkEngine(
            checkpoint=checkpoint, spark=session, cluster=Cluster.uniform(instances)
        )
        self._session, self._instances = session, instances
        self._run: Run = engine.run(topology, [])

    def measure(self, rows: pa.Table) -> BatchSummary:
        """Run a batch."""
        size = max(1, -(-len(rows) // self._instances))
        parts = [rows.slice(start, size) for start in range(0, len(rows), size)]
        self._run.execute(self._session.createDataFrame(pa.concat_tables(parts)))
        return self._run.batches[-1]


def show(found: Calibration, console: Console) -> None:
    """Print the constants, their range and their error."""
    fit = found.fit
    table = Table("constant", "is", "what it is", "measured where it counts")
    rows = zip(fit.names, fit.constants, fit.lowest, fit.highest, strict=True)
    for name, constant, low, high in rows:
        table.add_row(name, f"{constant:.4g}", _MEANING[name], f"{low:.3g} to {high:.3g}")
    console.print(f"{found.where}: {found.batches} batches, {found.cores} tasks at a time")
    console.print(table)
    console.print(
        f"Settings that were left out are off by {fit.error:.1%} on average, {fit.worst:.1%} at "
        f"most; batches of one setting differ by {found.spread:.1%}.",
        highlight=False,
        soft_wrap=True,
    )
