"""Loads of key groups and instances: what they are told to be is what a count by hand comes to."""

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from any_job import Driver, temporary
from cut_hash import cut_hash
from hypothesis import example, given, settings
from hypothesis import strategies as st
from told_statistics import NODES, Told, group_of

from grouping.groupings import LocalOrShuffle, Shuffle
from grouping.routing_table import GroupTable
from optimizers import Deployment, Edge, Operator, Plan, Topology
from optimizers.folds import DELETE, Count, EachKey, Emit
from optimizers.folds.fold import Step
from optimizers.runtime.observe.row_sizes import row_sizes
from optimizers.runtime.state import cache
from optimizers.runtime.state.file import read_states
from optimizers.runtime.task.reports import Reports

GROUPS = {"a": 6, "b": 5}


def sized(key, rows, state):
    """Keeps a text that grows with the key; some keys are forgotten now and then."""
    (number,) = key
    if number % 11 == 10 and state:
        return DELETE
    return "x" * (40 * number + len(rows))


JOB = (
    Topology.source("s", parallelism=2)
    .then(Operator("a", "k", 2, apply=EachKey(sized, pa.string(), emit=Emit.TUPLES), key_groups=6))
    .then(Operator("b", "l", 3, apply=Count(emit=Emit.CHANGES), key_groups=5))
    .then(Operator("c", None, 2))
)


def odd(batch):
    return batch.filter(pc.equal(pc.bit_wise_and(batch.column("k"), 1), 1))


@st.composite
def plans(draw):
    """Other places, other instances, and other groups of some keys."""
    parallelism, placement, routing = {}, {}, {}
    for name, groups in GROUPS.items():
        count = parallelism[name] = draw(st.integers(1, 3))
        owners = tuple(draw(st.integers(0, count - 1)) for _ in range(groups))
        nodes = tuple(draw(st.sampled_from("xy")) for _ in range(count))
        placement[name] = Deployment(nodes, owners)
        keys = draw(st.lists(st.integers(0, 15), unique=True, max_size=8))
        named = [draw(st.integers(0, groups - 1)) for _ in keys]
        routing[name] = GroupTable(keys, named, groups)
    placement["s"] = Deployment((draw(st.sampled_from("xy")), draw(st.sampled_from("xy"))), ())
    return Plan(parallelism=parallelism, placement=placement, routing=routing)


def rows(seed, count):
    """Tuples whose size differs by key: a text each, of as many letters as its key says."""
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 16, (2, count))
    return pa.table({"k": left, "l": right, "t": ["t" * (9 * int(k)) for k in left]})


def by_hand(layout, batches):
    """What each group of ``a`` and ``b`` had, tuple by tuple; sizes as Arrow has them in memory."""
    sums = defaultdict(Counter)
    for parts in batches:
        counts = set()
        for sender, table in enumerate(parts):
            groups = [
                group_of(layout, name, table.column(c)) for name, c in (("a", "k"), ("b", "l"))
            ]
            source = layout.homes["s"].nodes[sender]
            columns = zip(*groups, row_sizes(table).tolist(), table["l"].to_pylist(), strict=True)
            for one, two, size, key in columns:
                places = [source, layout.homes["a"].node_of(one), layout.homes["b"].node_of(two)]
                for number, (name, group) in enumerate((("a", one), ("b", two))):
                    sums[name, "tuples"][group] += 1
                    sums[name, "bytes_in"][group] += size
                    sums[name, "remote_in"][group] += size * (places[number] != places[number + 1])
                sums["a", "bytes_out"][one] += size
                sums["a", "remote_out"][one] += size * (places[1] != places[2])
                counts.add((key, two))
        for _, group in counts:  # of each key a row with it and its count
            sums["b", "bytes_out"][group] += 16
    return sums


def with_heads(found, expected, owners):
    """What is expected of groups, with the heads of parcels: by instance, as those are sent there.

    Each group of an instance has the same share of all heads there as of what is in the parcels.
    """
    wanted = np.array([expected[group] for group in range(len(owners))], dtype=float)
    for instance in set(owners):
        mine = np.flatnonzero(np.array(owners) == instance)
        inside, sent = wanted[mine].sum(), found[mine].sum()
        assert sent >= inside * 0.999
        assert inside or not sent
        wanted[mine] *= sent / (inside or 1.0)
    return wanted


