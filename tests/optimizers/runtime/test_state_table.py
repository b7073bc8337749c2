"""Tables of state against plain dictionaries."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grouping.hashing import key_places, place_parts
from optimizers.errors import InvalidValueError, StateError
from optimizers.runtime.state_merging import latest, replaced
from optimizers.runtime.state_table import (
    check_rows,
    check_same_keys,
    first_place,
    key_names,
    look_up,
    of_groups,
    places_of,
    selected,
    slice_of,
    without,
)
from sketches.keys import as_keys

LAST = (1 << 64) - 1
PLACES = st.sampled_from([0, 1, 5, 1 << 32, 1 << 63, LAST - 1, LAST]) | st.integers(0, LAST)
TEXTS = st.none() | st.text(max_size=4)
STATES = st.dictionaries(PLACES, st.tuples(st.integers(-9, 9), TEXTS), max_size=12)
CHANGES = st.dictionaries(PLACES, st.none() | st.tuples(st.integers(-9, 9), TEXTS), max_size=12)


def table(state, *, chunks=1):
    """A table of state: the key is the place's text, so that it can be told what belongs to it."""
    places = sorted(state)
    rows = pa.table(
        {
            "place": pa.array(places, pa.uint64()),
            "key_0": pa.array([f"k{place}" for place in places], pa.string()),
            "value_count": pa.array([state[place][0] for place in places], pa.int64()),
            "value_last": pa.array([state[place][1] for place in places], pa.string()),
        }
    )
    return rows if chunks == 1 else pa.concat_tables([rows.slice(0, 1), rows.slice(1)])


def delta(changes):
    """A table of changes; what is None is gone."""
    rows = table({place: row or (0, None) for place, row in changes.items()})
    gone = [changes[place] is None for place in sorted(changes)]
    return rows.append_column("gone", pa.array(gone, pa.bool_()))


def content(rows):
    """What a table of state says, as a dictionary; each row with its own key."""
    places = rows.column("place").to_pylist()
    assert places == sorted(set(places))
    assert [f"k{place}" for place in places] == rows.column("key_0").to_pylist()
    assert ["place", "key_0", "value_count", "value_last"] == rows.column_names
    pairs = zip(
        rows.column("value_count").to_pylist(), rows.column("value_last").to_pylist(), strict=True
    )
    return dict(zip(places, pairs, strict=True))


def array(places):
    return np.array(places, dtype=np.uint64)


@given(STATES, st.lists(CHANGES, max_size=4), st.integers(1, 2))
@example({1: (1, "a")}, [{1: (2, "b")}], 1)  # nothing comes, nothing goes
@example({}, [{1: None}], 1)
def test_the_latest_row_of_each_key_counts_and_what_is_gone_is_gone(state, changes, chunks):
    expected = dict(state)
    for change in changes:
        expected.update(change)

    found = latest([table(state, chunks=chunks), *map(delta, changes)])

    assert {place: row for place, row in expected.items() if row is not None} == content(found)


@given(st.lists(STATES, min_size=1, max_size=4))
def test_tables_without_a_mark_of_what_is_gone_add_up_as_well(states):
    expected = {}
    for state in states:
        expected.update(state)

    found = latest([table(state) for state in states])

    assert expected == content(found)
    assert all(1 == column.num_chunks for column in found.columns) or not expected


def test_a_table_of_changes_alone_is_a_state_too():
    assert {2: (1, "b")} == content(latest([delta({1: None, 2: (1, "b")})]))
    assert {} == content(latest([delta({})]))


@given(STATES, STATES)
def test_rows_replace_those_of_the_same_keys_and_the_rest_is_as_it_was(state, rows):
    before = table(state)
    copy = content(before)

    assert {**state, **rows} == content(replaced(before, table(rows)))
    assert copy == content(before)


