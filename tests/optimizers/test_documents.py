"""Documents: what is written is read back equal; what is damaged is refused whole."""

import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from strategies import clusters, plans, topologies, worlds

from optimizers import Cluster, Fields, Node, Note, PartialKey, Plan, Shuffle, Topology
from optimizers.documents import Record, read, write
from optimizers.errors import CorruptDataError

KINDS = {"topology": Topology, "cluster": Cluster, "plan": Plan}


def without_tables(plan):
    """A plan as this version can write it: tables come with the strategies that make them."""
    return Plan(
        parallelism=plan.parallelism,
        batch=plan.batch,
        routing={n: g for n, g in plan.routing.items() if g.instances is None},
        placement=plan.placement,
        scheduling={e: g for e, g in plan.scheduling.items() if g.instances is None},
        add=plan.add,
        drain=plan.drain,
        nodes=plan.nodes,
        notes=plan.notes,
    )


def values():
    return topologies(4) | clusters() | plans().map(without_tables)


@given(values())
def test_what_is_written_is_read_back_equal_and_written_alike_again(value):
    text = value.to_json()

    back = type(value).from_json(text)

    assert value == back
    assert text == back.to_json()
    assert value == type(value).from_json(text.encode())
    assert text.endswith("}\n")


@given(values())
def test_a_document_is_plain_json_that_says_what_it_is(value):
    document = json.loads(value.to_json())

    assert type(value).__name__.lower() == document["penstock"]
    assert 1 == document["version"]


def test_a_document_has_one_entry_to_a_line():
    plan = Plan(
        parallelism={"count": 2, "add": 1},
        routing={"count": PartialKey(3)},
        scheduling={("a", "b"): Shuffle()},
        drain=("n",),
        nodes=3,
        notes=(Note("Müller", "x", "→", {"gain": 1}),),
    )

    expected = """{
  "penstock": "plan",
  "version": 1,
  "parallelism": {"add": 1, "count": 2},
  "routing": {"count": {"kind": "partial_key", "choices": 3}},
  "scheduling": [{"source": "a", "target": "b", "grouping": {"kind": "shuffle"}}],
  "drain": ["n"],
  "nodes": 3,
  "notes": [{"by": "Müller", "about": "x", "text": "→", "figures": [["gain", 1.0]]}]
}
"""

    assert expected == plan.to_json()


def test_a_lone_surrogate_is_written_so_that_a_file_can_hold_it():
    plan = Plan(notes=(Note("x", "y", "\ud800"),))

    text = plan.to_json()

    assert plan == Plan.from_json(text.encode("utf-8"))


JOB = '{"penstock":"topology","version":1,"operators":[%s],"edges":[%s]}'
NODES = '{"penstock":"cluster","version":1,%s}'
PLAN = '{"penstock":"plan","version":1,%s}'
DEEP = "[" * 400 + "]" * 400
TOO_DEEP = "[" * 100_000

