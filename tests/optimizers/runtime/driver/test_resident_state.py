"""How much state stays in memory: what is told is what is found there."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from told_statistics import NODES, Told, group_of

from grouping.routing_table import GroupTable
from optimizers import Deployment, Operator, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.layout import Instance, Layout
from optimizers.runtime.state import cache
from optimizers.runtime.state.cache import _StateMemory

JOB = (
    Topology.source("s")
    .then(Operator("a", "k", 3, apply=Count(emit=Emit.TUPLES), key_groups=6))
    .then(Operator("b", "l", 2, apply=Count(), key_groups=6))
)
ROW = 8 + 8 + 8
"""The bytes of a key, where it lies, and its count."""


@pytest.fixture(autouse=True)
def _nothing_is_there_yet():
    cache.forget()


def rows(*keys):
    return pa.table({"k": np.array(keys), "l": np.array(keys)})


def in_memory(driver, monkeypatch):
    """By operator the bytes of each instance's state that a task would not have to read."""
    with monkeypatch.context() as patch:
        patch.setattr(cache, "read_states", lambda *_: pa.table({}))
        return {
            name: [
                cache.state_in(driver.checkpoint.location, Instance(name, number), files).nbytes
                if files
                else 0
                for number, files in enumerate(instances)
            ]
            for name, instances in driver.coordinator.committed.state.items()
        }


def told_of(told):
    return {
        name: each.resident.tolist()
        for name, each in told.heard[-1].instances.items()
        if JOB.operator(name).keyed
    }


@pytest.mark.parametrize("sharing", [1, 2])
@pytest.mark.parametrize("most", [0, 9_000, 20_000, 40_000, 1 << 30])
def test_as_much_is_told_to_be_in_memory_as_is_found_there(tmp_path, monkeypatch, most, sharing):
    """It was all of it, also where one instance's state had to go for another's."""
    told = Told()
    driver = Driver(tmp_path, JOB, told, cluster=NODES, resident=most, sharing=sharing)
    random = np.random.default_rng(most)
    for size in (600, 600, 1, 300, 2, 600, 5):
        driver.batch({"s": rows(*random.choice(600, size, replace=False).tolist())})

        assert in_memory(driver, monkeypatch) == told_of(told)
        found = [told.heard[-1].instances[name] for name in "ab"]
        assert sum(each.resident.sum() for each in found) == cache.kept() <= most // sharing
    held = [each.state_bytes for each in found]
    assert [600 * ROW] * 2 == [each.sum() for each in held]
    assert all((each.resident <= each.state_bytes).all() for each in found)
    # Shares of memory are of all state, see `InstanceStatistics`.
    assert [each.memory.tolist() for each in found] == [(each / 1e6).tolist() for each in held]


def test_some_of_the_state_is_in_memory_and_some_is_not(tmp_path):
    """So that the test above tells something."""
    told = Told()
    driver = Driver(tmp_path, JOB, told, cluster=NODES, resident=20_000)
    driver.batch({"s": rows(*range(600))})

    found = told_of(told)
    assert 0 < sum(map(sum, found.values())) < 2 * 600 * ROW
    assert 0 in found["a"]


def test_what_another_job_took_the_room_of_is_not_told_to_be_in_memory(tmp_path, monkeypatch):
    told = Told()
    driver = Driver(tmp_path / "one", JOB, told, cluster=NODES, resident=40_000)
    driver.batch({"s": rows(*range(600))})
    other = Driver(tmp_path / "other", JOB, Told(), cluster=NODES, resident=40_000)
    other.batch({"s": rows(*range(600))})

    driver.batch({"s": rows(1)})

    assert in_memory(driver, monkeypatch) == told_of(told)
    assert sum(map(sum, told_of(told).values())) < 2 * 600 * ROW


def test_where_a_state_was_only_read_it_is_not_known_what_other_processes_hold(
    tmp_path, monkeypatch
):
    """Keys get another group, so an instance reads its state that no tuples come to."""
    homes = {"a": Deployment(("x", "y", "x"), (0, 0, 1, 1, 2, 2))}
    groups = group_of(Layout.of(JOB, NODES, Plan(placement=homes)), "a", np.arange(60))
    moved, other = (int(np.flatnonzero(groups == group)[0]) for group in (0, 2))
    here = Told(Plan(placement=homes), Plan(routing={"a": GroupTable([moved], [1], 6)}))
    driver = Driver(tmp_path, JOB, here, cluster=NODES)
    driver.batch({"s": rows(*range(60))})
    monkeypatch.setattr(cache, "_MEMORY", _StateMemory())

    driver.batch({"s": rows(other)})

    seen = here.heard[-1].instances["a"]
    assert seen.resident is None
    assert 60 * ROW == seen.state_bytes.sum()

    driver.batch({"s": rows(*range(60))})
    assert in_memory(driver, monkeypatch) == told_of(here)
