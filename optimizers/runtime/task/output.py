"""What leaves the job: Parquet files, each written by one task and listed in a commit."""

from collections.abc import Sequence
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from optimizers.runtime.state.file import Attempt
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.arrow_tables import joined
from optimizers.runtime.task.output_file import OutputFile

FOLDER = "output"


def write_output(
    location: Location,
    attempt: Attempt,
    tuples: Sequence[pa.RecordBatch],
    *,
    aside_of: str | None = None,
) -> OutputFile:
    """Write what an instance emitted in one batch; it counts once a commit lists it.

    Args:
        location: where output is kept.
        attempt: by which the instance's files are known.
        tuples: what it emitted.
        aside_of: the operator whose bad rows these are; None for what the instance's own emitted.
    """
    operator = attempt.operator if aside_of is None else aside_of
    table = joined([pa.Table.from_batches([batch]) for batch in tuples], f"output of {operator!r}")
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    kind = "" if aside_of is None else "-aside"
    name = f"{attempt.batch:010}-{attempt.instance}-{attempt.name}{kind}.parquet"
    path = f"{FOLDER}/{quote(operator, safe='')}/{name}"
    location.write_once(path, content)
    return OutputFile(
        path, operator, table.schema, len(table), content.size, aside=aside_of is not None
    )
