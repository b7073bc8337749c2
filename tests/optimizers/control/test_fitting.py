"""Machines come and go: a plan that names some is fitted to those that are there."""

import logging
import threading
import time
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import given
from hypothesis import strategies as st

from grouping.routing_table import RoutingTable
from optimizers import Cluster, Deployment, Fixed, Node, Operator, Optimizer, Plan, Topology
from optimizers.control.decision import Decision
from optimizers.control.fitting import fitted, idle_nodes
from optimizers.control.history import History
from optimizers.folds import Count, Emit

NAMES = [f"host-{number}" for number in range(6)]
JOB = (
    Topology.source("s")
    .then(Operator("a", "k", 4, apply=Count(emit=Emit.TUPLES), key_groups=8))
    .then("b", key="l", parallelism=3)
)
TUPLES = {"s": pa.table({"k": list(range(20)), "l": list(range(20))})}


def cluster_of(*names, **options):
    return Cluster(tuple(Node(name) for name in names), **options)


def placed(*nodes):
    return Deployment(nodes, tuple(group % len(nodes) for group in range(8)))


CLUSTERS = st.lists(
    st.builds(Node, st.sampled_from(NAMES), st.sampled_from([0.5, 1.0, 3.0])),
    min_size=1,
    max_size=6,
    unique_by=lambda node: node.name,
).map(lambda nodes: Cluster(tuple(nodes)))


@st.composite
def plans_on(draw, cluster):
    """A plan that this cluster can carry out."""
    names = [node.name for node in cluster.nodes]
    new = [name for name in NAMES if name not in names]
    add = draw(st.lists(st.sampled_from(new), unique=True, max_size=2)) if new else []
    drain = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names) - 1))
    homes = st.lists(st.sampled_from(names + add), min_size=4, max_size=4)
    placement = {"a": placed(*draw(homes))} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        three = tuple(draw(homes)[:3])
        placement["b"] = Deployment(three, tuple(group % 3 for group in range(128)))
    return Plan(placement=placement, add=tuple(map(Node, add)), drain=tuple(drain), batch={"s": 9})


@given(st.data(), CLUSTERS, CLUSTERS)
def test_a_plan_can_be_carried_out_whatever_became_of_the_cluster(data, before, after):
    plan = data.draw(plans_on(before))

    fit = fitted(plan, after)

    fit.plan.check(JOB, after)
    assert fit.plan == fitted(fit.plan, after).plan
    assert not fitted(fit.plan, after).changed.notes
    assert bool(fit.changed.notes) == (fit.plan != plan)
    assert (plan.batch, plan.notes) == (fit.plan.batch, fit.plan.notes)


@given(st.data(), CLUSTERS, CLUSTERS)
def test_what_is_on_a_machine_that_is_there_stays_there(data, before, after):
    plan = data.draw(plans_on(before))

    fit = fitted(plan, after).plan

    there = {node.name for node in (*after.nodes, *plan.add)}
    for name, deployment in plan.placement.items():
        later = fit.placement[name]
        assert deployment.groups == later.groups
        for one, other in zip(deployment.nodes, later.nodes, strict=True):
            assert (one == other) == (one in there)
    working = {node.name for node in after.under(Plan(add=fit.add, drain=fit.drain)).working}
    moved = [
        other
        for name, deployment in plan.placement.items()
        for one, other in zip(deployment.nodes, fit.placement[name].nodes, strict=True)
        if one != other
    ]
    assert set(moved) <= working


@given(st.data(), CLUSTERS)
def test_a_plan_that_fits_stays_as_it_is(data, cluster):
    plan = data.draw(plans_on(cluster))

    assert plan == fitted(plan, cluster).plan
    assert Plan() == fitted(plan, cluster).changed


@given(st.data(), CLUSTERS, st.integers(1, 3))
def test_machines_that_came_get_a_fair_share_and_nothing_else_moves(data, before, count):
    plan = data.draw(plans_on(before))
    came = [f"new-{number}" for number in range(count)]
    after = Cluster((*before.nodes, *map(Node, came)))

    fit = fitted(plan, after, came).plan

    for name, deployment in plan.placement.items():
        pairs = list(zip(deployment.nodes, fit.placement[name].nodes, strict=True))
        assert {other for one, other in pairs if one != other} <= {*came}
        loads = {
            node.name: [node.capacity, fit.placement[name].nodes.count(node.name)]
            for node in (*after.nodes, *fit.add)
        }
        for here in came:
            for capacity, instances in loads.values():
                assert (loads[here][1] + 1) / loads[here][0] >= instances / capacity
    assert fit == fitted(fit, after).plan
    assert plan == fitted(plan, after).plan


