"""Keys that no table knows: each goes where its partners live, and stays.

The published method routes them by hash, and after a week four tuples in ten carry one. But a
batch of tuples tells with which known keys an unknown one occurs. So it can be given an owner
before the batch is routed, in the part where most of its partners are, as long as that part has
room. It then is in the table like any other, so that it has one owner from its first tuple on.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from grouping.key_pairs import KeyPairs
from grouping.refinement import within_room
from grouping.routing_table import RoutingTable
from sketches import checks
from sketches.keys import KeyColumn, as_keys

Numbers: TypeAlias = NDArray[np.float64]
Parts: TypeAlias = NDArray[np.int32]


def first_touch(
    pairs: KeyPairs,
    tables: tuple[RoutingTable, RoutingTable],
    loads: Numbers,
    *,
    imbalance: float = 1.03,
    shares: Numbers | None = None,
) -> tuple[RoutingTable, RoutingTable]:
    """Give the unknown keys of a batch an owner.

    Args:
        pairs: the pairs of the batch.
        tables: who owns the keys of the first and the second operator.
        loads: of shape (2, parts), how many tuples each part got of the batches before; a part
            may get up to ``imbalance`` times its share of these and this batch.
        imbalance: see ``loads``.
        shares: the share of each part; equal if left out.

    Returns:
        The tables, with all keys of the batch in them. A key of the first operator that has
        unknown partners only keeps the owner it has by hash.
    """
    first, second = tables
    number = first.instances
    if shares is None:
        shares = np.full(number, 1 / number)
    imbalance = checks.number("imbalance", imbalance, above=0.0)
    left, right = as_keys(pairs.left), as_keys(pairs.right)
    limits = imbalance * shares * (loads.sum(axis=1, keepdims=True) + pairs.total)
    known, _ = second.find(right)
    first = _place(first, left, second.assign(right), pairs.counts, known, limits[0] - loads[0])
    everywhere = np.ones(len(right), dtype=np.bool_)
    second = _place(
        second, right, first.assign(left), pairs.counts, everywhere, limits[1] - loads[1]
    )
    return first, second


def _place(  # noqa: PLR0913, PLR0917
    table: RoutingTable,
    keys: KeyColumn,
    partners: Parts,
    counts: Numbers,
    voting: NDArray[np.bool_],
    room: Numbers,
) -> RoutingTable:
    """Give each unknown key the part of most of its partners that vote, where there is room."""
    known, owners = table.find(keys)
    if known.all():
        return table
    room = room - np.bincount(owners[known], counts[known], len(room))
    rows = np.flatnonzero(~known)
    codes, first, number = np.unique(keys.codes[rows], return_index=True, return_inverse=True)
    unknown = keys.take(rows[first])
    cells = number * len(room) + partners[rows]
    votes: Any = np.bincount(cells, counts[rows] * voting[rows], len(codes) * len(room))
    amounts: Any = np.bincount(number, counts[rows], len(codes))
    by_hash = table.assign(unknown)
    parts = _choose(votes.reshape(-1, len(room)), amounts, by_hash, room)
    return table.with_keys(unknown, parts)


def _choose(votes: Numbers, amounts: Numbers, otherwise: Parts, room: Numbers) -> Parts:
    """Choose a part for each key: the one with most votes that still has room, heavy keys first.

    What fits nowhere goes where most room is left; what has no votes goes where it would anyway.
    """
    parts = np.where(votes.max(axis=1, initial=0.0) > 0, -1, otherwise).astype(np.int32)
    room = room - np.bincount(parts[parts >= 0], amounts[parts >= 0], len(room))
    waiting = np.flatnonzero(parts < 0)
    waiting = waiting[np.argsort(-amounts[waiting], kind="stable")]
    while len(waiting):
        fitting = np.where(room >= amounts[waiting, np.newaxis], votes[waiting], 0.0)
        chosen = fitting.argmax(axis=1).astype(np.int32)
        possible = np.flatnonzero(fitting.max(axis=1) > 0)
        taken = possible[within_room(chosen[possible], amounts[waiting[possible]], room)]
        if not len(taken):
            break
        parts[waiting[taken]] = chosen[taken]
        room -= np.bincount(chosen[taken], amounts[waiting[taken]], len(room))
        waiting = np.delete(waiting, taken)
    for key in waiting.tolist():
        part = int(room.argmax())
        parts[key] = part
        room[part] -= amounts[key]
    return parts
