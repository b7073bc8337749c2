"""Several consumers: each gets the parcels that it would get alone, packed once where it can be."""

from collections import defaultdict
from dataclasses import replace

import any_job
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from grouping.groupings import PartialKey, Shuffle
from grouping.routing_table import GroupTable, RoutingTable
from optimizers import Deployment, Edge, Operator, Plan, Topology
from optimizers.errors import FoldError
from optimizers.layout import Instance, Layout
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task import outbox
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.flows import CHECKED, FlowCounter, added_up
from optimizers.runtime.task.outbox import Outbox
from optimizers.runtime.task.parcels import Parcel, packed
from optimizers.runtime.task.shared_parcels import in_order, numbered
from optimizers.runtime.work import JobContext, Settings
from optimizers.statistics import Probe

GROUPS = 6
KEYS = ("k", "k", "j", ("k", "j"))


@st.composite
def consumers(draw):
    """A producer with two to four consumers, of which some may be alike."""
    operators, edges = [Operator("s"), Operator("f", "k", 2, key_groups=GROUPS)], [Edge("s", "f")]
    for number in range(draw(st.integers(2, 4))):
        name, instances = f"c{number}", draw(st.sampled_from((3, 3, 2)))
        kind = draw(st.sampled_from(("keyed", "keyed", "keyed", "partial", "free")))
        if kind == "free":
            operators.append(Operator(name, parallelism=instances))
            edges.append(Edge("f", name, draw(st.sampled_from((None, Shuffle())))))
            continue
        split = kind == "partial"
        key, groups = draw(st.sampled_from(KEYS)), draw(st.sampled_from((GROUPS, GROUPS, 7)))
        operator = Operator(name, key, instances, key_groups=groups, partial=split, on_error="skip")
        operators.append(operator)
        edges.append(Edge("f", name, PartialKey() if split else None))
    return Topology(tuple(operators), tuple(edges))


@st.composite
def plans(draw, job):
    """A plan that changes some of the consumers."""
    maps = {"parallelism": {}, "routing": {}, "placement": {}}
    for name in draw(st.sets(st.sampled_from([edge.target for edge in job.outputs("f")]))):
        operator = job.operator(name)
        random = np.random.default_rng(draw(st.integers(0, 3)))
        what = draw(st.sampled_from(sorted(maps)))
        if what == "parallelism":
            maps[what][name] = draw(st.integers(1, 4))
        elif what == "placement":
            homes = tuple(any_job.NODES[n] for n in random.integers(0, 3, operator.parallelism))
            groups = operator.key_groups if operator.keyed else 0
            owned = random.integers(0, operator.parallelism, groups)
            maps[what][name] = Deployment(homes, tuple(owned.tolist()))
        elif operator.keyed and not operator.partial and isinstance(operator.key, str):
            maps[what][name] = GroupTable([1, 2, 5], random.integers(0, 6, 3), operator.key_groups)
    return Plan(**maps)


def work_of(job, plan):
    layout = Layout.of(job, any_job.CLUSTER, plan)
    return JobContext(
        layout, {}, Location("/nowhere"), Settings(parcel=5, observes=frozenset(Probe))
    )


def tuples(seed, rows=40):
    """Tuples of which some have no key, and of each its key group at the sender."""
    random = np.random.default_rng(seed)
    columns = {
        name: pa.array(random.integers(0, 9, rows), mask=random.random(rows) < seed % 3 / 20)
        for name in ("k", "j")
    }
    return pa.record_batch({**columns, "n": np.arange(rows)}), random.integers(0, GROUPS, rows)


def sent(work, edges, batches):
    """What an outbox of these edges sends, by edge, and all else that it says."""
    bad = BadRows(work.location, Attempt("f", 1, 7, "x"))
    box = Outbox(work, edges, Instance("f", 1), 1, bad)
    parcels = [parcel for batch, groups in batches for parcel in box.send(batch, groups)]
    by_edge = defaultdict(list)
    for one in [*parcels, *box.finish()]:
        order = one.task, one.edge, one.target, one.sender, one.number, one.rows, one.place
        by_edge[one.edge].append((*order, one.digest, one.body.to_pybytes()))
    return by_edge, box, bad


