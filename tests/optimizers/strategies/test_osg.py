"""Osg: when it schedules, what it tells the senders, and when it lets things be."""

import numpy as np
import pytest

from grouping.scheduling.least_work.grouping import LeastWork
from grouping.scheduling.online_shuffle.grouping import OnlineShuffle
from optimizers import Chain, Cluster, Locality, Osg, Plan, Probe, Shuffle, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.strategies.osg_published import PublishedOsg
from optimizers.testing import OptimizerContract, World, example_worlds
from sketches.cost_sketch import CostSketch

EDGE = ("tweets", "reach")
CLUSTER = Cluster.uniform(3)


def job(*, parallelism=3, edge_key="author", key=None):
    tweets = Topology.source("tweets", parallelism=2)
    return tweets.then("reach", parallelism=parallelism, edge_key=edge_key, key=key)


def seen(costs, *, paces=(1.0, 1.0, 1.0), tuples=300, seed=0, informed=True, exact=64):
    """What instances measure if tuples of each key cost that much."""
    random = np.random.default_rng(seed)
    names, each = list(costs), np.array(list(costs.values()))
    sketches = []
    for pace in paces:
        chosen = random.integers(0, len(names), tuples)
        taken = each[chosen if informed else random.integers(0, len(names), tuples)]
        sketch = CostSketch(width=64, depth=4, exact=exact)
        sketch.update([names[place] for place in chosen], taken * pace)
        sketches.append(sketch)
    return Statistics(costs={"reach": sketches})


COSTS = {"famous": 0.065, "known": 0.020, "unknown": 0.001}


def decide(statistics, current=None, *, osg=None, topology=None):
    return (osg or Osg()).plan(topology or job(), CLUSTER, statistics, current or Plan())


def scheduling_worlds():
    for statistics in (seen(COSTS), seen(COSTS, paces=(1.0, 1.0, 3.0)), Statistics()):
        yield World(job(), CLUSTER, statistics)
        current = Plan(
            scheduling={EDGE: LeastWork(costs=statistics.costs.get("reach", (None,))[0])}
        )
        yield World(job(), CLUSTER, statistics, current)
    yield from example_worlds()


class TestOsg(OptimizerContract):
    optimizer = Osg()

    def worlds(self):
        return scheduling_worlds()


class TestPublished(OptimizerContract):
    optimizer = Osg.published()

    def worlds(self):
        return scheduling_worlds()


def test_senders_are_told_what_each_key_costs():
    plan = decide(seen(COSTS))
    spec = plan.scheduling[EDGE]
    estimates = spec.costs.estimate(list(COSTS))
    assert pytest.approx(list(COSTS.values())) == estimates.tolist()
    assert spec.paces == ()
    assert "explained" in str(plan.notes[0])


def test_an_instance_that_is_slow_gets_less():
    spec = decide(seen(COSTS, paces=(1.0, 1.0, 3.0))).scheduling[EDGE]
    assert pytest.approx(3.0, rel=0.05) == spec.paces[2] / spec.paces[0]


def test_keys_that_say_nothing_of_costs_change_nothing():
    plan = decide(seen(COSTS, informed=False, tuples=3_000))
    assert not plan
    assert "does not tell" in plan.notes[0].text


def test_slow_instances_matter_even_where_keys_say_nothing():
    plan = decide(seen(COSTS, informed=False, tuples=3_000, paces=(1.0, 1.0, 3.0)))
    assert plan.scheduling[EDGE].paces


def test_costs_that_have_not_changed_change_no_plan():
    first = decide(seen(COSTS, tuples=3_000))
    again = decide(seen(COSTS, tuples=3_000, seed=1), first)
    assert first.scheduling
    assert not again
    assert "as they were" in again.notes[0].text


