"""The costs that the scheduler of `LeastWork` knows: by key, and by the pace of an instance."""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from sketches.cost_sketch import CostSketch
from sketches.key_columns import IntegerKeys

Tally: TypeAlias = tuple[int, int, float]
"""The code of a key, how many of its tuples were executed, and how many seconds they took."""

_WINDOW = 16  # tuples in the mean of a key, so that it follows a cost that changes
_FIRST = 4.0  # how many tuples the mean of all counts as, beside the costs of unknown keys
_FORGET = 0.995  # what an error counts one observation later


class CostTable:
    """The cost of a tuple of each key, learned while it is used, in a bounded amount of memory.

    Keys are kept with the moving mean of their costs. When there are twice the allowed number, the
    rarer half goes into a `CostSketch`, as rare keys do, and is still known from there. A new key
    is expected to cost what others did at first: that says more about rare keys than the mean of
    all tuples, which is that of a few frequent keys.

    It checks itself. Where costs do not depend on keys, a mean of few tuples is worse than none;
    while its recent estimates are further off than the mean of all would have been, the table
    answers with that mean.

    >>> table = CostTable(keys=100)
    >>> for code, seconds in ((1, 0.5), (2, 4.0), (1, 0.7)):
    ...     table.learn(code, 1, seconds)
    >>> round(table.estimate(1), 3), table.estimate(2)
    (0.6, 4.0)

    Args:
        keys: how many keys have a mean of their own.
        width: how many cells a row of the sketch of all others has.
        depth: how many rows it has.
        seed: of its hashes.
    """

    def __init__(self, keys: int, *, width: int = 256, depth: int = 4, seed: int = 0) -> None:
        self._keys = keys
        self._table: dict[int, list[float]] = {}  # by code: how many tuples, their moving mean
        self._rest = CostSketch(width, depth, seed)
        self._from_rest: dict[int, float] = {}
        self._count = 0.0
        self._seconds = 0.0
        self._firsts = 0.0
        self._first_seconds = 0.0
        self._error = 0.0
        self._error_of_mean = 0.0

    @classmethod
    def knowing(cls, costs: CostSketch | None, keys: int) -> "CostTable":
        """Return a table that begins with what a sketch knows of its heaviest keys."""
        table = cls(keys)
        if costs is not None and costs.total:
            codes, counts, seconds = costs.heaviest()
            order = np.argsort(-counts, kind="stable")[:keys]
            for place in order.tolist():
                count = float(counts[place])
                table._table[int(codes[place])] = [count, float(seconds[place]) / count]
            table._count, table._seconds = costs.total, costs.total_cost
            rest, its_seconds = costs.total - counts.sum(), costs.total_cost - seconds.sum()
            if rest > 0:
                table._firsts, table._first_seconds = 1.0, max(0.0, its_seconds / rest)
        return table

    def __len__(self) -> int:
        """How many keys have a mean of their own."""
        return len(self._table)

    @property
    def empty(self) -> bool:
        """Whether nothing was learned."""
        return not self._count

    @property
    def mean(self) -> float:
        """The mean cost of all tuples; 0 if there was none."""
        return self._seconds / self._count if self._count else 0.0

    @property
    def unknown(self) -> float:
        """The expected cost of a tuple with a new key."""
        return (self._first_seconds + _FIRST * self.mean) / (self._firsts + _FIRST)

    @property
    def informed(self) -> bool:
        """Whether keys predict costs better than the mean of all."""
        return self._error <= self._error_of_mean

    def estimate(self, code: int) -> float:
        """Return the expected cost of a tuple of this key."""
        if self._error > self._error_of_mean:
            return self.mean
        known = self._table.get(code)
        if known is not None:
            return known[1]
        return self._among_the_rest(code) if self._rest.total else self.unknown

    def knows(self, code: int) -> bool:
        """Return whether a key has a mean of its own, of more than one tuple."""
        known = self._table.get(code)
        return known is not None and known[0] > 1

    def learn(self, code: int, count: int, seconds: float) -> None:
        """Take in the cost of some tuples of one key together."""
        cost = seconds / count
        self._count += count
        self._seconds += seconds
        known = self._table.get(code)
        if known is None:
            self._firsts += 1.0
            self._first_seconds += cost
            self._table[code] = [float(count), cost]
            if len(self._table) > 2 * self._keys:
                self._make_room()
            return
        self._compare(known[1], cost)
        known[0] += count
        known[1] += (cost - known[1]) * count / min(known[0], max(_WINDOW, count))

    def _compare(self, estimate: float, cost: float) -> None:
        """Remember how far off an estimate was, and how far the mean would have been."""
        self._error = _FORGET * self._error + (cost - estimate) ** 2
        self._error_of_mean = _FORGET * self._error_of_mean + (cost - self.mean) ** 2

    def _among_the_rest(self, code: int) -> float:
        found = self._from_rest.get(code)
        if found is None:
            if len(self._from_rest) >= self._keys:
                self._from_rest.clear()
            column = IntegerKeys(np.array([code], dtype=np.uint64))
            found = self._from_rest[code] = float(self._rest.estimate(column)[0])
        return found

    def _make_room(self) -> None:
        """Move the rarer half of the keys into the sketch; of equals, those that came last."""
        ranked = sorted(self._table.items(), key=lambda item: -item[1][0])
        leaving = ranked[self._keys :]
        codes = np.array([code for code, _ in leaving], dtype=np.uint64)
        counts, means = np.array([known for _, known in leaving]).T
        self._rest.update(IntegerKeys(codes), counts * means, counts)
        self._table = dict(ranked[: self._keys])
        self._from_rest.clear()