class TestWhoTakesOver:
    def test_is_the_machine_that_came_in_place_of_one_that_left(self):
        plan = Plan(placement={"a": placed("east", "west", "east", "west")})

        fit = fitted(plan, cluster_of("west", "north")).plan

        assert ("north", "west", "north", "west") == fit.placement["a"].nodes

    def test_are_those_with_least_to_do_where_none_came(self):
        plan = Plan(placement={"a": placed("west", "east", "north", "east")})

        fit = fitted(plan, cluster_of("north", "west")).plan

        assert ("west", "north", "north", "west") == fit.placement["a"].nodes

    def test_are_those_that_can_take_most(self):
        plan = Plan(placement={"a": placed("gone", "gone", "small", "big")})

        fit = fitted(plan, Cluster((Node("small"), Node("big", 4.0)))).plan

        assert ("big", "big", "small", "big") == fit.placement["a"].nodes

    def test_is_none_that_drains(self):
        plan = Plan(placement={"a": placed("gone", "gone", "gone", "b")}, drain=("c",))

        fit = fitted(plan, cluster_of("a", "b", "c")).plan

        assert ("a", "a", "a", "b") == fit.placement["a"].nodes


class TestDrains:
    def test_are_over_when_the_machine_is_gone(self):
        fit = fitted(Plan(drain=("a", "b")), cluster_of("b", "c"))

        assert Plan(drain=("b",)) == fit.plan
        assert ["machines on a: it is gone and need not drain"] == list(map(str, fit.changed.notes))

    def test_end_where_nothing_else_would_be_left(self):
        fit = fitted(Plan(drain=("b",)), cluster_of("b"))

        assert Plan() == fit.plan
        assert "it is needed and does not drain" in str(fit.changed.notes[0])


def test_a_machine_that_was_to_be_added_and_came_is_taken_as_it_is():
    plan = Plan(add=(Node("a"), Node("b"), Node("c")))

    fit = fitted(plan, Cluster((Node("a", 4.0), Node("b"))))

    assert Plan(add=(Node("b"), Node("c"))) == fit.plan
    assert 1 == len(fit.changed.notes)


class Hosts:
    """The machines that are there, until others are."""

    def __init__(self, cluster):
        self.now = cluster

    def __call__(self):
        return self.now


def batch_until(driver, hosts, *names):
    """Run a batch at the end of which machines of these names are there."""
    reports = driver.run(TUPLES)
    hosts.now = hosts.now.became(map(Node, names))
    driver.coordinator.commit(driver.assigned, reports, 2.0)


class Placing(Optimizer):
    """Asks for a placement on the nodes that it is shown, at the times it is told to."""

    def __init__(self, *times):
        self.times, self.worlds, self.epochs = times, [], []

    def plan(self, topology, cluster, statistics, current):
        self.worlds.append((cluster, current))
        self.epochs += [statistics] if statistics else []
        if len(self.worlds) - 1 not in self.times:
            return Plan()
        names = [node.name for node in cluster.working]
        homes = [names[place % len(names)] for place in range(4)]
        return Plan(placement={"a": placed(*homes)})


def homes_of(driver):
    return driver.coordinator.layout.homes["a"].nodes


