"""References: functions by their place, for those that can be found there again."""

import functools
import json
import math
import operator
import os.path

import pytest

from optimizers import Operator, Topology, TopologyError
from optimizers.documents import Record
from optimizers.import_paths import function_at, reference_to

ARGUMENT = len  # a function at the top level of a module, under another name


def top_level(batch):
    return batch


def twin(batch):
    return batch


IMPOSTOR = twin


def twin(batch):  # the first one no longer stands at its place
    return [batch]


class Holder:
    @staticmethod
    def inner(batch):
        return batch

    def method(self, batch):
        return batch

    def __call__(self, batch):
        return batch


def local_function():
    def inner(batch):
        return batch

    return inner


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (math.sqrt, "math:sqrt"),
        (json.loads, "json:loads"),
        (Record, "optimizers.documents:Record"),
        (Record.take, "optimizers.documents:Record.take"),
        (len, "builtins:len"),
        (ARGUMENT, "builtins:len"),
    ],
)
def test_a_function_that_can_be_imported_goes_by_its_place(function, place):
    assert place == reference_to(function)
    assert function is function_at(place)
    assert place == reference_to(place)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda batch: batch,
            ["<lambda>", "cannot be imported by its name", "top level of a module"],
        ),
        (local_function(), ["<locals>", "cannot be imported by its name"]),
        (functools.partial(math.pow, 2), ["functools.partial", "cannot be imported by its name"]),
        (Holder(), ["Holder object", "cannot be imported by its name"]),
        (operator.itemgetter("x"), ["itemgetter", "cannot be imported by its name"]),
        (IMPOSTOR, ["twin", "not what is imported from"]),
        (Holder().method, ["method", "not what is imported from"]),
    ],
    ids=lambda value: type(value).__name__ if callable(value) else "",
)
def test_a_function_that_has_no_place_is_refused_with_the_remedy(function, words):
    topology = Topology.source("in", apply=function)

    for attempt in (lambda: reference_to(function), topology.to_json):
        with pytest.raises(TopologyError) as caught:
            attempt()
        assert [] == [word for word in words if word not in str(caught.value)]


NO_PLACES = ["", "sqrt", "math.sqrt", "math:", ":sqrt", "a b:c", "a:b:c", "math:sqrt\n", "1:x"]


@pytest.mark.parametrize("place", NO_PLACES)
def test_what_is_no_place_is_refused(place):
    for attempt in (reference_to, function_at, lambda place: Operator("a", apply=place)):
        with pytest.raises(TopologyError, match="is not an import path"):
            attempt(place)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("math:no_such", ["math:no_such", "no attribute"]),
        ("no_such_module_anywhere:f", ["No module named"]),
        ("math.sqrt:f", ["math.sqrt:f"]),
        ("math:pi", ["'math:pi' is a float, not a function"]),
        ("os.path:sep", ["is a str"]),
    ],
)
def test_a_place_without_a_function_is_refused_when_it_is_looked_up(place, words):
    operator_there = Operator("a", apply=place)

    for attempt in (lambda: function_at(place), operator_there.function):
        with pytest.raises(TopologyError) as caught:
            attempt()
        assert [] == [word for word in words if word not in str(caught.value)]


@pytest.mark.parametrize("value", [None, 3, b"math:sqrt", ["math:sqrt"]])
def test_what_is_neither_function_nor_place_is_refused(value):
    with pytest.raises(TopologyError, match="is not a function"):
        reference_to(value)


def test_functions_survive_a_document():
    topology = Topology.source("in", apply=math.sqrt).then("out", apply="os.path:join").then("end")

    text = topology.to_json()
    back = Topology.from_json(text)

    assert text == back.to_json()
    assert [math.sqrt, os.path.join, None] == [o.function() for o in back.operators]
    assert [math.sqrt, os.path.join, None] == [o.function() for o in topology.operators]


def test_reading_a_document_imports_nothing():
    text = Topology.source("in", apply="no_such_module_anywhere:f").to_json()

    assert "no_such_module_anywhere:f" == Topology.from_json(text).operator("in").apply
