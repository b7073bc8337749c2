"""Routers that give heavy keys more than two choices, as two are not enough at scale."""

import heapq
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from grouping.hashing import code_parts
from grouping.key_batch import KeyBatch
from grouping.routers import KeyRouter, candidates
from sketches.arrays import Codes, Parts
from sketches.space_saving import SpaceSaving

Shares: TypeAlias = NDArray[np.float64]

# The head is looked at again after this many tuples, and more often at the start of the stream.
# By tuples rather than by batches, so that routing does not depend on how the stream was cut.
_FIRST_LOOK = 1 << 8
_LONGEST_WAIT = 1 << 14

# A sketch of c counters errs by 1/c of the stream: by a tenth of the least share that counts.
_COUNTERS = 10


class InstanceOffer:
    """The instances that heavy keys may choose from, and which of them has the least load.

    A heap holds, for each instance, a load it once had and its place in the offer. Loads only
    grow, so an entry at the top that still holds is the least of all, and the first of equals;
    one that does not is brought up to date and sinks. So the many loads need not be compared.

    Args:
        loads: the load of every instance, which others add to.
        instances: the offer; the first of equally loaded ones is chosen.
    """

    def __init__(self, loads: list[int], instances: Sequence[int]) -> None:
        self._loads = loads
        self._instances = instances
        count = len(instances)
        self._heap = [loads[instance] * count + place for place, instance in enumerate(instances)]
        heapq.heapify(self._heap)

    def pick(self) -> int:
        """Return the least loaded instance."""
        loads, instances, heap = self._loads, self._instances, self._heap
        count = len(instances)
        while True:
            top = heap[0]
            place = top % count
            instance = instances[place]
            current = loads[instance] * count + place
            if top == current:
                return instance
            heapq.heapreplace(heap, current)


class WChoicesRouter(KeyRouter):
    """Sends heavy keys to the least loaded of all instances, and others to one of two.

    A key is heavy whose share of what this router has sent is at least a threshold, as far as its
    `SpaceSaving` sketch can tell. It takes stock at points of the stream that depend only on how
    many tuples came before: after 256, then whenever the stream has doubled, and at the latest
    after 16384 more.

    The load is what this router itself has sent. A tie of two goes to the first; a tie of all to
    the next instance from the sender's number on.

    Args:
        instances: how many instances there are.
        threshold: the least share of a heavy key.
        sender: the number of the sending instance.

    References:
        Nasir et al., "When two choices are not enough: Balancing at scale in distributed stream
        processing", ICDE 2016.
    """

    def __init__(self, instances: int, *, threshold: float, sender: int) -> None:
        super().__init__(instances)
        self._threshold = threshold
        self._loads = [0] * instances
        first = sender % instances
        self._all = InstanceOffer(self._loads, [*range(first, instances), *range(first)])
        self._seen = SpaceSaving(math.ceil(_COUNTERS / threshold), block=_LONGEST_WAIT)
        self._routed = 0
        self._seed = 0  # of the codes that come
        self._next_look = _FIRST_LOOK
        self._head: dict[int, InstanceOffer] = {}

    def _route(self, batch: KeyBatch) -> Parts:
        codes = batch.codes
        self._seed = batch.column.seed
        first, second = candidates(batch, self._instances, 2)
        chosen = np.empty(len(codes), dtype=np.int32)
        start = 0
        while start < len(codes):
            span = slice(start, start + self._next_look - self._routed)
            chosen[span] = self._choose(codes[span], first[span], second[span])
            self._count(codes[span])
            start = span.stop
        return chosen

    def _choose(self, codes: Codes, first: Parts, second: Parts) -> list[int]:
        """Choose for each tuple under the present head."""
        loads, head = self._loads, self._head
        chosen: list[int] = []
        for code, one, other in zip(codes.tolist(), first.tolist(), second.tolist(), strict=True):
            offer = head.get(code)
            if offer is not None:
                part = offer.pick()
            elif loads[other] < loads[one]:
                part = other
            else:
                part = one
            loads[part] += 1
            chosen.append(part)
        return chosen

    def _count(self, codes: Codes) -> None:
        """Remember what was routed, and take stock if it is time."""
        self._seen.update(codes.view(np.int64))
        self._routed += len(codes)
        if self._routed == self._next_look:
            self._next_look += min(self._routed, _LONGEST_WAIT)
            keys, estimates, _ = self._seen.arrays()
            shares = estimates / self._routed
            heavy = shares >= self._threshold
            self._head = self._offers(keys[heavy].view(np.uint64), shares[heavy])

    def _offers(self, codes: Codes, shares: Shares) -> dict[int, InstanceOffer]:
        """Return what each heavy key may choose from; the heaviest comes first."""
        return dict.fromkeys(codes.tolist(), self._all)


