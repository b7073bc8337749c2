"""The experiments about locality-aware routing: each returns numbers, none prints or judges."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from epochs import (
    BATCH,
    EDGES,
    Deployment,
    Epoch,
    Tables,
    Unknown,
    counted,
    every_pair,
    first_pairs,
    locality,
    reported,
    run_batches,
)
from harness import interleaved
from streams import Drift, Week

from grouping.keygraph import metis
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.matching import best_matching
from grouping.keygraph.partition import Partition, partition_as_published, partition_keys
from grouping.routing_table import RoutingTable
from optimizers import Locality, Optimizer, Plan
from optimizers.strategies.fixed import Fixed
from sketches.arrays import Integers

PARTS = 6
ALLOWED = 1.03
FLIGHTS_BATCH = 500
HASH = "hash"
OFFLINE = "published, offline"
PUBLISHED = "published"
BY_HASH = "ours, unknown keys by hash"
OURS = "ours"
AFTER_BATCH = "ours, placed after the batch"
ALL_FOR_LOCALITY = "ours, all for locality"
ORACLE = "oracle: knows the week"
SCRATCH = "from scratch"
RENAMED = "from scratch, parts renamed to resemble the old"
INCREMENTAL = "ours, from what there is (inertia 0.02, as Locality has it)"
INERT = "ours, from what there is (inertia 0.1, the default)"

# What is compared, by name: the optimizer, and what becomes of unknown keys.
CONTENDERS: Mapping[str, tuple[Callable[[int], Optimizer], Unknown]] = {
    HASH: (lambda seed: Fixed(Plan()), Unknown.BY_HASH),
    OFFLINE: (lambda seed: Locality.published(offline=True, seed=seed), Unknown.BY_HASH),
    PUBLISHED: (lambda seed: Locality.published(seed=seed), Unknown.BY_HASH),
    BY_HASH: (lambda seed: Locality(seed=seed), Unknown.BY_HASH),
    OURS: (lambda seed: Locality(seed=seed), Unknown.IN_BATCH),
    AFTER_BATCH: (lambda seed: Locality(seed=seed), Unknown.AFTER_BATCH),
    ALL_FOR_LOCALITY: (
        lambda seed: Locality(worth=0, inertia=0, tries=8, seed=seed),
        Unknown.IN_BATCH,
    ),
}


@dataclass
class Story:
    """What happened to each contender, week by week."""

    epochs: dict[str, list[Epoch]] = field(default_factory=dict)
    expected: list[float] = field(default_factory=list)  # by METIS, as published, for its own week

    def later(self, name: str) -> list[Epoch]:
        """Return the weeks after the first, which had no decision before it."""
        return self.epochs[name][1:]

    def locality(self, name: str) -> float:
        """Return the mean locality after the first week."""
        return float(np.mean([epoch.locality for epoch in self.later(name)]))

    def imbalance(self, name: str) -> tuple[float, float]:
        """Return the mean imbalance of both operators after the first week."""
        first, second = np.mean([epoch.imbalance for epoch in self.later(name)], axis=0)
        return float(first), float(second)

    def moved(self, name: str) -> float:
        """Return the mean share of the load that a reconfiguration after the first one moves."""
        moves = [epoch.moved for epoch in self.later(name) if epoch.reconfigured]
        return float(np.mean(moves)) if moves else 0.0

    def reconfigurations(self, name: str) -> int:
        """Return how many decisions changed any owner."""
        return sum(epoch.reconfigured for epoch in self.epochs[name])


def over_weeks(
    weeks: Iterable[Week],
    names: Sequence[str] = tuple(CONTENDERS),
    *,
    parts: int = PARTS,
    batch: int = BATCH,
    edges: int = EDGES,
    seed: int = 0,
) -> Story:
    """Run contenders side by side through the same weeks; all but hash are told the same."""
    contenders = {name: CONTENDERS[name] for name in names if name != ORACLE}
    jobs = {
        name: Deployment(make(seed), instances=parts, unknown=unknown, batch=batch, edges=edges)
        for name, (make, unknown) in contenders.items()
    }
    story = Story({name: [] for name in names})
    for week in weeks:
        told = reported(week, edges)
        expected = partition_as_published(told.all_pairs, parts, seed=seed).locality
        story.expected.append(expected)
        for name, job in jobs.items():
            story.epochs[name].append(job.run(week, told))
        if ORACLE in names:
            partition = partition_keys(every_pair(week), parts, tries=2, seed=seed)
            story.epochs[ORACLE].append(routed(week, partition, Unknown.BY_HASH))
    return story


def forgetting(drift: Drift, weeks: int, *, batch: int, edges: int) -> dict[str, list[Epoch]]:
    """Run ours with tables that keep all keys and with such that forget those not reported."""
    variants = {
        "all keys, memory 0.85": (Locality(), False),
        "all keys, memory 0": (Locality(memory=0.0), False),
        "the keys reported, memory 0.85": (Locality(), True),
        "the keys reported, memory 0": (Locality(memory=0.0), True),
    }
    jobs = {
        name: Deployment(
            optimizer, unknown=Unknown.IN_BATCH, batch=batch, edges=edges, forgetful=forgetful
        )
        for name, (optimizer, forgetful) in variants.items()
    }
    for week in drift.weeks(weeks):
        told = reported(week, edges)
        for job in jobs.values():
            job.run(week, told)
    return {name: job.epochs for name, job in jobs.items()}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The locality of the published method, where the paper reports it of Twitter.

    Attributes:
        hash: without tables.
        kept: of the pairs that the tables were made from.
        same: of the week from which these pairs were taken.
        following: of the week after.
    """

    hash: float
    kept: float
    same: float
    following: float


