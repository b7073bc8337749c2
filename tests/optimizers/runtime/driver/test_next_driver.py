"""The driver after one that stopped goes on under the plan in force, also of an earlier version."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver, Scripted
from two_counts import TWENTY, job

from grouping.routing_table import RoutingTable
from optimizers import Cluster, Operator, Plan, Topology
from optimizers.documents import write
from optimizers.errors import CheckpointError
from optimizers.folds import Count, Emit
from optimizers.layout import completed
from optimizers.runtime.driver import coordinator
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location


class TestTheNextDriver:
    def test_goes_on_under_the_plan_in_force(self, tmp_path):
        plan = Plan(parallelism={"a": 5}, batch={"s": 3})
        Driver(tmp_path, job(), [plan]).batch(TWENTY)

        driver = Driver(tmp_path, job(), [Plan(parallelism={"a": 1})])

        assert plan.batch == driver.coordinator.plan.batch
        assert [] == driver.coordinator.decisions
        driver.batch(TWENTY)
        assert 5 == len(driver.coordinator.batches[0].loads("a"))
        assert 0 == driver.coordinator.batches[0].taken_over

    def test_does_as_was_decided_for_the_batch_that_was_cut_off(self, tmp_path):
        first = Driver(tmp_path, job(), [Plan(), Plan(parallelism={"a": 5})])
        first.batch(TWENTY)
        first.run(TWENTY)
        cache.forget()

        driver = Driver(tmp_path, job(), [Plan(parallelism={"a": 2})])
        told = driver.batch(TWENTY)

        assert 5 == len(told.loads("a"))
        assert told.taken_over > 0
        assert dict.fromkeys(range(20), 2) == driver.results("a")
        driver.batch(TWENTY)
        assert 2 == len(driver.coordinator.batches[1].loads("a"))

    def test_asks_nobody_for_the_first_plan_if_there_is_one(self, tmp_path):
        Driver(tmp_path, job(), [Plan(parallelism={"a": 5})]).run(TWENTY)

        driver = Driver(tmp_path, job(), [Plan(parallelism={"a": 2})], every=9)
        told = driver.batch(TWENTY)

        assert [] == driver.coordinator.decisions
        assert 5 == len(told.loads("a"))
        assert [Plan(parallelism={"a": 2})] == driver.optimizer.plans

    def test_is_not_misled_by_one_that_saves_a_plan_while_a_batch_is_committed(
        self, tmp_path, monkeypatch
    ):
        other = Driver(tmp_path, job(), [Plan(), Plan(parallelism={"a": 5})])
        other.batch(TWENTY)
        first = Driver(tmp_path, job())
        reports = first.run(TWENTY)
        write = Location.write_new

        def write_after(self, name, content):
            monkeypatch.setattr(Location, "write_new", write)
            first.coordinator.commit(first.assigned, reports, 1.0)
            write(self, name, content)

        monkeypatch.setattr(Location, "write_new", write_after)
        with pytest.raises(CheckpointError, match="another driver"):
            other.batch(TWENTY)
        first.batch(TWENTY)
        third = Driver(tmp_path, job(), [Plan()])
        told = third.batch(TWENTY)

        assert 3 == len(told.loads("a"))
        assert dict.fromkeys(range(20), 4) == third.results("a")

    def test_finds_all_keys_though_the_job_is_declared_with_another_table(self, tmp_path):
        one, other = (RoutingTable(np.arange(20), (np.arange(20) + n) % 3, 3) for n in (0, 1))
        Driver(tmp_path, job(3, one)).batch(TWENTY)

        for grouping in (other, None):
            Driver(tmp_path, job(3, grouping)).batch(TWENTY)

        assert dict.fromkeys(range(20), 3) == Driver(tmp_path, job(3)).results("a")

    def test_may_have_other_machines(self, tmp_path):
        Driver(tmp_path, job()).batch(TWENTY)
        checkpoint = Checkpoint.create_or_open(Location(str(tmp_path)), job())
        alone = Coordinator(job(), Cluster.uniform(1), Scripted([]), checkpoint)
        assigned = alone.assign()

        alone.commit(assigned, run_batch(assigned.work, assigned.ticket, {}), 1.0)

        assert {"node-0"} == {instance.node for instance in alone.batches[0].instances}

    def test_looks_for_a_plan_again_if_it_could_not_be_read(self, tmp_path, monkeypatch):
        first = Driver(tmp_path, job(), [Plan(), Plan(parallelism={"a": 5})])
        first.batch(TWENTY)
        first.coordinator.assign()
        driver = Driver(tmp_path, job())

        def fail(self, batch):
            raise CheckpointError("cannot read")

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "plan_of", fail)
            with pytest.raises(CheckpointError, match="cannot read"):
                driver.coordinator.assign()

        assert 5 == len(driver.batch(TWENTY).loads("a"))

    def test_cannot_go_on_without_the_plan_in_force(self, tmp_path):
        driver = Driver(tmp_path, job())
        driver.batch(TWENTY)
        driver.checkpoint.location.delete("plans/0000000000.json")

        with pytest.raises(CheckpointError, match="plan of batch 0 is in force"):
            Driver(tmp_path, job())


def as_once_written(monkeypatch):
    """Let plans be saved as an earlier version did: no placement, and tables that adopt."""

    def without_placement(plan, topology, cluster):
        whole = completed(plan, topology, cluster)
        keyed = {operator.name for operator in topology.operators if operator.keyed}
        known = {**{name: whole.parallelism[name] for name in keyed}, **plan.parallelism}
        return replace(whole, parallelism=known, placement=plan.placement)

    def with_adopting_tables(plan):
        written = json.loads(whole_json(plan))
        for name in written.pop("adopt", ()):
            written["routing"][name]["adopts"] = True
        del written["penstock"], written["version"]
        return write("plan", written)

    whole_json = Plan.to_json
    monkeypatch.setattr(coordinator, "completed", without_placement)
    monkeypatch.setattr(Plan, "to_json", with_adopting_tables)


class TestPlansOfEarlierVersions:
    TABLE = RoutingTable(range(20), [key % 5 for key in range(20)], 5)
    PLANS = (
        Plan(),
        Plan(parallelism={"a": 5}),
        Plan(parallelism={"a": 5}, routing={"a": TABLE}, adopt=("a",)),
    )

    @pytest.mark.parametrize("plan", PLANS, ids=repr)
    @pytest.mark.parametrize("nodes", [1, 3, 4])
    def test_state_is_where_it_was_on_whatever_machines(self, tmp_path, monkeypatch, plan, nodes):
        with monkeypatch.context() as patched:
            as_once_written(patched)
            first = Driver(tmp_path, job(3), [plan])
            first.batch(TWENTY)
            owners = first.coordinator.layout.owners("a")
            assert not first.coordinator.plan.placement
        cache.forget()

        driver = Driver(tmp_path, job(3), cluster=Cluster.uniform(nodes))
        told = driver.batch(TWENTY)

        assert (0, 0) == (told.taken_over, told.planned)
        assert owners == driver.coordinator.layout.owners("a")
        assert plan.adopt == driver.coordinator.plan.adopt
        assert {"s", "a", "b"} == {*driver.coordinator.plan.placement}
        assert dict.fromkeys(range(20), 2) == driver.results("a") == driver.results("b")

    def test_the_fewest_groups_move_when_other_numbers_are_declared(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patched:
            as_once_written(patched)
            first = Driver(tmp_path, job(3))
            first.batch(TWENTY)
            before = first.coordinator.layout.homes["a"].groups
        cache.forget()

        driver = Driver(tmp_path, job(4))
        driver.batch(TWENTY)

        after = driver.coordinator.layout.homes["a"].groups
        assert 4 == sum(one != other for one, other in zip(before, after, strict=True))
        assert dict.fromkeys(range(20), 2) == driver.results("a") == driver.results("b")


class TestACheckpointOfAnEarlierVersion:
    """Written by the version before `GroupTable`: a table of that time names 20 of the 24 keys."""

    FILES = Path(__file__).with_name("before_group_tables.zip")
    ROWS: ClassVar = {"s": pa.table({"k": list(range(24)), "l": list(range(24))})}

    @staticmethod
    def job(instances):
        counted = Count(emit=Emit.TUPLES)
        made = Topology.source("s").then(Operator("a", "k", instances, apply=counted, key_groups=8))
        return made.then(Operator("b", "l", 3, apply=counted, key_groups=8))

    @pytest.fixture
    def folder(self, tmp_path):
        with zipfile.ZipFile(self.FILES) as files:
            files.extractall(tmp_path)
        return tmp_path

    def test_goes_on_with_the_owners_that_its_table_names(self, folder):
        driver = Driver(folder, self.job(3), cluster=Cluster.uniform(3))
        told = driver.batch(self.ROWS)

        owners = driver.coordinator.layout.owners("a")
        assert [key % 3 for key in range(20)] == owners.assign(range(20)).tolist()
        assert (3, 0) == (told.batch, told.taken_over)
        assert dict.fromkeys(range(24), 4) == driver.results("a") == driver.results("b")

    @pytest.mark.parametrize("declared", [1, 2, 5])
    def test_goes_on_with_another_number_of_instances(self, folder, declared):
        driver = Driver(folder, self.job(declared), cluster=Cluster.uniform(3))
        for _ in range(2):
            driver.batch(self.ROWS)

        assert declared == len(driver.coordinator.layout.homes["a"].nodes)
        assert dict.fromkeys(range(24), 5) == driver.results("a") == driver.results("b")
