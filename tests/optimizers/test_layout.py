"""Where a job runs: stages, their tasks, and the way from one to the next."""

import any_job
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Fields, GroupTable, PartialKey
from grouping.routing_table import RoutingTable
from grouping.scheduling.baselines import ShortestQueue
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
from optimizers.errors import InvalidKeyError
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


def routed(layout, edge, sender, keys):
    """The number of the instance that each key goes to by an edge, as a sender of it says."""
    owners = layout.owners_on(edge)
    if owners is not None:
        return owners.assign(keys).tolist()
    target = layout.topology.operator(edge.target)
    node = layout.node_of(Instance(edge.source, sender))
    router = layout.topology.grouping(*edge.name).router(
        target.parallelism, sender=sender, local=layout.local(target.name, node)
    )
    return router.route(len(keys), keys).tolist()


@given(layouts())
def test_edges_that_are_alike_send_each_tuple_to_one_number_from_any_sender(layout):
    job = layout.topology
    for name in job.order:
        groups = layout.alike(name)
        assert list(job.outputs(name)) == sorted(sum(groups, ()), key=job.edges.index)
        for group in groups:
            assert 1 == len({job.key_columns(*edge.name) for edge in group})
            assert 1 == len({job.operator(edge.target).parallelism for edge in group})
            kinds = [range(-50, 50), [f"{number}" for number in range(50)]]
            pairs = [(number, f"{number}") for number in range(50)]
            for sender in range(job.operator(name).parallelism):
                for keys in (kinds[0], kinds[1], pairs):
                    ways = [tried(layout, edge, sender, keys) for edge in group]
                    assert all(way == ways[0] for way in ways)


def tried(layout, edge, sender, keys):
    try:
        return routed(layout, edge, sender, list(keys))
    except InvalidKeyError as error:  # a table names keys of another kind
        return str(error)


TWO = (
    Topology.source("s", parallelism=2)
    .then("a", key="k", after="s", parallelism=2)
    .then("b", key="k", after="s", parallelism=2)
    .then("c", after="s", parallelism=2)
    .then("d", after="s", parallelism=2)
)


def alike(plan=None, job=TWO):
    layout = Layout.of(job, Cluster.uniform(2), plan or Plan())
    return {tuple(edge.target for edge in group) for group in layout.alike("s")}


TABLE = GroupTable([7], [3], 128)
BACK = Deployment(("node-1", "node-0"), (1, 0) * 64)


@pytest.mark.parametrize(
    ("plan", "groups"),
    [
        (Plan(), {("a", "b"), ("c", "d")}),
        (Plan(parallelism={"a": 3}), {("a",), ("b",), ("c", "d")}),
        (Plan(parallelism={"a": 3, "b": 3, "d": 3}), {("a", "b"), ("c",), ("d",)}),
        (Plan(routing={"b": TABLE}), {("a",), ("b",), ("c", "d")}),
        (Plan(routing={"a": TABLE, "b": TABLE}), {("a", "b"), ("c", "d")}),
        (Plan(placement={"a": BACK}), {("a",), ("b",), ("c", "d")}),
        (Plan(placement={"a": BACK, "b": BACK}), {("a", "b"), ("c", "d")}),
        (Plan(placement={"c": Deployment(("node-1", "node-0"))}), {("a", "b"), ("c",), ("d",)}),
        (Plan(scheduling={("s", "c"): LocalOrShuffle()}), {("a", "b"), ("c",), ("d",)}),
    ],
)
def test_what_is_alike_follows_the_plan(plan, groups):
    assert groups == alike(plan)


def test_keyed_consumers_on_other_nodes_are_alike():
    there = Layout.of(TWO, Cluster.uniform(2), Plan()).homes["a"].groups
    moved = Deployment(("node-1", "node-1"), there)

    assert {("a", "b"), ("c", "d")} == alike(Plan(placement={"a": moved}))


def test_other_columns_or_groups_or_what_listens_are_not_alike():
    job = Topology.source("s").then("a", key="k", after="s").then("b", key="j", after="s")
    job = job.then("c", key="k", after="s", key_groups=7)
    spread = {"after": "s", "grouping": ShortestQueue(), "edge_key": "k"}
    job = job.then("d", **spread).then("e", **spread)

    assert {("a",), ("b",), ("c",), ("d",), ("e",)} == alike(job=job)


def test_by_groups_of_keys_and_by_keys_alone_are_not_alike():
    job = Topology.source("s").then("a", key="k", after="s", parallelism=3)
    job = job.then("b", after="s", parallelism=3, grouping=Fields(), edge_key="k")

    assert {("a",), ("b",)} == alike(job=job)