def reproduction(drift: Drift, *, edges: int, seed: int) -> Reproduction:
    """Divide the keys of a week as published, and route that week and the next one."""
    week, following = drift.weeks(2)
    partition = partition_as_published(counted(week, edges), PARTS, seed=seed)
    untold = RoutingTable([], [], PARTS)
    first, second = partition.tables
    return Reproduction(
        hash=locality((untold, untold), following),
        kept=partition.locality,
        same=locality((first, second), week),
        following=locality((first, second), following),
    )


def routed(week: Week, partition: Partition, unknown: Unknown, *, batch: int = BATCH) -> Epoch:
    """Route a week with the tables of a partition."""
    first, second = partition.tables
    return run_batches(week, (first, second), unknown=unknown, batch=batch)[1]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Published and ours, taught by one week and tried in the next."""

    published: Epoch
    ours: Epoch
    reachable: tuple[float, float]


def over_parts(
    taught: KeyPairs, week: Week, parts: Sequence[int], *, batch: int = BATCH, seed: int = 0
) -> dict[int, Step]:
    """Divide the pairs of one week among several numbers of parts, and route the next week."""
    return {
        number: Step(
            published=routed(
                week, partition_as_published(taught, number, seed=seed), Unknown.BY_HASH
            ),
            ours=routed(
                week,
                partition_keys(taught, number, tries=2, seed=seed),
                Unknown.IN_BATCH,
                batch=batch,
            ),
            reachable=(_heaviest(week.left, number), _heaviest(week.right, number)),
        )
        for number in parts
    }


def _heaviest(keys: Integers, parts: int) -> float:
    """Return how many times its share a part has that owns the most frequent key alone."""
    _, counts = np.unique(keys, return_counts=True)
    return max(1.0, float(counts.max() * parts / len(keys)))


def over_fractions(  # what figure 12 shows
    taught: KeyPairs,
    week: Week,
    fractions: Sequence[float],
    parts: Sequence[int],
    *,
    batch: int = BATCH,
    seed: int = 0,
) -> dict[tuple[float, int], tuple[float, float]]:
    """Return next week's locality, published and ours, if only the heaviest pairs are kept.

    Args:
        taught: all pairs of a week, the heaviest first.
        week: the week after.
        fractions: which shares of the distinct pairs to keep.
        parts: numbers of parts.
        batch: how many tuples are routed at once.
        seed: of METIS.
    """
    found = {}
    for fraction in fractions:
        kept = first_pairs(taught, max(1, round(len(taught) * fraction)))
        for number, step in over_parts(kept, week, parts, batch=batch, seed=seed).items():
            found[fraction, number] = (step.published.locality, step.ours.locality)
    return found


@dataclass(frozen=True, kw_only=True)
class Moves:
    """What a second division of keys moves, and what it achieves on the pairs it was made from.

    Attributes:
        moved: the share of the key weight with a new owner, by kind of division.
        local: the locality expected, by kind of division.
    """

    moved: dict[str, float]
    local: dict[str, float]


def second_division(
    before: KeyPairs, after: KeyPairs, *, parts: int = PARTS, seed: int = 0
) -> Moves:
    """Divide the keys of one week, then those of the next, incrementally and from scratch."""
    graph = KeyGraph.of({("left", "right"): after})
    old = partition_keys(before, parts, seed=seed)
    scratch = partition_keys(graph, parts, seed=seed + 1)
    overlap = np.bincount(
        _owners(graph, old) * parts + _owners(graph, scratch), graph.loads, parts * parts
    )
    kept = overlap.reshape(parts, parts)
    renamed = kept[np.arange(parts), best_matching(kept)].sum()
    moved = {
        SCRATCH: float(1 - np.trace(kept) / kept.sum()),
        RENAMED: float(1 - renamed / kept.sum()),
    }
    local = {SCRATCH: scratch.locality, RENAMED: scratch.locality}
    for name, inertia in ((INCREMENTAL, 0.02), (INERT, 0.1)):
        tables = old.tables
        found = partition_keys(graph, parts, previous=tables, inertia=inertia, seed=seed)
        moved[name], local[name] = found.moved, found.locality
    return Moves(moved=moved, local=local)


def _owners(graph: KeyGraph, partition: Partition) -> Integers:
    owners = [
        table.assign(column) for table, column in zip(partition.tables, graph.columns, strict=True)
    ]
    return np.concatenate(owners).astype(np.int64)


def pipeline_seconds(
    week: Week, *, edges: int = EDGES, parts: int = PARTS, repeats: int = 3
) -> dict[str, float]:
    """Time the way from tuples to tables, its steps, and METIS alone, in turns."""
    pairs = counted(week, edges)
    graph = KeyGraph.of({("left", "right"): pairs})
    shares = np.full((2, parts), 1 / parts)
    loads = graph.whole_loads
    both = loads.sum(axis=1, keepdims=True)
    whole = graph.whole
    return interleaved(
        {
            "all": lambda: partition_keys(counted(week, edges), parts),
            "count": lambda: counted(week, edges),
            "graph": lambda: KeyGraph.of({("left", "right"): pairs}),
            "METIS": lambda: metis.split(whole, loads, shares, np.full(2, ALLOWED)),
            "METIS, one sum": lambda: metis.split(whole, both, shares[:1], np.full(1, ALLOWED)),
        },
        repeats=repeats,
    )


def by_pairs_or_keys(week: Week, later: Week, *, edges: int, batch: int, seed: int) -> list[Epoch]:
    """Route a later week twice: keys weighed by the pairs that are kept, and by all their tuples.

    The heaviest pairs hold only part of each key's tuples, and not the same part of each.
    """
    graph = KeyGraph.of({("left", "right"): counted(week, edges)})
    loads = np.empty(len(graph))
    for operator, column in enumerate(week):
        keys, counts = np.unique(column, return_counts=True)
        # The codes of integer keys are the integers themselves.
        kept = graph.columns[operator].codes.view(np.int64)
        loads[graph.span(operator)] = counts[np.searchsorted(keys, kept)]
    return [
        routed(later, partition_keys(known, PARTS, seed=seed), Unknown.IN_BATCH, batch=batch)
        for known in (graph, replace(graph, loads=loads))
    ]


@dataclass(frozen=True, kw_only=True)
class TouchCost:
    """What placing unknown keys costs, in microseconds of CPU time for each tuple."""

    batch: int
    placing: float
    routing: float
    unknown: float


def touch_costs(
    tables: Tables, week: Week, batches: Sequence[int], *, most: int = 40
) -> list[TouchCost]:
    """Measure it with batches of several sizes, at most this number of each."""
    return [_touch_cost(tables, week.part(slice(0, batch * most)), batch) for batch in batches]


def _touch_cost(tables: Tables, week: Week, batch: int) -> TouchCost:
    known, _ = tables[1].find(week.right)
    epochs: list[Epoch] = []

    def placing() -> None:
        epochs.append(run_batches(week, tables, unknown=Unknown.IN_BATCH, batch=batch)[1])

    seconds = interleaved(
        {
            "by hash": lambda: run_batches(week, tables, unknown=Unknown.BY_HASH, batch=batch),
            "placing": placing,
        },
        repeats=3,
    )
    return TouchCost(
        batch=batch,
        placing=float(np.median([epoch.placing for epoch in epochs])) / len(week) * 1e6,
        routing=seconds["by hash"] / len(week) * 1e6,
        unknown=float(1 - known.mean()),
    )


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What stands between a routing learned earlier and one that knows the week; all are means.

    Attributes:
        oracle: divided by the week itself.
        spread: how far METIS' seeds alone let that vary (standard deviation).
        half: divided by half of the week's tuples, chosen at random, and tried on the other half.
        half_placed: the same, unknown keys placed by first touch.
        others: divided by all other weeks, earlier and later ones.
        last: divided by the week before alone, unknown keys placed by first touch.
        earlier: divided by all weeks before.
        known_last: the share of tuples whose first key came in the week before.
        known_ever: the share of tuples whose first key came in any week before.
        paired_last: the share of tuples whose very pair came in the week before.
        paired_ever: the share of tuples whose very pair came in any week before.
        once: the share of tuples whose pair comes only once in the week.
    """

    oracle: float
    spread: float
    half: float
    half_placed: float
    others: float
    last: float
    earlier: float
    known_last: float
    known_ever: float
    paired_last: float
    paired_ever: float
    once: float


