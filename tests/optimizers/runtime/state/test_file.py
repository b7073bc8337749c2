"""Files of state: read back as written, in whole or in part, and never when damaged."""

import json
import pickle
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.hashing import place_parts
from optimizers.errors import CheckpointError, CorruptDataError, InvalidValueError, StateError
from optimizers.runtime.state.file import (
    MOST_DELTAS,
    Attempt,
    FileKind,
    StateFile,
    folder_of,
    read_state,
    read_states,
    should_rewrite,
    write_state,
)
from optimizers.runtime.storage.location import Location

PLACES = st.integers(0, (1 << 64) - 1)
STATES = st.dictionaries(PLACES, st.lists(st.integers(-9, 9), max_size=3), max_size=12)


def table(state, gone=None):
    places = sorted(state)
    rows = pa.table(
        {
            "place": pa.array(places, pa.uint64()),
            "key_0": pa.array([f"ключ {place}" for place in places], pa.string()),
            "value_seen": pa.array([state[place] for place in places], pa.list_(pa.int64())),
        }
    )
    if gone is None:
        return rows
    return rows.append_column("gone", pa.array([place in gone for place in places], pa.bool_()))


def content(rows):
    return dict(zip(rows["place"].to_pylist(), rows["value_seen"].to_pylist(), strict=True))


