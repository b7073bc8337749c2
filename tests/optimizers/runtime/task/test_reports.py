"""Reports: what tasks tell arrives, and a batch of which something is missing is refused."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Cluster, LocalOrShuffle, Plan, Topology
from optimizers.errors import DeliveryError
from optimizers.layout import Layout
from optimizers.runtime.observe.observation import Observation, Seen
from optimizers.runtime.state.file import Kind, StateFile
from optimizers.runtime.task.output_file import OutputFile
from optimizers.runtime.task.parcels import REPORT, Parcel
from optimizers.runtime.task.reports import Flow, TaskReport, check_delivery

COUNTS = st.integers(0, 1 << 40)
FLOWS = st.builds(Flow, COUNTS, COUNTS, COUNTS, st.integers(0, (1 << 62) - 1))
FILES = st.builds(
    StateFile,
    st.sampled_from(("state/a/0000000001-0-x.arrow", "state/%C3%A4/0000000002-7-_-.arrow")),
    COUNTS.map(lambda number: number % 1000),
    COUNTS,
    COUNTS,
    st.integers(0, (1 << 32) - 1),
    st.sampled_from(Kind),
)
SCHEMAS = st.sampled_from((pa.schema([]), pa.schema([("ä", pa.list_(pa.decimal128(9, 2)))])))
OUTPUT = st.builds(
    OutputFile, st.text(min_size=1), st.text(), SCHEMAS, COUNTS, COUNTS, st.booleans()
)
COLUMNS = st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple)
TABLES = st.lists(st.integers(), max_size=3).map(
    lambda numbers: pa.table({"n": pa.array([n % 9 for n in numbers], pa.int64())})
)
OBSERVATIONS = st.builds(
    Observation, st.sampled_from(Seen), st.lists(st.text(), max_size=3).map(tuple)
)
SEEN = Observation(Seen.KEYS, ("a",))
REPORTS = st.builds(
    TaskReport,
    operator=st.text(),
    instance=st.integers(0, 99),
    sender=st.integers(0, 99),
    tuples=COUNTS,
    emitted=COUNTS,
    seconds=st.floats(0, 1e9),
    shipping=st.floats(0, 1e9),
    received=st.dictionaries(st.integers(0, 9), FLOWS, max_size=3),
    sent=st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), FLOWS, max_size=3),
    state=st.none() | st.lists(FILES, max_size=3).map(tuple),
    state_rows=COUNTS,
    columns=st.none() | COLUMNS,
    taken_over=COUNTS,
    hottest=COUNTS,
    output=st.lists(OUTPUT, max_size=2).map(tuple),
    observed=st.dictionaries(OBSERVATIONS, TABLES.map(lambda table: [table]), max_size=3),
)


@given(REPORTS)
def test_a_report_arrives_as_it_was_sent(report):
    parcel = report.to_parcel(3, 1)

    assert (3, REPORT, report.sender, 1, 0) == (
        parcel.task,
        parcel.edge,
        parcel.sender,
        parcel.number,
        parcel.rows,
    )
    arrived = TaskReport.from_parcel(replace(parcel, body=pa.py_buffer(parcel.body)))
    assert report == arrived


def test_tables_of_one_observation_arrive_as_one():
    report = TaskReport(operator="a", instance=0, sender=0)
    for number in range(3):
        report.observe(SEEN, pa.table({"n": [number]}))

    (table,) = TaskReport.from_parcel(report.to_parcel(0, 0)).observed[SEEN]

    assert [0, 1, 2] == table.column("n").to_pylist()


@pytest.mark.parametrize(
    ("one", "other"), [(pa.int32(), pa.int64()), (pa.string(), pa.large_string())]
)
def test_columns_of_one_kind_need_not_be_of_one_type(one, other):
    report = TaskReport(operator="a", instance=0, sender=0)
    values = [1, 2] if one == pa.int32() else ["x", "y"]
    for value, kind in zip(values, (one, other), strict=True):
        report.observe(SEEN, pa.table({"key": pa.array([value], kind)}))

    (table,) = TaskReport.from_parcel(report.to_parcel(0, 0)).observed[SEEN]

    assert values == table.column("key").to_pylist()


def test_what_was_shipped_is_what_was_sent_to_all():
    report = TaskReport(operator="a", instance=0, sender=0)
    report.sent[0, 1].add(Parcel(0, 0, 1, 0, 0, 5, b"abc"))
    report.sent[1, 0].add(Parcel(0, 1, 0, 0, 0, 2, b""))

    assert 7 == report.shipped
    flow = report.sent[0, 1]
    assert (1, 5, 3) == (flow.parcels, flow.rows, flow.bytes)


@given(st.lists(FLOWS, max_size=5), st.randoms())
def test_flows_add_up_in_any_order(flows, random):
    def total(parts):
        found = Flow()
        for part in parts:
            found.join(part)
        return found

    shuffled = list(flows)
    random.shuffle(shuffled)

    assert total(flows) == total(shuffled)
    assert sum(flow.rows for flow in flows) == total(flows).rows
    assert sum(flow.bytes for flow in flows) == total(flows).bytes
    assert sum(flow.parcels for flow in flows) == total(flows).parcels
    assert 0 <= total(flows).digest < 1 << 62


class TestDelivery:
    """Of a source with one attached operator, and one with a key and two instances."""

    job = (
        Topology.source("s", parallelism=2)
        .then("f", parallelism=2, grouping=LocalOrShuffle())
        .then("a", key="k", parallelism=2)
    )
    layout = Layout.of(job, Cluster.uniform(1), Plan())

    def reports(self, partitions=3):
        """What all tasks report where each partition has sent a parcel to each instance."""
        flow = Parcel(0, 1, 0, 0, 0, 4, b"body")
        made = []
        for sender in range(partitions):
            made.append(TaskReport(operator="s", instance=sender % 2, sender=sender))
            made.append(TaskReport(operator="f", instance=sender % 2, sender=sender))
            for target in range(2):
                made[-1].sent[1, target].add(replace(flow, sender=sender, target=target))
        for number in range(2):
            made.append(TaskReport(operator="a", instance=number, sender=number))
            for sender in range(partitions):
                made[-1].received[1].add(replace(flow, sender=sender, target=number))
        return made

    @pytest.mark.parametrize("partitions", [0, 1, 5])
    def test_of_all_that_was_sent_is_fine(self, partitions):
        check_delivery(self.reports(partitions), self.layout)

    def test_in_any_order_is_fine(self):
        check_delivery(self.reports()[::-1], self.layout)

    @pytest.mark.parametrize("name", ["parcels", "rows", "bytes", "digest"])
    @pytest.mark.parametrize("place", [1, -1])
    def test_of_more_or_others_is_refused(self, name, place):
        reports = self.reports()
        flows = reports[place].sent or reports[place].received
        flow = next(iter(flows.values()))
        setattr(flow, name, getattr(flow, name) + 1)

        with pytest.raises(DeliveryError, match=r"edge f -> a: of .* has to run again"):
            check_delivery(reports, self.layout)

    def test_of_parcels_that_nobody_sent_or_got_is_refused(self):
        reports = self.reports()
        reports[0].sent[0, 1].add(Parcel(0, 0, 1, 0, 0, 1, b""))

        with pytest.raises(DeliveryError, match=r"edge s -> f: of 1 tuples in 1 parcels .* 0 in 0"):
            check_delivery(reports, self.layout)

    @pytest.mark.parametrize("place", [1, 2, 3, -1, -2])
    def test_without_a_report_is_refused(self, place):
        reports = [self.quiet(report) for report in self.reports()]
        del reports[place]

        with pytest.raises(DeliveryError, match="reported, and"):
            check_delivery(reports, self.layout)

    @pytest.mark.parametrize("place", range(8))
    def test_with_a_report_that_came_twice_is_refused(self, place):
        reports = [self.quiet(report) for report in self.reports()]

        with pytest.raises(DeliveryError, match="each once"):
            check_delivery([*reports, reports[place]], self.layout)

    def quiet(self, report):
        """The report of one that neither sent nor got anything."""
        return replace(report, sent={}, received={})
