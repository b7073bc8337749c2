"""The laws of plans: how decisions merge, and what is in force once they are applied."""

from dataclasses import fields, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st
from strategies import (
    NODES,
    Table,
    agreeing,
    bare_edges,
    clusters,
    decisions,
    fitting_plans,
    plans,
    topologies,
    worlds,
)

from optimizers import (
    Cluster,
    Deployment,
    Fields,
    Node,
    Note,
    Operator,
    Plan,
    PlanConflictError,
    Shuffle,
)
from optimizers.deployment import default_groups

MAPS = ("parallelism", "admit", "batch", "routing", "placement", "scheduling")


def merged(first, second):
    """The merge, or None where it is refused."""
    try:
        return first | second
    except PlanConflictError:
        return None


def silent(plan):
    return replace(plan, notes=())


def amended(current, decision):
    """The plan in force afterwards, on machines of all names that neither adds."""
    added = {node.name for node in current.add if node.name not in decision.drain}
    added |= {node.name for node in decision.add}
    there = [Node(name) for name in (*NODES, "n", "spare") if name not in added]
    return current.amended(decision, Cluster(tuple(there)))


@given(plans())
def test_deciding_nothing_is_neutral(plan):
    assert plan == plan | Plan()
    assert plan == Plan() | plan


@given(plans())
def test_a_plan_agrees_with_itself(plan):
    assert plan == plan | plan


@given(plans(), plans(), plans())
def test_merging_is_associative_in_what_it_yields_and_in_what_it_refuses(first, second, third):
    left = merged(first, second)
    right = merged(second, third)
    left = left if left is None else merged(left, third)
    right = right if right is None else merged(first, right)
    event("refused" if left is None else "merged")

    assert left == right


@given(plans(), plans())
def test_agreeing_plans_commute_and_others_are_refused_both_ways(first, second):
    expected = agreeing(first, second)
    event(f"agreeing: {expected}")

    assert expected == (merged(first, second) is not None)
    assert merged(first, second) == merged(second, first)
    if expected:
        assert (first | second).to_json() == (second | first).to_json()


@given(plans(), plans().map(lambda plan: replace(plan, add=(), drain=())))
def test_a_merge_holds_the_decisions_of_both_and_no_others(first, second):
    whole = merged(first, second)
    if whole is None:
        return

    for part in MAPS:
        both = [*getattr(first, part).items(), *getattr(second, part).items()]
        assert dict(both) == getattr(whole, part)
    assert {*first.notes, *second.notes} == set(whole.notes)
    assert {*first.adopt, *second.adopt} == {*whole.adopt}
    assert first.add == whole.add
    assert first.drain == whole.drain
    for number in ("nodes", "period"):
        both = {getattr(first, number), getattr(second, number)}
        assert both - {None} == {getattr(whole, number)} - {None}


@given(plans(), plans(), plans())
def test_a_conflict_among_three_names_values_of_two_of_them(first, second, third):
    try:
        first | second | third
    except PlanConflictError as error:
        named = {repr(error.first), repr(error.second)}
    else:
        return

    values = {"'add'", "'drain'", "True", "False"}
    for plan in (first, second, third):
        values |= {repr(value) for part in MAPS for value in getattr(plan, part).values()}
        values |= {repr(each) for each in (*plan.add, plan.nodes, plan.period)}
    assert 2 == len(named)
    assert named <= values


@given(plans())
def test_applying_nothing_changes_nothing_but_the_reasons(plan):
    assert silent(plan) == amended(plan, Plan())
    assert plan == amended(Plan(), plan)


@given(plans(), plans())
def test_whatever_a_decision_says_is_in_force_afterwards(current, decision):
    after = amended(current, decision)

    assert decision.notes == after.notes
    assert {*decision.add} <= {*after.add}
    assert {*decision.drain} <= {*after.drain}
    assert decision.nodes in {None, after.nodes}
    assert decision.period in {None, after.period}
    for part in MAPS:
        decided = getattr(decision, part)
        assert dict(decided) == {name: getattr(after, part)[name] for name in decided}


