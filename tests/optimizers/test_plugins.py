"""A real package of another author: built, installed beside us, found, tested, composed."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint

import pytest

from grouping.groupings import (
    GROUPINGS,
    DistributionAware,
    GroupTable,
    PartialKey,
    RoutingTable,
    Shuffle,
    WorstCase,
)
from optimizers import Hash, Locality, Osg, plugins
from optimizers.errors import InvalidValueError, PluginError, UnknownNameError
from optimizers.strategies.everywhere import Everywhere

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "calmer-streams"
version = "1.0"

[project.entry-points."penstock.optimizers"]
calmer = "calmer_streams:Calmer"
"""

STRATEGY = '''
from dataclasses import dataclass, field

from optimizers import Note, Optimizer, Plan, Probe


@dataclass(frozen=True)
class Calmer(Optimizer):
    """Gives every operator enough instances to be busy for no more than a share of the time."""

    busy: float = 0.5

    @property
    def observes(self):
        return frozenset({Probe.OPERATORS})

    def plan(self, topology, cluster, statistics, current):
        if not statistics.seconds:
            return Plan()
        wanted = {}
        for name, seen in statistics.operators.items():
            needed = int(seen.seconds / statistics.seconds / self.busy) + 1
            wanted[name] = min(needed, topology.operator(name).key_groups)
        return Plan(parallelism=wanted)
'''

TEST = """
from calmer_streams import Calmer
from optimizers.testing import OptimizerContract


class TestCalmer(OptimizerContract):
    optimizer = Calmer(busy=0.25)
"""

COMPOSED = """
from optimizers import Chain, Cluster, Fixed, OperatorStatistics, Plan, Statistics, Topology
from optimizers import plugins

strategy = plugins.create("calmer", busy=0.25)
job = Topology.source("words").then("count", key="word")
seen = Statistics(seconds=10, operators={"count": OperatorStatistics(tuples=1000, seconds=9)})
chain = Chain(strategy, Fixed(Plan(batch={"words": 64})))
print(plugins.registered()["calmer"], chain.name)
print(chain.plan(job, Cluster.uniform(2), seen, Plan()))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build a package of another author and install it into a folder of its own."""
    source = tmp_path_factory.mktemp("calmer-streams")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "calmer_streams").mkdir()
    (source / "calmer_streams" / "__init__.py").write_text(STRATEGY)
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", target, source],
        check=True,
        capture_output=True,
    )
    return target


def python(site, *arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(site)},
    )