@settings(max_examples=12, deadline=None)
@given(plans(), st.integers(0, 99))
def test_what_groups_are_told_to_have_is_what_they_had(plan, seed):
    batches = [[rows(seed + n, 900), rows(seed + 50 + n, 600)] for n in range(2)]
    told = Told(plan)
    with temporary() as folder:
        driver = Driver(folder, JOB, told, cluster=NODES, every=2, parcel=1 << 16)
        for parts in batches:
            driver.batch({"s": parts})
        layout = driver.coordinator.layout
        files = driver.coordinator.committed.state
        held = {
            name: [
                read_states(driver.checkpoint.location, chain) if chain else None
                for chain in files[name]
            ]
            for name in GROUPS
        }
    seen = told.heard[1]
    sums = by_hand(layout, batches)

    for name, number in GROUPS.items():
        found = seen.groups[name]
        assert [sums[name, "tuples"][group] for group in range(number)] == found.tuples.tolist()
        for part in ("bytes_in", "remote_in", "bytes_out", "remote_out"):
            if (name, part) in sums:
                got = getattr(found, part)
                wanted = with_heads(got, sums[name, part], layout.homes[name].groups)
                assert got == pytest.approx(wanted, rel=0.1, abs=2e3), (name, part)
        # State is where it is kept, and as large as it is there.
        state = np.zeros(number)
        for table in held[name]:
            if table is not None:
                owners = group_of(layout, name, table.column("key_0"))
                state += np.bincount(owners, row_sizes(table), number)
        assert state.tolist() == pytest.approx(found.state_bytes.tolist())
        assert found.memory.tolist() == pytest.approx((state / 1e6).tolist())
        # Instances have what their groups have.
        instances, owners = seen.instances[name], np.array(layout.homes[name].groups)
        for part, column in found.columns.items():
            if part in {"tuples", "bytes_in", "remote_in", "bytes_out", "remote_out"}:
                whole = np.bincount(owners, column, len(instances))
                assert whole == pytest.approx(getattr(instances, part), rel=1e-6, abs=1e-6), part
        sizes = [0 if table is None else table.nbytes for table in held[name]]
        assert sizes == instances.state_bytes.tolist() == instances.resident.tolist()
        assert seen.operators[name].state_bytes == sum(sizes)
        assert instances.nodes == layout.homes[name].nodes
        assert instances.hosts is None
    assert [1800.0, 1200.0] == seen.instances["s"].tuples.tolist()
    edges = seen.edges
    assert edges["s", "a"].bytes == pytest.approx(seen.instances["s"].bytes_out.sum())
    assert edges["a", "b"].bytes == pytest.approx(seen.groups["a"].bytes_out.sum())
    remote = edges["a", "b"].bytes - edges["a", "b"].local_bytes
    assert remote == pytest.approx(seen.groups["b"].remote_in.sum(), abs=1e-6)
    assert remote == pytest.approx(seen.groups["a"].remote_out.sum(), abs=1e-6)
    assert seen.instances["c"].tuples.sum() == edges["b", "c"].tuples


@settings(max_examples=6, deadline=None)
@given(plans(), plans(), st.integers(0, 99), st.booleans())
def test_state_is_known_also_of_instances_that_get_no_tuples_any_more(one, two, seed, forgets):
    """And under a hash in which many keys meet, and where processes remember nothing."""
    with temporary() as folder, cut_hash(10):
        told = Told(one, two)
        driver = Driver(folder, JOB, told, cluster=NODES)
        for number in range(3):
            if forgets:
                cache.forget()
            table = rows(seed, 200)
            few = table.filter(pa.array(table.column("k").to_numpy() == 3))
            driver.batch({"s": table if number == 0 else few})
        layout, files = driver.coordinator.layout, driver.coordinator.committed.state
        for name, number in GROUPS.items():
            state = np.zeros(number)
            for chain in files[name]:
                if chain:
                    table = read_states(driver.checkpoint.location, chain)
                    owners = group_of(layout, name, table.column("key_0"))
                    state += np.bincount(owners, row_sizes(table), number)
            known = told.heard[3].groups.get(name)
            if known is not None:
                assert state.tolist() == pytest.approx(known.state_bytes.tolist())


def test_after_a_restart_state_is_not_told_before_all_have_looked(tmp_path):
    """Its files are no measure: here the changes of six batches lie in them, six times the rows."""
    job = Topology.source("s").then("a", key="k", parallelism=2, apply=Count())
    table = pa.table({"k": np.arange(100)})
    before = Driver(tmp_path, job, Told(), cluster=NODES)
    for _ in range(6):
        before.batch({"s": table})
    told = Told()
    again = Driver(tmp_path, job, told, cluster=NODES)

    again.batch({"s": table.slice(0, 1)})
    again.batch({"s": table})

    first, second = ([seen.groups, seen.instances, seen.operators] for seen in told.heard)
    assert [None] * 3 == [part["a"].state_bytes for part in first]
    assert [100 * (8 + 8 + 8)] * 3 == [np.sum(part["a"].state_bytes) for part in second]
    assert {0.0} == {seen.operators["s"].state_bytes for seen in told.heard}


