"""Loads on Spark, of a job of which they are known: within a tenth of the truth, or absent."""

import busy
import known_loads
import numpy as np
import pyarrow as pa
import pytest
from known_loads import Placing, truth, tuples, wrong
from pyspark import cloudpickle

from grouping.groupings import LocalOrShuffle
from optimizers import Albic, Cluster, Deployment, Layout, Node, Operator, Plan, Topology
from optimizers.deployment import default_groups
from optimizers.folds import Count, Emit
from optimizers.runtime.observe.row_sizes import row_sizes
from optimizers.spark import Settings
from optimizers.spark.engine import SparkEngine

pytestmark = pytest.mark.spark

BATCHES, ROWS = 8, 500
MEMORY, LINK = {"x": 1e6, "y": 4e6}, {"x": 1e7, "y": 3e6}
NODES = Cluster(
    tuple(Node(name, cores=1, memory=MEMORY[name], bandwidth=LINK[name]) for name in ("x", "y"))
)


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory):
    """The run, and what its optimizer was told after all batches."""
    cloudpickle.register_pickle_by_value(busy)
    job = known_loads.JOB
    homes = {
        name: Deployment(("x", "x"), default_groups(job.operator(name))) for name in ("s", "f")
    }
    placing = Placing(Plan(placement=homes))
    engine = SparkEngine(
        checkpoint=str(tmp_path_factory.mktemp("loads")), spark=spark, cluster=NODES, every=BATCHES
    )
    frames = [spark.createDataFrame(tuples(n, ROWS)).coalesce(2) for n in range(BATCHES)]
    run = engine.run(job, frames, placing)
    yield run, placing.heard[-1]
    cloudpickle.unregister_pickle_by_value(busy)


def test_all_that_is_told_of_groups_is_true(told):
    run, seen = told
    true = truth(run.layout, [tuples(n, ROWS) for n in range(BATCHES)], "x")

    for name in ("a", "b"):
        # Each parcel has a head of some hundred bytes, which its tuples share.
        heads = dict.fromkeys(("bytes_in", "bytes_out", "remote_in", "remote_out"), 4000.0)
        assert {} == wrong(seen.groups[name], true[name], {**heads, "seconds": 1e-3}), name


def test_after_eight_batches_all_is_known_of_groups_but_what_cheap_tuples_take(told):
    """Those of ``b`` cost little beside its tasks; CPU time of its groups was told in some runs."""
    _, seen = told
    known = {"tuples", "state_bytes", "bytes_in", "remote_in", "bytes_out", "remote_out"}
    known |= {"memory", "network"}

    assert known | {"seconds", "cpu"} == set(seen.groups["a"].columns)
    assert known == set(seen.groups["b"].columns) - {"seconds", "cpu"}


def test_shares_are_of_what_nodes_have(told):
    run, seen = told
    groups, home = seen.groups["a"], run.layout.homes["a"]
    nodes = [home.nodes[instance] for instance in home.groups]

    assert {"x", "y"} == set(nodes)
    assert groups.cpu == pytest.approx(groups.seconds / seen.seconds)
    assert groups.memory == pytest.approx(groups.state_bytes / [MEMORY[node] for node in nodes])
    crossed = np.maximum(groups.remote_in, groups.remote_out)  # each way has the whole link
    links = np.array([LINK[node] for node in nodes])
    assert groups.network == pytest.approx(crossed / (links * seen.seconds))


def test_instances_have_what_their_groups_have_and_what_calls_take(told):
    """After eight batches that is known of a fold whose tuples all cost the same."""
    run, seen = told
    for name in ("a", "b"):
        found, groups = seen.instances[name], seen.groups[name]
        owners = run.layout.homes[name].groups
        for fact in ("tuples", "bytes_in", "remote_in", "state_bytes"):
            whole = np.bincount(owners, getattr(groups, fact), 2)
            assert whole == pytest.approx(getattr(found, fact), rel=0.02), (name, fact)
        assert found.nodes == run.layout.homes[name].nodes
        assert found.hosts is None
    calls = BATCHES * busy.Spinning.call
    fixed = seen.instances["b"].fixed
    grows = seen.instances["b"].tuples * busy.Spinning.tuple  # and more: the engine's own
    left = seen.instances["b"].seconds - 0.9 * grows
    assert ((fixed > 0.9 * calls) & (fixed < left)).all()
    assert seen.instances["b"].seconds.sum() > 2 * calls


