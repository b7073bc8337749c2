"""Keys in the columns of tuples, as those who route and count want them."""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

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
