"""A job that starts again with other numbers of instances."""

import pytest
from any_job import Driver
from two_counts import TWENTY, job

from grouping.groupings import PartialKey
from grouping.routing_table import RoutingTable
from optimizers import Deployment, Operator, Plan, PlanError, Topology
from optimizers.errors import CheckpointError
from optimizers.folds import Last
from optimizers.runtime.state import cache


class TestStartingAgainWithOtherNumbers:
    """The parallelism that the job declares acts in the first batch, whatever was planned."""

    @pytest.mark.parametrize("count", [1, 2, 5, 16])
    def test_of_instances_acts_at_once_and_finds_all_keys(self, tmp_path, count):
        Driver(tmp_path, job(3)).batch(TWENTY)
        cache.forget()

        driver = Driver(tmp_path, job(count))
        told = driver.batch(TWENTY)

        assert count == len(told.loads("a"))
        assert told.taken_over > 0
        assert dict.fromkeys(range(20), 2) == driver.results("a") == driver.results("b")
        assert 2 == len(told.loads("b"))
        again = Driver(tmp_path, job(count))
        assert 0 == again.batch(TWENTY).taken_over
        assert 1 == again.coordinator.batches[0].planned

    def test_leaves_alone_what_an_optimizer_has_decided_for_others(self, tmp_path):
        decided = Plan(parallelism={"a": 5, "b": 4}, batch={"s": 9})
        Driver(tmp_path, job(3), [decided]).batch(TWENTY)

        driver = Driver(tmp_path, job(8))  # b is declared as before
        told = driver.batch(TWENTY)

        assert (8, 4) == (len(told.loads("a")), len(told.loads("b")))
        assert {"s": 9} == driver.coordinator.plan.batch
        assert dict.fromkeys(range(20), 2) == driver.results("a") == driver.results("b")

    def test_leaves_all_alone_where_nothing_is_declared_otherwise(self, tmp_path):
        Driver(tmp_path, job(3), [Plan(parallelism={"a": 5})]).batch(TWENTY)

        told = Driver(tmp_path, job(3)).batch(TWENTY)

        assert (5, 0) == (len(told.loads("a")), told.planned)

    def test_lets_a_later_plan_decide_again(self, tmp_path):
        Driver(tmp_path, job(3)).batch(TWENTY)

        driver = Driver(tmp_path, job(8), [Plan(), Plan(parallelism={"a": 2})], every=2)
        told = [len(driver.batch(TWENTY).loads("a")) for _ in range(5)]

        assert [8, 8, 8, 8, 2] == told
        assert dict.fromkeys(range(20), 6) == driver.results("a")

    def test_drops_tables_for_other_numbers_and_moves_the_fewest_groups(self, tmp_path):
        table = RoutingTable(range(20), [key % 3 for key in range(20)], 3)
        homes = Deployment(("node-0", "node-1", "node-2"), tuple(g % 3 for g in range(16)))
        plan = Plan(routing={"a": table}, placement={"a": homes})
        Driver(tmp_path, job(3), [plan]).batch(TWENTY)
        cache.forget()

        driver = Driver(tmp_path, job(4))
        driver.batch(TWENTY)

        assert not isinstance(driver.coordinator.plan.routing["a"], RoutingTable)
        later = driver.coordinator.plan.placement["a"]
        assert ("node-0", "node-1", "node-2", "node-0") == later.nodes
        assert 4 == sum(one != other for one, other in zip(homes.groups, later.groups, strict=True))
        assert dict.fromkeys(range(20), 2) == driver.results("a")

    def test_replaces_a_plan_under_which_the_job_could_not_be_run(self, tmp_path):
        first = Driver(tmp_path, job(3), [Plan(), Plan(parallelism={"a": 1, "b": 3})])
        first.batch(TWENTY)
        reports = first.run(TWENTY)  # and say it had not enough memory for it
        cache.forget()

        driver = Driver(tmp_path, job(9))
        lost = driver.run(TWENTY)
        with pytest.raises(CheckpointError, match="batch 1, but that of batch 1, revision 1 is in"):
            first.coordinator.commit(first.assigned, reports, 1.0)
        told = driver.coordinator.commit(driver.assigned, lost, 1.0)

        assert (9, 3) == (len(told.loads("a")), len(told.loads("b")))
        assert dict.fromkeys(range(20), 2) == driver.results("a") == driver.results("b")
        assert told.batch == Driver(tmp_path, job(9)).batch(TWENTY).planned

    def test_replaces_the_very_first_plan(self, tmp_path):
        Driver(tmp_path, job(3), [Plan(parallelism={"b": 4})]).run(TWENTY)

        driver = Driver(tmp_path, job(7), [Plan(parallelism={"a": 1})])
        told = driver.batch(TWENTY)

        assert (7, 4) == (len(told.loads("a")), len(told.loads("b")))
        assert dict.fromkeys(range(20), 1) == driver.results("a")

    def test_acts_on_operators_without_a_key_and_on_sources(self, tmp_path):
        def declared(number):
            start = Topology.source("s", parallelism=number)
            return start.then("plain", parallelism=number).then("a", key="k", parallelism=2)

        Driver(tmp_path, declared(2), [Plan(parallelism={"plain": 3})]).batch(TWENTY)
        driver = Driver(tmp_path, declared(4))
        driver.batch(TWENTY)

        assert 4 == driver.coordinator.layout.topology.operator("plain").parallelism
        assert dict.fromkeys(range(20), 2) == driver.results("a")

    def test_is_refused_where_parts_of_keys_could_not_be_put_together(self, tmp_path):
        def declared(number):
            last = Operator("a", "k", number, apply=Last("l"), partial=True)
            return Topology.source("s").then(last, grouping=PartialKey())

        Driver(tmp_path, declared(3)).batch(TWENTY)

        with pytest.raises(PlanError, match=r"declares other numbers .*\['a'\]=2 is less"):
            Driver(tmp_path, declared(2)).batch(TWENTY)
        assert 5 == len(Driver(tmp_path, declared(5)).batch(TWENTY).loads("a"))
