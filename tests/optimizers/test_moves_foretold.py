"""What `Plan.diff` says will move, by what was observed, and what then moves on both engines."""

from collections import Counter
from itertools import pairwise

import any_job
import numpy as np
import pytest
from any_job import Driver
from hypothesis import given, settings
from hypothesis import strategies as st
from one_world import (
    CLUSTERS,
    GROUPS,
    HOP,
    JOBS,
    KEYS,
    Watching,
    batch,
    decisions,
    homes_of_state,
    jobs,
    keyed,
    places,
    rows,
)

from grouping.groupings import Fields, GroupTable
from optimizers import KeyCounts, Plan, Statistics
from optimizers.layout import Layout, completed
from optimizers.loads import GroupStatistics
from optimizers.runtime.state import cache
from optimizers.simulation import SimulationEngine, Stream, Work
from optimizers.statistics import OperatorStatistics, Probe

STATE = 10.0


class Seeing(Watching):
    """Has everything observed; every key comes in every batch, so that all are counted."""

    observes = frozenset(Probe)


def foretold(migration, name):
    """The keys and bytes that are said to move, by both ends."""
    keys, sizes = Counter(), Counter()
    for move in (*migration.groups, *migration.keys):
        if move.operator == name:
            keys[move.old, move.new] += move.keys
            sizes[move.old, move.new] += move.bytes
    return +keys, dict(sizes)


@settings(max_examples=40)
@given(st.data(), jobs(["line", "fork"]), CLUSTERS)
def test_in_the_simulation_exactly_that_moves_which_was_foretold(data, topology, cluster):
    drained = set()

    def decide(current):
        decision = data.draw(decisions(current, without=drained))
        drained.update(decision.drain)
        return decision

    optimizer, tuples = Seeing(decide), rows()
    stream = Stream.steady({name: column * 4 for name, column in tuples.items()}, rate=1.0)
    engine = SimulationEngine(cluster=cluster, node_delay=1e9, batch_tuples=len(tuples["k"]))

    run = engine.run(
        topology,
        stream,
        optimizer,
        work={name: Work(0.0, state_bytes=STATE) for name in keyed(topology)},
    )

    seen = [statistics for _, _, statistics, _ in optimizer.views[1:]]
    for place, (old, new) in enumerate(pairwise(run.plans), start=1):
        migration = old.diff(new, topology, cluster, seen[place - 1])
        crossing = [moved for ends, moved in migration.by_nodes.items() if ends[0] != ends[1]]
        assert migration.total.keys == run.batches[place].moved.keys
        expected = run.batches[place].moved.bytes
        assert sum(moved.bytes for moved in crossing) == pytest.approx(expected)
        assert (0, 0, ()) == (migration.unsized, migration.total.uncounted, migration.reroutes)
        for name in keyed(topology):
            before, after = (places(topology, plan, name)[0] for plan in (old, new))
            ends = Counter((before[k], after[k]) for k in KEYS if before[k] != after[k])
            keys, sizes = foretold(migration, name)
            assert ends == keys
            expected = {end: STATE * ends[end] for end in sizes}
            assert expected == pytest.approx(sizes)


@settings(max_examples=12)  # a job on disk each
@given(st.data(), JOBS, CLUSTERS)
def test_in_this_process_exactly_that_moves_which_was_foretold(data, topology, cluster):
    """Rows of state have one size here: two numbers that are always as long."""
    with any_job.temporary() as folder:
        optimizer = Seeing(lambda current: data.draw(decisions(current)))
        driver = Driver(folder, topology, optimizer, cluster=cluster)
        driver.batch(batch(topology))
        for _ in range(2):
            had = {name: homes_of_state(driver, name) for name in keyed(topology)}
            old = driver.assigned.plan
            taken_over = driver.batch(batch(topology)).taken_over
            new, statistics = driver.assigned.plan, optimizer.views[-2][2]
            migration = old.diff(new, topology, cluster, statistics)
            moves = [m for m in (*migration.groups, *migration.keys) if m.old[0] != m.new[0]]
            assert sum(move.keys for move in moves) == taken_over
            assert (0, ()) == (migration.unsized, migration.reroutes)
            for name in keyed(topology):
                have = homes_of_state(driver, name)
                row = statistics.groups[name].state_bytes.sum() / len(KEYS)
                moved = sum(had[name][key] != have[key] for key in KEYS)
                mine = [move.bytes for move in moves if move.operator == name]
                assert sum(mine) == pytest.approx(row * moved)
        cache.forget()


@st.composite
def partly_seen(draw):
    """Counts of some keys, one of them perhaps of a key that never was; the state of groups."""
    few = draw(st.lists(st.sampled_from([*KEYS, 99]), unique=True, min_size=1))
    counts = KeyCounts(few, [draw(st.integers(1, 5)) for _ in few])
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    state = random.integers(0, 50, GROUPS).astype(float)
    tuples = counts.total + draw(st.integers(0, 30))
    return Statistics(
        operators=dict.fromkeys(HOP, OperatorStatistics(tuples, state_bytes=state.sum())),
        groups=dict.fromkeys(HOP, GroupStatistics(state_bytes=state)),
        keys=dict.fromkeys(HOP, counts),
    )


@given(st.data(), JOBS, CLUSTERS, partly_seen())
def test_statistics_are_projected_by_the_very_state_that_is_said_to_move(data, job, cluster, seen):
    current = completed(Plan(), job, cluster)
    plans = [current]
    for _ in range(2):
        decision = data.draw(decisions(plans[-1], rules=False))
        plans.append(completed(plans[-1].amended(decision, cluster), job, cluster))
    old, new = plans[1:]

    migration = old.diff(new, job, cluster, seen)
    layouts = [Layout.of(job, cluster, plan) for plan in (old, new)]
    projected = seen.under(*layouts)

    for name in HOP:
        state = seen.groups[name].state_bytes
        _, sizes = foretold(migration, name)
        assert all(size >= 0 for size in sizes.values())
        assert sum(sizes.values()) <= state.sum() * (1 + 1e-9)
        tables = [plan.routing[name] for plan in (old, new)]
        if not all(isinstance(table, Fields | GroupTable) for table in tables):
            continue  # a key whose instance a table names is not where its group is
        held = Counter()
        for sign, layout, amounts in zip(
            (-1, 1), layouts, (state, projected.groups[name].state_bytes), strict=True
        ):
            home = layout.homes[name]
            for group, amount in enumerate(amounts.tolist()):
                held[home.groups[group], home.node_of(group)] += sign * amount
        for (here, there), size in sizes.items():
            held[here] += size
            held[there] -= size
        assert dict.fromkeys(held, 0.0) == pytest.approx(dict(held), abs=1e-6)
