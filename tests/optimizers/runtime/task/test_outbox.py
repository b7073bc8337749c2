"""The outbox: each tuple goes to its instance, once, in order, in parcels of the right size."""

from itertools import pairwise

import any_job
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Fields, PartialKey, Shuffle
from grouping.routing_table import RoutingTable
from optimizers import Cluster, Edge, Operator, Plan, Topology
from optimizers.errors import FoldError
from optimizers.layout import Instance, Layout
from optimizers.runtime.observe.observation import Seen
from optimizers.runtime.state.file import Attempt
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task import outbox
from optimizers.runtime.task.bad_rows import BadRows
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.task.outbox import Outbox
from optimizers.runtime.work import JobContext, Settings
from optimizers.statistics import Probe

TABLE = RoutingTable([1, 2, 5], [2, 2, 0], 3)


def box(
    grouping=None, *, key="k", batch=None, partial=False, sender=0, edge_key=None, parcel=4, **how
):
    """The outbox of an edge from s, where the target has three instances; ."""
    job = Topology(
        (Operator("s"), Operator("a", key, 3, partial=partial)),
        (Edge("s", "a", grouping, edge_key),),
    )
    work = JobContext(
        Layout.of(job, Cluster.uniform(2), Plan()),
        {} if batch is None else {"s": batch},
        Location("/nowhere"),
        Settings(parcel=parcel, **how),
    )
    return outbox_of(work, job.edges[0], sender=sender)


def outbox_of(work, edge, instance=0, sender=0):
    bad = BadRows(work.location, Attempt(edge.source, sender, 7, "x"))
    return Outbox(work, [edge], Instance(edge.source, instance), sender, bad)


def sent(outbox, batches):
    found = [parcel for batch in batches for parcel in outbox.send(batch)]
    return [*found, *outbox.finish()]


def by_target(parcels):
    found = {}
    for parcel in parcels:
        found.setdefault(parcel.target, []).extend(parcel.tuples().to_pylist())
    return found


def tuples(rows, seed=0):
    keys = np.random.default_rng(seed).integers(0, 9, rows)
    return pa.record_batch({"k": keys, "n": np.arange(rows)})


def cut(batch, cuts):
    ends = [0, *sorted(min(c, len(batch)) for c in cuts), len(batch)]
    return [batch.slice(a, b - a) for a, b in pairwise(ends)]


@given(st.integers(0, 60), st.integers(0, 99), st.lists(st.integers(0, 60), max_size=4))
def test_tuples_go_to_the_owners_of_their_keys_in_order(rows, seed, cuts):
    mine = box(TABLE)
    batch = tuples(rows, seed)

    parcels = sent(mine, cut(batch, cuts))

    layout = Layout.of(
        Topology.source("s").then("a", key="k", parallelism=3), Cluster.uniform(2), Plan()
    )
    owners = layout.owners("a").assign(batch.column("k"))
    for key, owner in ((1, 2), (2, 2), (5, 0)):
        owners[batch.column("k").to_numpy() == key] = owner
    expected = {
        target: batch.take(pa.array(np.flatnonzero(owners == target))).to_pylist()
        for target in sorted(set(owners.tolist()))
    }
    assert expected == by_target(parcels)
    assert list(range(len(parcels))) == [parcel.number for parcel in parcels]
    assert all(0 < parcel.rows <= 4 for parcel in parcels)
    counter = FlowCounter()
    for parcel in parcels:  # a[0] and a[2] are on the sender's node
        counter.add(parcel, local=parcel.target != 1)
    assert counter.flows().tolist() == mine.sent.flows().tolist()


@given(st.sampled_from((None, PartialKey(), TABLE)), st.lists(st.integers(0, 40), max_size=4))
def test_what_an_instance_gets_does_not_depend_on_how_the_stream_was_cut(grouping, cuts):
    batch = tuples(40)
    partial = isinstance(grouping, PartialKey)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "PACKED_AT_ONCE", 7)
        one = by_target(sent(box(grouping, partial=partial), cut(batch, cuts)))
        other = by_target(sent(box(grouping, partial=partial, parcel=1), [batch]))

    whole = by_target(sent(box(grouping, partial=partial, parcel=1000), [batch]))
    assert whole == one == other


