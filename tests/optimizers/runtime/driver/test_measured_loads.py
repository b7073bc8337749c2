"""CPU time of key groups and calls, as measured: what is told is what the work took."""

import busy
import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from measuring import measured
from told_statistics import NODES, Told, group_of

from grouping.routing_table import GroupTable
from optimizers import Deployment, Operator, Plan, Topology
from optimizers.folds import Count, EachKey
from optimizers.layout import Layout
from optimizers.runtime.driver.loads import Known, LoadCollector
from optimizers.runtime.driver.state_sizes import HeldState
from optimizers.runtime.observe.call_sums import CallModel
from optimizers.runtime.task.reports import Reports, TaskReport


def epochs(folder, job, batches, *, every):
    told = Told()
    driver = Driver(folder, job, told, cluster=NODES, every=every)
    for tables in batches:
        driver.batch(tables)
    return told.heard[-1]


def keyed(fold, groups=8):
    operator = Operator("a", "k", 2, apply=fold, key_groups=groups)
    return Topology.source("s").then(operator)


@measured
def test_groups_take_what_the_function_takes_for_their_keys(tmp_path):
    job = keyed(EachKey(busy.by_key, pa.string()))
    random = np.random.default_rng(5)
    tables = [pa.table({"k": random.integers(0, 60, 200)}) for _ in range(4)]

    seen = epochs(tmp_path, job, [{"s": table} for table in tables], every=4)

    layout = Layout.of(job, NODES, Plan())
    truth = np.zeros(8)
    for table in tables:
        keys = table.column("k").to_numpy()
        np.add.at(truth, group_of(layout, "a", keys), [busy.cost_of(key) for key in keys])
    assert seen.groups["a"].seconds == pytest.approx(truth, rel=0.1)
    # Each batch took 2 seconds, and a node has two cores.
    assert seen.groups["a"].cpu == pytest.approx(truth / 8.0 / 2, rel=0.1)


def spun(tables, job, fold=busy.Spinning):
    """Where tuples take all the same: by group, what they take, without the calls."""
    layout = Layout.of(job, NODES, Plan())
    keys = np.concatenate([table.column("k").to_numpy() for table in tables])
    return np.bincount(group_of(layout, "a", keys), minlength=8) * fold.tuple


def stream(batches=20, rows_each=(150, 450)):
    random = np.random.default_rng(8)
    return [
        pa.table({"k": random.integers(0, 60, int(random.integers(*rows_each)))})
        for _ in range(batches)
    ]


@measured
def test_what_calls_take_for_themselves_is_no_load_of_groups(tmp_path):
    job, tables = keyed(busy.Slow()), stream()

    seen = epochs(tmp_path, job, [{"s": table} for table in tables], every=20)

    truth = spun(tables, job, busy.Slow)
    assert seen.groups["a"].seconds == pytest.approx(truth, rel=0.15)
    assert seen.groups["a"].seconds.sum() == pytest.approx(truth.sum(), rel=0.1)
    # Two instances were called twenty times each; what the engine does for a task comes to it.
    calls = 20 * busy.Slow.call
    assert seen.instances["a"].fixed is not None
    assert (seen.instances["a"].fixed > 0.9 * calls).all()
    engine = seen.instances["a"].receiving
    assert (seen.instances["a"].fixed < 1.3 * calls + engine).all()
    whole = seen.instances["a"].seconds.sum()
    assert whole == pytest.approx(truth.sum() + seen.instances["a"].fixed.sum(), rel=0.1)


@measured
def test_one_stream_is_as_uneven_however_it_is_cut(tmp_path):
    """What calls take was spread over their tuples: instances with few of them seemed busier."""
    job, whole = keyed(busy.Slow()), pa.concat_tables(stream())
    found = []
    for name, size in (("large", 900), ("small", 300)):
        tables = [whole.slice(start, size) for start in range(0, len(whole), size)]
        seen = epochs(tmp_path / name, job, [{"s": t} for t in tables], every=len(tables))
        loads = seen.groups["a"].seconds
        assert loads is not None
        found.append(loads.max() / loads.mean())

    truth = spun([whole], job, busy.Slow)
    assert found == pytest.approx([truth.max() / truth.mean()] * 2, rel=0.1)


