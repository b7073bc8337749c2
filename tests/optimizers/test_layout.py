"""Where a job runs: stages, their tasks, and the way from one to the next."""

import any_job
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Fields, PartialKey
from grouping.routing_table import RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    Edge,
    LocalOrShuffle,
    Operator,
    Plan,
    Shuffle,
    Topology,
)
from optimizers.layout import Instance, Layout, completed


@st.composite
def layouts(draw):
    drawn = draw(any_job.jobs())
    numbers = {operator.name: operator.parallelism for operator in drawn.topology.operators}
    return Layout.of(drawn.topology, any_job.CLUSTER, draw(any_job.plans(drawn, numbers)))


def names(layout):
    return [[str(instance) for instance in stage] for stage in layout.stages]


def test_operators_are_in_the_stage_after_the_last_that_feeds_them():
    job = Topology(
        (Operator("s"), Operator("a", "k", 2), Operator("b", "k"), Operator("t")),
        (Edge("s", "a"), Edge("a", "b"), Edge("s", "b"), Edge("t", "b")),
    )

    layout = Layout.of(job, Cluster.uniform(1), Plan())

    assert [["s[0]", "t[0]"], ["a[0]", "a[1]"], ["b[0]"]] == names(layout)
    assert {"s": 0, "a": 1, "b": 2, "t": 0} == layout.stage_of


def test_a_job_of_one_source_has_one_stage():
    layout = Layout.of(Topology.source("s", parallelism=2), Cluster.uniform(1), Plan())

    assert [["s[0]", "s[1]"]] == names(layout)


class TestAttached:
    job = Topology.source("s", parallelism=3).then("f", parallelism=3, grouping=LocalOrShuffle())

    def test_an_operator_goes_on_where_its_tuples_are(self):
        layout = Layout.of(self.job.then("k", key="k"), Cluster.uniform(2), Plan())

        assert frozenset({"f"}) == layout.attached
        assert [["s[0]", "s[1]", "s[2]"], ["k[0]"]] == names(layout)
        assert 0 == layout.stage_of["f"]

    @pytest.mark.parametrize(
        "plan",
        [
            Plan(parallelism={"f": 2}),
            Plan(placement={"f": Deployment(("node-1", "node-0", "node-0"))}),
            Plan(scheduling={("s", "f"): Shuffle()}),
        ],
    )
    def test_but_not_where_they_might_be_elsewhere(self, plan):
        layout = Layout.of(self.job, Cluster.uniform(2), plan)

        assert frozenset() == layout.attached
        assert 1 == layout.stage_of["f"]

    def test_nor_where_streams_meet_or_keys_are_kept(self):
        joined = self.job.also("t", parallelism=3)
        joined = joined.then("j", after=("s", "t"), parallelism=3, grouping=LocalOrShuffle())

        assert frozenset({"f"}) == Layout.of(joined, Cluster.uniform(2), Plan()).attached


@given(layouts())
def test_each_instance_is_one_task_or_goes_on_where_another_ends(layout):
    job = layout.topology
    tasks = [instance for stage in layout.stages for instance in stage]
    assert len(tasks) == len(set(tasks))
    for operator in job.operators:
        mine = {task.number for task in tasks if task.operator == operator.name}
        alone = operator.name not in layout.attached
        assert mine == (set(range(operator.parallelism)) if alone else set())
    for stage, instances in enumerate(layout.stages):
        for task, instance in enumerate(instances):
            assert stage == layout.stage_of[instance.operator]
            assert task == layout.task_of(instance)
    for edge in job.edges:
        first, second = layout.stage_of[edge.source], layout.stage_of[edge.target]
        assert first < second or (edge.target in layout.attached and first == second)


