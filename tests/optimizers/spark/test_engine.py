"""Jobs on Spark: whatever the plan, whatever changes, the results are those of one instance."""

import time
from collections import Counter
from dataclasses import dataclass
from threading import Event

import numpy as np
import pyarrow as pa
import pytest

from grouping.routing_table import RoutingTable
from optimizers import (
    Cluster,
    Deployment,
    Edge,
    Locality,
    LocalOrShuffle,
    Operator,
    Optimizer,
    PartialKey,
    Plan,
    TopologyError,
)
from optimizers import Topology as Job
from optimizers.errors import CheckpointError, FoldError, UnknownNameError
from optimizers.folds import Count, Emit, Sum, each_row
from optimizers.spark.engine import SparkEngine

pytestmark = pytest.mark.spark

KEYS = 300


@dataclass(frozen=True)
class Scripted(Optimizer):
    """Decides what it was told to, epoch by epoch."""

    plans: tuple[Plan, ...]

    def plan(self, topology, cluster, statistics, current):
        if not statistics:
            return Plan()
        return self.plans[statistics.epoch] if statistics.epoch < len(self.plans) else Plan()


def tuples(batch, rows=3_000):
    random = np.random.default_rng(batch)
    users = random.zipf(1.3, rows) % KEYS
    return pa.table({"user": users, "place": users * 7 % 50, "spent": random.integers(0, 9, rows)})


def frame(spark, table, partitions=2):
    # Arrow tables become several partitions only by a shuffle, which has no order of rows.
    rows = spark.createDataFrame(table)
    return rows.coalesce(partitions)


def counted(tables, column):
    found = Counter()
    for table in tables:
        found.update(table.column(column).to_pylist())
    return dict(found)


def state_of(run, operator, key, value="count"):
    state = run.state(operator)
    return dict(zip(state.column(key).to_pylist(), state.column(value).to_pylist(), strict=True))


def test_consumers_that_share_parcels_stay_exact_as_plans_change_one_of_them(spark, tmp_path):
    job = Job.source("in", parallelism=2)
    for name in ("seen", "spent", "too"):
        fold = Sum("spent") if name == "spent" else Count()
        job = job.then(name, key="user", after="in", parallelism=3, apply=fold)
    scripted = Scripted(
        (
            Plan(),
            Plan(parallelism={"too": 2}),
            Plan(routing={"spent": RoutingTable([1, 2], [2, 0], 3)}, parallelism={"too": 3}),
        )
    )
    run = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1).run(job, [], scripted)
    given, alike = [tuples(batch, 400) for batch in range(4)], []

    for table in given:
        run.execute(frame(spark, table))
        alike.append([len(group) for group in run.layout.alike("in")])
        together = {edge.bytes for edge in run.batches[-1].edges.values()}
        assert len(together) <= len(alike[-1])  # those that share, have the same bytes

    assert [[3], [3], [2, 1], [2, 1]] == alike
    whole = pa.concat_tables(given).group_by("user").aggregate([("spent", "sum")])
    counts = counted(given, "user")
    assert counts == state_of(run, "seen", "user") == state_of(run, "too", "user")
    spent = dict(zip(whole["user"].to_pylist(), whole["spent_sum"].to_pylist(), strict=True))
    assert spent == state_of(run, "spent", "user", "sum")


def test_a_chain_counts_as_one_instance_would(spark, tmp_path):
    job = Job.source("in", parallelism=2).then("by_user", key="user", parallelism=3)
    job = job.then("by_place", key="place", parallelism=2)
    tables = [tuples(batch) for batch in range(3)]

    run = SparkEngine(checkpoint=str(tmp_path)).run(job, [frame(spark, t) for t in tables])

    assert counted(tables, "user") == state_of(run, "by_user", "user")
    assert counted(tables, "place") == state_of(run, "by_place", "place")
    assert [0, 1, 2] == [batch.batch for batch in run.batches]
    assert 3_000 == sum(run.batches[0].loads("by_user"))


def expensive(row):
    return {**row, "costly": "yes"} if row["spent"] > 4 else None


def test_forks_joins_and_operators_without_a_key(spark, tmp_path):
    costly = each_row(expensive)
    job = Job(
        operators=(
            Operator("shop", parallelism=2),
            Operator("web"),
            Operator("costly", parallelism=3, apply=costly),
            Operator("by_user", "user", parallelism=3, apply=Sum("spent", emit=Emit.TUPLES)),
            Operator("by_place", "place", parallelism=2, apply=Count(emit=Emit.CHANGES)),
            Operator("seen", apply=None),
        ),
        edges=(
            Edge("shop", "costly"),
            Edge("web", "costly", grouping=None),
            Edge("costly", "by_user"),
            Edge("shop", "by_place", key="place"),
            Edge("by_user", "by_place"),
            Edge("by_user", "seen", grouping=LocalOrShuffle()),
        ),
    )
    shop, web = tuples(1), tuples(2, 1_000)
    bought = [row for table in (shop, web) for row in table.to_pylist() if row["spent"] > 4]

    run = SparkEngine(checkpoint=str(tmp_path)).run(
        job, {"shop": frame(spark, shop), "web": frame(spark, web)}
    )

    spent = Counter()
    for row in bought:
        spent[row["user"]] += row["spent"]
    places = Counter(shop.column("place").to_pylist())
    places.update(row["place"] for row in bought)
    assert dict(spent) == state_of(run, "by_user", "user", "sum")
    assert dict(places) == state_of(run, "by_place", "place")