def test_costs_that_have_changed_are_told_and_the_past_counts_less():
    first = decide(seen(COSTS))
    dearer = {name: 4 * cost for name, cost in COSTS.items()}
    plan = decide(seen(dearer), first)
    (expected,) = plan.scheduling[EDGE].costs.estimate(["famous"])
    # The past counts half: a third of all that counts.
    assert pytest.approx((0.065 * 0.5 + 4 * 0.065) / 1.5, rel=0.1) == expected
    forgetful = decide(seen(dearer), first, osg=Osg(lasting=0.0)).scheduling[EDGE]
    assert pytest.approx([4 * 0.065]) == forgetful.costs.estimate(["famous"]).tolist()


def test_costs_of_other_settings_are_begun_anew():
    first = decide(seen(COSTS))
    plan = decide(seen(COSTS, exact=32), first)
    assert plan.scheduling[EDGE].costs.exact == 32


@pytest.mark.parametrize(
    "topology",
    [job(parallelism=1), job(edge_key=None), job(key="author", edge_key=None)],
    ids=["one instance", "no key", "state"],
)
def test_edges_that_leave_no_choice_are_left_alone(topology):
    parallelism = topology.operator("reach").parallelism
    statistics = seen(COSTS, paces=(1.0,) * parallelism)
    assert not decide(statistics, topology=topology)
    assert not decide(statistics, topology=topology, osg=Osg.published())


def test_what_was_measured_with_other_instances_is_not_gone_by():
    assert not decide(seen(COSTS, paces=(1.0, 1.0)))


def test_as_published_it_lets_them_learn_from_each_other_from_the_start():
    osg = Osg.published(window=64, tolerance=0.1, seed=3)
    plan = decide(Statistics(), osg=osg)
    assert {EDGE: OnlineShuffle(window=64, tolerance=0.1, seed=3)} == dict(plan.scheduling)
    assert PublishedOsg(64, 0.1, 3) == osg
    assert frozenset() == osg.observes
    assert frozenset({Probe.COSTS}) == Osg().observes


def test_it_goes_together_with_locality():
    topology = job().then("count", key="tag", parallelism=3)
    plan = Chain(Locality(), Osg()).plan(topology, CLUSTER, seen(COSTS), Plan())
    assert [EDGE] == list(plan.scheduling)


def test_a_schedule_gives_way_to_the_plan_of_another_number_of_instances():
    current = decide(seen(COSTS, paces=(1.0, 1.0, 3.0)))
    assert not current.amended(Plan(parallelism={"reach": 5}), Cluster.uniform(2)).scheduling
    uniform = Plan(scheduling={EDGE: Shuffle()})
    assert uniform.amended(Plan(parallelism={"reach": 5}), Cluster.uniform(2)).scheduling


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("messages", 0.0),
        ("tolerance", float("nan")),
        ("keys", 0),
        ("lasting", 1.5),
        ("change", -1.0),
        ("least_explained", float("nan")),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(name, value):
    with pytest.raises(InvalidValueError, match=name):
        Osg(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("window", 0), ("tolerance", float("nan")), ("seed", -1)]
)
def test_so_are_those_of_the_published_method(name, value):
    with pytest.raises(InvalidValueError, match=name):
        Osg.published(**{name: value})


HINDRANCES = {
    "edge tweets -> reach names no key that costs could depend on (give it with edge_key)": job(
        edge_key=None
    ),
    "operator 'reach' has one instance": job(parallelism=1),
    "no operator without a key is fed by another, and tuples of the others go by their key": job(
        edge_key=None, key="author"
    ),
}


@pytest.mark.parametrize("reason", HINDRANCES)
@pytest.mark.parametrize("strategy", [Osg(), Osg.published()])
def test_it_says_so_where_it_can_do_nothing(reason, strategy):
    for osg in (strategy, Chain(strategy, Locality())):
        plan = decide(Statistics(), osg=osg, topology=HINDRANCES[reason])

        said = [note for note in plan.notes if note.by == strategy.name]
        assert not plan
        assert [f"can do nothing for this job: {reason}"] == [note.text for note in said]
        assert all(note.idle for note in plan.notes)


def test_it_does_not_say_so_where_it_has_only_seen_nothing_yet():
    assert Plan() == decide(Statistics())
