"""Chains: each step decides for the world that the earlier ones leave."""

import copy
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Table, fitting_plans, worlds

from optimizers import (
    Chain,
    Cluster,
    Fixed,
    GroupTable,
    Hash,
    KeyCounts,
    LocalOrShuffle,
    Node,
    Note,
    Optimizer,
    Plan,
    PlanConflictError,
    PlanError,
    Probe,
    Statistics,
    Topology,
)
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics
from optimizers.statistics import OperatorStatistics

JOB = Topology.source("in").then("count", key="k", parallelism=2, key_groups=8).then("out")
NODES = Cluster.uniform(3)


@dataclass(frozen=True)
class Heard(Optimizer):
    """Decides what it is told to, and remembers what it was asked."""

    decision: Plan = Plan()  # noqa: RUF009  # a frozen value
    wants: frozenset[Probe] = frozenset()
    asked: list = field(default_factory=list, compare=False)

    @property
    def observes(self):
        return self.wants

    def plan(self, topology, cluster, statistics, current):
        self.asked.append((topology, cluster, statistics, current))
        return self.decision


@dataclass(frozen=True)
class Widest(Optimizer):
    """Gives an operator one instance more than its widest peer: it depends on what it sees."""

    name_of: str

    def plan(self, topology, cluster, statistics, current):
        wanted = 1 + max(operator.parallelism for operator in topology.operators)
        operator = topology.operator(self.name_of)
        wanted = min(wanted, operator.key_groups) if operator.keyed else wanted
        note = Note("Widest", self.name_of, f"{len(cluster.working)} nodes, {current.batch!r}")
        return Plan(parallelism={self.name_of: wanted}, notes=(note,))


@dataclass(frozen=True)
class Careless(Optimizer):
    """Forgets to return its plan."""

    def plan(self, topology, cluster, statistics, current):
        Plan(batch={"in": 2})


def ask(optimizer, topology=JOB, cluster=NODES, current=Plan()):  # noqa: B008  # frozen
    return optimizer.plan(topology, cluster, Statistics(epoch=4), current)


def test_an_empty_chain_decides_nothing_and_observes_nothing():
    assert Plan() == ask(Chain())
    assert frozenset() == Chain().observes


@settings(max_examples=60)  # whole worlds are slow to draw
@given(worlds())
def test_a_chain_of_one_is_that_one(world):
    topology, cluster, plan = world

    for step in (Fixed(plan), Hash(), Widest(topology.sources[0])):
        alone = ask(step, topology, cluster, Plan(notes=(Note("a", "b", "c"),)))
        assert alone == ask(Chain(step), topology, cluster, Plan(notes=(Note("a", "b", "c"),)))


def test_a_chain_of_one_is_asked_the_very_same_question():
    heard = Heard()
    current = Plan(notes=(Note("a", "b", "c"),), batch={"in": 1})

    ask(Chain(heard), current=current)

    assert [(JOB, NODES, Statistics(epoch=4), current)] == heard.asked


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_chains_nest(data):
    topology, cluster, current = data.draw(worlds())
    fitting = data.draw(fitting_plans(topology, cluster))
    first = Fixed(Plan(batch=fitting.batch, add=fitting.add, drain=fitting.drain))
    second, third = (Widest(data.draw(st.sampled_from(topology.order))) for _ in range(2))

    flat = answer(Chain(first, second, third), topology, cluster, current)

    assert flat == answer(Chain(Chain(first, second), third), topology, cluster, current)
    assert flat == answer(Chain(first, Chain(second, third)), topology, cluster, current)
    assert flat == answer(Chain(Chain(), first, Chain(second), third), topology, cluster, current)


def answer(optimizer, topology, cluster, current):
    """The plan, or the kind of the refusal."""
    try:
        return ask(optimizer, topology, cluster, current)
    except (PlanError, UnknownNameError) as error:
        return type(error)


def test_later_steps_see_the_world_that_earlier_ones_leave():
    added = Node("extra", 2.0)
    first = Heard(Plan(parallelism={"count": 4}, add=(added,)))
    second = Heard(Plan(scheduling={("count", "out"): LocalOrShuffle()}, drain=("node-0",)))
    third = Heard(Plan(routing={"count": Table(4)}))
    current = Plan(parallelism={"count": 2}, routing={"count": Table(2)}, batch={"in": 5})
    running = JOB.under(current)

    decided = ask(Chain(first, second, third), running, NODES, current)

    grown = JOB.under(Plan(parallelism={"count": 4}))
    in_force = Plan(parallelism={"count": 4}, batch={"in": 5}, add=(added,))
    wider = Cluster((*NODES.nodes, added))
    statistics = Statistics(epoch=4)
    assert [(running, NODES, statistics, current)] == first.asked
    assert [(grown, wider, statistics, in_force)] == second.asked
    assert [
        (
            grown.under(second.decision),
            Cluster(wider.nodes, ("node-0",)),
            statistics,
            in_force.amended(second.decision, wider),
        )
    ] == third.asked
    assert first.decision | second.decision | third.decision == decided


