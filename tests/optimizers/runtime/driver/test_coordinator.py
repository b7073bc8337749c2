"""The coordinator: one driver, from batch to batch."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import CLUSTER, Driver, Scripted
from two_counts import TUPLES, TWENTY, job, rows

from optimizers import Operator, Plan, Topology, TopologyError
from optimizers.control.history import Totals
from optimizers.errors import CheckpointError, DeliveryError, InvalidValueError, StateError
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location


class TestOneDriver:
    def test_says_the_same_until_the_batch_is_committed(self, tmp_path):
        driver = Driver(tmp_path, job(), [Plan(), Plan(parallelism={"a": 2})])
        driver.batch(TWENTY)

        one, other = driver.coordinator.assign(), driver.coordinator.assign()

        assert one.work is other.work
        assert one == other
        assert (1, True, 1) == (one.ticket.batch, one.ticket.first, one.planned)
        driver.batch(TWENTY)
        later = driver.coordinator.assign()
        assert later.work is one.work
        assert (2, False, 1) == (later.ticket.batch, later.ticket.first, later.planned)

    def test_says_the_next_plan_without_writing_it_down(self, tmp_path):
        driver = Driver(tmp_path, job(), [Plan(batch={"s": 7}), Plan(batch={"s": 9})])

        assert {"s": 7} == driver.coordinator.next_plan.batch
        assert driver.checkpoint.plan_of(0) is None
        driver.batch(TWENTY)
        assert {"s": 9} == driver.coordinator.next_plan.batch
        assert driver.checkpoint.plan_of(1).batch == 0

        driver.run(TWENTY)  # the plan of batch 1 is written down, and the driver dies
        later = Driver(tmp_path, job())
        assert {"s": 9} == later.coordinator.next_plan.batch
        assert later.coordinator.next_plan == later.coordinator.assign().plan
        assert later.coordinator.next_plan == later.coordinator.plan

    def test_does_each_batch_once_and_in_order(self, tmp_path):
        driver = Driver(tmp_path, job())
        reports = driver.run(TWENTY)
        driver.coordinator.commit(driver.assigned, reports, 1.0)

        with pytest.raises(CheckpointError, match="batch 0 was to be committed, but 1 is next"):
            driver.coordinator.commit(driver.assigned, reports, 1.0)

        assert 1 == driver.coordinator.next_batch
        assert 0 == driver.coordinator.committed.batch

    def test_counts_what_came_in(self, tmp_path):
        driver = Driver(tmp_path, job().also("t"))

        driver.batch({**TWENTY, "t": pa.table({"x": [1, 2]})})

        assert 22 == driver.checkpoint.last_commit().tuples

    def test_begins_with_the_plan_it_is_given(self, tmp_path):
        driver = Driver(tmp_path, job(), [Plan(parallelism={"a": 5})])

        driver.batch(TWENTY)

        assert 5 == len(driver.checkpoint.last_commit().state["a"])
        assert 5 == driver.coordinator.layout.topology.operator("a").parallelism

    def test_leaves_all_as_it_was_when_a_batch_is_refused(self, tmp_path):
        driver = Driver(tmp_path, job())
        driver.batch(TWENTY)
        before = driver.checkpoint.last_commit()
        reports = driver.run(TWENTY)

        with pytest.raises(DeliveryError):
            driver.coordinator.commit(driver.assigned, reports[1:], 1.0)

        assert before == driver.checkpoint.last_commit() == driver.coordinator.committed
        assert 1 == len(driver.coordinator.batches)
        driver.coordinator.commit(driver.assigned, reports, 1.0)
        assert dict.fromkeys(range(20), 2) == driver.results("a")

    def test_is_done_with_a_batch_though_nothing_could_be_cleaned_up(self, tmp_path, monkeypatch):
        driver = Driver(tmp_path, job())
        for _ in range(15):
            driver.batch(rows(1))

        def fail(self, keep):
            raise CheckpointError("the disk is tired")

        monkeypatch.setattr(Checkpoint, "clean", fail)
        with pytest.raises(CheckpointError, match="tired"):
            driver.batch(rows(1))
        driver.batch(rows(1))

        assert 17 == len(driver.coordinator.batches) == driver.results("a")[1]
        assert 18 == len(driver.coordinator.decisions)

    def test_remembers_the_last_batches_and_sums_of_all(self, tmp_path):
        script = [Plan(), Plan(parallelism={"a": 2}), Plan(parallelism={"a": 99}), Plan()]
        driver = Driver(tmp_path, job(), script, remember=2)
        told = [driver.batch(TWENTY) for _ in range(5)]

        found = driver.coordinator
        assert told[-2:] == found.batches
        assert [3, 4] == [decision.after for decision in found.decisions]
        moved = sum(batch.taken_over for batch in told)
        assert moved > 0
        assert Totals(5, 100, 10.0, moved, decisions=6, applied=1, refused=1) == found.totals

    @pytest.mark.parametrize("remember", [1, 100])
    def test_knows_what_was_local_in_an_epoch_longer_than_it_remembers(self, tmp_path, remember):
        driver = Driver(tmp_path, job(), every=3, remember=remember)
        share = [driver.batch(rows(*range(n, 20))).locality([("a", "b")]) for n in (0, 9, 16)]

        assert len(set(share)) > 1
        sizes = 20, 11, 4
        expected = sum(s * n for s, n in zip(share, sizes, strict=True)) / sum(sizes)
        assert np.isclose(expected, driver.coordinator.decisions[-1].before)

    def test_removes_what_nobody_needs(self, tmp_path):
        driver = Driver(tmp_path, job())
        for _ in range(16):
            driver.batch(rows(1))

        assert (14, 15) == driver.checkpoint.batches()

    def test_is_told_a_number_that_means_something(self, tmp_path):
        checkpoint = Checkpoint.create_or_open(Location(str(tmp_path)), job())

        with pytest.raises(InvalidValueError, match="keep"):
            Coordinator(job(), CLUSTER, Scripted([]), checkpoint, keep=0)

    def test_refuses_work_that_cannot_be_done(self, tmp_path):
        keyed_source = Topology((Operator("a", "k"),))

        with pytest.raises(TopologyError, match="source with a key"):
            Driver(tmp_path / "a", keyed_source)
        with pytest.raises(TopologyError, match="is not a fold"):
            Driver(tmp_path / "b", Topology.source("s").then("a", key="k", apply=len))
        with pytest.raises(TopologyError, match="no key to keep the state"):
            Driver(tmp_path / "c", Topology.source("s", apply=TUPLES))

    def test_commits_the_same_whatever_the_order_of_reports(self, tmp_path):
        outputs = []
        for name, step in (("x", 1), ("y", -1)):
            driver = Driver(tmp_path / name, Topology.source("s", parallelism=3))
            reports = driver.run({"s": [pa.table({"k": [n]}) for n in range(3)]})
            driver.coordinator.commit(driver.assigned, reports[::step], 1.0)
            files = driver.checkpoint.last_commit().outputs
            outputs.append([file.path.split("-")[1] for file in files])

        assert ["0", "1", "2"] == outputs[0] == outputs[1]


def test_keys_lie_by_the_seed_of_the_checkpoint(tmp_path):
    keys = range(200)
    placed = {}
    for seed in (1, 2):
        here = Location(str(tmp_path / str(seed)))
        Checkpoint.create_or_open(here, job(), seed=seed)
        driver = Driver(here.root, job())
        placed[seed] = driver.batch(rows(*keys)).loads("a")
        assert seed == driver.coordinator.layout.topology.seed
        cache.forget()
        again = Driver(here.root, job(5))  # where keys lie is known to the next driver, too
        again.batch(rows(*keys))
        assert dict.fromkeys(keys, 2) == again.results("a")

    assert placed[1] != placed[2]


def test_state_of_two_types_is_refused_with_the_columns(tmp_path):
    driver = Driver(tmp_path, Topology.source("s").then("a", key="k", parallelism=16))

    with pytest.raises(
        StateError,
        match=r"instance \d+ of operator 'a' would keep place uint64, key_0 (int64|large_string)",
    ):
        driver.batch({"s": [pa.table({"k": [1]}), pa.table({"k": ["z"]})]})

    assert driver.checkpoint.last_commit() is None


def test_reports_of_a_batch_are_not_changed_by_committing_them(tmp_path):
    driver = Driver(tmp_path, job())
    reports = driver.run(TWENTY)
    copies = [report.to_parcel(0).body for report in reports]

    driver.coordinator.commit(driver.assigned, reports, 1.0)

    assert copies == [report.to_parcel(0).body for report in reports]
