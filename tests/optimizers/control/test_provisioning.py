"""Nodes are acquired and given back as plans want: once, told, and never before they are empty."""

import logging
import threading
import time

import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import event, given
from hypothesis import strategies as st

from optimizers import Cluster, Deployment, Fixed, Node, Operator, Optimizer, Plan, Topology
from optimizers.control.provisioning import Provisioner, Provisioning, kept_by
from optimizers.folds import Count, Emit
from optimizers.layout import Layout

PATIENCE = 300.0


class Cloud:
    """A provisioner that keeps what it was asked for, and fails while it is told to."""

    def __init__(self):
        self.asked, self.total, self.released, self.fails = 0, None, [], False

    def acquire(self, count, total):
        if self.fails:
            raise OSError("no quota\nleft")
        self.asked, self.total = self.asked + count, total

    def release(self, nodes):
        if self.fails:
            raise ValueError("cannot go")
        self.released += nodes


class Patient(Cloud):
    """A provisioner that can also cancel."""

    def cancel(self, count, total):
        if self.fails:
            raise OSError("line is dead")
        self.asked, self.total = self.asked - count, total


def cluster_of(*names, **options):
    return Cluster(tuple(Node(name) for name in names), **options)


def texts(told):
    return [note.text for decision in told for note in decision.notes]


def test_a_cloud_is_a_provisioner_by_its_two_methods():
    assert isinstance(Cloud(), Provisioner)
    assert not isinstance(object(), Provisioner)


