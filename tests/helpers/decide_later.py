"""A strategy that waits before it lets another decide."""

from dataclasses import dataclass

from optimizers import Optimizer, Plan


@dataclass(frozen=True)
class Later(Optimizer):
    """Lets a strategy decide from some epoch on."""

    strategy: Optimizer
    epoch: int

    @property
    def observes(self):
        return self.strategy.observes

    def plan(self, topology, cluster, statistics, current):
        if statistics.epoch < self.epoch:
            return Plan()
        return self.strategy.plan(topology, cluster, statistics, current)
