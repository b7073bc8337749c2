"""The shipped suite: good strategies pass it, and each of its tests catches a bad one."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import planted_faults
import pytest
from faulty_strategies import (
    ByBuiltinHash,
    BySetOrder,
    Clock,
    Counting,
    Curious,
    Dice,
    Dreamer,
    Emptying,
    EveryTenthEpoch,
    Forcing,
    Forgetful,
    Hasty,
    HoldsAFunction,
    LosesASetting,
    Meddling,
    Misspelling,
    RoutesByAStranger,
    Talkative,
)

from optimizers import (
    Chain,
    Cluster,
    Deployment,
    Fixed,
    Hash,
    Note,
    Optimizer,
    Plan,
    Probe,
    Statistics,
    Topology,
)
from optimizers.testing import (
    OptimizerContract,
    World,
    example_statistics,
    example_worlds,
    import_module_of,
)


@dataclass(frozen=True)
class AsBusy(Optimizer):
    """Gives each operator as many instances as were busy, of what it observed."""

    headroom: float = 1.5

    @property
    def observes(self):
        return frozenset({Probe.OPERATORS})

    def plan(self, topology, cluster, statistics, current):
        if not statistics.operators or not statistics.seconds:
            return Plan(notes=(Note(self.name, "job", "nothing was observed"),))
        wanted, why = {}, []
        for name, seen in statistics.operators.items():
            operator = topology.operator(name)
            most = operator.key_groups if operator.keyed else 64
            busy = seen.seconds * self.headroom / statistics.seconds
            wanted[name] = min(most, max(1, round(busy)))
            why.append(Note(self.name, name, "as busy as it was", {"instances": busy}))
        return Plan(parallelism=wanted, notes=tuple(why))


@dataclass(frozen=True)
class NearHeavy(Optimizer):
    """Places the heaviest key groups by turns, where pairs, costs and groups are all known."""

    @property
    def observes(self):
        return frozenset({Probe.PAIRS, Probe.COSTS, Probe.GROUPS})

    def plan(self, topology, cluster, statistics, current):
        if not (statistics.pairs and statistics.costs and statistics.groups):
            return Plan()
        placement = {}
        for name, groups in statistics.groups.items():
            instances = topology.operator(name).parallelism
            owners = np.empty(len(groups), dtype=int)
            owners[np.argsort(-groups.cpu, kind="stable")] = np.arange(len(groups)) % instances
            placement[name] = Deployment(cluster.deal(instances), owners)
        figures = [(f"{a} to {b}", pairs.total) for (a, b), pairs in statistics.pairs.items()]
        figures += [(name, sketches[0].mean) for name, sketches in statistics.costs.items()]
        return Plan(placement=placement, notes=(Note(self.name, "job", "spread", figures),))


class TestHash(OptimizerContract):
    optimizer = Hash()


class TestDecidesNothing(OptimizerContract):
    optimizer = Fixed(Plan())


class TestChainOfThem(OptimizerContract):
    optimizer = Chain(Hash(), Fixed(Plan()), Chain(Hash()))


class TestAsBusy(OptimizerContract):
    optimizer = AsBusy()


class TestNearHeavy(OptimizerContract):
    optimizer = NearHeavy()


class TestChainOfStrategiesOfATestModule(OptimizerContract):
    optimizer = Chain(AsBusy(headroom=1.0), Chain(NearHeavy(), Fixed(Plan())))


def shout(batch):
    """Stand for a user's function in a topology; it has to reach the other process too."""
    return batch


class TestWorldsOfTheAuthor(OptimizerContract):
    optimizer = Hash()

    def worlds(self):
        topology = Topology.source("loud", apply=shout).then("count", key="word")
        return [World(topology, Cluster.uniform(2), example_statistics(topology))]


