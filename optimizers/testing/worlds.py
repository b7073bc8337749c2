"""Worlds to ask a strategy about: jobs of several shapes, with all statistics, few and none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.batch_time import BatchTime, StageTime
from optimizers.cluster import Cluster, Node
from optimizers.control.question import Question
from optimizers.deployment import Deployment, default_groups
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.operators import Edge, EdgeName, Operator
from optimizers.optimizer import Optimizer
from optimizers.past import Past, PastDecision, PastEpoch, PastGroups
from optimizers.plan import Plan
from optimizers.statistics import (
    EdgeStatistics,
    GroupTraffic,
    OperatorStatistics,
    Probe,
    Statistics,
)
from optimizers.topology import Topology
from sketches.cost_sketch import CostSketch
from sketches.key_identity import distinct
from sketches.keys import as_keys


@dataclass(frozen=True)
class World(Question):
    """What an optimizer gets: the arguments of `Optimizer.plan`."""

    def ask(self, optimizer: Optimizer) -> Plan:
        """Ask the strategy what it would do."""
        assert isinstance(optimizer, Optimizer), (
            f"{optimizer!r} is not an Optimizer; set `optimizer` to one, made with its settings"
        )
        plan = optimizer.plan(self.topology, self.cluster, self.statistics, self.current)
        assert isinstance(plan, Plan), (
            f"{optimizer.name} decided {plan!r}, which is not a Plan; return Plan() for nothing"
        )
        return plan

    def seen_by(self, probes: Iterable[Probe]) -> "World":
        """Return the same world with only that observed."""
        return replace(self, statistics=only(self.statistics, probes))


def only(statistics: Statistics, probes: Iterable[Probe]) -> Statistics:
    """Return only that part of the statistics which these probes observe."""
    probes = frozenset(probes)
    parts = {part for probe in probes for part in _OBSERVED_BY[probe]}
    return Statistics(
        epoch=statistics.epoch,
        seconds=statistics.seconds,
        execution=statistics.execution,
        past=statistics.past if Probe.GROUPS in probes else Past(statistics.past.epochs),
        **{part: getattr(statistics, part) for part in parts},
    )


def example_worlds() -> tuple[World, ...]:
    """Return worlds that differ in shape, in what was seen, and in what is in force."""
    chain = (
        Topology.source("tweets", parallelism=2)
        .then("parse", parallelism=3)
        .then("by_place", key="place", parallelism=4, key_groups=40)
        .then("by_tag", key="tag", parallelism=4, key_groups=40)
    )
    diamond = (
        Topology.source("edits")
        .then("clean", parallelism=2)
        .then("by_article", key="article", parallelism=3, key_groups=24, after="clean")
        .then("by_author", key="author", parallelism=3, key_groups=24, after="clean")
        .then("join", key="article", parallelism=2, after=("by_article", "by_author"))
    )
    several = Topology(
        operators=(
            Operator("cars"),
            Operator("weather"),
            Operator("toll", key=("xway", "dir"), parallelism=5),
            Operator("bill"),
            Operator("archive", parallelism=2),
        ),
        edges=(
            Edge("cars", "toll"),
            Edge("weather", "toll", key=("road", "way")),
            Edge("toll", "bill"),
            Edge("toll", "archive"),
        ),
    )
    uneven = Cluster(
        (Node("big", 4.0), Node("small", 0.5, "rack-1"), Node("leaving", rack="rack-1")),
        draining=("leaving",),
    )
    worlds = []
    for topology, cluster in (
        (chain, Cluster.uniform(4, racks=2)),
        (diamond, uneven),
        (several, Cluster.uniform(1)),
    ):
        full = World(topology, cluster, example_statistics(topology))
        worlds += [full, full.seen_by(())]
        worlds += [full.seen_by([probe]) for probe in Probe]
        worlds += [_under_way(full)]
    return tuple(worlds)


def _under_way(world: World) -> World:
    """Return the world some epochs later: one operator grown and placed, one node added."""
    grown = world.topology.operators[-1]
    added = Node("added", capacity=2.0)
    growth = Plan(parallelism={grown.name: grown.parallelism + 1}, add=(added,))
    topology, cluster = world.topology.under(growth), world.cluster.under(growth)
    operator = topology.operator(grown.name)
    home = Deployment(cluster.deal(operator.parallelism), default_groups(operator))
    current = growth | Plan(
        admit=dict.fromkeys(topology.sources, 100),
        batch=dict.fromkeys(topology.sources, 100),
        placement={grown.name: home},
    )
    seen = replace(example_statistics(topology), execution=Execution(micro_batches=False))
    return World(topology, cluster, seen, current)


def example_statistics(topology: Topology, seed: int = 7) -> Statistics:
    """Return a full set of statistics of a skewed stream through the topology."""
    random = np.random.default_rng(seed)
    counts = random.integers(1_000, 50_000, len(topology.order)).tolist()
    tuples = dict(zip(topology.order, counts, strict=True))
    keyed = [operator for operator in topology.operators if operator.keyed]
    hops = topology.keyed_hops
    pairs = {hop: _example_pairs(random) for hop in hops}
    return Statistics(
        epoch=3,
        seconds=10.0,
        operators={name: _example_operator(count) for name, count in tuples.items()},
        edges={
            edge.name: EdgeStatistics(
                tuples[edge.source], 100.0 * tuples[edge.source], parcels=tuples[edge.source] // 500
            )
            for edge in topology.edges
        },
        sources={
            name: SourceStatistics(tuples[name] * 1.25, tuples[name], tuples[name], seconds=12.0)
            for name in topology.sources
        },
        batch_times=tuple(_example_time(topology, batch, tuples) for batch in range(3)),
        pairs=pairs,
        held_out={hop: _example_pairs(random) for hop in hops},
        history={hop: _example_pairs(random).faded(0.5) for hop in hops},
        keys=_example_keys(pairs),
        instances={
            operator.name: _example_instances(operator, tuples[operator.name])
            for operator in topology.operators
        },
        costs={
            operator.name: tuple(_example_costs(random) for _ in range(operator.parallelism))
            for operator in topology.operators
        },
        groups={operator.name: _example_groups(operator, random) for operator in keyed},
        past=_example_past(topology, tuples),
        execution=Execution(micro_batches=True, slots=8),
        traffic={
            (source, target): _example_traffic(
                topology.operator(source), topology.operator(target), random
            )
            for source, target in hops
        },
    )


def _example_operator(tuples: int) -> OperatorStatistics:
    return OperatorStatistics(
        tuples,
        tuples * 2e-4,
        tuples * 8.0,
        hottest_key=0.05,
        emitted=tuples * 0.75,
        shipping=tuples * 5e-5,
        wall=tuples * 3e-4,
    )


def _example_time(topology: Topology, batch: int, tuples: Mapping[str, int]) -> BatchTime:
    """Return where the time of one of three batches went, with a stage for each operator."""
    came = sum(tuples[name] for name in topology.sources) / 3
    stages = [
        StageTime(
            operators=(operator.name,),
            size=operator.parallelism,
            turns=1,
            fixed=0.02,
            tasks=0.04,
            reading=0.01 if operator.name in topology.sources else 0.0,
            work=tuples[operator.name] / 3 * 3e-4 / operator.parallelism,
            shuffle=0.05,
            state=0.01 if operator.keyed else 0.0,
        )
        for operator in (topology.operator(name) for name in topology.order)
    ]
    seconds = 0.12 + 0.03 + sum(stage.seconds for stage in stages) + 0.01
    return BatchTime(batch, came, seconds, planning=0.12, stages=tuple(stages), commit=0.03)


def _example_past(topology: Topology, tuples: Mapping[str, float]) -> Past:
    """Return two epochs, of half and of all the tuples; something moved after the first."""
    moved = PastDecision((("placement", topology.order[-1]),), applied=True)
    epochs = tuple(
        PastEpoch(
            number,
            batches=4,
            seconds=10.0,
            tuples={name: count * share for name, count in tuples.items()},
            busy={name: count * share * 2e-4 for name, count in tuples.items()},
            instances={operator.name: operator.parallelism for operator in topology.operators},
            decision=moved if number == 1 else PastDecision(),
        )
        for number, share in ((1, 0.5), (2, 1.0))
    )
    keyed = [operator for operator in topology.operators if operator.keyed]
    loads = {
        operator.name: PastGroups(np.full(operator.key_groups, 1 / operator.key_groups))
        for operator in keyed
    }
    return Past(epochs, loads)


def _example_pairs(random: np.random.Generator) -> KeyPairs:
    left = random.integers(0, 40, 200)
    right = (left * 3 + random.integers(0, 5, 200)) % 90
    names = np.array([f"#{tag}" for tag in right.tolist()], dtype=object)
    return KeyPairs(left, names, np.sort(random.zipf(1.5, 200).clip(1, 10_000))[::-1])


def _example_keys(pairs: Mapping[EdgeName, KeyPairs]) -> dict[str, KeyCounts]:
    """Return counts of the keys in the pairs, and of rare partners that are not in the pairs."""
    found: dict[str, KeyCounts] = {}
    for hop, counted in pairs.items():
        for name, column in zip(hop, (counted.left, counted.right), strict=True):
            _, first = distinct(as_keys(column))
            found.setdefault(
                name,
                KeyCounts(column[first], 50.0 * np.arange(1, len(first) + 1, dtype=np.float64)),
            )
    return found


def _example_costs(random: np.random.Generator) -> CostSketch:
    sketch = CostSketch(54, 4, seed=1)
    keys = random.integers(0, 64, 500)
    sketch.update(keys, (keys + 1) / 1000)
    return sketch


def _example_groups(operator: Operator, random: np.random.Generator) -> GroupStatistics:
    shares = random.lognormal(0, 0.5, operator.key_groups)
    load = shares / shares.sum()
    return GroupStatistics(load, load / 2, load / 3, np.floor(shares * 1000), tuples=1e4 * load)


def _example_instances(operator: Operator, tuples: int) -> InstanceStatistics:
    """Return loads of instances that ran on their planned nodes, under the names of hosts."""
    count = operator.parallelism
    nodes = Cluster.uniform(count).deal(count)
    each = np.full(count, tuples / count)
    amounts = {"tuples": each, "seconds": 1e-4 * each, "fixed": 1e-6 * each}
    sizes = {"bytes_in": 100.0 * each, "bytes_out": 100.0 * each}
    return InstanceStatistics(nodes, nodes, **amounts, **sizes, cpu=1e-5 * each)


def _example_traffic(
    source: Operator, target: Operator, random: np.random.Generator
) -> GroupTraffic:
    sources = np.arange(source.key_groups)
    targets = random.permutation(target.key_groups)[sources % target.key_groups]
    return GroupTraffic(sources, targets, random.uniform(1, 500, len(sources)))


_OBSERVED_BY = {
    Probe.OPERATORS: ("operators", "instances", "edges", "sources", "batch_times"),
    Probe.PAIRS: ("pairs", "held_out", "history", "keys"),
    Probe.COSTS: ("costs",),
    Probe.GROUPS: ("groups", "traffic"),
}