def test_a_third_party_strategy_is_found_and_composed_in_a_chain(site, tmp_path):
    ran = python(site, "-c", COMPOSED, cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == (
        "strategy 'calmer' (of package 'calmer-streams' (calmer_streams:Calmer)) Calmer + Fixed\n"
        "Plan(parallelism={'count': 4}, batch={'words': 64})"
    )


def test_a_third_party_strategy_is_put_through_the_contract_suite(site, tmp_path):
    (tmp_path / "test_calmer.py").write_text(textwrap.dedent(TEST))

    ran = python(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)

    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


def test_an_unknown_strategy_is_reported_with_those_that_are_known():
    with pytest.raises(UnknownNameError, match="unknown strategy 'calmest'; known: "):
        plugins.create("calmest")


def offer(monkeypatch, **points):
    found = [EntryPoint(name, value, plugins.GROUP) for name, value in points.items()]
    monkeypatch.setattr("optimizers.entry_points.entry_points", lambda group: found)


def test_strategies_and_baselines_of_ours_are_made_by_name_with_settings():
    assert Hash() == plugins.create("hash")
    assert Locality(worth=0) == plugins.create("locality", worth=0)
    assert Locality.published(seed=3) == plugins.create("locality-published", seed=3)
    assert Osg.published(window=64) == plugins.create("osg-published", window=64)
    assert Everywhere(PartialKey(3)) == plugins.create("partial-key", choices=3)


def test_every_grouping_that_needs_no_keys_to_be_made_is_a_baseline():
    made = [plugins.create(name) for name in plugins.registered()]
    found = {type(made.grouping) for made in made if isinstance(made, Everywhere)}

    needing_keys = {GroupTable, RoutingTable, DistributionAware, WorstCase}
    assert set(GROUPINGS) - needing_keys == found


def test_settings_that_make_no_sense_are_refused_by_their_own_error():
    with pytest.raises(InvalidValueError, match="choices=1 is out of range"):
        plugins.create("partial-key", choices=1)


def test_a_grouping_of_another_package_is_used_wherever_it_fits(monkeypatch):
    offer(monkeypatch, spread="grouping.groupings:Shuffle")

    assert Everywhere(Shuffle()) == plugins.create("spread")


def test_no_package_can_take_a_name_of_ours(monkeypatch):
    offer(monkeypatch, locality="their_streams:Locality")

    with pytest.raises(PluginError, match="offers a strategy 'locality' as their_streams:Locality"):
        plugins.registered()


@pytest.mark.parametrize(
    ("value", "settings", "complaint"),
    [
        ("no_such_module:Thing", {}, "cannot be imported"),
        ("optimizers.strategies.fixed:NoSuchThing", {}, "cannot be imported"),
        (
            "optimizers.strategies.fixed:Hash",
            {"colour": "red"},
            "cannot be made from {'colour': 'red'}",
        ),
        ("builtins:dict", {}, "is a dict, and neither an Optimizer nor a Grouping"),
        ("math:pi", {}, "cannot be made from {}: 'float' object is not callable"),
        ("os:strerror", {}, "cannot be made from {}"),
        ("os:ftruncate", {"fd": -1, "length": 0}, "cannot be made from"),
    ],
)
def test_a_broken_strategy_is_reported_by_name(monkeypatch, value, settings, complaint):
    offer(monkeypatch, broken=value)

    with pytest.raises(PluginError, match=r"strategy 'broken'") as caught:
        plugins.create("broken", **settings)
    assert complaint in str(caught.value)
    assert value in str(caught.value)


def test_two_packages_that_offer_one_name_are_both_named(monkeypatch):
    points = [EntryPoint("calmer", f"{name}:Calmer", plugins.GROUP) for name in ("one", "other")]
    monkeypatch.setattr("optimizers.entry_points.entry_points", lambda group: points)

    with pytest.raises(PluginError, match=r"as one:Calmer and .* as other:Calmer; uninstall"):
        plugins.registered()


def test_only_the_name_that_two_packages_offer_is_refused(monkeypatch):
    offers = [("calmer", "one"), ("calmer", "other"), ("locality", "other"), ("fine", "math")]
    points = [EntryPoint(name, f"{module}:Calmer", plugins.GROUP) for name, module in offers]
    points.append(EntryPoint("good", "grouping.groupings:Shuffle", plugins.GROUP))
    monkeypatch.setattr("optimizers.entry_points.entry_points", lambda group: points)

    assert Locality() == plugins.create("locality")
    assert Everywhere(Shuffle()) == plugins.create("good")
    with pytest.raises(PluginError, match=r"as one:Calmer and .* as other:Calmer; uninstall"):
        plugins.create("calmer")
    with pytest.raises(UnknownNameError, match=r"unknown strategy 'calm'; known: .*'good'"):
        plugins.create("calm")


GREEDY = Locality(worth=3)


@pytest.fixture
def importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_strategies", sys.modules[__name__])


def greedy(worth=0):
    return Locality(worth=worth)


def test_a_strategy_without_a_package_goes_by_its_import_path(importable):
    assert Hash() == plugins.create("optimizers.strategies.fixed:Hash")
    assert Locality(worth=0) == plugins.create("my_strategies:greedy")
    assert Locality(worth=2) == plugins.create("my_strategies:greedy", worth=2)
    assert GREEDY is plugins.create("my_strategies:GREEDY")
    assert Locality.published() == plugins.create("my_strategies:Locality.published")
    assert Everywhere(PartialKey(3)) == plugins.create("my_strategies:PartialKey", choices=3)


@pytest.mark.parametrize(
    ("path", "settings", "complaint"),
    [
        ("no_such_module:Greedy", {}, "cannot be imported: ModuleNotFoundError"),
        ("my_strategies:Greedy", {}, "cannot be imported: AttributeError"),
        ("my_strategies:", {}, "cannot be imported: "),
        (":Greedy", {}, "cannot be imported: "),
        ("builtins:dict", {}, "is a dict, and neither an Optimizer nor a Grouping; subclass one"),
        ("my_strategies:PYPROJECT", {}, "cannot be made from {}: 'str' object is not callable"),
        ("my_strategies:GREEDY", {"worth": 1}, "cannot be made from {'worth': 1}"),
        ("my_strategies:greedy", {"colour": 1}, "cannot be made from {'colour': 1}"),
    ],
)
def test_an_import_path_of_no_strategy_is_refused_in_a_line(importable, path, settings, complaint):
    with pytest.raises(PluginError) as caught:
        plugins.create(path, **settings)

    told = str(caught.value)
    assert told.startswith(f"strategy {path!r}")
    assert complaint in told
    assert "uninstall" not in told
    assert "\n" not in told


def test_the_same_strategy_found_twice_is_one(monkeypatch):
    points = [EntryPoint("calmer", "one:Calmer", plugins.GROUP)] * 2
    monkeypatch.setattr("optimizers.entry_points.entry_points", lambda group: points)

    assert "calmer" in plugins.registered()
