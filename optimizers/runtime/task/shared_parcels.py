"""Parcels for instances of several consumers that are not alike, and their tuples put in order.

A tuple is in one parcel, which is sent to an instance of each consumer; so parcels of one block of
tuples overtake each other. Each tuple travels with its place in the block, as the last column, and
the schema names the block. Receivers put the tuples of a block in order and drop the column.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from optimizers.folds.key_codes import take_rows
from optimizers.runtime.task.parcels import Parcel

_BLOCK = b"penstock.block"
_PLACE = pa.field("place", pa.uint16(), nullable=False)


def numbered(tuples: pa.Table, block: int) -> pa.Table:
    """Return tuples with their places in a block.

    Args:
        tuples: the tuples, 65,536 at most.
        block: the number of the block, of the sender's.
    """
    places = pa.array(np.arange(len(tuples), dtype=np.uint16))
    about = {**(tuples.schema.metadata or {}), _BLOCK: str(block).encode()}
    schema = tuples.schema.append(_PLACE).with_metadata(about)
    return pa.table([*tuples.columns, places], schema=schema)


def in_order(parcels: Iterable[Parcel]) -> Iterator[tuple[Parcel, pa.Table]]:
    """Unpack the parcels of one instance: what was numbered by blocks, all else by parcels.

    Args:
        parcels: the parcels, by edge, sender and number.

    Yields:
        The tuples in the order in which they were sent, with the first of their parcels.
    """
    unpacked = ((parcel, parcel.tuples()) for parcel in parcels)
    for (*_, block), members in groupby(unpacked, _ends_and_block):
        if block is None:
            yield from members
            continue
        several = list(members)
        yield several[0][0], _put_in_order([tuples for _, tuples in several])


def _ends_and_block(one: tuple[Parcel, pa.Table]) -> tuple[int, int, bytes | None]:
    parcel, tuples = one
    return parcel.edge, parcel.sender, (tuples.schema.metadata or {}).get(_BLOCK)


def _put_in_order(tables: list[pa.Table]) -> pa.Table:
    """Return the tuples of one block in order, without their places."""
    table = pa.concat_tables(tables).combine_chunks()
    last = table.num_columns - 1
    places = table.column(last).to_numpy()
    about = {name: what for name, what in table.schema.metadata.items() if name != _BLOCK}
    table = table.remove_column(last).replace_schema_metadata(about or None)
    return take_rows(table, np.argsort(places, kind="stable"))