def test_cpu_shares_of_nodes_that_are_made_up_add_up_to_that_of_the_machine(spark, tmp_path):
    """Four nodes are no four cores, where tasks run on two."""
    job = Topology.source("s", parallelism=2)
    job = job.then(Operator("b", "l", 4, busy.Spinning(emit=Emit.NOTHING), key_groups=8))
    placing = Placing(Plan())
    engine = SparkEngine(checkpoint=str(tmp_path), spark=spark, every=2)
    frames = [spark.createDataFrame(tuples(n, 4 * ROWS)).coalesce(2) for n in range(2)]

    engine.run(job, frames, placing)

    seen, cores, nodes = placing.heard[-1], 2, 4
    for name in ("s", "b"):
        found = seen.instances[name]
        used = found.seconds.sum() / (cores * seen.seconds)
        assert found.cpu.sum() / nodes == pytest.approx(used)
        assert set(found.nodes) <= {f"node-{place}" for place in range(nodes)}
    assert seen.instances["b"].cpu.sum() / nodes > 4 * 2 * 2e-3 / (cores * seen.seconds)
    assert seen.execution.slots == cores


def test_sources_and_operators_without_a_key_are_told_as_well(told):
    _, seen = told
    source, plain = seen.instances["s"], seen.instances["f"]

    assert source.tuples.sum() == plain.tuples.sum() == BATCHES * ROWS
    assert source.bytes_out.sum() == pytest.approx(plain.bytes_in.sum())
    assert not source.remote_out.any()
    assert not plain.remote_in.any()
    assert plain.bytes_out.sum() == seen.edges["f", "a"].bytes
    remote = seen.edges["f", "a"].bytes - seen.edges["f", "a"].local_bytes
    assert plain.remote_out.sum() == pytest.approx(remote)
    assert plain.seconds.sum() > BATCHES * ROWS * 1e-5
    for found in (source, plain, seen.instances["a"], seen.instances["b"]):
        assert (found.receiving > 0).all()
        assert (found.seconds > found.receiving).all()
    assert [0.0, 0.0] == source.state_bytes.tolist() == plain.state_bytes.tolist()


def test_tuples_that_stay_in_their_task_and_state_that_went_from_memory_are_told(spark, tmp_path):
    """Both are of what is local to a task: no parcel and no file tells of them."""
    job = Topology.source("s", parallelism=2)
    job = job.then("f", parallelism=2, grouping=LocalOrShuffle())
    job = job.then("a", key="k", parallelism=4, apply=Count())
    table = pa.table({"k": np.arange(2000), "t": ["t" * (key % 50) for key in range(2000)]})
    room, placing = 40_000, Placing(Plan())
    engine = SparkEngine(
        checkpoint=str(tmp_path),
        spark=spark,
        cluster=NODES,
        every=3,
        settings=Settings(resident=room),
    )

    run = engine.run(job, [spark.createDataFrame(table).coalesce(2)] * 3, placing)

    seen, size = placing.heard[-1], 3 * row_sizes(table).sum()
    assert {"f"} == run.layout.attached
    assert seen.instances["s"].bytes_out.sum() == seen.instances["f"].bytes_in.sum()
    assert seen.instances["f"].bytes_in.sum() == pytest.approx(size, rel=0.1)
    assert not seen.instances["f"].remote_in.any()
    found = seen.instances["a"]
    assert 2000 * (8 + 8 + 8) == found.state_bytes.sum() > room
    assert 0 < found.resident.sum() <= room
    assert ((found.resident == found.state_bytes) | (found.resident == 0)).all()


def test_a_skewed_count_is_balanced_by_what_it_takes_and_not_by_memory(spark, tmp_path):
    """State is as even as keys are; most tuples are of the keys of a few groups."""
    job = Topology.source("s", parallelism=2)
    job = job.then(Operator("a", "k", 2, Count(emit=Emit.NOTHING), key_groups=16))
    keys, random = np.arange(2000), np.random.default_rng(3)
    layout = Layout.of(job, NODES, Plan())
    weights = np.where(known_loads.group_of(layout, "a", keys) < 4, 6.0, 1.0)
    weights /= weights.sum()
    tables = [pa.table({"k": random.choice(keys, 40_000, p=weights)}) for _ in range(8)]
    frames = [spark.createDataFrame(table).coalesce(2) for table in tables]
    engine = SparkEngine(
        checkpoint=str(tmp_path), spark=spark, cluster=NODES, every=2, seed=job.seed
    )

    run = engine.run(job, frames, Albic(budget="100 %"))

    notes = [note.text for decision in run.decisions for note in decision.notes]
    moved = [text for text in notes if "load is uneven" in text]
    assert moved
    assert all(text.endswith((", by cpu", ", by tuples")) for text in moved), moved
    imbalance = [batch.imbalance("a") for batch in run.batches]
    assert imbalance[0] > 1.3
    assert imbalance[-1] < 1.15
