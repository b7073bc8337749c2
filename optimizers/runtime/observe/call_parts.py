"""Parts of a batch that are worked on once more, to learn what of the time grows with what.

All that one instance does in a batch is one call. How much of it the call takes for itself, and how
much tuples, keys and state take, only shows when there are calls with more or less of each. So now
and then a part of a batch is folded into a part of the state, and what comes of it is let go.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from optimizers.runtime.state.table import places_of
from sketches.arrays import Codes

_FIRST = 8  # batches in which each instance tries every second time: nothing is known yet
_EVERY = 4  # batches after those, in which one instance tries
_EVERY_ALONE = 8  # the same where there is only one
_PART = 8  # of the keys are tried
_MOST = 1 << 12  # tuples or so; what grows with them is seen in whole batches


class TriedPart(NamedTuple):
    """A part of a batch.

    Attributes:
        rows: the tuples that are in it.
        state: the state of their keys, and of those between them.
    """

    rows: NDArray[np.int64]
    state: pa.Table | None


def turn_of(batch: int, instance: int, parallelism: int) -> int | None:
    """Return which try of the operator an instance has in a batch; None if it has none.

    What is learnt is learnt for all instances, so that more of them do not try more often.

    >>> [batch for batch in range(8, 40) if turn_of(batch, 1, 2) is not None]
    [12, 20, 28, 36]

    Args:
        batch: the number of the batch.
        instance: the number of the instance.
        parallelism: how many instances the operator has.
    """
    if batch < _FIRST:
        turn, rest = divmod(batch + instance, 2)
        return turn if rest else None
    turn, rest = divmod(batch, _EVERY_ALONE if parallelism == 1 else _EVERY)
    return None if rest or turn % parallelism != instance else turn


def part_of(
    turn: int, instances: int, numbers: NDArray[np.int64], places: Codes, state: pa.Table | None
) -> TriedPart | None:
    """Return the part of a batch that is to be tried; None of a batch of less than two keys.

    Args:
        turn: a number that rises from try to try.
        instances: how many instances take turns.
        numbers: for each tuple, the number of its key; keys are numbered by their places.
        places: where each key is on the ring of hashes.
        state: the state before the batch.
    """
    if len(places) < 2:
        return None
    # No instance has the same kind of part each time.
    kind, share = (turn % instances + turn // instances) % 3, turn // 3 % _PART
    # 1. A stretch of the ring; of few keys, one at least.
    width = max(1, len(places) // (_PART // 2 if kind == 1 else _PART))
    most = _MOST * (4 if kind == 1 else 1) * len(places) // max(1, len(numbers))
    width = min(width, max(1, most))
    first = share * (len(places) - width) // (_PART - 1)
    rows = np.flatnonzero((numbers >= first) & (numbers < first + width))
    # 2. With all of its tuples, or one of four; and with its state, or as if all keys were new.
    if kind == 1:
        rows = rows[::4]
    if state is None or kind == 2:
        return TriedPart(rows, None if state is None else state.slice(0, 0))
    known = places_of(state)
    start = int(np.searchsorted(known, places[first])) if first else 0
    last = first + width
    end = int(np.searchsorted(known, places[last])) if last < len(places) else len(known)
    return TriedPart(rows, state.slice(start, end - start))
