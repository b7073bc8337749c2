"""The coordinator: from batch to batch, from plan to plan, from one driver to the next."""

import json
import threading
from dataclasses import replace
from multiprocessing.pool import ThreadPool

import numpy as np
import pyarrow as pa
import pytest
from any_job import CLUSTER, Driver, Scripted

from grouping.groupings import PartialKey, WorstCase
from grouping.routing_table import RoutingTable
from optimizers import Cluster, Deployment, Operator, Plan, PlanError, Topology, TopologyError
from optimizers.control.history import Totals
from optimizers.documents import write
from optimizers.errors import CheckpointError, DeliveryError, InvalidValueError, StateError
from optimizers.folds import Count, Emit, Last
from optimizers.layout import completed
from optimizers.runtime.driver import coordinator
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.local_runner import run_batch
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location
from optimizers.statistics import Probe

TUPLES = Count(emit=Emit.TUPLES)


def job(parallelism=3, grouping=None):
    operator = Operator("a", "k", parallelism, apply=TUPLES, key_groups=16)
    return Topology.source("s").then(operator, grouping=grouping).then("b", key="l", parallelism=2)


def rows(*keys):
    return {"s": pa.table({"k": pa.array(keys, pa.int64()), "l": pa.array(keys, pa.int64())})}


TWENTY = rows(*range(20))


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
        with pytest.raises(TopologyError, match="is no fold"):
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


