"""Groupings: small values that say how tuples are spread, and travel as JSON."""

import copy
import importlib
import json
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import (
    GROUPINGS,
    Fields,
    Grouping,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
    grouping_from_dict,
    grouping_to_dict,
)
from sketches.errors import CorruptDataError, InvalidValueError

EACH = st.sampled_from((Shuffle(), LocalOrShuffle(), Fields())) | st.builds(
    PartialKey, st.integers(2, 1_000)
)


@given(EACH)
def test_a_grouping_comes_back_from_json_as_it_was(grouping):
    written = json.dumps(grouping_to_dict(grouping))

    assert grouping == grouping_from_dict(json.loads(written))
    assert written.startswith(f'{{"kind": "{grouping.kind}"')


@given(EACH)
def test_a_grouping_is_a_value(grouping):
    for other in (pickle.loads(pickle.dumps(grouping)), copy.deepcopy(grouping)):  # noqa: S301
        assert grouping == other
        assert hash(grouping) == hash(other)


@given(EACH, EACH)
def test_groupings_are_equal_as_what_is_written_of_them(first, second):
    assert (grouping_to_dict(first) == grouping_to_dict(second)) == (first == second)


def test_no_two_groupings_go_by_one_kind():
    kinds = [grouping.kind for grouping in GROUPINGS]

    assert len(kinds) == len(set(kinds))
    assert {"shuffle", "local_or_shuffle", "fields", "partial_key"} <= {*kinds}


def test_what_a_grouping_promises_is_consistent():
    basic = (Shuffle, LocalOrShuffle, Fields, PartialKey)

    assert [Fields] == [grouping for grouping in basic if grouping.one_owner]
    assert [Fields, PartialKey] == [grouping for grouping in basic if grouping.needs_key]
    assert [None] * 4 == [grouping().instances for grouping in basic]
    assert all(grouping.needs_key for grouping in GROUPINGS if grouping.one_owner)


def test_a_partial_key_has_two_choices_unless_it_says_otherwise():
    assert {"kind": "partial_key", "choices": 2} == grouping_to_dict(PartialKey())
    assert PartialKey() == grouping_from_dict({"kind": "partial_key"})


@pytest.mark.parametrize("choices", [1, 0, -1, True, 2.0, None, "2"])
def test_a_partial_key_chooses_among_two_or_more(choices):
    with pytest.raises(InvalidValueError, match=f"choices={choices!r}"):
        PartialKey(choices)
    with pytest.raises(CorruptDataError, match=f"choices={choices!r}"):
        grouping_from_dict({"kind": "partial_key", "choices": choices})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "a grouping is an object with a kind, not None"),
        ("shuffle", "not 'shuffle'"),
        ([], "with a kind"),
        ({}, "unknown grouping None; known: shuffle, local_or_shuffle, fields"),
        ({"kind": "magic"}, "unknown grouping 'magic'"),
        ({"kind": ["fields"]}, "unknown grouping"),
        ({"kind": "Shuffle"}, "unknown grouping 'Shuffle'"),
        ({"kind": "shuffle", "choices": 2}, "choices"),
        ({"kind": "partial_key", "choice": 2}, "choice"),
        ({"kind": "fields", "kind2": 1}, "kind2"),
    ],
)
def test_what_is_no_grouping_is_refused_by_name(data, words):
    before = copy.deepcopy(data)

    with pytest.raises(CorruptDataError) as caught:
        grouping_from_dict(data)

    assert words in str(caught.value)
    assert before == data


def test_reading_leaves_the_document_as_it_was():
    data = {"kind": "partial_key", "choices": 3}

    grouping_from_dict(data)

    assert {"kind": "partial_key", "choices": 3} == data


class WithoutKind(Grouping):
    """A grouping whose author forgot its kind."""


class Odd(Grouping):
    """A grouping whose kind is no text."""

    kind = 3


@pytest.mark.parametrize("kind", [Grouping, WithoutKind, Odd])
def test_a_grouping_without_a_kind_cannot_be_made(kind):
    with pytest.raises(InvalidValueError, match=f"{kind.__name__} has no kind.*use one that has"):
        kind()


FOREIGN = """
from dataclasses import dataclass

from grouping import Grouping


@dataclass(frozen=True, slots=True)
class Nearest(Grouping):
    kind = "their_streams.groupings:Nearest"


@dataclass(frozen=True, slots=True)
class Misnamed(Grouping):
    kind = "misnamed"
"""


@pytest.fixture
def their_package(tmp_path, monkeypatch):
    package = tmp_path / "their_streams"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "groupings.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("their_streams")]:
        del sys.modules[name]


@pytest.mark.usefixtures("their_package")
def test_a_grouping_of_another_package_passes_through_documents_by_its_place():
    nearest = importlib.import_module("their_streams.groupings").Nearest()

    written = grouping_to_dict(nearest)

    assert {"kind": "their_streams.groupings:Nearest"} == written
    assert nearest == grouping_from_dict(written)


@pytest.mark.usefixtures("their_package")
@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("their_streams.groupings:Farthest", "cannot be imported"),
        ("no_such_package:Nearest", "install the package that has it"),
        (":Nearest", "cannot be imported"),
        ("their_streams.groupings:Misnamed", "is not a grouping of that kind"),
        ("builtins:dict", "is not a grouping of that kind"),
    ],
)
def test_a_place_without_a_grouping_is_refused(kind, complaint):
    with pytest.raises(CorruptDataError, match=complaint):
        grouping_from_dict({"kind": kind})
