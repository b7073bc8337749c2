"""Key groups move under a budget in the engine's own tasks, state and files, without Spark."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from decide_later import Later

from optimizers import Albic, Chain, Cluster, Locality, Operator, Topology
from optimizers.folds import Count, Emit
from optimizers.past import Past
from optimizers.strategies.parts.migration_budget import USUAL_PACE, MigrationBudget, pace
from sketches.keys import as_keys

NODES, ROWS, BATCHES = 3, 2_000, 6
CLUSTER = Cluster.uniform(NODES)
JOB = (
    Topology.source("s")
    .then(Operator("a", "k", NODES, apply=Count(emit=Emit.TUPLES), key_groups=48))
    .then(Operator("b", "l", NODES, apply=Count(emit=Emit.CHANGES), key_groups=48))
)


def batches():
    """Return batches in which few of all keys come often; all keys come in the first."""
    drawn = np.random.default_rng(3)
    keys = drawn.zipf(1.4, ROWS * BATCHES) % 200
    keys[3 * ROWS :] = (keys[3 * ROWS :] * 83 + 17) % 200  # others come often from the fourth on
    tags = (keys * 7 + drawn.integers(0, 2, len(keys))) % 300
    keys[:300], tags[:300] = np.arange(300) % 200, np.arange(300)
    return [
        pa.table({"k": keys[start : start + ROWS], "l": tags[start : start + ROWS]})
        for start in range(0, len(keys), ROWS)
    ]


@dataclass(frozen=True)
class Heard(Later):
    """Keeps what a strategy is told of earlier epochs."""

    told: list[Past] = field(default_factory=list)

    def plan(self, topology, cluster, statistics, current):
        self.told.append(statistics.past)
        return super().plan(topology, cluster, statistics, current)


def places_of(layout, name, keys):
    """Return the instance of each key, and the key group."""
    owners = layout.owners(name)
    column = as_keys(keys, seed=owners.seed)
    return owners.assign(column), owners.group_of(column)


@pytest.mark.parametrize("with_locality", [False, True])
def test_what_moves_is_what_was_said_and_results_are_exact(tmp_path, with_locality):
    albic = Later(Albic(budget="30 %", max_load_distance=0.05), 3)
    locality = Locality(worth=0, offline=True, imbalance=1.5, adopts=False)
    driver = Driver(
        tmp_path, JOB, Chain(locality, albic) if with_locality else albic, every=1, cluster=CLUSTER
    )
    layouts, moved, tables = [], [], batches()
    for table in tables:
        summary = driver.batch({"s": table})
        layouts.append(driver.assigned.work.layout)
        moved.append(summary.taken_over)

    # 1. Nothing is lost or counted twice.
    for name, column in (("a", "k"), ("b", "l")):
        expected = Counter(key for table in tables for key in table.column(column).to_pylist())
        assert driver.results(name) == dict(expected)
    # 2. It acted, within its budget.
    decisions = driver.coordinator.decisions
    assert not [decision.refused for decision in decisions if decision.refused]
    acted = [one for one in decisions if one.applied and 3 <= one.after < BATCHES - 1]
    assert acted
    for decision in acted:
        said = {note.about: dict(note.figures) for note in decision.notes if note.by == "Albic"}
        assert 0 < said["the job"]["cost"] <= 0.3 * (1 + 1e-9)
        # 3. Just the keys of the groups moved of which it said so, and those with names were told.
        before, after = layouts[decision.after : decision.after + 2]
        total = named = 0
        for name, keys in (("a", 200), ("b", 300)):
            here, groups = places_of(before, name, np.arange(keys))
            there, later = places_of(after, name, np.arange(keys))
            assert groups.tolist() == later.tolist()
            old, new = np.array(before.homes[name].groups), np.array(after.homes[name].groups)
            gone = np.flatnonzero(old != new)
            assert len(gone) == said.get(name, {}).get("groups", 0)
            assert np.isin(groups[here != there], gone).all()
            assert (here != there).sum() == np.isin(groups, gone).sum()
            total += int((here != there).sum())
            table = before.owners(name).table
            if table is not None:
                known, _ = table.find(np.flatnonzero(here != there))
                named += int(known.sum())
        assert moved[decision.after + 1] == total > 0
        assert said["the job"]["keys"] == named
        assert (named > 0) == with_locality


def test_what_a_byte_costs_is_measured_as_state_moves(tmp_path):
    """No engine but the simulation told it, so that a budget in seconds was one in bytes."""
    albic = Heard(Albic(budget="30 %", max_load_distance=0.05), 1)
    driver = Driver(tmp_path, JOB, albic, every=1, cluster=CLUSTER)
    moved = [driver.batch({"s": table}) for table in batches()]

    past = albic.told[-1]
    assert 0 < sum(summary.taken_over for summary in moved)
    for summary in moved:
        keys, size, pause = summary.moved
        assert keys == summary.taken_over
        assert (0 < size < 1_000 * keys) if keys else size == 0
        assert 0 <= pause < summary.seconds
        assert pause > 0 or not keys
    measured = pace(past)
    assert measured != USUAL_PACE
    waited = sum(summary.moved.pause for summary in moved if summary.taken_over)
    size = sum(summary.moved.bytes for summary in moved)
    assert 0.5 < measured * waited / size < 2
    cost = MigrationBudget.of("2 s").costs(np.array([measured]), past)
    assert cost.tolist() == [1.0]
