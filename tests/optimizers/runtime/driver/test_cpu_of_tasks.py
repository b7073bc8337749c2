"""CPU time of tasks: what is told of instances and key groups is what the tasks took."""

import time
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from measuring import measured
from told_statistics import Told, group_of

from grouping.groupings import LocalOrShuffle
from optimizers import Albic, Cluster, Node, Operator, Plan, Topology
from optimizers.folds import Count, Emit, Mean, Sum, Together
from optimizers.layout import Layout
from optimizers.runtime import local_runner
from optimizers.runtime.task.task import run_source, run_task
from optimizers.strategies.parts.group_loads import bottleneck

NODES = Cluster(tuple(Node(f"n{n}", cores=1, memory=8e9) for n in range(4)))
KEYS = 5000
FOLDS = {
    "count": lambda emit: Count(emit=emit),
    "sum": lambda emit: Sum("v", emit=emit),
    "several": lambda emit: Together(n=Count(), s=Sum("v"), m=Mean("v"), emit=emit),
}


@pytest.fixture
def taken(monkeypatch):
    """The CPU seconds that the tasks of each operator took, each by itself."""
    found = defaultdict(list)

    def source(work, ticket, name, *rest):
        started = time.process_time()
        made = list(run_source(work, ticket, name, *rest))
        found[name].append(time.process_time() - started)
        return made

    def task(work, ticket, stage, number, batches):
        started = time.process_time()
        made = list(run_task(work, ticket, stage, number, batches))
        name = work.layout.stages[stage][number].operator
        found[name].append(time.process_time() - started)
        return made

    monkeypatch.setattr(local_runner, "run_source", source)
    monkeypatch.setattr(local_runner, "run_task", task)
    return found


def two_folds(fold):
    make = FOLDS[fold]
    return (
        Topology.source("s", parallelism=2)
        .then(Operator("a", "k", 4, apply=make(Emit.TUPLES)))
        .then(Operator("b", "l", 4, apply=make(Emit.NOTHING)))
    )


def tuples(random, rows):
    return pa.table(
        {
            name: random.integers(0, most, rows)
            for name, most in zip("klv", (KEYS, KEYS, 9), strict=True)
        }
    )


def test_no_more_than_a_tenth_of_what_tasks_take_is_told_of_nobody(tmp_path, taken):
    """Sources and operators without a key read zero, and keyed ones a quarter of it."""
    job = (
        Topology.source("s", parallelism=2)
        .then("f", parallelism=2, apply=lambda batch: batch)
        .then(Operator("a", "k", 4, apply=Count(emit=Emit.TUPLES)))
        .then(Operator("b", "l", 4, apply=Count(emit=Emit.NOTHING)))
    )
    random, told = np.random.default_rng(0), Told()
    driver = Driver(tmp_path, job, told, cluster=NODES, every=4)
    for _ in range(4):
        driver.batch({"s": [tuples(random, 200_000) for _ in range(2)]})

    seen = told.heard[-1]
    for name in "sfab":
        found, operator = seen.instances[name], seen.operators[name]
        whole = sum(taken[name])
        assert 0.9 * whole <= found.seconds.sum() <= whole * 1.001, name
        parts = operator.seconds + operator.shipping + operator.receiving
        assert found.seconds.sum() == pytest.approx(parts)
        assert found.cpu == pytest.approx(found.seconds / seen.seconds)
        assert found.receiving.sum() == pytest.approx(operator.receiving)
        assert found.shipping.sum() == pytest.approx(operator.shipping)
    assert (seen.instances["s"].shipping > 0).all()
    summary = driver.batch({"s": tuples(random, 10)})
    assert all(one.receiving > 0 for one in summary.instances)


def test_operators_that_are_attached_are_not_told_twice(tmp_path, taken):
    job = Topology.source("s").then("f", apply=lambda batch: batch, grouping=LocalOrShuffle())
    job = job.then("g", apply=lambda batch: batch, grouping=LocalOrShuffle()).then("a", key="k")
    random, told = np.random.default_rng(0), Told()
    driver = Driver(tmp_path, job, told, cluster=NODES, every=2)
    for _ in range(2):
        driver.batch({"s": tuples(random, 200_000)})

    layout, seen = Layout.of(job, NODES, Plan()), told.heard[-1]
    told_of = sum(float(seen.instances[name].seconds.sum()) for name in "sfg")
    whole = sum(sum(taken[name]) for name in "sfg")
    assert 0.9 * whole <= told_of <= 1.001 * whole
    assert layout.attached
    assert all(seen.instances[name].receiving.sum() == 0 for name in layout.attached)


