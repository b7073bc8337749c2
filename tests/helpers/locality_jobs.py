"""Jobs of two keyed operators and pairs of keys, for all tests of Locality."""

import numpy as np

from grouping.keygraph.key_pairs import KeyPairs
from optimizers import Cluster, Plan, Statistics, Topology
from optimizers.layout import Layout
from optimizers.strategies.parts.key_layout import KeyLayout

NODES = 4
HOP = ("a", "b")


def job(a=NODES, b=NODES):
    topology = Topology.source("in").then("a", key="k", parallelism=a)
    return topology if b is None else topology.then("b", key="l", parallelism=b)


def correlated(epoch, *, tuples=20_000, groups=16, seed=0, inside=0.9):
    """Pairs of one epoch; 200 and 400 keys in groups that the seed chooses."""
    belongs = np.random.default_rng(seed).integers(0, groups, 400)
    random = np.random.default_rng([epoch, 1])
    left = random.integers(0, 200, tuples)
    right = random.integers(0, 400, tuples)
    for group in range(groups):
        rows = np.flatnonzero((left % groups == group) & (random.random(tuples) < inside))
        right[rows] = random.choice(np.flatnonzero(belongs == group), len(rows))
    return counted(left, right)


def random_pairs(epoch, tuples=20_000):
    random = np.random.default_rng([epoch, 2])
    return counted(random.integers(0, 200, tuples), random.integers(0, 400, tuples))


def counted(left, right):
    codes, counts = np.unique(left * 1000 + right, return_counts=True)
    return KeyPairs(codes // 1000, codes % 1000, counts)


def run(optimizer, epochs, *, topology=None, cluster=None, hop=HOP):
    """Let the optimizer decide at the end of each epoch; return its decisions, and the plan."""
    topology = job() if topology is None else topology
    cluster = Cluster.uniform(NODES) if cluster is None else cluster
    current, history, decisions = Plan(), None, []
    for epoch, pairs in enumerate(epochs):
        known = {} if history is None else {hop: history}
        seen = Statistics(epoch=epoch, pairs={hop: pairs}, history=known)
        decisions.append(optimizer.plan(topology.under(current), cluster, seen, current))
        decisions[-1].check(topology, cluster)
        current = current.amended(decisions[-1], cluster)
        history = (pairs if history is None else history.together(pairs)).faded(optimizer.memory)
    return decisions, current


def ask(optimizer, pairs, *, topology=None, cluster=None, current=None, history=None, **seen):
    topology = job() if topology is None else topology
    cluster = Cluster.uniform(NODES) if cluster is None else cluster
    current = Plan() if current is None else current
    pairs = pairs if isinstance(pairs, dict) else {HOP: pairs}
    statistics = Statistics(pairs=pairs, history=history or {}, **seen)
    return optimizer.plan(topology.under(current), cluster, statistics, current)


def locality(plan, pairs, *, topology=None, cluster=None, hop=HOP):
    topology = job() if topology is None else topology
    cluster = Cluster.uniform(NODES) if cluster is None else cluster
    layout = KeyLayout(Layout.of(topology, cluster, plan), cluster, (hop,))
    return layout.locality({hop: pairs})


def figures(plan):
    (note,) = plan.notes
    return dict(note.figures)


def owners(plan, name, keys, *, topology=None, cluster=None):
    """The instance that has each key under a plan."""
    topology = job() if topology is None else topology
    cluster = Cluster.uniform(NODES) if cluster is None else cluster
    return Layout.of(topology, cluster, plan).owners(name).assign(keys)