COLUMNS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "uint64": (pa.uint64(), st.integers(0, LAST)),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
    "time": (pa.timestamp("us"), st.datetimes()),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-9, 9), max_size=2)),
    "struct": (pa.struct({"a": pa.int64()}), st.fixed_dictionaries({"a": st.integers(-9, 9)})),
}


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=40)
@given(data=st.data())
def test_values_of_any_type_are_replaced_to_the_last_bit(name, data):
    kind, values = COLUMNS[name]
    states = st.dictionaries(
        st.integers(0, 9), data.draw(st.sampled_from([values, st.none() | values]))
    )
    state, change = data.draw(states), data.draw(states)
    if data.draw(st.booleans()):
        change = {place: value for place, value in change.items() if place in state}

    def of(cells):
        places = sorted(cells)
        return pa.table(
            {
                "place": pa.array(places, pa.uint64()),
                "value_it": pa.array([cells[place] for place in places], kind),
            }
        )

    before = of(state)
    found = replaced(before, of(change))

    assert of({**state, **change}).equals(found)
    assert of(state).equals(before)


def test_where_no_key_is_new_places_and_keys_are_not_copied():
    state = table({place: (place, None) for place in range(1000)})

    found = replaced(state, table({7: (0, "x"), 900: (1, "y")}))

    for name in ("place", "key_0"):
        ours, theirs = (rows.column(name).chunk(0).buffers() for rows in (found, state))
        assert [buffer and buffer.address for buffer in theirs] == [
            buffer and buffer.address for buffer in ours
        ]


@given(STATES, st.lists(PLACES, max_size=12))
@example({}, [3])
@example({3: (0, "")}, [LAST, 3, 0])
def test_keys_are_looked_up_by_their_places_in_any_order(state, places):
    rows = table(state)

    found, numbers = look_up(rows, array(places))

    assert [place in state for place in places] == found.tolist()
    present = [place for place in places if place in state]
    assert present == rows.column("place").take(pa.array(numbers[found])).to_pylist()


@given(STATES, st.lists(PLACES, max_size=12))
def test_keys_are_left_out_by_their_places(state, places):
    found = without(table(state), array(places))

    assert {place: row for place, row in state.items() if place not in places} == content(found)


@given(STATES, PLACES, PLACES)
def test_a_slice_has_the_keys_between_two_places_and_both_of_them(state, first, last):
    found = slice_of(table(state), first, last)

    assert {place: row for place, row in state.items() if first <= place <= last} == content(found)


@st.composite
def groups(draw):
    """Some of so many key groups, in any order."""
    count = draw(st.integers(1, 9) | st.sampled_from([128, 1000, (1 << 31) - 1]))
    return draw(st.lists(st.integers(0, count - 1), max_size=6)), count


def at_the_edges(count, number):
    """Places that are the first of a group, and those before."""
    first = first_place(number, count)
    return [place for place in (first - 1, first, first + 1) if 0 <= place <= LAST]


@given(STATES, groups(), st.data())
def test_the_keys_of_a_group_are_those_that_hash_into_it(state, chosen, data):
    wanted, count = chosen
    for number in data.draw(st.lists(st.integers(0, count), max_size=3)):
        state.update(dict.fromkeys(at_the_edges(count, number), (0, "edge")))
    parts = dict(zip(state, place_parts(array(list(state)), count).tolist(), strict=True))

    found = of_groups(table(state), wanted, count)

    assert {place: row for place, row in state.items() if parts[place] in wanted} == content(found)


@given(STATES, st.none() | st.lists(PLACES, max_size=9), st.none() | groups(), st.data())
def test_rows_are_selected_by_place_or_by_group(state, places, chosen, data):
    if places is not None and state:
        places = places + data.draw(st.lists(st.sampled_from(sorted(state)), max_size=4))
    wanted, count = chosen or ([], None)
    parts = place_parts(array(list(state)), count or 1).tolist()
    expected = {
        place: row
        for (place, row), part in zip(state.items(), parts, strict=True)
        if (places is None and chosen is None)
        or (places is not None and place in places)
        or part in wanted
    }

    found = selected(
        table(state),
        places=None if places is None else array(places),
        groups=None if chosen is None else wanted,
        key_groups=count,
    )

    assert expected == content(found)


def test_places_of_keys_make_the_same_groups_as_routing_does():
    codes = as_keys([f"key {number}" for number in range(500)]).codes
    state = {int(place): (0, None) for place in key_places(codes)}

    sizes = [of_groups(table(state), [group], 7).num_rows for group in range(7)]

    assert np.bincount(place_parts(key_places(codes), 7), minlength=7).tolist() == sizes


