"""Tables of numbers that belong together: a column for each attribute, a row for each tuple."""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketches.arrays import Floats, Integers


class RowTable:
    """Base of dataclasses whose attributes are arrays of one length."""

    def __len__(self) -> int:
        """How many rows there are."""
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def take(self, places: Any) -> Self:
        """Return the rows at these places."""
        return type(self)(*(getattr(self, each.name)[places] for each in fields(self)))  # type: ignore[arg-type]

    def joined(self, *others: Self) -> Self:
        """Return these rows and then those of the others."""
        tables = [table for table in (self, *others) if len(table)]
        if len(tables) < 2:
            return tables[0] if tables else self
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(np.concatenate([getattr(t, name) for t in tables]) for name in names))


@dataclass(frozen=True, eq=False)
class Shipments(RowTable):
    """Tuples that have left, or are to leave, an instance for another.

    Attributes:
        rows: which tuples.
        senders: the instances that send.
        instances: the instances that they are for.
        closed: when it was settled that they leave.
        departures: when they leave, once their sender has done with sending.
    """

    rows: Integers
    senders: Integers
    instances: Integers
    closed: Floats
    departures: Floats

    @classmethod
    def none(cls) -> "Shipments":
        """Return a table without rows."""
        return cls(*(np.empty(0, dtype=kind) for kind in (int, int, int, float, float)))


@dataclass(frozen=True, eq=False)
class Arrivals(RowTable):
    """Tuples that have arrived at an instance, or certainly will.

    Attributes:
        rows: which tuples.
        instances: where.
        times: when.
        closed: when it was settled that they leave their sender.
        edges: by which edge into the operator; -1 for what comes from outside.
        senders: from which instance.
        seconds: how long they take, where work on them has begun, else NaN.
        carried: what travels with each, for the reporter.
    """

    rows: Integers
    instances: Integers
    times: Floats
    closed: Floats
    edges: Integers
    senders: Integers
    seconds: Floats
    carried: NDArray[np.object_]

    @classmethod
    def of(cls, shipments: Shipments, times: Floats, edge: int) -> "Arrivals":
        """Return how shipments of an edge arrive at these times."""
        count = len(shipments)
        return cls(
            shipments.rows,
            shipments.instances,
            times,
            shipments.closed,
            np.full(count, edge),
            shipments.senders,
            np.full(count, np.nan),
            np.full(count, None, dtype=object),
        )

    @classmethod
    def none(cls) -> "Arrivals":
        """Return a table without rows."""
        return cls.of(Shipments.none(), np.empty(0), -1)


@dataclass(frozen=True, eq=False)
class Served(RowTable):
    """Tuples that instances of one operator have executed, those of each instance in order.

    Attributes:
        rows: which tuples.
        instances: where.
        edges: by which edge they came.
        arrived: when they arrived.
        started: when work on them began.
        ended: when it was done.
        walls: how long it took by the clock, see `OperatorStatistics.wall`.
    """

    rows: Integers
    instances: Integers
    edges: Integers
    arrived: Floats
    started: Floats
    ended: Floats
    walls: Floats

    @classmethod
    def none(cls) -> "Served":
        """Return a table without rows."""
        kinds = *[int] * 3, *[float] * 4
        return cls(*(np.empty(0, dtype=kind) for kind in kinds))


@dataclass(frozen=True, eq=False)
class Sent(RowTable):
    """Tuples that an edge has carried.

    Attributes:
        rows: which tuples.
        senders: the instances that sent them.
        instances: the instances that they went to.
        local: whether both were on one node.
    """

    rows: Integers
    senders: Integers
    instances: Integers
    local: NDArray[np.bool_]

    @classmethod
    def none(cls) -> "Sent":
        """Return a table without rows."""
        return cls(*(np.empty(0, dtype=kind) for kind in (int, int, int, bool)))
