"""Topologies: any directed acyclic graph is a job, and everything else is refused by name."""

import copy
import math
import pickle
import time
from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Table, topologies

from grouping.groupings import Fields, Grouping, GroupTable, LocalOrShuffle, PartialKey, Shuffle
from optimizers import Edge, Operator, PenstockError, Plan, Topology, TopologyError
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.runtime.log.job_identity import Identity


def chain(*names):
    return [Operator(name) for name in names], [Edge(*pair) for pair in pairwise(names)]


def keyed(name, **fields):
    return Operator(name, key="k", **fields)


JOB = Topology.source("in").then("mid", key="k", parallelism=2).then("out")

BAD = {
    # what is written: the error, and words that its message must have
    "no operators": (lambda: Topology(()), TopologyError, ["at least one"]),
    "operators None": (lambda: Topology(None), InvalidValueError, ["operators=None", "list"]),
    "operators a number": (lambda: Topology(3), InvalidValueError, ["operators=3"]),
    "operators text": (lambda: Topology("ab"), InvalidValueError, ["operators='ab'"]),
    "operators a mapping": (lambda: Topology({"a": 1}), InvalidValueError, ["operators={'a': 1}"]),
    "operators a set": (lambda: Topology({Operator("a")}), InvalidValueError, ["set", "order"]),
    "operators names": (lambda: Topology(["a"]), TopologyError, ["'a' is not an Operator"]),
    "operators hold None": (lambda: Topology([None]), TopologyError, ["None is not an Operator"]),
    "operators one": (lambda: Topology(Operator("a")), InvalidValueError, ["operators=", "list"]),
    "edges None": (lambda: Topology([Operator("a")], None), InvalidValueError, ["edges=None"]),
    "edges one": (
        lambda: Topology([Operator("a")], Edge("a", "a")),
        InvalidValueError,
        ["edges=Edge"],
    ),
    "edges pairs": (
        lambda: Topology([Operator("a"), Operator("b")], [("a", "b")]),
        TopologyError,
        ["('a', 'b') is not an Edge", "Edge(source, target)"],
    ),
    "twice an operator": (
        lambda: Topology([Operator("a"), Operator("a")]),
        TopologyError,
        ["two operators are called 'a'", "rename"],
    ),
    "twice an edge": (
        lambda: Topology(chain("a", "b")[0], [Edge("a", "b"), Edge("a", "b", Shuffle())]),
        TopologyError,
        ["two edges a -> b", "keep one"],
    ),
    "source in the air": (
        lambda: Topology([Operator("a")], [Edge("ghost", "a")]),
        TopologyError,
        ["ghost -> a", "no operator 'ghost'", "known: 'a'"],
    ),
    "target in the air": (
        lambda: Topology([Operator("a")], [Edge("a", "ghost")]),
        TopologyError,
        ["a -> ghost", "no operator 'ghost'"],
    ),
    "name empty": (lambda: Operator(""), InvalidValueError, ["name ''", "letters"]),
    "name None": (lambda: Operator(None), InvalidValueError, ["name None"]),
    "name a number": (lambda: Operator(3), InvalidValueError, ["name 3"]),
    "name a list": (lambda: Operator(["a"]), InvalidValueError, ["name ['a']"]),
    "name two words": (lambda: Operator("a b"), InvalidValueError, ["name 'a b'"]),
    "name a path": (lambda: Operator("../a"), InvalidValueError, ["name '../a'"]),
    "name with newline": (lambda: Operator("a\n"), InvalidValueError, [r"name 'a\n'"]),
    "edge from None": (lambda: Edge(None, "a"), InvalidValueError, ["name None"]),
    "edge to a list": (lambda: Edge("a", ["b"]), InvalidValueError, ["name ['b']"]),
    "key empty": (lambda: Operator("a", key=""), TopologyError, ["'a'", "key=''", "None"]),
    "key of nothing": (lambda: Operator("a", key=()), TopologyError, ["key=()", "names no column"]),
    "key twice": (lambda: Operator("a", key=("k", "k")), TopologyError, ["twice", "('k', 'k')"]),
    "key a number": (lambda: Operator("a", key=7), TopologyError, ["key=7"]),
    "key bytes": (lambda: Operator("a", key=b"k"), TopologyError, ["key=b'k'"]),
    "key a set": (lambda: Operator("a", key={"k"}), TopologyError, ["key={'k'}"]),
    "key a mapping": (lambda: Operator("a", key={"k": 1}), TopologyError, ["key={'k': 1}"]),
    "key of None": (lambda: Operator("a", key=("k", None)), TopologyError, ["('k', None)"]),
    "key nested": (lambda: Operator("a", key=(("k",),)), TopologyError, ["names no column"]),
    "edge key empty": (lambda: Edge("a", "b", key=""), TopologyError, ["edge a -> b", "key=''"]),
    "edge key a number": (lambda: Edge("a", "b", key=1), TopologyError, ["edge a -> b", "key=1"]),
    "grouping by name": (
        lambda: Edge("a", "b", "shuffle"),
        TopologyError,
        ["edge a -> b", "'shuffle' is not a Grouping", "Shuffle()"],
    ),
    "grouping a class": (lambda: Edge("a", "b", Shuffle), TopologyError, ["is not a Grouping"]),
    "apply a number": (lambda: Operator("a", apply=3), TopologyError, ["'a'", "apply=3"]),
    "apply no place": (lambda: Operator("a", apply="sqrt"), TopologyError, ["'sqrt'", "module"]),
    "partial without key": (
        lambda: Operator("a", partial=True),
        TopologyError,
        ["'a'", "partial=True", "give it a key"],
    ),
    "partial a number": (lambda: keyed("a", partial=1), TopologyError, ["'a'", "partial=1"]),
    "partial None": (lambda: keyed("a", partial=None), TopologyError, ["partial=None"]),
    "more instances than groups": (
        lambda: keyed("a", parallelism=5, key_groups=4),
        TopologyError,
        ["'a'", "parallelism=5", "4 key groups", "set key_groups to 5"],
    ),
    "state fed by shuffle": (
        lambda: Topology([Operator("a"), keyed("b")], [Edge("a", "b", Shuffle())]),
        TopologyError,
        ["edge a -> b", "shuffle", "'b' keeps state by k", "use Fields()"],
    ),
    "state fed by local": (
        lambda: Topology([Operator("a"), keyed("b")], [Edge("a", "b", LocalOrShuffle())]),
        TopologyError,
        ["local_or_shuffle", "use Fields()"],
    ),
    "whole state fed by parts": (
        lambda: Topology([Operator("a"), keyed("b")], [Edge("a", "b", PartialKey())]),
        TopologyError,
        ["partial_key", "partial=True"],
    ),
    "partial state fed by shuffle": (
        lambda: Topology([Operator("a"), keyed("b", partial=True)], [Edge("a", "b", Shuffle())]),
        TopologyError,
        ["shuffle", "'b'", "use Fields()"],
    ),
    "key wanted": (
        lambda: Topology([Operator("a"), Operator("b")], [Edge("a", "b", Fields())]),
        TopologyError,
        ["fields needs a key", "'b' has none", "give the operator a key"],
    ),
    "edge key too long": (
        lambda: Topology([Operator("a"), keyed("b")], [Edge("a", "b", key=("x", "y"))]),
        TopologyError,
        ["('x', 'y')", "does not match", "'k'", "as many columns"],
    ),
    "made for others": (
        lambda: Topology([Operator("a"), keyed("b", parallelism=3)], [Edge("a", "b", Table(2))]),
        TopologyError,
        ["made for 2 instances", "'b' has 3", "make one for 3"],
    ),
    "made for other key groups": (
        lambda: Topology(
            [Operator("a"), keyed("b", key_groups=16)], [Edge("a", "b", GroupTable([], [], 8))]
        ),
        TopologyError,
        ["edge a -> b", "made for 8 key groups", "'b' has 16", "make one for 16"],
    ),
    "two owners": (
        lambda: Topology(
            [Operator("a"), Operator("b"), keyed("c")],
            [Edge("a", "c"), Edge("b", "c", Table(1))],
        ),
        TopologyError,
        ["a -> c", "b -> c", "two owners", "one grouping"],
    ),
    "loop": (
        lambda: Topology([Operator("a")], [Edge("a", "a")]),
        TopologyError,
        ["cycle: a -> a", "remove one"],
    ),
    "to and fro": (
        lambda: Topology(chain("a", "b")[0], [Edge("a", "b"), Edge("b", "a")]),
        TopologyError,
        ["cycle: a -> b -> a"],
    ),
    "then after a number": (lambda: JOB.then("x", after=5), InvalidValueError, ["after=5"]),
    "then after nothing": (lambda: JOB.then("x", after=()), TopologyError, ["'x'", "also()"]),
    "then after a set": (lambda: JOB.then("x", after={"in"}), InvalidValueError, ["set"]),
    "then after unknown": (lambda: JOB.then("x", after="ghost"), TopologyError, ["'ghost'"]),
    "then after twice": (lambda: JOB.then("x", after=("in", "in")), TopologyError, ["two edges"]),
    "then None": (lambda: JOB.then(None), TopologyError, ["None is not an operator"]),
    "then an edge": (lambda: JOB.then(Edge("a", "b")), TopologyError, ["is not an operator"]),
    "then by name": (lambda: JOB.then("x", grouping="shuffle"), TopologyError, ["Shuffle()"]),
    "then a misspelt field": (
        lambda: JOB.then("x", paralelism=3),
        InvalidValueError,
        ["'x' has no field 'paralelism'", "parallelism"],
    ),
    "then with a second name": (
        lambda: JOB.then("x", name="y"),
        InvalidValueError,
        ["'x' has no field 'name'"],
    ),
    "then with fields of a whole": (
        lambda: JOB.then(Operator("x"), parallelism=2),
        InvalidValueError,
        ["['parallelism']", "'x' itself"],
    ),
    "then the same again": (lambda: JOB.then("mid"), TopologyError, ["'mid'"]),
    "also a number": (lambda: JOB.also(1), TopologyError, ["1 is not an operator"]),
    "also the same again": (lambda: JOB.also("in"), TopologyError, ["two operators"]),
    "source None": (lambda: Topology.source(None), TopologyError, ["None is not an operator"]),
    "unknown operator": (
        lambda: JOB.operator("ghost"),
        UnknownNameError,
        ["unknown operator 'ghost'", "known: 'in', 'mid', 'out'"],
    ),
    "operator a list": (lambda: JOB.operator(["in"]), UnknownNameError, ["unknown operator"]),
    "operator None": (lambda: JOB.operator(None), UnknownNameError, ["unknown operator None"]),
    "inputs of unknown": (lambda: JOB.inputs("ghost"), UnknownNameError, ["'ghost'"]),
    "outputs of a list": (lambda: JOB.outputs([]), UnknownNameError, ["[]"]),
    "unknown edge": (
        lambda: JOB.edge("in", "out"),
        UnknownNameError,
        ["unknown edge 'in -> out'", "known: 'in -> mid', 'mid -> out'"],
    ),
    "edge of lists": (lambda: JOB.edge([], {}), UnknownNameError, ["unknown operator []"]),
    "grouping of unknown": (lambda: JOB.grouping("mid", "in"), UnknownNameError, ["mid -> in"]),
    "columns of unknown": (lambda: JOB.key_columns("x", "in"), UnknownNameError, ["'x'"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_job_is_refused_by_name_and_with_a_remedy(case):
    build, error, words = BAD[case]

    with pytest.raises(error) as caught:
        build()

    assert [] == [word for word in words if word not in str(caught.value)]
    assert isinstance(caught.value, PenstockError)


@pytest.mark.parametrize("field", ["parallelism", "key_groups"])
@pytest.mark.parametrize(
    "value", [0, -1, True, False, 1.5, 1.0, math.nan, math.inf, None, "2", [1]]
)
def test_counts_are_whole_numbers_from_one(field, value):
    with pytest.raises(InvalidValueError) as caught:
        Operator("words", **{field: value})

    assert f"operator 'words': {field}={value!r}" in str(caught.value)


WILD = [
    None,
    0,
    -1,
    1.5,
    math.nan,
    True,
    "",
    "ab",
    b"ab",
    [],
    {},
    set(),
    (),
    object(),
    [[]],
    Shuffle,
]


@pytest.mark.parametrize(
    "build",
    [
        Topology,
        lambda value: Topology([Operator("a")], value),
        lambda value: Topology([value]),
        lambda value: Topology([Operator("a")], [value]),
        Operator,
        lambda value: Operator("a", key=value),
        lambda value: Operator("a", parallelism=value),
        lambda value: Operator("a", apply=value),
        lambda value: Operator("a", key="k", partial=value),
        lambda value: Edge(value, "b"),
        lambda value: Edge("a", "b", value),
        lambda value: Edge("a", "b", key=value),
        JOB.then,
        lambda value: JOB.then("x", after=value),
        lambda value: JOB.then("x", edge_key=value),
        JOB.operator,
        lambda value: JOB.edge(value, value),
        Topology.from_json,
    ],
)
def test_wild_input_is_taken_or_refused_but_never_stumbled_over(build):
    for value in WILD:
        try:
            build(value)
        except PenstockError as error:
            assert len(str(error)) > 10  # noqa: PT017  # that nothing else is raised is the point


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


def names_of_cycle(message):
    return message.partition("cycle: ")[2].partition(";")[0].split(" -> ")


@pytest.mark.parametrize("length", [1, 2, 3, 2_000])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("behind", [0, 2])
def test_a_cycle_is_named_whole_and_alone(length, before, behind):
    ring = [f"ring{place}" for place in range(length)]
    head = [f"head{place}" for place in range(before)]
    tail = [f"tail{place}" for place in range(behind)]
    operators, links = chain(*head, *ring, *tail)

    for written in (operators, operators[::-1]):
        with pytest.raises(TopologyError) as caught:
            Topology(written, [*links, Edge(ring[-1], ring[0])])

        named = names_of_cycle(str(caught.value))
        assert named[0] == named[-1]
        assert sorted(ring) == sorted(named[1:])
        assert set(pairwise(named)) == {*pairwise(ring), (ring[-1], ring[0])}


@given(st.data())
def test_one_edge_back_in_any_graph_is_a_cycle_with_that_edge_in_it(data):
    topology = data.draw(topologies())
    reachable = [(first, last) for first, last in paths(topology) if first != last]
    plain = [Operator(operator.name) for operator in topology.operators]
    links = [Edge(*edge.name) for edge in topology.edges]
    first, last = data.draw(st.sampled_from([*reachable, (plain[0].name, plain[0].name)]))

    with pytest.raises(TopologyError) as caught:
        Topology(plain, [*links, Edge(last, first)])

    named = names_of_cycle(str(caught.value))
    assert (last, first) in set(pairwise(named))
    assert set(pairwise(named)) <= {*(edge.name for edge in links), (last, first)}


def paths(topology, through=lambda _: True):
    """All (first, last) joined by a path whose inner operators pass; by plain enumeration."""
    found = set()

    def walk(first, here):
        for edge in topology.edges:
            if edge.source == here:
                found.add((first, edge.target))
                if through(topology.operator(edge.target)):
                    walk(first, edge.target)

    for operator in topology.operators:
        walk(operator.name, operator.name)
    return found


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