_LASTING = 0.995  # the weight of a tuple one tuple later, in the pace of an instance
_SURE = 4.0  # standard errors from which an instance is taken for faster or slower
_LEAST = 0.05  # by how much at least
_ENOUGH = 64.0  # tuples that it must have been measured on
_BETTER = 0.7  # how much smaller the errors of an instance's own costs must be for these to be used
_NOTABLE = 0.01  # below this share of the squares of costs, errors do not matter


class InstanceCosts:
    """The costs at each instance: learned from all together, as far as they agree.

    One instance's costs are true of the others, so all are learned in one table, which fills faster
    by their number. An instance that is surely faster or slower gets a pace: its time as a multiple
    of the usual. One whose costs differ key by key, so that its own few tuples predict more than
    those of all, gets a table of its own.

    Args:
        instances: how many there are.
        keys: how many keys have a mean of their own; see `CostTable`.
        costs: the costs known at the start.
        paces: likewise.
    """

    def __init__(
        self,
        instances: int,
        keys: int,
        *,
        costs: CostSketch | None = None,
        paces: tuple[float, ...] = (),
    ) -> None:
        self.shared = CostTable.knowing(costs, keys)
        self.paces = list(paces) or [1.0] * instances
        self._own = [CostTable(max(1, keys // instances)) for _ in range(instances)]
        self._paces = [_InstancePace(pace) for pace in self.paces]
        self._trials = [_CostTrial() for _ in range(instances)]
        self.apart: set[int] = set()
        """The instances whose costs are estimated from tables of their own."""
        self.uniform = all(pace == 1.0 for pace in self.paces)
        """Whether all instances are taken for equal."""

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self.shared.empty

    def estimate(self, code: int, instance: int) -> float:
        """Return the expected cost of a tuple of this key at an instance."""
        if instance in self.apart and self._own[instance].knows(code):
            return self._own[instance].estimate(code)
        return self.shared.estimate(code) * self.paces[instance]

    def learn(self, instance: int, tallies: Iterable[Tally]) -> None:
        """Take in the tuples that an instance has executed."""
        own, pace, trial = self._own[instance], self._paces[instance], self._trials[instance]
        usual = self.paces[instance]
        for code, count, seconds in tallies:
            expected = self.shared.estimate(code)
            if expected:
                pace.see(expected * count, seconds, count)
            if own.knows(code):
                trial.see(own.estimate(code), expected * usual, seconds / count)
            own.learn(code, count, seconds)
            self.shared.learn(code, count, seconds / usual)
        self.paces[instance] = pace.estimate
        if trial.own_is_better:
            self.apart.add(instance)
        else:
            self.apart.discard(instance)
        if not self.uniform or self.apart or self.paces[instance] != 1.0:
            self.uniform = not self.apart and all(pace == 1.0 for pace in self.paces)


class _InstancePace:
    """The pace of an instance: its time as a multiple of the usual."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._seen = 0.0
        self._expected = 0.0
        self._taken = 0.0
        self._squares = 0.0

    def see(self, expected: float, taken: float, count: int) -> None:
        """Take in how long some tuples took, and how long they would have on the whole."""
        kept = _LASTING**count
        self._seen = kept * self._seen + count
        self._expected = kept * self._expected + expected
        self._taken = kept * self._taken + taken
        pace = self._taken / self._expected if self._expected else 1.0
        self._squares = kept * self._squares + (taken - pace * expected) ** 2

    @property
    def estimate(self) -> float:
        """The pace; 1 unless it is sure to be another."""
        if self._seen < _ENOUGH:
            return self._start
        pace = self._taken / self._expected
        unsure = self._squares**0.5 / self._expected
        return pace if abs(pace - 1.0) > max(_LEAST, _SURE * unsure) else 1.0


class _CostTrial:
    """Whether an instance's own costs have lately been nearer the truth than those of all."""

    def __init__(self) -> None:
        self._seen = 0.0
        self._own = 0.0
        self._shared = 0.0
        self._costs = 0.0

    def see(self, own: float, shared: float, cost: float) -> None:
        """Take in both estimates, and the real cost."""
        self._seen = _LASTING * self._seen + 1.0
        self._own = _LASTING * self._own + (own - cost) ** 2
        self._shared = _LASTING * self._shared + (shared - cost) ** 2
        self._costs = _LASTING * self._costs + cost * cost

    @property
    def own_is_better(self) -> bool:
        return (
            self._seen >= _ENOUGH
            and self._own < _BETTER * self._shared
            and self._shared > _NOTABLE * self._costs
        )
