"""What is no job: refused by name, with the cycle or the number, and a remedy."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_topologies import JOB, chain, keyed, paths
from strategies import Table, topologies
from wild_input import taken_or_refused

from grouping.groupings import Fields, GroupTable, LocalOrShuffle, PartialKey, Shuffle
from optimizers import Edge, Operator, PenstockError, Topology, TopologyError
from optimizers.errors import InvalidValueError, UnknownNameError

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
    taken_or_refused(build, Shuffle)


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