def test_a_plan_says_how_many_tuples_are_sent_at_once():
    sizes = [parcel.rows for parcel in sent(box(batch=3), [tuples(50)])]

    assert 3 == max(sizes)
    assert len(sizes) - 3 <= sizes.count(3)


@pytest.mark.parametrize(("bytes_", "most"), [(1, 1), (16, 1), (17, 2), (48, 3), (49, 4), (99, 4)])
def test_a_parcel_is_full_once_its_tuples_have_so_many_bytes(bytes_, most):
    mine = box(parcel_bytes=bytes_)  # each tuple has 16

    sizes = [(parcel.target, parcel.rows) for parcel in sent(mine, [tuples(50)])]

    assert most == max(rows for _, rows in sizes)
    for target in range(3):
        rows = [rows for to, rows in sizes if to == target]
        assert [most] * (len(rows) - 1) == rows[:-1]


def test_tuples_wait_until_there_are_enough(monkeypatch):
    monkeypatch.setattr(outbox, "PACKED_AT_ONCE", 10)
    mine = box()

    assert [] == list(mine.send(tuples(9)))
    assert 10 == sum(parcel.rows for parcel in mine.send(tuples(1)))
    assert [] == list(mine.close())


def test_tuples_beyond_those_that_are_packed_at_once_wait_for_others(monkeypatch):
    monkeypatch.setattr(outbox, "PACKED_AT_ONCE", 10)
    mine = box()

    assert 10 == sum(parcel.rows for parcel in mine.send(tuples(13)))
    assert 10 == sum(parcel.rows for parcel in mine.send(tuples(7)))
    assert 20 == sum(parcel.rows for parcel in mine.send(tuples(24)))
    assert 4 == sum(parcel.rows for parcel in mine.close())


def test_large_tuples_do_not_wait_for_many(monkeypatch):
    monkeypatch.setattr(outbox, "_BYTES_AT_ONCE", 100)
    mine = box(parcel=1000)
    packed = []
    real = outbox.packed
    monkeypatch.setattr(outbox, "packed", lambda batch: packed.append(batch.nbytes) or real(batch))

    parcels = list(mine.send(tuples(60)))

    assert 60 == sum(parcel.rows for parcel in parcels)
    assert max(packed) <= 100
    assert [] == list(mine.close())


def test_tuples_of_other_columns_are_sent_as_they_are():
    mine = box(Shuffle(), key=None)
    first, second = tuples(5), pa.record_batch({"x": ["a", "b"]})

    parcels = sent(mine, [first, second, first])

    columns = [tuple(parcel.tuples().column_names) for parcel in parcels]
    assert {("k", "n"), ("x",)} == set(columns)
    assert 12 == sum(parcel.rows for parcel in parcels)
    assert ["a", "b"] == sorted(
        row["x"] for rows in by_target(parcels).values() for row in rows if "x" in row
    )


def test_senders_begin_with_different_instances_where_the_choice_is_free():
    first = [sent(box(Shuffle(), key=None, sender=n), [tuples(1)])[0].target for n in range(3)]

    assert [0, 1, 2] == first


