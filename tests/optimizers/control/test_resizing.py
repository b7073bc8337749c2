"""Operators that a decision resizes are placed by what goes between their key groups."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from locality_jobs import HOP, correlated, job, locality
from planted import community_pairs

from optimizers import Chain, Cluster, Fixed, Optimizer, Plan, Statistics
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.control.resizing import placed_by_traffic
from optimizers.layout import Layout, completed
from optimizers.loads import GroupStatistics
from optimizers.statistics import GroupTraffic
from optimizers.strategies.locality import Locality


def seen_under(plan, pairs, topology, cluster):
    """Statistics of the pairs: of keys, of groups, and of what went between groups."""
    layout = Layout.of(topology, cluster, plan)
    sides = dict(zip(HOP, (pairs.left, pairs.right), strict=True))
    groups = {name: layout.owners(name).group_of(keys) for name, keys in sides.items()}
    sizes = [topology.operator(name).key_groups for name in HOP]
    loads = {
        name: np.bincount(groups[name], pairs.counts, size)
        for name, size in zip(HOP, sizes, strict=True)
    }
    cells = np.zeros(sizes)
    np.add.at(cells, (groups["a"], groups["b"]), pairs.counts)
    rows, columns = np.nonzero(cells)
    return Statistics(
        pairs={HOP: pairs},
        groups={name: GroupStatistics(load, load, load, load) for name, load in loads.items()},
        traffic={HOP: GroupTraffic(rows, columns, cells[rows, columns])},
    )


STREAMS = {
    "communities": lambda: community_pairs(1)[0],
    "even communities": lambda: correlated(0),
    "small communities": lambda: community_pairs(2, number=60)[0],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(("before", "after"), [(6, 8), (8, 9), (8, 6)])
def test_locality_survives_a_rescale(name, before, after):
    """With the 128 key groups that operators have by default."""
    pairs, cluster = STREAMS[name](), Cluster.uniform(max(before, after))
    topology = job(before, before)
    first = Locality(worth=0).plan(topology, cluster, Statistics(pairs={HOP: pairs}), Plan())
    settled = completed(first, topology, cluster)
    seen = seen_under(settled, pairs, topology, cluster)

    resized = Plan(parallelism=dict.fromkeys(HOP, after))
    later = settled.amended(
        placed_by_traffic(resized, topology.under(settled), cluster, seen, settled), cluster
    )

    fresh = Locality(worth=0).plan(
        job(after, after), cluster, Statistics(pairs={HOP: pairs}), Plan()
    )
    best = locality(fresh, pairs, topology=job(after, after), cluster=cluster)
    least = 0.95 if before < after else 0.92
    assert locality(later, pairs, topology=topology, cluster=cluster) >= least * best
    must = 1 - min(before, after) / max(before, after)
    for operator, load in ((name, seen.groups[name].cpu) for name in HOP):
        old, new = (np.array(plan.placement[operator].groups) for plan in (settled, later))
        assert load[old != new].sum() <= (must + 0.05) * load.sum()
        held = np.bincount(new, load, after)
        heaviest = load.max() / load.sum() * after
        assert held.max() / held.mean() <= max(1.06, heaviest, 1.2 * (before > after))


@dataclass(frozen=True)
class Peeking(Optimizer):
    """Decides nothing, and remembers the plan that is in force as it is asked."""

    seen: list

    def plan(self, topology, cluster, statistics, current):
        self.seen.append((current, statistics))
        return Plan()


def test_what_a_chain_shows_its_later_steps_is_what_comes_into_force():
    pairs, cluster, topology = correlated(0), Cluster.uniform(8), job(6, 6)
    first = Locality(worth=0).plan(topology, cluster, Statistics(pairs={HOP: pairs}), Plan())
    settled = completed(first, topology, cluster)
    seen = seen_under(settled, pairs, topology, cluster)
    resizing, peeking = Fixed(Plan(parallelism={"a": 8, "b": 7})), Peeking([])
    question = Question(topology.under(settled), cluster, seen, settled)

    alone = ask(resizing, question).plan
    chained = ask(Chain(resizing, peeking), question).plan

    assert set(HOP) == set(alone.placement)
    assert alone == chained
    ((shown, _),) = peeking.seen
    assert shown == settled.amended(chained, cluster)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(HOP), st.integers(1, 6), min_size=1),
    st.booleans(),
    st.integers(0, 1 << 20),
)
def test_a_placement_is_added_where_groups_were_seen_and_instances_are_as_without(
    counts, is_seen, seed
):
    pairs, cluster, topology = correlated(seed, tuples=200), Cluster.uniform(3), job(4, 4)
    current = completed(Plan(), topology, cluster)
    seen = seen_under(current, pairs, topology, cluster) if is_seen else Statistics()
    decision = Plan(parallelism=counts)

    placed = placed_by_traffic(decision, topology, cluster, seen, current)

    changing = {name for name, count in counts.items() if count != 4} if is_seen else set()
    assert changing == set(placed.placement)
    assert counts == placed.parallelism
    plain = current.amended(decision, cluster).placement
    for name in changing:
        assert plain[name].nodes == placed.placement[name].nodes
    placed.check(topology, cluster)
    assert placed == placed_by_traffic(placed, topology, cluster, seen, current)


def test_what_a_decision_places_itself_stays_so():
    pairs, cluster, topology = correlated(0, tuples=200), Cluster.uniform(3), job(4, 4)
    current = completed(Plan(), topology, cluster)
    seen = seen_under(current, pairs, topology, cluster)
    own = current.amended(Plan(parallelism={"a": 2}), cluster).placement["a"]
    decision = Plan(parallelism={"a": 2, "b": 6}, placement={"a": own})

    placed = placed_by_traffic(decision, topology, cluster, seen, current)

    assert own == placed.placement["a"]
    assert 6 == len(placed.placement["b"].nodes)