class TestDuringARun:
    def test_the_plan_follows_the_machines(self, tmp_path, caplog):
        hosts = Hosts(cluster_of("x", "y"))
        optimizer = Placing(0)
        driver = Driver(tmp_path, JOB, optimizer, cluster=hosts)
        driver.batch(TUPLES)
        assert ("x", "y", "x", "y") == homes_of(driver)
        work = driver.coordinator.assign().work
        driver.batch(TUPLES)
        assert work is driver.coordinator.assign().work

        batch_until(driver, hosts, "y", "z")

        assert ("z", "y", "z", "y") == homes_of(driver)
        assert work is not driver.coordinator.assign().work
        driver.batch(TUPLES)
        assert dict.fromkeys(range(20), 4) == driver.results("a") == driver.results("b")
        assert 0 == driver.coordinator.batches[-1].taken_over
        cluster, current = optimizer.worlds[3]
        assert {"y", "z"} == {node.name for node in cluster.nodes}
        assert ("z", "y", "z", "y") == current.placement["a"].nodes
        assert [-1, 0, 1, 2, 2, 3] == [said.after for said in driver.coordinator.decisions]
        told = driver.coordinator.decisions[3]
        assert told.fits
        assert "after batch 2: fitted to the machines that are there (machines on a: 2 of 4" in str(
            told
        )
        assert [str(told)] == [
            one.getMessage() for one in caplog.records if "fitted" in one.msg % one.args
        ]
        totals = driver.coordinator.totals
        assert (1, 5, 0) == (totals.fitted, totals.decisions, totals.refused)

    def test_what_is_decided_at_the_same_time_is_decided_for_those_that_are_there(self, tmp_path):
        hosts = Hosts(cluster_of("x", "y"))
        driver = Driver(tmp_path, JOB, Placing(0, 1), cluster=hosts)

        batch_until(driver, hosts, "y", "z")
        driver.batch(TUPLES)

        # Placed again, in the order of the cluster it is shown; else it would have been refused.
        assert ("y", "z", "y", "z") == homes_of(driver)
        assert 0 == driver.coordinator.totals.refused

    def test_machines_that_come_later_are_used(self, tmp_path):
        hosts = Hosts(cluster_of("x"))
        driver = Driver(tmp_path, JOB, Fixed(Plan()), cluster=hosts)
        batch_until(driver, hosts, "x", "y")
        driver.batch(TUPLES)

        assert ("x", "y", "x", "y") == homes_of(driver)
        assert dict.fromkeys(range(20), 2) == driver.results("a")
        assert [0, 0] == [batch.taken_over for batch in driver.coordinator.batches]
        assert "on a: 2 of 4 instances go to nodes that came" in str(
            driver.coordinator.decisions[1]
        )

    def test_that_a_plan_has_added_are_left_to_plans(self, tmp_path):
        hosts = Hosts(cluster_of("x"))
        driver = Driver(tmp_path, JOB, Fixed(Plan(add=(Node("y"),))), cluster=hosts)
        batch_until(driver, hosts, "x", "y")
        driver.batch(TUPLES)

        assert ("x",) * 4 == homes_of(driver)

    def test_that_only_became_more_capable_change_nothing_but_what_strategies_see(self, tmp_path):
        hosts = Hosts(cluster_of("x", "y"))
        optimizer = Placing(0)
        driver = Driver(tmp_path, JOB, optimizer, cluster=hosts)
        work = driver.coordinator.assign().work
        hosts.now = Cluster((Node("x", 2.0), Node("y")))
        driver.batch(TUPLES)

        assert work is driver.coordinator.assign().work
        assert [1.0, 2.0] == [cluster.node("x").capacity for cluster, _ in optimizer.worlds]

    def test_are_looked_for_before_and_after_each_batch(self, tmp_path):
        looks = []

        def look():
            looks.append(len(looks))
            return cluster_of("x", "y")

        driver = Driver(tmp_path, JOB, Fixed(Plan()), every=3, cluster=look)
        for _ in range(7):
            driver.batch(TUPLES)

        assert 1 + 2 * 7 == len(looks)

    def test_that_left_amid_an_epoch_are_named_no_more_in_the_next_batch(self, tmp_path):
        hosts = Hosts(cluster_of("x", "y"))
        driver = Driver(tmp_path, JOB, Placing(0), cluster=hosts, every=9)
        driver.batch(TUPLES)

        batch_until(driver, hosts, "y")
        nodes = {i.node for i in driver.batch(TUPLES).instances}

        assert {"y"} == nodes
        hosts.now = cluster_of("z")  # while nothing runs
        assert {"z"} == {i.node for i in driver.batch(TUPLES).instances}
        assert dict.fromkeys(range(20), 4) == driver.results("a") == driver.results("b")
        assert [False, True, True] == [said.fits for said in driver.coordinator.decisions]

    @pytest.mark.parametrize("name", ["x", "y"])
    def test_that_left_while_an_optimizer_thought_are_not_brought_back_by_it(self, tmp_path, name):
        hosts, gate = Hosts(cluster_of("x", "y")), threading.Event()

        class Slow(Optimizer):
            def plan(self, topology, cluster, statistics, current):
                if not statistics:
                    return Plan()
                gate.wait(60)
                return Plan(placement={"a": placed(name, name, name, name)}, batch={"s": 7})

        driver = Driver(tmp_path, JOB, Slow(), cluster=hosts, meanwhile=True)
        driver.batch(TUPLES)
        batch_until(driver, hosts, "y")
        gate.set()
        while driver.coordinator.is_thinking:
            time.sleep(0.001)
        driver.batch(TUPLES)
        driver.batch(TUPLES)

        refused = [said.refused for said in driver.coordinator.decisions if said.refused]
        assert (name == "x") == bool(refused)
        assert all("unknown node 'x'" in one for one in refused)
        assert ({} if name == "x" else {"s": 7}) == driver.coordinator.plan.batch
        assert ("y",) * 4 == homes_of(driver)

    def test_flows_are_counted_by_where_instances_are_in_each_batch(self, tmp_path):
        hosts = Hosts(cluster_of("x", "y"))
        driver = Driver(tmp_path, JOB, Placing(0), cluster=hosts, every=2)

        apart = batch_until(driver, hosts, "y") or driver.coordinator.batches[-1]
        together = driver.batch(TUPLES)

        assert 0 < apart.edges["a", "b"].local < 20
        assert 20 == together.edges["a", "b"].local
        (epoch,) = driver.optimizer.epochs
        assert 20 + apart.edges["a", "b"].local == epoch.edges["a", "b"].local

    def test_keys_move_by_tables_as_ever(self, tmp_path):
        tables = [RoutingTable(range(20), [(key + n) % 4 for key in range(20)], 4) for n in (0, 1)]
        plans = [
            Plan(routing={"a": tables[0]}, placement={"a": placed("x", "y", "x", "y")}),
            Plan(routing={"a": tables[1]}),
        ]
        hosts = Hosts(cluster_of("x", "y"))
        driver = Driver(tmp_path, JOB, plans, cluster=hosts)
        batch_until(driver, hosts, "y")
        batch_until(driver, hosts, "w")
        driver.batch(TUPLES)

        assert ("w",) * 4 == homes_of(driver)
        assert [0, 20, 0] == [batch.taken_over for batch in driver.coordinator.batches]
        assert dict.fromkeys(range(20), 3) == driver.results("a")