def test_state_follows_its_keys_through_all_that_a_plan_can_change(spark, tmp_path):
    job = Job.source("in").then("by_user", key="user", parallelism=8, key_groups=32)
    table = RoutingTable(np.arange(0, KEYS, 3), np.arange(0, KEYS, 3) % 5, 5)
    homes = Deployment(("node-0", "node-1", "node-0"), tuple(g % 3 for g in range(32)))
    script = Scripted(
        (
            Plan(parallelism={"by_user": 5}),
            Plan(routing={"by_user": table}),
            Plan(parallelism={"by_user": 12}),
            Plan(parallelism={"by_user": 3}, placement={"by_user": homes}),
            Plan(parallelism={"by_user": 8}),
        )
    )
    tables = [tuples(batch) for batch in range(7)]
    engine = SparkEngine(checkpoint=str(tmp_path), cluster=Cluster.uniform(2), every=1)

    run = engine.run(job, [frame(spark, t) for t in tables], script)

    assert counted(tables, "user") == state_of(run, "by_user", "user")
    instances = [len(batch.loads("by_user")) for batch in run.batches]
    assert [8, 5, 5, 12, 3, 8, 8] == instances
    assert all(batch.taken_over > 0 for batch in run.batches[1:6])
    assert 0 == run.batches[6].taken_over


def test_keys_that_are_split_over_instances_are_put_together(spark, tmp_path):
    split = Operator("by_user", "user", parallelism=4, partial=True, apply=Count())
    job = Job.source("in", parallelism=2).then(split, grouping=PartialKey())
    tables = [tuples(batch) for batch in range(3)]
    script = Scripted((Plan(parallelism={"by_user": 2}), Plan()))

    run = SparkEngine(checkpoint=str(tmp_path), every=1).run(
        job, [frame(spark, t) for t in tables], script
    )

    assert counted(tables, "user") == state_of(run, "by_user", "user")


def test_locality_brings_keys_together_on_spark(spark, tmp_path):
    job = Job.source("in", parallelism=2).then("by_user", key="user", parallelism=3)
    job = job.then("by_place", key="place", parallelism=3)
    tables = [tuples(batch) for batch in range(4)]
    engine = SparkEngine(checkpoint=str(tmp_path), every=2)

    run = engine.run(job, [frame(spark, t) for t in tables], Locality(worth=0, imbalance=1.5))

    hop = [("by_user", "by_place")]
    assert run.batches[1].locality(hop) < 0.6
    assert run.batches[3].locality(hop) > 0.9
    assert counted(tables, "place") == state_of(run, "by_place", "place")
    assert any(decision.applied for decision in run.decisions)


class Patient(Optimizer):
    """Plans two instances once it may, and leaves all alone before the first batch."""

    def __init__(self):
        self.may_answer = Event()

    def plan(self, topology, cluster, statistics, current):
        if not statistics.operators:
            return Plan()
        assert self.may_answer.wait(60)
        return Plan(parallelism={"by_user": 2})


def test_batches_go_on_while_the_optimizer_thinks(spark, tmp_path):
    job = Job.source("in", parallelism=2).then("by_user", key="user", parallelism=5)
    optimizer = Patient()
    engine = SparkEngine(checkpoint=str(tmp_path), every=1, meanwhile=True)
    run = engine.run(job, [], optimizer)
    tables = [tuples(batch) for batch in range(3)]

    for table in tables:  # it has been asked after the first
        run.execute(frame(spark, table))
    assert [5, 5, 5] == [len(batch.loads("by_user")) for batch in run.batches]
    optimizer.may_answer.set()
    while len(run.batches[-1].loads("by_user")) == 5:
        assert len(tables) < 30
        tables.append(tuples(len(tables)))
        run.execute(frame(spark, tables[-1]))

    assert 2 == len(run.batches[-1].loads("by_user"))
    assert counted(tables, "user") == state_of(run, "by_user", "user")


def test_a_stopped_job_goes_on_where_it_was(spark, tmp_path):
    job = Job.source("in").then("by_user", key="user", parallelism=3)
    tables = [tuples(batch) for batch in range(4)]
    frames = [frame(spark, t) for t in tables]
    engine = SparkEngine(checkpoint=str(tmp_path), every=1)
    script = Scripted((Plan(parallelism={"by_user": 2}),))
    engine.run(job, frames[:2], script)

    run = engine.run(job, frames, resume=True)

    assert counted(tables, "user") == state_of(run, "by_user", "user")
    assert [2, 3] == [batch.batch for batch in run.batches]
    assert 2 == len(run.batches[0].loads("by_user"))


