"""How much sources let in by a plan, and sources that cannot follow one."""

from dataclasses import dataclass

import pyarrow as pa
import pytest

from optimizers import Optimizer, Plan
from optimizers import Topology as Job
from optimizers.errors import PlanError
from optimizers.spark import Sized, SparkEngine
from optimizers.strategies.fixed import Fixed

pytestmark = pytest.mark.spark

JOB = Job.source("in", parallelism=2).then("by_user", key="user", parallelism=2)
NOTHING = Plan()


@dataclass(frozen=True)
class AfterTheFirst(Optimizer):
    """Decides one thing, once a batch has been seen."""

    decision: Plan

    def plan(self, topology, cluster, statistics, current):
        return self.decision if statistics else Plan()


def rate(spark, rows=10):
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    return stream.load().selectExpr("value % 7 AS user")


def after(started, batches):
    while started.run.next_batch < batches:
        assert not started.wait(0.05)
    started.stop()
    return started.run


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Plan(admit={"in": 500}), ["admit['in']=500", "'in'", "Sized(read, rows)"]),
        (Plan(parallelism={"in": 5}), ["parallelism['in']=5", "'in'", "which no plan changes"]),
    ],
)
def test_a_stream_that_cannot_follow_is_named_and_the_job_goes_on(spark, tmp_path, decision, words):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)

    run = after(engine.start(JOB, rate(spark), AfterTheFirst(decision)), 3)

    refused = [each.refused for each in run.decisions if each.refused]
    assert refused
    assert [] == [word for word in words if word not in refused[0]]
    assert {} == dict(run.plan.admit)
    assert 2 == run.layout.topology.operator("in").parallelism


def test_sources_that_can_follow_do(spark, tmp_path):
    table = pa.table({"user": [n % 7 for n in range(900)]})
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)
    stream = engine.replay("in", table, rows=100).selectExpr("user + 1 AS user")

    run = after(engine.start(JOB, stream, AfterTheFirst(Plan(admit={"in": 300}))), 4)

    assert [] == [each.refused for each in run.decisions if each.refused]
    assert 300 in [sum(batch.loads("by_user")) for batch in run.batches]


def test_a_batch_of_an_operator_is_no_admission(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)
    sized = Sized(lambda rows: rate(spark, rows), 10)

    run = after(engine.start(JOB, sized, Fixed(Plan(batch={"in": 3}))), 3)

    assert {10} == {sum(batch.loads("by_user")) for batch in run.batches}


def test_a_plan_in_force_that_a_source_cannot_follow_is_refused(spark, tmp_path):
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=1)
    sized = Sized(lambda rows: rate(spark, rows), 10)
    after(engine.start(JOB, sized, Fixed(Plan(admit={"in": 20}))), 2)

    with pytest.raises(PlanError, match=r"in force has admit\['in'\]=20.*give it as Sized"):
        engine.start(JOB, rate(spark), append=True)
