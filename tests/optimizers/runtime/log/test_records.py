"""Records of the log: written whole, read strictly, and never with a byte that has changed."""

import json
import math
import pickle
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import topologies

from optimizers import Note, Operator, Plan, Topology
from optimizers.errors import CorruptDataError, InvalidValueError, StateError
from optimizers.runtime.log.commit_log import SavedPlan
from optimizers.runtime.log.job_identity import Identity, OperatorIdentity
from optimizers.runtime.log.mark import Mark
from optimizers.runtime.log.origins import Bounded, OfStream, Progress
from optimizers.runtime.log.records import Commit, sealed, unsealed
from optimizers.runtime.state.file import FileKind, StateFile
from optimizers.runtime.task.output_file import OutputFile

SMALL = st.integers(0, 10**6)


@st.composite
def chains(draw, batch):
    """Files that add up, written no later than a batch."""
    batches = sorted(draw(st.lists(st.integers(0, batch), max_size=3)))
    return tuple(
        StateFile(
            f"state/o/{number:010}-0-x{place}.arrow",
            number,
            draw(SMALL),
            draw(SMALL),
            draw(st.integers(0, (1 << 32) - 1)),
            FileKind.DELTA if place else FileKind.BASE,
        )
        for place, number in enumerate(batches)
    )


def output_files():
    kinds = st.sampled_from((pa.int64(), pa.string(), pa.list_(pa.decimal128(9, 2))))
    schemas = st.dictionaries(st.text(max_size=5), kinds, max_size=3).map(pa.schema)
    return st.builds(
        OutputFile, st.text(min_size=1), st.text(), schemas, SMALL, SMALL, st.booleans()
    )


@st.composite
def progresses(draw):
    """How far inputs have come after some batches, and what the last of them stood for."""
    progress, origin = Progress(), Bounded()
    for number in range(draw(st.integers(1, 5))):
        query, offsets = st.sampled_from("pq"), st.lists(st.text(max_size=9), max_size=2)
        batch = st.builds(OfStream, query, SMALL, offsets)
        bounded = Bounded(), Bounded(f"day {number}"), Bounded("cut", {"s": number})
        origin = draw(st.sampled_from(bounded) | batch)
        progress = progress.after(origin)
    return origin, progress


@st.composite
def commits(draw):
    batch = draw(SMALL)
    names = st.text(min_size=1, max_size=5)
    origin, progress = draw(progresses())
    return Commit(
        batch,
        draw(st.none() | st.integers(0, batch)),
        draw(st.dictionaries(names, st.lists(chains(batch), max_size=3), max_size=3)),
        tuple(draw(st.lists(output_files(), max_size=3))),
        draw(SMALL),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
        origin,
        progress,
    )


@given(commits())
def test_a_commit_is_read_back_equal_and_travels(commit):
    content = sealed(commit.to_json())

    assert commit == Commit.from_sealed(content)
    assert content == sealed(Commit.from_sealed(content).to_json())
    assert commit == pickle.loads(pickle.dumps(commit))  # noqa: S301
    assert "commit" == json.loads(content)["penstock"]


def test_a_commit_of_an_older_version_is_read_though_it_has_a_field_more():
    older = COMMIT.to_json().replace('"tuples": 10', '"tuples": 10,\n  "facts": {}')

    assert '"facts"' in older
    assert COMMIT == Commit.from_sealed(sealed(older))


def with_count(function=None, **fields):
    return Topology.source("s").then(Operator("count", key="k", apply=function, **fields))


