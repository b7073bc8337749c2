"""Reports: what tasks tell arrives as it was, alone or merged, in whatever order it comes."""

from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import rows_of

from optimizers.errors import DeliveryError
from optimizers.runtime.observe.observation import Observation, Seen
from optimizers.runtime.state.file import FileKind, StateFile
from optimizers.runtime.task.flows import FLOW, added_up
from optimizers.runtime.task.output_file import OutputFile
from optimizers.runtime.task.parcels import REPORT
from optimizers.runtime.task.reports import FACTS, SENDER, BadCount, Reports, TaskReport, by_sender

COUNTS = st.integers(0, 1 << 40)
SMALL = st.integers(0, 9)
FLOWS = st.lists(
    st.tuples(SMALL, SMALL, *[COUNTS] * 3, st.integers(0, (1 << 62) - 1), COUNTS, COUNTS),
    max_size=3,
).map(lambda rows: added_up([np.array([row], dtype=FLOW) for row in rows]))
FILES = st.builds(
    StateFile,
    st.sampled_from(("state/a/0000000001-0-x.arrow", "state/%C3%A4/0000000002-7-_-.arrow")),
    COUNTS.map(lambda number: number % 1000),
    COUNTS,
    COUNTS,
    st.integers(0, (1 << 32) - 1),
    st.sampled_from(FileKind),
)
SCHEMAS = st.sampled_from((pa.schema([]), pa.schema([("ä", pa.list_(pa.decimal128(9, 2)))])))
OUTPUT = st.builds(
    OutputFile, st.text(min_size=1), st.text(), SCHEMAS, COUNTS, COUNTS, st.booleans()
)
COLUMNS = st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple)
VECTORS = st.lists(COUNTS, max_size=4).map(lambda numbers: np.array(numbers, dtype=np.int64))
REALS = st.lists(st.floats(0, 1e9), max_size=4).map(np.array)
TABLES = st.lists(st.integers(), max_size=3).map(
    lambda numbers: pa.table({"n": pa.array([n % 9 for n in numbers], pa.int64())})
)
OBSERVATIONS = st.builds(
    Observation, st.sampled_from(Seen), st.lists(st.text(), max_size=3).map(tuple)
)
SEEN = Observation(Seen.KEYS, ("a",))
FIELDS = {
    "operator": st.text(),
    "instance": st.integers(0, 99),
    "sender": st.integers(0, 99),
    "tuples": COUNTS,
    "emitted": COUNTS,
    "seconds": st.floats(0, 1e9),
    "shipping": st.floats(0, 1e9),
    "wall": st.floats(0, 1e9),
    "keeping": st.floats(0, 1e9),
    "reading": st.floats(0, 1e9),
    "receiving": st.floats(0, 1e9),
    "reading_in": st.floats(0, 1e9),
    "call_seconds": st.floats(0, 1e9),
    "clock": st.text(),
    "began": st.floats(-1e9, 1e9),
    "ended": st.floats(-1e9, 1e9),
    "stage": st.integers(-1, 1 << 31),
    "state": st.none() | FILES,
    "columns": st.none() | COLUMNS,
    "taken_over": COUNTS,
    "loaded": COUNTS,
    "loading": st.floats(0, 1e9),
    "hot_keys": VECTORS,
    "hot_tuples": VECTORS,
    "host": st.text(),
    "bytes_out": COUNTS,
    "remote_out": COUNTS,
    "state_size": VECTORS,
    "dropped": st.lists(st.tuples(st.text(), SMALL, st.text()), max_size=3).map(tuple),
    "calls": COUNTS,
    "call_sums": REALS,
    "groups": VECTORS,
    "group_tuples": VECTORS,
    "group_keys": VECTORS,
    "group_seconds": REALS,
    "group_in": REALS,
    "group_remote_in": REALS,
    "group_out": REALS,
    "group_remote_out": REALS,
    "held_groups": VECTORS,
    "held_bytes": REALS,
    "output": st.lists(OUTPUT, max_size=2).map(tuple),
    "bad": st.dictionaries(st.text(), st.builds(BadCount, COUNTS, st.text()), max_size=2),
}
REPORTS = st.builds(
    TaskReport,
    **FIELDS,
    received=FLOWS,
    sent=FLOWS,
    observed=st.lists(st.tuples(OBSERVATIONS, TABLES), max_size=3),
)


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def facts(report):
    return {name: plain(getattr(report, name)) for name in FACTS}


def seen_by(reports):
    """All rows of all tables, by what they are of; each with its sender where that is told."""
    found = {}
    for seen, tables in reports.observed.items():
        rows = [row for table in tables for row in table.to_pylist()]
        found[seen] = sorted(rows, key=str)
    return found


def test_every_fact_is_tried_here():
    assert set(FIELDS) == set(FACTS)
    assert {*FACTS, "received", "sent", "observed"} == {each.name for each in fields(TaskReport)}


@given(REPORTS)
def test_a_report_arrives_as_it_was_sent(report):
    parcel = report.to_parcel(3)

    expected = 3, REPORT, report.sender, 0, 0
    assert expected == (parcel.task, parcel.edge, parcel.sender, parcel.number, parcel.rows)
    arrived = Reports.from_parcel(replace(parcel, body=pa.py_buffer(parcel.body)))
    (row,) = rows_of([arrived])
    assert facts(report) == facts(row)
    assert report.received.tolist() == arrived.received.tolist()
    assert report.sent.tolist() == arrived.sent.tolist()
    assert seen_by(Reports.of([report])) == seen_by(arrived)


