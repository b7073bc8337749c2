"""The evidence for a division of keys: pairs of the last epoch and earlier ones, and a test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from grouping.key_slots import ABSENT, KeySlots
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from sketches.arrays import Floats
from sketches.keys import KeyColumn

Hops: TypeAlias = Mapping[tuple[str, str], KeyPairs]
Counts: TypeAlias = Mapping[str, KeyCounts]


@dataclass(frozen=True)
class Lesson:
    """Pairs to learn from, and counts of their keys where these are known.

    Attributes:
        hops: the pairs of each two consecutive keyed operators.
        counts: the keys of some of the operators.
    """

    hops: Hops
    counts: Counts = field(default_factory=dict)

    def graph(self, order: Sequence[str]) -> KeyGraph:
        """Return the graph of the pairs, its operators in this order."""
        return KeyGraph.of(self.hops, order, counts=self.counts)


@dataclass(frozen=True)
class Evidence:
    """The observations of some hops' keys, in parts to learn from and a part to test on.

    The part to test on are the pairs held out. That is best, since a full sketch has chosen the
    pairs that it reports by the same tuples that it counts. If none were held out, it is a random
    half of all pairs.

    >>> pairs = {("a", "b"): KeyPairs([1, 2], [1, 2], [40, 60])}
    >>> evidence = Evidence(pairs, held_out={("a", "b"): KeyPairs([2], [2], [50])})
    >>> evidence.tested[("a", "b")].total, evidence.seen[("a", "b")].total
    (50.0, 150.0)

    Attributes:
        pairs: pairs of the last epoch, by hop.
        held_out: pairs of the last epoch that are not among ``pairs``.
        earlier: pairs of the epochs before; those of hops without pairs in the last do not count.
        counts: the keys of the operators in the last epoch.
        seed: of the halves, if no pairs were held out.
    """

    pairs: Hops
    held_out: Hops = field(default_factory=dict)
    earlier: Hops = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def seen(self) -> Hops:
        """All pairs of the last epoch, by hop; hops without any are left out."""
        return {
            hop: pairs
            for hop, pairs in _together(self.held_out, self.pairs).items()
            if pairs.total > 0
        }

    @cached_property
    def past(self) -> Hops:
        """The pairs of the epochs before, of hops that were seen in the last one as well."""
        return {
            hop: pairs
            for hop, pairs in self.earlier.items()
            if hop in self.seen and pairs.total > 0
        }

    @property
    def taught(self) -> Hops:
        """Those pairs of the last epoch to learn from before a test."""
        return self._halves[0]

    @property
    def tested(self) -> Hops:
        """The other pairs of the last epoch, to test a division on."""
        return self._halves[1]

    def lesson(self, pairs: Hops, *, with_past: bool) -> Lesson:
        """Return these pairs of the last epoch as a lesson, together with those before or alone."""
        if with_past and self.past:
            return Lesson(_together(self.past, pairs), self._counts_ever)
        return Lesson(pairs, self.counts)

    @cached_property
    def _halves(self) -> tuple[Hops, Hops]:
        taught, tested = {}, {}
        for hop, pairs in self.seen.items():
            held_out = self.held_out.get(hop)
            if held_out is not None and 0 < held_out.total < pairs.total:
                taught[hop], tested[hop] = self.pairs[hop], held_out
            else:
                taught[hop], tested[hop] = pairs.halved(self.seed)
        return taught, tested

    @cached_property
    def _counts_ever(self) -> Counts:
        """How often the keys came in all epochs.

        Of earlier epochs only pairs are known. They are taken to hold the same share of a key's
        tuples as the pairs of the last epoch.
        """
        if not self.counts:
            return {}
        ever, last = KeyGraph.of(_together(self.past, self.seen)), KeyGraph.of(self.seen)
        ever_counts = {}
        for name, counts in self.counts.items():
            keys: Any = counts.column
            before, now = _loads(ever, name, keys), _loads(last, name, keys)
            share = np.divide(now, counts.counts, out=np.ones_like(now), where=counts.counts > 0)
            whole = before / np.where(share > 0, share, 1.0)
            # Keys that are in no pair of the last epoch are added by their counts.
            ever_counts[name] = KeyCounts(keys, whole + np.where(now > 0, 0.0, counts.counts))
        return ever_counts


def _loads(graph: KeyGraph, name: str, keys: KeyColumn) -> Floats:
    """Return how many tuples each key has by the graph; 0 if it has none of these keys."""
    loads = np.zeros(len(keys))
    if name in graph.names:
        operator = graph.names.index(name)
        column, span = graph.columns[operator], graph.span(operator)
        places = KeySlots(column).find(keys)
        known = places != ABSENT
        loads[known] = graph.loads[span][places[known]]
    return loads


def _together(earlier: Hops, later: Hops) -> Hops:
    """Return the pairs of earlier and of later epochs, of the hops that the later ones have."""
    return {
        hop: earlier[hop].together(pairs) if hop in earlier else pairs
        for hop, pairs in later.items()
    }