class DChoicesRouter(WChoicesRouter):
    """Sends each heavy key to the least loaded of a few instances, as few as balance needs.

    How many is worked out from the shares of the heavy keys, by `choices_needed`; if all are,
    this is a `WChoicesRouter`, which says what a heavy key is and when that is looked at.

    Args:
        instances: how many instances there are.
        threshold: the least share of a heavy key.
        tolerance: what imbalance is aimed at, as a share of the stream.
        sender: the number of the sending instance.

    References:
        Nasir et al., "When two choices are not enough: Balancing at scale in distributed stream
        processing", ICDE 2016.
    """

    def __init__(self, instances: int, *, threshold: float, tolerance: float, sender: int) -> None:
        super().__init__(instances, threshold=threshold, sender=sender)
        self._tolerance = tolerance

    def _offers(self, codes: Codes, shares: Shares) -> dict[int, InstanceOffer]:
        """Return what each heavy key may choose from; the heaviest comes first."""
        choices = choices_needed(shares, self._instances, tolerance=self._tolerance)
        if choices == self._instances:
            return super()._offers(codes, shares)
        offers = [
            code_parts(codes, self._instances, choice=choice, seed=self._seed).tolist()
            for choice in range(choices)
        ]
        return {
            code: InstanceOffer(self._loads, offer)
            for code, offer in zip(codes.tolist(), zip(*offers, strict=True), strict=True)
        }


def choices_needed(shares: Shares, instances: int, *, tolerance: float) -> int:
    """Return how many choices the heavy keys need for the load to be even.

    The smallest ``d`` for which no prefix of the heavy keys overloads its instances. The ``h``
    heaviest keys have ``b = n - n ((n - 1) / n)^(h d)`` instances on average. These take all
    tuples of those keys, and of another key what only meets such instances among its choices, so
    it must hold, for each ``h``, that::

        sum of the h heaviest + (b / n)^d * other heavy keys + (b / n)^2 * rest  <=  b (1 / n + e)

    Args:
        shares: the shares of the heavy keys, the heaviest first.
        instances: ``n``.
        tolerance: ``e``.

    Returns:
        A number from 2 (1 if there is one instance) to ``instances``, which serves if nothing
        smaller does.

    References:
        Nasir et al., ICDE 2016, section "Balancing heavy hitters". Their published simulator asks
        it of the heaviest key and of all heavy keys only.
    """
    if not len(shares):
        return min(2, instances)
    upto = np.cumsum(shares)
    heavy, rest = upto[-1], max(0.0, 1.0 - upto[-1])
    ranks = np.arange(1, len(shares) + 1)
    missed = (instances - 1) / instances
    # By the heaviest key alone, as d choices are at most d instances: p <= d (1 / n + e).
    fewest = math.ceil(shares[0] / (1 / instances + tolerance))
    for choices in range(max(2, fewest), instances):
        met = 1 - missed ** (ranks * choices)  # b / n
        load = upto + met**choices * (heavy - upto) + met**2 * rest
        if (load <= met * (1 + tolerance * instances)).all():
            return choices
    return instances
