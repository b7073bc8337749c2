"""Keys in the columns of tuples, as those who route and count want them."""

from collections.abc import Sequence

import pyarrow as pa

from grouping.grouping import Grouping
from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError, InvalidKeyError
from optimizers.folds.keys import codes_of
from sketches.key_columns import IntegerKeys
from sketches.keys import Pairs, as_keys


def key_batch(tuples: pa.Table, columns: Sequence[str], where: str, seed: int = 0) -> KeyBatch:
    """Read the keys of tuples, by the hash of a seed.

    A key of one column is what is in it, one of two is a pair. One of more is known by its code
    only, and so can be hashed but not be named in a table.

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
        if len(columns) == 2:
            return KeyBatch(as_keys(Pairs(*map(tuples.column, columns)), seed=seed))
        return KeyBatch(IntegerKeys(codes_of(tuples, columns, seed), seed))
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
    samples = [_sample(kind) for kind in types]
    if len(samples) == 2:
        keys = as_keys(Pairs(*samples))
    else:
        keys = as_keys(samples[0] if len(samples) == 1 else [0])  # of more, their code
    grouping.router(instances).route(1, KeyBatch(keys))


def _sample(kind: str) -> list[int] | list[str] | list[bytes]:
    """Return a key of an Arrow type."""
    if kind.startswith(("int", "uint")):
        return [0]
    return [""] if "string" in kind else [b""]
