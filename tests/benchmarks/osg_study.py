"""The study of online shuffle grouping: streams whose tuples differ in cost, under every grouping.

All of it is simulated, so nothing depends on the machine. A point is one setting; it is run for
several seeds, under all contenders on the same tuples.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from page import Json

from grouping.grouping import Grouping
from grouping.groupings import PartialKey, Shuffle
from grouping.scheduling.baselines import FullKnowledge, ShortestQueue, TwoChoices
from grouping.scheduling.least_work.grouping import LeastWork
from grouping.scheduling.online_shuffle.grouping import OnlineShuffle
from optimizers import Plan, Topology
from optimizers.simulation import Network, SimulationEngine, Stream, Work
from optimizers.workloads.followers import Followers
from optimizers.workloads.reach import popularity

ROUND_ROBIN = "round robin"
PUBLISHED = "published"
PUBLISHED_FAST = "published, N = 64"
OURS = "ours"
OURS_FEW = "ours, 144 keys"
FULL = "full knowledge"
ACKNOWLEDGED = "shortest queue, every tuple acknowledged"
INSTANT = "shortest queue, known at any moment"
TWO_CHOICES = "two choices, work known at any moment"
PARTIAL_KEY = "partial key grouping"

CONTENDERS: Mapping[str, Grouping] = {
    ROUND_ROBIN: Shuffle(),
    PUBLISHED: OnlineShuffle(),
    PUBLISHED_FAST: OnlineShuffle(window=64),
    OURS: LeastWork(),
    OURS_FEW: LeastWork(keys=144),
    ACKNOWLEDGED: ShortestQueue(),
    INSTANT: ShortestQueue(instant=True),
    TWO_CHOICES: TwoChoices(instant=True),
    PARTIAL_KEY: PartialKey(),
    FULL: FullKnowledge(),
}
BUDGETS: Mapping[str, Grouping] = {
    **{
        f"ours, tolerance {tolerance:g}": LeastWork(tolerance=tolerance, messages=0.2)
        for tolerance in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    },
    **{
        f"published, N = {window}": OnlineShuffle(window=window)
        for window in (32, 64, 128, 256, 512, 1024)
    },
    **{
        f"published, N = 64, mu = {mu:g}": OnlineShuffle(window=64, tolerance=mu)
        for mu in (0.1, 0.2, 1.0)
    },
    **{
        f"published, N = 64, mu = 0.5, synchronised every {tuples}": OnlineShuffle(
            window=64, tolerance=0.5, resync=tuples
        )
        for tuples in (16, 64)
    },
}
_ALL = {**CONTENDERS, **BUDGETS}

CORE = (ROUND_ROBIN, PUBLISHED, PUBLISHED_FAST, OURS, FULL)

LATENCY = 0.001  # between a sender and an instance, each way
SEEDS = 16


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A synthetic stream, by default that of the paper's study.

    Attributes:
        alpha: how steeply the frequencies of values fall, by Zipf's law.
        instances: among how many tuples are divided.
        provision: how much longer than they could bear at most tuples are apart.
        tuples: how many there are.
        values: how many values the attribute has.
        costs: how many costs there are, evenly spaced from 1 to 64 ms, given out at random.
        schedulers: how many senders there are.
        noise: sigma of a log-normal factor on each cost.
        informed: whether costs have anything to do with values.
        changes: whether each value gets another cost in the middle of the stream.
        paces: how many times as long each instance takes; all alike if empty.
    """

    alpha: float = 1.0
    instances: int = 5
    provision: float = 1.0
    tuples: int = 32_768
    values: int = 4_096
    costs: int = 64
    schedulers: int = 1
    noise: float = 0.0
    informed: bool = True
    changes: bool = False
    paces: tuple[float, ...] = ()

    def stream(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the value and the cost of each tuple."""
        rng = np.random.default_rng([seed, 61])
        frequencies = np.arange(1, self.values + 1) ** -self.alpha
        values = rng.choice(self.values, self.tuples, p=frequencies / frequencies.sum())
        levels = np.resize(np.linspace(0.001, 0.064, self.costs), self.values)
        seconds = rng.permutation(levels)[values]
        if self.changes:
            half = self.tuples // 2
            seconds[half:] = rng.permutation(levels)[values[half:]]
        if not self.informed:
            seconds = rng.permutation(seconds)
        return values, seconds

    @property
    def capacity(self) -> float:
        """How many seconds of work are done in a second."""
        return float(sum(1 / pace for pace in self.paces or (1.0,) * self.instances))


def point(setting: Setting, names: Sequence[str], seeds: int = SEEDS) -> Json:
    """Run one setting under some contenders, and return what came of each, by seed."""
    return _gathered([(setting, names, seed) for seed in range(seeds)], _synthetic)


def _synthetic(task: tuple[Setting, Sequence[str], int]) -> Json:
    setting, names, seed = task
    values, seconds = setting.stream(seed)
    apart = seconds.mean() / setting.capacity * setting.provision
    work = Work(
        lambda columns: columns["seconds"],
        noise=setting.noise,
        speeds=tuple(1 / pace for pace in setting.paces) or None,
    )
    columns = {"value": values, "seconds": seconds}
    stream = Stream(np.arange(len(values)) * apart, columns)
    shape = setting.instances, setting.schedulers
    return {name: outcome(_ALL[name], stream, work, shape, seed) for name in names}


def outcome(
    grouping: Grouping, stream: Stream, work: Work, shape: tuple[int, int], seed: int
) -> Json:
    """Simulate one operator fed by one edge under a grouping.

    Returns:
        The mean and the 99th percentile of completion times in ms, and the messages for each
        tuple: those that instances send, and those that travel with tuples.
    """
    instances, schedulers = shape
    job = Topology.source("in", parallelism=schedulers)
    job = job.then("work", parallelism=instances, edge_key="value")
    engine = SimulationEngine(network=Network(latency=LATENCY), seed=seed)
    plan = Plan(scheduling={("in", "work"): grouping})
    run = engine.run(job, stream, plan, work={"work": work})
    latency = run.operators["work"].latency
    messages = run.edges["in", "work"].messages / len(stream.times)
    return {"mean": 1_000 * latency.mean, "p99": 1_000 * latency.p99, "messages": messages}


# The reach job.


@cache
def network() -> tuple[Followers, NDArray[np.float64]]:
    """Return who follows whom, and how long the reach of each author takes, in seconds."""
    followers = Followers.made_up()
    efforts = np.array([followers.reach(user)[1] for user in range(len(followers))])
    return followers, efforts * (0.070 / efforts.max())


def reach(instances: int, tweets: int, names: Sequence[str], seeds: int) -> Json:
    """Run the reach job, as fast as its instances can bear, under some contenders."""
    network()  # once, before processes are forked
    return _gathered([(instances, tweets, names, seed) for seed in range(seeds)], _reach)


def _reach(task: tuple[int, int, Sequence[str], int]) -> Json:
    instances, tweets, names, seed = task
    followers, costs = network()
    rng = np.random.default_rng([seed, 67])
    shares = popularity(followers, seed)
    authors = rng.choice(len(shares), tweets, p=shares)
    apart = float(shares @ costs) / instances
    stream = Stream(np.arange(tweets) * apart, {"value": authors, "seconds": costs[authors]})
    work = Work(lambda columns: columns["seconds"])
    return {name: outcome(_ALL[name], stream, work, (instances, 1), seed) for name in names}


def _gathered(tasks: Sequence[tuple[object, ...]], run: object) -> Json:
    """Run tasks on all cores, and return for each contender what each seed gave."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        each = list(pool.map(run, tasks))  # type: ignore[arg-type]
    return {
        name: {figure: [seen[name][figure] for seen in each] for figure in each[0][name]}
        for name in each[0]
    }


# The parts of the page.


def _grid(scale: float, settings: Sequence[Setting], names: Sequence[str]) -> Json:
    seeds = max(2, round(SEEDS * min(1.0, scale)))
    found = []
    for setting in settings:
        smaller = replace(setting, tuples=max(1_000, round(setting.tuples * min(1.0, scale))))
        found.append({"setting": asdict(smaller), "outcomes": point(smaller, names, seeds)})
    return found


def default(scale: float) -> Json:
    """The point that the paper starts from, under all contenders."""
    return _grid(scale, [Setting()], tuple(CONTENDERS))


def by_alpha(scale: float) -> Json:
    """How steep frequencies fall."""
    return _grid(scale, [Setting(alpha=a) for a in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)], CORE)


