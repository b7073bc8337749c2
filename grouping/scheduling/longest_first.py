"""Longest processing time first: tuples of known costs, divided evenly among instances."""

from collections.abc import Iterator
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.hashing import LARGEST_PARTS
from sketches.arrays import Floats, Parts
from sketches.checks import weights, whole
from sketches.errors import InvalidValueError

# From this many tuples of one cost on, it is quicker to place them all at once.
_LONG_RUN = 48

# Up to this many speeds, a heap for each is quicker than looking through all instances.
_MOST_HEAPS = 8


def longest_first(costs: Any, instances: int, *, loads: Any = None, speeds: Any = None) -> Parts:
    """Return the instance of each tuple: the costliest first, each to where it is done first.

    Of instances where it would be done at the same time, the one with the lowest number; of
    tuples of one cost, the first. Tuples that cost nothing are dealt out in turn. On instances
    that are equally fast and begin empty, the last is done no later than 4/3 - 1 / (3 * instances)
    times the time of the best division.

    Tuples of one cost are gone through together, so that many of few costs take little time.

    >>> longest_first([1, 5, 4, 3, 3], 2).tolist()
    [1, 0, 1, 1, 0]
    >>> longest_first([6, 6, 6], 2, loads=[9, 0], speeds=[1, 2]).tolist()
    [1, 1, 1]

    Args:
        costs: how long each tuple takes at speed 1: finite and not negative.
        instances: how many there are.
        loads: how long each has work already; nothing if left out.
        speeds: how fast each is, where 2 halves the time; 1 if left out.

    Raises:
        InvalidValueError: a number is out of its range, or there is not one for each instance.

    References:
        R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied
        Mathematics 17(2), 1969.
        T. Gonzalez, O. H. Ibarra, S. Sahni, "Bounds for LPT schedules on uniform processors",
        SIAM Journal on Computing 6(1), 1977.
    """
    count = whole("instances", instances, at_least=1, at_most=LARGEST_PARTS)
    costs = weights("costs", costs, np.size(costs))
    division = _Queues(
        np.zeros(count) if loads is None else weights("loads", loads, count),
        np.ones(count) if speeds is None else _speeds(speeds, count),
    )
    division.check_range(costs)
    order = np.argsort(-costs, kind="stable")
    parts = np.empty(len(costs), dtype=np.int32)
    for span, at_once in _spans(costs[order], count):
        chosen = division.give_run if at_once else division.give_each
        parts[order[span]] = chosen(costs[order[span]])
    return parts


def _speeds(speeds: Any, count: int) -> Floats:
    checked = weights("speeds", speeds, count)
    if not checked.all():
        place = int(checked.argmin())
        raise InvalidValueError(
            f"speeds[{place}]=0.0: that instance is never done; leave it out, or give its speed"
        )
    return checked


