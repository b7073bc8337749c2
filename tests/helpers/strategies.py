"""Hypothesis strategies for the contract: jobs, clusters and plans, fitting or merely possible."""

from dataclasses import dataclass

from hypothesis import strategies as st

from grouping.groupings import Fields, Grouping, GroupTable, LocalOrShuffle, PartialKey, Shuffle
from grouping.key_table import KeyTable
from optimizers import Cluster, Deployment, Edge, Node, Note, Operator, Plan, Topology

COLUMNS = ("place", "tag", "user", "größe")
NODES = ("n0", "n1", "n2", "n3", "n4")
RACKS = ("rack-0", "rack-1")


@dataclass(frozen=True, slots=True)
class Table(Grouping):
    """Stands for routing tables: one owner a key, for one number of instances; in no document."""

    size: int
    version: int = 0
    kind = "stand_in"
    one_owner = True
    needs_key = True

    @property
    def instances(self):
        return self.size

    def to_dict(self):
        return {"size": self.size, "version": self.version}


def keys():
    """One column, or several."""
    return st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def operators(draw, name):
    key = draw(st.none() | keys())
    key_groups = draw(st.integers(1, 6))
    return Operator(
        name,
        key,
        parallelism=draw(st.integers(1, 6 if key is None else key_groups)),
        apply=draw(st.none() | st.sampled_from(("math:sqrt", "os.path:join"))),
        key_groups=key_groups,
        partial=key is not None and draw(st.booleans()),
    )


@st.composite
def edges(draw, source, target):
    """An edge into this operator that may feed it."""
    width = len(target.key_columns)
    key = draw(
        st.none()
        | st.lists(
            st.sampled_from(COLUMNS), min_size=width or 1, max_size=width or 3, unique=True
        ).map(tuple)
    )
    return Edge(source, target.name, draw(st.none() | groupings(target, key)), key)


def bare_edges(source, target):
    """An edge that leaves its grouping to the default."""
    return st.just(Edge(source, target.name))


def groupings(target, edge_key=None):
    """A grouping that may stand on every edge into this operator."""
    if target.partial:
        return st.sampled_from((Fields(), PartialKey(), PartialKey(3)))
    if target.keyed:
        return st.just(Fields())
    choices = [Shuffle(), LocalOrShuffle()]
    return st.sampled_from(choices if edge_key is None else [*choices, Fields(), PartialKey()])


@st.composite
def topologies(draw, max_size=5, declared=edges):
    """Any directed acyclic graph, written in an order that need not be topological."""
    ranked = [draw(operators(f"op{rank}")) for rank in range(draw(st.integers(1, max_size)))]
    drawn = [
        draw(declared(ranked[source].name, ranked[target]))
        for target in range(len(ranked))
        for source in range(target)
        if draw(st.booleans())
    ]
    return Topology(tuple(draw(st.permutations(ranked))), tuple(draw(st.permutations(drawn))))


def nodes(name):
    capacities = st.floats(1e-3, 1e3)
    sizes = st.none() | st.floats(1e-3, 1e12)
    return st.builds(Node, st.just(name), capacities, st.sampled_from(RACKS), sizes, sizes, sizes)


@st.composite
def clusters(draw, names=NODES[:3]):
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    draining = draw(st.lists(st.sampled_from(chosen), max_size=len(chosen) - 1, unique=True))
    return Cluster(tuple(draw(nodes(name)) for name in chosen), tuple(draining))


def notes():
    figures = st.lists(
        st.tuples(st.sampled_from(("gain", "cost")), st.floats(-1e9, 1e9)), max_size=2
    ).map(tuple)
    return st.builds(
        Note, st.sampled_from("ab"), st.sampled_from("xy"), st.text(), figures, st.booleans()
    )


@st.composite
def fitting_plans(draw, topology, cluster):
    """A plan that this job on this cluster can carry out."""
    parallelism, routing, placement, scheduling = {}, {}, {}, {}
    added = [
        draw(nodes(name))
        for name in NODES
        if name not in {node.name for node in cluster.nodes} and draw(st.booleans())
    ]
    working = [node.name for node in cluster.working]
    drain = draw(
        st.lists(st.sampled_from(working), max_size=len(working) - (0 if added else 1), unique=True)
    )
    homes = st.sampled_from([node.name for node in (*cluster.nodes, *added)])
    for operator in topology.operators:
        name, instances = operator.name, operator.parallelism
        if draw(st.booleans()):
            most = operator.key_groups if operator.keyed else 6
            instances = parallelism[name] = draw(st.integers(1, most))
        if operator.keyed and draw(st.booleans()):
            tables = Table(instances), GroupTable([1], [0], operator.key_groups)
            routing[name] = draw(groupings(operator) | st.sampled_from(tables))
        if draw(st.booleans()):
            groups = operator.key_groups if operator.keyed else 0
            placement[name] = Deployment(
                tuple(draw(homes) for _ in range(instances)),
                tuple(draw(st.integers(0, instances - 1)) for _ in range(groups)),
            )
    for edge in topology.edges:
        target = topology.operator(edge.target)
        if not target.keyed and draw(st.booleans()):
            scheduling[edge.name] = draw(groupings(target, edge.key))
    return Plan(
        parallelism=parallelism,
        admit={name: 50 for name in topology.sources if draw(st.booleans())},
        batch={name: 10 for name in topology.order if draw(st.booleans())},
        routing=routing,
        placement=placement,
        scheduling=scheduling,
        adopt=adopting(routing, draw(st.integers(0, 1 << 6))),
        add=tuple(added),
        drain=tuple(drain),
        nodes=draw(st.none() | st.integers(1, 9)),
        notes=tuple(draw(st.lists(notes(), max_size=2))),
    )


