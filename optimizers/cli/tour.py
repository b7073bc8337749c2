"""`penstock tour`: what is here so far, shown on a stream made for the purpose."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import process_time

import numpy as np

from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import RoutingTable
from optimizers.chain import Chain
from optimizers.cluster import Cluster
from optimizers.deployment import Deployment, default_groups
from optimizers.errors import PlanConflictError
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan
from optimizers.statistics import GroupStatistics, OperatorStatistics, Probe, Statistics
from optimizers.strategies.fixed import Fixed
from optimizers.strategies.locality import Locality
from optimizers.topology import Topology
from sketches import CostSketch, CountMin, SpaceSaving, checks
from sketches.arrays import Floats, Integers

_PLACES = 20_000
_TAGS = 200_000
_COMMUNITIES = 50
_CODES = _TAGS + _COMMUNITIES  # a pair as one number: place * _CODES + tag


@dataclass(frozen=True)
class Stream:
    """Tuples of a place, a tag and what each costs to process; element ``i`` is one tuple."""

    places: Integers
    tags: Integers
    costs: Floats


def tour(seed: int = 7, tuples: int = 1_000_000) -> Iterator[str]:
    """Yield the lines of the tour; the figures are measured as they are printed."""
    stream = make_stream(seed, tuples)
    yield f"Penstock, a tour in four stops (seed {seed})"
    yield ""
    yield "1. What is in the stream?"
    yield f"   {tuples:,} tuples of a place, a tag and a cost; some tags belong to some places."
    yield ""
    yield from _table(measure(stream))
    yield ""
    yield "2. Which instance should own which key?"
    yield from _indented(_owners(stream))
    yield ""
    yield "3. What else should change?"
    yield from _indented(_decisions())
    yield ""
    yield "4. What has to move for it?"
    yield from _indented(_moves())
    yield ""
    yield "Next: docs/locality.md, docs/writing-a-strategy.md, docs/results."


def make_stream(seed: int, tuples: int) -> Stream:
    """Make a skewed stream in which tags and places belong to communities."""
    random = np.random.default_rng(checks.seed(seed))
    places = _zipf(random, _PLACES, 0.9, tuples)
    tags = _zipf(random, _TAGS, 1.0, tuples)
    home = random.random(tuples) < 0.7
    tags = np.where(home, tags - tags % _COMMUNITIES + places % _COMMUNITIES, tags)
    costs = (1 + tags * 2_654_435_761 % 64).astype(np.float64)
    return Stream(places, tags, costs)


@dataclass(frozen=True)
class Finding:
    """What one sketch did with the stream."""

    question: str
    sketch: str
    bytes: int
    exact_bytes: int
    quality: str
    rate: float

    def cells(self) -> tuple[str, ...]:
        """Return the finding as cells of a table."""
        sizes = (f"{size / 1024:,.0f} KiB" for size in (self.bytes, self.exact_bytes))
        return (self.question, self.sketch, *sizes, f"{self.rate / 1e6:.0f} M/s", self.quality)


def measure(stream: Stream) -> Iterator[Finding]:
    """Fill each sketch with the stream and compare it with exact counts of the same."""
    yield from _measure_counts(stream, conservative=False)
    yield from _measure_counts(stream, conservative=True)
    yield _measure_pairs(stream)
    yield _measure_costs(stream)


def _measure_counts(stream: Stream, *, conservative: bool) -> Iterator[Finding]:
    tags, counts = np.unique(stream.tags, return_counts=True)
    sketch = CountMin.for_error(0.001, 0.01, conservative=conservative)
    rate = _rate(stream, lambda: sketch.update(stream.tags))
    errors = sketch.estimate(tags) - counts
    never = "never" if errors.min() >= 0 else "SOMETIMES"
    yield Finding(
        "how often a tag came",
        "CountMin, conservative" if conservative else "CountMin",
        8 * sketch.width * sketch.depth,
        tags.nbytes + counts.nbytes,
        f"{never} too low, too high by {errors.mean():.0f} on average",
        rate,
    )


def _measure_pairs(stream: Stream) -> Finding:
    codes, counts = np.unique(stream.places * _CODES + stream.tags, return_counts=True)
    heaviest = set(codes[np.argsort(-counts, kind="stable")[:1000]].tolist())
    sketch = SpaceSaving(20_000)
    rate = _rate(stream, lambda: sketch.update((stream.places, stream.tags)))
    found = {place * _CODES + tag for (place, tag), _, _ in sketch.top(1000)}
    return Finding(
        "which pairs are heavy",
        "SpaceSaving",
        sketch.nbytes,
        codes.nbytes + counts.nbytes,
        f"{len(found & heaviest) / len(heaviest):.0%} of the heaviest 1000 found",
        rate,
    )


def _measure_costs(stream: Stream) -> Finding:
    tags = np.unique(stream.tags)
    sketch = CostSketch(544, 4, exact=256)
    rate = _rate(stream, lambda: sketch.update(stream.tags, stream.costs))
    off = np.abs(sketch.estimate(stream.tags) - stream.costs).mean()
    blind = np.abs(stream.costs.mean() - stream.costs).mean()
    return Finding(
        "what a tuple costs",
        "CostSketch",
        16 * sketch.width * sketch.depth + 32 * sketch.exact,
        24 * len(tags),
        f"off by {off:.1f} ms on average (their mean alone: {blind:.1f} ms)",
        rate,
    )


def _owners(stream: Stream) -> Iterator[str]:
    """Yield what `Locality` learns from the first half of the stream and is worth in the second."""
    job, cluster = _job(), Cluster.uniform(4)
    half = len(stream.tags) // 2
    sketch = SpaceSaving(200_000)
    sketch.update((stream.places[:half], stream.tags[:half]))
    seen = Statistics(pairs={("by_place", "by_tag"): KeyPairs.of(sketch)})
    decided = Locality().plan(job, cluster, seen, Plan())
    yield from str(job).splitlines()
    yield from (str(note) for note in decided.notes)
    yield "of the second half of the stream, tuples that stay on their machine:"
    for name, plan in (("by hash", Plan()), ("as planned", decided)):
        empty = RoutingTable([], [], 4)
        places, tags = (
            plan.routing.get(operator, empty).router(4).route(half, keys[-half:])
            for operator, keys in (("by_place", stream.places), ("by_tag", stream.tags))
        )
        fullest = max(
            np.bincount(parts, minlength=4).max() / (half / 4) for parts in (places, tags)
        )
        local = float((places == tags).mean())
        yield f"  {name}: {local:.0%}; the fullest instance has {fullest:.2f} times its share"


@dataclass(frozen=True)
class Calm(Optimizer):
    """Gives each operator enough instances to be busy for half of the time at most."""

    busy: float = 0.5

    @property
    def observes(self) -> frozenset[Probe]:
        """How long operators were busy."""
        return frozenset({Probe.OPERATORS})

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Divide the busy time of each operator by what one instance may be busy."""
        if not statistics.seconds:
            return Plan()
        wanted, notes = {}, []
        for name, seen in statistics.operators.items():
            operator = topology.operator(name)
            load = seen.seconds / statistics.seconds
            instances = min(int(load / self.busy) + 1, operator.key_groups)
            if instances > operator.parallelism:
                wanted[name] = instances
                notes.append(Note(self.name, name, "busy instances", (("busy", load),)))
        return Plan(parallelism=wanted, notes=tuple(notes))