def test_what_cannot_be_told_by_tuples_and_keys_is_not_told(tmp_path):
    seen = epochs(tmp_path, keyed(busy.Uneven()), [{"s": t} for t in stream(4)], every=4)

    assert seen.groups["a"].seconds is seen.groups["a"].cpu is None
    assert seen.instances["a"].fixed is None
    assert seen.instances["a"].seconds.sum() > 0


def test_few_batches_of_one_size_do_not_tell_what_calls_take(tmp_path):
    tables = [pa.table({"k": np.arange(300) % 60})]

    seen = epochs(tmp_path, keyed(busy.Spinning()), [{"s": t} for t in tables], every=1)

    assert seen.groups["a"].seconds is None
    assert seen.groups["a"].tuples.sum() == 300


@measured
def test_calls_of_functions_without_a_key_are_told_as_well(tmp_path):
    job = Topology.source("s").then("f", parallelism=2, apply=busy.slow_batch)
    batches = [{"s": [table, table.slice(0, 20)]} for table in stream(24, (50, 2000))]

    seen = epochs(tmp_path, job, batches, every=24)

    found = seen.instances["f"]
    tuples = sum(len(part) for tables in batches for part in tables["s"])
    assert found.tuples.sum() == tuples
    assert found.fixed is not None
    assert (found.seconds - found.fixed).sum() == pytest.approx(tuples * 1e-5, rel=0.15)
    assert found.fixed.sum() > 48e-3  # two instances were called once a batch
    source = seen.instances["s"]
    assert source.seconds.sum() == pytest.approx((source.receiving + source.shipping).sum())
    assert source.shipping.sum() > 0
    assert source.fixed is None or (source.fixed < source.seconds).all()


@pytest.mark.parametrize(("error", "known"), [(0.04, True), (0.06, False)])
def test_what_may_be_off_by_more_than_a_tenth_is_not_told(error, known):
    """Two standard errors are allowed."""
    layout = Layout.of(keyed(Count()), NODES, Plan())
    none, ten = np.array([0.0]), np.array([10])
    report = TaskReport(
        operator="a",
        instance=0,
        sender=0,
        tuples=10,
        seconds=2.0,
        calls=1,
        groups=np.array([2]),
        group_tuples=ten,
        group_keys=ten,
        group_in=none,
        group_remote_in=none,
    )
    epoch = LoadCollector(layout)
    epoch.add(Reports.of([report]))
    model = CallModel(np.array([0.5, 0.1, 0.0, 0.0]), np.diag([0.0, (0.1 * error) ** 2, 0.0, 0.0]))

    found = epoch.groups("a", Known(NODES, 1.0, HeldState({}), lambda _: model)).seconds

    assert (found is not None) == known
    if known:
        # But for what a call may take longer to begin than is known.
        assert [0.0, 0.0, 1.0, 0.0] == pytest.approx(found[:4].tolist(), rel=1e-3)


def test_keys_that_get_another_group_take_their_state_along_though_nothing_of_them_comes(tmp_path):
    job, owners = keyed(Count(), groups=6), (0, 0, 0, 1, 1, 1)
    homes = {"a": Deployment(("x", "y"), owners)}
    groups = group_of(Layout.of(job, NODES, Plan(placement=homes)), "a", np.arange(40))
    moved, other = (int(np.flatnonzero(groups == group)[0]) for group in (3, 0))
    told = Told(Plan(placement=homes), Plan(routing={"a": GroupTable([moved], [4], 6)}), Plan())
    driver = Driver(tmp_path, job, told, cluster=NODES)
    driver.batch({"s": pa.table({"k": np.arange(40)})})

    driver.batch({"s": pa.table({"k": [other]})})  # which is at the other instance

    before, after = (told.heard[epoch].groups["a"].state_bytes for epoch in (1, 2))
    row = 8 + 8 + 8
    assert (before + np.array([0, 0, 0, -row, row, 0])).tolist() == after.tolist()


@measured
def test_what_is_timed_key_by_key_counts_once(tmp_path):
    """Also where keys take all the same, so that tuples would tell it as well."""

    def even(_key, rows, _state):
        return int(1e6 * busy.spin(1e-4 * len(rows)))

    job, tables = keyed(EachKey(even, pa.int64())), stream(12)

    seen = epochs(tmp_path, job, [{"s": table} for table in tables], every=12)

    tuples = sum(map(len, tables))
    assert seen.groups["a"].seconds is not None
    assert seen.groups["a"].seconds.sum() == pytest.approx(1e-4 * tuples, rel=0.1)
