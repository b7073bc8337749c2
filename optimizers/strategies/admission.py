"""How much to admit by the rules of others: rivals of what Aeolus admits, on micro-batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from batching.admission import BatchReport, Controller, FixedPoint, Isotonic, PidRate
from optimizers.batch_time import BatchTime
from optimizers.cluster import Cluster
from optimizers.errors import UnknownNameError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.statistics import Probe, Statistics
from optimizers.topology import Topology
from sketches import checks

RULES = ("dybbs", "fixed-point", "pid")


@dataclass(frozen=True)
class Admission(Optimizer):
    """Decides how much sources let in with a batch, by a rule that hears of each batch.

    A batch has what its rule says: a number of rows, or all that come in an interval and those that
    wait. Stages and tasks stay as they are.

    >>> from optimizers.batch_time import BatchTime
    >>> from optimizers.execution import Execution
    >>> from optimizers.flow import SourceStatistics
    >>> seen = Statistics(
    ...     execution=Execution(micro_batches=True, slots=2, sized=("s",)),
    ...     sources={"s": SourceStatistics(8_000, 8_000, 0, seconds=4)},
    ...     batch_times=[BatchTime(0, 2_000, 0.8, 0.8, (), 0.0)] * 4)
    >>> job = Topology.source("s").then("a")
    >>> Admission("fixed-point").plan(job, Cluster.uniform(1), seen, Plan()).admit
    FrozenMap({'s': 2000})

    Attributes:
        rule: "pid", of Spark's DStreams; "fixed-point", of Das et al., SoCC 2014; or "dybbs", of
            Zhang et al., ICAC 2016.
        usage: the share of its interval that a batch is to take; of intervals.
        period: the interval of batches that "pid" goes by, in seconds.
    """

    rule: str
    usage: float = 0.8
    period: float = 1.0

    observes = frozenset({Probe.OPERATORS})

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UnknownNameError.among("rule of admission", self.rule, RULES)
        checks.number("period", self.period, above=0.0)
        FixedPoint(1.0, usage=self.usage)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose how much sources let in, where the rule says otherwise than now."""
        execution = statistics.execution
        if execution is None:
            return Plan()
        sized = [name for name in execution.sized if name in topology.sources]
        if not execution.micro_batches or not sized:
            return self.idle("no source of it lets in what a plan says, as those of a replay do")
        times = [time for time in statistics.batch_times if time.tuples and time.seconds]
        if not times:
            return Plan()
        # 1. What came, and what batches took.
        came = _arriving(statistics)
        rate = came if came is not None else _ratio(times)
        reports = [
            BatchReport(time.tuples, time.seconds, rate * time.seconds, time.seconds)
            for time in times
        ]
        waiting = sum(each.waiting or 0.0 for each in statistics.sources.values())
        # What waits now has waited for the last batch as long as it takes to be worked through.
        last = reports[-1]
        reports[-1] = replace(last, waited=waiting * last.seconds / last.rows)
        # 2. What the rule says to that.
        state: Controller = self._begun(statistics, current, sized, rate, reports)
        for report in reports:
            state = state.after(report)
        rows = state.admission.rows
        if math.isinf(rows):
            rows = rate * state.admission.period + waiting
        # 3. For each source its share of it.
        admit = {
            name: max(1, round(rows * share))
            for name, share in _shares(statistics, topology, sized).items()
        }
        changed = {name: rows for name, rows in admit.items() if rows != current.admit.get(name)}
        figures = {"rate": rate, "rows": rows, "seconds": reports[-1].seconds}
        notes = (self.note("the job", f"by the rule {self.rule}", figures),)
        return Plan(admit=changed, notes=notes)

    def _begun(
        self,
        statistics: Statistics,
        current: Plan,
        sized: Sequence[str],
        rate: float,
        reports: Sequence[BatchReport],
    ) -> Controller:
        """Return the rule's state before the batches of this epoch, by what is in force."""
        known = [current.admit[name] for name in sized if name in current.admit]
        rows = float(sum(known)) if len(known) == len(sized) else None
        if self.rule == "pid":
            speed = None if rows is None else rows / self.period
            return PidRate(self.period, rate=speed, speed=speed)
        period = reports[0].period if rows is None or not rate else rows / rate
        if self.rule == "fixed-point":
            return FixedPoint(period, usage=self.usage)
        seen = tuple(
            (sum(epoch.tuples.get(name, 0.0) for name in sized) / epoch.batches, each)
            for epoch in statistics.past.epochs
            if epoch.batches and (each := epoch.seconds / epoch.batches)
        )
        return Isotonic(period, usage=self.usage, seen=seen)


def _arriving(statistics: Statistics) -> float | None:
    """Return how many tuples a second come to all sources; None where that was not seen."""
    rates = [source.rate for source in statistics.sources.values()]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


def _ratio(times: Sequence[BatchTime]) -> float:
    return sum(time.tuples for time in times) / sum(time.seconds for time in times)


def _shares(statistics: Statistics, topology: Topology, sized: Sequence[str]) -> dict[str, float]:
    """Return the share of each source that can be sized in what all sources let in."""
    let_in = {
        name: statistics.operators[name].tuples if name in statistics.operators else 0.0
        for name in topology.sources
    }
    total = sum(let_in.values())
    if not total:
        return dict.fromkeys(sized, 1 / len(topology.sources))
    return {name: let_in[name] / total for name in sized if let_in[name]}
