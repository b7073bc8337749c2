"""The power of both choices as a strategy, and the jobs that it refuses."""

import pytest

from grouping.groupings import PartialKey
from optimizers import Cluster, Plan, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.plugins import create
from optimizers.statistics import EdgeStatistics, OperatorStatistics
from optimizers.strategies.both_choices import BothChoices
from optimizers.testing import OptimizerContract, World, example_statistics

EDITS = Topology.source("edits", parallelism=2)
JOB = EDITS.then("counts", key="article", parallelism=4, partial=True).then(
    "totals", key="article", parallelism=2
)
CLUSTER = Cluster.uniform(2)


class TestBothChoices(OptimizerContract):
    optimizer = BothChoices()

    def worlds(self):
        yield World(JOB, CLUSTER, example_statistics(JOB))
        yield World(EDITS.then("totals", key="article"), CLUSTER, Statistics())


SEEN = Statistics(operators={"totals": OperatorStatistics(100, seconds=2.0)})


def asked(job, seen=SEEN, **settings):
    return BothChoices(**settings).plan(job, CLUSTER, seen, Plan())


def test_keys_whose_results_are_merged_are_on_two_instances():
    assert asked(JOB).routing == {"counts": PartialKey(2)}
    assert asked(JOB, choices=3).routing == {"counts": PartialKey(3)}
    assert create("potc", choices=3) == BothChoices(choices=3)


def test_it_tells_what_merging_takes():
    seen = Statistics(
        operators={"totals": OperatorStatistics(100, seconds=2.0)},
        edges={("counts", "totals"): EdgeStatistics(100, 1_000.0)},
    )

    before = dict(asked(JOB, seen).notes[0].figures)
    after = dict(asked(JOB.under(asked(JOB)), seen).notes[0].figures)

    assert before == {"merged now": 100, "merged at most": 200, "CPU seconds to merge": 4.0}
    assert after == {"merged now": 100, "merged at most": 100, "CPU seconds to merge": 2.0}
    assert not asked(JOB).notes[0].figures


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (EDITS.then("clean"), "no operator has a key"),
        (EDITS.then("totals", key="k"), "'totals' keeps each key on one instance"),
        (
            EDITS.then("counts", key="k", partial=True).then("totals", key="k"),
            "'counts' has 1 of 2 instances",
        ),
        (
            EDITS.then("counts", key="k", parallelism=2, partial=True).then("shown"),
            "no operator that is not partial merges the results of 'counts' by key",
        ),
        (
            EDITS.then("counts", key="k", parallelism=2, partial=True).then(
                "more", key="k", parallelism=2, partial=True
            ),
            "merges the results of 'more'",
        ),
    ],
)
def test_jobs_that_it_cannot_help_are_refused_by_name(job, words):
    plan = asked(job)

    assert not plan
    assert plan.notes[0].idle
    assert plan.notes[0].by == "potc"
    assert words in plan.notes[0].text


def test_bad_numbers_of_choices_are_named():
    with pytest.raises(InvalidValueError, match="choices=1 is out of range"):
        BothChoices(choices=1)
