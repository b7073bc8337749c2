"""Moving whole bundles of keys from part to part, few enough to compare all moves."""

from dataclasses import dataclass

import numpy as np

from sketches.arrays import Floats, Integers

_PASSES = 16
_PATIENCE = 64  # moves that a pass goes on for without an improvement
_ROUNDING = 1e-9  # the most that sums of the same loads in another order may differ by

# Beginning with less than the whole price lets bundles pass through full parts.
_FIRST_SHARES = (0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Bundles:
    """The bundles; first, for each part, one with the rest of it, which stays.

    Attributes:
        loads: the load of each bundle, of shape (operators, bundles).
        weights: the weight of the pairs between each two bundles, 0 between one and itself.
        worth: the worth in pairs of each bundle being in each part, of shape (bundles, parts).
    """

    loads: Floats
    weights: Floats
    worth: Floats

    def __len__(self) -> int:
        return len(self.weights)


class BundleSearch:
    """Looks for a good part for each bundle, by moving one after the other.

    Each pass moves every bundle once at most, always the one that gains most, also at a loss, and
    then goes back to the best division on its way.

    References:
        C. M. Fiduccia, R. M. Mattheyses, "A linear-time heuristic for improving network
        partitions", DAC 1982.
    """

    def __init__(self, bundles: Bundles, limits: Floats, price: float) -> None:
        self._bundles = bundles
        self._limits = limits
        self._price = price
        self._rows = np.arange(len(bundles))
        self._passed: dict[tuple[bytes, float], Integers] = {}
        # A smaller gain may be rounding only.
        self._least = _ROUNDING * float(bundles.weights.sum() + bundles.loads.sum())

    def best(self, start: Integers) -> Integers:
        """Return the part of each bundle: never worse than at the start."""
        best, most = start, self.value(start)
        for share in _FIRST_SHARES:
            found = self._improved(start, share * self._price)
            if share != 1.0:
                found = self._improved(found, self._price)
            value = self.value(found)
            if value > most + self._least:
                best, most = found, value
        return best

    def value(self, parts: Integers) -> float:
        """Return the pairs within parts and what it is worth to be there, less what is above."""
        together = self._bundles.weights[parts[:, np.newaxis] == parts].sum() / 2
        there = self._bundles.worth[self._rows, parts].sum()
        above = np.maximum(self._held(parts) - self._limits, 0.0).sum()
        return float(together + there - self._price * above)

    def _improved(self, parts: Integers, price: float) -> Integers:
        """Return a better division, at a price for each tuple above a limit, or this one."""
        for _ in range(_PASSES):
            question = parts.tobytes(), price
            better = self._passed.get(question)
            if better is None:  # searches from several starts often reach the same division
                better = self._passed[question] = self._pass(parts, price)
            if np.array_equal(better, parts):
                break
            parts = better
        return parts

    def _pass(self, start: Integers, price: float) -> Integers:
        bundles, rows = self._bundles, self._rows
        number = self._limits.shape[1]
        parts, best = start.copy(), start.copy()
        held, pulls = self._held(parts), self._pulls(parts)
        worth = pulls - price * self._added(held, list(range(number)))
        closed = np.zeros_like(worth)  # added to the gain of a move, to rule it out
        closed[rows, parts] = -np.inf
        closed[:number] = -np.inf  # what parts have that is no bundle stays
        gains = np.empty_like(worth)
        waiting = len(rows) - number
        gained, most, since = 0.0, self._least, 0
        while since < _PATIENCE and waiting:
            # Bundles that have moved stay where they are, so the others are where they were.
            staying = pulls[rows, start] - price * self._freed(held, start)
            np.subtract(worth, staying[:, np.newaxis], out=gains)
            np.add(gains, closed, out=gains)
            bundle, there = divmod(int(gains.argmax()), number)
            gained += float(gains[bundle, there])
            here = int(parts[bundle])
            parts[bundle] = there
            closed[bundle] = -np.inf
            for table, moved in (
                (held, bundles.loads[:, bundle]),
                (pulls, bundles.weights[:, bundle]),
            ):
                table[:, here] -= moved
                table[:, there] += moved
            both = [here, there]
            worth[:, both] = pulls[:, both] - price * self._added(held, both)
            waiting -= 1
            since += 1
            if gained > most:
                best, most, since = parts.copy(), gained + self._least, 0
        return best

    def _held(self, parts: Integers) -> Floats:
        """Return the load of each part, of shape (operators, parts)."""
        number = self._limits.shape[1]
        return np.stack([np.bincount(parts, loads, number) for loads in self._bundles.loads])

    def _pulls(self, parts: Integers) -> Floats:
        """Return what it is worth to each bundle, apart from the limits, to be in each part."""
        size, number = self._bundles.worth.shape
        cells = self._rows[:, np.newaxis] * number + parts
        pairs = np.bincount(cells.reshape(-1), self._bundles.weights.reshape(-1), size * number)
        return np.asarray(pairs.reshape(size, number) + self._bundles.worth)

    def _added(self, held: Floats, columns: list[int]) -> Floats:
        """Return how much more would be above the limits of some parts with each bundle."""
        above = held[:, columns] - self._limits[:, columns]
        wider = above[:, np.newaxis] + self._bundles.loads[:, :, np.newaxis]
        more = np.maximum(wider, 0.0) - np.maximum(above, 0.0)[:, np.newaxis]
        return np.asarray(np.add.reduce(more, axis=0))

    def _freed(self, held: Floats, parts: Integers) -> Floats:
        """Return how much less would be above the limit of each bundle's part without it."""
        above = (held - self._limits)[:, parts]
        less = np.maximum(above, 0.0) - np.maximum(above - self._bundles.loads, 0.0)
        return np.asarray(np.add.reduce(less, axis=0))
