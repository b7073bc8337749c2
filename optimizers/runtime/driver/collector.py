"""The statistics of an epoch, from the reports of its batches."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.batch_time import KEPT, BatchTime
from optimizers.cluster import Cluster, Node
from optimizers.control import collectors
from optimizers.control.collectors import TrafficSums
from optimizers.layout import Layout
from optimizers.operators import EdgeName
from optimizers.runtime.driver.loads import Known, LoadCollector
from optimizers.runtime.driver.state_sizes import HeldState
from optimizers.runtime.observe.call_models import ModelOf
from optimizers.runtime.observe.cost_tally import count_costs
from optimizers.runtime.observe.hot_keys import HotKeys
from optimizers.runtime.observe.observation import EACH, Observation, Seen
from optimizers.runtime.task.reports import Reports, by_sender
from optimizers.statistics import (
    EdgeStatistics,
    OperatorStatistics,
    Statistics,
)
from optimizers.topology import Topology
from sketches.arrays import Floats
from sketches.cost_sketch import CostSketch
from sketches.keys import Pairs
from sketches.space_saving import SpaceSaving

_COUNTED_AT_ONCE = 1 << 14  # rows
_SUMMED = (
    "tuples",
    "seconds",
    "emitted",
    "shipping",
    "wall",
    "receiving",
)  # over the tasks of an operator
_FLOW = "rows", "bytes", "local_rows", "local_bytes", "parcels"


class EpochCollector:
    """Adds up the reports of the batches of an epoch.

    Args:
        layout: the layout of the job.
        number: of the epoch.
    """

    def __init__(self, layout: Layout, number: int) -> None:
        self._layout = layout
        self._number = number
        self._batches = 0
        self._seconds = 0.0
        self._sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_SUMMED, 0.0))
        self._times: deque[BatchTime] = deque(maxlen=KEPT)
        self._hot: dict[str, HotKeys] = {}
        self._edges: dict[EdgeName, Floats] = defaultdict(lambda: np.zeros(len(_FLOW)))
        self._pairs: dict[EdgeName, tuple[SpaceSaving, SpaceSaving]] = {}
        self._keys: dict[str, SpaceSaving] = {}
        self._loads = LoadCollector(layout)
        self._traffic: dict[EdgeName, TrafficSums] = {}
        self._costs: dict[str, dict[tuple[str, str], dict[int, CostSketch]]] = {}

    def go_on_under(self, layout: Layout) -> None:
        """Go on with a layout that has the same instances and key groups on other machines."""
        self._layout = layout
        self._loads.go_on_under(layout)

    @property
    def batches(self) -> int:
        """How many batches were added."""
        return self._batches

    @property
    def edges(self) -> dict[EdgeName, EdgeStatistics]:
        """The traffic of each edge."""
        return edge_statistics(self._edges)

    def add(self, reports: Reports, seconds: float, time: BatchTime | None = None) -> None:
        """Add the reports of one batch, merged, how long it took, and where its time went."""
        self._seconds += seconds
        if time is not None:
            self._times.append(time)
        columns = {fact: reports.numbers(fact) for fact in _SUMMED}
        hot_keys, hot_tuples = map(reports.vectors, ("hot_keys", "hot_tuples"))
        for name, tasks in reports.tasks.items():
            sums = self._sums[name]
            for fact, column in columns.items():
                sums[fact] += float(column[tasks].sum())
            operator = self._layout.topology.operator(name)
            if operator.keyed:
                hot = self._hot.setdefault(name, HotKeys(one_owner=not operator.partial))
                hot.add(hot_keys.taken(tasks), hot_tuples.taken(tasks))
        for edge, flows in edge_sums(reports, self._layout.topology).items():
            self._edges[edge] += flows
        self._loads.add(reports)
        for observation, tables in reports.observed.items():
            self._observe(observation, tables)
        self._batches += 1

    def statistics(
        self,
        history: Mapping[EdgeName, KeyPairs],
        *,
        cluster: Cluster | None = None,
        held: HeldState | None = None,
        model_of: ModelOf = lambda name: None,  # noqa: ARG005
    ) -> Statistics:
        """Return the statistics, once: what was counted of keys is given away, to have it once.

        Args:
            history: pairs of the epochs before, see `Statistics.history`.
            cluster: the machines; by default only their names are known.
            held: how much state each instance holds; by default that is not known.
            model_of: the cost models of operators' calls; by default they are not known.
        """
        nodes = sorted({node for home in self._layout.homes.values() for node in home.nodes})
        known = Known(
            cluster or Cluster(tuple(map(Node, nodes))),
            self._seconds,
            held or HeldState({}),
            model_of,
        )
        pairs: dict[EdgeName, KeyPairs] = {}
        held_out: dict[EdgeName, KeyPairs] = {}
        while self._pairs:
            hop, [*halves] = self._pairs.popitem()
            second, first = KeyPairs.of(halves.pop()), KeyPairs.of(halves.pop())
            pairs[hop] = first
            if len(second):
                held_out[hop] = second
        keys = {}
        while self._keys:
            name, sketch = self._keys.popitem()
            keys[name] = KeyCounts.of(sketch)
        return Statistics(
            epoch=self._number,
            seconds=self._seconds,
            operators={
                name: OperatorStatistics(
                    **sums,
                    state_bytes=known.held.total(name) if self._keyed(name) else 0.0,
                    hottest_key=self._hottest_key(name),
                )
                for name, sums in self._sums.items()
            },
            edges=self.edges,
            pairs=pairs,
            held_out=held_out,
            history={hop: known for hop, known in history.items() if hop in pairs},
            keys=keys,
            groups={name: self._loads.groups(name, known) for name in self._loads.observed},
            instances={name: self._loads.instances(name, known) for name in self._loads.operators},
            traffic={hop: sums.traffic() for hop, sums in self._traffic.items()},
            costs={name: self._costs_of(name) for name in self._costs},
            batch_times=tuple(self._times),
        )

    def _keyed(self, name: str) -> bool:
        return self._layout.topology.operator(name).keyed

    def _hottest_key(self, name: str) -> float | None:
        """Return the share of an operator's tuples that its hottest key had."""
        hot, tuples = self._hot.get(name), self._sums[name]["tuples"]
        found = hot.tuples() if hot is not None and tuples else None
        return None if found is None else min(1.0, found / tuples)

    def _observe(self, observation: Observation, tables: Sequence[pa.Table]) -> None:
        match observation.kind, *observation.about:
            case Seen.PAIRS, first, second:
                # Routings learned from every other batch are tried on those between.
                sketches = self._pairs.setdefault((first, second), collectors.pair_sketches())
                _count_pairs(sketches[self._batches % 2], tables)
            case Seen.KEYS, operator:
                sketch = self._keys.setdefault(operator, collectors.key_sketch())
                for part in _pieces(tables):
                    sketch.update(part.column("key"), _counts(part))
            case Seen.COSTS, operator, key, mode:
                instances = self._layout.topology.operator(operator).parallelism
                sketches_of = self._costs.setdefault(operator, {}).setdefault((mode, key), {})
                for table in tables:
                    for sender, own in by_sender(table):
                        number = sender % instances
                        sketch_of = sketches_of.setdefault(number, collectors.cost_sketch())
                        count_costs(sketch_of, own)
            case Seen.TRAFFIC, first, second:
                job = self._layout.topology
                groups = (job.operator(name).key_groups for name in (first, second))
                sums = self._traffic.setdefault((first, second), TrafficSums(*groups))
                for part in _pieces(tables):
                    columns = (part.column(name) for name in ("source", "target", "tuples"))
                    sums.add(*(column.to_numpy() for column in columns))

    def _costs_of(self, operator: str) -> tuple[CostSketch, ...]:
        """Return the costs at each instance: of each tuple, if they were timed one by one.

        A sketch takes keys of one kind; if there are several, it is the most frequent kind.
        """
        seen = self._costs[operator]
        one_by_one = any(mode == EACH for mode, _ in seen)
        totals = {
            (sum(sketch.total for sketch in sketches.values()), kind): sketches
            for (mode, kind), sketches in seen.items()
            if (mode == EACH) is one_by_one
        }
        chosen = totals[max(totals)]
        instances = self._layout.topology.operator(operator).parallelism
        return tuple(chosen.get(number, collectors.cost_sketch()) for number in range(instances))