def test_senders_look_at_different_tuples_for_statistics():
    job = Topology.source("s").then("a", key="k", parallelism=8).then("b", key="n")
    layout = Layout.of(job, Cluster.uniform(2), Plan())
    settings = Settings(observes=frozenset({Probe.PAIRS}), looked_at=8)
    work = JobContext(layout, {}, Location("/nowhere"), settings)
    found = []
    for sender in range(8):
        mine = outbox_of(work, job.edge("a", "b"), sender, sender)
        sent(mine, [tuples(32)])
        ((seen, table),) = mine.observed
        assert (Seen.PAIRS, ("a", "b")) == (seen.kind, seen.about)
        assert {4} == set(table.column("count").to_pylist())
        found.append(tuple(sorted(table.column("right").to_pylist())))

    assert all(list(range(8)) == [number // 4 for number in each] for each in found)
    assert 8 == len(set(found))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_columns_of_any_text_are_routed(kind):
    words = pa.array(["a", "b", "c", "a"]).cast(pa.binary() if kind == pa.binary() else kind)

    parcels = sent(box(), [pa.record_batch({"k": words})])

    assert 4 == sum(parcel.rows for parcel in parcels)
    assert {kind} == {parcel.tuples().schema.field("k").type for parcel in parcels}


class TestErrorsNameTheEdgeAndTheColumn:
    def refused(self, batch, match, **how):
        with pytest.raises(FoldError, match=match):
            sent(box(**how), [batch])

    def test_a_column_that_is_not_there(self):
        self.refused(pa.record_batch({"x": [1]}), r"edge s -> a: .*no column 'k'.*they have 'x'")

    def test_the_column_that_an_edge_calls_otherwise(self):
        self.refused(tuples(1), r"edge s -> a: .*no column 'user'", edge_key="user")

    def test_a_column_that_is_there_twice(self):
        twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["k", "k"])
        self.refused(twice, r"edge s -> a: .*2 columns 'k'")

    @pytest.mark.parametrize("key", ["k", ("n", "k"), ("n", "k", "m")])
    def test_a_key_that_is_null(self, key):
        batch = pa.record_batch({"n": [1, 2], "k": [1, None], "m": [3, 4]})
        self.refused(
            batch,
            r"'a': key 'k' is null on edge s -> a; the row of batch 7: .*\"k\": null.*='skip'",
            key=key,
        )

    def test_what_cannot_be_a_key(self):
        self.refused(pa.record_batch({"k": [1.5]}), r"edge s -> a: key column k: .*double")

    @pytest.mark.parametrize("key", ["k", ("n", "k")])
    def test_keys_of_another_kind_than_those_of_the_table(self, key):
        named = ["x"] if key == "k" else [("x", "y")]
        table = RoutingTable(named, [1], 3)
        self.refused(tuples(3), r"edge s -> a: keys of kind", grouping=table, key=key)


def test_keys_of_two_columns_are_named_in_tables_as_pairs():
    table = RoutingTable([(1, 1), (2, 2)], [2, 1], 3)
    mine = box(table, key=("k", "n"))

    parcels = sent(mine, [pa.record_batch({"k": [1, 2, 1], "n": [1, 2, 1]})])

    assert {2: [{"k": 1, "n": 1}] * 2, 1: [{"k": 2, "n": 2}]} == by_target(parcels)


def test_an_edge_with_a_key_may_feed_an_operator_without():
    mine = box(Fields(), key=None, edge_key="k")

    found = by_target(sent(mine, [tuples(60)]))

    seen = [{row["k"] for row in rows} for rows in found.values()]
    assert 9 == len(set().union(*seen)) == sum(map(len, seen))


@given(st.data())
def test_nothing_is_lost_on_any_edge_of_any_job(data):
    drawn = data.draw(any_job.jobs(3, least=2))
    edge = drawn.topology.edges[0]
    layout = Layout.of(drawn.topology, any_job.CLUSTER, Plan())
    work = JobContext(layout, {}, Location("/nowhere"), Settings(parcel=3))
    if edge.target in layout.attached or edge.source not in drawn.columns:
        return
    mine = outbox_of(work, edge)
    rows = any_job.rows_of(drawn.columns[edge.source], data.draw(st.integers(0, 999)), 30)

    parcels = sent(mine, rows.combine_chunks().to_batches())

    arrived = [row for parcel in parcels for row in parcel.tuples().to_pylist()]
    assert any_job.counted(rows.to_pylist()) == any_job.counted(arrived)
    assert 30 == mine.sent.rows == mine.sent.flows()["rows"].sum()
