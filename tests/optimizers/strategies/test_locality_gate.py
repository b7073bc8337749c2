"""Locality learns what lasts and proposes what is worth its moves, judged by held-out pairs."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from locality_jobs import HOP, NODES, ask, correlated, figures, job, locality, random_pairs, run

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import partition_as_published
from optimizers import Cluster, EdgeStatistics, OperatorStatistics, Plan, Statistics
from optimizers.layout import Layout
from optimizers.strategies.locality import Locality
from optimizers.testing import World
from sketches import SpaceSaving


def test_pairs_without_correlation_are_left_alone_with_a_note():
    decisions, plan = run(Locality(), [random_pairs(epoch) for epoch in range(4)])

    assert [False] * 4 == [bool(decision) for decision in decisions]
    assert not plan.routing
    for decision in decisions:
        (note,) = decision.notes
        assert ("Locality", "a and b") == (note.by, note.about)
        assert note.text in {"nothing to gain", "not worth what would have to move"}


def test_where_nothing_can_be_gained_no_routing_is_worked_out(monkeypatch):
    """A short epoch teaches less than the owners of now know."""
    learned = ask(Locality(), correlated(0), history={HOP: correlated(1)})
    divided = []
    divide = Locality.divide
    monkeypatch.setattr(Locality, "divide", lambda *a: divided.append(a) or divide(*a))

    for history in ({}, {HOP: random_pairs(1)}):
        divided.clear()
        plan = ask(Locality(), correlated(1, tuples=400), current=learned, history=history)

        (note,) = plan.notes
        found = dict(note.figures)
        assert not plan
        assert "nothing to gain" == note.text
        assert found["local now"] <= found["local then"]
        assert 0.0 == found["gained"]
        assert 1 + len(history) == len(divided)  # to find that out


def test_correlation_that_is_new_every_epoch_is_left_alone_once_that_is_known():
    epochs = [correlated(epoch, seed=epoch) for epoch in range(7)]

    decisions, _ = run(Locality(), epochs)

    assert not any(decisions[2:])
    assert figures(decisions[-1])["lasting"] < 0.3


def test_stable_correlation_is_routed_at_once_and_then_left_as_it_is():
    epochs = [correlated(epoch) for epoch in range(6)]

    decisions, plan = run(Locality(), epochs)

    assert any(decisions[:2])
    assert locality(plan, correlated(99)) >= 0.85
    first = next(place for place, decision in enumerate(decisions) if decision)
    settled = run(Locality(), epochs[: first + 1])[1]
    assert moved_load(settled, plan, epochs[0]) <= 0.1


def moved_load(old, new, pairs):
    """The share of the load, of both operators, whose owner is another one."""
    moved = sum(
        pairs.counts[old.routing[name].assign(keys) != new.routing[name].assign(keys)].sum()
        for name, keys in (("a", pairs.left), ("b", pairs.right))
    )
    return moved / (2 * pairs.total)


def test_from_the_second_time_on_keys_move_only_as_far_as_that_pays():
    epochs = [correlated(epoch) for epoch in range(3)]

    decisions, _ = run(Locality(worth=0), epochs)

    for old, new in pairwise(decisions):
        assert moved_load(old, new, epochs[0]) <= 0.05


def test_new_correlation_is_routed_once_it_lasts_though_the_old_routing_is_worthless():
    """The routing in force held for long, and then no more: that says nothing of a new one."""
    old, new = [[correlated(e, seed=seed) for e in range(3)] for seed in (0, 1)]

    decisions, plan = run(Locality(), [*old, *new])

    assert locality(run(Locality(), old)[1], new[0]) < 0.4
    assert 0.0 == figures(decisions[3])["lasting"]
    assert locality(plan, correlated(99, seed=1)) >= 0.85


def test_how_long_routing_lasts_is_told_by_earlier_pairs_and_not_by_the_routing_in_force():
    _, settled = run(Locality(), [correlated(0, seed=1)])
    new = correlated(2)

    for current in (None, settled):
        found = figures(ask(Locality(), new, current=current, history={HOP: correlated(1)}))
        assert found["lasting"] > 0.9
        found = figures(ask(Locality(), new, current=current, history={HOP: correlated(1, seed=1)}))
        assert 0.0 == found["lasting"]


def test_what_lasts_in_part_is_taken_to_last_in_part():
    stays, goes = correlated(1), correlated(1, seed=1)
    mixed = few(stays, 100).together(KeyPairs(*rows(goes, goes.left >= 100)))

    found = figures(ask(Locality(), correlated(2), history={HOP: mixed}))

    assert 0.3 < found["lasting"] < 0.75


def few(pairs, most):
    return KeyPairs(*rows(pairs, pairs.left < most))


def rows(pairs, some):
    return pairs.left[some], pairs.right[some], pairs.counts[some]


def test_a_past_that_misleads_is_left_out():
    now, before = correlated(0), correlated(1, seed=1)
    heavy = KeyPairs(before.left, before.right, before.counts * 5)

    found = figures(ask(Locality(worth=1e9), now, history={HOP: heavy}))
    plan = ask(Locality(worth=0), now, history={HOP: heavy})

    assert 0.0 == found["with past"]
    assert found["local now"] >= 0.8
    assert locality(plan, correlated(99)) >= 0.85


def test_a_past_that_holds_is_learned_from():
    """An epoch of few tuples is too short to learn from alone."""
    history = {HOP: correlated(1)}

    found = figures(ask(Locality(worth=1e9), correlated(0, tuples=400), history=history))

    assert 1.0 == found["with past"]
    assert found["local now"] >= 0.75


def test_another_seed_tries_it_on_other_pairs():
    tried = {figures(ask(Locality(seed=seed), correlated(0)))["local then"] for seed in range(3)}

    assert 3 == len(tried)


def test_published_weighs_keys_by_their_pairs_alone():
    pairs = correlated(0)
    keys, number = np.unique(pairs.left, return_inverse=True)
    counts = np.bincount(number, pairs.counts) * (1 + 9 * (keys % 2))

    plan = ask(Locality.published(), pairs, keys={"a": KeyCounts(keys, counts)})

    assert ask(Locality.published(), pairs).routing == plan.routing


def test_operators_that_were_not_seen_before_are_judged_with_those_that_were():
    topology = job().then("c", key="m", parallelism=NODES)
    pairs = {HOP: correlated(0), ("b", "c"): correlated(0, seed=1)}

    plan = ask(Locality(), pairs, topology=topology, history={HOP: correlated(1)})

    assert {"a", "b", "c"} == set(plan.routing)
    assert figures(plan)["lasting"] > 0.9


def test_a_gate_of_nothing_always_proposes_and_a_gate_too_high_never():
    assert all(run(Locality(worth=0), [random_pairs(epoch) for epoch in range(3)])[0])
    assert not any(run(Locality(worth=1e9), [correlated(epoch) for epoch in range(3)])[0])


def test_the_decision_and_its_figures_are_in_the_note():
    decision = ask(Locality(), correlated(0))

    (note,) = decision.notes
    found = dict(note.figures)
    assert "worth what has to move" == note.text
    # In groups nine times in ten, and by chance on one of four nodes otherwise.
    assert found["local now"] == pytest.approx(0.9, abs=0.05)
    assert found["local then"] == pytest.approx(1 / NODES, abs=0.1)
    assert 0.75 == found["lasting"]
    assert 0.0 == found["with past"]
    gained = (found["local now"] - found["local then"]) * 20_000 * 3
    assert gained == pytest.approx(found["gained"])
    assert sum(changing_hands(decision).values()) == found["moved"]


def changing_hands(decision):
    """How many keys of each operator get another owner than they have without a plan."""
    cluster = Cluster.uniform(NODES)
    old, new = (Layout.of(job(), cluster, plan) for plan in (Plan(), decision))
    return {
        name: (old.owners(name).assign(table.keys) != new.owners(name).assign(table.keys)).sum()
        for name, table in decision.routing.items()
    }


def test_the_gain_is_judged_by_pairs_that_nothing_was_learned_from():
    """Every pair once: whatever locality METIS finds in them, other tuples do not have it."""
    random = np.random.default_rng(0)
    pairs = KeyPairs(random.integers(0, 3000, 6000), random.integers(0, 3000, 6000), np.ones(6000))

    decision = ask(Locality(), pairs)

    graph = KeyGraph.of({HOP: pairs})
    assert partition_as_published(graph, NODES).locality > 0.6
    assert figures(decision)["local now"] == pytest.approx(1 / NODES, abs=0.05)
    assert not decision


def test_bytes_are_compared_where_sizes_are_known():
    sizes = {name: OperatorStatistics(state_bytes=1e5) for name in HOP}
    edges = {("in", "a"): EdgeStatistics(10, 1000), ("a", "b"): EdgeStatistics(10, 1000)}

    sized = ask(Locality(), correlated(0), operators=sizes, edges=edges)
    plain = figures(ask(Locality(), correlated(0)))

    found = figures(sized)
    assert found["gained"] == pytest.approx(plain["gained"] * 100)
    keys = {"a": 200, "b": 400}
    expected = sum(moved * 1e5 / keys[name] for name, moved in changing_hands(sized).items())
    assert found["moved"] == pytest.approx(expected)


def test_keys_are_compared_where_the_state_of_one_operator_is_not_known():
    """As after a restart: none of it is taken for nothing."""
    sizes = {"a": OperatorStatistics(state_bytes=1e5), "b": OperatorStatistics()}
    edges = {("in", "a"): EdgeStatistics(10, 1000), ("a", "b"): EdgeStatistics(10, 1000)}

    found = figures(ask(Locality(), correlated(0), operators=sizes, edges=edges))

    assert found == figures(ask(Locality(), correlated(0)))


def test_large_states_stay_where_they_are():
    sizes = {name: OperatorStatistics(state_bytes=1e15) for name in HOP}
    edges = {HOP: EdgeStatistics(10, 1000)}

    decision = ask(Locality(), correlated(0), operators=sizes, edges=edges)

    assert not decision
    assert figures(decision)["moved"] > figures(decision)["gained"] > 0


def test_what_held_wholly_is_not_taken_to_last_for_ever():
    pairs = correlated(0)

    decision = ask(Locality(worth=1e9), pairs, history={HOP: pairs})

    assert 0.95 == figures(decision)["lasting"]


def test_history_counts_unless_nothing_is_remembered():
    """An epoch of few tuples that say little is divided by what was seen before."""
    faint, before = random_pairs(0, tuples=300), correlated(0)

    learned = ask(Locality(worth=0), faint, history={HOP: before})
    blank = ask(Locality(worth=0, memory=0), faint, history={HOP: before})

    assert locality(learned, before) >= 0.85
    assert locality(blank, before) < 0.5


def reported(left, right, capacity):
    """What a sketch reports that is far too small for the stream."""
    sketch = SpaceSaving(capacity, block=256)
    sketch.update((left, right))
    return KeyPairs.of(sketch)


def test_what_a_full_sketch_reports_by_chance_is_seen_through_where_pairs_were_held_out():
    random = np.random.default_rng(1)
    left, right = random.integers(0, 300, (2, 200_000))
    taught, tested = (reported(left[half::2], right[half::2], 2_000) for half in (0, 1))
    world = World(job(), Cluster.uniform(NODES), Statistics(pairs={HOP: taught}))
    with_test = replace(world, statistics=replace(world.statistics, held_out={HOP: tested}))

    def gain(world):
        figures = dict(world.ask(Locality(worth=1e9)).notes[0].figures)
        return figures["local now"] - figures["local then"]

    assert gain(world) > 0.05  # a sketch reports what it happened to count most
    assert abs(gain(with_test)) < gain(world) / 2


def test_pairs_that_were_held_out_are_learned_from_as_well():
    pairs = correlated(0)
    taught, tested = pairs.halved(3)
    apart = Statistics(pairs={HOP: taught}, held_out={HOP: tested})

    plan = World(job(), Cluster.uniform(NODES), apart).ask(Locality(worth=0))

    assert set(pairs.left.tolist()) <= set(plan.routing["a"].keys.tolist())
    assert set(pairs.right.tolist()) <= set(plan.routing["b"].keys.tolist())
