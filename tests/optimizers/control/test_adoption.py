"""Keys that no table knows go by hash in their first batch, and live beside their partners then."""

from collections import Counter
from dataclasses import replace

import any_job
import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from hypothesis import given, settings
from hypothesis import strategies as st

from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import GroupTable, RoutingTable
from optimizers import Deployment, Operator, Plan, Topology
from optimizers.control import adoption
from optimizers.control.adoption import Adoption, adopting_hops
from optimizers.control.summary import BatchSummary
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.statistics import Probe

NODES = any_job.NODES
TUPLES = Count(emit=Emit.TUPLES)


def job(left=3, right=3):
    made = Topology.source("s").then(Operator("a", "k", left, apply=TUPLES))
    return made.then(Operator("b", "l", right, apply=TUPLES))


def tables(known=30, left=3, right=3):
    """Keys from 0 on, each with the same number on both sides, by turns on each node."""
    return {
        name: RoutingTable(range(known), [key % count for key in range(known)], count)
        for name, count in (("a", left), ("b", right))
    }


def group_tables(known=30, left=3, right=3):
    """The same keys in groups that are on these instances, if groups are dealt out in ranges."""
    return {
        name: GroupTable(
            range(known), [-(-(key % count) * 128 // count) for key in range(known)], 128
        )
        for name, count in (("a", left), ("b", right))
    }


def adopting(routing):
    return Plan(routing=routing, adopt=tuple(routing))


SORTS = pytest.mark.parametrize("tables_of", [tables, group_tables])


def rows(pairs):
    left, right = zip(*pairs, strict=True)
    return {"s": pa.table({"k": left, "l": right})}


KNOWN = [(key, key) for key in range(30)] * 3


def homes(driver, operator, keys):
    layout = driver.coordinator.assign().work.layout
    numbers = layout.owners(operator).assign(keys)
    return [layout.homes[operator].nodes[number] for number in numbers.tolist()]


def knows(driver, operator):
    table = driver.coordinator.assign().plan.routing[operator]
    return set(table.keys.tolist())


def check(driver, batches):
    """Compare what is counted with what came."""
    for operator, place in (("a", 0), ("b", 1)):
        expected = Counter(pair[place] for batch in batches for pair in batch)
        assert dict(expected) == driver.results(operator)


@SORTS
def test_a_new_key_lives_beside_its_partners_from_its_second_batch_on(tmp_path, tables_of):
    driver = Driver(tmp_path, job(), [adopting(tables_of())], every=99)
    new = [(key, key % 30) for key in range(100, 130)] + [
        (key % 30, key) for key in range(200, 230)
    ]
    batches = [[*KNOWN, *new]] * 3

    seen = [driver.batch(rows(batch)) for batch in batches]

    assert [("a", "b")] == adopting_hops(job(), driver.coordinator.plan)
    local = [batch.locality([("a", "b")]) for batch in seen]
    assert local[0] < 0.8
    assert [1.0, 1.0] == local[1:]
    assert 0 < seen[1].taken_over <= 60
    assert 0 == seen[2].taken_over
    assert {*range(30), *range(100, 130)} == knows(driver, "a")
    check(driver, batches)


def test_it_stays_there_though_it_comes_with_others_later(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)
    batches = [[*KNOWN, (100, 0), (100, 3)], [*KNOWN, *[(100, 1)] * 9], KNOWN]
    owners = []
    for batch in batches:
        driver.batch(rows(batch))
        owners.append(homes(driver, "a", [100, 0]))

    assert [["node-0", "node-0"]] * 3 == owners
    check(driver, batches)


@pytest.mark.parametrize("adopts", [True, False])
def test_only_tables_that_adopt_get_to_know_keys(tmp_path, adopts):
    driver = Driver(
        tmp_path, job(), [adopting(tables()) if adopts else Plan(routing=tables())], every=99
    )
    batches = [[*KNOWN, *[(100, 1)] * 9]] * 2
    for batch in batches:
        driver.batch(rows(batch))

    assert adopts is (100 in knows(driver, "a"))
    planned = [batch.planned for batch in driver.coordinator.batches]
    assert ([0, 1] if adopts else [0, 0]) == planned
    check(driver, batches)


def test_both_ends_of_a_hop_have_to_adopt(tmp_path):
    driver = Driver(tmp_path, job(), [Plan(routing=tables(), adopt=("a",))], every=99)
    driver.batch(rows([*KNOWN, *[(100, 1)] * 9]))

    assert 100 not in knows(driver, "a")


def test_a_few_new_keys_are_not_worth_a_plan(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)
    driver.batch(rows([*KNOWN * 20, (100, 0)]))

    assert 100 not in knows(driver, "a")
    driver.batch(rows([*KNOWN, (100, 0)]))
    assert 100 in knows(driver, "a")


def test_new_keys_that_come_with_each_other_only_meet_as_well(tmp_path):
    by_group = {name: Deployment(NODES, (2,) * 128) for name in "ab"}
    plan = replace(adopting(tables()), placement=by_group)
    driver = Driver(tmp_path, job(), [plan], every=99)
    strangers = [(key, 2 * key) for key in range(100, 110)]
    batches = [[*KNOWN * 10, *strangers]] * 2
    for batch in batches:
        driver.batch(rows(batch))

    left, right = zip(*strangers, strict=True)
    # The first of the two stay where they are, for nothing known calls them elsewhere.
    assert ["node-2"] * 10 == homes(driver, "a", list(left)) == homes(driver, "b", list(right))
    assert {*left} < knows(driver, "a")
    check(driver, batches)


def test_a_node_with_several_instances_shares_new_keys_among_them(tmp_path):
    nodes = ("node-0", "node-0", "node-1", "node-1")
    placement = {
        "a": Deployment(nodes, tuple(g % 4 for g in range(128))),
        "b": Deployment(("node-1", "node-0"), tuple(g % 2 for g in range(128))),
    }
    routing = {
        "a": RoutingTable(range(30), [key % 4 for key in range(30)], 4),
        "b": RoutingTable(range(30), [int(key % 4 < 2) for key in range(30)], 2),
    }
    driver = Driver(
        tmp_path, job(4, 2), [replace(adopting(routing), placement=placement)], every=99
    )
    new = [(key, key % 30) for key in range(100, 160)]
    batches = [[*KNOWN, *new]] * 2

    first, second = (driver.batch(rows(batch)) for batch in batches)

    assert first.locality([("a", "b")]) < 0.9
    assert second.locality([("a", "b")]) > 0.95  # but for a few that one node had no room for
    owners = driver.coordinator.layout.owners("a").assign(list(range(100, 160)))
    assert min(np.bincount(owners, minlength=4)) >= 10
    check(driver, batches)


def test_the_epoch_goes_on_when_keys_are_adopted(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=4)
    for start in range(100, 500, 100):
        driver.batch(rows([*KNOWN, *[(start + n, n) for n in range(9)]]))

    assert [-1, 3] == [decision.after for decision in driver.coordinator.decisions]
    assert [0, 1, 2, 3] == [batch.planned for batch in driver.coordinator.batches]


def test_what_the_optimizer_decides_goes_first(tmp_path):
    other = {"a": RoutingTable([0], [1], 3), "b": RoutingTable([0], [1], 3)}
    driver = Driver(tmp_path, job(), [adopting(tables()), Plan(routing=other)])
    driver.batch(rows([*KNOWN, *[(100, 1)] * 9]))

    assert other == dict(driver.coordinator.assign().plan.routing)


def test_another_driver_goes_by_what_was_adopted(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)
    batches = [[*KNOWN, *[(100, 1)] * 9]] * 3
    driver.batch(rows(batches[0]))
    driver.run(rows(batches[1]))  # whose plan is written down, and which then dies

    again = Driver(tmp_path, job(), every=99)
    for batch in batches[1:]:
        again.batch(rows(batch))

    assert 100 in knows(again, "a")
    assert [1, 1] == [batch.planned for batch in again.coordinator.batches]
    check(again, batches)


def test_pairs_are_observed_for_it_though_nobody_asks(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)

    assert {Probe.PAIRS} == driver.coordinator.assign().work.settings.observes
    plain = Driver(tmp_path / "plain", job(), [Plan(routing=tables())])
    assert not plain.coordinator.assign().work.settings.observes


def test_keys_go_elsewhere_where_their_partners_have_no_room(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)
    new = [(key, 0) for key in range(100, 400)]
    driver.batch(rows([*KNOWN, *new]))

    loads = Counter(homes(driver, "a", list(range(100, 400))))
    assert max(loads.values()) <= 0.4 * 300  # each has room for 1.03 times a third of all


def test_there_is_no_room_where_much_came_in_batches_before(tmp_path):
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)
    driver.batch(rows([*KNOWN, *[(0, 0)] * 900]))
    driver.batch(rows([(100, 0), (1, 1)]))

    assert ["node-0"] != homes(driver, "a", [100])


def test_what_the_optimizer_decides_later_begins_an_epoch_of_its_own(tmp_path):
    wider = Plan(parallelism={"a": 5})
    driver = Driver(tmp_path, job(), [adopting(tables()), wider], every=2)
    batches = [[*KNOWN, *[(100 + n, 1) for n in range(9)]]] * 4
    for batch in batches:
        driver.batch(rows(batch))

    assert [3, 3, 5, 5] == [len(batch.loads("a")) for batch in driver.coordinator.batches]
    assert [0, 1, 2, 2] == [batch.planned for batch in driver.coordinator.batches]
    check(driver, batches)


def test_the_larger_the_tables_the_more_batches_from_one_plan_to_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(adoption, "_KEYS_A_BATCH", 40)
    driver = Driver(tmp_path, job(), [adopting(tables())], every=99)
    batches = [[*KNOWN, *[(start + n, 1) for n in range(9)]] for start in range(100, 700, 100)]
    for batch in batches:
        driver.batch(rows(batch))

    # Sixty keys and a few more take two batches each time.
    assert [0, 0, 2, 2, 4, 4] == [batch.planned for batch in driver.coordinator.batches]
    check(driver, batches)


def test_three_operators_in_a_row_adopt_along_the_row(tmp_path):
    made = job().then(Operator("c", "m", 3, apply=TUPLES))
    routing = {**tables(), "c": tables()["a"]}
    driver = Driver(tmp_path, made, [adopting(routing)], every=99)
    columns = zip(
        *[(n, n, n) for n in range(30)] * 3,
        *[(n, 100 + n, 200 + n) for n in range(30)],
        strict=True,
    )
    batch = {"s": pa.table(dict(zip("klm", columns, strict=True)))}
    driver.batch(batch)
    seen = driver.batch(batch)

    assert 1.0 == seen.locality([("a", "b"), ("b", "c")])


KEYS = st.integers(0, 60)
BATCHES = st.lists(st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=60), min_size=2, max_size=5)


@SORTS
@settings(max_examples=15)
@given(
    BATCHES, st.integers(0, 40), st.tuples(st.integers(1, 5), st.integers(1, 5)), st.integers(1, 9)
)
def test_whatever_comes_each_key_has_one_owner_who_has_all_of_it(
    tables_of, batches, known, sizes, looked_at
):
    with any_job.temporary() as folder:
        plan = adopting(tables_of(known, *sizes))
        driver = Driver(folder, job(*sizes), [plan], every=99, looked_at=looked_at)
        before = {}
        for batch in batches:
            driver.batch(rows(batch))
            routing = driver.coordinator.assign().plan.routing
            for name in "ab":
                table = routing[name]
                now = dict(zip(table.keys.tolist(), table.parts.tolist(), strict=True))
                assert before.get(name, {}).items() <= now.items()  # once given, it stays
                before[name] = now
        check(driver, batches)


def test_nothing_is_adopted_where_nothing_was_seen():
    plan = adopting(tables())

    layout, nothing = Layout.of(job(), any_job.CLUSTER, plan), BatchSummary(0, 0, 1.0, (), {})

    assert {} == Adoption().after(plan, layout, lambda _: KeyPairs([], [], []), nothing)
