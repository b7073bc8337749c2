"""How engines run a job: a value that is checked, and that each engine tells."""

import pyarrow as pa
import pytest
from any_job.driver import Driver

from optimizers import Plan, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.execution import Execution
from optimizers.optimizer import Optimizer
from optimizers.simulation.engine import SimulationEngine
from optimizers.simulation.stream import Stream

JOB = Topology.source("s").then("a", key="k", parallelism=2)


class Watching(Optimizer):
    """Decides nothing, and keeps how the job was run."""

    def __init__(self):
        self.seen = []

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(statistics.execution)
        return Plan()


def test_it_is_checked():
    with pytest.raises(InvalidValueError, match="micro_batches=1 is not a bool"):
        Execution(1)
    with pytest.raises(InvalidValueError, match="slots=0"):
        Execution(micro_batches=True, slots=0)
    with pytest.raises(InvalidValueError, match="execution='spark' is not an Execution"):
        Statistics(execution="spark")


def test_batches_of_stages_say_so_and_how_many_tasks_run_at_once(tmp_path):
    watching = Watching()
    driver = Driver(tmp_path, JOB, watching, slots=3)

    driver.batch({"s": pa.table({"k": [1, 2]})})

    expected = Execution(micro_batches=True, slots=3, sized=("s",))
    assert [None, expected] == watching.seen


def test_a_simulation_of_instances_that_all_run_says_so():
    watching = Watching()
    stream = Stream.steady({"k": [1, 2, 3, 4]}, rate=10.0)

    SimulationEngine(batch_tuples=2).run(JOB, stream, watching)

    assert [None, Execution(micro_batches=False)] == watching.seen
