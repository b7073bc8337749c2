"""Tables of state against plain dictionaries, with keys that share their places.

A key is named here by its place and a number of its own: `Key(5, 0)` and `Key(5, 1)` are two keys
at one place.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grouping.hashing import key_places, place_parts
from optimizers.errors import InvalidValueError, StateError
from optimizers.runtime.state.keys import check_rows, key_of, keys_at, match, repeats
from optimizers.runtime.state.merge import last_of_each, latest, replaced
from optimizers.runtime.state.table import (
    first_place,
    key_names,
    places_of,
    selected,
)
from sketches.keys import as_keys

LAST = (1 << 64) - 1
PLACES = st.sampled_from([0, 1, 5, 1 << 32, 1 << 63, LAST - 1, LAST]) | st.integers(0, LAST)


class Key(NamedTuple):
    place: int
    own: int

    @property
    def text(self):
        return f"{self.place}/{self.own}"


KEYS = st.builds(Key, PLACES, st.integers(0, 2))
TEXTS = st.none() | st.text(max_size=4)
ROWS = st.tuples(st.integers(-9, 9), TEXTS)
# Many keys at few places, too: then all at one place are gone through.
CROWDS = st.builds(Key, st.sampled_from([0, 7, LAST]), st.integers(0, 40))
STATES = st.one_of(
    st.dictionaries(KEYS, ROWS, max_size=12), st.dictionaries(CROWDS, ROWS, max_size=30)
)
CHANGES = st.one_of(
    st.dictionaries(KEYS, st.none() | ROWS, max_size=12),
    st.dictionaries(CROWDS, st.none() | ROWS, max_size=30),
)


def in_order(state):
    """The keys of a state by place; those of one place in an order that means nothing."""
    return sorted(state, key=lambda key: (key.place, key.own * 7 % (len(state) + 1)))


def table(state, *, chunks=1):
    """A table of state, whose keys are of two columns: a text, and a number."""
    keys = in_order(state)
    rows = pa.table(
        {
            "place": pa.array([key.place for key in keys], pa.uint64()),
            "key_0": pa.array([str(key.place) for key in keys], pa.large_string()),
            "key_1": pa.array([key.own for key in keys], pa.int64()),
            "value_count": pa.array([state[key][0] for key in keys], pa.int64()),
            "value_last": pa.array([state[key][1] for key in keys], pa.string()),
        }
    )
    return rows if chunks == 1 else pa.concat_tables([rows.slice(0, 1), rows.slice(1)])


def names(rows):
    """The keys of a table, row by row."""
    columns = (rows.column(name).to_pylist() for name in ("place", "key_0", "key_1"))
    keys = list(zip(*columns, strict=True))
    assert all(str(place) == text for place, text, _ in keys)
    return [Key(place, own) for place, _, own in keys]


def delta(changes):
    """A table of changes; what is None is gone."""
    rows = table({key: row or (0, None) for key, row in changes.items()})
    gone = [changes[key] is None for key in names(rows)]
    return rows.append_column("gone", pa.array(gone, pa.bool_()))


def content(rows):
    """What a table of state says, as a dictionary."""
    places = rows.column("place").to_pylist()
    assert places == sorted(places)
    assert ["place", "key_0", "key_1", "value_count", "value_last"] == rows.column_names
    keys = names(rows)
    assert len(set(keys)) == len(keys)
    pairs = zip(
        rows.column("value_count").to_pylist(), rows.column("value_last").to_pylist(), strict=True
    )
    return dict(zip(keys, pairs, strict=True))


def array(places):
    return np.array(places, dtype=np.uint64)


@given(STATES, st.lists(CHANGES, max_size=4), st.integers(1, 2))
@example({Key(1, 0): (1, "a")}, [{Key(1, 0): (2, "b")}], 1)  # nothing comes, nothing goes
@example({}, [{Key(1, 0): None}], 1)
@example({Key(1, 0): (1, "a")}, [{Key(1, 1): (2, "b")}], 1)  # one place, two keys
def test_the_latest_row_of_each_key_counts_and_what_is_gone_is_gone(state, changes, chunks):
    expected = dict(state)
    for change in changes:
        expected.update(change)

    found = latest([table(state, chunks=chunks), *map(delta, changes)])

    assert {key: row for key, row in expected.items() if row is not None} == content(found)


@given(st.lists(CHANGES, min_size=1, max_size=4))
def test_of_several_changes_of_a_key_the_last_one_is_kept(changes):
    expected = {}
    for change in changes:
        expected.update(change)

    found = last_of_each([delta(change) for change in changes])

    gone = dict(zip(names(found), found.column("gone").to_pylist(), strict=True))
    assert {key: row is None for key, row in expected.items()} == gone
    left = content(found.drop_columns("gone"))
    assert {key: row for key, row in expected.items() if row} == {
        key: row for key, row in left.items() if not gone[key]
    }


@given(st.lists(STATES, min_size=1, max_size=4))
def test_tables_without_a_mark_of_what_is_gone_add_up_as_well(states):
    expected = {}
    for state in states:
        expected.update(state)

    found = latest([table(state) for state in states])

    assert expected == content(found)
    assert all(1 == column.num_chunks for column in found.columns) or not expected


def test_a_table_of_changes_alone_is_a_state_too():
    assert {Key(2, 0): (1, "b")} == content(latest([delta({Key(1, 0): None, Key(2, 0): (1, "b")})]))
    assert {} == content(latest([delta({})]))


@given(STATES, STATES)
def test_rows_replace_those_of_the_same_keys_and_the_rest_is_as_it_was(state, rows):
    before = table(state)
    copy = content(before)

    assert {**state, **rows} == content(replaced(before, table(rows)))
    assert copy == content(before)


@given(STATES, CHANGES)
def test_rows_may_say_that_their_keys_are_gone_and_where_they_are_may_be_known(state, changes):
    rows = delta(changes)
    gone, plain = rows.column("gone").to_numpy(), rows.drop_columns("gone")
    expected = {key: row for key, row in {**state, **changes}.items() if row is not None}

    for known in (None, match(table(state), plain)):
        assert expected == content(replaced(table(state), plain, gone=gone, known=known))


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
    state = table({Key(place, 0): (place, None) for place in range(1000)})

    found = replaced(state, table({Key(7, 0): (0, "x"), Key(900, 0): (1, "y")}))

    for name in ("place", "key_0"):
        ours, theirs = (rows.column(name).chunk(0).buffers() for rows in (found, state))
        assert [buffer and buffer.address for buffer in theirs] == [
            buffer and buffer.address for buffer in ours
        ]


@given(STATES, st.lists(KEYS | CROWDS, max_size=12), st.data())
@example({}, [Key(3, 0)], None)
@example({Key(3, 0): (0, "")}, [Key(LAST, 0), Key(3, 1), Key(3, 0), Key(0, 0)], None)
def test_keys_are_found_whichever_share_their_place_and_in_any_order(state, keys, data):
    if state and data is not None:
        keys = keys + data.draw(st.lists(st.sampled_from(sorted(state)), max_size=6))
    rows = table(state)
    asked = keys_at(
        array([key.place for key in keys]),
        pa.table(
            {
                "a": pa.array([str(key.place) for key in keys], pa.string()),
                "b": pa.array([key.own for key in keys], pa.int16()),
            }
        ),
    )

    found, numbers = match(rows, asked)

    assert [key in state for key in keys] == found.tolist()
    assert [key for key in keys if key in state] == names(rows.take(pa.array(numbers[found])))


@given(st.lists(KEYS | CROWDS, max_size=30))
def test_of_equal_keys_all_but_the_last_are_repeats(keys):
    keys = sorted(keys, key=lambda key: key.place)
    rows = pa.table(
        {
            "place": pa.array([key.place for key in keys], pa.uint64()),
            "key_0": pa.array([key.text for key in keys], pa.large_string()),
        }
    )

    expected = [key in keys[row + 1 :] for row, key in enumerate(keys)]

    assert expected == repeats(rows).tolist()


@st.composite
def groups(draw):
    """Some of all key groups, in any order."""
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
        state.update({Key(place, 0): (0, "edge") for place in at_the_edges(count, number)})
    places = array([key.place for key in state])
    parts = dict(zip(state, place_parts(places, count).tolist(), strict=True))

    found = selected(table(state), groups=wanted, key_groups=count)

    assert {key: row for key, row in state.items() if parts[key] in wanted} == content(found)


@given(STATES, st.none() | st.lists(PLACES, max_size=9), st.none() | groups(), st.data())
def test_rows_are_selected_by_place_or_by_group(state, places, chosen, data):
    if places is not None and state:
        known = data.draw(st.lists(st.sampled_from(sorted(state)), max_size=4))
        places = places + [key.place for key in known]
    wanted, count = chosen or ([], None)
    parts = place_parts(array([key.place for key in state]), count or 1).tolist()
    expected = {
        key: row
        for (key, row), part in zip(state.items(), parts, strict=True)
        if (places is None and chosen is None)
        or (places is not None and key.place in places)
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
    state = {Key(int(place), 0): (0, None) for place in key_places(codes)}

    sizes = [selected(table(state), groups=[group], key_groups=7).num_rows for group in range(7)]

    assert np.bincount(place_parts(key_places(codes), 7), minlength=7).tolist() == sizes


@pytest.mark.parametrize("wanted", [[-1], [0, 4], [4]])
def test_groups_that_there_are_not_are_refused(wanted):
    with pytest.raises(InvalidValueError, match="give numbers from 0 to 3"):
        selected(table({}), groups=wanted, key_groups=4)


def test_groups_go_with_their_number():
    with pytest.raises(InvalidValueError, match="groups without key_groups"):
        selected(table({}), groups=[0])
    with pytest.raises(InvalidValueError, match="key_groups=0"):
        selected(table({}), groups=[0], key_groups=0)


def test_keys_of_another_type_are_refused():
    other = GOOD.set_column(2, "key_1", pa.array([0, 0], pa.int32()))

    with pytest.raises(StateError, match=r"keys of type int64 in 'key_1' and .* of type int32"):
        match(GOOD, other)


GOOD = table({Key(1, 0): (1, "a"), Key(3, 0): (3, "b")})


def test_a_table_of_state_passes():
    check_rows(GOOD)
    check_rows(table({}))
    check_rows(table({Key(0, 0): (1, "a"), Key(LAST, 0): (2, None)}, chunks=2))
    check_rows(delta({Key(0, 0): None, Key(1, 0): (1, "a")}))
    check_rows(table({Key(5, 0): (1, "a"), Key(5, 1): (2, "b"), Key(5, 2): (3, "c")}))
    assert ["key_0", "key_1"] == key_names(GOOD)
    assert ["3", 0] == key_of(GOOD, 1)
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
        (GOOD.take(pa.array([0, 0])), r"key \['1', 0\] at place 1 is there twice"),
    ],
)
def test_a_table_that_is_none_of_state_is_refused(rows, message):
    with pytest.raises(StateError, match=message):
        check_rows(rows)


def test_states_of_other_columns_do_not_add_up():
    other = GOOD.set_column(3, "value_count", pa.array([1.5, 2.5]))

    with pytest.raises(
        StateError, match=r"value_count int64.* does not add up .*value_count double"
    ):
        latest([GOOD, other])
    with pytest.raises(StateError, match="give at least one"):
        latest([])