def gap(weeks: Sequence[Week], *, parts: int = PARTS, seeds: int = 5, batch: int) -> Gap:
    """Take the gap between the past and the week apart, for all weeks after the first."""
    rows = [
        _gap_of(weeks, number, parts=parts, seeds=seeds, batch=batch)
        for number in range(1, len(weeks))
    ]
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return Gap(**means)


def _gap_of(
    weeks: Sequence[Week], number: int, *, parts: int, seeds: int, batch: int
) -> dict[str, float]:
    week, last = weeks[number], weeks[number - 1]
    earlier = _joined(weeks[:number])
    others = _joined([*weeks[:number], *weeks[number + 1 :]])
    rng = np.random.default_rng([number, 7])
    drawn = rng.random(len(week)) < 0.5
    taught, tried = week.part(np.flatnonzero(drawn)), week.part(np.flatnonzero(~drawn))
    own = [
        partition_keys(every_pair(week), parts, tries=1, seed=seed).locality
        for seed in range(seeds)
    ]
    _, counts = np.unique(_codes(week), return_counts=True)
    return {
        "oracle": float(np.mean(own)),
        "spread": float(np.std(own, ddof=1)) if seeds > 1 else 0.0,
        "half": _learned(taught, tried, parts, Unknown.BY_HASH, batch),
        "half_placed": _learned(taught, tried, parts, Unknown.IN_BATCH, batch),
        "others": _learned(others, week, parts, Unknown.IN_BATCH, batch),
        "last": _learned(last, week, parts, Unknown.IN_BATCH, batch),
        "earlier": _learned(earlier, week, parts, Unknown.IN_BATCH, batch),
        "known_last": float(np.isin(week.left, last.left).mean()),
        "known_ever": float(np.isin(week.left, earlier.left).mean()),
        "paired_last": float(np.isin(_codes(week), _codes(last)).mean()),
        "paired_ever": float(np.isin(_codes(week), _codes(earlier)).mean()),
        "once": float(counts[counts == 1].sum() / len(week)),
    }


def _learned(taught: Week, tried: Week, parts: int, unknown: Unknown, batch: int) -> float:
    partition = partition_keys(every_pair(taught), parts, tries=8)
    return routed(tried, partition, unknown, batch=batch).locality


def _joined(weeks: Sequence[Week]) -> Week:
    return Week(
        np.concatenate([week.left for week in weeks]),
        np.concatenate([week.right for week in weeks]),
    )


def _codes(week: Week) -> Integers:
    return week.left << 32 | week.right


def shuffled(weeks: Iterable[Week], seed: int = 0) -> Iterable[Week]:
    """Yield the weeks with their right keys in random order: as frequent, but uncorrelated."""
    rng = np.random.default_rng([seed, 9])
    for week in weeks:
        yield Week(week.left, rng.permutation(week.right))


def uncorrelated(drift: Drift) -> Drift:
    """Return a stream without any communities."""
    return Drift(tuples=drift.tuples, places=drift.places, tags=drift.tags, inside=0.0)


def always_new(drift: Drift) -> Drift:
    """Return a stream whose tags all change community every week."""
    return Drift(tuples=drift.tuples, places=drift.places, tags=drift.tags, new=0.0, moved=1.0)