FILES = (
    StateFile("state/count/0000000003-0-a.arrow", 3, 5, 900, 7, FileKind.BASE),
    StateFile("state/count/0000000004-0-b.arrow", 4, 1, 90, 8, FileKind.DELTA),
)
OUTPUT = OutputFile("output/x", "x", pa.schema([("word", pa.string())]), 3, 400)
COMMIT = Commit(5, 3, {"count": (FILES, FILES[:1], ())}, (OUTPUT,), 10)
DOCUMENTS = {
    "commit": (COMMIT.to_json(), Commit.from_sealed),
    "mark": (
        Mark(Identity.of(with_count()), (1 << 63) - 1, "a0").to_json(),
        lambda content: Mark.from_json(unsealed(content)),
    ),
    "plan": (
        SavedPlan(0, Plan(parallelism={"größe": 8}), {"größe": 2}).to_json(),
        lambda content: SavedPlan.read(content, 0, 0),
    ),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_byte_that_changes_or_is_missing_is_noticed(kind):
    text, build = DOCUMENTS[kind]
    content = sealed(text)
    build(content)

    for place in range(len(content)):
        for mask in (1, 4, 32, 128):
            torn = content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]
            with pytest.raises(CorruptDataError, match=r"its checksum does not hold|no checksum"):
                build(torn)
        with pytest.raises(CorruptDataError, match=r"its checksum does not hold|no checksum"):
            build(content[:place])
    with pytest.raises(CorruptDataError, match="no checksum"):
        build(content + b"\n")


def test_a_commit_tells_the_files_it_refers_to():
    assert {FILES[0].path, FILES[1].path, "output/x"} == COMMIT.files
    assert [("count", 0, FILES), ("count", 1, FILES[:1]), ("count", 2, ())] == COMMIT.instances()


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"batch": -1}, InvalidValueError, "batch=-1"),
        ({"batch": 10**10}, InvalidValueError, "batch=10000000000"),
        ({"plan": 6}, InvalidValueError, "plan=6"),
        ({"tuples": -1}, InvalidValueError, "tuples=-1"),
        ({"revision": -1}, InvalidValueError, "revision=-1"),
        ({"plan_revision": -1}, InvalidValueError, "plan_revision=-1"),
        ({"outputs": ("output/x",)}, InvalidValueError, "outputs holds 'output/x'; give an Out"),
        ({"state": {"count": (FILES[1:],)}}, StateError, r"\['count'\]\[0\]: a delta at 0"),
        ({"state": {"count": ((), FILES[:1] * 2)}}, StateError, r"\[1\]: a base at 1"),
        (
            {"state": {"count": ((FILES[0], replace(FILES[1], batch=2)),)}},
            StateError,
            "batch 2 between batches 3 and 5",
        ),
        ({"batch": 3}, StateError, "batch 4 between batches 3 and 3"),
        ({"state": {"count": (("x",),)}}, InvalidValueError, "holds 'x'; give a StateFile"),
    ],
)
def test_what_cannot_be_committed_is_refused(fields, error, message):
    with pytest.raises(error, match=message):
        replace(COMMIT, **fields)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"batch": 5', '"batch": 5.5', "'batch' is 5.5"),
        ('"tuples"', '"notes": 1,\n  "tuples"', "unknown field 'notes'"),
        ('"count": [[', '"count": [[[', "expected an object"),
        ('"count": [[', '"other": 5, "count": [[', r"state\['other'\]: expected a list of files"),
        ('"penstock": "commit"', '"penstock": "plan"', "is a 'plan', not a 'commit'"),
        ('"bounded": 1', '"bounded": -1', "bounded=-1"),
        ('"name": null', '"query": "q"', "stream 'q' has no batch"),
    ],
)
def test_a_commit_of_another_form_is_refused(old, new, message):
    text = COMMIT.to_json()
    assert old in text
    text = text.replace(old, new)
    if "[[[" in new:
        text = text.replace("], [], []]", "]], [], []]").replace("}], [{", "}]], [{", 1)

    with pytest.raises(CorruptDataError, match=message):
        Commit.from_sealed(sealed(text))


@given(topologies())
def test_an_identity_is_read_back_equal(topology):
    identity = Identity.of(topology)
    mark = Mark.drawn(identity)

    assert mark == Mark.from_json(unsealed(sealed(mark.to_json())))
    assert [] == identity.differences(mark.identity)


