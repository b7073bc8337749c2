"""Statistics projected through a decision: for named keys, what is then measured."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver, temporary
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.groupings import Fields
from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import GroupTable, RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    LocalOrShuffle,
    Optimizer,
    Plan,
    Probe,
    Statistics,
    Topology,
)
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics
from optimizers.simulation import SimulationEngine, Stream, Work
from optimizers.statistics import (
    EdgeStatistics,
    GroupTraffic,
    OperatorStatistics,
)
from sketches.cost_sketch import CostSketch
from sketches.keys import as_keys

GROUPS = {"a": 6, "b": 9}
KEYS = {"a": "k", "b": "l"}
NODES = Cluster.uniform(3)
NAMES = [node.name for node in NODES.nodes]
JOB = (
    Topology.source("in")
    .then("a", key="k", parallelism=2, key_groups=GROUPS["a"])
    .then("b", key="l", parallelism=3, key_groups=GROUPS["b"])
)
COUNTING = {"a": Count(emit=Emit.TUPLES), "b": Count(emit=Emit.NOTHING)}
FOLDING = Topology(
    tuple(replace(each, apply=COUNTING.get(each.name)) for each in JOB.operators), JOB.edges
)
HOP = ("a", "b")


@st.composite
def plans(draw):
    """Other numbers of instances, other places, and other groups or owners of some keys."""
    parallelism, placement, routing = {}, {}, {}
    for name, number in GROUPS.items():
        count = parallelism[name] = draw(st.integers(1, 4))
        instances = st.integers(0, count - 1)
        placement[name] = Deployment(
            tuple(draw(st.sampled_from(NAMES)) for _ in range(count)),
            tuple(draw(instances) for _ in range(number)),
        )
        keys = draw(st.lists(st.integers(0, 15), unique=True))
        routing[name] = draw(
            st.sampled_from(
                (
                    Fields(),
                    GroupTable(keys, [draw(st.integers(0, number - 1)) for _ in keys], number),
                    RoutingTable(keys, [draw(instances) for _ in keys], count),
                )
            )
        )
    return Plan(parallelism=parallelism, placement=placement, routing=routing)


@st.composite
def tuples(draw):
    """The two keys of each of some tuples."""
    count = draw(st.integers(1, 60))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    left = random.integers(0, draw(st.integers(1, 14)), count)
    return left, (left * draw(st.integers(0, 3)) + random.integers(0, 9, count)) % 16


@dataclass(frozen=True)
class Told(Optimizer):
    """Decides for one plan at the beginning, and keeps what it is told of."""

    decision: Plan = Plan()  # noqa: RUF009  # a frozen value
    heard: list = field(default_factory=list, compare=False)

    @property
    def observes(self):
        return frozenset(Probe)

    def plan(self, topology, cluster, statistics, current):
        self.heard.append(statistics)
        return self.decision if len(self.heard) == 1 else Plan()


def laid_out(plan):
    return Layout.of(JOB, NODES, plan)


def simulated(plan, left, right):
    """What the simulation sees of these tuples under a plan."""
    columns = {"k": np.append(left, 0), "l": np.append(right, 0)}
    told = Told(plan)
    SimulationEngine(batch_tuples=len(left), cluster=NODES).run(
        JOB,
        Stream.steady(columns, rate=1.0, bytes=10.0),
        told,
        work={"a": Work(1e-6, state_bytes=8.0), "b": Work(1e-6, state_bytes=8.0)},
    )
    return told.heard[1]


def in_process(plan, left, right):
    """What the runner in this process sees of them."""
    told = Told(plan)
    with temporary() as folder:
        driver = Driver(folder, FOLDING, told, cluster=NODES)
        for _ in range(2):
            driver.batch({"in": pa.table({"k": left, "l": right})})
    return told.heard[1]


@settings(max_examples=60, deadline=None)
@given(plans(), plans(), tuples())
def test_what_is_local_is_what_is_measured_then_in_the_simulation(old, new, rows):
    seen, then = simulated(old, *rows), simulated(new, *rows)

    projected = seen.under(laid_out(old), laid_out(new))

    for edge in (("in", "a"), HOP):
        assert projected.edges[edge].tuples == then.edges[edge].tuples
        assert projected.edges[edge].local == pytest.approx(then.edges[edge].local, abs=1e-6)
    assert projected.operators == then.operators
    known = ("cpu", "state_bytes", "tuples", "seconds", "bytes_in", "bytes_out")
    assert_groups_are_alike(projected, then, known)
    assert_instances_are_alike(projected, then, new)


def assert_instances_are_alike(projected, then, new):
    """What is known of instances is right, and all is known of those whose keys have owners."""
    for name, found in projected.instances.items():
        measured = then.instances[name]
        assert found.nodes == measured.nodes
        for part, column in found.columns.items():
            assert column == pytest.approx(getattr(measured, part), rel=1e-6, abs=1e-9)
    for name, routing in new.routing.items():
        if not isinstance(routing, RoutingTable):  # which key goes to which instance, that knows
            known = projected.instances[name].columns
            assert {"cpu", "tuples", "seconds", "state_bytes", "bytes_in"} <= set(known)


def assert_groups_are_alike(projected, then, parts):
    for name in GROUPS:
        for part in parts:
            found, measured = (getattr(one.groups[name], part) for one in (projected, then))
            assert found == pytest.approx(measured, rel=1e-6, abs=1e-9)
    assert cells_of(projected.traffic[HOP]) == cells_of(then.traffic[HOP])


@settings(max_examples=25, deadline=None)
@given(plans(), plans(), tuples())
def test_what_is_local_is_what_is_measured_then_in_this_process(old, new, rows):
    seen, then = in_process(old, *rows), in_process(new, *rows)

    projected = seen.under(laid_out(old), laid_out(new))

    for edge in (("in", "a"), HOP):
        assert projected.edges[edge].local == pytest.approx(then.edges[edge].local, abs=1e-6)
    # Batches take the time they take; what came in is counted.
    assert_groups_are_alike(projected, then, ("tuples",))


def by_hand(plan, left, right):
    """How many tuples each key group had, how many keys, and what went between groups."""
    layout = laid_out(plan)
    groups = {
        name: layout.owners(name).group_of(as_keys(keys, seed=JOB.seed))
        for name, keys in (("a", left), ("b", right))
    }
    keys = {"a": left, "b": right}
    return (
        {name: np.bincount(of, minlength=GROUPS[name]) for name, of in groups.items()},
        {
            name: np.bincount(
                of[np.unique(keys[name], return_index=True)[1]], minlength=GROUPS[name]
            )
            for name, of in groups.items()
        },
        Counter(zip(groups["a"].tolist(), groups["b"].tolist(), strict=True)),
    )


def seen_by_hand(plan, left, right):
    """Statistics of these tuples, all keys named."""
    loads, keys, traffic = by_hand(plan, left, right)
    cells = np.array(sorted(traffic)).reshape(-1, 2)
    pairs = Counter(zip(left.tolist(), right.tolist(), strict=True))
    names = np.array(sorted(pairs)).reshape(-1, 2)
    return Statistics(
        operators={name: OperatorStatistics(len(left), 1.0) for name in GROUPS},
        pairs={HOP: KeyPairs(names[:, 0], names[:, 1], [pairs[one] for one in sorted(pairs)])},
        keys={
            name: KeyCounts(*np.unique(of, return_counts=True))
            for name, of in (("a", left), ("b", right))
        },
        groups={
            name: GroupStatistics(
                2.0 * load, 4.0 * keys[name], None, 8.0 * keys[name], load, bytes_in=3.0 * load
            )
            for name, load in loads.items()
        },
        traffic={
            HOP: GroupTraffic(cells[:, 0], cells[:, 1], [traffic[tuple(c)] for c in cells.tolist()])
        },
    )


def cells_of(traffic):
    return {
        (source, target): pytest.approx(count, abs=1e-6)
        for source, target, count in zip(
            traffic.sources.tolist(), traffic.targets.tolist(), traffic.tuples, strict=True
        )
        if count > 1e-6
    }


@settings(max_examples=75, deadline=None)
@given(plans(), plans(), tuples())
def test_groups_have_the_loads_state_and_traffic_of_the_keys_they_get(old, new, rows):
    seen, then = seen_by_hand(old, *rows), seen_by_hand(new, *rows)

    projected = seen.under(laid_out(old), laid_out(new))

    for name in GROUPS:
        for part in ("cpu", "memory", "state_bytes", "tuples", "bytes_in"):
            found = getattr(projected.groups[name], part)
            assert found == pytest.approx(getattr(then.groups[name], part), abs=1e-6)
    assert cells_of(projected.traffic[HOP]) == cells_of(then.traffic[HOP])
    projected.check(JOB)


@settings(max_examples=50, deadline=None)
@given(plans(), plans(), tuples(), st.randoms(use_true_random=False))
def test_sums_stay_also_where_few_keys_are_named(old, new, rows, random):
    seen = seen_by_hand(old, *rows)
    few = {}
    for name, known in seen.keys.items():
        some = random.randint(0, len(known))
        few[name] = KeyCounts(known.keys[:some], known.counts[:some])
    pairs = seen.pairs[HOP]
    some = random.randint(0, len(pairs))
    half = KeyPairs(pairs.left[:some], pairs.right[:some], 2.5 * pairs.counts[:some])
    edges = {HOP: EdgeStatistics(len(rows[0]), 500.0, 0.25 * len(rows[0]), 100.0)}
    seen = replace(seen, keys=few, pairs={HOP: half}, edges=edges)

    projected = seen.under(laid_out(old), laid_out(new))

    for name in GROUPS:
        for part in ("cpu", "memory", "state_bytes", "tuples", "bytes_in"):
            found, before = (getattr(one.groups[name], part) for one in (projected, seen))
            assert found.sum() == pytest.approx(before.sum())
            assert (found >= 0).all()
    assert projected.traffic[HOP].tuples.sum() == pytest.approx(seen.traffic[HOP].tuples.sum())
    assert projected.edges[HOP].tuples == len(rows[0])
    projected.check(JOB.under(new))


@settings(max_examples=60, deadline=None)
@given(plans(), tuples())
def test_nothing_changes_where_nothing_is_decided(plan, rows):
    seen = seen_by_hand(plan, *rows)
    seen = replace(seen, edges={HOP: EdgeStatistics(9.0, 90.0, 3.0, 30.0)}, costs={"a": _costs(2)})

    assert seen.under(laid_out(plan), laid_out(plan)).edges == seen.edges
    assert seen.under(laid_out(plan), laid_out(plan)).groups == seen.groups
    assert seen.under(laid_out(plan), laid_out(plan)).traffic == seen.traffic


def _costs(number):
    sketches = [CostSketch(16, 2, exact=4) for _ in range(number)]
    for place, sketch in enumerate(sketches):
        sketch.update([place], [float(1 + place)])
    return tuple(sketches)


@given(st.integers(1, 4), plans())
def test_costs_are_there_for_each_instance_and_none_is_counted_twice(before, new):
    old = Plan(parallelism={"a": before})
    seen = Statistics(costs={"a": _costs(before)})

    costs = seen.under(laid_out(old), laid_out(new)).costs["a"]

    assert len(costs) == new.parallelism["a"]
    assert sum(sketch.total for sketch in costs) == before
    assert sum(sketch.total_cost for sketch in costs) == sum(range(1, before + 1))


def test_what_an_instance_measured_stays_on_its_node():
    old = Plan(placement={"a": Deployment(("node-0", "node-1"), (0, 0, 0, 1, 1, 1))})
    gone = Plan(
        parallelism={"a": 2},
        placement={"a": Deployment(("node-1", "node-0"), (0, 0, 0, 1, 1, 1))},
    )
    costs = _costs(2)

    moved = Statistics(costs={"a": costs}).under(laid_out(old), laid_out(gone)).costs["a"]

    assert [1.0, 2.0] == [sketch.total_cost for sketch in costs]
    assert [2.0, 1.0] == [sketch.total_cost for sketch in moved]


def test_tuples_that_become_local_are_as_large_as_those_that_were_not():
    edge = EdgeStatistics(tuples=10.0, bytes=100.0, local=4.0, local_bytes=10.0)

    assert edge.with_gain(0.3) == EdgeStatistics(10.0, 100.0, 7.0, 55.0)
    assert edge.with_gain(-0.2) == EdgeStatistics(10.0, 100.0, 2.0, 5.0)
    assert edge.with_gain(1.0) == EdgeStatistics(10.0, 100.0, 10.0, 100.0)
    assert edge.with_gain(-1.0) == EdgeStatistics(10.0, 100.0, 0.0, 0.0)
    assert edge.with_gain(0.0) is edge


def test_what_stays_where_it_is_stays_local_and_what_meets_by_chance_does_so():
    job = (
        Topology.source("in", parallelism=2)
        .then("a", key="k", parallelism=2, key_groups=2)
        .then("map", parallelism=2, grouping=LocalOrShuffle())
        .then("out", parallelism=2)
    )
    apart = Deployment(("node-0", "node-1"))
    seen = Statistics(
        operators={"a": OperatorStatistics(100.0)},
        keys={"a": KeyCounts([0], [100.0])},
        edges={
            ("in", "a"): EdgeStatistics(100.0, local=50.0),
            ("a", "map"): EdgeStatistics(100.0, local=100.0),
            ("map", "out"): EdgeStatistics(100.0, local=50.0),
        },
    )
    together = Plan(
        placement={"a": Deployment(("node-0", "node-0"), (0, 1)), "in": apart, "map": apart}
    )

    then = seen.under(
        Layout.of(job, Cluster.uniform(2), Plan()), Layout.of(job, Cluster.uniform(2), together)
    )

    assert then.edges["in", "a"].local == pytest.approx(50.0)
    assert then.edges["a", "map"].local == pytest.approx(100.0)
    assert then.edges["map", "out"].local == pytest.approx(50.0)


def test_of_the_traffic_between_groups_only_that_of_named_pairs_goes_elsewhere():
    old = Plan(routing={"a": GroupTable([0], [2], 6), "b": GroupTable([0], [4], 9)})
    new = Plan(routing={"a": GroupTable([0], [5], 6), "b": GroupTable([0], [4], 9)})
    seen = Statistics(
        pairs={HOP: KeyPairs([0], [0], [3.0])}, traffic={HOP: GroupTraffic([2], [4], [10.0])}
    )

    traffic = seen.under(laid_out(old), laid_out(new)).traffic[HOP]

    assert traffic == GroupTraffic([2, 5], [4, 4], [7.0, 3.0])
