"""Output buffers of one producer: tuples wait in columns until a batch of them is sent.

The batching layer of the paper (section II): tuples for one instance of a consumer go into a buffer
of its own, so that no batch has tuples of two. Consumers that spread tuples alike share buffers:
each batch is sent to one instance of each of them. For others there are two schemes:

* *distinct*: a pool of buffers for each; a tuple is put into one buffer of each pool. A consumer's
  instance gets the tuples of a producer in their order.
* *shared*: one buffer for each combination of their instances; a tuple is put into one, and its
  batch is sent to one instance of each. Batches of different buffers may overtake each other.

References:
    Sax, Castellanos, Chen, Hsu, "Performance optimization for distributed intra-node-parallel
    streaming systems", ICDE Workshops 2013.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batching.errors import DataflowError
from sketches.arrays import Floats, Integers
from sketches.checks import number, whole
from sketches.errors import InvalidValueError
from sketches.values import listed

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class FlushRules:
    """When a buffer is sent; what comes first.

    Attributes:
        rows: once it has this number of tuples.
        bytes: once its tuples have this number of bytes; None for no such limit.
        seconds: once its first tuple has waited this long; None for until the end of the stream.
    """

    rows: int
    bytes: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        whole("rows", self.rows, at_least=1)
        for name in ("bytes", "seconds"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=0.0)


@dataclass(frozen=True, eq=False)
class Batch:
    """Tuples that are sent together.

    Attributes:
        receivers: the consumers that get them, each with the number of its instance.
        columns: the tuples, column by column.
    """

    receivers: tuple[tuple[int, int], ...]
    columns: Columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


@dataclass(frozen=True, slots=True)
class Pool:
    """A matrix of buffers, with a dimension for each group of consumers that spread tuples alike.

    >>> (pool,) = pools_of([2, 3, 3], shared=True, alike=[(1, 2)])
    >>> pool.count, pool.receivers(5)
    (6, ((0, 1), (1, 2), (2, 2)))

    Attributes:
        groups: the consumers of each dimension.
        shape: how many instances each of them has.
    """

    groups: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many buffers there are."""
        return math.prod(self.shape)

    def receivers(self, place: int) -> tuple[tuple[int, int], ...]:
        """Return the consumers that get what is in a buffer, each with its instance's number."""
        found: list[tuple[int, int]] = []
        for group, size in zip(reversed(self.groups), reversed(self.shape), strict=True):
            place, number = divmod(place, size)
            found[:0] = [(one, number) for one in group]
        return tuple(found)

    def sort(self, targets: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Sort tuples by the buffer that each belongs in, and in it as they came.

        Args:
            targets: for each dimension, the instance that is to get each tuple.

        Returns:
            The order, and where in it the tuples of each buffer begin; one more, for the end.
        """
        places = np.asarray(targets[0], np.intp)
        for numbers, size in zip(targets[1:], self.shape[1:], strict=True):
            places = places * size + numbers
        starts = np.zeros(self.count + 1, dtype=np.intp)
        starts[1:] = np.cumsum(np.bincount(places, minlength=self.count))
        if self.count == 1:
            return np.arange(len(places)), starts
        few = np.min_scalar_type(self.count - 1)  # such are sorted faster
        return np.argsort(places.astype(few), kind="stable"), starts


def pools_of(
    instances: Sequence[int], *, shared: bool = False, alike: Sequence[Sequence[int]] = ()
) -> list[Pool]:
    """Return the pools of one producer's buffers: one for all consumers, or one for each group.

    Args:
        instances: how many instances each consumer has.
        shared: whether consumers that are not alike share buffers.
        alike: consumers that spread tuples alike, by the same key over as many instances; each
            group of them shares buffers in any case.
    """
    counts = [whole(f"instances[{n}]", c, at_least=1) for n, c in enumerate(instances)]
    if not counts:
        raise DataflowError("a producer without a consumer needs no buffers; name one")
    groups = _groups(counts, alike)
    together = [groups] if shared else [[group] for group in groups]
    return [Pool(tuple(each), tuple(counts[group[0]] for group in each)) for each in together]


@dataclass
class _Buffer:
    receivers: tuple[tuple[int, int], ...]
    parts: list[Columns] = field(default_factory=list)
    rows: int = 0
    bytes: float = 0.0
    since: float = 0.0

    def put(self, columns: Columns, rows: int, size: float, now: float) -> None:
        if not self.rows:
            self.since = now
        self.parts.append(columns)
        self.rows += rows
        self.bytes += size

    def take(self) -> Batch:
        names = self.parts[0]
        columns = {name: np.concatenate([part[name] for part in self.parts]) for name in names}
        self.parts, self.rows, self.bytes = [], 0, 0.0
        return Batch(self.receivers, columns)


class OutputBuffers:
    """The buffers of one producer's instance.

    >>> buffers = OutputBuffers([2, 2], FlushRules(rows=2), alike=[(0, 1)])
    >>> sent = buffers.add({"x": np.array([7, 8, 9])}, [np.array([0, 1, 0])] * 2)
    >>> [(batch.receivers, batch.columns["x"].tolist()) for batch in sent]
    [(((0, 0), (1, 0)), [7, 9])]
    >>> [batch.columns["x"].tolist() for batch in buffers.end()]
    [[8]]

    Args:
        instances: how many instances each consumer has.
        rules: when a buffer is sent.
        shared: whether consumers that are not alike share buffers.
        alike: consumers that spread tuples alike, by the same key over as many instances; each
            group of them shares buffers in any case.
    """

    def __init__(
        self,
        instances: Sequence[int],
        rules: FlushRules,
        *,
        shared: bool = False,
        alike: Sequence[Sequence[int]] = (),
    ) -> None:
        self._pools = pools_of(instances, shared=shared, alike=alike)
        self._instances, self._rules = list(instances), rules
        self._buffers = [
            [_Buffer(pool.receivers(place)) for place in range(pool.count)] for pool in self._pools
        ]

    @property
    def count(self) -> int:
        """How many buffers there are."""
        return sum(map(len, self._buffers))

    def add(
        self,
        columns: Columns,
        targets: Sequence[Integers],
        *,
        sizes: Floats | None = None,
        now: float = 0.0,
    ) -> list[Batch]:
        """Take tuples in, and return the batches that are full then, in the order of their tuples.

        Args:
            columns: the tuples.
            targets: for each consumer, the instance that is to get each tuple.
            sizes: the bytes of each tuple; needed where bytes are limited.
            now: the time.
        """
        rows = self._checked(columns, targets, sizes)
        weights = np.zeros(rows) if sizes is None else np.asarray(sizes, np.float64)
        sent: list[tuple[int, int, Batch]] = []
        for which, pool in enumerate(self._pools):
            order, starts = pool.sort([targets[group[0]] for group in pool.groups])
            for place, buffer in enumerate(self._buffers[which]):
                mine = order[starts[place] : starts[place + 1]]
                for last, batch in self._fill(buffer, columns, mine, weights, now):
                    sent.append((last, which, batch))
        return [batch for _, _, batch in sorted(sent, key=lambda each: each[:2])]

    def _fill(
        self, buffer: _Buffer, columns: Columns, mine: Integers, weights: Floats, now: float
    ) -> list[tuple[int, Batch]]:
        """Put tuples into a buffer, and return the batches that fill up, by their last tuples."""
        found, start = [], 0
        total = np.cumsum(weights[mine])
        while start < len(mine):
            stop = min(len(mine), start + self._rules.rows - buffer.rows)
            if self._rules.bytes is not None:
                before = total[start - 1] if start else 0.0
                full = np.searchsorted(total, self._rules.bytes - buffer.bytes + before)
                stop = min(stop, max(int(full) + 1, start + 1))
            chosen = mine[start:stop]
            size = float(weights[chosen].sum())
            part = {name: column[chosen] for name, column in columns.items()}
            buffer.put(part, len(chosen), size, now)
            if self._is_full(buffer):
                found.append((int(chosen[-1]), buffer.take()))
            start = stop
        return found

    def _is_full(self, buffer: _Buffer) -> bool:
        limit = self._rules.bytes
        return buffer.rows >= self._rules.rows or (limit is not None and buffer.bytes >= limit)

    def due(self, now: float) -> list[Batch]:
        """Return the batches whose first tuple has waited as long as it may."""
        limit = self._rules.seconds
        if limit is None:
            return []
        waiting = [buffer for pool in self._buffers for buffer in pool if buffer.rows]
        return [buffer.take() for buffer in waiting if now - buffer.since >= limit]

    def end(self) -> list[Batch]:
        """Return what is left, at the end of the stream."""
        return [buffer.take() for pool in self._buffers for buffer in pool if buffer.rows]

    def _checked(self, columns: Columns, targets: Sequence[Integers], sizes: Floats | None) -> int:
        if len(targets) != len(self._instances):
            raise InvalidValueError(
                f"targets for {len(targets)} consumers, and there are {len(self._instances)}; give "
                "the instances of each"
            )
        if not columns:
            raise InvalidValueError("tuples without a column cannot be sent; give one")
        rows = len(next(iter(columns.values())))
        if self._rules.bytes is not None and sizes is None:
            raise InvalidValueError("bytes are limited, and sizes=None; give the bytes of tuples")
        lengths = {name: len(column) for name, column in columns.items()}
        lengths |= {f"targets[{n}]": len(given) for n, given in enumerate(targets)}
        lengths |= {} if sizes is None else {"sizes": len(sizes)}
        for name, length in lengths.items():
            if length != rows:
                raise InvalidValueError(f"{name} has {length} elements for {rows} tuples")
        for which, (given, count) in enumerate(zip(targets, self._instances, strict=True)):
            wrong = np.flatnonzero((np.asarray(given) < 0) | (np.asarray(given) >= count))
            if len(wrong):
                raise InvalidValueError(
                    f"targets[{which}][{wrong[0]}]={given[wrong[0]]}: consumer {which} has "
                    f"{count} instances, numbered from 0"
                )
        return rows


def _groups(counts: Sequence[int], alike: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return all consumers in groups that share buffers; most are alone."""
    groups = [tuple(sorted(listed("alike", group))) for group in alike]
    named = [one for group in groups for one in group]
    for one in named:
        if one not in range(len(counts)) or named.count(one) > 1:
            raise DataflowError(
                f"alike={list(alike)!r} names consumer {one!r}, which is not there or twice; "
                f"consumers are 0 to {len(counts) - 1}"
            )
    for group in groups:
        if len({counts[one] for one in group}) > 1:
            raise DataflowError(
                f"consumers {group} have {[counts[one] for one in group]} instances, and cannot "
                "share batches; leave them out of alike"
            )
    return sorted([*groups, *((one,) for one in range(len(counts)) if one not in named)])