@given(st.lists(REPORTS, max_size=6), st.data())
def test_reports_are_the_same_however_they_were_merged_on_their_way(reports, data):
    """In one go, or some of them first, and those with others; in any order."""
    parts = [Reports.of([report]) for report in reports]
    expected = Reports.merged(parts)
    while len(parts) > 1:
        chosen = data.draw(st.permutations(parts))
        cut = data.draw(st.integers(2, len(parts)))
        one = Reports.merged(chosen[:cut])
        parts = [Reports.from_parcel(one.to_parcel(0)), *chosen[cut:]]

    found = Reports.merged(data.draw(st.permutations(parts)))

    assert len(reports) == len(found)
    assert sorted(map(str, map(facts, rows_of([expected])))) == sorted(
        map(str, map(facts, rows_of([found])))
    )
    assert expected.names == found.names == sorted(found.names)
    assert expected.sent.tolist() == found.sent.tolist()
    assert expected.received.tolist() == found.received.tolist()
    assert seen_by(expected) == seen_by(found)


def test_of_no_tasks_nothing_is_told():
    none = Reports.merged([])

    assert (0, [], 0, 0) == (len(none), none.names, len(none.sent), len(none.observed))


def test_vectors_are_told_with_the_task_that_each_element_is_of():
    groups = [np.array([4, 7]), np.array([], dtype=np.int64), np.array([1])]
    parts = [
        Reports.of([TaskReport(operator="a", instance=n, sender=n, groups=own)])
        for n, own in enumerate(groups)
    ]

    found = Reports.merged(parts[::-1]).vectors("groups")

    assert [4, 7, 1] == found.values.tolist()
    assert [0, 0, 2] == found.rows.tolist()


@pytest.mark.parametrize("place", [0, 1, 9, 40, -1])
def test_a_report_that_arrives_damaged_is_refused(place):
    parcel = TaskReport(operator="a", instance=0, sender=5, seconds=1.5).to_parcel(0)
    body = bytearray(parcel.body)
    body[place] ^= 1

    for damaged in (bytes(body), parcel.body[: len(body) + min(place, -1)], b""):
        with pytest.raises(DeliveryError, match="report of sender 5 arrived damaged"):
            Reports.from_parcel(replace(parcel, body=damaged))


def observed(*tables, seen=SEEN):
    report = TaskReport(operator="a", instance=0, sender=0, observed=[(seen, t) for t in tables])
    return Reports.from_parcel(report.to_parcel(0)).observed[seen]


def test_tables_of_one_observation_arrive_as_one():
    (table,) = observed(*(pa.table({"n": [number]}) for number in range(3)))

    assert [0, 1, 2] == table.column("n").to_pylist()


@pytest.mark.parametrize(
    ("one", "other"), [(pa.int32(), pa.int64()), (pa.string(), pa.large_string())]
)
def test_columns_of_one_kind_need_not_be_of_one_type(one, other):
    values = [1, 2] if one == pa.int32() else ["x", "y"]
    tables = [
        pa.table({"key": pa.array([value], kind)})
        for value, kind in zip(values, (one, other), strict=True)
    ]

    (table,) = observed(*tables)

    assert values == table.column("key").to_pylist()


def test_columns_of_several_kinds_stay_apart():
    tables = [pa.table({"key": keys}) for keys in ([1, 2], ["x"], [3])]

    found = observed(*tables)

    assert [[1, 2, 3], ["x"]] == [table.column("key").to_pylist() for table in found]


@pytest.mark.parametrize("kind", [Seen.COSTS, Seen.TRIAL])
def test_what_is_not_added_up_over_tasks_is_told_with_its_sender(kind):
    seen = Observation(kind, ("a",))
    parts = [
        Reports.of(
            [
                TaskReport(
                    operator="a",
                    instance=n % 2,
                    sender=n,
                    observed=[(seen, pa.table({"n": [n, 9 - n]}))],
                )
            ]
        )
        for n in (2, 0, 1)
    ]

    (table,) = Reports.merged(parts).observed[seen]

    assert ["n", SENDER] == table.column_names
    told = {sender: own.to_pylist() for sender, own in by_sender(table)}
    assert [0, 1, 2] == list(told)
    assert [{"n": 2}, {"n": 7}] == told[2]


@given(st.lists(FLOWS, max_size=5), st.randoms())
def test_flows_add_up_in_any_order(flows, random):
    shuffled = random.sample(flows, len(flows))

    total = added_up(flows)

    assert total.tolist() == added_up(shuffled).tolist()
    for name in ("parcels", "rows", "bytes", "local_rows", "local_bytes"):
        assert sum(int(flow[name].sum()) for flow in flows) == int(total[name].sum())
    digests = sum(int(digest) for flow in flows for digest in flow["digest"])
    assert digests % (1 << 62) == sum(map(int, total["digest"])) % (1 << 62)
    assert len(total) == len(np.unique(total[["edge", "instance"]]))
    assert all(0 <= int(digest) < 1 << 62 for digest in total["digest"])
