"""Plans: every defect is refused by name, and what is decided does not change any more."""

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import Table, plans, worlds
from wild_input import taken_or_refused

from grouping.groupings import Fields, GroupTable, LocalOrShuffle, PartialKey, RoutingTable, Shuffle
from optimizers import (
    Cluster,
    Deployment,
    Hash,
    Node,
    Note,
    PenstockError,
    Plan,
    PlanConflictError,
    PlanError,
    Topology,
)
from optimizers.deployment import default_groups
from optimizers.errors import InvalidValueError, UnknownNameError

JOB = (
    Topology.source("in", parallelism=2)
    .then("count", key="k", parallelism=3, key_groups=4)
    .then("parts", key="k", partial=True, parallelism=2, key_groups=2)
    .then("out")
)
NODES = Cluster((Node("a"), Node("b")))
HOME = Deployment(("a", "b", "a"), (0, 1, 2, 0))

BAD = {
    "parallelism zero": (lambda: Plan(parallelism={"x": 0}), ["parallelism['x']=0"]),
    "parallelism True": (lambda: Plan(parallelism={"x": True}), ["parallelism['x']=True"]),
    "parallelism half": (lambda: Plan(parallelism={"x": 1.5}), ["parallelism['x']=1.5"]),
    "batch negative": (lambda: Plan(batch={"x": -1}), ["batch['x']=-1"]),
    "admit zero": (lambda: Plan(admit={"x": 0}), ["admit['x']=0"]),
    "batch None": (lambda: Plan(batch={"x": None}), ["batch['x']=None"]),
    "parallelism a number": (lambda: Plan(parallelism=3), ["parallelism=3", "mapping"]),
    "parallelism None": (lambda: Plan(parallelism=None), ["parallelism=None"]),
    "parallelism by number": (lambda: Plan(parallelism={3: 1}), ["parallelism: 3 is not a name"]),
    "routing by kind": (lambda: Plan(routing={"x": "fields"}), ["routing['x']", "Grouping"]),
    "routing in turn": (
        lambda: Plan(routing={"x": Shuffle()}),
        ["routing['x']", "Shuffle()", "schedule the edge"],
    ),
    "placement a tuple": (lambda: Plan(placement={"x": ("a",)}), ["placement['x']", "Deployment"]),
    "scheduling by operator": (
        lambda: Plan(scheduling={"x": Shuffle()}),
        ["scheduling: 'x' is not an edge", "('source', 'target')"],
    ),
    "scheduling by three": (
        lambda: Plan(scheduling={("a", "b", "c"): Shuffle()}),
        ["is not an edge"],
    ),
    "scheduling by kind": (lambda: Plan(scheduling={("a", "b"): "x"}), ["('a', 'b')", "Grouping"]),
    "adopt a name": (lambda: Plan(adopt="x"), ["adopt='x'", "list"]),
    "adopt a number": (lambda: Plan(adopt=[1]), ["operator name 1"]),
    "adopt unrouted": (
        lambda: Plan(adopt=["x"]),
        ["adopt names 'x'", "routing['x'] a GroupTable", "leave it out"],
    ),
    "adopt without a table": (
        lambda: Plan(routing={"x": Fields()}, adopt=["x"]),
        ["adopt names 'x'", "by a table"],
    ),
    "add a name": (lambda: Plan(add=["a"]), ["'a'", "not a Node"]),
    "add one": (lambda: Plan(add=Node("a")), ["add=Node", "list"]),
    "add twice": (
        lambda: Plan(add=[Node("a"), Node("a", 2.0)]),
        ["two nodes to add are called 'a'", "rename"],
    ),
    "drain one name": (lambda: Plan(drain="ab"), ["drain='ab'", "list"]),
    "drain a set": (lambda: Plan(drain={"a"}), ["drain={'a'}", "order"]),
    "drain a number": (lambda: Plan(drain=[1]), ["drained node name 1"]),
    "drain what is added": (
        lambda: Plan(add=[Node("a")], drain=["a"]),
        ["'a'", "both added and drained"],
    ),
    "nodes none": (lambda: Plan(nodes=0), ["nodes=0", "at least 1"]),
    "nodes and a half": (lambda: Plan(nodes=1.5), ["nodes=1.5", "whole number"]),
    "nodes true": (lambda: Plan(nodes=True), ["nodes=True", "whole number"]),
    "nodes by name": (lambda: Plan(nodes=("a",)), ["nodes=('a',)", "whole number"]),
    "notes one": (lambda: Plan(notes=Note("x", "y", "z")), ["notes=Note", "list"]),
    "notes text": (lambda: Plan(notes=["why"]), ["'why'", "not a Note"]),
    "note by None": (lambda: Note(None, "y", "z"), ["by=None"]),
    "note text number": (lambda: Note("x", "y", 3), ["text=3"]),
    "idle a number": (lambda: Note("x", "y", "z", (), 1), ["idle=1", "True or False"]),
    "figures a number": (lambda: Note("x", "y", "z", 3), ["figures=3"]),
    "figures text": (lambda: Note("x", "y", "z", "ab"), ["figures='ab'"]),
    "figures unpaired": (lambda: Note("x", "y", "z", (("gain",),)), ["('gain',)", "name"]),
    "figures NaN": (lambda: Note("x", "y", "z", {"gain": math.nan}), ["'gain'", "nan"]),
    "figures by number": (lambda: Note("x", "y", "z", {1: 2.0}), ["(1, 2.0)", "name"]),
    "deployment empty": (lambda: Deployment(()), ["without instances"]),
    "deployment None": (lambda: Deployment(None), ["nodes=None"]),
    "deployment one name": (lambda: Deployment("ab"), ["nodes='ab'"]),
    "deployment by number": (lambda: Deployment((1,)), ["node name 1"]),
    "group out of range": (lambda: Deployment(("a",), (0, 1)), ["groups[1]=1", "from 0 to 0"]),
    "group negative": (lambda: Deployment(("a",), (-1,)), ["groups[0]=-1"]),
    "group True": (lambda: Deployment(("a", "b"), (True,)), ["groups[0]=True"]),
    "groups None": (lambda: Deployment(("a",), None), ["groups=None"]),
    "node of no group": (lambda: HOME.node_of(4), ["group=4", "from 0 to 3"]),
    "node of group -1": (lambda: HOME.node_of(-1), ["group=-1"]),
    "node of stateless": (lambda: Deployment(("a",)).node_of(0), ["no key groups"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_plan_is_refused_by_name(case):
    build, words = BAD[case]

    with pytest.raises(PenstockError) as caught:
        build()

    assert [] == [word for word in words if word not in str(caught.value)]


UNFIT = {
    "unknown parallelism": (
        Plan(parallelism={"ghost": 2}),
        UnknownNameError,
        ["parallelism: unknown operator 'ghost'", "known: 'in', 'count'"],
    ),
    "unknown batch": (Plan(batch={"ghost": 2}), UnknownNameError, ["batch:", "'ghost'"]),
    "unknown admit": (Plan(admit={"ghost": 2}), UnknownNameError, ["admit:", "'ghost'"]),
    "admit of no source": (
        Plan(admit={"count": 500}),
        PlanError,
        ["admit['count']=500", "'count' is not a source", "plan batch"],
    ),
    "unknown routing": (Plan(routing={"ghost": Fields()}), UnknownNameError, ["routing:"]),
    "unknown placement": (Plan(placement={"ghost": HOME}), UnknownNameError, ["placement:"]),
    "unknown edge": (
        Plan(scheduling={("in", "out"): Shuffle()}),
        UnknownNameError,
        ["scheduling: unknown edge 'in -> out'"],
    ),
    "unknown end": (
        Plan(scheduling={("ghost", "out"): Shuffle()}),
        UnknownNameError,
        ["scheduling:", "'ghost'"],
    ),
    "unknown drain": (Plan(drain=("ghost",)), UnknownNameError, ["drain: unknown node 'ghost'"]),
    "unknown home": (
        Plan(placement={"count": Deployment(("a", "b", "ghost"), (0, 1, 2, 0))}),
        UnknownNameError,
        ["placement['count']: unknown node 'ghost'"],
    ),
    "more than groups": (
        Plan(parallelism={"count": 5}),
        PlanError,
        ["parallelism['count']=5", "4 key groups", "plan 4 at most"],
    ),
    "routing without key": (
        Plan(routing={"out": Fields()}),
        PlanError,
        ["routing['out']", "no key", "schedule the edges"],
    ),
    "scheduling with key": (
        Plan(scheduling={("in", "count"): Fields()}),
        PlanError,
        ["('in', 'count')", "route its keys"],
    ),
    "scheduling needs key": (
        Plan(scheduling={("parts", "out"): Fields()}),
        PlanError,
        ["parts -> out", "needs a key"],
    ),
    "state in parts": (
        Plan(routing={"count": PartialKey()}),
        PlanError,
        ["does not fit", "partial_key", "partial=True"],
    ),
    "table of another size": (
        Plan(routing={"count": Table(2)}),
        PlanError,
        ["made for 2 instances", "'count' has 3"],
    ),
    "table of the old size": (
        Plan(routing={"count": Table(3)}, parallelism={"count": 2}),
        PlanError,
        ["made for 3 instances", "'count' has 2"],
    ),
    "schedule of another size": (
        Plan(scheduling={("parts", "out"): Table(2)}),
        PlanError,
        ["parts -> out"],
    ),
    "homes for others": (
        Plan(placement={"count": Deployment(("a",), (0, 0, 0, 0))}),
        PlanError,
        ["placement['count']", "1 instances", "has 3"],
    ),
    "homes for the old": (
        Plan(placement={"count": HOME}, parallelism={"count": 2}),
        PlanError,
        ["placement['count']", "3 instances", "has 2"],
    ),
    "groups missing": (
        Plan(placement={"count": Deployment(("a", "b", "a"), (0, 1))}),
        PlanError,
        ["places 2 key groups", "has 4"],
    ),
    "groups of a stateless": (
        Plan(placement={"out": Deployment(("a",), (0,))}),
        PlanError,
        ["places 1 key groups", "has 0"],
    ),
    "drains all": (Plan(drain=("a", "b")), PlanError, ["['a', 'b']", "no node"]),
    "adds another of the name": (Plan(add=(Node("a", 9.0),)), PlanError, ["'a'", "capacity=9.0"]),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_a_job_cannot_carry_out_is_refused_by_name(case):
    plan, error, words = UNFIT[case]

    with pytest.raises(error) as caught:
        plan.check(JOB, NODES)

    assert [] == [word for word in words if word not in str(caught.value)]


def test_without_a_cluster_only_the_job_is_checked():
    Plan(drain=("ghost",), placement={"count": Deployment(("x", "y", "z"), (0, 1, 2, 0))}).check(
        JOB
    )


@settings(max_examples=60)  # whole worlds are slow to draw
@given(worlds())
def test_what_fits_is_accepted(world):
    topology, cluster, plan = world

    plan.check(topology, cluster)
    plan.check(topology)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(worlds())
def test_the_decisions_are_what_the_job_is_under_the_plan(world):
    topology, _, plan = world
    under = topology.under(plan)

    for operator in topology.operators:
        expected = plan.parallelism.get(operator.name, operator.parallelism)
        assert expected == under.operator(operator.name).parallelism
    for edge in topology.edges:
        decided = plan.scheduling.get(edge.name, plan.routing.get(edge.target))
        expected = topology.grouping(*edge.name) if decided is None else decided
        assert expected == under.grouping(*edge.name)


@pytest.mark.parametrize(
    "build",
    [
        *[lambda value, part=field.name: Plan(**{part: value}) for field in fields(Plan)],
        lambda value: Plan(add=[value]),
        lambda value: Plan(drain=[value]),
        lambda value: Plan(notes=[value]),
        Deployment,
        lambda value: Deployment(("a",), value),
        lambda value: Deployment(("a",), [value]),
        lambda value: Note(value, "", ""),
        lambda value: Note("", "", "", value),
        lambda value: Note("", "", "", [value]),
        HOME.node_of,
        Plan.from_json,
    ],
)
def test_wild_input_is_taken_or_refused_but_never_stumbled_over(build):
    taken_or_refused(build, Node)


def test_a_plan_of_an_earlier_version_says_in_its_tables_who_adopts():
    tables = {"x": RoutingTable([1], [0], 2), "y": RoutingTable([1], [1], 2)}
    plan = Plan(routing=tables, adopt=("x",))
    written = json.loads(plan.to_json())
    del written["adopt"]
    written["routing"]["x"]["adopts"] = True

    assert plan == Plan.from_json(json.dumps(written))
    assert plan == Plan.from_json(plan.to_json())


def test_whether_an_operator_adopts_is_decided_with_its_table():
    table = GroupTable([1], [0], 4)
    plain, adopting = Plan(routing={"x": table}), Plan(routing={"x": table}, adopt=("x",))

    with pytest.raises(PlanConflictError, match="the adoption of 'x': False and True"):
        plain | adopting
    assert adopting == adopting.amended(Plan(), NODES) == plain.amended(adopting, NODES)
    assert plain == adopting.amended(plain, NODES)
    assert ("x",) == adopting.amended(Plan(parallelism={"x": 3}), NODES).adopt
    old = Plan(routing={"x": RoutingTable([1], [0], 2)}, adopt=("x",))
    assert () == old.amended(Plan(parallelism={"x": 3}), NODES).adopt


def test_a_merge_with_what_is_no_plan_is_pythons_own_error():
    with pytest.raises(TypeError, match="unsupported operand"):
        Plan() | {"parallelism": {}}


def test_only_decisions_make_a_plan_true():
    note = Note("x", "y", "z")

    assert not Plan()
    assert not Plan(notes=(note,))
    for decided in (
        Plan(parallelism={"x": 1}),
        Plan(admit={"x": 1}),
        Plan(batch={"x": 1}),
        Plan(routing={"x": Fields()}),
        Plan(placement={"x": HOME}),
        Plan(scheduling={("x", "y"): Shuffle()}),
        Plan(add=(Node("a"),)),
        Plan(drain=("a",)),
    ):
        assert decided


def test_a_plan_prints_what_it_decides_and_no_more():
    plan = Plan(drain=("b", "a"), batch={"y": 2, "x": 1}, scheduling={("x", "y"): Shuffle()})

    expected = "Plan(batch={'x': 1, 'y': 2}, scheduling={('x', 'y'): Shuffle()}, drain=('a', 'b'))"

    assert expected == repr(plan)
    assert "Plan()" == repr(Plan())


def test_a_note_prints_as_a_sentence_with_its_figures():
    note = Note("Albic", "count", "too far", {"gain": 0.25, "cost": 1e9})

    assert "Albic on count: too far (gain 0.25, cost 1e+09)" == str(note)
    assert "Albic on count: as it was" == str(Note("Albic", "count", "as it was"))


def test_the_order_of_writing_makes_no_difference():
    first = Plan(parallelism={"x": 1, "y": 2}, add=(Node("b"), Node("a")), drain=["d", "c", "d"])
    second = Plan(parallelism={"y": 2, "x": 1}, add=(Node("a"), Node("b")), drain=("c", "d"))

    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)
    assert first.to_json() == second.to_json()


def test_figures_that_are_equal_are_written_alike():
    below, above = (Note("x", "y", "z", {"gain": zero}) for zero in (-0.0, 0.0))

    assert Plan(notes=(below,)).to_json() == Plan(notes=(above,)).to_json()


def test_what_was_passed_in_can_change_without_changing_the_plan():
    parallelism, added, drained = {"x": 1}, [Node("a")], ["b"]
    placement, homes, groups = {}, ["a", "b"], np.array([0, 1])
    placement["x"] = Deployment(homes, groups)
    plan = Plan(parallelism=parallelism, add=added, drain=drained, placement=placement)
    before = repr(plan)

    parallelism["x"] = 9
    added.clear()
    drained.append("c")
    placement.clear()
    homes.clear()
    groups[:] = 0

    assert before == repr(plan)
    assert Deployment(("a", "b"), (0, 1)) == plan.placement["x"]


@given(plans())
def test_a_plan_is_the_same_after_pickle_copy_and_use(plan):
    before = pickle.dumps(plan)
    copies = [pickle.loads(before), copy.deepcopy(plan), copy.copy(plan)]  # noqa: S301
    hash(plan), repr(plan), plan.to_json(), bool(plan)

    assert before == pickle.dumps(plan)
    assert [plan] * 3 == copies
    assert {hash(plan)} == set(map(hash, copies))


def test_nothing_of_a_plan_can_be_set():
    plan = Plan(parallelism={"x": 1}, placement={"x": HOME}, notes=(Note("x", "y", "z"),))
    before = copy.deepcopy(plan)

    for value in (plan, plan.notes[0], plan.placement["x"]):
        for field in fields(value):
            with pytest.raises(AttributeError):
                setattr(value, field.name, None)
    with pytest.raises(TypeError):
        plan.parallelism["x"] = 2
    with pytest.raises(TypeError):
        del plan.parallelism["x"]
    with pytest.raises(AttributeError):
        plan.parallelism.update({"x": 2})

    assert before == plan


def test_a_deployment_knows_the_node_of_each_group():
    assert ["a", "b", "a", "a"] == [HOME.node_of(group) for group in range(4)]


def test_groups_are_spread_in_even_contiguous_ranges():
    for instances in range(1, 8):
        operator = Topology.source("x", key="k", parallelism=instances, key_groups=7).operators[0]
        groups = default_groups(operator)
        sizes = [groups.count(instance) for instance in range(instances)]

        assert sorted(groups) == list(groups)
        assert 7 == sum(sizes)
        assert max(sizes) - min(sizes) <= 1
    assert () == default_groups(Topology.source("x", parallelism=3).operators[0])


CONFLICTS = {
    "parallelism": (Plan(parallelism={"x": 1}), Plan(parallelism={"x": 2}), "x", 1, 2),
    "admit": (Plan(admit={"x": 1}), Plan(admit={"x": 2}), "x", 1, 2),
    "batch": (Plan(batch={"x": 1}), Plan(batch={"x": 2}), "x", 1, 2),
    "routing": (
        Plan(routing={"x": Fields()}),
        Plan(routing={"x": Table(1)}),
        "x",
        Fields(),
        Table(1),
    ),
    "placement": (
        Plan(placement={"x": HOME}),
        Plan(placement={"x": Deployment(("a",))}),
        "x",
        HOME,
        Deployment(("a",)),
    ),
    "scheduling": (
        Plan(scheduling={("x", "y"): Shuffle()}),
        Plan(scheduling={("x", "y"): LocalOrShuffle()}),
        ("x", "y"),
        Shuffle(),
        LocalOrShuffle(),
    ),
    "node": (
        Plan(add=(Node("a"),)),
        Plan(add=(Node("a", 2.0),)),
        "a",
        Node("a"),
        Node("a", 2.0),
    ),
    "presence": (Plan(add=(Node("a"),)), Plan(drain=("a",)), "a", "add", "drain"),
    "number": (Plan(nodes=3), Plan(nodes=4), "nodes", 3, 4),
}


@pytest.mark.parametrize("part", CONFLICTS)
def test_a_conflict_names_the_part_the_subject_and_both_values(part):
    left, right, subject, first, second = CONFLICTS[part]

    for one, other, values in ((left, right, (first, second)), (right, left, (second, first))):
        with pytest.raises(PlanConflictError) as caught:
            one | other

        error = caught.value
        assert (part, subject, *values) == (error.part, error.subject, error.first, error.second)
        expected = f"decide the {part} of {subject!r}: {values[0]!r} and {values[1]!r}; drop one"
        assert expected in str(error)


def test_a_refused_check_of_a_note_is_a_value_error_too():
    with pytest.raises(InvalidValueError):
        Note("x", "y", "z", {"gain": "much"})


def test_the_figures_of_a_note_are_given_as_pairs_or_as_a_mapping():
    note = Note("x", "y", "z", {"gain": 2, "cost": 1.5})

    assert (("gain", 2.0), ("cost", 1.5)) == note.figures
    assert note == Note("x", "y", "z", [("gain", 2.0), ("cost", 1.5)])
    assert note == pickle.loads(pickle.dumps(note))  # noqa: S301
    assert replace(note, idle=True) == Note("x", "y", "z", note.figures, idle=True)
    with pytest.raises(FrozenInstanceError):
        note.text = "other"


def test_a_strategy_writes_its_notes_under_its_own_name():
    strategy = Hash()

    assert Note("Hash", "y", "z", {"gain": 2}) == strategy.note("y", "z", {"gain": 2})
    assert not strategy.idle("no edge")
    (note,) = strategy.idle("no edge").notes
    assert "Hash on the job: can do nothing for this job: no edge" == str(note)
    assert note.idle