class TestAtTheStart:
    def test_nodes_that_no_plan_uses_are_named_once_with_what_helps(self, tmp_path, caplog):
        caplog.set_level("INFO", "optimizers.control.loop")
        Driver(tmp_path, JOB, cluster=cluster_of("b", "c")).batch(TUPLES)
        assert "no instance is on" not in caplog.text
        wider = cluster_of("a", "b", "c", "d", draining=("d",))

        driver = Driver(tmp_path, JOB, cluster=wider)
        before = homes_of(driver)
        for _ in range(3):
            driver.batch(TUPLES)

        assert before == homes_of(driver) == ("b", "c", "b", "c")
        (told,) = [record for record in caplog.records if "no instance is on" in record.message]
        assert "WARNING" == told.levelname
        assert told.message.startswith("no instance is on a: nothing moves there that no plan")
        assert "declare more instances" in told.message
        # And what it says helps.
        more = Topology(
            tuple(replace(op, parallelism=5) if op.name == "a" else op for op in JOB.operators),
            JOB.edges,
        )
        driver = Driver(tmp_path, more, cluster=wider)
        driver.batch(TUPLES)
        assert (*before, "a") == homes_of(driver)
        assert 1 == caplog.text.count("no instance is on a:")
        assert dict.fromkeys(range(20), 5) == driver.results("a")

    def test_nodes_that_drain_are_meant_to_be_idle(self):
        here = placed("a", "a", "a", "a")

        idle = [
            idle_nodes(Plan(placement={"a": here}, drain=drain), cluster_of("a", "b", "c"))
            for drain in ((), ("b",))
        ]

        assert [("b", "c"), ("c",)] == idle

    def test_a_new_job_is_not_warned_of_nodes_that_it_is_too_small_for(self, tmp_path, caplog):
        caplog.set_level("INFO", "optimizers.control.loop")
        job = Topology.source("s").then("a", key="k")

        Driver(tmp_path, job, cluster=cluster_of("a", "b", "c")).batch(TUPLES)

        (told,) = [record for record in caplog.records if "no instance is on" in record.message]
        assert ("INFO", True) == (told.levelname, "is on b, c:" in told.message)

    def test_a_job_goes_on_whose_hosts_were_all_replaced(self, tmp_path):
        old, new = cluster_of("host-1", "host-2"), cluster_of("host-3", "host-4")
        plan = Plan(placement={"a": placed("host-1", "host-2", "host-1", "host-2")})
        Driver(tmp_path, JOB, Fixed(plan), cluster=old).batch(TUPLES)

        table = RoutingTable([1], [1], 4)
        driver = Driver(tmp_path, JOB, Fixed(Plan(routing={"a": table})), cluster=new)
        for _ in range(2):
            driver.batch(TUPLES)

        assert ("host-3", "host-4", "host-3", "host-4") == homes_of(driver)
        assert driver.coordinator.decisions[0].fits
        assert not any(said.refused for said in driver.coordinator.decisions)
        assert table == driver.coordinator.assign().plan.routing["a"]
        assert dict.fromkeys(range(20), 3) == driver.results("a")

    def test_a_job_goes_on_whose_drained_host_is_gone(self, tmp_path):
        plan = Plan(drain=("host-2",))
        Driver(tmp_path, JOB, Fixed(plan), cluster=cluster_of("host-1", "host-2")).batch(TUPLES)

        driver = Driver(tmp_path, JOB, cluster=cluster_of("host-3"))
        driver.batch(TUPLES)

        assert {"host-3"} == set(homes_of(driver))
        assert dict.fromkeys(range(20), 2) == driver.results("a")

    @pytest.mark.parametrize("batches", [0, 2])
    def test_a_plan_that_was_saved_before_a_crash_is_fitted_too(self, tmp_path, batches):
        plans = [Plan(), Plan(), Plan(placement={"a": placed(*["gone"] * 4)})]
        first = Driver(tmp_path, JOB, plans[2 - batches :], cluster=cluster_of("gone", "b"))
        for _ in range(batches):
            first.batch(TUPLES)
        first.coordinator.assign()  # writes the plan down; and then it dies

        driver = Driver(tmp_path, JOB, cluster=cluster_of("c", "d"))
        driver.batch(TUPLES)

        assert 1 == len(set(homes_of(driver)))  # one machine takes over what one had
        assert batches == driver.coordinator.assign().planned
        assert dict.fromkeys(range(20), batches + 1) == driver.results("a")