def test_an_operator_that_nothing_has_come_to_is_told_to_hold_nothing(tmp_path):
    told = Told()
    job = Topology.source("s").then("a", key="k", parallelism=2, apply=Count())

    Driver(tmp_path, job, told, cluster=NODES).batch({"s": pa.table({"k": np.arange(0)})})

    assert told.heard[-1].operators["a"].state_bytes == 0.0


@pytest.mark.parametrize("beside", [True, False], ids=["also-a-key", "attached-only"])
def test_tuples_that_stay_in_their_task_are_as_large_as_others(tmp_path, beside):
    """Attached operators were told to receive no bytes, and who feeds them to send none."""
    job = (
        Topology.source("s", parallelism=2)
        .then("f", parallelism=2, grouping=LocalOrShuffle(), apply=odd)
        .then("g", parallelism=2, grouping=LocalOrShuffle())
        .then(Operator("a", "k", 2, Count(emit=Emit.TUPLES), key_groups=6))
        .then("h", parallelism=2, grouping=LocalOrShuffle())
    )
    if beside:
        job = job.then(Operator("b", "l", 3, Count(emit=Emit.NOTHING)), after="a")
    told = Told()
    driver = Driver(tmp_path, job, told, cluster=NODES, every=2)
    batches = [[rows(seed, 900), rows(seed + 1, 600), rows(seed + 2, 700)] for seed in (0, 9)]

    for tables in batches:
        summary = driver.batch({"s": [each.slice(0, len(each) - 50) for each in tables]})

    seen, layout = told.heard[-1], driver.coordinator.layout
    assert {"f", "g", "h"} == layout.attached
    came = [pa.concat_tables([t.slice(0, len(t) - 50) for t in tables]) for tables in batches]
    whole = pa.concat_tables(came)
    left = whole.filter(pc.equal(pc.bit_wise_and(whole.column("k"), 1), 1))
    sizes = row_sizes(left)
    true = {("s", "f"): row_sizes(whole).sum()}
    true |= dict.fromkeys((("f", "g"), ("a", "h")), sizes.sum())
    for (source, target), size in true.items():
        edge, told_of = seen.edges[source, target], seen.instances[target]
        assert edge.tuples == edge.local == seen.operators[target].tuples
        assert edge.bytes == edge.local_bytes == told_of.bytes_in.sum()
        assert edge.bytes == pytest.approx(size, rel=0.02)
        assert edge.parcels is None
        assert not told_of.remote_in.any()
    for name, sent in (("s", ("s", "f")), ("f", ("f", "g"))):
        assert seen.instances[name].bytes_out.tolist() == pytest.approx(
            seen.instances[sent[1]].bytes_in.tolist()
        )
        assert not seen.instances[name].remote_out.any()
    assert ("s", "f") in summary.edges
    # Of key groups as well, with what goes by parcels to the other operator.
    groups = group_of(layout, "a", left.column("k").to_numpy())
    by_hand = np.bincount(groups, sizes, 6) * (1 + beside)
    assert seen.groups["a"].bytes_out == pytest.approx(by_hand, rel=0.1)
    assert seen.groups["a"].bytes_out.sum() == pytest.approx(seen.instances["a"].bytes_out.sum())
    assert seen.groups["a"].remote_out.any() == beside


def test_tuples_are_as_large_whether_they_travel_or_not(tmp_path):
    found = []
    for grouping in (LocalOrShuffle(), Shuffle()):
        job = Topology.source("s", parallelism=2).then("f", parallelism=2, grouping=grouping)
        told = Told()
        driver = Driver(tmp_path / type(grouping).__name__, job, told, cluster=NODES)
        driver.batch({"s": [rows(0, 3000), rows(1, 2000)]})
        found.append((driver.coordinator.layout.attached, told.heard[-1]))

    (attached, stayed), (none, travelled) = found
    assert (frozenset("f"), frozenset()) == (attached, none)
    for fact, name in (("bytes_out", "s"), ("bytes_in", "f")):
        one, other = (getattr(seen.instances[name], fact).sum() for seen in (stayed, travelled))
        assert one == pytest.approx(other, rel=0.05)
    assert stayed.edges["s", "f"].bytes == pytest.approx(travelled.edges["s", "f"].bytes, rel=0.05)


