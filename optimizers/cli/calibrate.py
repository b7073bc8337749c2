"""`penstock calibrate`: measures the cost of a micro-batch here, as constants for planning."""

import argparse
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from optimizers.calibration import Calibration
from optimizers.cli.calibration_jobs import Bench, LocalBench, calibrated
from optimizers.cli.writable import check_writable
from optimizers.cluster import Cluster
from optimizers.control.summary import BatchSummary
from optimizers.spark.command_session import command_session
from optimizers.spark.cores import slots_of
from optimizers.spark.engine import SparkEngine
from optimizers.topology import Topology
from sketches.checks import whole

if TYPE_CHECKING:
    from optimizers.spark.run import Run

_UNSURE = 0.25  # of an error, or of what batches of one setting differ by

_MEANING = {
    "base": "seconds for a batch",
    "stage": "seconds for a stage",
    "task": "seconds of a core for a task",
    "work": "seconds for a second of measured work",
    "row": "seconds of a core for a row that comes in",
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
    cores = "*" if options.cores is None else whole("cores", options.cores, at_least=1)
    check_writable(options.json)
    console = Console()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    with TemporaryDirectory(prefix="penstock-calibrate-") as folder, _progress() as bar:
        task = bar.add_task("Measuring", total=None)

        def watch(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        if options.on == "in-process":
            bench: Callable[[Topology], Bench] = partial(LocalBench, folder)
            found = calibrated("in-process", machine, 1, bench, rounds=rounds, watch=watch)
        else:
            with command_session(cores) as session:
                where = f"Spark {session.version} on {session.sparkContext.master}, {machine}"
                bench = partial(SparkBench, session, folder)
                slots = slots_of(session)
                found = calibrated("spark", where, slots, bench, rounds=rounds, watch=watch)
    show(found, console)
    if options.json is not None:
        options.json.write_text(found.to_json(), encoding="utf-8")
        console.print(f"Written to {options.json}.", highlight=False, soft_wrap=True)
    return 0


def _progress() -> Progress:
    """Return a bar on the error stream, where that is a terminal."""
    errors = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("batches, left:"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


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
    if max(fit.error, found.spread) > _UNSURE:
        console.print(
            "That is much: measure again while this machine does nothing else, or plans are worth "
            "as little.",
            highlight=False,
            soft_wrap=True,
        )
