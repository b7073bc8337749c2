"""The contract of `Optimizer` as a test suite, for authors of strategies.

Subclass it in a test module and say which strategy is meant; pytest does the rest::

    from optimizers.testing import OptimizerContract

    class TestCalmer(OptimizerContract):
        optimizer = Calmer(patience=3)

Each test asks the strategy about several worlds: a chain, a fork with a join, several sources and
sinks, with all statistics, with few and with none. Override `worlds` to add some of your own.
"""

import base64
import copy
import importlib.util
import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.chain import Chain
from optimizers.cluster import Cluster, Node
from optimizers.deployment import Deployment, default_groups
from optimizers.errors import PenstockError, PlanError, UnknownNameError
from optimizers.operators import Edge, EdgeName, Operator
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
from optimizers.topology import Topology
from sketches.cost_sketch import CostSketch
from sketches.key_identity import distinct
from sketches.keys import as_keys

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """All that an optimizer is told: the arguments of `Optimizer.plan`."""

    topology: Topology
    cluster: Cluster
    statistics: Statistics
    current: Plan = field(default_factory=Plan)

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


class OptimizerContract:
    """What every strategy must keep. Set `optimizer` in a subclass."""

    optimizer: ClassVar[Optimizer]

    def worlds(self) -> Iterable[World]:
        """Return the worlds to ask about."""
        return example_worlds()

    def test_gives_the_same_answer_to_the_same_question(self) -> None:
        """A second call decides as the first did: by no clock, dice or memory."""
        for world in self.worlds():
            first = world.ask(self.optimizer)
            _agree(f"asked twice, {self.optimizer.name} answers", first, world.ask(self.optimizer))

    def test_travels(self) -> None:
        """A strategy passes through pickle, and its copy decides as it does."""
        copied = _pickled(self.optimizer.name, self.optimizer)
        for world in self.worlds():
            _agree("a pickled copy answers", world.ask(self.optimizer), world.ask(copied))

    def test_plans_travel(self) -> None:
        """A plan passes through pickle and through JSON unharmed."""
        for world in self.worlds():
            plan = world.ask(self.optimizer)
            _agree("pickled, the plan is", plan, _pickled("its plan", plan))
            try:
                back = Plan.from_json(plan.to_json())
            except (PenstockError, TypeError, ValueError) as error:
                raise AssertionError(
                    f"{plan!r} does not pass through JSON: {error}; "
                    "decide by groupings and numbers that do"
                ) from error
            _agree("written as JSON and read, the plan is", plan, back)

    def test_mentions_only_what_exists(self) -> None:
        """A plan fits the topology and the cluster it was asked about."""
        for world in self.worlds():
            plan = world.ask(self.optimizer)
            try:
                plan.check(world.topology, world.cluster)
            except (PlanError, UnknownNameError) as error:
                raise AssertionError(
                    f"{self.optimizer.name} decided {plan!r}, which does not fit the job: {error}"
                ) from error

    def test_decides_nothing_without_data(self) -> None:
        """Without the statistics it observes, a strategy leaves everything as it is."""
        if not self.optimizer.observes:
            return  # it decides without data by design, and may
        for world in self.worlds():
            plan = world.seen_by(()).ask(self.optimizer)
            assert not plan, (
                f"{self.optimizer.name} observes {_names(self.optimizer.observes)} and "
                f"decided {plan!r} without having seen any; return Plan() then"
            )

    def test_needs_no_more_than_it_observes(self) -> None:
        """What a strategy does not observe may be absent, and makes no difference."""
        observes = self.optimizer.observes
        for probe in observes:
            assert isinstance(probe, Probe), (
                f"{self.optimizer.name} observes {probe!r}, which is no Probe; "
                f"choose from {_names(Probe)}"
            )
        for world in self.worlds():
            _agree(
                f"given only what it observes ({_names(observes)}), {self.optimizer.name} answers",
                world.ask(self.optimizer),
                world.seen_by(observes).ask(self.optimizer),
            )

    def test_agrees_with_itself(self) -> None:
        """A chain of it alone decides as it does, and what is in force afterwards fits the job."""
        for world in self.worlds():
            plan = world.ask(self.optimizer)
            try:
                _agree("alone in a chain it answers", plan, world.ask(Chain(self.optimizer)))
                after = world.current.amended(plan | plan, world.cluster)
                after.check(world.topology, world.cluster)
            except (PlanError, UnknownNameError) as error:
                raise AssertionError(
                    f"{self.optimizer.name} decided {plan!r} where {world.current!r} is in force, "
                    f"and the two together do not fit the job: {error}"
                ) from error

    def test_does_not_touch_its_arguments(self) -> None:
        """The world is the same after the question as before."""
        for world in self.worlds():
            before = copy.deepcopy(world)
            world.ask(self.optimizer)
            touched = [
                field.name
                for field in fields(World)
                if getattr(world, field.name) != getattr(before, field.name)
            ]
            assert not touched, (
                f"{self.optimizer.name} changed its arguments: {', '.join(touched)}; "
                "work on copies of what can change"
            )

    def test_gives_the_same_answer_in_another_process(self) -> None:
        """Another process, with another seed for built-in hashes, decides alike."""
        worlds = list(self.worlds())
        here = [world.ask(self.optimizer) for world in worlds]
        seeds = ("1", "2")
        with ThreadPoolExecutor(len(seeds)) as at_once:
            answers = at_once.map(partial(_ask_elsewhere, self.optimizer, worlds), seeds)
        for seed, there in zip(seeds, answers, strict=True):
            for first, second in zip(here, there, strict=True):
                _agree(
                    f"in a process with PYTHONHASHSEED={seed}, {self.optimizer.name} answers "
                    "(look for hash() and for sets that are iterated)",
                    first,
                    second,
                )


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
        batch=dict.fromkeys(topology.sources, 100), placement={grown.name: home}
    )
    return World(topology, cluster, example_statistics(topology), current)


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
        operators={
            name: OperatorStatistics(count, count * 2e-4, count * 8.0, hottest_key=0.05)
            for name, count in tuples.items()
        },
        edges={
            edge.name: EdgeStatistics(tuples[edge.source], 100.0 * tuples[edge.source])
            for edge in topology.edges
        },
        pairs=pairs,
        held_out={hop: _example_pairs(random) for hop in hops},
        history={hop: _example_pairs(random).faded(0.5) for hop in hops},
        keys=_example_keys(pairs),
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
    names = np.array([f"#{tag}" for tag in right.tolist()], dtype=object)
    return KeyPairs(left, names, np.sort(random.zipf(1.5, 200).clip(1, 10_000))[::-1])