def _job() -> Topology:
    return (
        Topology.source("tweets", parallelism=2)
        .then("by_place", key="place", parallelism=4, key_groups=64)
        .then("by_tag", key="tag", parallelism=4, key_groups=64)
    )


def _decisions() -> Iterator[str]:
    """Yield a strategy's decisions on a small job, composed with others."""
    job, cluster = _job(), Cluster.uniform(4)
    seen = Statistics(
        seconds=60.0,
        operators={
            "by_place": OperatorStatistics(tuples=400_000, seconds=195.0),
            "by_tag": OperatorStatistics(tuples=400_000, seconds=70.0),
        },
    )
    chain = Chain(Calm(), Fixed(Plan(batch={"tweets": 5_000})))
    plan = chain.plan(job, cluster, seen, Plan())
    yield f"{chain.name} decide: {Plan(parallelism=plan.parallelism, batch=plan.batch)}"
    yield from (f"because {note}" for note in plan.notes)
    try:
        _ = plan | Plan(parallelism={"by_place": 6})
    except PlanConflictError as error:
        yield "and if another one disagrees:"
        yield f"  {error}"


def _moves() -> Iterator[str]:
    """Yield what one group more on the first instance moves, and what going to 7 instances does."""
    job, cluster = _job(), Cluster.uniform(4)
    operator = job.operator("by_place")
    load = np.linspace(0.001, 0.01, operator.key_groups)
    groups = GroupStatistics(cpu=load, memory=load, network=load, state_bytes=load * 1e8)
    seen = Statistics(groups={"by_place": groups})
    homes = list(default_groups(operator))
    homes[-1] = 0
    moved = Plan(placement={"by_place": Deployment(cluster.deal(4), tuple(homes))})
    yield from str(Plan().diff(moved, job, cluster, seen)).splitlines()
    wider = Plan(parallelism={"by_place": 7})
    yield from str(Plan().diff(wider, job, cluster, seen)).splitlines()


def _zipf(random: np.random.Generator, keys: int, skew: float, size: int) -> Integers:
    """Draw keys by Zipf's law; which key is how popular is scattered."""
    shares = 1 / np.arange(1, keys + 1) ** skew
    ranks = np.searchsorted(np.cumsum(shares / shares.sum()), random.random(size))
    drawn: Integers = random.permutation(keys)[ranks.clip(0, keys - 1)]
    return drawn


def _rate(stream: Stream, work: Callable[[], object]) -> float:
    """Do the work and return how many of the stream's tuples it took in a second."""
    start = process_time()
    work()
    return len(stream.tags) / max(process_time() - start, 1e-9)


def _table(findings: Iterator[Finding]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("question", "sketch", "memory", "exact", "speed", "how good"),
        *(finding.cells() for finding in findings),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    for row in rows:
        yield "   " + "  ".join(map(str.ljust, row, widths)).rstrip()


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"   {line}" for line in lines)
