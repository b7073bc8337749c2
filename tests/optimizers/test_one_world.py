"""One world: tasks, state, layouts, strategies and plans agree on where each key is and what moves.

The judge is `one_world.places`: dicts and a hash, with nothing of what it judges.
"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import any_job
import numpy as np
import pytest
from any_job import Driver
from hypothesis import given, settings
from hypothesis import strategies as st
from one_world import (
    CLUSTERS,
    COLUMNS,
    GROUPS,
    HOP,
    JOBS,
    KEYS,
    NODES,
    Watching,
    a_table,
    batch,
    decisions,
    homes_of_state,
    job,
    jobs,
    keyed,
    listed,
    places,
    rows,
    silent,
)

from grouping.groupings import Fields, GroupTable, RoutingTable
from grouping.keygraph.key_pairs import KeyPairs
from optimizers import (
    Aeolus,
    Albic,
    Chain,
    Cluster,
    Deployment,
    Fixed,
    Hash,
    Locality,
    Migration,
    Node,
    Osg,
    Plan,
    Statistics,
)
from optimizers.control.asking import ask
from optimizers.control.question import Question
from optimizers.layout import Layout, completed
from optimizers.loads import GroupStatistics
from optimizers.plugins import create
from optimizers.runtime.state import cache
from optimizers.simulation import SimulationEngine, Stream, Work
from optimizers.statistics import GroupTraffic, Probe
from optimizers.strategies.parts.key_layout import KeyLayout

STATE = 10.0


@st.composite
def worlds(draw, count=1, **options):
    """A job, its machines, the plan in force, and decisions that follow it one by one."""
    topology, cluster = draw(JOBS), draw(CLUSTERS)
    plans, said = [completed(Plan(), topology, cluster)], []
    for _ in range(count + 1):
        said.append(draw(decisions(plans[-1], **options)))
        plans.append(completed(plans[-1].amended(said[-1], cluster), topology, cluster))
    return topology, cluster, plans[1:], said[1:]


def moved_of(before, after):
    """The keys whose instance or node changes, by both ends."""
    return Counter((before[key], after[key]) for key in KEYS if before[key] != after[key])


@given(worlds())
def test_layouts_tasks_and_strategies_see_each_key_where_the_plan_puts_it(world):
    topology, cluster, plans, _ = world
    for plan in plans:
        layout = Layout.of(topology, cluster, plan)
        keys = KeyLayout(layout, cluster.under(plan), (HOP,))
        for name in keyed(topology):
            expected, groups = places(topology, plan, name)
            owners = layout.owners(name)
            found = owners.assign(KEYS).tolist()
            assert [expected[key][0] for key in KEYS] == found
            assert found == keys.owners(name, KEYS).tolist()
            assert [groups[key] for key in KEYS] == owners.group_of(KEYS).tolist()
            for edge in topology.inputs(name):
                assert found == layout.owners_on(edge).assign(KEYS).tolist()
            nodes = layout.homes[name].nodes
            assert [expected[key] for key in KEYS] == [(i, nodes[i]) for i in found]


@given(worlds(rules=False))
def test_the_difference_of_two_plans_is_what_moves(world):
    topology, cluster, (old, new), _ = world
    migration = old.diff(new, topology, cluster)

    for name in HOP:
        (before, groups), (after, later) = (places(topology, p, name) for p in (old, new))
        named = listed(old.routing[name], new.routing[name])
        expected = Counter((before[key], after[key]) for key in named if before[key] != after[key])
        assert expected == {
            (move.old, move.new): move.keys for move in migration.keys if move.operator == name
        }
        moves = {m.group: (m.old, m.new) for m in migration.groups if m.operator == name}
        for key in set(KEYS) - named:
            assert groups[key] == later[key]
            stays = before[key], before[key]
            assert (before[key], after[key]) == moves.get(groups[key], stays)
    ends = Counter()
    for move in migration.keys:
        ends[move.old[1], move.new[1]] += move.keys
    assert +ends == {ends: moved.keys for ends, moved in migration.by_nodes.items() if moved.keys}


@given(worlds())
def test_a_decision_that_restates_the_present_moves_nothing(world):
    topology, cluster, (current, _), _ = world
    owned = {}
    for name in HOP:
        owners = Layout.of(topology, cluster, current).owners(name)
        if owners.rule is None:
            instances = current.parallelism[name]
            owned[name] = RoutingTable(KEYS, owners.assign(KEYS), instances)
    groups = {
        name: GroupTable(KEYS, Layout.of(topology, cluster, current).owners(name).group_of(KEYS), 8)
        for name in HOP
        if isinstance(current.routing[name], Fields | GroupTable)
    }
    for decision in (
        Plan(),
        Plan(parallelism=current.parallelism),
        Plan(placement=current.placement),
        Plan(routing=current.routing, adopt=current.adopt),
        Plan(routing=owned),
        Plan(routing=groups),
        Plan(drain=current.drain),
        Plan(add=current.add),
        replace(current, notes=()),
    ):
        after = current.amended(decision, cluster)
        assert Migration() == current.diff(after, topology, cluster)


@given(worlds())
def test_nothing_moves_that_a_decision_does_not_mention(world):
    topology, _, (old, new), (decision,) = world
    left = {*decision.drain} - {*old.drain}

    for name in HOP:
        before, after = (places(topology, plan, name)[0] for plan in (old, new))
        if name in {*decision.routing, *decision.placement, *decision.parallelism}:
            continue
        for key in KEYS:
            assert before[key][0] == after[key][0]
            assert before[key] == after[key] or before[key][1] in left


@given(worlds(rules=False))
def test_a_new_number_of_instances_moves_keys_with_their_groups_and_the_fewest_groups(world):
    topology, _, (old, new), (decision,) = world
    for name in {*decision.parallelism} - {*decision.routing, *decision.placement}:
        home, later = old.placement[name], new.placement[name]
        gone = [group for group in range(GROUPS) if home.groups[group] != later.groups[group]]
        if isinstance(old.routing[name], RoutingTable):
            continue  # made for another number of instances, it lapses
        before, after = (places(topology, plan, name) for plan in (old, new))
        for key in KEYS:
            assert (before[0][key][0] != after[0][key][0]) == (before[1][key] in gone)


COUNTS = {name: Counter(rows()[COLUMNS[name]]) for name in HOP}
"""How often each key comes in a batch, from each source."""


def check_groups(statistics, plan, topology):
    """Compare the tuples that were seen of key groups with those of the keys in them."""
    for name in HOP:
        _, groups = places(topology, plan, name)
        expected = np.zeros(GROUPS)
        for key, count in COUNTS[name].items():
            expected[groups[key]] += count * len(topology.sources)
        assert expected.tolist() == statistics.groups[name].tuples.tolist()
    traffic = statistics.traffic[HOP]
    of = {name: places(topology, plan, name)[1] for name in HOP}
    cells = Counter()
    for left, right in zip(rows()["k"], rows()["l"], strict=True):
        cells[of["a"][left], of["b"][right]] += len(topology.sources)
    found = zip(traffic.sources.tolist(), traffic.targets.tolist(), strict=True)
    assert cells == dict(zip(found, traffic.tuples.tolist(), strict=True))


@settings(max_examples=12)
@given(st.data(), JOBS, CLUSTERS)
def test_on_the_local_runner_keys_are_where_the_layout_has_them_and_move_as_the_diff_says(
    data, topology, cluster
):
    with any_job.temporary() as folder:
        optimizer = Watching(lambda current: data.draw(decisions(current)))
        driver = Driver(folder, topology, optimizer, cluster=cluster)
        before = None
        for number in range(3):
            seen = driver.batch(batch(topology))  # asks, and so what is seen is of the plan before
            plan = driver.assigned.plan
            current, view, statistics, _ = optimizer.views[-1]
            assert silent(plan) == silent(current)
            after = {}
            for name in HOP:
                expected, _ = places(topology, plan, name)
                assert expected == view[name]
                after[name] = homes_of_state(driver, name)
                assert {key: expected[key][0] for key in KEYS} == after[name]
                times = (number + 1) * len(topology.sources)
                assert driver.results(name) == {key: COUNTS[name][key] * times for key in KEYS}
            check_groups(statistics, current, topology)
            if before is not None:
                check_moves(topology, cluster, before, (plan, after), seen.taken_over)
            before = plan, after
        assert not any(decision.refused for decision in driver.coordinator.decisions)
        cache.forget()


def check_moves(topology, cluster, before, after, taken_over):
    """Compare what moved between the files of instances with the difference of the plans."""
    (old, had), (new, have) = before, after
    assert sum(had[n][key] != have[n][key] for n in HOP for key in KEYS) == taken_over
    migration = old.diff(new, topology, cluster)
    for name in HOP:
        moved = {key for key in KEYS if had[name][key] != have[name][key]}
        named = listed(old.routing[name], new.routing[name])
        if named is None:  # which keys a rule sends elsewhere, only the keys can tell
            assert not moved or name in migration.reroutes
            continue
        moves = [m for m in migration.keys if m.operator == name and m.old[0] != m.new[0]]
        assert sum(move.keys for move in moves) == len(moved & named)
        groups = {m.group for m in migration.groups if m.operator == name and m.old[0] != m.new[0]}
        in_groups = {key for key in KEYS if places(topology, old, name)[1][key] in groups}
        assert in_groups - named == moved - named


@settings(max_examples=25)
@given(st.data(), jobs(["line", "fork"]), CLUSTERS)
def test_in_the_simulation_keys_are_where_the_layout_has_them_and_move_as_the_diff_says(
    data, topology, cluster
):
    drained = set()  # and gone for good, once nothing is left there

    def decide(current):
        decision = data.draw(decisions(current, rules=False, without=drained))
        drained.update(decision.drain)
        return decision

    optimizer = Watching(decide)
    tuples = rows()
    count = len(tuples["k"])
    stream = Stream.steady({name: column * 4 for name, column in tuples.items()}, rate=1.0)

    # Nodes that plans add are there by their names; no others come in their place.
    run = SimulationEngine(cluster=cluster, node_delay=1e9, batch_tuples=count).run(
        topology,
        stream,
        optimizer,
        work={name: Work(0.0, state_bytes=STATE) for name in keyed(topology)},
    )

    assert not any(decision.refused for decision in run.decisions)
    plans = run.plans
    for (current, view, statistics, _), before in zip(optimizer.views[1:], plans, strict=False):
        assert silent(current) == silent(before)
        for name in HOP:
            assert places(topology, current, name)[0] == view[name]
        check_groups(statistics, current, topology)
    for place, (old, new) in enumerate(pairwise(plans), start=1):
        migration = old.diff(new, topology, cluster)
        keys, bytes_moved = 0, 0.0
        for name in keyed(topology):
            ends = moved_of(*(places(topology, plan, name)[0] for plan in (old, new)))
            keys += sum(ends.values())
            crossing = sum(n for (one, other), n in ends.items() if one[1] != other[1])
            bytes_moved += STATE * crossing
        assert (keys, bytes_moved) == run.batches[place].moved[:2]
        assert bool(keys) <= bool(migration.total)
    for name in keyed(topology):
        result = run.operators[name]
        values = np.array(tuples[COLUMNS[name]] * 4)[result.rows]
        for place, plan in enumerate(run.plans):
            mine = (result.rows >= place * count) & (result.rows < (place + 1) * count)
            expected, _ = places(topology, plan, name)
            owners = [expected[key][0] for key in values[mine].tolist()]
            assert owners == result.instances[mine].tolist()


def steps(random, plan, cluster):
    """Strategies of all sorts, some of which cannot go together."""
    table, groups = a_table(random, plan.parallelism["b"])
    homes = [NODES[place] for place in random.integers(0, 3, plan.parallelism["a"]).tolist()]
    there = Deployment(homes, random.integers(0, len(homes), GROUPS).tolist())
    return [
        Locality(worth=0.0),
        Locality(),
        Locality.published(),
        Osg(),
        Hash(),
        Fixed(Plan(parallelism={"a": int(random.integers(1, 6))})),
        Fixed(Plan(parallelism={"b": int(random.integers(1, 10))})),
        Fixed(Plan(routing={"b": table})),
        Fixed(Plan(routing={"b": groups}, adopt=("b",))),
        Fixed(Plan(placement={"a": there})),
        Fixed(Plan(drain=(NODES[int(random.integers(3))],))),
        Fixed(Plan(add=(Node("n3"),))),
        Fixed(Plan(batch={"s": 5})),
        Chain(Fixed(Plan(parallelism={"a": 2})), Locality(worth=0.0)),
        Albic(budget="50 %", max_load_distance=0.01),
        Albic(nodes=(1, 4), patience=1),
        Albic.published(),
        create("flux"),
        create("longest-first"),
        create("balanced-keys"),
        create("ds2"),
        Aeolus(),
        Aeolus(latency=5.0),
    ]


CHAINS = st.lists(st.integers(0, 22), min_size=2, max_size=4)


@settings(max_examples=10)
@given(CHAINS, st.integers(0, 1 << 16), JOBS, CLUSTERS)
def test_a_chain_in_any_order_works_or_is_a_refused_decision(chosen, seed, topology, cluster):
    known = steps(np.random.default_rng(seed), completed(Plan(), topology, cluster), cluster)
    chain = Chain(*(known[number] for number in chosen))
    with any_job.temporary() as folder:
        driver = Driver(folder, topology, chain, cluster=cluster)
        for number in range(3):
            driver.batch(batch(topology))
            for name in HOP:
                expected, _ = places(topology, driver.assigned.plan, name)
                assert {k: expected[k][0] for k in KEYS} == homes_of_state(driver, name)
                times = (number + 1) * len(topology.sources)
                assert {key: COUNTS[name][key] * times for key in KEYS} == driver.results(name)
        assert 4 == sum(not decision.of_machines for decision in driver.coordinator.decisions)
        cache.forget()

    tuples = rows()
    stream = Stream.steady({name: column * 3 for name, column in tuples.items()}, rate=1.0)
    streams = dict.fromkeys(topology.sources, stream)
    each = len(KEYS) * 2 * len(streams)
    run = SimulationEngine(cluster=cluster, batch_tuples=each).run(topology, streams, chain)
    assert 3 == len(run.batches)
    assert {3 * each} == {len(run.operators[name].rows) for name in HOP}


def emptying(random):
    """A step that drains nodes, by name or by count, or one that resizes, places or adds."""
    homes = [NODES[place] for place in random.integers(0, 3, 3).tolist()]
    there = Deployment(homes, random.integers(0, 3, GROUPS).tolist())
    said = [
        Plan(drain=(NODES[int(random.integers(3))],)),
        Plan(nodes=int(random.integers(1, 4))),
        Plan(parallelism={"a": int(random.integers(1, 6))}),
        Plan(parallelism={"b": int(random.integers(1, 9))}),
        Plan(parallelism={"a": 3}, placement={"a": there}),
        Plan(add=(Node("n3"),)),
        Plan(batch={"s": 5}),
    ]
    return Fixed(said[int(random.integers(len(said)))])


def nested(random, steps):
    """A chain of these steps, some of them in a chain within it."""
    first, last = sorted(random.integers(0, len(steps) + 1, 2).tolist())
    return Chain(*steps[:first], Chain(*steps[first:last]), *steps[last:])


def placed_after(steps, node, operator):
    """Whether a step places an operator on a node with or after the first one that may drain it."""
    said = [step.decision for step in steps]
    drains = next(place for place, plan in enumerate(said) if plan.nodes or node in plan.drain)
    homes = [plan.placement[operator] for plan in said[drains:] if operator in plan.placement]
    return any(node in home.nodes for home in homes)


@given(st.integers(0, 1 << 16), st.integers(2, 5), st.booleans(), JOBS, CLUSTERS)
def test_a_chain_that_drains_a_node_leaves_nothing_there(seed, count, sees, topology, cluster):
    random = np.random.default_rng(seed)
    steps = [emptying(random) for _ in range(count)]
    current = completed(Plan(), topology, cluster)
    cells = np.arange(GROUPS)
    seen = Statistics(
        groups={name: GroupStatistics(*random.uniform(1, 9, (4, GROUPS))) for name in HOP},
        traffic={HOP: GroupTraffic(cells, random.permutation(cells), random.uniform(1, 9, GROUPS))},
    )
    question = Question(topology.under(current), cluster, seen if sees else Statistics(), current)

    answers = [ask(chain, question) for chain in (Chain(*steps), nested(random, steps))]

    assert answers[0].plan == answers[1].plan
    assert bool(answers[0].refused) == bool(answers[1].refused)
    after = current.amended(answers[0].plan, cluster)
    for name, home in after.placement.items():
        for node in {*after.drain} & {*home.nodes}:
            assert placed_after(steps, node, name)


@pytest.mark.parametrize("probe", [Probe.GROUPS, Probe.OPERATORS])
@pytest.mark.parametrize("less", [Plan(drain=("n0",)), Plan(nodes=2)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_simulated_node_that_a_chain_drains_is_given_back_once_it_is_empty(probe, less, turned):
    class Told(Fixed):
        observes = frozenset({probe})

        def plan(self, topology, cluster, statistics, current):
            return self.decision if statistics.operators and statistics.epoch == 0 else Plan()

    steps = [Told(Plan(parallelism={"a": 4})), Told(less)]
    stream = Stream.steady({name: column * 3 for name, column in rows().items()}, rate=1.0)

    run = SimulationEngine(cluster=Cluster(tuple(map(Node, NODES))), batch_tuples=len(KEYS)).run(
        job(3, 3), stream, Chain(*steps[:: -1 if turned else 1])
    )

    assert not [decision for decision in run.decisions if decision.refused]
    assert 4 == len(run.plans[-1].placement["a"].nodes)
    left = {node for home in run.plans[-1].placement.values() for node in home.nodes}
    assert 2 == len(left)
    assert left == {node.name for node in run.cluster.nodes}


LEARNING = [Locality(), Locality(worth=0.0), Locality.published()]
PAIRS = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 9)), min_size=1, max_size=40
)


@settings(max_examples=30)
@given(PAIRS, JOBS, CLUSTERS, st.sampled_from(LEARNING))
def test_a_stream_that_stays_as_it_is_comes_to_a_plan_that_stays(
    rows_of_pairs, topology, cluster, strategy
):
    left, right, counts = (list(column) for column in zip(*rows_of_pairs, strict=True))
    pairs = KeyPairs(left, right, counts)
    current = completed(Plan(), topology, cluster)
    for _ in range(6):
        seen = Statistics(pairs={HOP: pairs})
        world = topology.under(current), cluster.under(current)
        decided = strategy.plan(*world, seen, current)
        after = completed(current.amended(decided, cluster), topology, cluster)
        if silent(after) == silent(current):
            return
        current = after
    raise AssertionError(f"after six times {strategy!r} still decides {decided!r}")