def _spans(ranked: Floats, instances: int) -> Iterator[tuple[slice, bool]]:
    """Yield stretches of sorted costs, and whether each is of one cost and long."""
    starts = np.flatnonzero(np.diff(ranked, prepend=np.inf))
    ends = np.append(starts[1:], len(ranked))
    # In a run that is shorter than this, going through all instances would take longer.
    long = ends - starts >= max(_LONG_RUN, instances // 8)
    done = 0
    for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
        if done < start:
            yield slice(done, start), False
        yield slice(start, end), True
        done = end
    if done < len(ranked):
        yield slice(done, len(ranked)), False


class _Queues:
    """How long each instance has work, and which one gets the next tuples.

    Args:
        loads: how long each has work already.
        speeds: how fast each is.
    """

    def __init__(self, loads: Floats, speeds: Floats) -> None:
        self._loads = loads.copy()
        self._speeds = speeds

    def check_range(self, costs: Floats) -> None:
        """Refuse costs whose sum would leave the range of a double."""
        with np.errstate(over="ignore"):
            total, slowest = float(costs.sum()), float(self._speeds.min())
            longest = self._loads.max() + costs.sum() / slowest
        if not longest < np.inf:
            raise InvalidValueError(
                f"costs of {total!r} in all at speed {slowest!r} leave the range of a double; "
                "measure in a larger unit"
            )

    def give_run(self, costs: Floats) -> Parts:
        """Return the instance of each of many tuples of one cost."""
        cost, count = float(costs[0]), len(costs)
        if not cost:
            return self._give_free(count)
        steps = cost / self._speeds
        numbers = self._enough(steps, count)
        if numbers is None:
            return self._give_heaps(costs)
        # The times at which each instance would be done with its first, its second, and so on.
        who = np.repeat(np.arange(len(numbers), dtype=np.int32), numbers)
        which = np.arange(1, len(who) + 1) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        times = self._loads[who] + which * steps[who]
        chosen = who[np.argsort(times, kind="stable")[:count]]
        self._loads += np.bincount(chosen, minlength=len(numbers)) * steps
        return chosen

    def _enough(self, steps: Floats, count: int) -> NDArray[np.int64] | None:
        """Return how many tuples each instance might be given, with a few to spare.

        That is, how many it could do until some time by which all tuples are done, but not many
        more. None if times differ too little for that to be found out.
        """
        low, high = float(self._loads.min()), float((self._loads + count * steps).min())
        most = count + len(steps)
        numbers = self._until(high, steps)
        while numbers.sum() > most:
            middle = (low + high) / 2
            if not low < middle < high:
                return None
            fewer = self._until(middle, steps)
            if fewer.sum() >= count:
                high, numbers = middle, fewer
            else:
                low = middle
        # One more of each, as the quotients may have been rounded down to the number before.
        return (numbers + 1).astype(np.int64) if numbers.sum() >= count else None

    def _until(self, time: float, steps: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.floor(np.maximum(0.0, time - self._loads) / steps)

    def give_each(self, costs: Floats) -> Parts:
        """Return the instance of each of some tuples of falling costs."""
        free = np.searchsorted(-costs, 0.0)
        if len(np.unique(self._speeds)) <= _MOST_HEAPS:
            paid = self._give_heaps(costs[:free])
        else:
            paid = self._give_scanning(costs[:free])
        return np.concatenate([paid, self._give_free(len(costs) - int(free))])

    def _give_heaps(self, costs: Floats) -> Parts:
        """Compare the least loaded instances of each speed."""
        loads = self._loads.tolist()
        heaps = []
        for speed in np.unique(self._speeds):
            equal = np.flatnonzero(self._speeds == speed).tolist()
            heaps.append([(loads[instance], instance) for instance in equal])
            heapify(heaps[-1])
        steps = [(costs / speed).tolist() for speed in np.unique(self._speeds)]
        chosen = _one_heap(heaps[0], steps[0]) if len(heaps) == 1 else _some_heaps(heaps, steps)
        for heap in heaps:
            for load, instance in heap:
                self._loads[instance] = load
        return np.array(chosen, dtype=np.int32)

    def _give_scanning(self, costs: Floats) -> Parts:
        """Look at every instance for every tuple."""
        loads, speeds = self._loads, self._speeds
        times = np.empty_like(loads)
        chosen = np.empty(len(costs), dtype=np.int32)
        for place, cost in enumerate(costs.tolist()):
            np.divide(cost, speeds, out=times)
            np.add(times, loads, out=times)
            instance = times.argmin()
            loads[instance] = times[instance]
            chosen[place] = instance
        return chosen

    def _give_free(self, count: int) -> Parts:
        """Deal out tuples that cost nothing."""
        return np.arange(count, dtype=np.int32) % np.int32(len(self._loads))


def _one_heap(heap: list[tuple[float, int]], steps: list[float]) -> list[int]:
    """Give each tuple to the instance with the least load."""
    chosen: list[int] = []
    choose = chosen.append
    for step in steps:
        load, instance = heap[0]
        choose(instance)
        heapreplace(heap, (load + step, instance))
    return chosen


def _some_heaps(heaps: list[list[tuple[float, int]]], steps: list[list[float]]) -> list[int]:
    """Give each tuple to the one that is done first of the least loaded of each speed."""
    chosen: list[int] = []
    for at_each in zip(*steps, strict=True):
        done, instance, best = min(
            (heap[0][0] + step, heap[0][1], number)
            for number, (heap, step) in enumerate(zip(heaps, at_each, strict=True))
        )
        chosen.append(instance)
        heapreplace(heaps[best], (done, instance))
    return chosen
