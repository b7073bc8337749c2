"""A cluster that gives and takes nodes, and a job on it whose sources bring what a test says."""

from dataclasses import dataclass, field

import numpy as np

from optimizers import (
    Cluster,
    GroupStatistics,
    Layout,
    Node,
    OperatorStatistics,
    Plan,
    Statistics,
    Topology,
)
from optimizers.control.checking import EngineLimits
from optimizers.control.loop import ControlLoop, Observed
from optimizers.control.settings import Asking
from optimizers.control.summary import BatchSummary, InstanceSummary
from optimizers.flow import SourceStatistics
from optimizers.layout import completed
from optimizers.loads import InstanceStatistics

SECONDS = 60.0  # an epoch
GROUPS = 60


def job_on(nodes):
    return (
        Topology.source("s")
        .then("a", key="k", parallelism=nodes, key_groups=GROUPS)
        .then("b", key="l", parallelism=nodes, key_groups=GROUPS)
    )


@dataclass
class World:
    """Runs epochs of a job, one after the other, under the loop of all engines.

    What more comes than the busiest node can do waits. A node that is wanted comes an epoch later,
    one that drains goes once nothing is on it.
    """

    strategy: object
    nodes: int = 3
    shares: dict = field(default_factory=dict)
    noise: float = 0.0
    seed: int = 0
    state: float = 1000.0

    def __post_init__(self):
        self.job = job_on(self.nodes)
        self.cluster = Cluster.uniform(self.nodes)
        self.drawn = np.random.default_rng(self.seed)
        for name in "ab":
            share = self.shares.get(name, np.ones(GROUPS))
            self.shares[name] = np.asarray(share, dtype=float) / np.sum(share)
        self.loop = ControlLoop(self.job, self.cluster, self.strategy, Asking(every=1, drift=None))
        self.plan = completed(Plan(), self.job, self.cluster)
        self.waiting, self.batch, self.named = 0.0, 0, self.nodes
        self.lags, self.usages, self.counts, self.rescales, self.moved = [], [], [], 0, []
        self.held = self._held()

    @property
    def layout(self):
        return Layout.of(self.job, self.cluster, self.plan)

    def begin(self, placement):
        """Begin with these deployments in place of the usual ones."""
        self.plan = self.plan.amended(Plan(placement=placement), self.cluster)
        self.held = self._held()
        self.loop.begin(self.layout)

    def _held(self):
        """The node of each key group, by the plan in force."""
        homes = self.layout.homes
        return {
            (name, group): homes[name].nodes[instance]
            for name in "ab"
            for group, instance in enumerate(homes[name].groups)
        }

    def usage(self, rate):
        """The usage of each node if all was done that comes; a node does one second a second."""
        layout, held = self.layout, {}
        for name in "ab":
            home = layout.homes[name]
            for instance, share in zip(home.groups, self.shares[name], strict=True):
                node = home.nodes[instance]
                held[node] = held.get(node, 0.0) + share * rate / 2
        return held

    def epoch(self, rate):
        """Let so much come in an epoch, in node-seconds a second, and the strategy decide."""
        came = rate * (1 + self.noise * self.drawn.standard_normal())
        busiest = max(self.usage(1.0).values())
        done = min(came + self.waiting / SECONDS, 1.0 / busiest)
        self.waiting = max(0.0, self.waiting + (came - done) * SECONDS)
        self.usages.append(done * busiest)
        self.lags.append(self.waiting)
        self._hear(done)
        seen = self.statistics(came, done)
        change = self.loop.decide(
            self.plan, Observed(lambda _: seen, lambda _: None), EngineLimits()
        ).plan
        refused = self.loop.happened.decisions[-1].refused
        assert not refused, refused
        self._apply(change, seen)
        self._machines()

    def _hear(self, done):
        instances = [InstanceSummary("s", 0, "node-0", int(done * 1e6), 0, 0.0, 0.0, 0)]
        for node, usage in self.usage(done).items():
            instances.append(InstanceSummary("a", 0, node, 0, 0, usage * SECONDS, 0.0, 0))
        summary = BatchSummary(self.batch, 0, SECONDS, tuple(instances), {})
        self.loop.hear(summary, tuples=int(done * 1e6), plan=self.plan)
        self.batch += 1

    def statistics(self, came, done):
        state = np.full(GROUPS, self.state)
        return Statistics(
            epoch=self.loop.epochs,
            seconds=SECONDS,
            operators={"s": OperatorStatistics(tuples=done * SECONDS)},
            sources={"s": SourceStatistics(came * SECONDS, done * SECONDS, self.waiting, SECONDS)},
            groups={
                name: GroupStatistics(
                    cpu=share * done / 2, state_bytes=state, tuples=share * done * 1e9
                )
                for name, share in self.shares.items()
            },
            instances={"s": InstanceStatistics(("node-0",), cpu=np.zeros(1))},
        )

    def _apply(self, change, seen):
        if not change:
            return
        if change.nodes is not None or change.drain or change.parallelism:
            self.rescales += change.nodes is not None
        before = self.plan
        self.plan = completed(self.plan.amended(change, self.cluster), self.job, self.cluster)
        self.moved.append(before.diff(self.plan, self.job, self.cluster, seen))
        # State goes by what is said to move: each group is then where the plan looks for it.
        for move in self.moved[-1].groups:
            assert self.held[move.operator, move.group] == move.old[1]
            self.held[move.operator, move.group] = move.new[1]
        assert self.held == self._held()
        self.loop.begin(self.layout)

    def drift(self, spread):
        """Let the loads of key groups drift, each by itself."""
        for name, share in self.shares.items():
            drifted = share * self.drawn.lognormal(0.0, spread, GROUPS)
            self.shares[name] = drifted / drifted.sum()

    def fail(self, name):
        """Lose a node: its instances are restored on others, which no strategy decides."""
        self._meet([node for node in self.cluster.nodes if node.name != name])

    def join(self):
        """Let a node come that no plan has asked for."""
        self._meet([*self.cluster.nodes, Node(f"node-{self.named}")])
        self.named += 1

    def _meet(self, nodes):
        self.cluster = self.cluster.became(nodes)
        fitted = self.loop.fitted(self.plan, self.cluster, self.batch)
        self.plan = completed(fitted, self.job, self.cluster)
        self.loop.meet(self.cluster, self.layout)
        restored = self._held()  # what was on nodes that are gone; all else is where it was
        names = {node.name for node in self.cluster.nodes}
        assert all(restored[at] == node for at, node in self.held.items() if node in names)
        self.held = restored

    def _machines(self):
        """Bring a node that is wanted, or take one that nothing is on."""
        working = [node for node in self.cluster.nodes if node.name not in self.plan.drain]
        used = {name for home in self.layout.homes.values() for name in home.nodes}
        nodes = [node for node in self.cluster.nodes if node in working or node.name in used]
        if self.plan.nodes is not None and len(working) < self.plan.nodes:
            for _ in range(self.plan.nodes - len(working)):
                nodes.append(Node(f"node-{self.named}"))
                self.named += 1
        if nodes != list(self.cluster.nodes):
            self._meet(nodes)
        self.counts.append(len(working))
