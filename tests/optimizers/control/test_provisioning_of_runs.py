"""Nodes come and go while a job runs, as plans want them, and its results stay exact."""

import threading
import time

import pyarrow as pa
from any_job import Driver
from clouds import Cloud, cluster_of

from optimizers import Deployment, Fixed, Node, Operator, Optimizer, Plan, Topology
from optimizers.control.provisioning import Provisioning
from optimizers.folds import Count, Emit

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
