"""Workloads of other packages and of modules: found, listed, run, and refused in a line."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pyarrow as pa
import pytest

from optimizers import Topology
from optimizers.cli import main
from optimizers.errors import FunctionError, InvalidValueError, PluginError, UnknownNameError
from optimizers.workloads import GROUP, WORKLOADS, Workload, listed, workload

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "shop-streams"
version = "1.0"

[project.entry-points."penstock.workloads"]
orders = "shop_streams:orders"
"""

SOURCE = """
import pyarrow as pa

from optimizers import Topology
from optimizers.workloads import Workload


def batches(scale, seed):
    while True:
        yield {"orders": pa.table({"item": [seed] * int(10 * scale)})}


def orders():
    job = Topology.source("orders").then("by_item", key="item")
    return Workload(name="orders", about="orders", topology=job, stream=batches)
"""

ASKED = """
from optimizers.workloads import listed, workload

found = workload("orders")
print(listed()["orders"], found.topology.order)
print([batch["orders"].to_pydict() for batch in found.batches(2, scale=0.2, seed=7)])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build a package with a workload and install it into a folder of its own."""
    source = tmp_path_factory.mktemp("shop-streams")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "shop_streams").mkdir()
    (source / "shop_streams" / "__init__.py").write_text(SOURCE)
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", target, source], check=True, capture_output=True
    )
    return target


def test_a_workload_of_an_installed_package_goes_by_its_name(site, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", ASKED],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "of package 'shop-streams' (shop_streams:orders) ('orders', 'by_item')",
        "[{'item': [7, 7]}, {'item': [7, 7]}]",
    ]


JOB = Topology.source("orders").then("by_item", key="item")


def batches(scale, seed):
    yield {"orders": pa.table({"item": [1]})}


def mine(**fields):
    return Workload(**{"name": "x", "about": "", "topology": JOB, "stream": batches, **fields})


MINE = mine()


def broken():
    raise KeyError("no such stream")


def misnamed():
    return mine(name="two words")


def needing(number):
    return number


def offer(monkeypatch, **points):
    found = [EntryPoint(name, value, GROUP) for name, value in points.items()]
    monkeypatch.setattr("optimizers.entry_points.entry_points", lambda group: found)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_workloads", sys.modules[__name__])


@pytest.mark.parametrize("name", ["MINE", "mine"])
def test_a_place_names_a_workload_or_what_makes_one(name):
    found = workload(f"own_workloads:{name}")

    assert MINE == found
    assert [{"item": [1]}] == [batch["orders"].to_pydict() for batch in found.batches(5)]


def test_those_of_others_are_listed_without_being_imported(monkeypatch):
    offer(monkeypatch, theirs="no_such_module:theirs")

    assert {*WORKLOADS, "theirs"} == set(listed())
    assert "of an unknown package (no_such_module:theirs)" == listed()["theirs"]


BAD = {
    "own_workloads:nothing": "AttributeError",
    "no_such_module:theirs": "No module named 'no_such_module'",
    "own_workloads:JOB": "is a Topology and no Workload; name a Workload, or a function",
    "own_workloads:broken": "cannot be made: KeyError: 'no such stream'",
    "own_workloads:needing": "cannot be made: TypeError",
    "own_workloads:dict": "AttributeError",
    "builtins:dict": "is a dict and no Workload",
    "os:": "cannot be imported",
    ":orders": "cannot be imported",
}


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("named", [False, True], ids=["by place", "by name"])
def test_what_is_no_workload_is_refused_with_its_place(monkeypatch, value, named):
    offer(monkeypatch, theirs=value)

    with pytest.raises(PluginError) as caught:
        workload("theirs" if named else value)

    told = str(caught.value)
    assert value in told
    assert BAD[value] in told
    assert "\n" not in told


def test_an_error_of_ours_says_which_workload_it_is_in():
    with pytest.raises(InvalidValueError, match="'two words' is not a word") as caught:
        workload("own_workloads:misnamed")

    assert ["in workload 'own_workloads:misnamed'"] == caught.value.__notes__


def test_no_package_can_take_a_name_of_ours(monkeypatch):
    offer(monkeypatch, trending="their_streams:trending")

    assert WORKLOADS["trending"] is workload("trending")
    with pytest.raises(PluginError, match="offers a workload 'trending'"):
        listed()


def test_only_the_name_that_two_packages_offer_is_refused(monkeypatch):
    offers = [("orders", "one:orders"), ("orders", "other:orders"), ("mine", "own_workloads:MINE")]
    points = [EntryPoint(name, value, GROUP) for name, value in offers]
    monkeypatch.setattr("optimizers.entry_points.entry_points", lambda group: points)

    assert MINE is workload("mine")
    with pytest.raises(PluginError, match="two packages offer a workload 'orders'"):
        workload("orders")


def test_an_unknown_name_is_refused_with_those_that_are_known(monkeypatch):
    offer(monkeypatch, theirs="no_such_module:theirs")

    with pytest.raises(UnknownNameError, match="'reach', 'shuffled', 'trending', 'theirs'"):
        workload("their")


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("name", 3, "use letters, digits"),
        ("about", None, "say in a sentence"),
        ("topology", "posts", "give the job"),
        ("stream", [], "give one of a scale and a seed"),
    ],
)
def test_a_workload_of_wrong_parts_is_refused(field, value, remedy):
    with pytest.raises(InvalidValueError, match=remedy):
        mine(**{field: value})


def test_scale_and_seed_reach_the_stream():
    drawn = mine(stream=lambda scale, seed: iter([(scale, seed)])).batches(2, scale=0.5, seed=7)

    assert [(0.5, 7)] == list(drawn)


def raising(scale, seed):
    yield {"orders": pa.table({"item": [1]})}
    raise ZeroDivisionError("by zero")


def test_a_stream_that_raises_is_told_with_its_line():
    drawn = mine(stream=raising).batches(3)

    assert 1 == len(next(drawn)["orders"])
    with pytest.raises(FunctionError, match=r"its stream raised ZeroDivisionError.*in raising"):
        next(drawn)


@pytest.mark.parametrize("stream", [lambda: iter([]), lambda scale, seed: None], ids=["", "None"])
def test_a_stream_that_cannot_be_drawn_from_is_refused(stream):
    with pytest.raises(InvalidValueError, match="give a function of a scale and a seed"):
        list(mine(stream=stream).batches(1))


def test_a_bad_one_is_one_line_of_the_command(capsys):
    assert 2 == main(["compare", "own_workloads:broken"])

    told = capsys.readouterr().err
    assert told.startswith("penstock: workload 'own_workloads:broken' cannot be made: KeyError")
    assert 1 == told.count("\n")