def _example_keys(pairs: Mapping[EdgeName, KeyPairs]) -> dict[str, KeyCounts]:
    """Return counts of the keys in the pairs, and of rare partners that the pairs do not tell."""
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
    return GroupStatistics(load, load / 2, load / 3, np.floor(shares * 1000))


def _example_traffic(
    source: Operator, target: Operator, random: np.random.Generator
) -> GroupTraffic:
    sources = np.arange(source.key_groups)
    targets = random.permutation(target.key_groups)[sources % target.key_groups]
    return GroupTraffic(sources, targets, random.uniform(1, 500, len(sources)))


_OBSERVED_BY = {
    Probe.OPERATORS: ("operators", "edges"),
    Probe.PAIRS: ("pairs", "held_out", "history", "keys"),
    Probe.COSTS: ("costs",),
    Probe.GROUPS: ("groups", "traffic"),
}


def _agree(how: str, expected: Plan, actual: Plan) -> None:
    assert expected == actual, f"{how} {actual!r} and not {expected!r}"


def _names(probes: Iterable[Probe]) -> str:
    return ", ".join(sorted(probes)) or "nothing"


def _pickled(what: str, value: T) -> T:
    """Return what arrives when the value is sent to another process."""
    try:
        return pickle.loads(pickle.dumps(value))  # type: ignore[no-any-return]  # noqa: S301
    except (pickle.PickleError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"{what} does not pass through pickle: {error}; "
            "keep settings in the fields of a frozen dataclass at the top level of a module"
        ) from error


_ASKED_ELSEWHERE = """
import base64, json, pickle, sys
from optimizers.testing import import_module_of
answer, sys.stdout = sys.stdout, sys.stderr  # whatever a strategy prints is no answer
modules, question = sys.stdin
for name, path in json.loads(modules):
    import_module_of(name, path)
optimizer, worlds = pickle.loads(base64.b64decode(question))
plans = [world.ask(optimizer) for world in worlds]
print(base64.b64encode(pickle.dumps(plans)).decode(), file=answer)
"""


def import_module_of(name: str, path: str) -> None:
    """Import a module by name, or where another or none goes by it there, from its file."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is not None and found.origin == path:
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module; define the strategy in a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


class _ModulesOf(pickle.Unpickler):
    """Reads a pickle and remembers which modules it took."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.files: dict[str, str] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:
        found = super().find_class(module_name, global_name)
        path = getattr(sys.modules[module_name], "__file__", None)
        if path is not None:
            self.files[module_name] = path
        return found


def _ask_elsewhere(optimizer: Optimizer, worlds: list[World], seed: str) -> list[Plan]:
    _pickled(optimizer.name, optimizer)
    question = pickle.dumps((optimizer, worlds))
    modules = _ModulesOf(question)
    modules.load()
    process = subprocess.run(  # noqa: S603  # our own interpreter, our own words
        [sys.executable, "-P", "-c", _ASKED_ELSEWHERE],
        input=f"{json.dumps(list(modules.files.items()))}\n{base64.b64encode(question).decode()}",
        capture_output=True,
        check=False,
        text=True,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(place or os.getcwd() for place in sys.path),  # noqa: PTH109
        },
    )
    assert process.returncode == 0, (
        f"{optimizer.name} cannot answer in another process:\n{process.stderr}"
    )
    plans: list[Plan] = pickle.loads(base64.b64decode(process.stdout))  # noqa: S301
    return plans