class TestDecisions:
    def test_are_asked_for_when_an_epoch_is_over(self, tmp_path):
        driver = Driver(tmp_path, job(), [Plan(), Plan(parallelism={"a": 2})], every=3)
        for _ in range(5):
            driver.batch(TWENTY)

        assert [-1, 2] == [decision.after for decision in driver.coordinator.decisions]
        counts = [len(batch.loads("a")) for batch in driver.coordinator.batches]
        assert [3, 3, 3, 2, 2] == counts
        assert [0, 0, 0, 3, 3] == [batch.planned for batch in driver.coordinator.batches]

    @pytest.mark.parametrize(
        ("plan", "why"),
        [
            (Plan(parallelism={"nobody": 2}), "nobody"),
            (Plan(parallelism={"a": 17}), "16 key groups"),
            (Plan(routing={"a": RoutingTable([1], [1], 9)}), "9"),
            (Plan(drain=("node-0", "node-1", "node-2")), "no node"),
            (Plan(placement={"a": Deployment(("node-7",) * 3, (0,) * 16)}), "node-7"),
            (Plan(routing={"a": PartialKey()}), "partial"),
        ],
    )
    def test_that_cannot_be_carried_out_change_nothing(self, tmp_path, plan, why):
        driver = Driver(tmp_path, job(), [Plan(), plan])
        driver.batch(TWENTY)
        before = driver.coordinator.plan

        driver.batch(TWENTY)

        assert before == driver.coordinator.plan
        assert why in driver.coordinator.decisions[1].refused
        assert dict.fromkeys(range(20), 2) == driver.results("a")

    @pytest.mark.parametrize(
        ("keys", "columns", "known"),
        [
            ([1, 2], "k", (["x"], [1])),
            (["x", "y"], "k", ([1], ["x"])),
            ([b"x", b"y"], "k", (["x"], [b"x"])),
            ([1, 2], ("k", "l"), ([(1, 1)], [(1, "x")])),
        ],
    )
    @pytest.mark.parametrize("way", [lambda table: table, WorstCase])
    def test_for_keys_of_another_kind_are_refused(self, tmp_path, keys, columns, known, way):
        made = Topology.source("s").then(Operator("a", columns, 2))
        plans = [Plan(routing={"a": way(RoutingTable(given, [1], 2))}) for given in known]
        driver = Driver(tmp_path, made, [Plan(), *plans])
        table = pa.table({"k": keys, "l": ["x"] * len(keys), "k2": keys})
        for _ in range(3):
            driver.batch({"s": table})

        _, first, second, _ = driver.coordinator.decisions
        assert "routing['a']: operator 'a' keeps state by keys of type" in first.refused
        assert "use one table for each kind" in first.refused
        assert not second.refused
        assert second.applied
        assert [0, 0, 2] == [batch.planned for batch in driver.coordinator.batches]

    def test_are_told_with_what_became_of_them(self, tmp_path):
        together = Deployment(("node-0",) * 3, (0,) * 16), Deployment(("node-0",) * 2, (0,) * 128)
        plan = Plan(placement=dict(zip("ab", together, strict=True)))
        driver = Driver(tmp_path, job(), [Plan(), plan])
        for _ in range(3):
            driver.batch(TWENTY)

        first, moved, settled, last = driver.coordinator.decisions
        assert first.since == moved.before < 1.0 == moved.since == settled.before == last.before
        assert last.since is None

    def test_are_asked_for_early_when_much_less_stays_on_its_node(self, tmp_path):
        left = RoutingTable(range(20), [key % 2 for key in range(20)], 3)
        right = RoutingTable(range(20), [key % 2 for key in range(20)], 2)
        plan = Plan(routing={"a": left, "b": right})
        apart = {"s": pa.table({"k": range(20), "l": [(key + 1) % 20 for key in range(20)]})}
        asked = {}
        for drift in (0.1, None):
            driver = Driver(tmp_path / str(drift), job(), [plan], every=5, drift=drift)
            for tuples in (TWENTY, TWENTY, apart, apart, apart):
                driver.batch(tuples)
            asked[drift] = [decision.after for decision in driver.coordinator.decisions]

        assert {0.1: [-1, 2], None: [-1, 4]} == asked

    def test_a_batch_without_tuples_is_no_standard_for_later_ones(self, tmp_path):
        driver = Driver(tmp_path, job(), every=9, drift=0.1)
        for tuples in (TWENTY, TWENTY.fromkeys("s", TWENTY["s"][:0]), TWENTY):
            driver.batch(tuples)

        local = [batch.locality([("a", "b")]) for batch in driver.coordinator.batches]
        assert local[1] == 1.0 > local[0] + 0.1
        assert [-1] == [decision.after for decision in driver.coordinator.decisions]

    def test_for_what_is_in_force_already_change_nothing(self, tmp_path):
        again = Plan(parallelism={"a": 2}, routing={"a": RoutingTable([1], [1], 2)})
        driver = Driver(tmp_path, job(), [again, again, Plan(parallelism={"a": 2})])
        for _ in range(3):
            driver.batch(TWENTY)

        assert [True, False, False, False] == [
            decision.applied for decision in driver.coordinator.decisions
        ]
        assert [0, 0, 0] == [batch.planned for batch in driver.coordinator.batches]

    def test_see_what_was_observed(self, tmp_path):
        seen = []

        class Watching(Scripted):
            memory = 0.5

            def plan(self, topology, cluster, statistics, current):
                seen.append((topology, statistics, current))
                return super().plan(topology, cluster, statistics, current)

        watching = Watching([Plan(), Plan(parallelism={"a": 2})], {Probe.PAIRS})
        driver = Driver(tmp_path, job(), watching)
        for _ in range(3):
            driver.batch(rows(1, 1, 2))

        assert not seen.pop(0)[1]  # before the first batch nothing is known
        assert [0, 1, 2] == [statistics.epoch for _, statistics, _ in seen]
        assert [3, 2, 2] == [topology.operator("a").parallelism for topology, _, _ in seen]
        hop = ("a", "b")
        assert [2.0, 1.0] == sorted(seen[0][1].pairs[hop].counts.tolist(), reverse=True)
        assert {} == dict(seen[0][1].history)
        # Each epoch counts half of what it did an epoch ago.
        assert [2 * 0.5, 1 * 0.5] == seen[1][1].history[hop].counts.tolist()
        assert [2 * 0.75, 1 * 0.75] == seen[2][1].history[hop].counts.tolist()
        assert seen[2][1].operators["a"].state_bytes > 0

    def test_for_keys_of_three_columns_are_refused_for_no_table_knows_them(self, tmp_path):
        made = Topology.source("s").then(Operator("a", ("k", "l", "k2"), 2))
        plans = [Plan(routing={"a": RoutingTable(given, [1], 2)}) for given in (["x"], [1])]
        driver = Driver(tmp_path, made, [Plan(), *plans])
        for _ in range(3):
            driver.batch({"s": pa.table({"k": [1, 2], "l": ["x", "x"], "k2": [1, 2]})})

        _, first, second, _ = driver.coordinator.decisions
        assert "use one table for each kind" in first.refused
        assert "use one table for each kind" in second.refused

    def test_to_route_by_a_rule_move_keys_to_where_it_says(self, tmp_path):
        table = RoutingTable(np.arange(20), np.arange(20) % 3, 3)
        plans = [Plan(), Plan(routing={"a": WorstCase(table)}), Plan(routing={"a": table}), Plan()]
        driver = Driver(tmp_path, job(), plans)
        taken = [driver.batch(TWENTY).taken_over for _ in range(4)]

        assert dict.fromkeys(range(20), 4) == driver.results("a")
        assert [0, 0] == [taken[0], taken[3]]
        assert taken[1] > 0 < taken[2]


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


