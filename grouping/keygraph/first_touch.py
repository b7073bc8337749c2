"""Keys that are in no table: each gets an owner beside its partners, and stays there.

The published method routes them by hash, and after a week four tuples in ten carry one. But a batch
of tuples shows the known partners of an unknown key. So the key can get an owner before the batch
is routed, in the part of most of its partners, as long as that has room. It is then in the table
like any other, and has one owner from its first tuple on.
"""

from typing import Any

import numpy as np

from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.refinement import within_room
from grouping.routing_table import RoutingTable
from sketches import checks
from sketches.arrays import Floats, Parts
from sketches.errors import InvalidValueError
from sketches.key_identity import distinct
from sketches.keys import KeyColumn, as_keys
from sketches.values import numeric


def first_touch(  # noqa: PLR0913
    pairs: KeyPairs,
    tables: tuple[RoutingTable, RoutingTable],
    loads: Floats,
    *,
    imbalance: float = 1.03,
    shares: Floats | None = None,
    seed: int = 0,
) -> tuple[RoutingTable, RoutingTable]:
    """Give the unknown keys of a batch an owner.

    Args:
        pairs: the pairs of the batch.
        tables: who owns the keys of the first and the second operator.
        loads: of shape (2, parts), how many tuples each part got of the batches before; a part
            may get up to ``imbalance`` times its share of these and this batch.
        imbalance: see ``loads``.
        shares: the share of each part, or a row of shares for each operator; equal if left out.
        seed: of the hash that routes unknown keys: that of the job, `Topology.seed`.

    Returns:
        The tables, with all keys of the batch in them. A key of the first operator that has
        unknown partners only keeps the owner it has by hash, if there is room. A key that has
        room nowhere goes where most is left.

    Raises:
        InvalidValueError: loads or shares do not fit the tables.
    """
    first, second = tables
    number = first.instances
    if second.instances != number:
        raise InvalidValueError(
            f"tables for {number} and for {second.instances} instances do not divide their keys "
            "among the same parts; give two of as many"
        )
    loads = _table("loads", loads, (2, number))
    weights = np.ones(number) if shares is None else _table("shares", shares, (2, number))
    if not weights.any(axis=-1).all():
        raise InvalidValueError(f"shares={shares!r} leave keys without a part; give one a share")
    imbalance = checks.number("imbalance", imbalance, above=0.0)
    left, right = (as_keys(column, seed=seed) for column in pairs.columns)
    shared = weights / weights.sum(axis=-1, keepdims=True)
    room = imbalance * shared * (loads.sum(axis=1, keepdims=True) + pairs.total) - loads
    room[np.broadcast_to(shared == 0, room.shape)] = -np.inf  # not even for want of another
    known, partners = second.find(right)
    first = _place(first, left, partners, pairs.counts * known, pairs.counts, room[0])
    second = _place(second, right, first.assign(left), pairs.counts, pairs.counts, room[1])
    return first, second


def _table(name: str, given: Any, shape: tuple[int, int]) -> Floats:
    """Return numbers of this shape, or of a row for all; refuse others."""
    array = numeric(name, given)
    if array.shape not in (shape, shape[1:]) or (name == "loads" and array.shape != shape):
        raise InvalidValueError(
            f"{name} of shape {array.shape} do not fit two operators and {shape[1]} parts; "
            f"give an array of shape {shape}"
        )
    return checks.weights(name, array.reshape(-1), array.size).reshape(array.shape)


def _place(  # noqa: PLR0913, PLR0917
    table: RoutingTable,
    keys: KeyColumn,
    partners: Parts,
    votes: Floats,
    counts: Floats,
    room: Floats,
) -> RoutingTable:
    """Give each unknown key the part of most of its partners' votes, where there is room."""
    known, owners = table.find(keys)
    if known.all():
        return table
    room = room - np.bincount(owners[known], counts[known], len(room))
    rows = np.flatnonzero(~known)
    number, first = distinct(keys.take(rows))
    cells = number * len(room) + partners[rows]
    ballots: Any = np.bincount(cells, votes[rows], len(first) * len(room))
    ballots = ballots.reshape(-1, len(room))
    amounts: Any = np.bincount(number, counts[rows], len(first))
    # Where no partner votes, the hash does.
    silent = np.flatnonzero(~ballots.any(axis=1))
    ballots[silent, owners[rows[first[silent]]]] = 1.0
    return table.with_keys(keys.take(rows[first]), _choose(ballots, amounts, room))


def _choose(votes: Floats, amounts: Floats, room: Floats) -> Parts:
    """Choose a part for each key: the one with most votes that still has room, heavy keys first.

    A key that fits into no part with votes goes where most room is left.
    """
    parts = np.full(len(votes), -1, dtype=np.int32)
    room = room.copy()
    waiting = np.argsort(-amounts, kind="stable")
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