@given(st.data(), st.lists(st.integers(0, 99), min_size=1, max_size=3), st.sampled_from((9, 1000)))
def test_each_consumer_gets_the_parcels_that_it_would_get_alone(data, seeds, at_once):
    job = data.draw(consumers())
    work = work_of(job, data.draw(plans(job)))
    edges = work.topology.outputs("f")
    batches = [tuples(seed) for seed in seeds]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "PACKED_AT_ONCE", at_once)
        alone = [sent(work, [edge], batches) for edge in edges]
        packs, real = [], outbox.packed
        patch.setattr(outbox, "packed", lambda rows: packs.append(len(rows)) or real(rows))
        together, box, bad = sent(work, edges, batches)

    assert {number: mine for parts, _, _ in alone for number, mine in parts.items()} == together
    assert added_up(each.sent.flows() for _, each, _ in alone).tolist() == box.sent.flows().tolist()
    assert {
        name: count for _, _, each in alone for name, count in each.counts.items()
    } == bad.counts
    seen = [sighting for _, each, _ in alone for sighting in each.observed]
    assert [about for about, _ in seen] == [about for about, _ in box.observed]
    assert all(one.equals(other) for (_, one), (_, other) in zip(seen, box.observed, strict=True))
    sums = [each.group_sums() for _, each, _ in alone]
    if any(each is None for each in sums):
        assert box.group_sums() is None
    else:
        np.testing.assert_allclose(np.sum(sums, axis=0), box.group_sums(), rtol=1e-12)
    # Of those that are alike, one has had its tuples packed.
    groups = work.layout.alike("f")
    firsts = [work.topology.edges.index(group[0]) for group in groups]
    assert len(packs) == sum(len(together[number]) for number in firsts)
    event(f"{len(edges)} edges in {len(groups)} groups")


