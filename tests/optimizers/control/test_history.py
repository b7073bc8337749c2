"""What is remembered of a job that goes on for ever: much of the last, sums of all."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Fields, PartialKey, Shuffle, WorstCase
from grouping.routing_table import GroupTable, RoutingTable
from grouping.scheduling.least_work.grouping import LeastWork
from optimizers import Deployment, Node, Note, Plan
from optimizers.control import history as history_module
from optimizers.control.decision import Decision
from optimizers.control.history import History
from optimizers.control.plan_outline import PlanOutline, outline_of
from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.runtime.observe.call_mode import SCHEMA, CallMode, CallTrial
from sketches.cost_sketch import CostSketch

NOTE = Note("Me", "a", "it is better")
TABLE = RoutingTable(["x", "y"], [0, 1], 2)


def table(count, seed=0):
    keys = [f"a-tag-that-was-seen-{seed}-{n}" for n in range(count)]
    return RoutingTable(keys, np.arange(count) % 2, 2)


class TestManyInstances:
    """What is kept of batches is bounded by their instances, too."""

    @staticmethod
    def summary(batch, instances):
        rows = tuple(
            InstanceSummary("count", n, f"node-{n % 9}", 10_000 + n, n, n / 7, 0.5, 0)
            for n in range(instances)
        )
        return BatchSummary(batch, 0, 1.0, rows, {})

    def test_take_few_bytes_each(self):
        summary = self.summary(0, 3000)

        tracemalloc.start()
        copies = [self.summary(n, 3000) for n in range(4)]
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert size / 12_000 < 40
        assert summary.instances == copies[0].instances
        assert 3000 * 10_000 + sum(range(3000)) == sum(summary.loads("count"))

    @given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 8), st.integers(1, 100))
    def test_leave_room_for_fewer_batches(self, sizes, remember, most):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(history_module, "_MOST_INSTANCES", most)
            history = History(remember)
            for batch, size in enumerate(sizes):
                history.add_batch(self.summary(batch, size), tuples=1, plan=Plan())
        kept = [batch.batch for batch in history.batches]
        assert len(kept) == len(history.plans)

        longest = [
            n
            for n in range(1, min(remember, len(sizes)) + 1)
            if n == 1 or sum(sizes[len(sizes) - n :]) <= most
        ]
        expected = max(longest, default=0)
        assert list(range(len(sizes) - expected, len(sizes))) == kept
        assert len(sizes) == history.totals.batches


def test_only_the_last_decision_keeps_its_tables():
    history = History(3)
    plans = [
        Plan(routing={"a": table(5, seed=n)}, batch={"a": n + 1}, notes=(NOTE,)) for n in range(4)
    ]

    for number, plan in enumerate(plans):
        history.add_decision(Decision(number, plan, applied=True))

    told = history.decisions
    assert [1, 2, 3] == [decision.after for decision in told]
    assert plans[-1] is told[-1].plan
    assert [PlanOutline.of(plan) for plan in plans[1:3]] == [said.plan for said in told[:2]]
    assert all(said.notes == (NOTE,) and said.plan.batch["a"] == said.after + 1 for said in told)
    assert "after batch 1: batch, routing changes (Me on a: it is better)" == str(told[0])


def test_only_the_last_of_the_plans_in_force_keeps_its_tables():
    history = History(4)
    plans = [Plan(routing={"a": table(5, seed=n)}) for n in range(3)]
    in_force = [plans[n] for n in (0, 0, 1, 1, 1, 2, 2)]

    for batch, plan in enumerate(in_force):
        history.add_batch(TestManyInstances.summary(batch, 1), tuples=1, plan=plan)

    assert [3, 4, 5, 6] == [batch.batch for batch in history.batches]
    assert [PlanOutline.of(plans[1])] * 2 + [plans[2]] * 2 == history.plans


def test_a_hundred_plans_in_force_take_no_more_memory_than_two():
    def held(plans):
        history = History()
        tracemalloc.start()
        for number in range(plans):
            plan = Plan(routing={"a": table(5_000, seed=number)})
            history.add_batch(TestManyInstances.summary(number, 1), tuples=1, plan=plan)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size, len(history.plans)

    (few, _), (many, kept) = held(2), held(100)

    assert 100 == kept
    assert many < 2 * few  # one of them takes more than a hundred batches with outlines


def test_a_hundred_plans_of_many_keys_take_no_more_memory_than_two():
    def held(plans):
        history = History()
        tracemalloc.start()
        for number in range(plans):
            history.add_decision(Decision(number, Plan(routing={"a": table(5_000, seed=number)})))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size, len(history.decisions)

    (few, _), (many, kept) = held(2), held(100)

    assert 100 == kept
    assert many < 1.5 * few  # one of them takes more than a thousand outlines


def test_decisions_learn_what_became_of_them_in_outline_too():
    history = History()
    for after, before in ((-1, 1.0), (3, 0.25), (6, 0.75)):
        history.add_decision(Decision(after, Plan(routing={"a": TABLE}), before=before))

    assert [0.25, 0.75, None] == [decision.since for decision in history.decisions]


def sketch(*keys):
    made = CostSketch(width=8, depth=2, exact=4)
    made.update(list(keys), [0.5] * len(keys))
    return made


THINGS = [
    Fields(),
    Shuffle(),
    PartialKey(),
    PartialKey(3),
    TABLE,
    RoutingTable(["x", "y"], [1, 0], 2),
    RoutingTable(["x", "z"], [0, 1], 2),
    RoutingTable(["x", "y"], [0, 1], 3),
    GroupTable(["x", "y"], [0, 1], 2),
    GroupTable(["x", "y"], [0, 1], 3),
    WorstCase(TABLE),
    WorstCase(RoutingTable(["x", "y"], [1, 0], 2)),
    LeastWork(),
    LeastWork(costs=sketch("x")),
    LeastWork(costs=sketch("z")),
    Deployment(("n", "m"), (0, 1)),
    Deployment(("n", "m"), (1, 0)),
]


class TestOutlines:
    @pytest.mark.parametrize("one", range(len(THINGS)))
    @pytest.mark.parametrize("other", range(len(THINGS)))
    def test_are_equal_where_things_are(self, one, other):
        assert (THINGS[one] == THINGS[other]) == (
            outline_of(THINGS[one]) == outline_of(THINGS[other])
        )

    @given(st.permutations(range(20)))
    def test_do_not_depend_on_the_order_in_which_a_table_was_written(self, order):
        keys = [f"key {n}" for n in order]

        made = RoutingTable(keys, [n % 3 for n in order], 3)

        assert outline_of(RoutingTable(made.keys, made.parts, 3)) == outline_of(made)
        assert outline_of(RoutingTable(keys[::-1], [n % 3 for n in order[::-1]], 3)) == outline_of(
            made
        )

    def test_are_the_same_in_every_process(self):
        program = (
            "from grouping.routing_table import RoutingTable\n"
            "from optimizers.control.plan_outline import outline_of\n"
            "print(outline_of(RoutingTable(['x', 'y'], [0, 1], 2)))"
        )
        told = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )

        assert str(outline_of(TABLE)) == told.stdout.strip()

    def test_are_short_and_say_what_it_was(self):
        wide = Deployment(("n",) * 99, tuple(range(99)) * 9)

        assert "RoutingTable(2 str keys, instances=2)" == outline_of(TABLE).text
        assert outline_of(wide).text.startswith("Deployment(nodes=('n'")
        assert len(str(outline_of(wide))) < 250

    def test_differ_beyond_what_is_shown(self):
        wide = [Deployment(("n", "m"), (0,) * 999 + (last,)) for last in (0, 1)]

        assert outline_of(wide[0]).text == outline_of(wide[1]).text
        assert outline_of(wide[0]) != outline_of(wide[1])

    def test_tell_a_plan_part_by_part(self):
        plan = Plan(
            parallelism={"a": 2},
            batch={"s": 5},
            routing={"a": TABLE},
            placement={"a": Deployment(("n", "m"), (0, 1))},
            scheduling={("s", "b"): Shuffle()},
            add=(Node("m"),),
            drain=("k",),
            nodes=3,
            notes=(NOTE,),
        )

        told = PlanOutline.of(plan)

        assert outline_of(TABLE) == told.routing["a"]
        assert outline_of(Shuffle()) == told.scheduling["s", "b"]
        assert outline_of(plan.placement["a"]) == told.placement["a"]
        kept = ("parallelism", "batch", "add", "drain", "nodes", "notes")
        assert all(getattr(told, part) == getattr(plan, part) for part in kept)

    def test_decide_something_where_plans_do(self):
        assert PlanOutline.of(Plan(batch={"s": 5}))
        assert not PlanOutline.of(Plan(notes=(NOTE,)))

    def test_are_made_once(self):
        told = Decision(0, Plan(routing={"a": TABLE})).in_outline()

        assert told is told.in_outline()
        assert replace(told, since=0.5).plan is told.plan


def test_a_function_that_is_never_tried_enough_does_not_fill_the_memory():
    trial = CallTrial()
    for number in range(3_000):
        rows = [{"rows": 1, "alone": True, "seconds": float(number)}]
        trial.add(SCHEMA.empty_table().from_pylist(rows, SCHEMA))

    assert CallMode.UNKNOWN is trial.calls.mode
    assert 1_024 == len(trial.alone)
    assert 2_999.0 == trial.alone[-1]