class TestTwoDrivers:
    @pytest.mark.parametrize("done", [0, 1])
    def test_that_commit_at_one_moment_do_not_both(self, tmp_path, monkeypatch, done):
        drivers = [Driver(tmp_path, job()) for _ in range(2)]
        drivers[0].coordinator.assign()
        for _ in range(done):
            drivers[0].batch(TWENTY)
            drivers[1] = Driver(tmp_path, job())
        reports = [driver.run(rows(number)) for number, driver in enumerate(drivers)]
        gate = threading.Barrier(2)
        write = Location.write_new

        def together(self, name, content):
            if name.startswith("commits/"):
                gate.wait(30)  # both have looked, and neither has written
            write(self, name, content)

        monkeypatch.setattr(Location, "write_new", together)

        def commit(number):
            driver = drivers[number]
            try:
                driver.coordinator.commit(driver.assigned, reports[number], 1.0)
            except CheckpointError:
                return None
            return number

        with ThreadPool(2) as pool:
            (winner,) = [number for number in pool.map(commit, range(2)) if number is not None]
        found = drivers[0].results("a")
        assert done + 1 == found[winner]
        assert done == found.get(1 - winner, 0)

    def test_of_which_one_writes_state_anew_do_not_lose_it(self, tmp_path):
        driver = Driver(tmp_path, job())
        for number in range(3):
            driver.batch(rows(*range(100 * number, 100 * number + 9 - number)))
        reports = driver.run(rows(7))
        before = driver.results("a")

        driver.checkpoint.compact()  # as a command does that was not to be kept from it
        driver.checkpoint.clean(keep=1)
        with pytest.raises(CheckpointError, match=r"state of batch 2, .* was rewritten since"):
            driver.coordinator.commit(driver.assigned, reports, 1.0)

        cache.forget()
        assert before == driver.results("a")
        again = Driver(tmp_path, job())
        again.batch(rows(7))
        assert before | {7: 2} == again.results("a")

    def test_do_each_batch_once(self, tmp_path):
        one, other = Driver(tmp_path, job()), Driver(tmp_path, job())
        lost = other.run(rows(7))
        one.batch(TWENTY)

        with pytest.raises(CheckpointError, match="another driver works on this checkpoint"):
            other.coordinator.commit(other.assigned, lost, 1.0)

        assert dict.fromkeys(range(20), 1) == one.results("a")
        assert other.coordinator.committed is None

    def test_do_not_act_on_two_plans(self, tmp_path):
        Driver(tmp_path, job()).batch(TWENTY)
        slow = Driver(tmp_path, job())
        reports = slow.run(TWENTY)
        planning = Checkpoint.create_or_open(Location(str(tmp_path)), job())
        planning.save_plan(1, replace(slow.coordinator.plan, parallelism={"a": 2, "b": 2}))
        quick = Driver(tmp_path, job())

        with pytest.raises(CheckpointError, match="that of batch 1 is in force"):
            slow.coordinator.commit(slow.assigned, reports, 1.0)

        quick.batch(TWENTY)
        assert dict.fromkeys(range(20), 2) == quick.results("a")


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
    copies = [replace(report) for report in reports]

    driver.coordinator.commit(driver.assigned, reports, 1.0)

    assert copies == reports