def test_later_steps_are_shown_what_would_have_been_seen_in_the_world_that_earlier_ones_leave():
    seen = Statistics(
        operators={"count": OperatorStatistics(tuples=12.0)},
        keys={"count": KeyCounts([1, 2], [8.0, 4.0])},
        groups={"count": GroupStatistics(*np.full((4, 8), 0.5))},
    )
    first = Heard(Plan(routing={"count": GroupTable([1, 2], [3, 3], 8)}))
    second = Heard(Plan(parallelism={"count": 4}))
    third = Heard()

    Chain(first, second, third).plan(JOB, NODES, seen, Plan())

    world = (JOB.under(first.decision), NODES, Plan().amended(first.decision, NODES))
    projected = seen.under(Layout.of(JOB, NODES, Plan()), Layout.of(*world))
    assert seen == first.asked[0][2]
    assert projected == second.asked[0][2]
    assert projected == third.asked[0][2]
    assert projected.groups["count"].cpu.tolist() != seen.groups["count"].cpu.tolist()
    assert 4.0 == projected.groups["count"].cpu.sum()


def test_a_chain_may_widen_an_operator_that_a_table_is_in_force_for():
    current = Plan(routing={"count": Table(2)})
    chain = Chain(Fixed(Plan(parallelism={"count": 4})), Fixed(Plan(routing={"count": Table(4)})))

    decided = ask(chain, JOB.under(current), NODES, current)

    assert Plan(parallelism={"count": 4}, routing={"count": Table(4)}) == decided
    assert decided == current.amended(decided, NODES)


def test_a_chain_observes_what_any_of_its_steps_does():
    chain = Chain(
        Heard(wants=frozenset({Probe.PAIRS})),
        Chain(Heard(wants=frozenset({Probe.COSTS, Probe.PAIRS})), Heard()),
    )

    assert {Probe.PAIRS, Probe.COSTS} == chain.observes


def test_a_chain_is_called_by_its_steps():
    assert "Hash + Fixed" == Chain(Hash(), Fixed(Plan())).name


def test_a_conflict_says_which_step_and_what():
    chain = Chain(
        Fixed(Plan(parallelism={"count": 4})), Hash(), Fixed(Plan(parallelism={"count": 3}))
    )

    with pytest.raises(PlanConflictError) as caught:
        ask(chain)

    error = caught.value
    assert ("parallelism", "count", 4, 3) == (error.part, error.subject, error.first, error.second)
    for word in ("step 3 of the chain, Fixed: ", "the parallelism of 'count': 4 and 3", "drop one"):
        assert word in str(error)
    assert str(error) == str(pickle.loads(pickle.dumps(error)))  # noqa: S301


def test_a_conflict_in_a_chain_within_a_chain_says_both_places():
    inner = Chain(Fixed(Plan(batch={"in": 1})), Fixed(Plan(batch={"in": 2})))

    with pytest.raises(PlanConflictError) as caught:
        ask(Chain(Hash(), inner))

    expected = "step 2 of the chain, Fixed + Fixed: step 2 of the chain, Fixed: two plans decide"
    assert str(caught.value).startswith(expected)


UNFIT = {
    "a step that speaks of what is not there": (
        Chain(Hash(), Fixed(Plan(batch={"ghost": 1}))),
        UnknownNameError,
        ["step 2 of the chain, Fixed: ", "batch: unknown operator 'ghost'"],
    ),
    "a step that unfits an earlier one": (
        Chain(Fixed(Plan(routing={"count": Table(2)})), Fixed(Plan(parallelism={"count": 4}))),
        PlanError,
        ["step 2 of the chain, Fixed: ", "made for 2 instances", "another place of the chain"],
    ),
    "a step that drains the last node": (
        Chain(Fixed(Plan(drain=("node-0", "node-1"))), Fixed(Plan(drain=("node-2",)))),
        PlanError,
        ["step 2 of the chain, Fixed: ", "no node"],
    ),
    "a step that needs a later one": (
        Chain(Heard(Plan(routing={"count": Table(4)})), Fixed(Plan(parallelism={"count": 4}))),
        PlanError,
        ["step 1 of the chain, Heard: ", "made for 4 instances"],
    ),
    "a step that forgets its plan": (
        Chain(Hash(), Careless()),
        PlanError,
        ["step 2 of the chain, Careless: ", "None, which is not a Plan", "return Plan()"],
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_does_not_fit_is_refused_with_the_step_and_the_reason(case):
    chain, kind, words = UNFIT[case]

    with pytest.raises(kind) as caught:
        ask(chain)

    assert [] == [word for word in words if word not in str(caught.value)]
    assert not isinstance(caught.value, PlanConflictError)


@pytest.mark.parametrize("step", [None, Hash, "Hash", [Hash()], Plan()], ids=repr)
def test_a_step_that_is_no_optimizer_is_refused(step):
    with pytest.raises(InvalidValueError) as caught:
        Chain(Hash(), step)

    assert f"{step!r} is not an Optimizer" in str(caught.value)


def test_a_chain_is_a_value():
    chain = Chain(Hash(), Fixed(Plan(batch={"in": 2})))

    assert chain == Chain(Hash(), Fixed(Plan(batch={"in": 2})))
    assert chain != Chain(Fixed(Plan(batch={"in": 2})), Hash())
    assert hash(chain) == hash(copy.deepcopy(chain))
    assert chain == pickle.loads(pickle.dumps(chain))  # noqa: S301
    with pytest.raises(AttributeError):
        chain.steps = ()