def test_streams_run_until_they_are_stopped_and_hand_out_each_batch(spark, tmp_path):
    folder = tmp_path / "arriving"
    job = Job.source("in").then("by_user", key="user", parallelism=3)
    job = job.also("other").then("all", key="user", after=("by_user", "other"))
    tables = [tuples(batch) for batch in range(3)]
    for name in ("in", "other"):
        for table in tables:
            rows = spark.createDataFrame(table).coalesce(1)
            rows.write.mode("append").parquet(f"{folder}/{name}")
    streams = {
        name: spark.readStream.schema("user bigint, place bigint, spent bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(f"{folder}/{name}")
        for name in ("in", "other")
    }
    handed: dict[int, int] = {}

    started = SparkEngine(checkpoint=str(tmp_path / "kept")).start(
        job,
        streams,
        each_batch=lambda rows, number: handed.__setitem__(number, rows.count()),
        trigger={"availableNow": True},
    )
    ended = started.wait(120)

    assert ended
    assert counted(tables, "user") == state_of(started.run, "by_user", "user")
    assert set(counted(tables, "user")) == set(state_of(started.run, "all", "user"))
    assert [0, 1, 2] == sorted(handed)
    assert all(rows > 0 for rows in handed.values())


def test_a_plan_says_how_many_tuples_a_recorded_source_lets_in(spark, tmp_path):
    job = Job.source("in").then("by_user", key="user", parallelism=2)
    table = tuples(0, 6_000)
    engine = SparkEngine(checkpoint=str(tmp_path), every=1)
    script = Scripted((Plan(admit={"in": 2_500}),))

    started = engine.start(job, engine.replay("in", table, rows=500), script)
    deadline = time.monotonic() + 60
    while sum(sum(b.loads("by_user")) for b in started.run.batches) < len(table):
        assert time.monotonic() < deadline
        assert not started.wait(0.2)
    started.stop()

    sizes = [sum(batch.loads("by_user")) for batch in started.run.batches]
    assert 500 == sizes[0]
    assert 2_500 == max(sizes)
    assert counted([table], "user") == state_of(started.run, "by_user", "user")


class TestRefusals:
    def test_a_checkpoint_of_another_job(self, spark, tmp_path):
        rows = frame(spark, tuples(0))
        engine = SparkEngine(checkpoint=str(tmp_path))
        engine.run(Job.source("in").then("by_user", key="user"), rows)

        with pytest.raises(CheckpointError, match="by_place"):
            engine.run(Job.source("in").then("by_place", key="place"), rows)

    def test_sources_that_are_missing_or_unknown(self, spark, tmp_path):
        job = Job.source("a").also("b").then("c", after=("a", "b"))
        engine = SparkEngine(checkpoint=str(tmp_path))
        rows = frame(spark, tuples(0))

        with pytest.raises(TopologyError, match="'b' has no rows"):
            engine.run(job, [{"a": rows}])
        with pytest.raises(TopologyError, match="one for each"):
            engine.run(job, rows)
        with pytest.raises(UnknownNameError, match="unknown source 'd'"):
            engine.run(job, [{"a": rows, "b": rows, "d": rows}])

    def test_tuples_without_the_key(self, spark, tmp_path):
        job = Job.source("in").then("by_colour", key="colour")

        with pytest.raises(FoldError, match="no column 'colour'"):
            SparkEngine(checkpoint=str(tmp_path)).run(job, frame(spark, tuples(0)))

    def test_a_keyed_operator_whose_function_is_no_fold(self, spark, tmp_path):
        job = Job.source("in").then("by_user", key="user", apply=expensive)

        with pytest.raises(TopologyError, match="is not a fold"):
            SparkEngine(checkpoint=str(tmp_path)).run(job, frame(spark, tuples(0)))


def test_the_settings_of_a_session_stay_as_they_were(spark, tmp_path):
    before = dict(spark.conf.getAll)
    job = Job.source("in").then("by_user", key="user", parallelism=2)

    SparkEngine(checkpoint=str(tmp_path), spark=spark).run(job, frame(spark, tuples(0)))

    assert before == dict(spark.conf.getAll)


def test_a_batch_costs_one_spark_job(spark, tmp_path):
    job = Job.source("in").then("by_user", key="user", parallelism=2).then("by_place", key="place")
    rows = frame(spark, tuples(0))
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark)
    run = engine.run(job, [rows])
    spark.sparkContext.setJobGroup("counted", "one batch")

    run.execute(rows)

    time.sleep(0.2)  # the tracker hears of a job a moment later
    assert 1 == len(spark.sparkContext.statusTracker().getJobIdsForGroup("counted"))