BAD = {
    "nodes as text": (Plan, PLAN % '"nodes":"3"', ["'nodes' is '3'", "int"]),
    "nodes below one": (Plan, PLAN % '"nodes":0', ["nodes=0"]),
    "nothing": (Plan, "", ["not JSON"]),
    "no text": (Plan, None, ["read from text", "None"]),
    "an object": (Plan, {"penstock": "plan"}, ["read from text"]),
    "no UTF-8": (Plan, b"\xff\xfe\xfd{", ["not JSON"]),
    "half": (Plan, '{"penstock": "plan", "ver', ["not JSON"]),
    "twice": (Plan, PLAN % '"batch":{}' * 2, ["not JSON"]),
    "a list": (Plan, "[]", ["expected an object", "[]"]),
    "a number": (Cluster, "7", ["expected an object", "7"]),
    "no kind": (Plan, "{}", ["'penstock' is missing"]),
    "another kind": (Plan, NODES % '"nodes":[{"name":"a"}]', ["'cluster'", "not a 'plan'"]),
    "kind a number": (Plan, '{"penstock":1}', ["'penstock' is 1", "str"]),
    "no version": (Plan, '{"penstock":"plan"}', ["'version' is missing"]),
    "version 2": (Plan, '{"penstock":"plan","version":2}', ["version 2", "reads version 1"]),
    "version true": (Plan, '{"penstock":"plan","version":true}', ["'version' is True", "int"]),
    "version 1.0": (Plan, '{"penstock":"plan","version":1.0}', ["'version' is 1.0"]),
    "misspelt": (Plan, PLAN % '"paralelism":{"a":1}', ["unknown field 'paralelism'", "correct"]),
    "a field twice": (Plan, PLAN % '"batch":{},"batch":{"a":1}', ["'batch' is given twice"]),
    "an operator twice": (Plan, PLAN % '"batch":{"a":1,"a":2}', ["'a' is given twice"]),
    "an edge twice": (
        Plan,
        PLAN
        % (
            '"scheduling":[{"source":"a","target":"b","grouping":{"kind":"shuffle"}},'
            '{"source":"a","target":"b","grouping":{"kind":"shuffle"}}]'
        ),
        ["('a', 'b') is scheduled twice", "keep one"],
    ),
    "NaN": (Plan, PLAN % '"batch":{"a":NaN}', ["NaN is not a number"]),
    "Infinity": (Cluster, NODES % '"nodes":[{"name":"a","capacity":-Infinity}]', ["-Infinity"]),
    "1e999": (Cluster, NODES % '"nodes":[{"name":"a","capacity":1e999}]', ["capacity=inf"]),
    "too large": (
        Cluster,
        NODES % f'"nodes":[{{"name":"a","capacity":{10**400}}}]',
        ["nodes[0]", "'capacity' is too large"],
    ),
    "too many digits": (Cluster, NODES % f'"nodes":{"9" * 5_000}', ["not JSON"]),
    "deep": (Cluster, NODES % f'"nodes":{DEEP}', ["nodes[0]: expected an object"]),
    "too deep": (Cluster, TOO_DEEP, ["nested too deeply"]),
    "count true": (Plan, PLAN % '"batch":{"a":true}', ["batch['a']=True", "whole number"]),
    "count 2.0": (Plan, PLAN % '"parallelism":{"a":2.0}', ["parallelism['a']=2.0"]),
    "count text": (Plan, PLAN % '"parallelism":{"a":"2"}', ["parallelism['a']='2'"]),
    "map a list": (Plan, PLAN % '"parallelism":[1]', ["'parallelism' is [1]", "dict"]),
    "map null": (Plan, PLAN % '"batch":null', ["'batch' is None"]),
    "grouping unknown": (
        Plan,
        PLAN % '"routing":{"a":{"kind":"magic"}}',
        ["unknown grouping 'magic'", "known: shuffle"],
    ),
    "grouping misspelt": (
        Plan,
        PLAN % '"routing":{"a":{"kind":"partial_key","choice":2}}',
        ["choice"],
    ),
    "grouping a word": (Plan, PLAN % '"routing":{"a":"fields"}', ["'fields'", "with a kind"]),
    "routing in turn": (Plan, PLAN % '"routing":{"a":{"kind":"shuffle"}}', ["routing['a']"]),
    "home unknown field": (
        Plan,
        PLAN % '"placement":{"a":{"nodes":["n"],"goups":[]}}',
        ["placement['a']: unknown field 'goups'"],
    ),
    "home a list": (Plan, PLAN % '"placement":{"a":[]}', ["placement['a']: expected an object"]),
    "home of a number": (Plan, PLAN % '"placement":{"a":{"nodes":[1]}}', ["nodes[0] is 1", "str"]),
    "group true": (
        Plan,
        PLAN % '"placement":{"a":{"nodes":["n"],"groups":[true]}}',
        ["groups[0] is True", "int"],
    ),
    "group beyond": (
        Plan,
        PLAN % '"placement":{"a":{"nodes":["n"],"groups":[1]}}',
        ["placement['a']: groups[0]=1"],
    ),
    "figure unpaired": (
        Plan,
        PLAN % '"notes":[{"by":"a","about":"b","text":"c","figures":[["gain"]]}]',
        ["notes[0]", "['gain']"],
    ),
    "figure too large": (
        Plan,
        PLAN % f'"notes":[{{"by":"a","about":"b","text":"c","figures":[["g",{10**400}]]}}]',
        ["notes[0]", "'g'"],
    ),
    "note without text": (Plan, PLAN % '"notes":[{"by":"a"}]', ["notes[0]: 'about' is missing"]),
    "no operators": (Topology, JOB % ("", ""), ["topology:", "at least one"]),
    "operator without name": (Topology, JOB % ("{}", ""), ["operators[0]: 'name' is missing"]),
    "operator a word": (
        Topology,
        JOB % ('"a"', ""),
        ["operators[0]: expected an object, found 'a'"],
    ),
    "key a word": (Topology, JOB % ('{"name":"a","key":"k"}', ""), ["'key' is 'k'", "list"]),
    "key empty": (Topology, JOB % ('{"name":"a","key":[]}', ""), ["operators[0]", "no column"]),
    "key of a number": (Topology, JOB % ('{"name":"a","key":[1]}', ""), ["key[0] is 1"]),
    "apply a number": (Topology, JOB % ('{"name":"a","apply":1}', ""), ["'apply' is 1"]),
    "apply no place": (
        Topology,
        JOB % ('{"name":"a","apply":"x"}', ""),
        ["'x' is not an import path"],
    ),
    "partial 1": (Topology, JOB % ('{"name":"a","partial":1}', ""), ["'partial' is 1", "bool"]),
    "cycle": (
        Topology,
        JOB % ('{"name":"a"}', '{"source":"a","target":"a"}'),
        ["cycle: a -> a"],
    ),
    "edge key empty": (
        Topology,
        JOB % ('{"name":"a"},{"name":"b"}', '{"source":"a","target":"b","key":[]}'),
        ["edges[0]", "names no column"],
    ),
    "edge to nowhere": (
        Topology,
        JOB % ('{"name":"a"}', '{"source":"a","target":"b"}'),
        ["is incomplete: there is no operator"],
    ),
    "no nodes": (Cluster, NODES % '"nodes":[]', ["at least one"]),
    "draining unknown": (
        Cluster,
        NODES % '"nodes":[{"name":"a"}],"draining":["b"]',
        ["cluster: unknown node 'b'"],
    ),
    "draining a word": (
        Cluster,
        NODES % '"nodes":[{"name":"a"}],"draining":"a"',
        ["'draining' is 'a'", "list"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_document_is_refused_by_name(case):
    kind, text, words = BAD[case]

    with pytest.raises(CorruptDataError) as caught:
        kind.from_json(text)

    assert [] == [word for word in words if word not in str(caught.value)]
    assert len(str(caught.value)) < 1_000


def test_what_may_be_absent_may_be_null_or_left_out():
    short = JOB % ('{"name":"a"},{"name":"b","key":null,"apply":null}', "")
    edge = '{"source":"a","target":"b","grouping":null,"key":null}'

    assert Topology.source("a").also("b") == Topology.from_json(short)
    assert Topology.source("a").then("b") == Topology.from_json(
        JOB % ('{"name":"a"},{"name":"b"}', edge)
    )
    assert Plan() == Plan.from_json('{"penstock":"plan","version":1}')
    assert Cluster((Node("a"),)) == Cluster.from_json(NODES % '"nodes":[{"name":"a","capacity":1}]')
    sized = '"nodes":[{"name":"a","cores":4,"memory":null}]'
    assert Cluster((Node("a", cores=4.0),)) == Cluster.from_json(NODES % sized)


LITERALS = (
    "null",
    "true",
    "0",
    "-1",
    "3",
    "1.5",
    "-0.0",
    "1e999",
    "NaN",
    str(10**400),
    "9" * 5_000,
    '""',
    '"op0"',
    '"n0"',
    '"\\ud800"',
    "[]",
    "{}",
    "[[]]",
    '{"kind":"fields"}',
    '{"kind":"partial_key","choices":true}',
    '{"kind":[]}',
    '{"name":"op0"}',
    "[" * 300 + "]" * 300,
    "[" * 5_000 + "]" * 5_000,
)


def places(node, here=()):
    """The paths to everything in a JSON tree."""
    yield here
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for name, value in items:
        if isinstance(value, dict | list):
            yield from places(value, (*here, name))
        else:
            yield (*here, name)


@st.composite
def damaged(draw):
    """A kind of value, and the text of one of its documents after one to three mishaps."""
    value = draw(values())
    tree = json.loads(value.to_json())
    literals = {}
    for mishap in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from([place for place in places(tree) if place]))
        parent = tree
        for name in above:
            parent = parent[name]
        what = draw(st.sampled_from(("drop", "add", "replace", "swap", "repeat")))
        mark = f"mishap {mishap}"
        literals[json.dumps(mark)] = draw(st.sampled_from(LITERALS))
        if what == "drop":
            del parent[last]
        elif what == "replace":
            parent[last] = mark
        elif what == "swap":
            names = [*parent] if isinstance(parent, dict) else range(len(parent))
            other = draw(st.sampled_from(names))
            parent[last], parent[other] = parent[other], parent[last]
        elif isinstance(parent, dict):
            parent[draw(st.sampled_from(("key", "nodes", "groups", "new", "partial")))] = mark
        else:
            parent.append(parent[last] if what == "repeat" else mark)
        if not [place for place in places(tree) if place]:
            break
    text = json.dumps(tree)
    for mark, literal in literals.items():
        text = text.replace(mark, literal)
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return type(value), text


@given(damaged())
def test_a_damaged_document_is_refused_or_is_another_valid_one(case):
    kind, text = case
    try:
        value = kind.from_json(text)
    except CorruptDataError as error:
        event("refused")
        assert str(error)  # noqa: PT017  # that nothing else is raised is the point
    else:
        event("valid")
        assert value == kind.from_json(value.to_json())


@given(
    st.sampled_from([*KINDS]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
)
def test_any_json_at_all_is_refused_or_valid(name, tree):
    envelope = {"penstock": name, "version": 1}
    body = tree if isinstance(tree, dict) else {"x": tree}
    for text in (json.dumps(tree), json.dumps({**envelope, **body})):
        try:
            KINDS[name].from_json(text)
        except CorruptDataError as error:
            assert str(error)  # noqa: PT017  # that nothing else is raised is the point


@given(worlds())
def test_every_cut_of_a_document_is_refused(world):
    text = world[0].to_json().rstrip()

    for end in range(0, len(text), 7):
        with pytest.raises(CorruptDataError):
            Topology.from_json(text[:end])


def test_no_depth_of_nesting_is_stumbled_over():
    for depth in range(150, 1_000, 10):
        for part in ("routing", "batch"):
            with pytest.raises(CorruptDataError):
                Plan.from_json(PLAN % f'"{part}":{{"a":{"[" * depth + "]" * depth}}}')


def test_a_field_taken_twice_or_left_is_noticed():
    record = Record({"a": 1, "b": 2}, "here")

    assert 1 == record.take("a", int)
    with pytest.raises(CorruptDataError, match="here: 'a' is missing"):
        record.take("a", int)
    with pytest.raises(CorruptDataError, match="here: unknown field 'b'"):
        record.into(lambda _: None)


def test_a_record_leaves_the_document_it_reads_as_it_was():
    data = {"a": 1}

    Record(data, "here").take("a", int)

    assert {"a": 1} == data


def test_only_finite_numbers_are_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        write("plan", {"x": float("nan")})


def test_a_whole_number_serves_where_a_fraction_may_stand():
    text = write("x", {"a": 3, "b": 1.5})

    found = read(text, "x", lambda record: (record.take("a", float), record.take("b", float)))

    assert (3.0, 1.5) == found
    assert isinstance(found[0], float)


def test_groupings_of_plans_come_back_as_what_they_were():
    plan = Plan(routing={"a": Fields(), "b": PartialKey(5)}, scheduling={("a", "c"): Shuffle()})

    assert plan == Plan.from_json(plan.to_json())