def by_instances(scale: float) -> Json:
    """How many instances there are."""
    return _grid(scale, [Setting(instances=k) for k in range(2, 11)], CORE)


def by_provision(scale: float) -> Json:
    """How much more could be borne than comes in."""
    each = (0.95, 1.0, 1.02, 1.05, 1.1, 1.15, 1.2)
    return _grid(scale, [Setting(provision=provision) for provision in each], CORE)


PACES = (1.0, 1.0, 1.5, 2.0, 3.0)
HARDER = {
    "costs vary by chance, sigma .3": Setting(noise=0.3),
    "costs vary by chance, sigma 1": Setting(noise=1.0),
    "costs have nothing to do with values": Setting(informed=False),
    "all costs change in mid-stream": Setting(changes=True),
    "instances of different speed": Setting(paces=PACES, provision=1.02),
    "16,384 values": Setting(values=16_384),
    "131,072 tuples": Setting(tuples=131_072),
}


def harder(scale: float) -> Json:
    """What real streams add to the study."""
    names = (*CORE, OURS_FEW, ACKNOWLEDGED)
    found = _grid(scale, list(HARDER.values()), names)
    return [{"name": name, **seen} for name, seen in zip(HARDER, found, strict=True)]


def schedulers(scale: float) -> Json:
    """Several senders, none of which knows what the others send."""
    settings = [
        Setting(schedulers=number, provision=provision)
        for provision in (1.0, 1.1)
        for number in (1, 2, 4, 8)
    ]
    return _grid(scale, settings, CORE)


def budget(scale: float) -> Json:
    """How many messages are worth what."""
    seeds = max(2, round(SEEDS * min(1.0, scale)))
    setting = Setting(tuples=max(1_000, round(Setting().tuples * min(1.0, scale))))
    return point(setting, (ROUND_ROBIN, *BUDGETS, FULL), seeds)


TWEETS = 50_000  # of the 2,114,269 published


def reach_job(scale: float) -> Json:
    """The reach job, on 1 to 10 instances."""
    seeds = max(2, round(SEEDS * min(1.0, scale)))
    tweets = max(1_000, round(TWEETS * min(1.0, scale)))
    names = (*CORE, ACKNOWLEDGED)
    return [
        {"instances": k, "tweets": tweets, "outcomes": reach(k, tweets, names, seeds)}
        for k in range(1, 11)
    ]


MEASURED = {
    "default": default,
    "alpha": by_alpha,
    "instances": by_instances,
    "provision": by_provision,
    "harder": harder,
    "schedulers": schedulers,
    "budget": budget,
    "reach": reach_job,
}
"""The parts of docs/results/osg.md."""
