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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from batching.errors import DataflowError
from sketches.arrays import Floats, Integers
from sketches.checks import number, whole
from sketches.errors import InvalidValueError
from sketches.values import listed

Columns = Mapping[str, np.ndarray]
Given_contra = TypeVar("Given_contra", contravariant=True)
Tuples = TypeVar("Tuples")
Cause = Literal["rows", "bytes", "seconds", "end"]
"""The rule by which a batch leaves."""


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

    def full(self, rows: int, size: float) -> Cause | None:
        """Return the rule by which a buffer of `rows` tuples and `size` bytes is full, or None.

        >>> rules = FlushRules(rows=100, bytes=1e6)
        >>> rules.full(99, 2e6), rules.full(99, 0.0)
        ('bytes', None)
        """
        if rows >= self.rows:
            return "rows"
        return "bytes" if self.bytes is not None and size >= self.bytes else None


@dataclass(frozen=True, eq=False)
class Batch:
    """Tuples that are sent together.

    Attributes:
        receivers: the consumers that get them, each with the number of its instance.
        columns: the tuples, column by column.
        cause: the rule by which they leave.
    """

    receivers: tuple[tuple[int, int], ...]
    columns: Columns
    cause: Cause

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


class TupleKind(Protocol[Given_contra, Tuples]):
    """What buffers do with tuples of a kind, such as columns of numpy or Arrow's record batches."""

    def sorted(self, tuples: Given_contra, order: NDArray[np.intp] | None) -> Tuples:
        """Return these tuples in this order, or as they are."""

    def part(self, tuples: Tuples, start: int, stop: int) -> Tuples:
        """Return some tuples that stand together; nothing needs to be copied."""

    def joined(self, parts: Sequence[Tuples]) -> Tuples:
        """Return several parts as one, in this order."""


class OfColumns:
    """Tuples as columns of numpy."""

    @staticmethod
    def sorted(tuples: Columns, order: NDArray[np.intp] | None) -> Columns:
        """Return a copy of these tuples, in this order."""
        if order is None:  # they may wait, and who gave them may change them meanwhile
            return {name: np.array(column) for name, column in tuples.items()}
        return {name: column[order] for name, column in tuples.items()}

    @staticmethod
    def part(tuples: Columns, start: int, stop: int) -> Columns:
        """Return some tuples that stand together."""
        return {name: column[start:stop] for name, column in tuples.items()}

    @staticmethod
    def joined(parts: Sequence[Columns]) -> Columns:
        """Return several parts as one."""
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass(slots=True)
class _Buffer(Generic[Tuples]):
    parts: list[Tuples] = field(default_factory=list)
    rows: int = 0
    bytes: float = 0.0
    since: float = 0.0


@dataclass(slots=True)
class Flushed(Generic[Tuples]):
    """What was in a buffer of a pool, and leaves it.

    Attributes:
        place: which buffer it was.
        rows: how many tuples there are.
        tuples: the tuples.
        cause: the rule by which they leave.
        last: the place of the last tuple among those that came with it; -1 for the rest at the end.
    """

    place: int
    rows: int
    tuples: Tuples
    cause: Cause
    last: int = -1