@pytest.mark.parametrize("wanted", [[-1], [0, 4], [4]])
def test_groups_that_there_are_not_are_refused(wanted):
    with pytest.raises(InvalidValueError, match="give numbers from 0 to 3"):
        of_groups(table({}), wanted, 4)


def test_groups_go_with_their_number():
    with pytest.raises(InvalidValueError, match="groups without key_groups"):
        selected(table({}), groups=[0])
    with pytest.raises(InvalidValueError, match="key_groups=0"):
        selected(table({}), groups=[0], key_groups=0)


KEYS = st.lists(st.tuples(st.text(max_size=3), st.integers(-5, 5)), max_size=6)


KEY_TYPES = (pa.string(), pa.int64())


def keyed(keys, kinds=KEY_TYPES):
    columns = {f"key_{i}": pa.array([key[i] for key in keys], kinds[i]) for i in range(2)}
    return pa.table({"place": pa.array(range(len(keys)), pa.uint64()), **columns})


@given(KEYS)
def test_equal_keys_pass(keys):
    check_same_keys(keyed(keys), keyed(keys))


@given(KEYS.filter(bool), st.data())
def test_a_key_that_differs_in_any_column_is_named(keys, data):
    row = data.draw(st.integers(0, len(keys) - 1))
    column = data.draw(st.integers(0, 1))
    other = list(keys)
    other[row] = tuple(
        (value + ("!" if name == 0 else 1) if name == column else value)
        for name, value in enumerate(keys[row])
    )

    with pytest.raises(StateError, match="have one place") as caught:
        check_same_keys(keyed(keys), keyed(other))
    assert f"keys {keys[row][column]!r} and {other[row][column]!r}" in str(caught.value)
    assert f"place, {row}, " in str(caught.value)


def test_a_missing_key_is_no_equal_of_any():
    with pytest.raises(StateError, match="keys 'a' and None"):
        check_same_keys(keyed([("a", 1)]), keyed([(None, 1)]))


def test_keys_of_another_type_are_refused():
    with pytest.raises(StateError, match=r"keys of type int64 in 'key_1' and .* of type int32"):
        check_same_keys(keyed([("a", 1)]), keyed([("a", 1)], (pa.string(), pa.int32())))


GOOD = table({1: (1, "a"), 3: (3, "b")})


def test_a_table_of_state_passes():
    check_rows(GOOD)
    check_rows(table({}))
    check_rows(table({0: (1, "a"), LAST: (2, None)}, chunks=2))
    check_rows(delta({0: None, 1: (1, "a")}))
    assert ["key_0"] == key_names(GOOD)
    assert [1, 3] == places_of(GOOD).tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (GOOD.drop_columns(["place"]), "has no column 'place'"),
        (GOOD.append_column("total", pa.array([1, 2])), "column 'total'; call it .*value_total"),
        (GOOD.append_column("key_0", pa.array([1, 2])), "are not told apart"),
        (GOOD.set_column(0, "place", pa.array([1, 2])), "'place' of state is of type int64"),
        (
            GOOD.set_column(0, "place", pa.array([1, None], pa.uint64())),
            "type uint64 with 1 nulls; make it uint64",
        ),
        (GOOD.append_column("gone", pa.array([0, 1])), "'gone' of state is of type int64"),
        (GOOD.append_column("gone", pa.array([True, None])), "bool with 1 nulls"),
        (GOOD.take(pa.array([1, 0])), "place 1 comes after 3 at row 1"),
        (GOOD.take(pa.array([0, 0])), "place 1 comes after 1 at row 1"),
    ],
)
def test_a_table_that_is_none_of_state_is_refused(rows, message):
    with pytest.raises(StateError, match=message):
        check_rows(rows)


def test_states_of_other_columns_do_not_add_up():
    other = GOOD.set_column(2, "value_count", pa.array([1.5, 2.5]))

    with pytest.raises(
        StateError, match=r"value_count int64.* does not add up .*value_count double"
    ):
        latest([GOOD, other])
    with pytest.raises(StateError, match="give at least one"):
        latest([])
