"""A strategy that says what a job begins with, and then lets another decide."""

from dataclasses import dataclass

from optimizers import Optimizer, Plan


@dataclass(frozen=True)
class Beginning(Optimizer):
    """Returns a plan before the first batch, and asks another strategy from then on.

    Attributes:
        start: the plan.
        strategy: the other strategy; None to leave all as it begins.
    """

    start: Plan
    strategy: Optimizer | None

    @property
    def observes(self):
        return frozenset() if self.strategy is None else self.strategy.observes

    def plan(self, topology, cluster, statistics, current):
        if not statistics:
            return self.start
        if self.strategy is None:
            return Plan()
        return self.strategy.plan(topology, cluster, statistics, current)
