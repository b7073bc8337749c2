"""What operators of a drawn job do: to a batch, and the same to one row or key of the reference."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from optimizers.folds import (
    DELETE,
    Count,
    Distinct,
    EachKey,
    Max,
    Mean,
    Min,
    Sum,
    Together,
    TopK,
    each_row,
)

# What operators without a key do: to a record batch, and the same to one row of the reference.


def odd(batch):
    return batch.filter(pc.equal(pc.bit_wise_and(batch.column("n"), 1), 1))


def odd_row(row):
    return [row] if row["n"] % 2 else []


def twice(batch):
    return pa.Table.from_batches([batch, batch])


def twice_row(row):
    return [row, row]


def moved(batch):
    place = batch.schema.get_field_index("c")
    return batch.set_column(place, "c", pc.add(batch.column("c"), batch.column("a")))


def moved_row(row):
    return [{**row, "c": row["c"] + row["a"]}]


def lean(batch):
    return batch.select([name for name in batch.schema.names if name != "b"])


def lean_row(row):
    return [{name: value for name, value in row.items() if name != "b"}]


def few_row(row):
    return [{**row, "c": row["c"] * 2}] * (row["n"] % 3)


few = each_row(few_row)


# What operators with a key do: folds, and the same to the values that a key had so far.


def closed(key, rows, state):
    """Add up, and delete the key whenever it has come to a multiple of five."""
    total = (state or 0) + sum(rows["n"].to_pylist())
    return total if total % 5 else DELETE


MANY = {
    "seen": Count(),
    "total": Sum("n"),
    "low": Min("n"),
    "high": Max("n"),
    "mean": Mean("n"),
    "kinds": Distinct("n"),
    "top": TopK("n", 2),
}


def many_of(values):
    """What the folds of `MANY` say of all the numbers that a key had."""
    counts = sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "seen": len(values),
        "total": sum(values),
        "low": min(values),
        "high": max(values),
        "mean": sum(values) / len(values),
        "kinds": len(counts),
        "top": [{"value": value, "total": count} for value, count in counts[:2]],
    }


FOLDS = {
    "count": (lambda emit: Count(emit=emit), ("count",)),
    "sum": (lambda emit: Sum("n", emit=emit), ("sum",)),
    "closed": (lambda emit: EachKey(closed, pa.int64(), emit=emit), ("state",)),
    "many": (lambda emit: Together(MANY, emit=emit), tuple(MANY)),
}
WORK = {
    None: (None, frozenset()),
    odd: (odd_row, frozenset("n")),
    twice: (twice_row, frozenset()),
    moved: (moved_row, frozenset("ac")),
    lean: (lean_row, frozenset()),
    few: (few_row, frozenset("cn")),
}