@given(plans(), plans())
def test_what_a_decision_does_not_touch_stays_in_force(current, decision):
    after = amended(current, decision)

    def lapses(name, instances):
        return instances is not None and decision.parallelism.get(name, instances) != instances

    for part in ("parallelism", "admit", "batch"):
        assert {**getattr(current, part), **getattr(decision, part)} == getattr(after, part)
    for name, grouping in current.routing.items():
        stays = name in decision.routing or not lapses(name, grouping.instances)
        assert stays == (name in after.routing)
    adopting = {name for name in current.adopt if name not in decision.routing}
    assert (adopting & {*after.routing}) | {*decision.adopt} == {*after.adopt}
    assert decision.nodes is not None or current.nodes == after.nodes
    assert decision.period is not None or current.period == after.period
    left = {*decision.drain} - {*current.drain}
    for name, home in current.placement.items():
        if name not in decision.placement:
            found, instances = (
                after.placement[name],
                decision.parallelism.get(name, len(home.nodes)),
            )
            resized = instances != len(home.nodes)
            assert instances == len(found.nodes) if resized else home.groups == found.groups
            for before, here in zip(home.nodes, found.nodes, strict=not resized):
                assert (here not in left) if before in left else (before == here)
    for edge, grouping in current.scheduling.items():
        stays = edge in decision.scheduling or not lapses(edge[1], grouping.instances)
        assert stays == (edge in after.scheduling)
    for part in ("routing", "scheduling"):
        for name, value in getattr(after, part).items():
            assert value == {**getattr(current, part), **getattr(decision, part)}[name]


@given(plans(), plans())
def test_the_last_word_about_a_node_counts(current, decision):
    after = amended(current, decision)
    names = {node.name for node in decision.add}
    added = {node.name: node for node in current.add if node.name not in decision.drain}
    added |= {node.name: node for node in decision.add}

    assert [added[name] for name in sorted(added)] == list(after.add)
    assert ({*current.drain} - names) | {*decision.drain} == {*after.drain}


def test_a_lapse_is_of_what_was_made_for_another_number_and_of_nothing_else():
    current = Plan(
        admit={"w": 7},
        batch={"x": 5},
        routing={"x": Table(2), "y": Table(2), "z": Fields()},
        placement={"x": Deployment(("a", "b")), "y": Deployment(("a", "b"))},
        scheduling={("u", "x"): Table(2), ("u", "y"): Table(2), ("u", "z"): Shuffle()},
        notes=(Note("x", "y", "z"),),
    )

    after = amended(current, Plan(parallelism={"x": 3, "y": 2, "z": 3}))

    expected = Plan(
        parallelism={"x": 3, "y": 2, "z": 3},
        admit={"w": 7},
        batch={"x": 5},
        routing={"y": Table(2), "z": Fields()},
        placement={"x": Deployment(("a", "b", NODES[0])), "y": Deployment(("a", "b"))},
        scheduling={("u", "y"): Table(2), ("u", "z"): Shuffle()},
    )
    assert expected == after


def test_a_decision_for_the_new_number_takes_the_place_of_what_lapses():
    current = Plan(routing={"x": Table(2)}, parallelism={"x": 2})

    after = amended(current, Plan(parallelism={"x": 3}, routing={"x": Table(3)}))

    assert Plan(parallelism={"x": 3}, routing={"x": Table(3)}) == after


def test_a_node_is_added_or_drained_as_decided_last():
    node = Node("n")

    assert Plan(drain=("n",)) == amended(Plan(add=(node,)), Plan(drain=("n",)))
    assert Plan(add=(node,)) == amended(Plan(drain=("n",)), Plan(add=(node,)))
    assert Plan(add=(Node("n", 2.0),)) == amended(Plan(add=(node,)), Plan(add=(Node("n", 2.0),)))