def test_decisions_learn_what_became_of_them_beyond_a_change_of_machines(caplog):
    history = History()
    history.add_decision(Decision(0, Plan(), before=0.5))
    history.add_decision(Decision(1, Plan(), fits=True))
    history.add_decision(Decision(2, Plan(), before=0.25))

    assert [0.25, None, None] == [said.since for said in history.decisions]
    assert (2, 1) == (history.totals.decisions, history.totals.fitted)
    assert logging.WARNING not in [record.levelno for record in caplog.records]


@given(CLUSTERS, st.lists(CLUSTERS, max_size=4), st.integers(1, 12))
def test_what_is_dealt_out_in_turn_stays_where_machines_leave_or_are_replaced(
    cluster, later, instances
):
    for other in later:
        before = {node.name for node in cluster.nodes}
        dealt, after = cluster.deal(instances), cluster.became(other.nodes)
        again, there = after.deal(instances), {node.name for node in after.nodes}

        assert set(again) <= there
        is_full = len(cluster.order or before) == len(before)  # none has left so far
        if is_full and len(there - before) <= len(before - there):
            assert all(two == one for one, two in zip(dealt, again, strict=True) if one in there)
        counts = Counter(again)
        assert max(counts.values()) - min(counts[name] for name in there) <= 1
        assert after == Cluster.from_json(after.to_json())
        cluster = after
