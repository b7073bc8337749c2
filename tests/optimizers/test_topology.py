"""Topologies: any directed acyclic graph is a job, and everything else is refused by name."""

import copy
import pickle
import time
from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given
from small_topologies import JOB, chain, keyed, paths
from strategies import Table, topologies

from grouping.groupings import Fields, Grouping, LocalOrShuffle, PartialKey, Shuffle
from optimizers import Edge, Operator, Plan, Topology, TopologyError
from optimizers.errors import InvalidValueError
from optimizers.runtime.log.job_identity import Identity


def test_generators_and_lists_serve_as_well_as_tuples():
    operators, links = chain("a", "b", "c")

    expected = Topology(tuple(operators), tuple(links))

    assert expected == Topology(iter(operators), (link for link in links))
    assert expected == Topology(operators, links)
    assert ("x", "y") == Operator("a", key=["x", "y"]).key


def test_lists_changed_afterwards_change_nothing():
    operators, links = chain("a", "b")
    key = ["x", "y"]
    topology = Topology(operators, links)
    operator = Operator("a", key=key)

    operators.clear()
    links.clear()
    key.append("z")

    assert ("a", "b") == topology.order
    assert 1 == len(topology.edges)
    assert ("x", "y") == operator.key


def test_a_key_of_one_column_is_that_column_however_it_is_written():
    assert Operator("a", key="k") == Operator("a", key=("k",)) == Operator("a", key=["k"])
    assert Edge("a", "b", key="k") == Edge("a", "b", key=("k",))


@given(topologies())
def test_every_operator_comes_after_all_that_feed_it(topology):
    place = {name: place for place, name in enumerate(topology.order)}

    assert sorted(operator.name for operator in topology.operators) == sorted(topology.order)
    assert all(place[edge.source] < place[edge.target] for edge in topology.edges)


@given(topologies())
def test_the_order_is_the_written_one_wherever_edges_allow(topology):
    written = [operator.name for operator in topology.operators]
    expected = []
    while len(expected) < len(written):
        ready = (
            name
            for name in written
            if name not in expected
            and all(edge.source in expected for edge in topology.edges if edge.target == name)
        )
        expected.append(next(ready))

    assert tuple(expected) == topology.order


@given(topologies())
def test_keyed_hops_are_the_paths_between_keyed_operators_through_others(topology):
    place = {name: place for place, name in enumerate(topology.order)}
    expected = sorted(
        (
            (first, last)
            for first, last in paths(topology, lambda operator: not operator.keyed)
            if topology.operator(first).keyed and topology.operator(last).keyed
        ),
        key=lambda hop: (place[hop[0]], place[hop[1]]),
    )

    assert tuple(expected) == topology.keyed_hops


@given(topologies())
def test_neighbours_sources_and_sinks_are_read_off_the_edges(topology):
    fed = {edge.target for edge in topology.edges}
    feeding = {edge.source for edge in topology.edges}
    written = [operator.name for operator in topology.operators]

    for name in written:
        assert tuple(e for e in topology.edges if e.target == name) == topology.inputs(name)
        assert tuple(e for e in topology.edges if e.source == name) == topology.outputs(name)
    assert tuple(name for name in written if name not in fed) == topology.sources
    assert tuple(name for name in written if name not in feeding) == topology.sinks


def test_an_edge_is_by_key_where_its_target_has_one_and_in_turn_elsewhere():
    assert Fields() == JOB.grouping("in", "mid")
    assert Shuffle() == JOB.grouping("mid", "out")
    assert LocalOrShuffle() == JOB.then("x", grouping=LocalOrShuffle()).grouping("out", "x")


def test_an_edge_is_spread_by_its_own_columns_or_by_the_targets():
    job = JOB.then("toll", key=("way", "lane"), after=("in", "out"))
    renamed = JOB.then("toll", key=("way", "lane"), edge_key=("w", "l"))
    by_hash = JOB.then("cache", grouping=Fields(), edge_key="url")

    assert ("way", "lane") == job.key_columns("in", "toll")
    assert ("w", "l") == renamed.key_columns("out", "toll")
    assert ("url",) == by_hash.key_columns("out", "cache")
    assert () == JOB.key_columns("mid", "out")


def test_then_continues_at_the_last_or_after_those_named():
    built = (
        Topology.source("a")
        .then("b")
        .then(Operator("c", key="k"), after="a")
        .also("d", parallelism=3)
        .then("e", key="k", after=iter(("b", "c", "d")))
    )

    expected = Topology(
        (
            Operator("a"),
            Operator("b"),
            Operator("c", key="k"),
            Operator("d", parallelism=3),
            Operator("e", key="k"),
        ),
        (
            Edge("a", "b"),
            Edge("a", "c"),
            Edge("b", "e"),
            Edge("c", "e"),
            Edge("d", "e"),
        ),
    )
    assert expected == built
    assert ("a", "d") == built.sources
    assert ("e",) == built.sinks


def test_after_also_then_continues_at_the_new_source():
    built = Topology.source("a").also("b").then("c")

    assert (Edge("b", "c"),) == built.edges
    assert ("a", "c") == built.sinks


def test_building_leaves_the_job_built_upon_as_it_was():
    before = copy.deepcopy(JOB)

    JOB.then("more")
    JOB.also("other")
    JOB.under(Plan(parallelism={"mid": 4}))

    assert before == JOB


def test_a_lone_operator_is_a_job():
    alone = Topology.source("alone")

    assert ("alone",) == alone.order == alone.sources == alone.sinks
    assert () == alone.keyed_hops
    assert "alone x1" == str(alone)


