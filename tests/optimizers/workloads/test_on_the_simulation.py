"""Our workloads in the simulation: each strategy acts there, or says why it does not."""

import numpy as np
import pytest
from any_workloads import unpaced, untimed

from optimizers import Topology, compare
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.plugins import create, registered
from optimizers.simulation import Network, Work
from optimizers.workloads import WORKLOADS, Workload, workload
from optimizers.workloads.reach import network, seconds

FIT_ANYTHING = ("fields", "hash")
"""What these decide is in force already."""


@pytest.fixture(scope="module", params=WORKLOADS)
def compared(request):
    chosen = workload(request.param)
    variants = {name: create(name) for name in registered()}
    batches = chosen.batches(5, scale=0.01)
    return compare(chosen.topology, batches, variants, engine=chosen.simulation(every=2))


def test_every_strategy_runs_and_acts_or_says_why_not(compared):
    assert not compared.failed
    for outcome in compared.variants:
        asked = outcome.decisions
        acts = any(decision.applied for decision in asked)
        explains = "no reason given" not in asked[-1].text
        assert acts or explains or outcome.idle or outcome.name in FIT_ANYTHING, outcome.name
        assert not [decision.refused for decision in asked if decision.refused], outcome.name


def test_times_are_known_of_all_and_the_queues_do_not_grow(compared):
    hashed = compared["hash"]

    for outcome in compared.variants:
        assert all(batch.latency.mean > 0 for batch in outcome.batches)
        assert all(batch.makespan > 0 for batch in outcome.batches)
    assert hashed.batches[-1].latency.mean < 10 * hashed.batches[1].latency.mean
    assert "A tuple is done after" in compared.summary() or "notably sooner" in compared.summary()


def test_the_seconds_of_a_tweet_are_by_the_edges_that_its_reach_follows():
    authors = np.array([17, 3, 17, 9000])

    found = seconds({"author": authors})

    expected = [26e-6 + 3e-9 * network().reach(author)[1] for author in authors.tolist()]
    assert expected == pytest.approx(found.tolist(), rel=1e-12)


def test_the_engine_is_as_the_workload_says_unless_it_is_said_otherwise():
    trending, far = workload("trending"), Network(latency=1.0)

    assert (3, trending.rate, 0) == (
        trending.simulation().every,
        trending.simulation().rate,
        trending.simulation().seed,
    )
    given = trending.simulation(every=1, rate=9, network=far, seed=4)
    assert (1, 9.0, far, 4) == (given.every, given.rate, given.network, given.seed)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"work": {"c": Work(1)}}, UnknownNameError, "unknown operator 'c'; known: 'in', 'b'"),
        ({"work": {"b": 1}}, InvalidValueError, "'x': work={'b': 1} does not name the work of"),
        ({"work": Work(1)}, InvalidValueError, "does not name the work of operators; write"),
        ({"rate": 0}, InvalidValueError, "rate=0"),
        ({"rate": "fast"}, InvalidValueError, "rate='fast'"),
    ],
)
def test_what_a_workload_cannot_mean_is_refused(changed, error, words):
    job = Topology.source("in").then("b")

    with pytest.raises(error, match=words):
        Workload(name="x", about="y", topology=job, stream=untimed.stream, **changed)


def test_what_a_simulation_has_to_know_is_asked_for():
    with pytest.raises(InvalidValueError, match="'untimed' does not say what takes time"):
        untimed.simulation(rate=1.0)
    with pytest.raises(InvalidValueError, match="'unpaced' does not say how fast tuples come"):
        unpaced.simulation()