def test_a_node_that_only_the_plan_has_added_is_gone_when_it_is_to_drain():
    home = Deployment(("n", "a", "n"))
    current = Plan(add=(Node("n"),), placement={"x": home})
    cluster = Cluster((Node("a"), Node("b")))

    after = current.amended(Plan(drain=("n",)), cluster)

    assert Plan(placement={"x": Deployment(("b", "a", "a"))}) == after
    assert cluster == cluster.under(after)


def test_adding_a_node_moves_nothing_and_draining_one_only_what_is_there():
    cluster = Cluster.uniform(4)
    home = Deployment(cluster.deal(8), default_groups(Operator("x", "k", 8)))
    current = Plan(placement={"x": home})

    assert current.placement == current.amended(Plan(add=(Node("n"),)), cluster).placement
    after = current.amended(Plan(drain=("node-1",)), cluster)
    assert home.groups == after.placement["x"].groups
    assert [1, 5] == [i for i in range(8) if home.nodes[i] != after.placement["x"].nodes[i]]
    placed = Plan(drain=("node-1",), placement={"x": home})
    assert placed.placement == current.amended(placed, cluster).placement
    assert after == after.amended(Plan(drain=("node-1",)), cluster)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_two_agreeing_decisions_can_be_applied_one_by_one_or_at_once(data):
    topology, cluster, current = data.draw(worlds())
    first, second = data.draw(decisions(topology, cluster))

    at_once = current.amended(first | second, cluster)
    one_by_one = current.amended(first, cluster).amended(second, cluster)

    # Which nodes are emptiest for new instances depends on which are there when they come.
    if current.placement and (first.add or first.drain or second.drain):
        assert groups_of(at_once) == groups_of(one_by_one)
        at_once, one_by_one = (replace(plan, placement={}) for plan in (at_once, one_by_one))
    assert silent(at_once) == silent(one_by_one)


def groups_of(plan):
    return {name: (len(home.nodes), home.groups) for name, home in plan.placement.items()}


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_a_job_under_two_agreeing_decisions_is_the_job_under_both(data):
    topology, cluster = data.draw(topologies(4)), data.draw(clusters())
    running = topology.under(data.draw(fitting_plans(topology, cluster)))
    first, second = data.draw(decisions(running, cluster))

    assert running.under(first | second) == running.under(first).under(second)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_a_cluster_under_two_agreeing_decisions_is_the_cluster_under_both(data):
    topology, cluster = data.draw(topologies(1)), data.draw(clusters())
    first, second = data.draw(decisions(topology, cluster))

    assert cluster.under(first | second) == cluster.under(first).under(second)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_whatever_fits_the_running_job_can_be_in_force_for_the_declared_one(data):
    topology, cluster, current = data.draw(worlds())
    running = topology.under(current)
    machines = cluster.under(current)
    decision = data.draw(fitting_plans(running, machines))

    decision.check(running, machines)
    after = current.amended(decision, cluster)

    after.check(topology)
    for operator in running.under(decision).operators:
        assert operator == topology.under(after).operator(operator.name)


@settings(max_examples=60)  # whole worlds are slow to draw
@given(st.data())
def test_the_running_job_becomes_what_the_declared_one_is_under_the_plan_in_force(data):
    # Where a table lapses, the running job falls back to the default: what the job declared
    # beneath the table is known to the declared job alone.
    declared = data.draw(topologies(4, bare_edges))
    cluster = data.draw(clusters())
    current = data.draw(fitting_plans(declared, cluster))
    running = declared.under(current)
    decision = data.draw(fitting_plans(running, cluster.under(current)))

    assert declared.under(current.amended(decision, cluster)) == running.under(decision)


def test_every_part_of_a_plan_is_spoken_of_in_these_laws():
    assert {*MAPS, "adopt", "add", "drain", "nodes", "period", "notes"} == {
        field.name for field in fields(Plan)
    }
