"""Delivery: a batch of which anything is missing, doubled or changed is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Cluster, LocalOrShuffle, Plan, Topology
from optimizers.errors import DeliveryError
from optimizers.layout import Layout
from optimizers.runtime.driver.delivery import check_delivery
from optimizers.runtime.task.flows import CHECKED, NO_FLOWS, FlowCounter
from optimizers.runtime.task.parcels import Parcel
from optimizers.runtime.task.reports import Reports, TaskReport

JOB = (
    Topology.source("s", parallelism=2)
    .then("f", parallelism=2, grouping=LocalOrShuffle())
    .then("a", key="k", parallelism=2)
)
LAYOUT = Layout.of(JOB, Cluster.uniform(1), Plan())
"""A source with one attached operator, and one with a key and two instances."""


def flows_of(parcels):
    counter = FlowCounter()
    for parcel in parcels:
        counter.add(parcel)
    return counter.flows()


def made(partitions=3):
    """What all tasks report where each partition has sent a parcel to each instance."""

    def parcel(sender, target):
        return Parcel(0, 1, target, sender, 0, 4 + sender, b"body")

    found = []
    for sender in range(partitions):
        found.append(TaskReport(operator="s", instance=sender % 2, sender=sender))
        sent = flows_of(parcel(sender, target) for target in range(2))
        found.append(TaskReport(operator="f", instance=sender % 2, sender=sender, sent=sent))
    for number in range(2):
        received = flows_of(parcel(sender, number) for sender in range(partitions))
        found.append(TaskReport(operator="a", instance=number, sender=number, received=received))
    return found


def check(reports, cut=None):
    """Check reports that came each by itself, or the first ones merged."""
    parts = [Reports.of([report]) for report in reports]
    if cut is not None:
        parts = [Reports.merged(parts[:cut]), *parts[cut:]]
    check_delivery(Reports.merged(parts), LAYOUT)


def quiet(report):
    """The report of one that neither sent nor got anything."""
    return replace(report, sent=NO_FLOWS, received=NO_FLOWS)


@pytest.mark.parametrize("partitions", [0, 1, 5])
@pytest.mark.parametrize("cut", [None, 1, 2, 99])
def test_all_that_was_sent_is_fine(partitions, cut):
    check(made(partitions), cut)
    check(made(partitions)[::-1], cut)


def with_flow(report, change):
    """The report with its first flow changed, or dropped if nothing is left of it."""
    name = "sent" if len(report.sent) else "received"
    flows = getattr(report, name).copy()
    return replace(report, **{name: change(flows)})


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("place", [1, -1])
@pytest.mark.parametrize("cut", [None, 4])
def test_more_or_others_are_refused(name, place, cut):
    def more(flows):
        flows[name][0] += 1
        return flows

    reports = made()
    reports[place] = with_flow(reports[place], more)

    with pytest.raises(DeliveryError, match=r"edge f -> a: of .* has to run again"):
        check(reports, cut)


def dropped(flows):
    return flows[1:]


def doubled(flows):
    flows[0]["parcels"] *= 2
    flows[0]["rows"] *= 2
    flows[0]["bytes"] *= 2
    flows[0]["digest"] *= 2
    return flows


def elsewhere(flows):
    flows[0]["instance"] = 1 - flows[0]["instance"]
    return np.sort(flows, order=("edge", "instance"))


@pytest.mark.parametrize("change", [dropped, doubled, elsewhere])
@pytest.mark.parametrize("place", [1, 3, 5, 6, 7])
def test_a_flow_that_is_dropped_doubled_or_of_another_instance_is_refused(change, place):
    reports = made()
    reports[place] = with_flow(reports[place], change)

    with pytest.raises(DeliveryError, match="edge f -> a"):
        check(reports)


def test_flows_of_two_instances_that_are_swapped_are_refused():
    reports = made()
    one, other = reports[-2:]
    assert one.received["digest"] != other.received["digest"]
    swapped = [
        replace(report, received=elsewhere(report.received.copy())) for report in (one, other)
    ]

    with pytest.raises(DeliveryError, match="edge f -> a"):
        check([*reports[:-2], *swapped])


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_report_for_another_instance_than_its_own_is_refused(place):
    reports = made()
    reports[place] = replace(reports[place], instance=1 - reports[place].instance)

    with pytest.raises(DeliveryError, match="an instance that is not its own"):
        check(reports)


def test_parcels_that_were_never_sent_or_received_are_refused():
    reports = made()
    reports[0] = replace(reports[0], sent=flows_of([Parcel(0, 0, 1, 0, 0, 1, b"")]))

    with pytest.raises(DeliveryError, match=r"edge s -> f: of 1 tuples in 1 parcels .* 0 in 0"):
        check(reports)


@pytest.mark.parametrize("place", [1, 2, 3, -1, -2])
@pytest.mark.parametrize("cut", [None, 3])
def test_a_report_that_is_missing_is_refused(place, cut):
    reports = [quiet(report) for report in made()]
    del reports[place]

    with pytest.raises(DeliveryError, match="reported, and"):
        check(reports, cut)


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("cut", [None, 3])
def test_a_report_that_came_twice_is_refused(place, cut):
    reports = [quiet(report) for report in made()]

    with pytest.raises(DeliveryError, match="each once"):
        check([*reports, reports[place]], cut)


def test_a_merged_report_that_came_twice_is_refused():
    parts = [Reports.of([quiet(report)]) for report in made()]
    merged = Reports.merged(parts[:3])

    with pytest.raises(DeliveryError, match="each once"):
        check_delivery(Reports.merged([merged, merged, *parts[3:]]), LAYOUT)


def test_of_many_instances_a_message_shows_a_few():
    job = Topology.source("s").then("a", key="k", parallelism=1000, key_groups=1000)
    reports = [TaskReport(operator="s", instance=0, sender=0)]
    reports += [TaskReport(operator="a", instance=n, sender=n) for n in range(999)]

    with pytest.raises(DeliveryError, match=r"\(without 999\) of operator 'a' reported") as refused:
        check_delivery(Reports.of(reports), Layout.of(job, Cluster.uniform(1), Plan()))

    assert len(str(refused.value)) < 300


@given(st.integers(1, 4), st.data())
def test_any_single_difference_is_refused(partitions, data):
    """Whatever one flow counts otherwise than it was."""
    reports = made(partitions)
    places = [n for n, report in enumerate(reports) if len(report.sent) + len(report.received)]
    place = data.draw(st.sampled_from(places))
    name = data.draw(st.sampled_from(CHECKED))
    by = data.draw(st.integers(1, 1 << 40))

    def change(flows):
        flows[name][data.draw(st.integers(0, len(flows) - 1))] += by
        return flows

    reports[place] = with_flow(reports[place], change)
    with pytest.raises(DeliveryError):
        check(data.draw(st.permutations(reports)))
