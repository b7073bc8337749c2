"""`penstock state`: what a checkpoint holds, and the state of an operator as a table."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from optimizers.comparing.metrics import size_text
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.log.inspection import InstanceState
from optimizers.runtime.log.live_drivers import Driver
from optimizers.runtime.log.origins import Progress
from optimizers.runtime.storage.location import Location
from sketches.checks import whole

_WIDEST = 40  # characters of a cell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("folder", help="the checkpoint: a path, or a URI")
    add("operator", nargs="?", help="show the state of this operator")
    add("--rows", type=int, default=10, help="how many rows to show (default: 10)")
    add("--compact", action="store_true", help="join the files of each instance into one")
    add("--force", action="store_true", help="compact though a driver may be at work")
    add("--csv", type=Path, metavar="FILE", help="write the operator's state to a file")
    add("--parquet", type=Path, metavar="FILE", help="write the operator's state to a file")


def run(options: argparse.Namespace) -> int:
    """Print what the checkpoint holds, or the state of an operator."""
    for line in lines(options):
        print(line)
    return 0


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Run the command, and yield the lines to print."""
    whole("rows", options.rows, at_least=0)
    if options.operator is None and (options.csv or options.parquet):
        raise InvalidValueError("one operator is written to a file; name it after the folder")
    checkpoint = Checkpoint.open(Location(options.folder))
    if options.force and not options.compact:
        raise InvalidValueError("force=True says how to compact; give --compact as well")
    if options.compact:
        yield _compacted(checkpoint, force=options.force)
    if options.operator is None:
        yield from _overview(checkpoint)
        return
    table = checkpoint.read(options.operator)
    if options.csv is not None:
        _write_csv(table, options.csv)
        yield f"{len(table):,} rows written to {options.csv}"
    if options.parquet is not None:
        _write(options.parquet, lambda path: pq.write_table(table, path))
        yield f"{len(table):,} rows written to {options.parquet}"
    if options.csv is None and options.parquet is None:
        yield from _rows(table, options.rows)


def _compacted(checkpoint: Checkpoint, *, force: bool) -> str:
    """Rewrite state and remove files that are no longer needed; return what was done.

    Raises:
        CheckpointError: a driver may be at work.
    """
    mine = checkpoint.announce(compacts=True)

    def living() -> list[Driver]:
        """Return the drivers that may be at work; refuse them unless they may be stopped."""
        found = [driver for driver in checkpoint.drivers() if driver != mine and driver.may_live]
        if found and not force:
            raise CheckpointError(
                f"{checkpoint.location} may be in use by {found[0]}: its job would be stopped; "
                "stop the job first, or give --force if that driver is gone"
            )
        return found

    try:
        living()
        before = checkpoint.last_commit()
        # A driver may begin while state is rewritten. It announces itself before it looks which
        # files there are: one that announces itself after this look finds the new files.
        after = checkpoint.compact(living)
        beside = [each for each in checkpoint.drivers() if each != mine and each.may_live]
        removed = checkpoint.clean(alone=not beside)
        for driver in checkpoint.drivers():
            if not driver.may_live:
                checkpoint.withdraw(driver)
    finally:
        checkpoint.withdraw(mine)
    kept = ""
    if beside and before != after:
        kept = "; the files that were replaced stay until the next batches are done"
    return f"compacted; {removed} files that are no longer needed were removed{kept}"


def _overview(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the state of each operator, and how evenly it is spread."""
    found = checkpoint.describe()
    if found.commit is None:
        yield f"{checkpoint.location}: no batch is done yet"
        return
    first, last = found.batches[0], found.batches[-1]
    kept = f"batch {last}" if first == last else f"batches {first} to {last}"
    yield f"{checkpoint.location}: {kept}, the last with {found.commit.tuples:,} tuples"
    yield from _inputs(found.commit.progress)
    for driver in checkpoint.drivers():
        if driver.may_live:
            yield f"at work: {driver}"
    yield ""
    by_operator: dict[str, list[InstanceState]] = {}
    for instance in found.instances:
        by_operator.setdefault(instance.operator, []).append(instance)
    head = ("operator", "key", "instances", "rows", "size", "files", "largest")
    rows = [head]
    for name, instances in by_operator.items():
        key = checkpoint.identity.operators[name].key or ()
        sizes = [instance.bytes for instance in instances]
        mean = sum(sizes) / len(sizes)
        rows.append(
            (
                name,
                ", ".join(key),
                str(len(instances)),
                f"{sum(instance.rows for instance in instances):,}",
                size_text(sum(sizes)),
                str(sum(instance.files for instance in instances)),
                f"{max(sizes) / mean:.2f} x mean" if mean else "-",
            )
        )
    yield from _aligned(rows)
    if any(instance.files > 1 for instance in found.instances):
        yield ""
        yield "A key that changed after a file was written has a row in the next one as well."
        yield "--compact writes all of an instance into one file."


def _inputs(progress: Progress) -> Iterator[str]:
    """Yield the inputs of the job."""
    if progress.bounded:
        named = f", the last with a name {progress.names[-1]!r}" if progress.names else ""
        yield f"from {progress.bounded} bounded batches{named}"
    for query, last in progress.streams.items():
        yield f"from {last.number + 1} batches of stream {query}"


def _rows(table: pa.Table, count: int) -> Iterator[str]:
    """Yield the first rows of a table, and how many there are."""
    shown = table.slice(0, count)
    cells = [[_cell(value) for value in column.to_pylist()] for column in shown.columns]
    yield from _aligned([tuple(table.column_names), *zip(*cells, strict=True)])
    yield ""
    yield f"{len(shown):,} of {len(table):,} rows"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def _cell(value: object) -> str:
    """Return a value as one line that is safe to print: a key may hold escapes of a terminal."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _write_csv(table: pa.Table, path: Path) -> None:
    for field in table.schema:
        if field.type.num_fields:
            raise InvalidValueError(
                f"column {field.name!r} holds {field.type}, which CSV cannot; use --parquet"
            )
    _write(path, lambda target: pyarrow.csv.write_csv(table, target))


def _write(path: Path, write: Callable[[Path], None]) -> None:
    try:
        write(path)
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error}; give another file") from error
