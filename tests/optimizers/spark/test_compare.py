"""Comparisons on Spark: same input for all, results checked, errors that name the variant."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from grouping.groupings import PartialKey, WChoices
from optimizers.cli import main
from optimizers.cluster import Cluster
from optimizers.comparing import Comparison, compare
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.folds import Count, Emit, each_row
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.spark.engine import SparkEngine
from optimizers.strategies.everywhere import Everywhere
from optimizers.strategies.fixed import Fixed
from optimizers.strategies.locality import Locality
from optimizers.strategies.osg import Osg
from optimizers.topology import Topology

pytestmark = pytest.mark.spark

JOB = (
    Topology.source("in", parallelism=2)
    .then("a", key="k", parallelism=2, apply=Count(emit=Emit.TUPLES))
    .then("b", key="l", parallelism=2)
)


def batches(count, rows=4000):
    """Keys of a and of b that always come together."""
    rng = np.random.default_rng(3)
    drawn = [rng.integers(0, 200, rows) for _ in range(count)]
    return [pa.table({"k": keys, "l": keys * 7}) for keys in drawn]


@dataclass(frozen=True)
class Vandal(Optimizer):
    """Removes the checkpoint once it is asked about a batch, so that the next one fails."""

    folder: str

    def plan(self, topology, cluster, statistics, current):
        if statistics.operators:
            shutil.rmtree(self.folder)
        return Plan()


@dataclass(frozen=True)
class Faulty(Optimizer):
    """Fails once it is asked about a batch."""

    def plan(self, topology, cluster, statistics, current):
        if statistics.operators:
            raise ZeroDivisionError("of nothing")
        return Plan()


@pytest.fixture(scope="module")
def compared(spark, tmp_path_factory):
    steps = []
    folder = tmp_path_factory.mktemp("comparison")
    engine = SparkEngine(checkpoint=str(folder), spark=spark, every=2)
    variants = {"hash": None, "ours": Locality(worth=0), "wide": Fixed(Plan(parallelism={"b": 3}))}
    found = compare(
        JOB, batches(5), variants, engine=engine, warm_up=1, title="pairs", watch=steps.append
    )
    return found, steps, folder


def test_it_tells_where_batches_spend_their_time(compared):
    found, _, _ = compared

    for outcome in found.variants:
        for batch in outcome.batches:
            (time,) = batch.times
            assert (batch.first, batch.tuples) == (time.batch, time.tuples)
            assert abs(time.other) <= 0.05 * time.seconds
            assert batch.operator("a").wall > 0
            assert all(edge.parcels > 0 for edge in batch.edges)
    assert "where a batch's seconds go" in found.table()
    assert found == Comparison.from_json(found.to_json())


def test_the_facts_of_each_epoch_that_is_over_are_told(compared):
    found, _, _ = compared

    for outcome in found.variants:
        assert [1, 3] == [epoch.after for epoch in outcome.epochs]
        for epoch in outcome.epochs:
            seen = epoch.statistics
            assert 8000 == seen.operators["in"].tuples == seen.instances["in"].tuples.sum()
            known = seen.instances["a"].columns.keys()
            assert {"cpu", "resident", "bytes_in", "bytes_out"} <= known
            assert {} == dict(seen.sources)  # bounded data does not come
            assert seen.execution.micro_batches
            assert epoch.nodes
            assert epoch.past.decision is not None
        assert all(batch.nodes for batch in outcome.batches)
    assert any(said.notes for said in found["ours"].decisions)


def test_every_variant_has_the_results_of_a_sequential_run(compared):
    found, _, _ = compared

    assert found.correct, found.summary()
    assert ["hash", "ours", "wide"] == [outcome.name for outcome in found.variants]
    assert all([0, 1, 2, 3, 4] == [f.first for f in o.batches] for o in found.variants)
    assert {4000} == {facts.tuples for outcome in found.variants for facts in outcome.batches}


def test_what_a_strategy_does_is_seen(compared):
    found, _, _ = compared
    hashed, ours, wide = found.variants

    assert [None, 2, None] == [outcome.first_change for outcome in found.variants]
    assert range(3, 5) == found.settled
    settled = [facts for facts in ours.batches if facts.first in found.settled]
    assert all(facts.local == facts.hops == 4000 for facts in settled)
    assert all(facts.local < 0.7 * facts.hops for facts in hashed.batches)
    assert 0 == sum(facts.taken_over for facts in hashed.batches)
    assert 0 < ours.batches[2].taken_over
    for here, there in zip(settled, hashed.batches[3:], strict=True):
        assert here.remote_bytes < 0.8 * there.remote_bytes
    assert all(3 == len(facts.operator("b").tuples) for facts in wide.batches)
    assert all(4000 == sum(facts.operator("b").tuples) for facts in wide.batches)
    assert all(facts.makespan > 0 for outcome in found.variants for facts in outcome.batches)
    assert any("routing changes" in decision.text for decision in ours.decisions)
    assert sum(decision.seconds for decision in ours.decisions) > 0


class Looking(Optimizer):
    """Keeps the machines that it is shown."""

    def __init__(self):
        self.seen = []

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(cluster)
        return Plan()


def test_virtual_nodes_share_the_machine_as_in_a_run(spark, tmp_path):
    job = Topology.source("in", parallelism=2).then("a", key="k", parallelism=4)
    alone, beside = Looking(), Looking()

    frames = [spark.createDataFrame(table) for table in batches(1)]
    SparkEngine(checkpoint=str(tmp_path / "run"), spark=spark).run(job, frames, alone)
    engine = SparkEngine(checkpoint=str(tmp_path / "compare"), spark=spark)
    compare(job, batches(1), {"it": beside}, engine=engine, warm_up=0)

    assert [0.5] * 4 == [node.cores for node in alone.seen[0].nodes]
    assert all(node.memory > 0 for node in alone.seen[0].nodes)
    assert [alone.seen[0]] == list(dict.fromkeys((*alone.seen, *beside.seen)))


def test_variants_take_turns_in_being_first(compared):
    _, steps, _ = compared
    order = [[step.variant for step in steps if step.batch == batch] for batch in range(4)]

    assert order == [
        ["", "hash", "ours", "wide"],
        ["", "ours", "wide", "hash"],
        ["", "wide", "hash", "ours"],
        ["", "hash", "ours", "wide"],
    ]
    assert all(step.seconds > 0 for step in steps)


def test_it_says_what_it_ran_on_and_is_the_same_after_json(compared):
    found, _, _ = compared

    assert "pairs" == found.title
    assert "on local[2]" in found.where
    assert (2, True, ()) == (found.nodes, found.imagined, found.hosts)
    assert "ours keeps 100% of the tuples" in found.summary()
    assert found == Comparison.from_json(found.to_json())


def test_checkpoints_stay_and_a_second_comparison_does_not_touch_them(compared, spark, capsys):
    _, _, folder = compared
    engine = SparkEngine(checkpoint=str(folder), spark=spark)

    with pytest.raises(CheckpointError, match=r"variant 'hash' would be run in .*files already"):
        compare(JOB, batches(3), {"hash": None}, engine=engine)

    assert 0 == main(["state", str(folder / "ours"), "a", "--rows", "2"])
    assert "2 of 200 rows" in capsys.readouterr().out


def test_results_that_are_wrong_are_told_and_do_not_stop_it(spark, tmp_path):
    here = os.getpid()
    job = Topology.source("in").then(
        "f", apply=each_row(lambda row: {"k": int(os.getpid() == here)})
    )
    job = job.then("count", key="k", apply=Count(emit=Emit.NOTHING))
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark)

    found = compare(job, batches(2, rows=10), {"only": None}, engine=engine, warm_up=0)

    assert not found.correct
    assert "state of operator 'count'" == found["only"].difference.what
    assert "THE RESULTS OF only ARE WRONG" in found.summary()


def test_output_that_is_wrong_is_told_with_its_batch(spark, tmp_path):
    here = os.getpid()
    job = Topology.source("in").then(
        "f", apply=each_row(lambda row: {"k": int(os.getpid() == here)})
    )
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark)

    found = compare(job, batches(1, rows=10), {"only": None}, engine=engine, warm_up=0)

    assert "output of operator 'f' in batch 0" == found["only"].difference.what
    assert 20 == found["only"].difference.rows


def test_parts_of_results_that_leave_the_job_are_not_wrong(spark, tmp_path):
    job = Topology.source("in", parallelism=2).then(
        "count", key="k", parallelism=3, grouping=PartialKey(3), partial=True
    )
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark)
    variants = {"as it is": None, "by choices": Everywhere(WChoices())}

    found = compare(job, batches(2), variants, engine=engine, warm_up=0)

    assert found.correct
    kept = Checkpoint.open(Location(str(tmp_path / "as%20it%20is"))).read("count")
    assert len(set(kept["k"].to_pylist())) < len(kept)  # so there were parts


def test_a_variant_that_fails_is_named_and_the_others_finish(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)
    steps = []
    variants = {
        "hash": None,
        "bad": Vandal(str(tmp_path / "bad")),
        "faulty": Faulty(),
    }

    found = compare(JOB, batches(3), variants, engine=engine, warm_up=0, watch=steps.append)

    assert ["hash", "faulty"] == [outcome.name for outcome in found.variants]
    assert all(outcome.difference is None for outcome in found.variants)
    assert all("ZeroDivisionError: of nothing" in d.refused for d in found["faulty"].decisions[1:])
    assert ["bad"] == list(found.failed)
    assert re.search(
        r"^optimizers\.errors\.\w+: .* in variant 'bad', in batch 1$", found.failed["bad"]
    )
    assert not found.correct
    assert "3 of 4 decisions of faulty were refused, the first for Faulty raised" in found.summary()
    assert "bad FAILED and is left out: optimizers.errors." in found.summary()
    assert [0, 1, 2] == [step.batch for step in steps if step.variant == "hash"]
    assert [0, 1] == [step.batch for step in steps if step.variant == "bad"]


def test_if_all_variants_fail_the_error_of_the_first_comes_out(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)

    with pytest.raises(CheckpointError) as raised:
        compare(JOB, batches(3), {"bad": Vandal(str(tmp_path / "bad"))}, engine=engine, warm_up=0)

    assert "in variant 'bad', in batch 1" in raised.value.__notes__


def test_a_strategy_that_has_nothing_to_do_here_is_not_judged(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)

    found = compare(JOB, batches(2), {"hash": None, "osg": Osg()}, engine=engine, warm_up=0)

    assert "osg: Osg can do nothing for this job: no operator without a key" in found.summary()
    assert "None of the others" not in found.summary()


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({}, "has nothing to compare"),
        (["hash"], "has nothing to compare"),
        ({"": None}, "does not name a variant"),
        ({"ours": Locality}, "variant 'ours' is .*, not an Optimizer; make one"),
    ],
)
def test_what_are_no_variants_is_refused(variants, message):
    with pytest.raises(InvalidValueError, match=message):
        compare(JOB, batches(1), variants)


def test_on_one_node_nothing_is_imagined(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, cluster=Cluster.uniform(1))

    found = compare(JOB, batches(1, rows=100), {"hash": None}, engine=engine, warm_up=0)

    assert not found.imagined
    assert 0 == found["hash"].batches[0].remote_bytes


def test_the_command_compares_and_writes_what_it_found(spark, tmp_path, capsys):
    file = tmp_path / "found.json"
    options = ["--batches", "3", "--every", "1", "--scale", "0.05", "--json", str(file)]

    assert 0 == main(["compare", "trending", "--with", "hash", "--with", "locality", *options])

    shown = capsys.readouterr().out
    assert "trending: posts counted by place" in shown
    assert "tuples that stay on a node" in shown
    assert "All results equal those of a sequential run." in shown
    assert ["hash", "locality"] == [v["name"] for v in json.loads(file.read_text())["variants"]]
    assert Comparison.from_json(file.read_text()).correct


def test_the_command_says_nothing_but_what_it_has_to_say():
    command = [sys.executable, "-c", "from optimizers.cli import main; raise SystemExit(main())"]
    options = ["compare", "--with", "hash", "--batches", "3", "--scale", "0.01"]

    ran = subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.startswith("trending: ")
    assert "WARN" not in ran.stdout


def test_the_doctor_starts_a_session(spark, capsys):
    assert 0 == main(["doctor", "--start"])

    assert f"session: Spark {spark.version} started" in capsys.readouterr().out
