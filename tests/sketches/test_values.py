"""Values that never change: maps, arrays and lists as frozen things hold them."""

import copy
import pickle
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches.errors import InvalidValueError
from sketches.values import (
    ArrayValue,
    FrozenMap,
    listed,
    named,
    named_by_pair,
    numeric,
    protected,
)

MAPS = st.dictionaries(st.text(max_size=3), st.integers())


@given(MAPS)
def test_a_frozen_map_is_the_map_in_sorted_order(items):
    frozen = FrozenMap(items)

    assert items == frozen
    assert frozen == items
    assert sorted(items) == list(frozen)
    assert sorted(items.items()) == list(frozen.items())
    assert len(items) == len(frozen)
    assert f"FrozenMap({dict(sorted(items.items()))!r})" == repr(frozen)
    assert frozen == eval(repr(frozen))  # noqa: S307  # our own words


@given(MAPS, MAPS)
def test_frozen_maps_are_equal_and_hash_alike_as_their_items_do(first, second):
    left, right = FrozenMap(first), FrozenMap(second)

    assert (first == second) == (left == right)
    if left == right:
        assert hash(left) == hash(right)


@given(MAPS)
def test_the_order_of_writing_makes_no_difference(items):
    backwards = dict(reversed(items.items()))

    assert repr(FrozenMap(items)) == repr(FrozenMap(backwards))
    assert hash(FrozenMap(items)) == hash(FrozenMap(backwards))


@given(MAPS)
def test_a_frozen_map_travels(items):
    frozen = FrozenMap(items)

    for arrived in (pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen), copy.copy(frozen)):  # noqa: S301
        assert FrozenMap is type(arrived)
        assert frozen == arrived


def test_a_frozen_map_cannot_change():
    items = {"a": 1}
    frozen = FrozenMap(items)
    items["b"] = 2

    for change in (
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.pop("a"),
        lambda: frozen.update(a=2),
        lambda: setattr(frozen, "_items", {}),
        lambda: setattr(frozen, "more", 1),
        lambda: delattr(frozen, "_items"),
    ):
        with pytest.raises(AttributeError):
            change()
    with pytest.raises(TypeError):
        frozen["a"] = 2
    assert {"a": 1} == frozen


def test_a_frozen_map_knows_what_it_lacks():
    assert "x" not in FrozenMap({"a": 1})
    assert FrozenMap().get("x") is None
    with pytest.raises(KeyError):
        FrozenMap()["x"]
    assert FrozenMap({"a": 1}) != 3
    assert FrozenMap() == FrozenMap(None) == {}
    with pytest.raises(InvalidValueError, match="items=3 is not a mapping"):
        FrozenMap(3)


@dataclass(frozen=True, eq=False)
class Pair(ArrayValue):
    name: str
    array: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "array", protected(self.array))


def test_values_with_arrays_are_compared_by_kind_and_content():
    value = Pair("x", np.array([1, 2]))

    assert value == Pair("x", np.array([1, 2]))
    assert value != Pair("y", np.array([1, 2]))
    assert value != Pair("x", np.array([1, 3]))
    assert value != Pair("x", np.array([1, 2, 3]))
    assert value != Pair("x", np.array([1.0, 2.0]))
    assert value != Pair(1, np.array([1, 2]))
    assert value != ("x", np.array([1, 2]))
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


@pytest.mark.parametrize("array", [np.array([1, 2]), np.array(["a", None], object)])
def test_values_with_arrays_travel_protected(array):
    value = Pair("x", array)
    array[0] = array[1]

    for arrived in (value, pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):  # noqa: S301
        assert value == arrived
        assert arrived.array[0] != arrived.array[1]
        with pytest.raises(ValueError, match="read-only"):
            arrived.array[0] = arrived.array[1]


@pytest.mark.parametrize(
    "values", [[1, 2], (1, 2), iter([1, 2]), np.array([1, 2]), {1: 0, 2: 0}.keys()]
)
def test_whatever_has_an_order_is_a_list(values):
    assert (1, 2) == listed("things", values)


@pytest.mark.parametrize(
    "values", [None, 3, "ab", b"ab", {"a": 1}, {1, 2}, frozenset({1}), object()]
)
def test_what_has_no_members_or_no_order_is_no_list(values):
    with pytest.raises(InvalidValueError, match=r"^things=.*(list|order)"):
        listed("things", values)


@pytest.mark.parametrize("values", [[[1], [1, 2]], [np.ones(2), np.ones(3)]])
def test_what_is_ragged_is_no_array(values):
    with pytest.raises(InvalidValueError, match=r"^things=.*not an array"):
        numeric("things", values)


def test_arrays_pass_as_they_are():
    array = np.array([1.5, 2.5])

    assert array is numeric("things", array)
    assert [1, 2] == numeric("things", [1, 2]).tolist()


def test_maps_of_names_are_checked_entry_by_entry():
    assert FrozenMap({"a": 1}) == named("things", OrderedDict(a=1), int)
    assert FrozenMap({("a", "b"): 1}) == named_by_pair("things", {("a", "b"): 1}, int)


@pytest.mark.parametrize(
    ("check", "values", "words"),
    [
        (named, [("a", 1)], "things=.*is not a mapping"),
        (named, None, "things=None is not a mapping"),
        (named, {1: 1}, "things: 1 is not a name"),
        (named, {None: 1}, "things: None is not a name"),
        (named, {"a": "1"}, r"things\['a'\] is '1'; give a int"),
        (named_by_pair, {"ab": 1}, "things: 'ab' is not an edge; write"),
        (named_by_pair, {("a",): 1}, "is not an edge"),
        (named_by_pair, {("a", 1): 1}, "is not an edge"),
        (named_by_pair, {("a", "b"): None}, r"things\[\('a', 'b'\)\] is None; give a int"),
        (named_by_pair, 3, "things=3 is not a mapping"),
    ],
)
def test_what_is_no_map_of_names_is_refused_by_its_entry(check, values, words):
    with pytest.raises(InvalidValueError, match=words):
        check("things", values, int)