class PoolBuffers(Generic[Given_contra, Tuples]):
    """The buffers of one pool: all engines' tasks and `OutputBuffers` fill and cut them here.

    Args:
        pool: the pool.
        rules: when a buffer is sent.
        kind: what to do with the tuples.
    """

    def __init__(
        self, pool: Pool, rules: FlushRules, kind: TupleKind[Given_contra, Tuples]
    ) -> None:
        self.pool = pool
        self._rules, self._kind = rules, kind
        self._waiting: dict[int, _Buffer[Tuples]] = {}

    def add(
        self,
        tuples: Given_contra,
        targets: Sequence[NDArray[Any]],
        *,
        sizes: Floats | float = 0.0,
        now: float = 0.0,
        ends: bool = False,
    ) -> Iterator[Flushed[Tuples]]:
        """Take tuples in, and yield what is full then, buffer by buffer.

        Args:
            tuples: the tuples.
            targets: for each dimension of the pool, the instance that is to get each tuple.
            sizes: the bytes of each tuple, or of any.
            now: the time.
            ends: whether no more are to wait for: then all leaves, each buffer in its turn.
        """
        order, starts = self.pool.sort(targets)
        ready = self._kind.sorted(tuples, order if self.pool.count > 1 else None)
        total = None if isinstance(sizes, float) else _sums(sizes[order])
        part, full = self._kind.part, self._rules.full
        few = self._filling(sizes) if ends and isinstance(sizes, float) else 0
        cause: Cause | None
        for place, (first, end) in enumerate(pairwise(starts.tolist())):
            start, buffer = first, self._waiting.get(place)
            if buffer is None and 0 < end - start < few:  # as most that leave at once
                yield Flushed(place, end - start, part(ready, start, end), "end")
                continue
            while start < end:
                rows, size = (0, 0.0) if buffer is None else (buffer.rows, buffer.bytes)
                stop = self._stop(rows, size, start, end, sizes if total is None else total)
                count = stop - start
                size += count * sizes if total is None else total[stop] - total[start]
                cause = full(rows + count, size)
                if cause is None and ends and stop == end:
                    cause = "end"
                last = int(order[stop - 1])
                if buffer is None and cause is not None:
                    yield Flushed(place, count, part(ready, start, stop), cause, last)
                else:
                    if buffer is None:
                        buffer = self._waiting[place] = _Buffer(since=now)
                    buffer.parts.append(part(ready, start, stop))
                    buffer.rows, buffer.bytes = rows + count, size
                    if cause is not None:
                        yield self._flushed(place, cause, last)
                        buffer = None
                start = stop
        if ends:
            yield from self.end()

    def _filling(self, size: float) -> int:
        """Return how many tuples of a size fill a buffer."""
        rows, limit = self._rules.rows, self._rules.bytes
        return rows if limit is None or limit >= rows * size else math.ceil(limit / size)

    def _stop(self, rows: int, size: float, start: int, end: int, sizes: Floats | float) -> int:
        """Return where the tuples end that still go into a buffer, of sorted ones.

        Args:
            rows: how many tuples the buffer has, which is not full.
            size: how many bytes it has.
            start: the first of the tuples.
            end: the end of all that are for it.
            sizes: the bytes of any tuple, or those of all before each of the sorted ones.
        """
        stop = min(end, start + self._rules.rows - rows)
        limit = self._rules.bytes
        if limit is None:
            return stop
        room = limit - size
        if not isinstance(sizes, float):
            full = int(np.searchsorted(sizes, sizes[start] + room))
        elif sizes * (stop - start) < room:
            return stop
        else:
            full = start + math.ceil(room / sizes)
        return min(stop, max(full, start + 1))

    def due(self, now: float) -> Iterator[Flushed[Tuples]]:
        """Yield what has waited as long as it may."""
        limit = self._rules.seconds
        if limit is not None:
            for place in sorted(self._waiting):
                if now - self._waiting[place].since >= limit:
                    yield self._flushed(place, "seconds")

    def end(self) -> Iterator[Flushed[Tuples]]:
        """Yield what is left, at the end."""
        for place in sorted(self._waiting):
            yield self._flushed(place, "end")

    def _flushed(self, place: int, cause: Cause, last: int = -1) -> Flushed[Tuples]:
        buffer = self._waiting.pop(place)
        return Flushed(place, buffer.rows, self._kind.joined(buffer.parts), cause, last)


def _sums(sizes: Floats) -> Floats:
    """Return the bytes of all tuples before each, and of all."""
    total = np.zeros(len(sizes) + 1)
    np.cumsum(sizes, out=total[1:])
    return total


class OutputBuffers:
    """The buffers of one producer's instance.

    >>> buffers = OutputBuffers([2, 2], FlushRules(rows=2), alike=[(0, 1)])
    >>> sent = buffers.add({"x": np.array([7, 8, 9])}, [np.array([0, 1, 0])] * 2)
    >>> [(batch.receivers, batch.columns["x"].tolist()) for batch in sent]
    [(((0, 0), (1, 0)), [7, 9])]
    >>> [(batch.columns["x"].tolist(), batch.cause) for batch in buffers.end()]
    [([8], 'end')]

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
        self._instances, self._rules = list(instances), rules
        self._pools = [
            PoolBuffers(pool, rules, OfColumns())
            for pool in pools_of(instances, shared=shared, alike=alike)
        ]

    @property
    def count(self) -> int:
        """How many buffers there are."""
        return sum(each.pool.count for each in self._pools)

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
        self._check(columns, targets, sizes)
        weights = 0.0 if sizes is None else np.asarray(sizes, np.float64)
        sent = [
            (flushed.last, which, _batch(each.pool, flushed))
            for which, each in enumerate(self._pools)
            for flushed in each.add(
                columns, [targets[group[0]] for group in each.pool.groups], sizes=weights, now=now
            )
        ]
        return [batch for _, _, batch in sorted(sent, key=lambda each: each[:2])]

    def due(self, now: float) -> list[Batch]:
        """Return the batches whose first tuple has waited as long as it may."""
        return [_batch(each.pool, one) for each in self._pools for one in each.due(now)]

    def end(self) -> list[Batch]:
        """Return what is left, at the end of the stream."""
        return [_batch(each.pool, one) for each in self._pools for one in each.end()]

    def _check(self, columns: Columns, targets: Sequence[Integers], sizes: Floats | None) -> None:
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


def _batch(pool: Pool, flushed: Flushed[Columns]) -> Batch:
    return Batch(pool.receivers(flushed.place), flushed.tuples, flushed.cause)


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