def edge_sums(reports: Reports, topology: Topology) -> dict[EdgeName, Floats]:
    """Return by edge what tasks received: tuples, bytes, how much was local, parcels."""
    received = reports.received  # only its receivers know where a task really ran
    found = {}
    for number in np.unique(received["edge"]).tolist():
        flows = received[received["edge"] == number]
        sums = [float(flows[name].sum()) for name in _FLOW]
        found[topology.edges[number].name] = np.array(sums)
    return found


def edge_statistics(sums: Mapping[EdgeName, Floats]) -> dict[EdgeName, EdgeStatistics]:
    """Return the traffic of edges, from the result of `edge_sums`."""
    found = {}
    for name in sorted(sums):
        tuples, size, local, local_bytes, parcels = sums[name].tolist()
        # To what is attached there are none.
        found[name] = EdgeStatistics(tuples, size, local, local_bytes, parcels or None)
    return found


def pairs_of(reports: Reports, hop: EdgeName) -> KeyPairs:
    """Return the pairs of keys on a hop in a batch.

    Args:
        reports: the reports of the tasks, merged.
        hop: the two operators.
    """
    sketch = collectors.adopted_pair_sketch()
    _count_pairs(sketch, reports.observed.get(Observation(Seen.PAIRS, hop), ()))
    return KeyPairs.of(sketch)


def _counts(table: pa.Table) -> Floats:
    counts: Floats = table.column("count").to_numpy().astype(np.float64)
    return counts


def _count_pairs(sketch: SpaceSaving, tables: Sequence[pa.Table]) -> None:
    for part in _pieces(tables):
        sketch.update(Pairs(part.column("left"), part.column("right")), _counts(part))


def _pieces(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Cut tables into pieces, since counting copies its input several times."""
    for table in tables:
        for start in range(0, len(table), _COUNTED_AT_ONCE):
            yield table.slice(start, _COUNTED_AT_ONCE)
