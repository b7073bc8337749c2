"""Summaries of batches, and decisions as they are shown."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver

from optimizers import Cluster, EdgeStatistics, Note, Plan, Topology
from optimizers.control.decision import Decision
from optimizers.layout import Layout
from optimizers.runtime.driver.summary import summary_of
from optimizers.runtime.task.flows import FlowCounter
from optimizers.runtime.task.parcels import Parcel
from optimizers.runtime.task.reports import Reports, TaskReport

JOB = Topology.source("s", parallelism=2).then("a", key="k", parallelism=3)
LAYOUT = Layout.of(JOB, Cluster.uniform(2), Plan())


def reports():
    """Three partitions of which the second and third send, the third to two instances."""
    counters = [FlowCounter() for _ in range(3)]
    # Partition 1 is on node-1 with a[1]; partition 2 on node-0 with a[0] and a[2].
    for sender, target, count, local in ((1, 1, 6, True), (2, 1, 2, False), (2, 2, 4, True)):
        counters[target].add(Parcel(0, 0, target, sender, 0, count, b"ab"), local=local)
    made = [TaskReport(operator="s", instance=n % 2, sender=n, tuples=9 + n) for n in range(3)]
    for number, tuples in enumerate((0, 8, 4)):
        made.append(
            TaskReport(
                operator="a",
                instance=number,
                sender=number,
                tuples=tuples,
                taken_over=number,
                received=counters[number].flows(),
            )
        )
    return made


def summary():
    parts = [Reports.of([report]) for report in reports()[::-1]]
    return summary_of(4, 2, 1.5, LAYOUT, Reports.merged(parts))


def test_a_batch_is_told_instance_by_instance_in_one_order():
    told = summary()

    assert (4, 2, 1.5) == (told.batch, told.planned, told.seconds)
    assert [("a", 0), ("a", 1), ("a", 2), ("s", 0), ("s", 1), ("s", 0)] == [
        (instance.operator, instance.number) for instance in told.instances
    ]
    assert ["node-0", "node-1", "node-0"] == [i.node for i in told.instances if i.operator == "a"]
    assert 3 == told.taken_over


def test_edges_are_added_up_over_all_senders():
    assert {("s", "a"): EdgeStatistics(12, 6, 10, 4, parcels=3)} == dict(summary().edges)


def test_locality_is_the_share_of_tuples_that_stay_on_their_node():
    told = summary()

    assert 10 / 12 == told.locality() == told.locality([("s", "a")])
    assert 1.0 == told.locality([("a", "b")])
    assert 1.0 == summary_of(0, 0, 1.0, LAYOUT, Reports.of([])).locality()


def test_loads_are_those_of_instances_not_of_partitions():
    assert (0, 8, 4) == summary().loads("a")
    assert (9 + 11, 10) == summary().loads("s")
    assert () == summary().loads("nobody")


def test_imbalance_is_that_of_the_fullest_instance():
    assert 2.0 == summary().imbalance("a")
    assert 1.0 == summary().imbalance("nobody")


def test_what_a_coordinator_tells_is_what_its_reports_say(tmp_path):
    driver = Driver(tmp_path, JOB)
    table = pa.table({"k": np.arange(90)})

    told = driver.batch({"s": [table, table]})

    assert 180 == sum(told.loads("a"))
    assert (90, 90) == told.loads("s")
    assert [told] == driver.coordinator.batches
    assert 180 == told.edges["s", "a"].tuples


class TestDecisions:
    def test_say_what_changes_and_why(self):
        note = Note("Me", "a", "it is better")
        plan = Plan(parallelism={"a": 2}, batch={"s": 5}, drain=("node-1",), notes=(note,))

        said = Decision(3, plan, applied=True)

        assert "after batch 3: batch, drain, parallelism changes (Me on a: it is better)" == str(
            said
        )
        assert "after batch 3: nothing changes (Me on a: it is better)" == str(Decision(3, plan))
        assert (note,) == said.notes

    def test_say_why_they_were_refused(self):
        said = Decision(3, Plan(parallelism={"a": 2}), "no room")

        assert "after batch 3: refused, for no room" == str(said)
        noted = Decision(3, Plan(notes=(Note("Me", "a", "better"),)), "no room")
        assert "after batch 3: refused, for no room (Me on a: better)" == str(noted)
        assert not said.applied

    @pytest.mark.parametrize("after", [-1, 0])
    def test_may_be_to_leave_things_alone(self, after):
        said = Decision(after, Plan())

        assert f"after batch {after}: nothing changes (no reason given)" == str(said)
        assert not said.applied
