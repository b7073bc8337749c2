"""A checkpoint of counts of words: its job, files of its state, and what is read of it."""

import pyarrow as pa

from optimizers import Plan, Topology
from optimizers.runtime.state.file import Attempt, FileKind, write_state
from optimizers.runtime.task.output_file import OutputFile

JOB = Topology.source("words").then("count", key="word", parallelism=2)
PLAN = Plan(parallelism={"count": 3})


def rows(counts, gone=None):
    """State of keys whose place is the number in their text."""
    places = sorted(counts)
    columns = {
        "place": pa.array(places, pa.uint64()),
        "key_0": pa.array([f"w{place}" for place in places]),
        "value_count": pa.array([counts[place] for place in places], pa.int64()),
    }
    if gone is not None:
        columns["gone"] = pa.array([place in gone for place in places], pa.bool_())
    return pa.table(columns)


def output_at(path):
    return OutputFile(path, "count", pa.schema([("word", pa.string())]))


def write(here, batch, counts, *, instance=0, name="a", gone=None):
    attempt = Attempt("count", instance, batch, name)
    kind = FileKind.BASE if gone is None else FileKind.DELTA
    return write_state(here, attempt, rows(counts, gone), kind=kind)


def state_of(checkpoint, batch=None):
    table = checkpoint.read("count", batch)
    assert ["word", "count"] == table.column_names
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))


def files_of(here):
    return list(here.list(""))
