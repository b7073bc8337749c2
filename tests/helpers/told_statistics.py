"""Two nodes whose resources are known, an optimizer that keeps what it is told, and key groups."""

from optimizers import Cluster, Node, Optimizer, Plan, Probe
from sketches.keys import as_keys

NODES = Cluster(
    (Node("x", cores=2, memory=1e6, bandwidth=1e6), Node("y", cores=2, memory=1e6, bandwidth=1e6))
)


def group_of(layout, name, keys):
    return layout.owners(name).group_of(as_keys(keys, seed=layout.topology.seed))


class Told(Optimizer):
    """Decides what it was told to, and keeps the statistics."""

    observes = frozenset({Probe.OPERATORS, Probe.GROUPS})

    def __init__(self, *plans):
        self.plans = list(plans)
        self.heard = []

    def plan(self, topology, cluster, statistics, current):
        self.heard.append(statistics)
        return self.plans.pop(0) if self.plans else Plan()
