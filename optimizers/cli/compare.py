"""`penstock compare`: a workload under several strategies, side by side."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from optimizers.cli.variants import DEFAULT, variants_of
from optimizers.cli.writable import check_writable
from optimizers.comparing import ComparedBatch, Comparison, compare
from optimizers.control.engine import Engine
from optimizers.errors import InvalidValueError
from optimizers.workloads import Workload, workload
from sketches.checks import whole

_WARM_UP = 2


@contextmanager
def _on_spark(options: argparse.Namespace, _: Workload) -> Iterator[Engine]:
    """Begin a session, and return the engine in it, in a folder that is removed afterwards."""
    # A simulation needs no Spark, and is not to wait for it.
    from optimizers.spark.command_session import command_session  # noqa: PLC0415
    from optimizers.spark.engine import SparkEngine  # noqa: PLC0415

    cores = "*" if options.cores is None else options.cores
    with (
        TemporaryDirectory(prefix="penstock-compare-") as own,
        command_session(cores, options.master) as session,
    ):
        folder = own if options.checkpoint is None else options.checkpoint
        yield SparkEngine(checkpoint=folder, spark=session, every=options.every)


@contextmanager
def _simulated(options: argparse.Namespace, chosen: Workload) -> Iterator[Engine]:
    yield chosen.simulation(every=options.every, rate=options.rate, seed=options.seed)


_ENGINES: dict[str, Callable[[argparse.Namespace, Workload], AbstractContextManager[Engine]]] = {
    "spark": _on_spark,
    "simulation": _simulated,
}


def _check_engine(options: argparse.Namespace) -> None:
    """Refuse options that mean nothing to the chosen engine."""
    if options.cores is not None:
        whole("cores", options.cores, at_least=1)
        if options.engine == "simulation":
            raise InvalidValueError(
                f"cores={options.cores} means nothing to a simulation, where no instance is in "
                "another's way; leave it out, or take --engine spark"
            )
    if (options.master is None) is not (options.checkpoint is None):
        raise InvalidValueError(
            f"master={options.master!r} and checkpoint={options.checkpoint!r}: a cluster needs an "
            "empty folder that all its machines share; give both or neither"
        )
    if options.master is not None and (options.engine == "simulation" or options.cores is not None):
        raise InvalidValueError(
            f"master={options.master!r} means nothing to a simulation, and takes the cores that "
            "there are; leave it out, or --engine and --cores"
        )
    if options.rate is not None and options.engine == "spark":
        raise InvalidValueError(
            f"rate={options.rate} means nothing on Spark, where a batch comes when the one before "
            "is done; leave it out, or take --engine simulation"
        )


class Output(Console):
    """A console that leaves a closed pipe to the command."""

    def on_broken_pipe(self) -> None:
        """Let the error through, where Rich would end the process."""
        raise BrokenPipeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add(
        "workload",
        nargs="?",
        default="trending",
        help="on which data: a name, or the module:function of your own (default: trending)",
    )
    add(
        "--with",
        dest="variants",
        action="append",
        metavar="VARIANT",
        help="a strategy (see `penstock strategies`), or the module:Class of your own, as in "
        "'locality(worth=0)' with settings, or NAME=STRATEGY+STRATEGY; the first is what others "
        f"are measured against (default: {', '.join(DEFAULT)})",
    )
    add(
        "--engine",
        choices=list(_ENGINES),
        default="spark",
        help="where it is run: on Spark on this machine, where results are checked; or simulated "
        "on as many machines as there are instances, which tells how long tuples take (default: "
        "spark)",
    )
    add("--batches", type=int, default=12, help="how many micro-batches (default: 12)")
    add("--every", type=int, default=3, help="batches between decisions (default: 3)")
    add("--scale", type=float, default=1.0, help="how large the workload is (default: 1)")
    add("--seed", type=int, default=0, help="of the workload (default: 0)")
    add("--cores", type=int, help="how many cores Spark uses (default: all)")
    add(
        "--master",
        metavar="URL",
        help="of the cluster on whose hosts Spark runs it, such as spark://host:7077 (default: "
        "this machine, with virtual nodes)",
    )
    add(
        "--checkpoint",
        metavar="FOLDER",
        help="an empty folder on storage that the machines of --master share",
    )
    add(
        "--rate",
        type=float,
        help="how many tuples a second come in at each source of a simulation (default: as the "
        "workload says)",
    )
    add("--json", type=Path, metavar="FILE", help="write all figures to a file")


def run(options: argparse.Namespace) -> int:
    """Compare, print the result, and return the exit code: 1 if results are wrong."""
    console, errors = Output(), Output(stderr=True)
    asked = [options.workload, *(options.variants or ())]
    if any(":" in each for each in asked) and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # where a module of the user's is
    chosen = workload(options.workload)
    variants = variants_of(options.variants or DEFAULT)
    whole("batches", options.batches, at_least=_WARM_UP + 1)
    whole("every", options.every, at_least=1)
    _check_engine(options)
    stream = chosen.batches(options.batches, scale=options.scale, seed=options.seed)
    check_writable(options.json)
    console.print(f"{chosen.name}: {chosen.about}.", highlight=False, soft_wrap=True)
    steps = options.batches * (len(variants) + 1)
    with (
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        ) as progress,
    ):
        shown = progress.add_task(f"starting {options.engine}", total=steps)

        def watch(step: ComparedBatch) -> None:
            words = f"batch {step.batch}, {step.variant or 'sequential run'}"
            progress.update(shown, advance=1, description=words)

        with _ENGINES[options.engine](options, chosen) as engine:
            comparison = compare(
                chosen.topology,
                stream,
                variants,
                engine=engine,
                warm_up=_WARM_UP,
                title=f"{chosen.name}, scale {options.scale:g}, seed {options.seed}",
                watch=watch,
            )
    show(comparison, console)
    if options.json is not None:
        options.json.write_text(comparison.to_json(), encoding="utf-8")
        console.print(f"Written to {options.json}.", highlight=False, soft_wrap=True)
    return 0 if comparison.correct else 1


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison: in colour on a terminal, else as plain text."""
    nodes = f"{comparison.nodes} nodes"
    if comparison.hosts:
        nodes += f", of them hosts: {', '.join(comparison.hosts)}"
    console.print(f"{comparison.where}, {nodes}", highlight=False, soft_wrap=True)
    console.print()
    if console.is_terminal:
        console.print(_coloured(comparison))
    else:
        console.print(comparison.table(), highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(
        comparison.summary(), highlight=False, markup=False, soft_wrap=not console.is_terminal
    )


def _coloured(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for outcome in comparison.variants:
        table.add_column(Text(outcome.name), justify="right", no_wrap=True)
    for section in comparison.sections():
        table.add_row(Text(section.title, style="bold"))
        for line in section.lines:
            cells = [
                Text(cell, style="bold green" if best else "")
                for cell, best in zip(line.cells, line.best, strict=True)
            ]
            table.add_row(Text(f"  {line.label}"), *cells)
    return table
