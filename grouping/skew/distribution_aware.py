"""Distribution-aware key grouping: heavy keys are placed one by one, the rest by the cell."""

import heapq
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from grouping.grouping import Grouping
from grouping.hashing import LARGEST_PARTS, code_parts, hash_parts
from grouping.key_batch import KeyBatch
from grouping.routers import OwnerRouter, Router
from grouping.routing_table import RoutingTable
from sketches.arrays import Parts
from sketches.checks import number, whole
from sketches.errors import CorruptDataError, EmptySketchError, InvalidValueError
from sketches.key_columns import KeyColumn
from sketches.keys import as_keys
from sketches.space_saving import SpaceSaving
from sketches.values import numeric, protected


@dataclass(frozen=True, eq=False)
class DistributionAware(Grouping):
    """Send heavy keys where a table says, and others where the cell that they hash to is.

    `distribution_aware` makes one from a sketch of the stream.

    Attributes:
        table: the owners of the heavy keys.
        cells: the owner of each cell; a key that is not in the table falls into one by its hash.

    References:
        Rivetti et al., "Efficient key grouping for near-optimal load balancing in stream
        processing systems", DEBS 2015.
    """

    table: RoutingTable
    cells: Parts
    kind: ClassVar[str] = "distribution_aware"
    one_owner: ClassVar[bool] = True
    needs_key: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.table, RoutingTable):
            raise InvalidValueError(f"table={self.table!r} is not a RoutingTable of heavy keys")
        cells = numeric("cells", self.cells)
        if cells.ndim != 1 or not len(cells) or cells.dtype.kind not in "iu":
            raise InvalidValueError(
                f"cells of shape {cells.shape} and type {cells.dtype} are not owners; "
                "give a list of instances, one for each cell"
            )
        wrong = np.flatnonzero((cells < 0) | (cells >= self.table.instances))
        if len(wrong):
            raise InvalidValueError(
                f"cells[{wrong[0]}]={cells[wrong[0]]} is not an instance; "
                f"give numbers from 0 to {self.table.instances - 1}"
            )
        object.__setattr__(self, "cells", protected(cells.astype(np.int32)))

    @property
    def instances(self) -> int:
        """How many instances it was made for."""
        return self.table.instances

    def assign(self, keys: Any) -> Parts:
        """Return the instance of each key.

        Raises:
            InvalidKeyError: these are no keys, or not of the table's kind.
        """
        batch = KeyBatch.read(keys)
        words = KeyBatch(batch.column)
        known, parts = self.table.find(words)
        parts = np.where(known, parts, self.cells[hash_parts(words, len(self.cells))])
        return batch.spread(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return both parts as JSON types."""
        return {"table": self.table.to_dict(), "cells": self.cells.tolist()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DistributionAware":
        """Build it from what `to_dict` returned."""
        table = fields.get("table")
        if not isinstance(table, dict):
            raise CorruptDataError(f"table={table!r} of a {cls.kind} grouping is not an object")
        return cls(**{**fields, "table": RoutingTable.from_dict(table)})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.table == other.table and np.array_equal(self.cells, other.cells)

    def __hash__(self) -> int:
        return hash((self.table, self.cells.tobytes()))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return type(self), (self.table, self.cells)

    def __repr__(self) -> str:
        return (
            f"DistributionAware({len(self.table)} heavy keys, {len(self.cells)} cells, "
            f"instances={self.instances})"
        )

    def _router(self, instances: int, sender: int, local: tuple[int, ...]) -> Router:
        return OwnerRouter(instances, self.assign)


def distribution_aware(
    sketch: SpaceSaving,
    instances: int,
    *,
    threshold: float | None = None,
    cells_per_instance: int = 10,
    seed: int = 0,
) -> DistributionAware:
    """Place the keys of a sampled stream so that the instances get equal shares of it.

    Heavy keys and cells are dealt out together, the heaviest first, each to the least loaded
    instance. A cell weighs what the sketch knows of the light keys in it; what it does not know,
    it takes to be spread evenly.

    >>> sketch = SpaceSaving(100)
    >>> sketch.update(["Asia"] * 50 + ["Europe"] * 30 + ["Oceania"] * 20)
    >>> distribution_aware(sketch, 2).assign(["Asia", "Europe", "Oceania"]).tolist()
    [0, 1, 1]

    Args:
        sketch: what the keys of a sample weigh. It should track each heavy key, which it does with
            a capacity above ``1 / threshold``.
        instances: how many instances there are.
        threshold: the least share of the stream of a heavy key; without, a tenth of what one
            instance should get.
        cells_per_instance: how many cells there are for each instance. With many, cells are
            small and can be dealt out evenly; each is one number to send.
        seed: of the hash by which keys are to fall into cells: that of the job, `Topology.seed`.

    Raises:
        EmptySketchError: the sketch has seen nothing, so there is nothing to learn from.

    References:
        Rivetti et al., "Efficient key grouping for near-optimal load balancing in stream
        processing systems", DEBS 2015; greedy dealing: R. Graham, "Bounds on multiprocessing
        timing anomalies", SIAM Journal on Applied Mathematics, 1969.
    """
    if not isinstance(sketch, SpaceSaving):
        raise InvalidValueError(f"{sketch!r} is not a SpaceSaving; give the sketch of the keys")
    count = whole("instances", instances, at_least=1, at_most=LARGEST_PARTS)
    per_instance = whole("cells_per_instance", cells_per_instance, at_least=1)
    cells = whole("cells", count * per_instance, at_least=1, at_most=LARGEST_PARTS)
    least = 0.1 / count if threshold is None else number("threshold", threshold, above=0, up_to=1)
    if not sketch.total:
        raise EmptySketchError("the sketch has seen no key; update it with a sample of the stream")
    keys, estimates, errors = sketch.arrays()
    column, weights = as_keys(keys, seed=seed), estimates - errors / 2
    heavy = weights >= least * sketch.total
    light = _cell_weights(column.take(np.flatnonzero(~heavy)), weights[~heavy], cells)
    unknown = max(0.0, sketch.total - float(weights.sum()))
    light += unknown / cells
    parts = _dealt(np.concatenate([weights[heavy], light]), count)
    known = int(heavy.sum())
    table = RoutingTable(column.take(np.flatnonzero(heavy)), parts[:known], count)
    return DistributionAware(table, parts[known:])


def _cell_weights(
    column: KeyColumn, weights: NDArray[np.float64], cells: int
) -> NDArray[np.float64]:
    weighed = np.bincount(
        code_parts(column.codes, cells, seed=column.seed), weights, minlength=cells
    )
    return weighed.astype(np.float64)


def _dealt(weights: NDArray[np.float64], instances: int) -> Parts:
    """Deal weights out, the heaviest first, each to the least loaded instance."""
    parts = np.empty(len(weights), dtype=np.int32)
    heap = [(0.0, instance) for instance in range(instances)]  # sorted, so a heap already
    for place in np.argsort(-weights, kind="stable").tolist():
        load, instance = heap[0]
        parts[place] = instance
        heapq.heapreplace(heap, (load + float(weights[place]), instance))
    return parts