EVEN, UNEVEN = (400_000, 400_001), (200_000, 600_000)  # how many tuples batches have


@pytest.mark.parametrize(
    ("fold", "sizes"), [("count", EVEN), ("count", UNEVEN), ("sum", UNEVEN), ("several", UNEVEN)]
)
def test_the_cpu_time_of_groups_of_ordinary_jobs_is_known_soon(tmp_path, fold, sizes):
    """It was in one epoch of 24, and strategies took memory for the bottleneck."""

    @measured
    def listen(folder):
        random, told = np.random.default_rng(0), Told()
        driver = Driver(folder, two_folds(fold), told, cluster=NODES, every=10)
        for _ in range(40):
            rows = int(random.integers(*sizes)) // 2
            driver.batch({"s": [tuples(random, rows) for _ in range(2)]})
        heard = [seen.groups for seen in told.heard if seen.groups]
        known = [all(each.cpu is not None for each in groups.values()) for groups in heard]
        assert ["cpu" if each else "tuples" for each in known] == list(map(bottleneck, heard))
        assert sum(known[1:]) >= 2  # of three: other work may disturb one

    listen(tmp_path)


@pytest.mark.parametrize("fold", ["count", "several"])
def test_groups_take_as_much_as_is_saved_without_them(tmp_path, taken, fold):
    """The same stream without the keys of every other group: tasks take so much less."""
    batches, sides = 30, ("all", "half")

    @measured
    def compare(folder):
        job, random = two_folds(fold), np.random.default_rng(1)
        layout, told = Layout.of(job, NODES, Plan()), Told()
        drivers = {
            side: Driver(folder / side, job, listener, cluster=NODES, every=batches)
            for side, listener in (("all", told), ("half", Told()))
        }
        seconds = {side: [] for side in sides}
        for _ in range(batches):  # in turns, for the machine may be slower at times
            table = tuples(random, 240_000)
            groups = group_of(layout, "b", table.column("l").to_numpy())
            for side in sides:
                given = table if side == "all" else table.filter(pa.array(groups % 2 == 0))
                half = len(given) // 2
                taken.clear()
                drivers[side].batch({"s": [given.slice(0, half), given.slice(half)]})
                seconds[side].append(sum(taken["b"]))
        saved = float(np.median(np.subtract(seconds["all"], seconds["half"])))
        seconds_told = told.heard[-1].groups["b"].seconds
        assert seconds_told is not None
        told_of = seconds_told[1::2].sum() / batches
        # What is saved is a difference of two measurements, itself uncertain by a tenth. It is of
        # what sends nothing: parcels cost more for each tuple the more there are.
        assert told_of == pytest.approx(saved, rel=0.2)

    compare(tmp_path)


def test_a_skewed_count_is_balanced_by_what_it_takes_and_not_by_memory(tmp_path):
    """Memory was known and CPU time was not: state is even however uneven the work is."""
    job = Topology.source("s", parallelism=2)
    job = job.then(Operator("a", "k", 4, apply=Count(emit=Emit.NOTHING), key_groups=32))
    layout, random = Layout.of(job, NODES, Plan()), np.random.default_rng(3)
    keys = np.arange(KEYS)
    groups = group_of(layout, "a", keys)
    hot = np.isin(groups, range(4))  # all at the first instance
    weights = np.where(hot, 4.0, 1.0)
    weights /= weights.sum()
    driver = Driver(tmp_path, job, Albic(budget="100 %"), cluster=NODES, every=8)
    imbalance = []
    for _ in range(40):
        drawn = pa.table({"k": random.choice(keys, 100_000, p=weights)})
        summary = driver.batch({"s": [drawn.slice(0, 50_000), drawn.slice(50_000)]})
        imbalance.append(summary.imbalance("a"))

    notes = [
        note.text
        for decision in driver.coordinator.decisions
        for note in decision.plan.notes
        if "load is uneven" in note.text
    ]
    assert notes
    assert all(text.endswith((", by cpu", ", by tuples")) for text in notes), notes
    assert imbalance[0] > 1.5
    assert max(imbalance[-8:]) < 1.15