class First(Count):
    """Sends the first tuple of a batch, and does not say of which key that is."""

    def sent(self, state, tuples, key_rows, gone=None):
        return Step(state, tuples.slice(0, 1), gone)


def test_what_groups_hand_on_is_not_told_where_it_is_not_known_of_which_key_it_is(tmp_path):
    job = Topology.source("s").then("a", key="k", apply=First(emit=Emit.TUPLES))
    job = job.then("h", grouping=LocalOrShuffle())
    told = Told()
    driver = Driver(tmp_path, job, told, cluster=NODES)

    driver.batch({"s": pa.table({"k": [1, 2, 2]})})

    assert {"h"} == driver.coordinator.layout.attached
    assert told.heard[-1].groups["a"].bytes_out is None
    assert told.heard[-1].instances["a"].bytes_out.sum() > 0


def test_rows_without_a_key_leave_open_what_groups_sent(tmp_path):
    job = Topology(
        (
            Operator("s"),
            Operator("a", "k", apply=Count(emit=Emit.TUPLES)),
            Operator("b", "l", on_error="skip"),
        ),
        (Edge("s", "a"), Edge("a", "b")),
    )
    told = Told()

    Driver(tmp_path, job, told, cluster=NODES).batch({"s": pa.table({"k": [1, 2], "l": [None, 3]})})

    assert told.heard[-1].groups["a"].bytes_out is None
    assert told.heard[-1].groups["b"].bytes_in is not None


def test_remote_is_by_the_machines_on_which_tasks_ran(tmp_path):
    from optimizers.runtime.task.parcels import REPORT, from_batches  # noqa: PLC0415
    from optimizers.runtime.task.reports import Reports  # noqa: PLC0415
    from optimizers.runtime.task.task import run_source, run_task  # noqa: PLC0415

    job = Topology.source("s").then("a", key="k", apply=Count(emit=Emit.TUPLES)).then("b", key="k")
    homes = {name: Deployment(("x",), ()) for name in "s"}
    told = Told(Plan(placement=homes))
    driver = Driver(tmp_path, job, told, cluster=NODES)
    assigned = driver.coordinator.assign()
    work, ticket = assigned.work, assigned.ticket
    table = pa.table({"k": np.arange(500)})
    ran = {"s": "y", "a": work.layout.homes["a"].nodes[0], "b": "elsewhere"}
    made = list(run_source(work, ticket, "s", 0, table.to_batches(), host=ran["s"]))
    for stage, name in ((1, "a"), (2, "b")):
        made = list(run_task(work, ticket, stage, 0, made, host=ran[name]))
    reports = [Reports.from_parcel(p) for p in from_batches(made) if p.edge == REPORT]

    driver.coordinator.commit(assigned, reports, 1.0)

    seen = told.heard[-1]
    assert {name: ("y",) if name == "s" else (ran[name],) for name in "sab"} == {
        name: seen.instances[name].hosts for name in "sab"
    }
    assert ("x",) == seen.instances["s"].nodes
    far = ran["a"] != "y"
    assert seen.edges["s", "a"].local == 500 * (not far)
    assert seen.instances["s"].remote_out.sum() == far * seen.edges["s", "a"].bytes
    # That b would be elsewhere, a could not know.
    assert seen.edges["a", "b"].local == 0
    assert seen.instances["a"].remote_out is seen.groups["a"].remote_out is None
    assert seen.groups["a"].bytes_out is not None
    assert seen.groups["b"].remote_in.sum() == pytest.approx(seen.edges["a", "b"].bytes)


PAIRS = st.tuples(st.sampled_from("xy"), st.sampled_from("xy"))
RUNS = st.tuples(st.integers(0, 1), st.integers(0, 1))


