"""Statistics: what was seen, checked number by number, and kept as it was."""

import copy
import math
import pickle
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from wild_input import taken_or_refused

from optimizers import (
    EdgeStatistics,
    GroupStatistics,
    GroupTraffic,
    KeyPairs,
    Operator,
    OperatorStatistics,
    Probe,
    Statistics,
    Topology,
)
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.testing import example_statistics, only
from sketches.cost_sketch import CostSketch

JOB = (
    Topology.source("in")
    .then("place", key="p", key_groups=3)
    .then("clean")
    .then("tag", key="t", key_groups=2)
)
PAIRS = KeyPairs([1, 2], ["a", "b"], [3.0, 4.0])


def groups(count):
    return GroupStatistics(*(np.arange(count) / scale for scale in (1.0, 2.0, 3.0, 4.0)))


def costs(*weights):
    sketch = CostSketch(16, 2)
    sketch.update(list(range(len(weights))), list(weights))
    return sketch


NOT_AMOUNTS = [-1, -0.001, math.nan, math.inf, -math.inf, None, "3", True, [1.0], 10**400]


@pytest.mark.parametrize("value", NOT_AMOUNTS, ids=lambda value: repr(value)[:9])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((OperatorStatistics, name) for name in ("tuples", "seconds")),
        *((EdgeStatistics, name) for name in ("tuples", "bytes", "local")),
        (Statistics, "seconds"),
    ],
)
def test_what_is_no_amount_is_refused_by_its_name(kind, name, value):
    with pytest.raises(InvalidValueError, match=f"^{name}="):
        kind(**{name: value})


@pytest.mark.parametrize(
    "value", [one for one in NOT_AMOUNTS if one is not None], ids=lambda value: repr(value)[:9]
)
def test_state_is_an_amount_or_not_known(value):
    with pytest.raises(InvalidValueError, match=r"^state_bytes="):
        OperatorStatistics(state_bytes=value)
    assert OperatorStatistics().state_bytes is None


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, "x", True])
def test_a_share_is_between_nothing_and_all(value):
    with pytest.raises(InvalidValueError, match=r"^hottest_key="):
        OperatorStatistics(hottest_key=value)


@pytest.mark.parametrize("value", [-1, 1.5, None, True, "3", math.nan])
def test_an_epoch_is_counted(value):
    with pytest.raises(InvalidValueError, match=r"^epoch="):
        Statistics(epoch=value)


def test_no_more_tuples_stay_local_than_there_are():
    with pytest.raises(InvalidValueError, match=r"local=5 is out of range.*\[0, 4.0\]"):
        EdgeStatistics(tuples=4, local=5)
    with pytest.raises(InvalidValueError, match=r"local_bytes=5 is out of range.*\[0, 4.0\]"):
        EdgeStatistics(bytes=4, local_bytes=5)
    assert EdgeStatistics(bytes=4).local_bytes is None


def test_numbers_of_any_kind_become_floats():
    seen = OperatorStatistics(np.int64(3), np.float32(0.5), 7, hottest_key=1)

    assert (3.0, 0.5, 7.0, 1.0) == (seen.tuples, seen.seconds, seen.state_bytes, seen.hottest_key)
    given = [field.name for field in fields(seen)][:4]
    assert {float} == {type(getattr(seen, name)) for name in given}
    assert OperatorStatistics().hottest_key is None


NOT_ARRAYS = {
    "text": "abc",
    "nothing": None,
    "words": ["a", "b"],
    "ragged": [[1.0], [1.0, 2.0]],
    "flat": 3.0,
    "two-dimensional": np.ones((2, 2)),
    "too short": [1.0],
    "too long": [1.0, 2.0, 3.0],
    "negative": [1.0, -1.0],
    "NaN": [1.0, math.nan],
    "infinite": [math.inf, 1.0],
    "True": [True, False],
    "complex": [1j, 2.0],
    "objects": [object(), object()],
    "a mapping": {"a": 1.0},
}


@pytest.mark.parametrize("case", NOT_ARRAYS)
@pytest.mark.parametrize("name", ["cpu", "memory", "network", "state_bytes"])
def test_what_is_no_column_of_amounts_is_refused(name, case):
    good = {column: [1.0, 2.0] for column in ("cpu", "memory", "network", "state_bytes")}
    if case == "nothing":  # was not observed, which is no mistake
        assert getattr(GroupStatistics(**{**good, name: None}), name) is None
        return

    with pytest.raises(InvalidValueError) as caught:
        GroupStatistics(**{**good, name: NOT_ARRAYS[case]})

    # A first column of another length is as good a measure as any: then the second is at odds.
    at_odds = "memory" if name == "cpu" and case in {"too short", "too long"} else name
    assert str(caught.value).startswith(at_odds)


NOT_GROUPS = {
    **{name: NOT_ARRAYS[name] for name in NOT_ARRAYS if name not in {"too short", "too long"}},
    "halves": [0.0, 1.0],
    "far": np.array([0, 2**63], dtype=np.uint64),
}


