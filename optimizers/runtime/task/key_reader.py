"""Keys in the columns of tuples, as those who route and count want them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from grouping.grouping import Grouping
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, InvalidKeyError
from sketches.keys import PairKeys, as_keys


def key_batch(tuples: pa.Table, columns: Sequence[str], where: str, seed: int = 0) -> KeyBatch:
    """Read the keys of tuples, by the hash of a seed.

    A key of one column is what is in it, one of two is a pair. One of more is a pair of those
    before and the last; no table can name it.

    Raises:
        FoldError: a column is not there, or holds what is no key.
    """
    for name in columns:
        times = tuples.column_names.count(name)
        if times != 1:
            raise FoldError(
                f"{where}: tuples have {times or 'no'} column{'s' * (times > 1)} {name!r} to take "
                f"the key from; they have {', '.join(map(repr, tuples.column_names)) or 'none'}"
            )
    try:
        if len(columns) == 1:
            return KeyBatch.read(tuples.column(columns[0]), seed)
        sides = [as_keys(tuples.column(name), copy=False, seed=seed) for name in columns]
        return KeyBatch(reduce(PairKeys, sides))
    except InvalidKeyError as error:
        raise FoldError(f"{where}: key column {', '.join(columns)}: {error}") from error


def check_kind(grouping: Grouping, instances: int, types: Sequence[str]) -> None:
    """Refuse a grouping that was made for keys of another kind than come.

    Args:
        grouping: how tuples are to be spread.
        instances: over how many instances.
        types: the Arrow types of the columns of the key, as they print.

    Raises:
        InvalidKeyError: it names keys of another kind.
    """
    if not grouping.needs_key:
        return
    samples = [as_keys([_sample(kind)]) for kind in types]
    grouping.router(instances).route(1, KeyBatch(reduce(PairKeys, samples)))


def _sample(kind: str) -> Any:
    """Return a key of an Arrow type."""
    if kind.startswith("dictionary"):
        kind = kind.partition("values=")[2]
    if kind.startswith("timestamp"):
        return datetime.fromtimestamp(0, UTC).replace(tzinfo=UTC if "tz=" in kind else None)
    samples = {
        ("int", "uint"): 0,
        ("string", "large_string"): "",
        ("bool",): False,
        ("date",): date.min,
        ("decimal",): Decimal(0),
    }
    return next((key for kinds, key in samples.items() if kind.startswith(kinds)), b"")