@given(topologies(), st.data())
def test_parallelism_is_no_part_of_an_identity(topology, data):
    numbers = {
        operator.name: data.draw(st.integers(1, operator.key_groups if operator.keyed else 9))
        for operator in topology.operators
    }

    assert Identity.of(topology) == Identity.of(topology.under(Plan(parallelism=numbers)))


@given(topologies(), st.randoms())
def test_the_order_in_which_a_job_is_written_is_no_part_of_an_identity(topology, random):
    operators, edges = list(topology.operators), list(topology.edges)
    random.shuffle(operators)
    random.shuffle(edges)

    assert Identity.of(topology) == Identity.of(Topology(operators, edges))


@dataclass(frozen=True)
class Tally:
    column: str
    by: object = None

    def __call__(self, *values):
        return values


BASE = with_count(Tally("x"))


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        (with_count(Tally("x")), []),
        (with_count(Tally("x"), parallelism=7), []),
        (
            with_count(Tally("y")),
            ["operator 'count' has fold \"Tally(column='y', by=None)\" instead"],
        ),
        (with_count(), ["operator 'count' has fold None instead of \"Tally("]),
        (
            with_count(Tally("x"), key_groups=64),
            ["operator 'count' has key_groups 64 instead of 128"],
        ),
        (
            with_count(Tally("x"), partial=True),
            ["operator 'count' has partial True instead of False"],
        ),
        (
            Topology.source("s").then("count", key=("k", "j"), apply=Tally("x")),
            [
                "operator 'count' has key ('k', 'j') instead of ('k',)",
                "edge s -> count by key k, j is new",
                "edge s -> count by key k is gone",
            ],
        ),
        (
            Topology.source("s").then("count", key="k", edge_key="z", apply=Tally("x")),
            ["edge s -> count by key z is new", "edge s -> count by key k is gone"],
        ),
        (BASE.then("end"), ["operator 'end' is new", "edge count -> end is new"]),
        (
            Topology.source("t").then("count", key="k", apply=Tally("x")),
            [
                "operator 's' is gone",
                "operator 't' is new",
                "edge t -> count by key k is new",
                "edge s -> count by key k is gone",
            ],
        ),
    ],
)
def test_what_differs_between_two_jobs_is_said(changed, differences):
    found = Identity.of(changed).differences(Identity.of(BASE))

    assert len(differences) == len(found)
    for expected, said in zip(differences, found, strict=True):
        assert said.startswith(expected)
    assert (Identity.of(changed) == Identity.of(BASE)) is not bool(differences)


def test_where_a_function_lies_in_memory_is_no_part_of_an_identity():
    def apply(*values):
        return values

    told = OperatorIdentity.of(Operator("count", "k", apply=Tally("x", partial(apply, 3)))).fold

    assert "functools.partial(<function " in told
    assert ".apply>, 3)" in told
    assert "0x" not in told


def test_an_operator_by_its_place_is_the_same_as_the_function_there():
    named = OperatorIdentity.of(Operator("count", "k", apply="math:sqrt"))

    assert named == OperatorIdentity.of(Operator("count", "k", apply=math.sqrt))


def test_what_an_operator_without_state_does_may_change():
    assert OperatorIdentity() == OperatorIdentity.of(Operator("parse", apply=math.sqrt))


@given(topologies(), st.dictionaries(st.text(), st.integers(1, 99), max_size=3))
def test_a_saved_plan_is_read_back_equal(topology, declared):
    numbers = {operator.name: operator.parallelism for operator in topology.operators}
    # Notes may hold anything, also what looks like the end of the document.
    note = Note("me", "count", ',\n  "declared": {}\n}\n')
    saved = SavedPlan(7, Plan(parallelism=numbers, notes=(note,)), declared, 2)

    assert saved == SavedPlan.read(sealed(saved.to_json()), 7, 2)


def test_a_plan_that_does_not_say_what_was_declared_is_no_saved_one():
    with pytest.raises(CorruptDataError, match="has no declared parallelism"):
        SavedPlan.read(sealed(Plan().to_json()), 0, 0)
