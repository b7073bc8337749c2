"""Running totals are not added up: a job that would do so is refused, and no other."""

from collections import Counter

import pyarrow as pa
import pytest
from any_job import Driver

from optimizers import Edge, Operator, Topology, TopologyError
from optimizers.folds import (
    Count,
    Distinct,
    EachKey,
    Emit,
    Max,
    Mean,
    Min,
    Sum,
    Together,
    TopK,
    each_row,
)
from optimizers.runtime.work import check_work

FIRST = Topology.source("s").then("n", key="k", apply=Count())


def same(batch):
    return batch


def kept(key, rows, state):
    return len(rows)


@pytest.mark.parametrize(
    "job",
    [
        FIRST.then("t", key="l", apply=TopK("k", 2, by="count")),
        FIRST.then("t", key="l", apply=Sum("count")),
        FIRST.then("t", key="l", apply=Mean("count")),
        FIRST.then("t", key="l", apply=Together(seen=Count(), all=Sum("count"))),
        FIRST.then("pass").then("t", key="l", apply=Sum("count")),
        FIRST.then("m", key="k", apply=Max("count", emit=Emit.TUPLES)).then(
            "t", key="l", apply=Sum("count")
        ),
        Topology.source("s")
        .then("n", key="k", apply=Together(spent=Sum("x"), seen=Count()))
        .then("t", key="l", apply=Sum("spent")),
        Topology.source("s")
        .then("n", key="k", apply=Distinct("x"))
        .then("t", key="l", apply=Sum("distinct")),
        Topology(
            [
                Operator("s"),
                Operator("n", key="k", apply=Count()),
                Operator("t", key="l", apply=Sum("l")),
            ],
            [Edge("s", "n"), Edge("n", "t", key="count")],
        ),
        FIRST.then("t", key="l", apply=Sum("count"), after=("s", "n")),
    ],
)
def test_what_adds_running_totals_up_is_refused(job):
    message = r"'t' would add up column '.*' by .*running results of 'n'.* emit=Emit.TUPLES"
    with pytest.raises(TopologyError, match=message):
        check_work(job)


PAIRS = Topology.source("s").then("n", key=("place", "user"), apply=Count())


@pytest.mark.parametrize(
    "job",
    [
        PAIRS.then("t", key="place", apply=Count()),
        PAIRS.then("t", key="place", apply=Count("user")),
        PAIRS.then("t", key="place"),
        PAIRS.then("t", key="place", apply=TopK("user", 2)),
        PAIRS.then("t", key="place", apply=Together(users=Count(), most=Max("count"))),
        PAIRS.then("t", key="count", apply=Count()),
        PAIRS.then("pass").then("t", key="place", apply=Count()),
        PAIRS.then("m", key="user", apply=Max("count", emit=Emit.TUPLES)).then(
            "t", key="place", apply=Count()
        ),
        PAIRS.then("t", key="place", apply=Count(), after=("s", "n")),
        *(
            Topology.source("s")
            .then("n", key=("place", "user"), apply=fold)
            .then("t", key="user", apply=Count())
            for fold in (Sum("x"), Mean("x"), Distinct("x"), TopK("x", 2), Together(a=Min("x")))
        ),
        Topology(
            [
                Operator("s"),
                Operator("n", key=("place", "user"), apply=Count()),
                Operator("t", key="town", apply=Count()),
            ],
            [Edge("s", "n"), Edge("n", "t", key="place")],
        ),
    ],
)
def test_what_counts_running_totals_is_refused(job):
    message = r"'t' would count by .*running results of 'n'.* emit=Emit.TUPLES.* by Distinct"
    with pytest.raises(TopologyError, match=message) as refused:
        check_work(job)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "job",
    [
        # In how many batches a key came, which may be meant.
        PAIRS.then("t", key=("place", "user"), apply=Count()),
        PAIRS.then("t", key=("user", "place"), apply=Count()),
        # What cannot run for want of a column says so then.
        PAIRS.then("t", key="l", apply=Count()),
        PAIRS.then("t", key="place", apply=Distinct("user")),
        PAIRS.then("mine", apply=same).then("t", key="place", apply=Count()),
        Topology.source("s")
        .then("n", key=("place", "user"), apply=Count(emit=Emit.TUPLES))
        .then("t", key="place", apply=Count()),
        Topology.source("s")
        .then("n", key=("place", "user"), apply=EachKey(kept, pa.int64()))
        .then("t", key="place", apply=Count()),
        PAIRS.then("m", key="place", apply=EachKey(kept, pa.int64())).then(
            "t", key="state", apply=Count()
        ),
    ],
)
def test_what_may_be_meant_is_counted(job):
    check_work(job)


def test_keys_are_counted_as_is_advised(tmp_path):
    """Two users in three batches: two, where counting their running totals came to 6."""
    job = Topology.source("s").then("n", key=("place", "user"), apply=Count(emit=Emit.TUPLES))
    driver = Driver(tmp_path, job.then("t", key="place", apply=Distinct("user")))
    rows = [{"place": "p", "user": user} for user in "ab"]

    for _ in range(3):
        driver.batch({"s": [pa.Table.from_pylist(rows)]})

    assert {"p": 2} == driver.results("t")


@pytest.mark.parametrize(
    "job",
    [
        FIRST.then("t", key="l", apply=Sum("x")),
        FIRST.then("t", key="l", apply=TopK("count", 3)),
        FIRST.then("t", key="l", apply=Count("count")),
        FIRST.then("t", key="l", apply=Min("count")),
        FIRST.then("mine", apply=same).then("t", key="l", apply=Sum("count")),
        FIRST.then("mine", apply=each_row(dict)).then("t", key="l", apply=Sum("count")),
        Topology.source("s")
        .then("n", key="k", apply=Count(emit=Emit.TUPLES))
        .then("t", key="l", apply=Sum("count")),
        Topology.source("s")
        .then("n", key="k", apply=EachKey(kept, pa.int64()))
        .then("t", key="l", apply=Sum("state")),
        FIRST.then("m", key="k", apply=Max("x")).then("t", key="l", apply=Sum("count")),
        FIRST.then("m", key="k", apply=Sum("x", emit=Emit.NOTHING), after="s"),
    ],
)
def test_all_else_is_let_through(job):
    check_work(job)


def test_what_is_advised_counts_right(tmp_path):
    """Three batches with three of X each: nine, where adding up running totals came to 18."""
    job = Topology.source("s").then("n", key="dest", apply=Count(emit=Emit.TUPLES))
    driver = Driver(tmp_path, job.then("t", key="origin", apply=TopK("dest", 2)))
    rows = [{"origin": "o", "dest": dest} for dest in "XXXY"]

    for _ in range(3):
        driver.batch({"s": [pa.Table.from_pylist(rows)]})

    assert {"o": [{"value": "X", "total": 9}, {"value": "Y", "total": 3}]} == driver.results("t")
    assert dict(Counter("XXXY" * 3)) == driver.results("n")