@pytest.mark.parametrize("case", NOT_GROUPS)
@pytest.mark.parametrize("name", ["sources", "targets"])
def test_what_is_no_column_of_groups_is_refused(name, case):
    good = {"sources": [0, 1], "targets": [1, 0], "tuples": [1.0, 2.0]}

    with pytest.raises(InvalidValueError, match=f"^{name}"):
        GroupTraffic(**{**good, name: NOT_GROUPS[case]})


@pytest.mark.parametrize("case", NOT_ARRAYS)
def test_what_is_no_column_of_tuples_is_refused(case):
    with pytest.raises(InvalidValueError, match=r"^tuples"):
        GroupTraffic([0, 1], [1, 0], NOT_ARRAYS[case])


BAD = {
    "operators a list": (lambda: Statistics(operators=[]), "operators=\\[\\] is not a mapping"),
    "operators of numbers": (lambda: Statistics(operators={"a": 1}), "operators\\['a'\\] is 1"),
    "operators by number": (
        lambda: Statistics(operators={1: OperatorStatistics()}),
        "operators: 1 is not a name",
    ),
    "edges by name": (
        lambda: Statistics(edges={"a": EdgeStatistics()}),
        "edges: 'a' is not an edge",
    ),
    "edges of operators": (
        lambda: Statistics(edges={("a", "b"): OperatorStatistics()}),
        "give a EdgeStatistics",
    ),
    "pairs of arrays": (lambda: Statistics(pairs={("a", "b"): [1]}), "give a KeyPairs"),
    "groups of arrays": (lambda: Statistics(groups={"a": [1]}), "give a GroupStatistics"),
    "traffic of arrays": (lambda: Statistics(traffic={("a", "b"): 1}), "give a GroupTraffic"),
    "costs a sketch": (lambda: Statistics(costs={"a": costs(1.0)}), "costs\\['a'\\].*not a list"),
    "costs None": (lambda: Statistics(costs={"a": None}), "costs\\['a'\\]=None"),
    "costs of none": (lambda: Statistics(costs={"a": ()}), "costs\\['a'\\] is empty"),
    "costs of numbers": (lambda: Statistics(costs={"a": (1,)}), "holds 1; give a CostSketch"),
    "costs a list": (lambda: Statistics(costs=[]), "costs=\\[\\] is not a mapping"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_statistics_is_refused_by_name(case):
    build, words = BAD[case]

    with pytest.raises(InvalidValueError, match=words):
        build()


@pytest.mark.parametrize("part", [field.name for field in fields(Statistics)])
def test_wild_input_is_taken_or_refused_but_never_stumbled_over(part):
    taken_or_refused(lambda value: Statistics(**{part: value}))


def test_statistics_are_true_when_anything_was_observed():
    assert not Statistics()
    assert not Statistics(epoch=7, seconds=3.0)
    for seen in (
        Statistics(operators={"a": OperatorStatistics()}),
        Statistics(edges={("a", "b"): EdgeStatistics()}),
        Statistics(pairs={("a", "b"): PAIRS}),
        Statistics(costs={"a": [costs(1.0)]}),
        Statistics(groups={"a": groups(1)}),
        Statistics(traffic={("a", "b"): GroupTraffic([0], [0], [1.0])}),
    ):
        assert seen


UNKNOWN = {
    "operator": (
        Statistics(operators={"ghost": OperatorStatistics()}),
        UnknownNameError,
        "unknown operator 'ghost'",
    ),
    "costs": (Statistics(costs={"ghost": [costs(1.0)]}), UnknownNameError, "operator 'ghost'"),
    "groups": (Statistics(groups={"ghost": groups(1)}), UnknownNameError, "operator 'ghost'"),
    "edge": (
        Statistics(edges={("in", "tag"): EdgeStatistics()}),
        UnknownNameError,
        "unknown edge 'in -> tag'",
    ),
    "pairs of an edge": (
        Statistics(pairs={("place", "clean"): PAIRS}),
        UnknownNameError,
        r"hop between keyed operators \('place', 'clean'\); known: \('place', 'tag'\)",
    ),
    "traffic backwards": (
        Statistics(traffic={("tag", "place"): GroupTraffic([0], [0], [1.0])}),
        UnknownNameError,
        "unknown hop",
    ),
    "number of groups": (
        Statistics(groups={"place": groups(4)}),
        InvalidValueError,
        r"groups\['place'\] has 4 key groups and operator 'place' has 3",
    ),
    "groups of a stateless one": (
        Statistics(groups={"clean": groups(4)}),
        InvalidValueError,
        "'clean'",
    ),
    "source group": (
        Statistics(traffic={("place", "tag"): GroupTraffic([3], [0], [1.0])}),
        InvalidValueError,
        "speaks of group 3 of operator 'place', which has 3",
    ),
    "target group": (
        Statistics(traffic={("place", "tag"): GroupTraffic([0, 2], [1, 2], [1.0, 1.0])}),
        InvalidValueError,
        "speaks of group 2 of operator 'tag', which has 2",
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_the_job_does_not_have_is_refused(case):
    statistics, error, words = UNKNOWN[case]

    with pytest.raises(error, match=words):
        statistics.check(JOB)


def test_what_the_job_has_is_accepted():
    example_statistics(JOB).check(JOB)
    Statistics().check(JOB)
    empty = GroupTraffic([], [], [])
    Statistics(traffic={("place", "tag"): empty}, groups={"place": groups(3)}).check(JOB)
    assert 0 == len(empty)
    assert 3 == len(groups(3))


FULL = example_statistics(JOB)
HOLDERS = [
    (FULL.pairs["place", "tag"], ("left", "right", "counts")),
    (FULL.groups["place"], ("cpu", "memory", "network", "state_bytes")),
    (FULL.traffic["place", "tag"], ("sources", "targets", "tuples")),
]


@pytest.mark.parametrize(("value", "names"), HOLDERS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    "through",
    [lambda v: v, copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))],  # noqa: S301
    ids=["itself", "copy", "deepcopy", "pickle"],
)
def test_arrays_are_write_protected_also_in_copies(value, names, through):
    arrived = through(value)

    assert value == arrived
    for name in names:
        array = getattr(arrived, name)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
        with pytest.raises(AttributeError):
            setattr(arrived, name, array)


def test_statistics_are_the_same_after_pickle_and_copy():
    before = pickle.dumps(FULL)

    assert FULL == pickle.loads(before)  # noqa: S301
    assert FULL == copy.deepcopy(FULL)
    FULL.check(JOB)
    assert before == pickle.dumps(FULL)


def test_nothing_of_statistics_can_be_set():
    seen = Statistics(operators={"a": OperatorStatistics()}, edges={("a", "b"): EdgeStatistics()})

    for value in (seen, seen.operators["a"], seen.edges["a", "b"]):
        for field in fields(value):
            with pytest.raises(AttributeError):
                setattr(value, field.name, None)
    for part in ("operators", "edges", "pairs", "costs", "groups", "traffic"):
        with pytest.raises(TypeError):
            getattr(seen, part)["new"] = 1


def test_what_was_passed_in_can_change_without_changing_the_statistics():
    column, numbers, sketch = np.array([1.0, 2.0]), np.array([0, 1]), costs(1.0, 2.0)
    operators, sketches = {"a": OperatorStatistics(tuples=3)}, [sketch]
    seen = Statistics(
        operators=operators,
        costs={"a": sketches},
        groups={"a": GroupStatistics(column, column, column, column)},
        traffic={("a", "b"): GroupTraffic(numbers, numbers, column)},
    )
    before = pickle.dumps(seen)

    operators.clear()
    sketches.clear()
    sketch.update([1], [100.0])
    column[:] = 9.0
    numbers[:] = 9

    assert before == pickle.dumps(seen)


COLUMNS = arrays.arrays(float, st.just(2), elements=st.sampled_from((0.0, 1.0, 2.5)))


@given(COLUMNS, COLUMNS)
def test_values_with_arrays_are_equal_as_their_arrays_are(first, second):
    left, right = (GroupStatistics(given, first, first, first) for given in (first, second))

    assert (first.tolist() == second.tolist()) == (left == right)
    assert (first.tolist() != second.tolist()) == (left != right)
    assert left != GroupTraffic([0, 1], [0, 1], first)
    with pytest.raises(TypeError, match="unhashable"):
        hash(left)


def test_each_probe_observes_its_own_part_and_together_they_observe_all():
    parts = {
        Probe.OPERATORS: {"operators", "instances", "edges", "sources", "batch_times"},
        Probe.PAIRS: {"pairs", "held_out", "history", "keys"},
        Probe.COSTS: {"costs"},
        Probe.GROUPS: {"groups", "traffic"},
    }

    assert {*Probe} == {*parts}
    for probe, names in parts.items():
        seen = only(FULL, [probe])
        found = {field.name for field in fields(seen)[2:] if getattr(seen, field.name)}
        # For these no probe is needed, but for loads of groups in the past.
        assert names == found - {"past", "execution"}
        assert bool(seen.past.groups) == (probe is Probe.GROUPS)
    assert "operators" == f"{Probe.OPERATORS}"


def test_groups_of_one_operator_need_not_be_many():
    job = Topology((Operator("a", key="k", key_groups=1),))

    Statistics(groups={"a": groups(1)}).check(job)


def test_what_is_remembered_is_all_that_was_seen_of_a_hop_faded_together():
    hop = ("a", "b")
    seen = Statistics(
        pairs={hop: KeyPairs([1, 2], [7, 7], [4.0, 2.0])},
        held_out={hop: KeyPairs([1], [7], [3.0])},
        history={hop: KeyPairs([2, 3], [7, 8], [8.0, 1.0])},
    )

    kept = seen.remembered(0.5)[hop]

    counts = dict(
        zip(
            zip(kept.left.tolist(), kept.right.tolist(), strict=True),
            kept.counts.tolist(),
            strict=True,
        )
    )
    assert {(1, 7): 3.5, (2, 7): 5.0, (3, 8): 0.5} == counts
    assert {} == Statistics(history={hop: kept}).remembered(0.5)