class TestAcquiring:
    def test_asks_once_for_a_node_that_comes_under_another_name_and_again_if_that_one_goes(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        wanted = Plan(add=(Node("c"),))
        asked = []
        for names in ("ab", "ab", "abz", "abz", "abz", "ab", "aby", "aby", "abyc"):
            provisioning.settle(wanted, cluster_of(*names), (), 0, 0.0)
            asked.append(cloud.asked)

        assert [1, 1, 1, 1, 1, 2, 2, 2, 2] == asked

    def test_lets_no_more_nodes_stand_in_than_were_asked_for(self):
        provisioning = Provisioning(Cloud())
        adding = Plan(nodes=2, add=(Node("c"), Node("d")))
        provisioning.settle(adding, cluster_of("m"), (), 0, 0.0)  # one

        assert {} == provisioning.meet(adding, cluster_of("m", "c", "z"))

    def test_lets_no_node_stand_in_for_one_that_came_after_all_or_after_it_drains(self):
        for there, draining in (("mzc", ()), ("mz", ("z",))):
            provisioning = Provisioning(Cloud())
            adding = Plan(add=(Node("c"),))
            provisioning.settle(adding, cluster_of("m"), (), 0, 0.0)
            assert {"c": "z"} == provisioning.meet(adding, cluster_of("m", "z"))

            assert {} == provisioning.meet(Plan(drain=draining), cluster_of(*there))

    def test_asks_once_for_what_is_wanted_and_not_there(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        two = cluster_of("m", "n")

        first = provisioning.settle(Plan(nodes=4), two, (), 0, 0.0)

        assert (2, 4) == (cloud.asked, cloud.total)
        (told,) = first
        assert told.provisions
        assert told.applied
        assert not told.refused
        assert "2 nodes more were asked for (there 2, wanted 4)" in str(told)
        for batch, now in ((1, 1.0), (2, 50.0)):
            assert [] == provisioning.settle(Plan(nodes=4), two, (), batch, now)
        three = cluster_of("m", "n", "o")
        assert [] == provisioning.settle(Plan(nodes=4), three, (), 3, 60.0)
        assert "1 node more was asked for" in str(
            provisioning.settle(Plan(nodes=5), three, (), 4, 61.0)[0]
        )
        assert (3, 5) == (cloud.asked, cloud.total)

    def test_asks_again_for_what_was_there_and_is_lost(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        provisioning.settle(Plan(nodes=2), cluster_of("m", "n"), (), 0, 0.0)
        assert 0 == cloud.asked

        provisioning.settle(Plan(nodes=2), cluster_of("m"), (), 1, 1.0)

        assert (1, 2) == (cloud.asked, cloud.total)

    def test_goes_by_the_names_that_a_plan_adds_where_it_says_no_number(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        plan = Plan(add=(Node("n"), Node("o")))

        provisioning.settle(plan, cluster_of("m"), (), 0, 0.0)
        assert [] == provisioning.settle(plan, cluster_of("m", "n"), (), 1, 1.0)

        assert 2 == cloud.asked

    def test_replaces_what_drains(self):
        cloud = Cloud()
        plan = Plan(nodes=2, drain=("n",))

        Provisioning(cloud).settle(plan, cluster_of("m", "n"), ("m", "n"), 0, 0.0)

        assert (1, 3) == (cloud.asked, cloud.total)  # with the one that is still there
        assert [] == cloud.released

    def test_counts_no_node_that_was_given_back_and_has_not_gone_yet(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        two = cluster_of("m", "n")
        provisioning.settle(Plan(nodes=1, drain=("n",)), two, ("m",), 0, 0.0)
        assert ["n"] == cloud.released

        provisioning.settle(Plan(nodes=3, drain=("n",)), two, ("m",), 1, 1.0)

        assert (2, 3) == (cloud.asked, cloud.total)

    def test_is_told_once_to_be_late_and_not_done_again(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud, patience=PATIENCE)
        one = cluster_of("m")
        provisioning.settle(Plan(nodes=3), one, (), 0, 10.0)

        assert [] == provisioning.settle(Plan(nodes=3), one, (), 1, 309.0)
        (late,) = provisioning.settle(Plan(nodes=3), one, (), 2, 310.0)

        assert "2 nodes asked for 300 s ago did not come" == late.refused
        assert not late.applied
        assert [] == provisioning.settle(Plan(nodes=3), one, (), 3, 9_000.0)
        assert 2 == cloud.asked
        provisioning.settle(Plan(nodes=1), one, (), 4, 9_001.0)
        provisioning.settle(Plan(nodes=2), one, (), 5, 9_002.0)
        assert 3 == cloud.asked


class TestCancelling:
    def test_is_done_once_for_what_is_not_wanted_any_more(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        two = cluster_of("m", "n")
        provisioning.settle(Plan(nodes=6), two, (), 0, 0.0)
        three = cluster_of("m", "n", "o")
        provisioning.settle(Plan(nodes=6), three, (), 1, 1.0)
        assert (4, 6) == (cloud.asked, cloud.total)

        (told,) = provisioning.settle(Plan(nodes=4), three, (), 2, 2.0)

        assert (2, 4) == (cloud.asked, cloud.total)
        assert "the request for 2 nodes was cancelled" in str(told)
        assert (True, "") == (told.applied, told.refused)
        assert [] == provisioning.settle(Plan(nodes=4), three, (), 3, 3.0)
        # What was cancelled is asked for again where it is wanted again.
        provisioning.settle(Plan(nodes=5), three, (), 4, 4.0)
        assert (3, 5) == (cloud.asked, cloud.total)

    def test_counts_what_drains_and_is_still_there_and_not_what_was_given_back(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        three = cluster_of("m", "n", "o")
        drain = ("n", "o")
        provisioning.settle(Plan(nodes=5, drain=drain), three, ("m", "n"), 0, 0.0)
        assert (4, 7, ["o"]) == (cloud.asked, cloud.total, cloud.released)

        provisioning.settle(Plan(nodes=2, drain=drain), three, ("m", "n"), 1, 1.0)

        assert (1, 3) == (cloud.asked, cloud.total)  # m, n, and the one that is still to come

    def test_of_a_name_is_done_where_the_plan_does_not_add_it_any_more(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        one, adding = cluster_of("m"), Plan(add=(Node("c"),))
        provisioning.settle(adding, one, (), 0, 0.0)
        assert 1 == cloud.asked

        provisioning.settle(adding.amended(Plan(drain=("c",)), one), one, (), 1, 1.0)

        assert (0, 1) == (cloud.asked, cloud.total)

    def test_of_what_came_meanwhile_is_not_tried(self):
        cloud = Patient()
        provisioning = Provisioning(cloud)
        provisioning.settle(Plan(nodes=3), cluster_of("m"), (), 0, 0.0)

        told = provisioning.settle(Plan(nodes=1), cluster_of("m", "n"), (), 1, 1.0)

        assert (1, 2) == (cloud.asked, cloud.total)
        assert "the request for 1 node was cancelled" in str(told[0])
        assert [] == provisioning.settle(Plan(nodes=1), cluster_of("m", "n", "o"), (), 2, 2.0)

    def test_that_fails_is_refused_and_tried_again_unless_it_came_or_is_wanted_again(self):
        cloud = Patient()
        provisioning = Provisioning(cloud, patience=PATIENCE)
        one = cluster_of("m")
        provisioning.settle(Plan(nodes=4), one, (), 0, 0.0)
        cloud.fails = True

        (told,) = provisioning.settle(Plan(nodes=1), one, (), 1, 1.0)

        assert "Patient.cancel raised OSError: line is dead" in told.refused
        assert "the request for 3 nodes could be cancelled" in str(told)
        assert [] == provisioning.settle(Plan(nodes=1), one, (), 2, 299.0)
        cloud.fails = False
        assert [] == provisioning.settle(Plan(nodes=2), one, (), 3, 299.2)  # one of them is wanted
        two = cluster_of("m", "x", "y")
        assert [] == provisioning.settle(Plan(nodes=2), two, (), 4, 299.5)
        provisioning.settle(Plan(nodes=2), two, (), 5, 301.0)
        assert (2, 3) == (cloud.asked, cloud.total)  # the request for the third was cancelled

    def test_is_told_as_advice_where_nothing_can_do_it(self):
        for provisioner, words in (
            (
                Cloud(),
                "2 nodes asked for are no longer wanted but may still come: Cloud has no method ",
            ),
            (None, "2 nodes need not be acquired any more"),
        ):
            provisioning = Provisioning(provisioner)
            provisioning.settle(Plan(nodes=3), cluster_of("m"), (), 0, 0.0)
            (told,) = provisioning.settle(Plan(nodes=1), cluster_of("m"), (), 1, 1.0)
            assert words in str(told)
            assert (False, "") == (told.applied, told.refused)
            assert [] == provisioning.settle(Plan(nodes=1), cluster_of("m"), (), 2, 2.0)


class TestGivingBack:
    def test_waits_until_nothing_is_left(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        two, plan = cluster_of("m", "n"), Plan(drain=("n",))

        assert [] == provisioning.settle(plan, two, ("m", "n"), 0, 0.0)
        (told,) = provisioning.settle(plan, two, ("m",), 1, 1.0)

        assert ["n"] == cloud.released
        assert "nothing was left on n, which was given back" in str(told)
        assert [] == provisioning.settle(plan, two, ("m",), 2, 2.0)
        assert ["n"] == cloud.released

    def test_is_told_once_to_be_late(self):
        provisioning = Provisioning(Cloud(), patience=PATIENCE)
        two, plan = cluster_of("m", "n"), Plan(drain=("n",))
        provisioning.settle(plan, two, ("m",), 0, 0.0)

        (late,) = provisioning.settle(plan, two, ("m",), 1, 300.0)

        assert "n given back and still there" == late.refused
        assert [] == provisioning.settle(plan, two, ("m",), 2, 700.0)

    def test_is_done_again_for_a_node_that_came_back(self):
        cloud = Cloud()
        provisioning = Provisioning(cloud)
        plan = Plan(drain=("n",))
        for batch, names in enumerate((("m", "n"), ("m",), ("m", "n"))):
            provisioning.settle(plan, cluster_of(*names), ("m",), batch, 0.0)

        assert ["n", "n"] == cloud.released


class TestErrors:
    @pytest.mark.parametrize(
        ("plan", "words"),
        [
            (Plan(nodes=4), ["Cloud.acquire raised OSError: no quota left, at ", "2 nodes lack"]),
            (Plan(drain=("n",)), ["Cloud.release raised ValueError: cannot go", "n could be"]),
        ],
    )
    def test_are_refused_decisions_and_tried_again_after_a_while(self, plan, words, caplog):
        cloud = Cloud()
        cloud.fails = True
        provisioning = Provisioning(cloud, patience=PATIENCE)
        two = cluster_of("m", "n")

        (told,) = provisioning.settle(plan, two, ("m",), 0, 0.0)

        assert told.refused
        assert not told.applied
        assert [] == [word for word in words if word not in str(told)]
        assert str(told) in caplog.text
        assert [] == provisioning.settle(plan, two, ("m",), 1, 299.0)
        assert told.refused == provisioning.settle(plan, two, ("m",), 2, 300.0)[0].refused
        cloud.fails = False
        assert [] == provisioning.settle(plan, two, ("m",), 3, 599.0)
        (done,) = provisioning.settle(plan, two, ("m",), 4, 600.0)
        assert done.applied
        assert (2, []) == (cloud.asked, cloud.released) or (0, ["n"]) == (
            cloud.asked,
            cloud.released,
        )


class TestAdvice:
    def test_is_all_there_is_without_a_provisioner(self, caplog):
        provisioning = Provisioning(None)
        plan, three = Plan(nodes=4, drain=("n",)), cluster_of("m", "n", "o")

        told = provisioning.settle(plan, three, ("m", "o"), 0, 0.0)

        assert [
            "2 nodes more should be acquired; nothing here does that",
            "nothing is left on n: give back what you do not need",
        ] == texts(told)
        assert not any(one.applied or one.refused for one in told)
        assert 2 == len([one for one in caplog.records if one.levelno == logging.WARNING])
        assert [] == provisioning.settle(plan, three, ("m", "o"), 1, 9_999.0)


NAMES = [f"node-{number}" for number in range(5)]


@given(st.data())
def test_what_is_asked_for_makes_up_for_what_lacks_and_nothing_in_use_is_given_back(data):
    cloud = Cloud()
    provisioning = Provisioning(cloud)
    outstanding, given_back, before = 0, set(), None
    for batch in range(8):
        there = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
        kept = data.draw(st.lists(st.sampled_from(there), unique=True))
        drain = data.draw(st.lists(st.sampled_from(there), unique=True, max_size=len(there) - 1))
        nodes = data.draw(st.none() | st.integers(1, 6))
        cloud.fails = data.draw(st.integers(0, 4)) == 0
        asked, released = cloud.asked, list(cloud.released)

        provisioning.settle(
            Plan(nodes=nodes, drain=tuple(drain)), cluster_of(*there), kept, batch, 1e3 * batch
        )

        # The same, one number after the other.
        if before is not None:
            outstanding = max(0, outstanding - len({*there} - before))
        before = {*there}
        lacks = 0 if nodes is None else max(0, nodes - len({*there} - {*drain}))
        outstanding = min(outstanding, lacks)
        more = 0 if cloud.fails else lacks - outstanding
        event("asks" if more else "does not ask")
        assert more == cloud.asked - asked
        outstanding += more
        given_back &= {*drain}
        free = {*drain} - {*kept} - given_back
        new = set() if cloud.fails else free
        assert sorted(new) == cloud.released[len(released) :]
        given_back |= new


def test_nodes_are_kept_that_any_layout_uses_and_that_the_next_plan_does_not_drain():
    job, three = Topology.source("s", parallelism=2), cluster_of("m", "n", "o", "p")
    layouts = [
        Layout.of(job, three, Plan(placement={"s": Deployment(homes)}))
        for homes in (("m", "m"), ("m", "n"))
    ]

    drains = Plan(drain=("n", "o"))
    assert {"m", "n", "p"} == kept_by(drains, three, layouts)
    assert {"m", "p"} == kept_by(drains, three, layouts[:1])
    assert {"m", "n", "o", "p"} == kept_by(Plan(), three, layouts)


JOB = (
    Topology.source("s")
    .then(Operator("a", "k", 4, apply=Count(emit=Emit.TUPLES), key_groups=8))
    .then("b", key="l", parallelism=3)
)
TUPLES = {"s": pa.table({"k": list(range(20)), "l": list(range(20))})}


class Hosts(Cloud):
    """A cloud whose nodes come and go with the next look."""

    def __init__(self, *names):
        super().__init__()
        self.cluster = cluster_of(*names)

    def acquire(self, count, total):
        super().acquire(count, total)
        names = [node.name for node in self.cluster.nodes]
        assert total == len(names) + count
        new = [f"new-{number}" for number in range(len(names), total)]
        self.cluster = self.cluster.became(map(Node, names + new))

    def release(self, nodes):
        super().release(nodes)
        self.cluster = self.cluster.became(n for n in self.cluster.nodes if n.name not in nodes)

    def __call__(self):
        return self.cluster


class Wanting(Optimizer):
    """Wants these numbers of nodes, one after the other."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def plan(self, topology, cluster, statistics, current):
        return Plan(nodes=self.numbers.pop(0)) if self.numbers else Plan()


def used(driver):
    return {name for home in driver.coordinator.layout.homes.values() for name in home.nodes}


class TestDuringARun:
    def test_nodes_come_and_go_and_results_stay_exact(self, tmp_path):
        hosts = Hosts("m", "n")
        driver = Driver(
            tmp_path,
            JOB,
            Wanting(None, 3, None, 1),
            cluster=hosts,
            provisioning=Provisioning(hosts),
        )
        seen = []
        for _ in range(7):
            driver.batch(TUPLES)
            seen.append((hosts.asked, tuple(hosts.released), used(driver)))

        # Wanted after batch 0, in force with batch 1, at the end of which it is asked for: it is
        # there with batch 2. One is wanted after batch 2, and two are left with batch 3, at the end
        # of which nothing is on them.
        two, three = {"m", "n"}, {"m", "n", "new-2"}
        assert [(0, (), two), (1, (), two), (1, (), three)] == seen[:3]
        (left,) = seen[3][2]
        assert tuple(sorted(three - {left})) == seen[3][1]
        assert [left] == [node.name for node in driver.coordinator.cluster.nodes]
        assert dict.fromkeys(range(20), 7) == driver.results("a") == driver.results("b")
        totals = driver.coordinator.totals
        assert (2, 0) == (totals.provisioned, totals.refused)
        assert 1 == driver.coordinator.plan.nodes
        assert () == driver.coordinator.plan.drain

    def test_a_node_that_the_next_plan_uses_again_is_kept(self, tmp_path):
        hosts = Hosts("m", "n")
        plans = [Plan(drain=("n",)), Plan(add=(Node("n"),))]
        driver = Driver(tmp_path, JOB, plans, cluster=hosts, provisioning=Provisioning(hosts))

        for _ in range(3):
            driver.batch(TUPLES)

        assert [] == hosts.released

    def test_a_node_that_drains_and_is_given_something_all_the_same_is_kept(self, tmp_path):
        hosts = Hosts("m", "n")
        back = Deployment(("n",) * 4, tuple(group % 4 for group in range(8)))
        plans = [Plan(drain=("n",)), Plan(placement={"a": back})]
        driver = Driver(tmp_path, JOB, plans, cluster=hosts, provisioning=Provisioning(hosts))

        for _ in range(3):
            driver.batch(TUPLES)

        assert [] == hosts.released
        assert {"m", "n"} == used(driver)

    def test_errors_and_advice_never_end_a_job(self, tmp_path):
        hosts = Hosts("m", "n")
        hosts.fails = True
        for name, provisioner in (("fails", hosts), ("advises", None)):
            driver = Driver(
                tmp_path / name,
                JOB,
                Wanting(3, 1),
                cluster=hosts,
                provisioning=Provisioning(provisioner),
            )
            for _ in range(4):
                driver.batch(TUPLES)

            said = [one for one in driver.coordinator.decisions if one.provisions]
            # What could not be asked for need not be cancelled; advice is taken back.
            assert (2 if provisioner else 3) == len(said)
            refused = 2 if provisioner else 0
            assert refused == driver.coordinator.totals.refused
            assert 0 == driver.coordinator.totals.provisioned
            assert 1 == len(used(driver))  # it is left all the same
            assert dict.fromkeys(range(20), 4) == driver.results("a")

    def test_a_node_that_came_in_the_stead_of_one_gets_what_was_placed_on_that(self, tmp_path):
        hosts = Hosts("m", "n")
        on_c = Deployment(("m", "n", "c", "c"), tuple(group % 4 for group in range(8)))
        adding = Plan(add=(Node("c"),), placement={"a": on_c})
        seen = []

        class Insisting(Optimizer):
            """Says the same each time, and at last that the node is to go."""

            def plan(self, topology, cluster, statistics, current):
                seen.append([node.name for node in cluster.working])
                return adding if len(seen) < 6 else Plan(drain=("c",))

        driver = Driver(tmp_path, JOB, Insisting(), cluster=hosts, provisioning=Provisioning(hosts))
        homes = []
        for _ in range(8):
            driver.batch(TUPLES)
            homes.append(driver.coordinator.layout.homes["a"].nodes)

        # It is asked for after batch 0, and is there before batch 1.
        in_its_stead = ("m", "n", "new-2", "new-2")
        assert [on_c.nodes, *[in_its_stead] * 4] == homes[:5]
        assert () == driver.coordinator.plan.add
        assert [["m", "n"], ["m", "n", "c"], *[["m", "n", "new-2"]] * 4] == seen[:6]
        assert 1 == hosts.asked
        fits = [str(one) for one in driver.coordinator.decisions if one.fits]
        assert 1 == len([one for one in fits if "new-2 has come in its stead" in one])
        # "c" means it also where it drains.
        assert ["new-2"] == hosts.released
        assert {"m", "n"} == used(driver)
        assert dict.fromkeys(range(20), 8) == driver.results("a") == driver.results("b")

    def test_a_node_that_came_in_the_stead_of_one_gets_nothing_that_is_not_placed_there(
        self, tmp_path
    ):
        hosts = Hosts("m", "n")
        plans = [Plan(add=(Node("c"),))]
        driver = Driver(tmp_path, JOB, plans, cluster=hosts, provisioning=Provisioning(hosts))
        for _ in range(3):
            driver.batch(TUPLES)

        assert ["m", "n", "new-2"] == [node.name for node in driver.coordinator.cluster.nodes]
        assert {"m", "n"} == used(driver)

    def test_a_node_may_come_while_a_strategy_thinks_of_it_by_the_other_name(self, tmp_path):
        hosts, thought = Hosts("m", "n"), threading.Event()
        on_c = Deployment(("m", "n", "c", "c"), tuple(group % 4 for group in range(8)))

        class Slow(Optimizer):
            def plan(self, topology, cluster, statistics, current):
                if not statistics:
                    return Plan(add=(Node("c"),))
                thought.wait(60.0)
                return Plan(placement={"a": on_c})

        driver = Driver(
            tmp_path,
            JOB,
            Slow(),
            cluster=hosts,
            provisioning=Provisioning(hosts),
            meanwhile=True,
        )
        driver.batch(TUPLES)
        driver.batch(TUPLES)
        thought.set()
        while driver.coordinator.is_thinking:
            time.sleep(0.01)
        driver.batch(TUPLES)
        driver.batch(TUPLES)

        assert ("m", "n", "new-2", "new-2") == driver.coordinator.layout.homes["a"].nodes
        assert 0 == driver.coordinator.totals.refused

    def test_advice_alone_lets_no_node_stand_in(self, tmp_path):
        hosts = Hosts("m", "n")
        on_c = Deployment(("m", "n", "c", "c"), tuple(group % 4 for group in range(8)))
        plan = Plan(add=(Node("c"),), placement={"a": on_c})
        driver = Driver(tmp_path, JOB, [plan], cluster=hosts, provisioning=Provisioning(None))
        driver.batch(TUPLES)
        hosts.cluster = cluster_of("m", "n", "z")
        driver.batch(TUPLES)

        assert (Node("c"),) == driver.coordinator.plan.add
        assert {"m", "n", "c"} <= used(driver)

    def test_a_fresh_driver_goes_on_with_what_the_plan_wants(self, tmp_path):
        hosts = Hosts("m", "n")
        Driver(tmp_path, JOB, Fixed(Plan(nodes=3)), cluster=hosts).batch(TUPLES)

        driver = Driver(tmp_path, JOB, cluster=hosts, provisioning=Provisioning(hosts))
        driver.batch(TUPLES)

        assert (1, 3) == (hosts.asked, hosts.total)
