"""What leaves the job: Parquet files, each written by one task and listed in a commit."""

from collections.abc import Sequence
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from optimizers.runtime.files import Location
from optimizers.runtime.output_file import OutputFile
from optimizers.runtime.state_file import Attempt
from optimizers.runtime.tables import joined

FOLDER = "output"


def write_output(
    location: Location, attempt: Attempt, tuples: Sequence[pa.RecordBatch]
) -> OutputFile:
    """Write what an instance emitted in one batch; it counts once a commit lists it."""
    table = joined(
        [pa.Table.from_batches([batch]) for batch in tuples], f"output of {attempt.operator!r}"
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    name = f"{attempt.batch:010}-{attempt.instance}-{attempt.name}.parquet"
    path = f"{FOLDER}/{quote(attempt.operator, safe='')}/{name}"
    location.write_atomically(path, content)
    return OutputFile(path, attempt.operator, table.schema, len(table), content.size)
