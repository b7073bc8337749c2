"""Small worlds whose every key is known, and a plain answer to where each of them is."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from grouping.groupings import DistributionAware, Fields, GroupTable, RoutingTable, WorstCase
from grouping.hashing import hash_parts
from grouping.key_batch import KeyBatch
from optimizers import Cluster, Deployment, Node, Operator, Optimizer, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.layout import Layout
from optimizers.runtime.state.file import read_states
from optimizers.runtime.state.table import key_names
from optimizers.statistics import Probe
from optimizers.strategies.parts.key_layout import KeyLayout

HOP = ("a", "b")
GROUPS = 8
KEYS = list(range(24))
NODES = ("n0", "n1", "n2")
TUPLES = Count(emit=Emit.TUPLES)
COLUMNS = {"a": "k", "b": "l", "c": "l"}


def job(a, b, seed=0, shape="line"):
    """From a to b, and nothing else; or a feeds others as well; or two sources feed it.

    The others are one with the keys of b, and one without keys.
    """
    first, second = (
        Operator(name, COLUMNS[name], count, apply=TUPLES, key_groups=GROUPS)
        for name, count in (("a", a), ("b", b))
    )
    made = Topology.source("s").also("t") if shape == "join" else Topology.source("s")
    made = made.then(first, after=made.sources)
    if shape == "fork":
        made = made.then("c", key="l", parallelism=3, key_groups=GROUPS, apply=TUPLES)
        made = made.then("d", after="a", parallelism=2)
    return made.then(second, after="a").seeded(seed)


SHAPES = ("line", "fork", "join")


def jobs(shapes=SHAPES):
    """Any jobs of these shapes."""
    counts = st.integers(1, 4)
    return st.builds(job, counts, counts, st.sampled_from([0, 7]), st.sampled_from(shapes))


JOBS = jobs()


def keyed(topology):
    """The operators that have keys."""
    return [name for name in COLUMNS if name in topology.order]


CLUSTERS = st.builds(
    lambda capacities: Cluster(tuple(map(Node, NODES, capacities))),
    st.lists(st.sampled_from([1.0, 2.0]), min_size=3, max_size=3),
)


def a_table(random, instances):
    """Any owners of some of the keys."""
    named = random.choice(KEYS, int(random.integers(0, len(KEYS) + 1)), replace=False)
    table = RoutingTable(named, random.integers(0, instances, len(named)), instances)
    groups = GroupTable(named, random.integers(0, GROUPS, len(named)), GROUPS)
    return table, groups


@st.composite
def decisions(draw, current, *, rules=True, without=()):
    """A decision for a job under a complete plan; all can be carried out, without some nodes."""
    parallelism, routing, placement, adopt = {}, {}, {}, []
    there = [name for name in NODES if name not in without]
    working = [name for name in there if name not in current.drain]
    added = "n3" in {node.name for node in current.add}
    for name in HOP:
        says = draw(st.integers(0, 15))
        random = np.random.default_rng(draw(st.integers(0, 1 << 16)) if says else 0)
        instances = current.parallelism[name]
        if says & 1 and says & 2:
            instances = parallelism[name] = int(random.integers(1, 6))
        if says & 4:
            table, groups = a_table(random, instances)
            ways = [Fields(), table, groups, groups]
            if rules:
                cells = random.integers(0, instances, 5)
                ways += [WorstCase(table), DistributionAware(table, cells)]
            routing[name] = ways[int(random.integers(len(ways)))]
            if isinstance(routing[name], RoutingTable | GroupTable) and random.random() < 0.2:
                adopt.append(name)
        if says & 8:
            homes = tuple(there[place] for place in random.integers(0, len(there), instances))
            placement[name] = Deployment(
                homes, tuple(random.integers(0, instances, GROUPS).tolist())
            )
    nodes = draw(st.integers(0, 11))
    return Plan(
        parallelism=parallelism,
        routing=routing,
        placement=placement,
        adopt=tuple(adopt),
        add=(Node("n3"),) if nodes == 1 and not added else (),
        drain=(working[nodes % len(working)],) if nodes in {2, 3} and len(working) > 1 else (),
    )


def places(topology, plan, name):
    """The instance and node of each key, from the definitions and nothing else."""
    home = plan.placement[name]
    grouping = plan.routing[name]
    hashed = hash_parts(KEYS, GROUPS, seed=topology.seed).tolist()
    groups = dict(zip(KEYS, hashed, strict=True))
    named = {}
    if isinstance(grouping, GroupTable):
        groups |= dict(zip(grouping.keys.tolist(), grouping.groups.tolist(), strict=True))
    elif isinstance(grouping, RoutingTable):
        named = dict(zip(grouping.keys.tolist(), grouping.parts.tolist(), strict=True))
    elif not isinstance(grouping, Fields):
        keys = KeyBatch.read(KEYS, topology.seed)
        routed = grouping.router(len(home.nodes)).route(len(KEYS), keys).tolist()
        named = dict(zip(KEYS, routed, strict=True))
    owners = {key: named.get(key, home.groups[groups[key]]) for key in KEYS}
    return {key: (owner, home.nodes[owner]) for key, owner in owners.items()}, groups


class Watching(Optimizer):
    """Decides what it is told to, and notes what it is shown of where keys are."""

    observes = frozenset({Probe.GROUPS, Probe.OPERATORS})

    def __init__(self, decide):
        self._decide = decide
        self.views = []

    def plan(self, topology, cluster, statistics, current):
        layout = Layout.of(topology, cluster, current)
        keys = KeyLayout(layout, cluster, (HOP,))
        view = {}
        for name in HOP:
            owners = keys.owners(name, KEYS).tolist()
            nodes = layout.homes[name].nodes
            view[name] = {k: (i, nodes[i]) for k, i in zip(KEYS, owners, strict=True)}
        decided = self._decide(current)
        self.views.append((current, view, statistics, decided))
        return decided


def rows():
    """Every key of both operators, in pairs that go all ways."""
    return {"k": KEYS * 2, "l": KEYS[5:] + KEYS[:5] + KEYS[::-1]}


def homes_of_state(driver, name):
    """The instance whose files have each key."""
    found = {}
    for number, files in enumerate(driver.coordinator.committed.state[name]):
        if files:
            state = read_states(driver.checkpoint.location, files)
            (column,) = key_names(state)
            for key in state.column(column).to_pylist():
                assert key not in found, "two instances have one key"
                found[key] = number
    return found


def listed(*plans_of):
    """The keys that the tables of some groupings name; None where one is a rule."""
    found = set()
    for grouping in plans_of:
        if isinstance(grouping, RoutingTable | GroupTable):
            found |= set(grouping.keys.tolist())
        elif not isinstance(grouping, Fields):
            return None
    return found


def silent(plan):
    return replace(plan, notes=())


def batch(topology):
    """The rows, from each source."""
    return {name: pa.table(rows()) for name in topology.sources}