def test_a_job_prints_as_its_operators_in_order():
    job = Topology(
        (keyed("join", parallelism=2), Operator("left"), Operator("right")),
        (Edge("left", "join"), Edge("right", "join", Fields())),
    )

    expected = "left x1\nright x1\njoin x2 keyed by k <- left (fields), right (fields)"

    assert expected == str(job)


@given(topologies())
def test_a_job_is_the_same_after_pickle_copy_and_use(topology):
    fresh = Topology(topology.operators, topology.edges)
    before = pickle.dumps(fresh)
    copies = [pickle.loads(before), copy.deepcopy(fresh), copy.copy(fresh)]  # noqa: S301
    fresh.keyed_hops, fresh.order, str(fresh), hash(fresh), fresh.sources

    assert before == pickle.dumps(fresh)
    assert [fresh] * 3 == copies
    assert {hash(fresh)} == set(map(hash, copies))


@pytest.mark.parametrize("value", [JOB, JOB.operators[0], JOB.edges[0], Shuffle(), PartialKey()])
def test_nothing_of_a_job_can_be_set(value):
    for name in [field.name for field in fields(value)]:
        before = getattr(value, name)
        with pytest.raises(AttributeError):
            setattr(value, name, None)
        with pytest.raises(AttributeError):
            delattr(value, name)
        assert before == getattr(value, name)
    with pytest.raises((AttributeError, TypeError)):
        value.something_new = 1


def test_under_a_plan_parallelism_and_groupings_are_those_of_the_plan():
    job = JOB.also("other").then("back", after=("mid", "other"))
    plan = Plan(
        parallelism={"mid": 4},
        routing={"mid": Table(4)},
        scheduling={("mid", "back"): LocalOrShuffle()},
    )

    under = job.under(plan)

    assert 4 == under.operator("mid").parallelism
    assert Table(4) == under.grouping("in", "mid")
    assert LocalOrShuffle() == under.grouping("mid", "back")
    assert Shuffle() == under.grouping("other", "back")
    assert [operator.name for operator in job.operators] == [o.name for o in under.operators]


def test_under_another_parallelism_a_table_lapses_and_what_serves_any_number_stays():
    routed = JOB.under(
        Plan(routing={"mid": Table(2)}, scheduling={("mid", "out"): LocalOrShuffle()})
    )

    grown = routed.under(Plan(parallelism={"mid": 3, "out": 2}))
    same = routed.under(Plan(parallelism={"mid": 2}))

    assert Fields() == grown.grouping("in", "mid")
    assert LocalOrShuffle() == grown.grouping("mid", "out")
    assert Table(2) == same.grouping("in", "mid")


def test_a_table_for_another_parallelism_is_refused_where_the_plan_itself_brings_it():
    with pytest.raises(TopologyError, match="made for 2 instances and operator 'mid' has 3"):
        JOB.under(Plan(parallelism={"mid": 3}, routing={"mid": Table(2)}))


class Kindless(Grouping):
    """A grouping whose author forgot its kind."""


def test_a_grouping_without_a_kind_never_reaches_an_edge():
    for kind in (Grouping, Kindless):
        with pytest.raises(InvalidValueError, match=f"{kind.__name__} has no kind"):
            kind()


def seconds(build):
    begin = time.process_time()
    build()
    return time.process_time() - begin


def as_chain(size):
    names = [f"op{place}" for place in range(size)]
    operators = [keyed(name) for name in names]
    topology = Topology(operators, [Edge(*pair) for pair in pairwise(names)])
    assert tuple(pairwise(names)) == topology.keyed_hops


def as_fan(size):
    operators = [keyed(f"op{place}") for place in range(size)]
    topology = Topology([keyed("hub"), *operators], [Edge("hub", o.name) for o in operators])
    assert size == len(topology.outputs("hub")) == len(topology.keyed_hops)


def as_join(size):
    operators = [Operator(f"op{place}") for place in range(size)]
    topology = Topology([*operators, keyed("hub")], [Edge(o.name, "hub") for o in operators])
    assert size == len(topology.inputs("hub"))


@pytest.mark.parametrize("build", [as_chain, as_fan, as_join])
def test_large_jobs_grow_with_their_size_and_know_no_depth(build):
    # Quadratic work makes 8 times the size cost 64 times as much; 24 leaves room for noise.
    small = min(seconds(lambda: build(500)) for _ in range(5))
    large = min(seconds(lambda: build(4_000)) for _ in range(3))

    assert large < 24 * small


class TestSeed:
    JOB = Topology.source("s").then("a", key="k").seeded(5)

    def test_it_stays_with_the_job(self):
        assert Topology.source("s").seed == 0
        assert self.JOB.then("b", key="l").also("t").seed == 5
        assert self.JOB.under(Plan(parallelism={"a": 2})).seed == 5
        assert copy.copy(self.JOB) == self.JOB  # by the same way as pickle
        assert self.JOB.seeded(0) == Topology.source("s").then("a", key="k")

    def test_a_document_has_it_only_where_it_is_not_0(self):
        assert Topology.from_json(self.JOB.to_json()) == self.JOB
        assert "seed" not in self.JOB.seeded(0).to_json()

    def test_it_is_no_part_of_what_the_job_is(self):
        plain = self.JOB.seeded(0)

        assert repr(plain) == repr(self.JOB)
        assert Identity.of(plain) == Identity.of(self.JOB)

    @pytest.mark.parametrize("seed", [-1, 1 << 63, 0.5, True])
    def test_what_is_none_is_refused(self, seed):
        with pytest.raises(InvalidValueError, match=r"seed="):
            self.JOB.seeded(seed)
