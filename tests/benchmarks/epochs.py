"""A job of two keyed operators that runs week by week under an optimizer, routing only.

Nothing is executed: tuples are routed batch by batch as the plan in force says, keys that no
table knows are given an owner in one of three ways, and at the end of the week the optimizer is
asked. What would have to move is counted.
"""

import time
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from streams import Week

from grouping.keygraph.first_touch import first_touch
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import RoutingTable
from optimizers import Cluster, Optimizer, Plan, Statistics, Topology
from optimizers.layout import Layout
from sketches.arrays import Floats
from sketches.keys import Pairs
from sketches.space_saving import SpaceSaving

Tables = tuple[RoutingTable, RoutingTable]

EDGES = 1_000_000  # of the key graph, as in the paper
KEYS = 200_000  # of each operator
BATCH = 100_000
_HALF = 32
_LOW_HALF = (1 << _HALF) - 1
_OPERATORS = ("first", "second")
_HOP = ("first", "second")
_NO_PAIRS = KeyPairs([], [], [])
_NO_KEYS = KeyCounts([], [])


class Unknown(Enum):
    """What becomes of keys that no table knows."""

    BY_HASH = "by hash"
    IN_BATCH = "placed before their first batch is routed"
    AFTER_BATCH = "placed after their first batch"


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What happened in a week, and the decision at its end.

    Attributes:
        locality: the share of tuples whose two keys were on one machine.
        imbalance: for both operators, how many times the average load the fullest instance had.
        placed: the share of the load whose owner changed at the boundary of a batch.
        moved: the share of the load whose owner the decision changed.
        keys: the share of the keys seen whose owner the decision changed.
        reconfigured: whether the decision changed any owner.
        placing: seconds of CPU time for giving unknown keys an owner.
        planning: seconds of CPU time for the decision.
    """

    locality: float
    imbalance: tuple[float, float]
    placed: float = 0.0
    moved: float = 0.0
    keys: float = 0.0
    reconfigured: bool = False
    placing: float = 0.0
    planning: float = 0.0


@dataclass(frozen=True)
class Report:
    """The reports of instances for a week, from sketches of limited numbers of pairs and keys.

    Attributes:
        pairs: the heaviest pairs of every other tuple.
        held_out: the heaviest pairs of the other ones.
        keys: the heaviest keys of both operators.
    """

    pairs: KeyPairs
    held_out: KeyPairs
    keys: tuple[KeyCounts, KeyCounts]

    @property
    def all_pairs(self) -> KeyPairs:
        """The pairs of all tuples."""
        return self.pairs.together(self.held_out)


def reported(week: Week, edges: int = EDGES) -> Report:
    """Return what would be reported of a week; its two halves share the room for pairs."""
    pairs, held_out = (
        counted(week.part(slice(half, None, 2)), max(1, edges // 2)) for half in (0, 1)
    )
    left, right = (_counted_keys(column) for column in week)
    return Report(pairs, held_out, (left, right))


def _counted_keys(column: NDArray[np.int64]) -> KeyCounts:
    sketch = SpaceSaving(KEYS)
    sketch.update(column)
    return KeyCounts.of(sketch)


def counted(week: Week, edges: int = EDGES) -> KeyPairs:
    """Return the pairs of a week as the instances would report them: the heaviest ones."""
    sketch = SpaceSaving(edges)
    sketch.update(Pairs(week.left, week.right))
    return KeyPairs.of(sketch)


def every_pair(week: Week) -> KeyPairs:
    """Return all pairs of a week, counted exactly, the heaviest first."""
    codes, counts = np.unique(week.left << _HALF | week.right, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return _decoded(codes[order], counts[order].astype(np.float64))


def first_pairs(pairs: KeyPairs, number: int) -> KeyPairs:
    """Return as many of the pairs, from the first one on."""
    return KeyPairs(pairs.left[:number], pairs.right[:number], pairs.counts[:number])


def locality(tables: Tables, week: Week) -> float:
    """Return the share of a week's tuples that are local under fixed tables."""
    return float((tables[0].assign(week.left) == tables[1].assign(week.right)).mean())


def imbalance(loads: Floats) -> tuple[float, float]:
    """Return for both operators how many times the average load the fullest instance has."""
    first, second = loads.max(axis=1) / loads.mean(axis=1)
    return float(first), float(second)


def run_batches(
    week: Week, tables: Tables, *, unknown: Unknown, batch: int = BATCH, allowed: float = 1.03
) -> tuple[Tables, Epoch]:
    """Route a week and return the tables as they are afterwards.

    Args:
        week: the tuples.
        tables: who owns which key.
        unknown: what happens to keys that are in no table.
        batch: how many tuples are routed at once.
        allowed: how many times its share an instance may get by unknown keys.
    """
    loads = np.zeros((2, tables[0].instances))
    local = placed = 0
    placing = 0.0
    for start in range(0, len(week), batch):
        part = week.part(slice(start, start + batch))
        if unknown is Unknown.IN_BATCH:
            tables, seconds = _touched(part, tables, loads, allowed)
            placing += seconds
        owners = tables[0].assign(part.left), tables[1].assign(part.right)
        if unknown is Unknown.AFTER_BATCH:
            tables, seconds = _touched(part, tables, loads, allowed)
            placing += seconds
            placed += int((tables[0].assign(part.left) != owners[0]).sum())
            placed += int((tables[1].assign(part.right) != owners[1]).sum())
        local += int((owners[0] == owners[1]).sum())
        for row, parts in enumerate(owners):
            loads[row] += np.bincount(parts, minlength=loads.shape[1])
    return tables, Epoch(
        locality=local / len(week),
        imbalance=imbalance(loads),
        placed=placed / (2 * len(week)),
        placing=placing,
    )


