"""DS2 as a strategy: rates of sources, true rates of operators, and what was not seen."""

from dataclasses import replace

from optimizers import Cluster, Plan, Topology
from optimizers.flow import SourceStatistics
from optimizers.statistics import EdgeStatistics, OperatorStatistics, Statistics
from optimizers.strategies.ds2 import Ds2
from optimizers.testing import OptimizerContract

JOB = (
    Topology.source("s", parallelism=2)
    .then("split", parallelism=2)
    .then("count", key="k", parallelism=3, key_groups=8)
)
SEEN = Statistics(
    seconds=10,
    operators={
        "s": OperatorStatistics(10_000),
        "split": OperatorStatistics(10_000, seconds=24.0),
        "count": OperatorStatistics(40_000, seconds=8.0, hottest_key=0.5),
    },
    edges={
        ("s", "split"): EdgeStatistics(10_000, 1e6),
        ("split", "count"): EdgeStatistics(40_000, 1e6),
    },
)


class TestDs2(OptimizerContract):
    optimizer = Ds2()


def ask(seen, job=JOB):
    return Ds2().plan(job, Cluster.uniform(2), seen, Plan())


def test_by_what_was_let_in_if_nothing_is_known_of_arrivals():
    plan = ask(SEEN)

    assert {"split": 3, "count": 1} == dict(plan.parallelism)
    assert "what arrives was not seen" in str(plan.notes)


def test_by_what_arrives_where_that_is_known():
    source = SourceStatistics(arrived=90_000, admitted=10_000, waiting=80_000, seconds=30)

    plan = ask(replace(SEEN, sources={"s": source}))  # 3,000/s, where 1,000/s were let in

    assert {"split": 8} == dict(plan.parallelism)  # count: 2.4, so its 3 stay
    assert "was not seen" not in str(plan.notes)


def test_no_more_than_key_groups_and_it_says_so():
    source = SourceStatistics(arrived=300_000, admitted=10_000, waiting=0, seconds=10)

    plan = ask(replace(SEEN, sources={"s": source}))

    assert {"split": 72, "count": 8} == dict(plan.parallelism)
    assert "24 are needed, and its 8 key groups allow no more" in str(plan.notes)


def test_nothing_to_do_is_no_decision():
    job = JOB.under(Plan(parallelism={"split": 3, "count": 1}))

    assert Plan() == ask(SEEN, job)
    assert Plan() == ask(replace(SEEN, seconds=0.0), job)
