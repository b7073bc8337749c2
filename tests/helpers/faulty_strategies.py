"""Strategies with one fault each, and two that look faulty and are not."""

import time
from dataclasses import dataclass, field

import numpy as np
from strategies import Table

from optimizers import (
    Optimizer,
    Plan,
    Probe,
)


@dataclass(frozen=True)
class Dice(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        roll = int(np.random.default_rng().integers(1, 1 << 40))
        return Plan(batch={topology.sources[0]: roll})


@dataclass(frozen=True)
class Clock(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        return Plan(batch={topology.sources[0]: time.perf_counter_ns()})


@dataclass(frozen=True)
class Counting(Optimizer):
    calls: list = field(default_factory=list, hash=False)

    def plan(self, topology, cluster, statistics, current):
        self.calls.append(topology.order)
        return Plan(batch={topology.sources[0]: len(self.calls)})


@dataclass(frozen=True)
class HoldsAFunction(Optimizer):
    score: object = field(default_factory=lambda: lambda _: 7)

    def plan(self, topology, cluster, statistics, current):
        return Plan(batch={topology.sources[0]: self.score(topology)})


class LosesASetting(Optimizer):
    def __init__(self, size=3):
        self.size = size

    def __reduce__(self):
        return type(self), ()

    def plan(self, topology, cluster, statistics, current):
        return Plan(batch={topology.sources[0]: self.size})


@dataclass(frozen=True)
class RoutesByAStranger(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        keyed = [operator for operator in topology.operators if operator.keyed]
        return Plan(routing={op.name: Table(op.parallelism) for op in keyed})


@dataclass(frozen=True)
class Dreamer(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        return Plan(parallelism={"ghost": 2})


@dataclass(frozen=True)
class Hasty(Optimizer):
    @property
    def observes(self):
        return frozenset({Probe.PAIRS})

    def plan(self, topology, cluster, statistics, current):
        return Plan(batch={topology.sources[0]: 100 + len(statistics.pairs)})


@dataclass(frozen=True)
class Curious(Optimizer):
    @property
    def observes(self):
        return frozenset({Probe.PAIRS})

    def plan(self, topology, cluster, statistics, current):
        if not statistics.pairs:
            return Plan()
        return Plan(batch={topology.sources[0]: 1 + len(statistics.costs)})


@dataclass(frozen=True)
class Misspelling(Optimizer):
    @property
    def observes(self):
        return frozenset({"operator"})

    def plan(self, topology, cluster, statistics, current):
        return Plan()


@dataclass(frozen=True)
class Emptying(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        return Plan(drain=(cluster.nodes[-1].name,))


@dataclass(frozen=True)
class Meddling(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        for sketches in statistics.costs.values():
            sketches[0].update([1], [1000.0])
        return Plan()


@dataclass(frozen=True)
class Forcing(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        object.__setattr__(current, "drain", ("node-0",))
        return Plan()


@dataclass(frozen=True)
class BySetOrder(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        return Plan(batch={name: place + 1 for place, name in enumerate(set(topology.order))})


@dataclass(frozen=True)
class ByBuiltinHash(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        name = topology.sources[0]
        return Plan(batch={name: 1 + hash(name) % (1 << 40)})


@dataclass(frozen=True)
class Forgetful(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        Plan(batch={topology.sources[0]: 1})


@dataclass(frozen=True)
class Talkative(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        print("deciding now")  # noqa: T201
        return Plan()


@dataclass(frozen=True)
class EveryTenthEpoch(Optimizer):
    def plan(self, topology, cluster, statistics, current):
        return Plan(batch={topology.sources[0]: 10 * (1 + statistics.epoch // 10)})