def _touched(part: Week, tables: Tables, loads: Floats, allowed: float) -> tuple[Tables, float]:
    """Give the unknown keys of a batch an owner; return the seconds it took, too."""
    start = time.process_time()
    pairs = KeyPairs(part.left, part.right, np.ones(len(part)))
    tables = first_touch(pairs, tables, loads, imbalance=allowed)
    return tables, time.process_time() - start


class Deployment:
    """A job under one optimizer, with the plan in force and the history it is told of.

    A forgetful one drops the keys that were not reported in a week from its tables, so that they
    are unknown when they come again.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        instances: int = 6,
        unknown: Unknown = Unknown.BY_HASH,
        batch: int = BATCH,
        edges: int = EDGES,
        forgetful: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.unknown = unknown
        self.batch = batch
        self.epochs: list[Epoch] = []
        self.plan = Plan()
        self._edges = edges
        self._forgetful = forgetful
        self._history: KeyPairs | None = None
        self._cluster = Cluster.uniform(instances)
        self._job = (
            Topology.source("source")
            .then(_OPERATORS[0], key="left", parallelism=instances)
            .then(_OPERATORS[1], key="right", parallelism=instances)
        )

    @property
    def tables(self) -> Tables:
        """The instance of each named key; empty tables as long as nothing was decided."""
        layout = Layout.of(self._job, self._cluster, self.plan)
        first, second = (self._owned(layout, name) for name in _OPERATORS)
        return first, second

    def _owned(self, layout: Layout, name: str) -> RoutingTable:
        owners = layout.owners(name)
        if owners.rule is not None:
            raise TypeError(f"{self.optimizer.name} routes by something else than tables")
        instances = len(self._cluster.nodes)
        if owners.table is None:
            return RoutingTable([], [], instances)
        return RoutingTable(owners.table.keys, owners.assign(owners.table.keys), instances)

    def run(self, week: Week, told: KeyPairs | Report) -> Epoch:
        """Route a week, ask the optimizer, and apply what it says.

        Args:
            week: the tuples.
            told: what is reported of them; of mere pairs none are held out, and no keys counted.
        """
        if isinstance(told, KeyPairs):
            told = Report(told, _NO_PAIRS, (_NO_KEYS, _NO_KEYS))
        tables = self.tables
        # Before the first decision there is nothing that unknown keys could go by.
        unknown = self.unknown if len(tables[0]) else Unknown.BY_HASH
        tables, epoch = run_batches(week, tables, unknown=unknown, batch=self.batch)
        if unknown is not Unknown.BY_HASH:
            self._put_in_force(tables)
        start = time.process_time()
        decision = self.optimizer.plan(
            self._job.under(self.plan), self._cluster, self._statistics(told), self.plan
        )
        planning = time.process_time() - start
        self.plan = self.plan.amended(decision, self._cluster)
        moved, keys = _moved(week, tables, self.tables)
        if self._forgetful:
            self._put_in_force(_only(self.tables, told.all_pairs))
        self._remember(told.all_pairs)
        epoch = Epoch(
            locality=epoch.locality,
            imbalance=epoch.imbalance,
            placed=epoch.placed,
            moved=moved,
            keys=keys,
            reconfigured=keys > 0,
            placing=epoch.placing,
            planning=planning,
        )
        self.epochs.append(epoch)
        return epoch

    def _put_in_force(self, tables: Tables) -> None:
        decision = Plan(routing=dict(zip(_OPERATORS, tables, strict=True)))
        self.plan = self.plan.amended(decision, self._cluster)

    def _statistics(self, told: Report) -> Statistics:
        keys = zip(_OPERATORS, told.keys, strict=True)
        return Statistics(
            epoch=len(self.epochs),
            pairs={_HOP: told.pairs},
            held_out={_HOP: told.held_out} if len(told.held_out) else {},
            keys={name: counts for name, counts in keys if len(counts)},
            history={} if self._history is None else {_HOP: self._history},
        )

    def _remember(self, pairs: KeyPairs) -> None:
        """Let the past fade; no more pairs of it are kept than are counted in a week."""
        if not self.optimizer.memory:
            return
        known = pairs if self._history is None else self._history.together(pairs)
        codes, number = np.unique(known.left << _HALF | known.right, return_inverse=True)
        counts = np.bincount(number, known.counts)
        order = np.argsort(-counts, kind="stable")[: self._edges]
        self._history = _decoded(codes[order], counts[order]).faded(self.optimizer.memory)


def _moved(week: Week, before: Tables, after: Tables) -> tuple[float, float]:
    """Return which share of the week's load, and of its keys, has another owner now."""
    if before == after:
        return 0.0, 0.0
    load = keys = distinct = 0
    for column, old, new in zip(week, before, after, strict=True):
        known, counts = np.unique(column, return_counts=True)
        changed = old.assign(known) != new.assign(known)
        load += int(counts[changed].sum())
        keys += int(changed.sum())
        distinct += len(known)
    return load / (2 * len(week)), keys / distinct


def _only(tables: Tables, pairs: KeyPairs) -> Tables:
    """Return the tables without the keys that are in none of the pairs."""
    first, second = (
        RoutingTable(table.keys[seen], table.parts[seen], table.instances)
        for table, column in zip(tables, (pairs.left, pairs.right), strict=True)
        for seen in [np.isin(table.keys, column)]
    )
    return first, second


def _decoded(codes: NDArray[np.int64], counts: Floats) -> KeyPairs:
    return KeyPairs(codes >> _HALF, codes & _LOW_HALF, counts)
