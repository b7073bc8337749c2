"""Probes: what tasks observe, for their reports: small tables and vectors."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from grouping.key_batch import KeyBatch
from optimizers.errors import FoldError
from optimizers.folds.key_codes import take_rows
from optimizers.operators import Edge
from optimizers.runtime.observe.observation import Observation, Seen, Sighting
from optimizers.runtime.observe.sampling import Sample, Sampler
from optimizers.runtime.observe.table_sums import added_up, heaviest, joined
from optimizers.runtime.task.key_reader import key_batch, namable_keys, reworded
from optimizers.runtime.work import PACKED_AT_ONCE, JobContext
from optimizers.statistics import Probe
from sketches.arrays import Parts
from sketches.key_identity import distinct
from sketches.keys import Pairs, as_keys

_TOLD_AT_ONCE = 1 << 16  # samples of a hop; more are not kept waiting
_CELLS_COUNTED = 4  # for each sample, at most; where there are more, it is faster to sort


class EdgeProbe:
    """Counts with which keys of the keyed operators before them the tuples of an edge come.

    An operator before is one whose key columns the tuples still have; where they do not, or have
    nulls or other things there by now, nothing is known of it. Where there are many tuples, one of
    several is looked at.
    Pairs are counted of keys of one column.

    Args:
        work: the job.
        edge: the edge.
        sender: the number of who sends.
    """

    def __init__(self, work: JobContext, edge: Edge, sender: int) -> None:
        topology = work.topology
        self._looked_at = work.looked_at(edge.source)
        self._sampler = Sampler(topology.seed, topology.edges.index(edge), sender)
        self._tuples = 0
        wanted = work.settings.observes & {Probe.PAIRS, Probe.GROUPS}
        hops = work.hops.get(edge.name, ()) if wanted else ()
        self._hops = [_Hop(work, first, edge, wanted) for first in hops]

    def look(self, tuples: pa.Table, keys: KeyBatch) -> None:
        """Look at tuples, whose keys at the edge's target are these."""
        if not self._hops:
            return
        # Of the last tuples of a batch not more than of those before them; of all but the first,
        # half as many: each further one tells less.
        self._tuples += len(tuples)
        step = max(1, -(-min(self._tuples, PACKED_AT_ONCE) // self._looked_at))
        if self._tuples > PACKED_AT_ONCE:
            step *= 2
        sample = self._sampler.of(len(tuples), step)
        for hop in self._hops:
            if hop.may_know(tuples):
                hop.add(tuples, sample, keys)

    def tell(self) -> list[Sighting]:
        """Return what was seen since the last time."""
        return [seen for hop in self._hops for seen in hop.tell()]


class _Hop:
    """What was seen of the tuples of an edge that come from one keyed operator."""

    def __init__(self, work: JobContext, first: str, edge: Edge, wanted: frozenset[Probe]) -> None:
        before = work.topology.operator(first)
        self._names = first, edge.target
        self._before = before.key_columns
        self._seed = work.topology.seed
        self._columns = *before.key_columns, *work.topology.key_columns(*edge.name)
        owners = work.layout.owners(first), work.layout.owners(edge.target)
        self._owners = owners if Probe.GROUPS in wanted else None
        self._pairs = Probe.PAIRS in wanted and len(self._columns) == 2
        self._most_pairs = work.most_pairs(edge.source)
        self._sightings: list[Sighting] = []
        self._seen: list[pa.Table] = []
        self._right: list[Parts] = []  # key groups at the edge's target
        self._weights: list[NDArray[np.int64]] = []
        self._rows = 0

    def may_know(self, tuples: pa.Table) -> bool:
        """Return whether tuples still have the key columns of the operator before."""
        return set(self._before) <= set(tuples.column_names)

    def add(self, tuples: pa.Table, sample: Sample, keys: KeyBatch) -> None:
        """Look at a sample of tuples."""
        rows, weights = sample
        looked_at = take_rows(tuples.select(list(dict.fromkeys(self._columns))), rows)
        there = namable_keys(looked_at, self._columns)
        if not there.all():
            looked_at = reworded(looked_at.filter(pa.array(there)), looked_at.column_names)
            rows, weights = rows[there], weights[there]
        if not len(rows):
            return
        if self._seen and not self._seen[0].schema.equals(looked_at.schema):
            self._count()
        self._seen.append(looked_at)
        if self._owners is not None:
            places = rows if keys.places is None else keys.places[rows]
            self._right.append(self._owners[1].group_of(keys.column.take(places)))
        self._weights.append(weights)
        self._rows += len(rows)
        if self._rows >= _TOLD_AT_ONCE:
            self._count()

    def tell(self) -> list[Sighting]:
        """Return what was seen since the last time."""
        self._count()
        sightings, self._sightings = self._sightings, []
        pairs = [table for seen, table in sightings if seen.kind is Seen.PAIRS]
        if sum(map(len, pairs)) <= self._most_pairs:
            return sightings
        seen = Observation(Seen.PAIRS, self._names)
        others = [sighting for sighting in sightings if sighting[0] != seen]
        return [
            *((seen, self._heaviest(added_up(seen, table))) for table in joined(pairs)),
            *others,
        ]

    def _heaviest(self, pairs: pa.Table) -> pa.Table:
        """Return the pairs that came most often, as many as may be reported."""
        counts = pairs.column("count").to_numpy()
        return take_rows(pairs, np.sort(heaviest(counts, self._most_pairs)))

    def _count(self) -> None:
        """Count what is kept waiting."""
        if not self._seen:
            return
        tuples = pa.concat_tables(self._seen)
        right, weights = self._right, np.concatenate(self._weights)
        self._seen, self._right, self._weights, self._rows = [], [], [], 0
        try:
            where = f"operator {self._names[0]!r}"
            left = key_batch(tuples, self._before, where, self._seed)
        except FoldError:
            return  # the work between has made them something that is no key
        if self._pairs:
            table = _pairs(tuples.select(self._columns), weights, self._seed)
            self._sightings.append((Observation(Seen.PAIRS, self._names), table))
        if self._owners is not None and self._owners[0].takes(left.column):
            groups = self._owners[0].group_of(left), np.concatenate(right)
            table = _traffic(*groups, len(self._owners[1].groups), weights)
            self._sightings.append((Observation(Seen.TRAFFIC, self._names), table))


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """How often the keys of an operator came at one instance.

    Attributes:
        named: the heaviest keys by name, if they are observed.
    """

    named: tuple[Sighting, ...] = ()

    @classmethod
    def of(
        cls, work: JobContext, operator: str, rows: pa.Table, counts: NDArray[np.int64]
    ) -> "KeysSeen":
        """Count the keys of an operator, the heaviest by name.

        Args:
            work: the job.
            operator: the operator.
            rows: the key columns of the distinct keys.
            counts: how many tuples each had.
        """
        observes = work.settings.observes
        named: tuple[Sighting, ...] = ()
        if Probe.PAIRS in observes and rows.num_columns == 1:
            chosen = heaviest(counts, work.most_keys(operator))
            columns = [rows.column(0).take(pa.array(chosen)), pa.array(counts[chosen])]
            table = pa.table(columns, ["key", "count"])
            table = table.filter(pa.array(namable_keys(table, ["key"])))
            named = ((Observation(Seen.KEYS, (operator,)), table),)
        return cls(named)


def _pairs(sample: pa.Table, weights: NDArray[np.int64], seed: int) -> pa.Table:
    """Return each pair of keys once, with the number of tuples it stands for."""
    numbers, firsts = distinct(as_keys(Pairs(*sample.columns), copy=False, seed=seed))
    counts = np.bincount(numbers, weights, len(firsts)).astype(np.int64)
    return pa.table(
        [*take_rows(sample, firsts).columns, pa.array(counts)], ["left", "right", "count"]
    )


def _traffic(sources: Parts, targets: Parts, size: int, weights: NDArray[np.int64]) -> pa.Table:
    """Return how many tuples went from which key group to which of the ``size`` at the target."""
    cells = sources.astype(np.int64) * size + targets
    numbers: NDArray[np.int64]
    if (int(sources.max()) + 1) * size <= _CELLS_COUNTED * len(cells):
        counts = np.bincount(cells, weights)
        numbers = np.flatnonzero(counts)
        counts = counts[numbers]
    else:
        numbers, places = np.unique(cells, return_inverse=True)
        counts = np.bincount(places, weights)
    return pa.table(
        {"source": numbers // size, "target": numbers % size, "tuples": counts.astype(np.int64)}
    )