@settings(max_examples=20, deadline=None)
@given(
    planned=st.fixed_dictionaries(dict.fromkeys("sab", PAIRS)),
    ran=st.fixed_dictionaries({"s": PAIRS, "a": st.tuples(PAIRS, PAIRS), "b": PAIRS}),
    read=st.tuples(RUNS, RUNS),
)
@example(  # as it is while nothing is lost
    planned={"s": ("x", "y"), "a": ("x", "y"), "b": ("x", "y")},
    ran={"s": ("x", "y"), "a": (("x", "x"), ("y", "y")), "b": ("x", "y")},
    read=((0, 0), (0, 0)),
)
@example(  # instance 0 of a is lost after one of b has read it, and done again on y
    planned={"s": ("x", "y"), "a": ("x", "y"), "b": ("x", "y")},
    ran={"s": ("x", "y"), "a": (("x", "y"), ("y", "y")), "b": ("x", "y")},
    read=((0, 1), (0, 0)),
)
@example(  # the same from y to x: less was local than the run that reported takes it for
    planned={"s": ("x", "y"), "a": ("x", "y"), "b": ("x", "y")},
    ran={"s": ("x", "y"), "a": (("y", "x"), ("y", "y")), "b": ("x", "y")},
    read=((0, 1), (0, 0)),
)
@example(  # instance 0 of a is not where it is planned, and both sources send it as much
    planned={"s": ("x", "y"), "a": ("x", "y"), "b": ("x", "y")},
    ran={"s": ("x", "y"), "a": (("y", "y"), ("y", "y")), "b": ("x", "y")},
    read=((0, 0), (0, 0)),
)
def test_what_left_hosts_is_true_or_absent_wherever_tasks_ran(planned, ran, read):
    # Both sources let the same tuples in. Each instance of a runs twice; ``read[i][j]`` says which
    # run of instance i is read by instance j of b.
    from optimizers.runtime.local_runner import _for_task  # noqa: PLC0415
    from optimizers.runtime.task.parcels import REPORT, from_batches  # noqa: PLC0415
    from optimizers.runtime.task.task import run_source, run_task  # noqa: PLC0415

    job = (
        Topology.source("s", parallelism=2)
        .then("a", key="k", parallelism=2, apply=Count(emit=Emit.TUPLES))
        .then("b", key="l", parallelism=2)
    )
    homes = {name: Deployment(nodes, (0, 1) * 64) for name, nodes in planned.items()}
    homes["s"] = Deployment(planned["s"], ())
    told = Told(Plan(placement=homes))

    def sizes(made):
        found = np.zeros(2)
        for parcel in from_batches(made):
            if parcel.edge != REPORT:
                found[parcel.target] += parcel.size
        return found

    with temporary() as folder:
        driver = Driver(folder, job, told, cluster=NODES)
        assigned = driver.coordinator.assign()
        work, ticket = assigned.work, assigned.ticket
        let_in = [
            list(run_source(work, ticket, "s", n, rows(0, 90).to_batches(), host=ran["s"][n]))
            for n in range(2)
        ]
        runs = [
            [
                list(
                    run_task(work, ticket, 1, n, _for_task([*let_in[0], *let_in[1]], n), host=host)
                )
                for host in ran["a"][n]
            ]
            for n in range(2)
        ]
        made = [
            batch
            for n in range(2)
            for batch in run_task(
                work,
                ticket,
                2,
                n,
                _for_task([each for i in range(2) for each in runs[i][read[i][n]]], n),
                host=ran["b"][n],
            )
        ]
        reports = [Reports.from_parcel(p) for p in from_batches(made) if p.edge == REPORT]
        summary = driver.coordinator.commit(assigned, reports, 1.0)

    seen, merged = told.heard[-1], Reports.merged(reports)
    # Of a, what is told is of the run whose report came.
    came_of = dict(zip(merged.names, merged.hosts, strict=True))
    sent = {
        "s": [[(size, ran["s"][i], came_of["a", j]) for j, size in enumerate(sizes(let_in[i]))]
              for i in range(2)],
        "a": [[(size, ran["a"][i][read[i][j]], ran["b"][j])
               for j, size in enumerate(sizes(runs[i][0]))] for i in range(2)],
    }  # fmt: skip
    for name, target in (("s", "a"), ("a", "b")):
        far = np.array(
            [[size * (here != there) for size, here, there in row] for row in sent[name]]
        )
        assert far.sum(axis=0).tolist() == seen.instances[target].remote_in.tolist()
        own = seen.instances[name].remote_out
        mine = [one.remote_out for one in summary.instances if one.operator == name]
        if own is None:
            assert [None, None] == mine
        else:
            assert far.sum(axis=1).tolist() == own.tolist() == mine
        if name == "a":
            groups = seen.groups["a"].remote_out
            assert (groups is None) == (own is None)
            assert own is None or groups.sum() == pytest.approx(own.sum())
        lost = any(row[0] != row[1] for row in ran["a"])
        known = planned[target] == tuple(came_of[target, n] for n in range(2))
        assert own is not None or not known or lost
