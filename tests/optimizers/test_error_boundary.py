"""Errors as users see them: their own lines, one sentence, and where the rest is."""

import dataclasses
import re
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from optimizers import Topology
from optimizers.error_boundary import DEBUG, front_door, shortened
from optimizers.errors import FoldError, PenstockError, PlanError
from optimizers.folds import each_row


def deep(number, cause):
    if number:
        return deep(number - 1, cause)
    raise FoldError("a key is missing; fill it in") from cause


@front_door
def outer(cause=None):
    """Say what it does."""
    return inner(cause)


@front_door
def inner(cause):
    return deep(1, cause)


@pytest.fixture(autouse=True)
def kept_here(monkeypatch, tmp_path):
    monkeypatch.delenv(DEBUG, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def lines_of(error):
    return "".join(traceback.format_exception(error)).splitlines()


def told(function, *arguments):
    with pytest.raises(FoldError, match=r"^a key is missing; fill it in") as raised:
        function(*arguments)
    return raised.value


def test_they_see_their_own_lines_and_one_sentence():
    shown = lines_of(told(outer))

    frames = [line for line in shown if line.startswith("  File")]
    names = [frame.rpartition(" in ")[2] for frame in frames]
    assert names == ["told", "through", "outer", "inner", "deep", "deep"]  # of this file, but one
    assert shown[-1] == "optimizers.errors.FoldError: a key is missing; fill it in"


def test_what_led_to_it_is_in_a_file_that_is_named_and_can_still_be_had():
    cause = ValueError("x" * 10_000)

    error = told(outer, cause)

    shown = lines_of(error)
    assert not any("ValueError" in line for line in shown)
    file = Path(re.search(r"what led to it is in (\S+); set PENSTOCK_DEBUG=1", shown[-1])[1])
    kept = file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert str(cause) in kept
    assert "in deep" in kept
    assert kept.endswith("FoldError: a key is missing; fill it in\n")
    assert error.__context__ is cause


def test_it_is_told_once_however_often_it_crosses_a_door():
    error = told(outer, ValueError("x"))

    @front_door
    def again():
        raise error

    assert len(told(again).__notes__) == 1


def test_where_it_cannot_be_kept_the_setting_is_named(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")

    (note,) = told(outer, ValueError("x")).__notes__

    assert "could not be kept" in note
    assert f"set {DEBUG}=1" in note


@pytest.mark.parametrize("value", ["1", "yes"])
def test_the_setting_shows_all_of_it(monkeypatch, tmp_path, value):
    monkeypatch.setenv(DEBUG, value)

    shown = lines_of(told(outer, ValueError("the cause")))

    assert any("ValueError: the cause" in line for line in shown)
    assert any("in deep" in line for line in shown)
    assert not list(tmp_path.iterdir())


def test_errors_of_their_own_functions_keep_their_type_and_their_lines():
    function = each_row(lambda row: 1 / row["x"])

    with pytest.raises(ZeroDivisionError) as raised:
        front_door(function)(pa.record_batch({"x": [0]}))

    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert [__file__, front_door.__code__.co_filename, __file__] == files


def test_errors_that_are_neither_ours_nor_theirs_come_as_they_are():
    with pytest.raises(AttributeError) as raised:
        front_door(each_row(dict))("no batch")

    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[1:] == ["through", "__call__"]


def test_results_and_names_go_through_as_they_are():
    assert front_door(sum)([1, 2]) == 3
    assert outer.__doc__ == "Say what it does."


def test_lines_of_dataclasses_are_between_ours():
    topology = Topology.source("s")

    with pytest.raises(PenstockError) as raised:
        front_door(dataclasses.replace)(topology, operators=("s",))

    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert [__file__, front_door.__code__.co_filename] == files


def test_it_may_be_told_where_it_is_kept_for_later():
    short = shortened(PlanError("no"))

    assert short.__cause__ is None
    assert not hasattr(short, "__notes__")