@given(layouts())
def test_tuples_get_from_stage_to_stage_to_their_instance_on_its_node(layout):
    for edge in layout.topology.edges:
        if edge.target in layout.attached:
            continue
        for number in range(layout.topology.operator(edge.target).parallelism):
            target = Instance(edge.target, number)
            node = layout.node_of(target)
            for stage in range(layout.stage_of[edge.source], layout.stage_of[edge.target]):
                tasks = layout.stages[stage + 1]
                chosen = tasks[layout.next_task(stage, target)]
                nodes = {layout.node_of(instance) for instance in tasks}
                assert layout.node_of(chosen) == node or node not in nodes
            assert target == chosen


def test_what_is_passed_on_is_spread_over_the_tasks_that_are_near():
    job = Topology(
        (Operator("s"), Operator("a", "k", 4), Operator("b", "k", 4)),
        (Edge("s", "a"), Edge("a", "b"), Edge("s", "b")),
    )
    layout = Layout.of(job, Cluster.uniform(2), Plan())

    assert [0, 1, 2, 3] == [layout.next_task(0, Instance("b", number)) for number in range(4)]
    apart = {"a": "node-0", "b": "node-1"}
    elsewhere = Plan(
        placement={name: Deployment((node,) * 4, (0,) * 128) for name, node in apart.items()}
    )
    far = Layout.of(job, Cluster.uniform(2), elsewhere)
    assert [0, 1, 2, 3] == [far.next_task(0, Instance("b", number)) for number in range(4)]


def test_instances_of_a_node_are_known():
    layout = Layout.of(Topology.source("s", parallelism=5), Cluster.uniform(2), Plan())

    assert (0, 2, 4) == layout.local("s", "node-0")
    assert (1, 3) == layout.local("s", "node-1")
    assert () == layout.local("s", "elsewhere")


def test_each_edge_of_a_partial_operator_goes_by_its_own_grouping():
    table = RoutingTable([1], [2], 3)
    job = Topology(
        (Operator("s"), Operator("t"), Operator("u"), Operator("p", "k", 3, partial=True)),
        (Edge("s", "p", PartialKey()), Edge("t", "p", table), Edge("u", "p", Fields())),
    )

    layout = Layout.of(job, Cluster.uniform(1), Plan())

    assert layout.owners_on(job.edge("s", "p")) is None
    assert table == layout.owners_on(job.edge("t", "p")).table
    assert layout.owners_on(job.edge("u", "p")).table is None
    assert table == layout.owners("p").table


class TestCompletedPlans:
    job = Topology.source("s").then("a", key="k", parallelism=3, grouping=Fields())

    def test_keys_stay_where_they_are_however_the_job_is_declared_later(self):
        later = Topology.source("s").then(
            "a", key="k", parallelism=5, grouping=RoutingTable([1], [2], 5)
        )
        plan = completed(Plan(), self.job, Cluster.uniform(2))

        first = Layout.of(self.job, Cluster.uniform(2), plan)
        second = Layout.of(later, Cluster.uniform(5), plan)

        assert first.homes == second.homes

        assert first.owners("a") == second.owners("a")
        assert 3 == second.topology.operator("a").parallelism

    def test_what_a_plan_says_stays(self):
        table = RoutingTable([1], [3], 4)
        plan = Plan(parallelism={"a": 4, "s": 2}, routing={"a": table})

        found = completed(plan, self.job, Cluster.uniform(2))

        assert plan.routing == found.routing
        assert {**plan.parallelism} == {**found.parallelism}
        assert {"s", "a"} == {*found.placement}

    @given(st.data())
    def test_a_completed_plan_lays_a_job_out_as_it_did(self, data):
        drawn = data.draw(any_job.jobs())
        numbers = {operator.name: operator.parallelism for operator in drawn.topology.operators}
        plan = data.draw(any_job.plans(drawn, numbers))
        whole = completed(plan, drawn.topology, any_job.CLUSTER)

        assert whole == completed(whole, drawn.topology, any_job.CLUSTER)
        one, other = (Layout.of(drawn.topology, any_job.CLUSTER, p) for p in (plan, whole))
        assert names(one) == names(other)
        for operator in drawn.topology.operators:
            if operator.keyed and not operator.partial:
                assert one.owners(operator.name) == other.owners(operator.name)
