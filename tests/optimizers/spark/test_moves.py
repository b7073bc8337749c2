"""What `Plan.diff` says will move, by what was observed, and what then moves on Spark."""

import any_job
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_world import CLUSTERS, KEYS, Watching, decisions, jobs, keyed, rows

from optimizers.spark import SparkEngine
from optimizers.statistics import Probe

pytestmark = pytest.mark.spark


class Seeing(Watching):
    """Has everything observed; every key comes in every batch, so that all are counted."""

    observes = frozenset(Probe)


@settings(max_examples=3)  # jobs on Spark
@given(st.data(), jobs(["line", "fork"]), CLUSTERS)
def test_exactly_that_moves_which_was_foretold(spark, data, topology, cluster):
    optimizer = Seeing(lambda current: data.draw(decisions(current)))
    tuples = spark.createDataFrame(pa.table(rows()))
    with any_job.temporary() as folder:
        engine = SparkEngine(checkpoint=str(folder), spark=spark, cluster=cluster, every=1)
        run = engine.run(topology, tuples, optimizer)
        assert 2 == len(optimizer.views)  # before the first batch and after it
        seeded = topology.seeded(run.layout.topology.seed)  # by the seed of the checkpoint
        for number in range(1, 3):
            run.execute(tuples)
            # It is asked after each batch, under the plan that the batch had.
            (old, _, statistics, _), (new, _, _, _) = optimizer.views[-2:]
            moved = old.diff(new, seeded, cluster, statistics)
            # What goes to another node with its instance has its state in the same files.
            moves = [m for m in (*moved.groups, *moved.keys) if m.old[0] != m.new[0]]
            assert sum(move.keys for move in moves) == run.batches[-1].taken_over
            assert (0, ()) == (moved.unsized, moved.reroutes)
            for name in keyed(topology):
                counts = run.state(name).column("count").to_pylist()
                assert [2 * (number + 1)] * len(KEYS) == counts
        assert not any(decision.refused for decision in run.decisions)