def attempt(batch=7, name="a1", operator="count", instance=3):
    return Attempt(operator, instance, batch, name)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A new folder for each example of a property."""
    return lambda: Location(tmp_path_factory.mktemp("state"))


@pytest.fixture
def here(tmp_path):
    return Location(tmp_path)


@given(STATES)
def test_a_state_is_read_back_as_it_was_written(folders, state):
    here = folders()

    file = write_state(here, attempt(), table(state), kind=FileKind.BASE)

    assert table(state).equals(read_state(here, file))
    assert here.list("state") == {file.path: file.bytes}
    assert ("state/count/0000000007-3-a1.arrow", 7, len(state), FileKind.BASE) == (
        file.path,
        file.batch,
        file.rows,
        file.kind,
    )


@given(
    STATES,
    st.lists(st.tuples(STATES, st.sets(PLACES)), max_size=3),
    st.tuples(
        st.none() | st.lists(PLACES, max_size=5),
        st.none() | st.lists(st.integers(0, 3), max_size=3),
    ),
    st.data(),
)
def test_files_add_up_to_the_state_or_to_the_wanted_part(folders, state, changes, wanted, data):
    here = folders()
    places, groups = wanted
    files = [write_state(here, attempt(0), table(state), kind=FileKind.BASE)]
    expected = dict(state)
    for batch, (change, gone) in enumerate(changes, start=1):
        left = gone | set(data.draw(st.lists(st.sampled_from(sorted(expected) or [0]))))
        rows = table({**{place: [] for place in left}, **change}, gone=left - set(change))
        files.append(write_state(here, attempt(batch), rows, kind=FileKind.DELTA))
        expected = {place: row for place, row in expected.items() if place not in left}
        expected.update(change)
    if places is not None and expected:
        places = places + data.draw(st.lists(st.sampled_from(sorted(expected)), max_size=3))
    part = dict(
        zip(expected, place_parts(np.array(list(expected), np.uint64), 4).tolist(), strict=True)
    )

    found = read_states(
        here,
        files,
        places=None if places is None else np.array(places, np.uint64),
        groups=groups,
        key_groups=None if groups is None else 4,
    )

    assert content(found) == {
        place: row
        for place, row in expected.items()
        if (places is None and groups is None)
        or place in (places or [])
        or part[place] in (groups or [])
    }


def test_what_was_read_outlives_its_file(here):
    file = write_state(here, attempt(), table({1: [1], 2: [2]}), kind=FileKind.BASE)

    rows = read_state(here, file)
    part = read_state(here, file, places=np.array([2], np.uint64))
    Path(here.path_of(file.path)).write_bytes(bytes(file.bytes))  # where the file was, no other

    assert {1: [1], 2: [2]} == content(rows)
    assert {2: [2]} == content(part)


def test_a_slice_of_a_table_is_written_alone(here):
    rows = table({place: [place] for place in range(10_000)})

    file = write_state(here, attempt(), rows.slice(5000, 10), kind=FileKind.BASE)

    assert 10 == file.rows
    assert file.bytes < 5000
    assert rows.slice(5000, 10).equals(read_state(here, file))


SMALL = table({5: [1, 2], 1 << 40: [], (1 << 64) - 1: [3]}, gone={5})


def test_every_byte_that_changes_is_noticed(here):
    file = write_state(here, attempt(), SMALL, kind=FileKind.DELTA)
    path = Path(here.path_of(file.path))
    good = path.read_bytes()

    for place in range(len(good)):
        for mask in (1, 128):
            path.write_bytes(good[:place] + bytes([good[place] ^ mask]) + good[place + 1 :])
            with pytest.raises(CheckpointError, match=r"a1\.arrow is damaged: its checksum"):
                read_state(here, file)
    path.write_bytes(good)
    assert SMALL.equals(read_state(here, file))


@pytest.mark.parametrize("part", [{}, {"places": np.array([5], np.uint64)}], ids=["all", "part"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], r"is torn: \d+ of \d+ bytes are there; bring .* batch 7 back"),
        (lambda data: b"", r"is torn: 0 of \d+ bytes are there"),
        (lambda data: data + b"\0", r"has \d+ bytes, not \d+"),
        (lambda data: bytes(len(data)), "is damaged: its checksum is not the one committed"),
    ],
)
def test_a_torn_or_foreign_file_is_not_read(here, damage, message, part):
    file = write_state(here, attempt(), SMALL, kind=FileKind.DELTA)
    path = Path(here.path_of(file.path))
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(CheckpointError, match=f"{file.path} {message}"):
        read_state(here, file, **part)


def test_the_file_of_another_instance_is_not_taken_for_this_one(here):
    file = write_state(here, attempt(), SMALL, kind=FileKind.DELTA)
    other = write_state(here, attempt(instance=4), SMALL.slice(0, 2), kind=FileKind.DELTA)
    path, strange = (Path(here.path_of(each.path)) for each in (file, other))
    path.write_bytes(strange.read_bytes())

    with pytest.raises(CheckpointError, match=r"0000000007-3-a1\.arrow"):
        read_state(here, file)


def test_a_missing_file_is_named(here):
    file = write_state(here, attempt(), SMALL, kind=FileKind.DELTA)
    here.delete(file.path)

    with pytest.raises(CheckpointError, match=r"0000000007-3-a1\.arrow: it is missing"):
        read_state(here, file)


def test_a_file_whose_checksum_holds_must_still_be_one_of_state(here):
    file = write_state(here, attempt(), SMALL, kind=FileKind.DELTA)

    with pytest.raises(CheckpointError, match="has 3 rows, not 4"):
        read_state(here, replace(file, rows=4))
    noise = b"no Arrow file, nor anything like it"
    Path(here.path_of(file.path)).write_bytes(noise)
    with pytest.raises(CheckpointError, match="is no Arrow file"):
        read_state(here, replace(file, bytes=len(noise), checksum=zlib.crc32(noise)))


def test_two_attempts_of_one_name_are_told(here):
    file = write_state(here, attempt(), SMALL, kind=FileKind.DELTA)

    with pytest.raises(CheckpointError, match="is already there"):
        write_state(here, attempt(), SMALL.slice(0, 1), kind=FileKind.DELTA)
    assert SMALL.equals(read_state(here, file))


def test_rows_that_are_none_of_state_are_not_written(here):
    with pytest.raises(StateError, match="comes after"):
        write_state(here, attempt(), SMALL.take(pa.array([1, 0])), kind=FileKind.DELTA)
    with pytest.raises(StateError, match="a base has no column 'gone'"):
        write_state(here, attempt(), SMALL, kind=FileKind.BASE)
    assert {} == here.list("")


def test_a_folder_is_named_so_that_every_file_system_takes_it():
    assert "state/count_1-b.c" == folder_of("count_1-b.c")
    assert "state/gr%C3%B6%C3%9Fe%3Aa%40b" == folder_of("größe:a@b")


@pytest.mark.parametrize("name", ["größe", "a:b@c.d", "A", "x" * 40])
def test_any_operator_may_have_state(here, name):
    file = write_state(here, attempt(operator=name), SMALL, kind=FileKind.DELTA)

    assert file.path.startswith(folder_of(name) + "/")
    assert 3 == len(file.path.split("/"))
    assert SMALL.equals(read_state(here, file))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a/b"}, "attempt 'a/b' cannot name a file"),
        ({"name": ""}, "attempt '' cannot name a file"),
        ({"instance": -1}, "instance=-1"),
        ({"batch": 10**10}, "batch=10000000000"),
    ],
)
def test_attempts_that_could_not_name_a_file_are_refused(fields, message):
    with pytest.raises(InvalidValueError, match=message):
        attempt(**fields)


FILE = StateFile("state/count/0000000007-3-a1.arrow", 7, 5, 900, 4_000_000_000, FileKind.DELTA)


def test_a_file_is_told_in_json_and_travels():
    told = json.loads(json.dumps(FILE.to_dict()))

    assert FILE == StateFile.from_value(told) == pickle.loads(pickle.dumps(FILE))  # noqa: S301
    assert FileKind.DELTA is StateFile.from_value(told).kind


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", "state/../penstock.json"),
        ("path", "state/../0000000007-3-a1.arrow"),
        ("path", "output/count/0000000007-3-a1.arrow"),
        ("path", "state/a/b/0000000007-3-a1.arrow"),
        ("batch", -1),
        ("batch", 7.0),
        ("rows", -1),
        ("bytes", "900"),
        ("checksum", 1 << 32),
        ("kind", "half"),
        ("more", 1),
    ],
)
def test_a_file_that_cannot_be_is_refused(field, value):
    with pytest.raises(CorruptDataError, match=field):
        StateFile.from_value({**FILE.to_dict(), field: value})


def files(base, *deltas):
    kinds = [FileKind.BASE, *[FileKind.DELTA] * len(deltas)]
    return [
        replace(FILE, bytes=size, kind=kind)
        for size, kind in zip([base, *deltas], kinds, strict=True)
    ]


def test_all_is_written_anew_when_changes_outweigh_it_or_are_many():
    assert should_rewrite([])
    assert should_rewrite(files(100, 50)[1:])
    assert not should_rewrite(files(100))
    assert not should_rewrite(files(100, 50, 50))
    assert should_rewrite(files(100, 50, 51))
    assert not should_rewrite(files(1000, *[1] * MOST_DELTAS))
    assert should_rewrite(files(1000, *[1] * (MOST_DELTAS + 1)))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200))
def test_what_has_to_be_read_is_little_more_than_twice_the_state(sizes):
    # At worst all that changes is new, and the base is all of it.
    total, chain = 0, []
    for size in sizes:
        total += size
        chain = [total] if not chain or should_rewrite(files(*chain)) else [*chain, size]

        assert sum(chain) <= 2 * total
        assert len(chain) <= MOST_DELTAS + 2