SAME = "test_gives_the_same_answer_to_the_same_question"
TRAVELS = "test_travels"
PLANS_TRAVEL = "test_plans_travel"
EXISTS = "test_mentions_only_what_exists"
NO_DATA = "test_decides_nothing_without_data"
OBSERVES = "test_needs_no_more_than_it_observes"
ITSELF = "test_agrees_with_itself"
ARGUMENTS = "test_does_not_touch_its_arguments"
ELSEWHERE = "test_gives_the_same_answer_in_another_process"
TESTS = [name for name in vars(OptimizerContract) if name.startswith("test_")]
AT_HOME = [name for name in TESTS if name != ELSEWHERE]
BAD = {
    # the strategy: the tests that must fail (the first one is meant for it), words of the first
    Dice(): ([SAME, TRAVELS, OBSERVES, ITSELF], ["asked twice, Dice answers"]),
    Clock(): ([SAME, TRAVELS, OBSERVES, ITSELF], ["asked twice, Clock answers"]),
    Counting(): ([SAME, TRAVELS, OBSERVES, ITSELF], ["asked twice", "'tweets': 1}"]),
    HoldsAFunction(): (
        [TRAVELS, ELSEWHERE],
        ["HoldsAFunction does not pass through pickle", "fields of a frozen dataclass"],
    ),
    LosesASetting(5): ([TRAVELS, ELSEWHERE], ["a pickled copy answers", "3}", "5}"]),
    RoutesByAStranger(): (
        [PLANS_TRAVEL],
        ["does not pass through JSON", "unknown grouping 'stand_in'"],
    ),
    Dreamer(): ([EXISTS, ITSELF], ["Dreamer decided", "unknown operator 'ghost'"]),
    Hasty(): ([NO_DATA], ["Hasty observes pairs", "without having seen any", "return Plan()"]),
    Curious(): ([OBSERVES], ["given only what it observes (pairs), Curious answers"]),
    Misspelling(): ([OBSERVES], ["observes 'operator'", "no Probe", "operators, pairs"]),
    Meddling(): ([ARGUMENTS], ["Meddling changed its arguments: statistics"]),
    BySetOrder(): ([ELSEWHERE], ["PYTHONHASHSEED=", "BySetOrder answers", "hash()"]),
    ByBuiltinHash(): ([ELSEWHERE], ["PYTHONHASHSEED=", "ByBuiltinHash answers"]),
}


def suite_for(strategy, worlds=None):
    """Return the suite for a strategy, as an author would write it."""

    class Suite(OptimizerContract):
        optimizer = strategy

    if worlds is not None:
        Suite.worlds = lambda _: worlds()
    return Suite()


def failures(suite, tests=TESTS):
    return planted_faults.failures(suite, tests, AssertionError)


def few_worlds():
    return example_worlds()[:3]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_bad_strategy_fails_the_test_that_is_for_it_in_words_that_help(bad):
    expected, words = BAD[bad]
    # A process takes half a second, and what fails at home need not be asked abroad as well.
    tests = TESTS if ELSEWHERE in expected else AT_HOME

    found = failures(suite_for(bad), tests)

    assert sorted(expected) == sorted(found)
    assert [] == [word for word in words if word not in found[expected[0]]]


def test_a_plan_that_does_not_fit_what_is_in_force_fails_by_name():
    topology, cluster = Topology.source("in"), Cluster.uniform(2)
    current = Plan(drain=("node-0",))

    found = failures(
        suite_for(Emptying(), lambda: [World(topology, cluster, Statistics(), current)])
    )

    assert [ITSELF] == [*found]
    for word in ("Emptying decided", "in force", "no node"):
        assert word in found[ITSELF]


def test_a_frozen_argument_that_was_forced_open_is_noticed():
    found = failures(suite_for(Forcing()), AT_HOME)

    assert "Forcing changed its arguments: current" in found[ARGUMENTS]


def test_a_strategy_that_forces_an_argument_open_does_not_spoil_other_worlds():
    topology, cluster = Topology.source("in"), Cluster.uniform(2)

    World(topology, cluster, Statistics()).ask(Forcing())

    assert World(topology, cluster, Statistics()).current == Plan()


def test_each_test_of_the_suite_is_shown_to_catch_something():
    assert {*TESTS} == {ITSELF, *(expected[0] for expected, _ in BAD.values())}