def adopting(routing, which):
    """Some of the operators that are routed by a table, as the bits of a number say."""
    tables = sorted(name for name in routing if isinstance(routing[name], KeyTable))
    return tuple(name for place, name in enumerate(tables) if which >> place & 1)


def _some(names, values):
    return st.dictionaries(st.sampled_from(names), values, max_size=2)


def plans(names=("a", "b"), nodes_named=NODES[:2]):
    """Any plan over a few names, so that two of them often speak of one thing."""
    few = st.integers(1, 2)
    routes = st.sampled_from((Fields(), PartialKey(), Table(1), Table(2), GroupTable([1], [0], 2)))
    machines = [Node(name, capacity) for name in nodes_named for capacity in (1.0, 2.0)]
    presence = st.dictionaries(
        st.sampled_from(nodes_named), st.sampled_from(("drain", 1.0, 2.0)), max_size=2
    )

    homes = st.lists(st.sampled_from(nodes_named), min_size=1, max_size=2).map(tuple)
    return st.builds(
        lambda there, said, which, number, period, **maps: Plan(
            **maps,
            nodes=number,
            period=period,
            adopt=adopting(maps["routing"], which),
            add=tuple(m for m in machines if there.get(m.name) == m.capacity),
            drain=tuple(name for name in there if there[name] == "drain"),
            notes=tuple(said),
        ),
        presence,
        st.lists(notes(), max_size=2),
        st.integers(0, 3),
        st.none() | few,
        st.none() | st.sampled_from((0.0, 1.5)),
        parallelism=_some(names, few),
        admit=_some(names, few),
        batch=_some(names, few),
        routing=_some(names, routes),
        placement=_some(names, st.builds(Deployment, homes)),
        scheduling=_some([(names[0], names[1]), (names[1], names[0])], st.just(Shuffle()) | routes),
    )


@st.composite
def worlds(draw, max_size=4):
    """A topology, a cluster, and a plan that fits both."""
    topology, cluster = draw(topologies(max_size)), draw(clusters())
    return topology, cluster, draw(fitting_plans(topology, cluster))


@st.composite
def decisions(draw, topology, cluster):
    """Two agreeing decisions: the first fits alone, and both fit together."""
    whole = draw(fitting_plans(topology, cluster))
    sized: set[str] = set()

    def part_of_it():
        parallelism = {n: v for n, v in whole.parallelism.items() if draw(st.booleans())}
        sized.update(parallelism)

        def taken(name):
            # What was made for another number of instances needs that number decided as well.
            return draw(st.booleans()) and (name in sized or name not in whole.parallelism)

        routing = {n: v for n, v in whole.routing.items() if taken(n)}
        return Plan(
            parallelism=parallelism,
            admit={n: v for n, v in whole.admit.items() if draw(st.booleans())},
            batch={n: v for n, v in whole.batch.items() if draw(st.booleans())},
            routing=routing,
            adopt=tuple(name for name in whole.adopt if name in routing),
            placement={n: v for n, v in whole.placement.items() if taken(n)},
            scheduling={e: v for e, v in whole.scheduling.items() if draw(st.booleans())},
            add=whole.add,
            drain=tuple(name for name in whole.drain if draw(st.booleans())),
            nodes=whole.nodes if draw(st.booleans()) else None,
            notes=tuple(draw(st.lists(notes(), max_size=1))),
        )

    return part_of_it(), part_of_it()


def agreeing(first, second):
    """Whether two plans decide nothing differently; written apart from ``Plan.__or__``."""
    for part in ("parallelism", "admit", "batch", "routing", "placement", "scheduling"):
        left, right = getattr(first, part), getattr(second, part)
        if any(left[name] != right[name] for name in set(left) & set(right)):
            return False
    for number in ("nodes", "period"):
        left, right = getattr(first, number), getattr(second, number)
        if left is not None and right is not None and left != right:
            return False
    routed = {*first.routing} & {*second.routing}
    if routed & {*first.adopt} != routed & {*second.adopt}:
        return False
    added = [{node.name: node for node in plan.add} for plan in (first, second)]
    if any(added[0][name] != added[1][name] for name in set(added[0]) & set(added[1])):
        return False
    return not set(added[0]) & set(second.drain) and not set(added[1]) & set(first.drain)
