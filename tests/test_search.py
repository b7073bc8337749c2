"""The search: every property on as many examples as wanted, whatever becomes of its process."""

import json
import re
import runpy
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SEARCH = TESTS / "search"

PROPERTIES = """
import os
import time

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

NUMBERS = st.integers(0, 10**9)


@settings(max_examples=3)
@given(NUMBERS)
def test_holds(number):
    assert number >= 0


@pytest.fixture(params=["one", "other"], scope="module")
def kind(request):
    return request.param


@pytest.mark.parametrize("name", ["a::b"])
@given(number=NUMBERS)
@settings(max_examples=3)
def test_has_parameters(kind, name, number):
    assert kind in {"one", "other"}


@given(st.booleans())
def test_has_few_inputs(yes):
    assert yes in {True, False}


@given(NUMBERS)
def test_fails(number):
    assert number < 10**8


@given(NUMBERS)
def test_ends_the_process(number):
    if number >= 10**8:
        os.abort()


@given(NUMBERS)
def test_takes_long(number):
    time.sleep(0.1)


class Machine(RuleBasedStateMachine):
    @rule(number=NUMBERS)
    def step(self, number):
        pass


Machine.TestCase.settings = settings(max_examples=3, stateful_step_count=3)
TestMachine = Machine.TestCase


def test_is_no_property():
    raise AssertionError
"""


def searched(folder, *options):
    command = [sys.executable, str(SEARCH), "--folder", str(folder / "found"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    progress = json.loads((folder / "found" / "progress.json").read_text("utf-8"))
    entries = {Path(name).name: entry for name, entry in progress["properties"].items()}
    return done, entries


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    (folder / "test_some.py").write_text(PROPERTIES, "utf-8")
    path = str(folder / "test_some.py")
    options = ("--examples", "120", "--round", "60", "--seconds", "4")
    return folder, *searched(folder, path, *options, "--seed", "7", "--processes", "2")


def test_a_search_tries_as_many_as_wanted_whatever_a_property_is_given_when_all_tests_are_run(
    first,
):
    _, done, entries = first

    assert done.returncode == 1
    assert {
        "test_holds": ("done", 120),
        "test_has_parameters[one-a::b]": ("done", 120),
        "test_has_parameters[other-a::b]": ("done", 120),
        "TestMachine::runTest": ("done", 120),
        "test_has_few_inputs": ("exhausted", 2),
    } == {
        name.partition("::")[2]: (entry["state"], entry["examples"])
        for name, entry in entries.items()
        if entry["state"] in {"done", "exhausted"}
    }


def test_a_search_says_which_properties_had_fewer_examples_than_wanted(first):
    _, done, entries = first
    short = entries["test_some.py::test_takes_long"]

    assert short["state"] == "short"
    assert short["examples"] == 50  # the first round is a short one
    assert re.search(
        rf"short: {short['examples']} examples in \d+ s: .*test_takes_long", done.stdout
    )
    assert "of 8 properties 5 have had enough of them, 1 fewer, 2 are broken" in done.stdout


def test_what_is_found_is_kept_and_the_search_goes_on(first):
    _, done, entries = first
    found = {
        name.partition("::")[2]: (entry["state"], Path(entry["report"]).read_text("utf-8"))
        for name, entry in entries.items()
        if entry["report"]
    }

    assert {"test_fails", "test_ends_the_process"} == set(found)
    assert found["test_fails"][0] == "failed"
    assert re.search(r"number=100_?000_?000,", found["test_fails"][1])
    assert "@reproduce_failure(" in found["test_fails"][1]
    assert "tests/search --seed 7 '" in found["test_fails"][1]
    assert found["test_ends_the_process"][0] == "aborted"
    assert "the process died of SIGABRT" in found["test_ends_the_process"][1]
    told = found["test_ends_the_process"][1]
    tried = re.findall(r"number=([\d_]+)", told.partition("Fatal Python")[0])
    assert tried, told
    assert int(tried[-1]) >= 10**8
    for name in found:
        assert f"::{name}\n" in done.stdout


CODE = """
import time
from hypothesis import given, strategies as st

@given(st.integers())
def test_holds(number):
    assert number == number

@given(st.integers())
def test_of_late(number):
    assert number != number
"""


def test_a_search_goes_on_where_it_ended_and_tries_again_what_has_changed(tmp_path):
    for name in ("test_one.py", "test_other.py"):
        (tmp_path / name).write_text(CODE, "utf-8")
    path, progress = str(tmp_path), tmp_path / "found" / "progress.json"
    options = ("--round", "10", "--processes", "2", "--examples")
    searched(tmp_path, path, *options, "10")
    before = json.loads(progress.read_text("utf-8"))
    (tmp_path / "test_other.py").write_text(CODE.replace("!=", "=="), "utf-8")
    tried, entries = searched(tmp_path, path, *options, "20", "--resume")

    assert tried.returncode == 1
    assert before["seed"] == json.loads(progress.read_text("utf-8"))["seed"]
    assert {
        "test_one.py::test_holds": ("done", 20, 2),
        "test_one.py::test_of_late": ("failed", 0, 1),
        "test_other.py::test_holds": ("done", 20, 2),
        "test_other.py::test_of_late": ("done", 20, 2),
    } == {name: (e["state"], e["examples"], e["rounds"]) for name, e in entries.items()}
    assert tried.stdout.count("test_of_late") == 1


HANGS = """
import time
from hypothesis import given, strategies as st

@given(st.integers())
def test_hangs(number):
    if number > 100:
        time.sleep(10**6)
"""


def test_a_property_that_gives_no_sign_is_ended(tmp_path):
    (tmp_path / "test_it.py").write_text(HANGS, "utf-8")

    done, entries = searched(tmp_path, str(tmp_path), "--patience", "8")

    assert done.returncode == 1
    assert entries["test_it.py::test_hangs"]["state"] == "hung"
    assert "no sign for 8 s" in done.stdout


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(str(SEARCH))
    return runpy.run_path(str(SEARCH / "__main__.py"), run_name="search")


@pytest.mark.parametrize(
    ("minutes", "processes", "first"), [(60, 1, 3.26), (60, 2, 6.52), (600, 2, 20), (2**40, 1, 20)]
)
def test_each_property_is_looked_at_before_the_time_is_over(parts, minutes, processes, first):
    limits = parts["Limits"](5000, 500, 600, time.time() + 60 * minutes, 900)

    assert [first, 600] == pytest.approx(parts["looks"](552, limits, processes), rel=0.01)


def test_nothing_is_written_for_a_property_that_was_not_tried(parts, tmp_path):
    ledger = parts["Ledger"](tmp_path, 7)
    entry = ledger.of("test_it")

    ledger.put("test_it", entry)
    assert [] == list(tmp_path.iterdir())
    ledger.put("test_it", replace(entry, examples=3))
    assert (tmp_path / "progress.json").exists()