@given(st.data(), st.lists(st.integers(0, 99), min_size=1, max_size=3), st.sampled_from((9, 1000)))
def test_shared_batches_bring_each_instance_its_tuples_in_their_order(data, seeds, at_once):
    job = data.draw(consumers())
    work = work_of(job, data.draw(plans(job)))
    sharing = replace(work, settings=replace(work.settings, shared_batches=True))
    edges = work.topology.outputs("f")
    batches = [tuples(seed) for seed in seeds]
    random = np.random.default_rng(seeds[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "PACKED_AT_ONCE", at_once)
        (usual, _), (shared, box) = (parcels_of(one, edges, batches) for one in (work, sharing))

    flows = FlowCounter()
    for parcel in shared:
        flows.add(parcel)
    for name in CHECKED:
        assert flows.flows()[name].tolist() == box.sent.flows()[name].tolist()
    arrived = [shared[place] for place in random.permutation(len(shared))]
    assert rows_by_instance(usual) == rows_by_instance(arrived)
    groups = work.layout.alike("f")
    bodies = {id(parcel.body) for parcel in shared}
    complete = not any(batch.column(name).null_count for batch, _ in batches for name in ("k", "j"))
    if complete and len(groups) > 1:  # each tuple is in one parcel, which all consumers get
        assert len(edges) * len(bodies) == len(shared)
    event(f"{len(groups)} groups, {'all' if complete else 'not all'} tuples for all of them")


def parcels_of(work, edges, batches):
    """What an outbox sends, and the outbox."""
    box = Outbox(work, edges, Instance("f", 1), 1, BadRows(work.location, Attempt("f", 1, 7, "x")))
    parcels = [parcel for batch, groups in batches for parcel in box.send(batch, groups)]
    return [*parcels, *box.finish()], box


def rows_by_instance(parcels):
    """The tuples that each instance gets by each edge, in order."""
    parts, found = defaultdict(list), {}
    for parcel in sorted(parcels, key=lambda parcel: parcel.order):
        parts[parcel.edge, parcel.target].append(parcel)
    for ends, mine in parts.items():
        tables = [table for _, table in in_order(mine)]
        assert all(["k", "j", "n"] == table.column_names for table in tables)
        assert all(table.schema.metadata is None for table in tables)
        found[ends] = [row for table in tables for row in table.to_pylist()]
    return found


def test_shared_batches_keep_what_schemas_say_and_columns_of_one_name():
    kinds = pa.schema([("x", pa.string()), ("place", pa.int64())], metadata={"of": "mine"})
    table = pa.table([pa.array(["a", "b", "c"]), pa.array([7, 8, 9])], schema=kinds)
    given_places = numbered(table, 3)

    parcels = [
        Parcel(0, 0, 0, 0, number, 1, packed(given_places.slice(row, 1).to_batches()[0]))
        for number, row in enumerate((2, 0, 1))
    ]
    ((_, found),) = in_order(parcels)

    assert found.equals(table, check_metadata=True)


def test_consumers_that_are_alike_get_the_same_bytes():
    job = Topology.source("s").then("f", key="k", parallelism=2)
    job = job.then("a", key="k", after="f", parallelism=3)
    job = job.then("b", key="k", after="f", parallelism=3)
    work = work_of(job, Plan())
    bad = BadRows(work.location, Attempt("f", 0, 7, "x"))
    box = Outbox(work, work.topology.outputs("f"), Instance("f", 0), 0, bad)

    parcels = [*box.send(tuples(0)[0]), *box.finish()]

    bodies = defaultdict(set)
    for one in parcels:
        bodies[one.target, one.number].add((one.edge, id(one.body)))
    assert all(2 == len(pair) == 1 + len({body for _, body in pair}) for pair in bodies.values())
    # Each of the two crosses on its own, and is counted.
    assert 2 * sum({id(one.body): one.size for one in parcels}.values()) == box.sent.bytes
    assert 80 == box.sent.rows


@pytest.mark.parametrize("lenient", ["a", "b"])
def test_a_row_without_a_key_ends_the_job_if_any_consumer_says_so(lenient):
    job = Topology.source("s")
    for name in ("a", "b"):
        how = "skip" if name == lenient else "fail"
        job = job.then(name, key="k", after="s", on_error=how)
    work = work_of(job, Plan())
    bad = BadRows(work.location, Attempt("s", 0, 7, "x"))
    box = Outbox(work, work.topology.outputs("s"), Instance("s", 0), 0, bad)
    strict = "b" if lenient == "a" else "a"

    with pytest.raises(FoldError, match=f"'{strict}': key 'k' is null on edge s -> {strict}"):
        list(box.send(pa.record_batch({"k": [None, 1]}))) + list(box.finish())


CHANGES = {
    "another number of instances": Plan(parallelism={"b": 2}),
    "a table of groups": Plan(routing={"b": GroupTable([1], [3], 128)}),
    "a table of instances": Plan(routing={"b": RoutingTable([1], [2], 3)}),
    "other homes of groups": Plan(
        placement={"b": Deployment(any_job.NODES, tuple([0, 2, 1] * 42 + [0, 1]))}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_that_changes_one_of_two_consumers_ends_the_sharing_at_once(change, tmp_path):
    job = Topology.source("s").then("a", key="k", after="s", parallelism=3)
    job = job.then("b", key="k", after="s", parallelism=3)
    driver = any_job.Driver(tmp_path, job, [Plan(), CHANGES[change]])
    stream = pa.table({"k": np.arange(60) % 11})

    groups = []
    for _ in range(3):
        driver.batch({"s": stream})
        groups.append(len(driver.assigned.work.layout.alike("s")))

    assert [1, 2, 2] == groups
    expected = {key: 3 * (5 + (key < 5)) for key in range(11)}
    assert expected == driver.results("a") == driver.results("b")
