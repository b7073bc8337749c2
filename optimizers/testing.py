"""The contract of `Optimizer` as a test suite, for authors of strategies.

Subclass it in a test module and say which strategy is meant; pytest does the rest::

    from optimizers.testing import OptimizerContract

    class TestCalmer(OptimizerContract):
        optimizer = Calmer(patience=3)

Each test asks the strategy about several worlds: a chain, a fork with a join, several sources and
sinks, with all statistics, with few and with none. Override `worlds` to add some of your own.
"""

import base64
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from grouping.key_pairs import KeyPairs
from optimizers.chain import Chain
from optimizers.cluster import Cluster
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import (
    EdgeStatistics,
    GroupStatistics,
    GroupTraffic,
    OperatorStatistics,
    Probe,
    Statistics,
)
from optimizers.topology import Edge, Operator, Topology
from sketches.cost_sketch import CostSketch


@dataclass(frozen=True)
class World:
    """All that an optimizer is told: the arguments of `Optimizer.plan`."""

    topology: Topology
    cluster: Cluster
    statistics: Statistics
    current: Plan = Plan()  # noqa: RUF009  # a frozen value

    def ask(self, optimizer: Optimizer) -> Plan:
        """Ask the strategy what it would do."""
        return optimizer.plan(self.topology, self.cluster, self.statistics, self.current)

    def unseen(self) -> "World":
        """Return the same world with nothing observed."""
        return replace(self, statistics=Statistics())


class OptimizerContract:
    """What every strategy must keep. Set `optimizer` in a subclass."""

    optimizer: ClassVar[Optimizer]

    def worlds(self) -> Iterable[World]:
        """Return the worlds to ask about."""
        return example_worlds()

    def test_gives_the_same_answer_to_the_same_question(self) -> None:
        """A second call, and a copy of the strategy, decide as the first call did."""
        for world in self.worlds():
            first = world.ask(self.optimizer)
            _agree("asked twice", first, world.ask(self.optimizer))
            _agree("its copy", first, world.ask(pickle.loads(pickle.dumps(self.optimizer))))  # noqa: S301

    def test_plans_travel(self) -> None:
        """A plan passes through pickle and through JSON unharmed."""
        for world in self.worlds():
            plan = world.ask(self.optimizer)
            _agree("pickled", plan, pickle.loads(pickle.dumps(plan)))  # noqa: S301
            _agree("as JSON", plan, Plan.from_json(plan.to_json()))

    def test_mentions_only_what_exists(self) -> None:
        """A plan fits the topology and the cluster it was asked about."""
        for world in self.worlds():
            world.ask(self.optimizer).check(world.topology, world.cluster)

    def test_decides_nothing_without_data(self) -> None:
        """Without the statistics it observes, a strategy leaves everything as it is."""
        for world in self.worlds():
            plan = world.unseen().ask(self.optimizer)
            if self.optimizer.observes:
                assert not plan, (
                    f"{self.optimizer.name} observes {_names(self.optimizer.observes)} and "
                    f"decided {plan!r} without having seen any; return Plan() then"
                )
            else:
                _agree("without statistics", world.ask(self.optimizer), plan)

    def test_needs_no_more_than_it_observes(self) -> None:
        """What a strategy does not observe may be absent, and makes no difference."""
        for world in self.worlds():
            seen = replace(world, statistics=only(world.statistics, self.optimizer.observes))
            _agree(
                f"given only {_names(self.optimizer.observes)}",
                world.ask(self.optimizer),
                seen.ask(self.optimizer),
            )

    def test_agrees_with_itself(self) -> None:
        """Its plan merges with itself, and a chain of it alone decides as it does."""
        for world in self.worlds():
            plan = world.ask(self.optimizer)
            _agree("merged with itself", plan, plan | plan)
            _agree("alone in a chain", plan, world.ask(Chain(self.optimizer)))
            world.current.amended(plan).check(world.topology, world.cluster)

    def test_does_not_touch_its_arguments(self) -> None:
        """The world is the same after the question as before."""
        for world in self.worlds():
            before = pickle.loads(pickle.dumps(world))  # noqa: S301
            world.ask(self.optimizer)
            assert world == before, f"{self.optimizer.name} changed its arguments"

    def test_gives_the_same_answer_in_another_process(self) -> None:
        """Another process, with another seed for built-in hashes, decides alike."""
        worlds = list(self.worlds())
        here = [world.ask(self.optimizer) for world in worlds]
        for seed in ("1", "2"):
            there = _ask_elsewhere(self.optimizer, worlds, seed)
            for first, second in zip(here, there, strict=True):
                _agree(f"in a process with PYTHONHASHSEED={seed}", first, second)


def only(statistics: Statistics, probes: Iterable[Probe]) -> Statistics:
    """Return only that part of the statistics which these probes observe."""
    parts = {part for probe in probes for part in _OBSERVED_BY[probe]}
    return Statistics(
        epoch=statistics.epoch,
        seconds=statistics.seconds,
        **{part: getattr(statistics, part) for part in parts},
    )


