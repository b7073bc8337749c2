"""Streams to draw for a job."""

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from any_job.drawn_jobs import COLUMNS

SIZES = st.sampled_from((0, 1, 2, 7, 40, 90))
CUTS = st.lists(st.floats(0, 1), max_size=5)


@st.composite
def streams(draw, drawn, batches, sizes=SIZES):
    """Batches of tuples for the sources of a job."""
    return [
        {
            source: cut(
                rows_of(drawn.columns[source], draw(st.integers(0, 1 << 30)), draw(sizes)),
                draw(CUTS),
                draw(st.integers(1, 4)),
            )
            for source in drawn.topology.sources
        }
        for _ in range(batches)
    ]


def rows_of(columns, seed, rows):
    """Tuples of any sort: frequent keys and rare ones, negative, huge and empty ones."""
    random = np.random.default_rng(seed)
    span = int(random.choice([1, 4, 30]))
    numbers = random.zipf(1.5, rows) % span - span // 2
    texts = np.array(["", "ä", "long " * 9, *map(str, range(span))])
    values = {
        "a": numbers * np.where(numbers == 2, 1 << 60, 1),
        "b": texts[random.integers(0, len(texts), rows)],
        "c": random.integers(0, 3, rows),
        "n": random.integers(0, 1000, rows),
    }
    return pa.table(
        {
            name: pa.array(values[name.removeprefix("x_")], COLUMNS[name.removeprefix("x_")])
            for name in sorted(columns)
        }
    )


def cut(table, cuts, partitions):
    """Cut tuples anywhere into record batches, empty ones too, and deal them to partitions."""
    places = sorted(int(share * len(table)) for share in cuts)
    ends = zip([0, *places], [*places, len(table)], strict=True)
    pieces = [table.slice(start, stop - start).combine_chunks() for start, stop in ends]
    batches = [(piece.to_batches() or [empty(table.schema)])[0] for piece in pieces]
    return [batches[number::partitions] for number in range(partitions)]


def empty(schema):
    return pa.RecordBatch.from_pylist([], schema=schema)


def rows_in(partitions):
    return [row for batches in partitions for batch in batches for row in batch.to_pylist()]
