"""What tuples cost in a job: it reaches the optimizer, from where it was asked for."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from work_clock import Clock, keys, true_cost

from grouping.groupings import LocalOrShuffle, Shuffle
from optimizers import Edge, Operator, Optimizer, Plan, Topology
from optimizers.errors import FoldError
from optimizers.runtime.observe import cost_meter
from optimizers.runtime.observe.observation import Seen
from optimizers.statistics import Probe


class Curious(Optimizer):
    """Asks for some probes, and keeps what it is told."""

    def __init__(self, *probes):
        self.probes = frozenset(probes)
        self.seen = []

    @property
    def observes(self):
        return self.probes

    def plan(self, topology, cluster, statistics, current):
        self.seen.append(statistics)
        return Plan()


def job(function, *, key="k", grouping=None, parallelism=2):
    return Topology.source("s").then(
        "w", apply=function, parallelism=parallelism, edge_key=key, grouping=grouping
    )


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(cost_meter, "BusyClock", lambda: made)
    return made


def test_costs_of_each_instance_reach_the_optimizer_in_the_order_of_the_true_ones(tmp_path, clock):
    curious = Curious(Probe.COSTS)
    driver = Driver(tmp_path, job(clock.busy(0.0, true_cost)), curious, every=3)
    for seed in range(3):
        driver.batch({"s": pa.table({"k": keys(800, seed), "n": np.arange(800)})})

    statistics = curious.seen[-1]
    statistics.check(driver.job)
    sketches = statistics.costs["w"]
    assert [800, 800] == [sketch.total for sketch in sketches]  # of the first batch, all alike
    for sketch in sketches:
        assert [true_cost(key) for key in range(9)] == sketch.estimate(range(9)).tolist()


def test_as_long_as_tuples_are_not_told_apart_each_counts_alike(tmp_path, clock):
    curious = Curious(Probe.COSTS)
    driver = Driver(tmp_path, job(clock.busy(0.0, true_cost), parallelism=1), curious, every=1)
    driver.batch({"s": pa.table({"k": keys(800)})})

    (sketch,) = curious.seen[-1].costs["w"]
    assert 1 == len({round(mean, 6) for mean in sketch.estimate(range(9)).tolist()})


def test_an_instance_without_tuples_has_a_sketch_of_its_own(tmp_path, clock):
    curious = Curious(Probe.COSTS)
    driver = Driver(tmp_path, job(clock.busy(0.0, true_cost), parallelism=3), curious)
    driver.batch({"s": pa.table({"k": [1, 2]})})

    totals = [sketch.total for sketch in curious.seen[-1].costs["w"]]
    assert 3 == len(totals)
    assert [0.0, 1.0, 1.0] == sorted(totals)


@pytest.mark.parametrize("probes", [[], [Probe.PAIRS, Probe.GROUPS, Probe.OPERATORS]])
def test_nothing_is_measured_unless_it_is_asked_for(tmp_path, clock, probes):
    curious = Curious(*probes)
    driver = Driver(tmp_path, job(clock.busy(0.0, true_cost), parallelism=1), curious)

    reports = driver.run({"s": pa.table({"k": keys(700)})})

    assert [700] == clock.calls
    kinds = {name.kind for report in reports for name in report.observed}
    assert Seen.COSTS not in kinds


def test_without_a_key_of_the_edge_nothing_is_measured(tmp_path, clock):
    curious = Curious(Probe.COSTS)
    made = job(clock.busy(0.0, true_cost), key=None, parallelism=1)
    Driver(tmp_path, made, curious).batch({"s": pa.table({"k": keys(700)})})

    assert [700] == clock.calls
    assert not curious.seen[-1].costs


def test_an_operator_that_goes_on_where_its_tuples_are_is_measured_too(tmp_path, clock):
    curious = Curious(Probe.COSTS)
    made = job(clock.busy(0.0, true_cost), grouping=LocalOrShuffle(), parallelism=1)
    driver = Driver(tmp_path, made, curious)
    assert driver.coordinator.layout.attached

    for seed in range(2):
        driver.batch({"s": pa.table({"k": keys(800, seed)})})

    (sketch,) = curious.seen[-1].costs["w"]
    assert true_cost(8) == sketch.estimate([8])[0]


def test_keys_of_edges_that_are_of_different_kinds_do_not_mix(tmp_path, clock):
    curious = Curious(Probe.COSTS)
    made = Topology(
        (Operator("one"), Operator("two"), Operator("w", apply=clock.busy(0.0, lambda key: 2.0))),
        (Edge("one", "w", Shuffle(), "k"), Edge("two", "w", Shuffle(), "word")),
    )
    driver = Driver(tmp_path, made, curious)
    few = pa.table({"k": [1, 2], "word": ["x", "y"]})
    driver.batch({"one": few, "two": pa.concat_tables([few, few])})

    (sketch,) = curious.seen[-1].costs["w"]
    assert ("str", 4.0) == (sketch.kind, sketch.total)


def test_a_key_of_an_edge_that_its_tuples_do_not_have_is_refused_where_it_is_needed(tmp_path):
    driver = Driver(tmp_path, job(lambda batch: batch, key="typo"), Curious(Probe.COSTS))

    with pytest.raises(FoldError, match="costs of operator 'w': tuples have no column 'typo'"):
        driver.run({"s": pa.table({"k": [1]})})