def example_worlds() -> tuple[World, ...]:
    """Return worlds that differ in shape, in what was seen, and in what is in force."""
    chain = (
        Topology.source("tweets", parallelism=2)
        .then("parse", parallelism=3)
        .then("by_place", key="place", parallelism=4)
        .then("by_tag", key="tag", parallelism=4)
    )
    diamond = (
        Topology.source("edits")
        .then("clean", parallelism=2)
        .then("by_article", key="article", parallelism=3, key_groups=60, after="clean")
        .then("by_author", key="author", parallelism=3, key_groups=60, after="clean")
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
    worlds = []
    for topology, cluster in (
        (chain, Cluster.uniform(4, racks=2)),
        (diamond, Cluster.uniform(3)),
        (several, Cluster.uniform(1)),
    ):
        full = example_statistics(topology)
        worlds += [World(topology, cluster, full)]
        worlds += [World(topology, cluster, only(full, [probe])) for probe in Probe]
        worlds += [World(topology, cluster, Statistics())]
        widest = topology.operators[-1]
        current = Plan(parallelism={widest.name: widest.parallelism + 1})
        worlds += [World(topology.under(current), cluster, full, current)]
    return tuple(worlds)


def example_statistics(topology: Topology, seed: int = 7) -> Statistics:
    """Return a full set of statistics of a skewed stream through the topology."""
    random = np.random.default_rng(seed)
    tuples = dict(zip(topology.order, random.integers(1_000, 50_000, 100).tolist(), strict=False))
    keyed = [operator for operator in topology.operators if operator.keyed]
    hops = topology.keyed_hops
    return Statistics(
        epoch=3,
        seconds=10.0,
        operators={
            name: OperatorStatistics(count, count * 2e-4, count * 8.0, hottest_key=0.05)
            for name, count in tuples.items()
        },
        edges={
            edge.name: EdgeStatistics(tuples[edge.source], 100.0 * tuples[edge.source])
            for edge in topology.edges
        },
        pairs={hop: _example_pairs(random) for hop in hops},
        costs={
            operator.name: tuple(_example_costs(random) for _ in range(operator.parallelism))
            for operator in topology.operators
        },
        groups={operator.name: _example_groups(operator, random) for operator in keyed},
        traffic={
            (source, target): _example_traffic(
                topology.operator(source), topology.operator(target), random
            )
            for source, target in hops
        },
    )


def _example_pairs(random: np.random.Generator) -> KeyPairs:
    left = random.integers(0, 40, 200)
    right = (left * 3 + random.integers(0, 5, 200)) % 90
    return KeyPairs(left, right, np.sort(random.zipf(1.5, 200).clip(1, 10_000))[::-1])


def _example_costs(random: np.random.Generator) -> CostSketch:
    sketch = CostSketch(54, 4, seed=1)
    keys = random.integers(0, 64, 500)
    sketch.update(keys, (keys + 1) / 1000)
    return sketch


def _example_groups(operator: Operator, random: np.random.Generator) -> GroupStatistics:
    shares = random.lognormal(0, 0.5, operator.key_groups)
    load = shares / shares.sum()
    return GroupStatistics(load, load / 2, load / 3, np.floor(shares * 1000))


def _example_traffic(
    source: Operator, target: Operator, random: np.random.Generator
) -> GroupTraffic:
    sources = np.arange(source.key_groups)
    targets = random.permutation(target.key_groups)[sources % target.key_groups]
    return GroupTraffic(sources, targets, random.uniform(1, 500, len(sources)))


_OBSERVED_BY = {
    Probe.OPERATORS: ("operators", "edges"),
    Probe.PAIRS: ("pairs",),
    Probe.COSTS: ("costs",),
    Probe.GROUPS: ("groups", "traffic"),
}


def _agree(how: str, expected: Plan, actual: Plan) -> None:
    assert expected == actual, f"{how}, the plan is {actual!r} and not {expected!r}"


def _names(probes: Iterable[Probe]) -> str:
    return ", ".join(sorted(probes)) or "nothing"


_ASKED_ELSEWHERE = """
import base64, pickle, sys
from optimizers.testing import import_module_of
name, path = sys.argv[1:]
import_module_of(name, path)
optimizer, worlds = pickle.loads(base64.b64decode(sys.stdin.read()))
plans = [world.ask(optimizer) for world in worlds]
print(base64.b64encode(pickle.dumps(plans)).decode())
"""


def import_module_of(name: str, path: str) -> None:
    """Import a module by name, or failing that, as a test module, from its file."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is not None:
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module; define the strategy in a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _ask_elsewhere(optimizer: Optimizer, worlds: list[World], seed: str) -> list[Plan]:
    kind = type(optimizer)
    question = base64.b64encode(pickle.dumps((optimizer, worlds)))
    home = str(Path(inspect.getfile(World)).parent.parent)
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.run(  # noqa: S603  # our own interpreter, our own words
        [sys.executable, "-c", _ASKED_ELSEWHERE, kind.__module__, inspect.getfile(kind)],
        input=question,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
    )
    assert process.returncode == 0, process.stderr.decode()
    plans: list[Plan] = pickle.loads(base64.b64decode(process.stdout))  # noqa: S301
    return plans
