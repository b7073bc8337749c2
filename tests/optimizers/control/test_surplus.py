"""Fewer nodes are wanted than there are: which of them are left."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Chain, Cluster, Deployment, Fixed, Node, Operator, Plan, Statistics, Topology
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.control.surplus import naming_drains
from optimizers.deployment import default_groups
from optimizers.errors import PlanError
from optimizers.layout import completed

JOB = Topology.source("s").then(Operator("a", "k", 4, key_groups=8)).then("b", key="l")
NAMES = ("m", "n", "o", "p")


def cluster_of(*names, **options):
    return Cluster(tuple(Node(name) for name in names), **options)


def placed(*nodes):
    return Deployment(nodes, tuple(group % len(nodes) for group in range(8)))


def instances_on(names, plan, cluster):
    """How many instances these nodes have; by loops, over the whole plan."""
    whole = completed(plan, JOB, cluster)
    counts = Counter(name for home in whole.placement.values() for name in home.nodes)
    return sum(counts[name] for name in names)


@st.composite
def worlds(draw):
    """A cluster, a plan in force on it, and a decision that wants some number of nodes."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    capacities = [draw(st.sampled_from((1.0, 2.0))) for _ in names]
    nodes = tuple(map(Node, names, capacities))
    cluster = Cluster(nodes, draining=tuple(names[1:2]) if draw(st.booleans()) else ())
    homes = st.lists(st.sampled_from(names), min_size=4, max_size=4)
    current = Plan(placement={"a": placed(*draw(homes))}) if draw(st.booleans()) else Plan()
    working = [node.name for node in cluster.working]
    placement = {}
    if draw(st.booleans()):
        few = st.lists(st.sampled_from(working), min_size=4, max_size=4)
        placement = {"a": placed(*draw(few))}
    drain = tuple(working[:1]) if len(working) > 1 and draw(st.booleans()) else ()
    add = (Node("new"),) if draw(st.booleans()) else ()
    wanted = draw(st.none() | st.integers(1, 5))
    return cluster, current, Plan(placement=placement, drain=drain, add=add, nodes=wanted)


@given(worlds())
def test_just_so_many_stay_and_those_are_left_that_have_least(world):
    cluster, current, decision = world
    working = [node.name for node in cluster.under(decision).working]
    own = {name for home in decision.placement.values() for name in home.nodes}
    own = (own | {node.name for node in decision.add}) & {*working}
    wanted = len(working) if decision.nodes is None else decision.nodes

    if len(own) > wanted:
        with pytest.raises(PlanError, match="nodes="):
            naming_drains(decision, JOB, cluster, current)
        return
    whole = naming_drains(decision, JOB, cluster, current)

    left = {*whole.drain} - {*decision.drain}
    assert max(0, len(working) - wanted) == len(left)
    assert left <= {*working} - own
    others = combinations(sorted({*working} - own), len(left))
    least = min(instances_on(combo, current, cluster) for combo in others)
    assert least == instances_on(left, current, cluster)
    assert Plan(nodes=decision.nodes, drain=whole.drain, add=decision.add) == Plan(
        nodes=whole.nodes, drain=whole.drain, add=whole.add
    )
    assert decision.placement == whole.placement
    assert whole == naming_drains(whole, JOB, cluster, current)


def test_nodes_that_the_same_plan_drains_are_not_counted_as_wanted():
    cluster = Cluster((Node("m"), Node("n"), Node("o")))
    home = Deployment(("m", "n"), (0, 1) * 4)
    decision = Plan(nodes=1, drain=("m",), placement={"a": home})

    assert ("m", "o") == naming_drains(decision, JOB, cluster, Plan()).drain


def test_of_several_that_have_as_little_the_least_capable_and_then_the_last_is_left():
    cluster = Cluster((Node("m", 2.0), Node("n", 1.0), Node("o", 1.0), Node("p", 2.0)))

    for count, names in ((3, ("o",)), (2, ("n", "o")), (1, ("n", "o", "p"))):
        assert names == naming_drains(Plan(nodes=count), ONE_EACH, cluster, Plan()).drain


ONE_EACH = Topology.source("s", parallelism=4)


def test_a_plan_that_uses_more_nodes_than_it_wants_is_refused_by_their_names():
    decision = Plan(nodes=1, placement={"a": placed("m", "n", "m", "n")})

    with pytest.raises(PlanError) as caught:
        naming_drains(decision, JOB, cluster_of("m", "n", "o"), Plan())

    for words in ("nodes=1", "2: ['m', 'n']", "want more nodes"):
        assert words in str(caught.value)


def test_a_decision_tells_which_nodes_it_leaves_and_moves_just_what_is_on_them():
    cluster = cluster_of("m", "n", "o")
    current = completed(Plan(), JOB, cluster)
    question = Question(JOB, cluster, Statistics(), current)

    decided = ask(Fixed(Plan(nodes=2)), question).plan

    assert Plan(nodes=2, drain=("o",), notes=decided.notes) == decided
    expected = "machines on o: it is left, having fewest instances, as 2 nodes are wanted"
    assert [expected] == [str(note) for note in decided.notes]
    after = current.amended(decided, cluster)
    assert 2 == after.nodes
    moves = current.diff(after, JOB, cluster)
    assert {"o"} == {move.old[1] for move in moves.groups}
    assert {2} == {move.old[0] for move in moves.groups}
    assert not current.diff(current.amended(Plan(nodes=7), cluster), JOB, cluster)


def test_later_steps_of_a_chain_see_which_nodes_are_left():
    cluster, seen = cluster_of("m", "n", "o"), []

    class Looking(Fixed):
        def plan(self, topology, cluster, statistics, current):
            seen.append((cluster.draining, current.nodes))
            home = Deployment((cluster.working[-1].name,), default_groups(JOB.operator("b")))
            return Plan(placement={"b": home})

    current = completed(Plan(), JOB, cluster)
    question = Question(JOB, cluster, Statistics(), current)

    answer = ask(Chain(Fixed(Plan(nodes=2)), Looking(Plan())), question)

    assert [(("o",), 2)] == seen
    assert ("o",) == answer.plan.drain
    assert ("n",) == answer.plan.placement["b"].nodes
    refused = ask(Chain(Fixed(Plan(nodes=2)), Fixed(Plan(nodes=3))), question).refused
    assert "the number of 'nodes': 2 and 3" in refused
