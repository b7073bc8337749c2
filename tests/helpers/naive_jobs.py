"""Jobs to simulate twice, by the engine and by the plain simulation, and the comparison of both.

All times are multiples of 1/64, so that sums are exact, answers equal to the last bit, and many
things happen at one moment: there the order must agree as well.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from naive_groupings import Echo, Knowing
from naive_simulation import Naive

from grouping.groupings import Fields, LocalOrShuffle, PartialKey, Shuffle
from optimizers import Cluster, Deployment, Edge, Node, Operator, Optimizer, Plan, Topology
from optimizers.simulation import Network, SimulationEngine, Stream, Work

GRAPHS = {
    "chain": [("s", "a"), ("a", "b")],
    "fork": [("s", "a"), ("s", "b")],
    "three": [("s", "a"), ("s", "b"), ("s", "c")],
    "diamond": [("s", "a"), ("s", "b"), ("a", "c"), ("b", "c")],
    "shortcut": [("s", "a"), ("a", "b"), ("s", "b")],
    "join": [("s", "a"), ("t", "a"), ("a", "b")],
}

PLAIN = [Shuffle(), LocalOrShuffle(), Fields(), PartialKey()]
GROUPINGS = [*PLAIN, *[Echo(2), Echo(3), Knowing(), Knowing(count=True)] * 2]


@st.composite
def jobs(draw, *, listening):
    edges = GRAPHS[draw(st.sampled_from(sorted(GRAPHS)))]
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    operators = [
        Operator(
            name,
            draw(st.sampled_from([None, None, "k"])),
            parallelism=draw(st.integers(1, 3)),
            key_groups=4,
        )
        for name in names
    ]
    keyed = {operator.name for operator in operators if operator.keyed}
    kinds = GROUPINGS if listening else PLAIN
    return Topology(
        operators,
        [
            Edge(source, target, None if target in keyed else draw(st.sampled_from(kinds)), key="k")
            for source, target in edges
        ],
    )


@st.composite
def cases(draw, *, listening=True, networks=None, batches=(1,), cores=None):
    job = draw(jobs(listening=listening))
    streams, work = {}, {}
    # Columns are chosen by a seed, which takes far less time than to draw them one by one.
    chance = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    slow = draw(st.sampled_from([2, 12]))
    for source in job.sources:
        count = draw(st.integers(1, 16))
        columns = {"k": chance.integers(0, 5, count)}
        for name in job.order:
            columns[f"{name} takes"] = chance.integers(0, slow, count) / 8
            columns[f"{name} emits"] = chance.choice([1, 1, 1, 0, 2], count)
        times = np.cumsum(chance.choice([0.0, 0.0, 0.125, 0.5, 2.0], count))
        streams[source] = Stream(times, columns, chance.choice([0.0, 8.0, 16.0], count))
    for name in job.order:
        count = job.operator(name).parallelism
        speeds = draw(
            st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=count, max_size=count)
        )
        work[name] = Work(
            lambda columns, name=name: columns[f"{name} takes"],
            emits=lambda columns, name=name: columns[f"{name} emits"],
            speeds=speeds,
        )
    nodes = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=3))
    cluster = Cluster(
        tuple(
            Node(
                f"n{place}",
                capacity,
                draw(st.sampled_from(["east", "west"])),
                cores=draw(st.sampled_from([None, None, None, 2.0])),
                bandwidth=draw(st.sampled_from([None, None, None, 32.0])),
            )
            for place, capacity in enumerate(nodes)
        )
    )
    cores = draw(st.sampled_from([math.inf, math.inf, 1, 2])) if cores is None else cores
    network = draw(networks) if networks is not None else Network()
    batch = {name: draw(st.sampled_from(batches)) for name in job.order if job.outputs(name)}
    return job, cluster, network, Plan(batch=batch), streams, work, cores


LINKS = st.sampled_from(["nodes", "pairs", "edges"])

NETWORKS = st.builds(
    Network,
    latency=st.sampled_from([0.0, 0.0, 0.5]),
    bandwidth=st.sampled_from([math.inf, 64.0]),
    links=LINKS,
    rack_latency=st.sampled_from([0.0, 0.0, 0.25]),
    rack_bandwidth=st.sampled_from([math.inf, math.inf, 32.0, 128.0]),
    per_batch=st.sampled_from([0.0, 0.25]),
    per_byte=st.sampled_from([0.0, 1 / 64]),
    remote_per_batch=st.sampled_from([0.0, 0.0, 0.125]),
    remote_per_byte=st.sampled_from([0.0, 0.0, 1 / 64]),
    linger=st.sampled_from([math.inf, 0.0, 0.5, 1.0]),
    batch_bytes=st.sampled_from([math.inf, math.inf, 1.0, 16.0, 20.0]),
    buffers=st.sampled_from(["distinct", "alike", "shared"]),
)

DELAYS = st.builds(
    Network,
    latency=st.sampled_from([0.0, 0.125, 0.5]),
    bandwidth=st.sampled_from([math.inf, 64.0]),
    links=LINKS,
)


def check(case, every=None, plans=()):
    job, cluster, network, plan, streams, work, cores = case
    engine = SimulationEngine(cluster=cluster, network=network, batch_tuples=every, cores=cores)
    run = engine.run(job, streams, Script((plan, *plans)) if every else plan, work=work)
    changes = [(b.start, plan) for b, plan in zip(run.batches, run.plans, strict=True)][1:]
    naive = Naive(case, changes).run()
    for name in job.order:
        assert by_instance(naive.served[name]) == by_instance(rows_of(run.operators[name])), name
        found = run.operators[name]
        for spent, told in ((naive.shipped, found.shipping), (naive.received, found.receiving)):
            assert [spent[name, number] for number in range(len(told))] == told.tolist()
    for edge in job.edges:
        said = naive.letters[edge.name], naive.carried[edge.name]
        result = run.edges[edge.name]
        assert said == (result.messages, result.carried)
        assert (naive.sent[edge.name], naive.local[edge.name]) == (result.tuples, result.local)
    return run


@dataclass(frozen=True)
class Script(Optimizer):
    """Decides one plan after the other, as written."""

    plans: tuple

    def plan(self, topology, cluster, statistics, current):
        number = statistics.epoch + 1 if statistics else 0
        return self.plans[number] if number < len(self.plans) else Plan()


@st.composite
def changing(draw, networks=None, batches=(1,), first=None, cores=None):
    """Return a case, after how many tuples it changes, and the plans that then come in force."""
    listening = first is None
    case = draw(
        cases(listening=listening, networks=networks, batches=first or batches, cores=cores)
    )
    job, cluster = case[0], case[1]
    nodes = [node.name for node in cluster.nodes]
    plans = []
    for _ in range(draw(st.integers(1, 3))):
        maps = {"parallelism": {}, "batch": {}, "scheduling": {}, "placement": {}}
        for name in job.order:
            count = job.operator(name).parallelism
            if case[5][name].speeds is None:
                count = draw(st.integers(1, 3))
                maps["parallelism"][name] = count
            homes = draw(st.lists(st.sampled_from(nodes), min_size=count, max_size=count))
            groups = ()
            if job.operator(name).keyed:
                groups = draw(st.lists(st.integers(0, count - 1), min_size=4, max_size=4))
            maps["placement"][name] = Deployment(tuple(homes), tuple(groups))
            maps["batch"][name] = draw(st.sampled_from(batches))
        for edge in job.edges:
            if not job.operator(edge.target).keyed:
                maps["scheduling"][edge.name] = draw(st.sampled_from(GROUPINGS))
        for chosen in maps.values():
            for name in list(chosen):
                if draw(st.booleans()) and chosen is not maps["placement"]:
                    del chosen[name]
        for name in list(maps["placement"]):
            if draw(st.booleans()) or name not in maps["parallelism"]:
                del maps["placement"][name]
        plans.append(Plan(**maps))
    return case, draw(st.integers(1, 9)), plans


def rows_of(result):
    columns = result.rows, result.instances, result.arrived, result.started, result.ended
    return list(zip(*(column.tolist() for column in columns), strict=True))


def by_instance(rows):
    found = defaultdict(list)
    for row in rows:
        found[row[1]].append(row)
    return dict(found)
