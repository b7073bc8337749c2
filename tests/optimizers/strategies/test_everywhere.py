"""Everywhere: one grouping on exactly the edges that it fits, whichever grouping it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import topologies

from grouping.groupings import (
    GROUPINGS,
    DChoices,
    DistributionAware,
    Fields,
    GroupTable,
    PartialKey,
    RoutingTable,
    ShortestQueue,
    Shuffle,
    WorstCase,
)
from optimizers import Chain, Cluster, Hash, Plan, PlanError, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.strategies.everywhere import Everywhere
from optimizers.testing import OptimizerContract, World, example_statistics

TABLE = RoutingTable(["a", "b"], [0, 2], 3)
MADE_OF_DATA = {
    RoutingTable: TABLE,
    GroupTable: GroupTable(["a", "b"], [0, 5], 128),
    DistributionAware: DistributionAware(TABLE, [0, 1, 2, 2, 1]),
    WorstCase: WorstCase(TABLE),
}
EVERY = [MADE_OF_DATA[kind] if kind in MADE_OF_DATA else kind() for kind in GROUPINGS]

JOB = (
    Topology.source("posts", parallelism=2)
    .then("clean", parallelism=3)
    .then("score", parallelism=3, edge_key="author")
    .then("by_author", key="author", parallelism=3)
    .then("by_tag", key="tag", parallelism=3, partial=True)
)


def ask(grouping, topology=JOB):
    return World(topology, Cluster.uniform(2), Statistics()).ask(Everywhere(grouping))


class EverywhereContract(OptimizerContract):
    def worlds(self):
        alone = Topology.source("alone")
        yield World(JOB, Cluster.uniform(2), example_statistics(JOB))
        yield World(JOB, Cluster.uniform(2), Statistics(), Plan(scheduling={}))
        yield World(alone, Cluster.uniform(1), Statistics())


for _grouping in EVERY:
    _name = f"TestEverywhere{type(_grouping).__name__}"
    globals()[_name] = type(_name, (EverywhereContract,), {"optimizer": Everywhere(_grouping)})


@pytest.mark.parametrize("grouping", EVERY, ids=lambda grouping: grouping.kind)
def test_no_grouping_is_without_a_place(grouping):
    assert ask(grouping)


@settings(max_examples=75)
@given(topologies(), st.sampled_from(EVERY))
def test_it_decides_for_all_that_a_plan_may_hold_and_for_nothing_else(topology, grouping):
    plan = ask(grouping, topology)

    def fits(**decision):
        try:
            Plan(**decision).check(topology)
        except PlanError:
            return False
        return True

    fed = {edge.target for edge in topology.edges if topology.operator(edge.target).keyed}
    assert {name for name in fed if fits(routing={name: grouping})} == set(plan.routing)
    free = {edge.name for edge in topology.edges if edge.target not in fed}
    assert {edge for edge in free if fits(scheduling={edge: grouping})} == set(plan.scheduling)
    assert {grouping} >= {*plan.routing.values(), *plan.scheduling.values()}
    assert [not plan] == [note.idle for note in plan.notes] or (plan and not plan.notes)


@settings(max_examples=60)
@given(topologies())
def test_hash_is_fields_and_shuffle_everywhere(topology):
    hashed = World(topology, Cluster.uniform(1), Statistics()).ask(Hash())
    fed = {edge.target for edge in topology.edges}

    routed = {name: found for name, found in hashed.routing.items() if name in fed}
    assert routed == dict(ask(Fields(), topology).routing)
    assert dict(hashed.scheduling) == dict(ask(Shuffle(), topology).scheduling)


BY_AUTHOR = Topology.source("posts").then("by_author", key="author", parallelism=2)
HINDRANCES = {
    "shuffle does not go by keys, and operator 'by_author' does": (Shuffle(), BY_AUTHOR),
    "edge posts -> by_author: d_choices spreads one key over several instances, but operator "
    "'by_author' keeps state by author; use Fields(), or set partial=True if its results are "
    "merged downstream": (DChoices(), BY_AUTHOR),
    "edge posts -> clean: partial_key needs a key and operator 'clean' has none; give the operator "
    "a key, or the edge one of its own": (PartialKey(), Topology.source("posts").then("clean")),
    "edge posts -> by_author: the grouping was made for 3 instances and operator 'by_author' has "
    "2; make one for 2": (TABLE, BY_AUTHOR),
    "no operator feeds another": (Shuffle(), Topology.source("posts")),
}


@pytest.mark.parametrize("reason", HINDRANCES)
def test_it_says_why_where_it_fits_nothing(reason):
    grouping, topology = HINDRANCES[reason]

    (note,) = ask(grouping, topology).notes

    assert (f"can do nothing for this job: {reason}", True) == (note.text, note.idle)
    assert f"Everywhere({grouping.kind})" == note.by


def test_several_share_a_job_in_a_chain():
    chain = Chain(Everywhere(ShortestQueue()), Everywhere(DChoices()), Everywhere(Fields()))

    plan = World(JOB.then("out", parallelism=2), Cluster.uniform(2), Statistics()).ask(
        Chain(Everywhere(ShortestQueue()))
    )

    assert {("posts", "clean"), ("clean", "score"), ("by_tag", "out")} == set(plan.scheduling)
    with pytest.raises(PlanError, match="step 2 of the chain, Everywhere\\(d_choices\\)"):
        World(JOB, Cluster.uniform(2), Statistics()).ask(chain)


@pytest.mark.parametrize("value", [None, Shuffle, "shuffle", Hash()], ids=repr)
def test_it_takes_a_grouping_and_nothing_else(value):
    with pytest.raises(InvalidValueError, match="is not a Grouping; write Everywhere"):
        Everywhere(value)