def test_answers_are_kept_for_one_strategy_only():
    suite = suite_for(Hash(), few_worlds)
    assert {} == failures(suite, AT_HOME)

    type(suite).optimizer = Counting()

    assert SAME in failures(suite, AT_HOME)
    type(suite).optimizer = Dreamer()
    assert EXISTS in failures(suite, AT_HOME)


def test_a_strategy_that_forgets_its_plan_is_told_so():
    found = failures(suite_for(Forgetful(), few_worlds), [SAME])

    assert "Forgetful decided None, which is not a Plan; return Plan()" in found[SAME]


def test_a_class_in_place_of_a_strategy_is_told_so():
    found = failures(suite_for(Hash, few_worlds), [SAME])

    assert "is not an Optimizer; set `optimizer`" in found[SAME]


@pytest.mark.parametrize("good", [Talkative(), EveryTenthEpoch()], ids=lambda good: good.name)
def test_what_the_contract_does_not_forbid_passes(good):
    assert {} == failures(suite_for(good, few_worlds))


def test_the_other_processes_hash_otherwise_and_import_alike(monkeypatch):
    seen = []
    run = subprocess.run

    def remember(*args, **options):
        seen.append(options["env"])
        return run(*args, **options)

    monkeypatch.setattr(subprocess, "run", remember)
    assert {} == failures(suite_for(Hash(), few_worlds), [ELSEWHERE])

    assert ["1", "2"] == sorted(env["PYTHONHASHSEED"] for env in seen)
    assert [[place or os.getcwd() for place in sys.path]] * 2 == [  # noqa: PTH109
        env["PYTHONPATH"].split(os.pathsep) for env in seen
    ]


def test_a_failure_in_the_other_process_shows_what_went_wrong_there(tmp_path):
    module = tmp_path / "passing_strategy.py"
    module.write_text(
        "import os\n"
        "from dataclasses import dataclass\n"
        "from optimizers import Optimizer, Plan\n"
        "@dataclass(frozen=True)\n"
        "class AtHomeOnly(Optimizer):\n"
        "    def plan(self, topology, cluster, statistics, current):\n"
        f"        assert os.getpid() == {os.getpid()}, 'a foreign place'\n"
        "        return Plan()\n"
    )
    import_module_of("passing_strategy", str(module))

    strategy = __import__("passing_strategy").AtHomeOnly()
    found = failures(suite_for(strategy, few_worlds))

    assert [ELSEWHERE] == [*found]
    for word in ("AtHomeOnly cannot answer in another process", "a foreign place"):
        assert word in found[ELSEWHERE]


def test_a_module_that_is_no_file_of_python_is_refused(tmp_path):
    with pytest.raises(ImportError, match="is not a module"):
        import_module_of("no_such_module_anywhere", str(tmp_path / "notes.txt"))


def test_a_module_of_the_same_name_elsewhere_does_not_stand_in_for_it(tmp_path):
    path = tmp_path / "colorsys.py"
    path.write_text("MINE = True\n")
    standard = __import__("colorsys")

    try:
        import_module_of("colorsys", str(path))
        assert sys.modules["colorsys"].MINE
    finally:
        sys.modules["colorsys"] = standard


def test_the_suite_is_used_as_its_documentation_says(pytester_free_run):
    outcome = pytester_free_run(
        "from dataclasses import dataclass\n"
        "from optimizers import Optimizer, Plan\n"
        "from optimizers.testing import OptimizerContract\n"
        "@dataclass(frozen=True)\n"
        "class Calmer(Optimizer):\n"
        "    patience: int = 3\n"
        "    def plan(self, topology, cluster, statistics, current):\n"
        "        return Plan(batch={topology.sources[0]: self.patience})\n"
        "class TestCalmer(OptimizerContract):\n"
        "    optimizer = Calmer(patience=4)\n"
    )

    assert f"{len(TESTS)} passed" in outcome


@pytest.fixture(params=["prepend", "importlib"])
def pytester_free_run(request, tmp_path):
    """Return a function that runs pytest on one test file, as an author of strategies would."""

    def run(text):
        (tmp_path / "test_calmer.py").write_text(text)
        process = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                f"--import-mode={request.param}",
                "test_calmer.py",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return process.stdout + process.stderr

    return run
