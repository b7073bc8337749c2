"""Decisions at the coordinator: when it asks for them, what it refuses, what they see."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver, Scripted
from two_counts import TWENTY, job, rows

from grouping.groupings import PartialKey, WorstCase
from grouping.routing_table import RoutingTable
from optimizers import Deployment, Operator, Plan, Topology
from optimizers.statistics import Probe


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
