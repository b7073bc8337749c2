"""Aeolus: how many instances, how large a batch, on engines of tuples and of micro-batches."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from batching.errors import OverloadError
from batching.planner import BATCH_BYTES
from batching.stage_choice import NEARLY, Choice, Chooser, Worth, needed_rate
from batching.stage_planner import cores_for, highest_rate
from batching.stages import BatchCost, StageCosts, StageJob, Stages
from batching.steadiness import Steadiness
from batching.tuple_costs import Shipping
from optimizers.calibration import Calibration
from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.past import MOST_EPOCHS
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.aeolus_published import PublishedAeolus
from optimizers.strategies.parts import aeolus_stages as stages
from optimizers.strategies.parts import aeolus_tuples as tuples
from optimizers.strategies.parts.aeolus_memory import JOB, memory_of, planned_note
from optimizers.strategies.parts.observed_dataflow import ObservedDataflow, observed_dataflow
from optimizers.topology import Topology
from sketches import checks

_NOTED = 8  # of what had to be assumed, as many are named one by one


@dataclass(frozen=True)
class Aeolus(Optimizer):
    """Decides how many instances operators have, how large batches are, and what shares a stage.

    Where all instances run all the time, it decides by what tuples cost, as its paper does: the
    fewest instances of each operator that keep up, then the smallest batches. Where a batch goes
    through the job stage by stage, as on Spark, it decides by what a batch takes: its stages, their
    tasks, and how much is admitted. The engine says which of both it is (`Statistics.execution`).

    Without a setting it makes batches fast. It plans once for each level of the load: rates and
    costs have to be off by more than the headroom for some epochs. What moves no state comes first,
    and what does only where that gains much more.

    >>> from optimizers.execution import Execution
    >>> from optimizers.statistics import EdgeStatistics, OperatorStatistics
    >>> job = Topology.source("lines").then("parse", parallelism=4).then("count", key="word")
    >>> seen = Statistics(
    ...     seconds=10, execution=Execution(micro_batches=False), operators={
    ...     "lines": OperatorStatistics(9_000), "parse": OperatorStatistics(9_000, seconds=14.4),
    ...     "count": OperatorStatistics(9_000, seconds=9, hottest_key=0.02)})
    >>> Aeolus().plan(job, Cluster.uniform(4), seen, Plan()).parallelism
    FrozenMap({'count': 2, 'parse': 2})

    Attributes:
        latency: how many seconds a tuple may wait; the fewest cores, or instances, that keep to it
            are planned. None for as little as can be.
        rate: for how many tuples a second from all sources together is planned; None for what
            comes.
        headroom: by what share rates and costs may grow before the plan has to change.
        patience: for how many epochs they have to.
        calm: for how many times as many a load has to be lower.
        change: by what share a plan has to be better than what is in force.
        moving: by what share a plan that moves state has to be better than one that moves none,
            but for the first plan.
        workers: how many instances there may be, where all run all the time.
        buffers: how many bytes full buffers may take, where all run all the time.
        batch_bytes: how many bytes a batch of tuples may have.
        message: seconds for a message between instances; None for what was measured.
        byte: seconds for a byte in it; None for what was measured.
        cores: how many tasks run at a time in micro-batches; None for what the engine says.
        longest: how many seconds a micro-batch may take after a burst, if batches that short carry
            what comes; bursts that are over sooner change no plan.
        costs: constants of micro-batches in place of what was measured: by their names in
            `StageCosts`, or the file of a calibration, see `penstock calibrate`.

    References:
        M. Sax, M. Castellanos, Q. Chen, M. Hsu, "Performance optimization for distributed
        intra-node-parallel streaming systems", ICDE Workshops 2013.
    """

    latency: float | None = None
    rate: float | None = None
    headroom: float = 0.25
    patience: int = 3
    calm: int = 16
    change: float = 0.05
    moving: float = 0.3
    workers: int | None = None
    buffers: float | None = None
    batch_bytes: int = BATCH_BYTES
    message: float | None = None
    byte: float | None = None
    cores: int | None = None
    longest: float = 1.0
    costs: Any = None

    observes = frozenset({Probe.OPERATORS})

    def __post_init__(self) -> None:
        Steadiness(self.headroom, self.patience, self.calm)
        if self.patience * self.calm > MOST_EPOCHS:
            raise InvalidValueError(
                f"patience={self.patience} times calm={self.calm} are more epochs than the "
                f"{MOST_EPOCHS} that are remembered; let one be less"
            )
        Worth(self.latency, self.headroom, self.change, self.moving)
        for name in ("rate", "buffers", "longest"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), above=0.0)
        for name in ("workers", "cores"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), at_least=1)
        for name in ("message", "byte"):
            if getattr(self, name) is not None:
                checks.amount(name, getattr(self, name))
        checks.whole("batch_bytes", self.batch_bytes, at_least=1)
        if isinstance(self.costs, str):
            object.__setattr__(self, "costs", Calibration.load(self.costs))
        stages.given_costs(self.costs)

    @staticmethod
    def published(*, message: float = 1e-4, byte: float = 1e-8) -> PublishedAeolus:
        """Return the paper's method, as a baseline."""
        return PublishedAeolus(message=message, byte=byte)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose instances, batches and admission once for each level of the load."""
        execution = statistics.execution
        batches = execution is not None and execution.micro_batches
        seen = observed_dataflow(
            topology, statistics, with_shipping=batches, period=current.period or 0.0
        )
        if seen is None:
            return Plan()
        if execution is None:
            return self._nothing("the engine does not say how it runs a job (Statistics.execution)")
        if self.rate is not None:
            seen = seen.at(self.rate)
        if not seen.flow.rates.sum():
            return self._nothing("nothing comes in; say rate= to plan for what will")
        if batches:
            return _ByStages(self, topology, cluster, statistics, current, seen).plan()
        return self._by_tuples(topology, statistics, current, seen)

    @property
    def steady(self) -> Steadiness:
        """When the load is another one."""
        return Steadiness(self.headroom, self.patience, self.calm)

    def noted(self, seen: ObservedDataflow) -> Iterable[Note]:
        """Return notes of what had to be assumed."""
        for about, what in seen.assumed[:_NOTED]:
            yield self.note(about, what)
        if len(seen.assumed) > _NOTED:
            text = f"{len(seen.assumed) - _NOTED} more facts were not seen, and assumed likewise"
            yield self.note("operators and edges", text)

    def _nothing(self, why: str) -> Plan:
        return Plan(notes=(self.note(JOB, f"left as it is: {why}"),))

    def _by_tuples(
        self, topology: Topology, statistics: Statistics, current: Plan, seen: ObservedDataflow
    ) -> Plan:
        """Plan for instances that all run all the time."""
        # 1. Is it another level of the load?
        memory, flow = memory_of(statistics, self.name), seen.flow
        figures = {"rate": float(flow.rates.sum()), "work": tuples.work_of(flow)}
        levels = {name: memory.level(name, now, self.steady) for name, now in figures.items()}
        if all(level is None for level in levels.values()):
            text = "the load is as it was planned for"
            return Plan(notes=(memory.kept(self.name, text, figures),))
        rate = levels["rate"] or memory.planned.get("rate", figures["rate"])
        flow = seen.at(rate).flow
        # 2. What does a message cost?
        shipping = tuples.measured_shipping(statistics, topology)
        notes = list(self.noted(seen))
        if self.costs is not None:
            text = "costs= are of micro-batches, and left out, as instances run all the time here"
            notes.append(self.note(JOB, text))
        if self.message is not None or self.byte is not None:
            shipping = Shipping(self.message or 0.0, self.byte or 0.0)
        elif shipping is None:
            notes.append(self.note(JOB, "what a message costs was not seen, so batches stay"))
        # 3. The fewest instances, or what comes next to carrying the load.
        settings = tuples.TupleSettings(
            self.headroom, self.workers, self.latency, self.buffers, self.batch_bytes
        )
        try:
            found = settings.plan(flow, shipping or tuples.UNKNOWN)
        except OverloadError as error:
            notes.append(self.note(JOB, str(error)))
            try:
                found = settings.plan(flow, shipping or tuples.UNKNOWN, throttle=True)
            except OverloadError:  # not even a part of it, within the limits
                return Plan(notes=(*notes, planned_note(self.name, "left as it is", figures)))
        # 4. State moves only where it has to, or where that saves much; at first there is little.
        calm = settings.calm(found, flow, shipping or tuples.UNKNOWN, topology)
        if calm is not None and memory.planned:
            spared = 1 - found.instances.sum() / calm.instances.sum()
            if spared < self.moving:
                text = f"no state moves for {spared:.0%} fewer instances"
                notes.append(self.note(JOB, text))
                found = calm
        plan = tuples.as_plan(found, flow, topology, current)
        if shipping is None:
            plan = replace(plan, batch={})
        notes += [
            self.note(name, text)
            for name, text in tuples.too_few_groups(found, flow, topology).items()
        ]
        figures = {**figures, "rate": rate, "carried": found.scale}
        text = f"{int(found.instances.sum())} instances carry what comes, and {self.headroom:.0%}"
        return plan | Plan(notes=(*notes, planned_note(self.name, f"{text} more", figures)))


class _ByStages:
    """Plans a job that runs in micro-batches."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        settings: Aeolus,
        topology: Topology,
        cluster: Cluster,
        statistics: Statistics,
        current: Plan,
        seen: ObservedDataflow,
    ) -> None:
        self._settings = settings
        self._topology = topology
        self._cluster = cluster
        self._seen = statistics
        self._current = current
        self._observed = seen
        self._layout = Layout.of(topology, cluster, current)
        self._source_tasks = stages.source_tasks_of(statistics.batch_times, topology)
        self._notes = list(settings.noted(seen))
        self._moving = settings.moving

    def plan(self) -> Plan:
        """Return what is to change."""
        settings, execution = self._settings, self._seen.execution
        slots = execution.slots if execution is not None else None
        cores = slots if settings.cores is None else settings.cores
        if cores is None:
            text = "left as it is: say how many tasks run at a time, by cores="
            return Plan(notes=(settings.note(JOB, text),))
        # 1. Is it another level of the load?
        memory = memory_of(self._seen, settings.name)
        rate = float(self._observed.flow.rates.sum())
        figures = {"rate": rate}
        off = stages.off_by(
            self._seen.batch_times, memory.planned.get("fixed", 0.0), memory.planned.get("each", 0)
        )
        if off is not None:
            figures["off"] = off
        steady = settings.steady
        if self._is_urgent(memory.planned.get("each", 0.0) * figures.get("off", 1.0), rate):
            steady = replace(steady, patience=1)
        levels = {name: memory.level(name, now, steady) for name, now in figures.items()}
        # What held batches back under a bound, or another strategy left, is no longer wanted.
        held = settings.latency is None and self._current.period and self._is_paced
        if all(level is None for level in levels.values()) and not held:
            text = "the load is as it was planned for"
            return Plan(notes=(*self._notes, memory.kept(settings.name, text, figures)))
        rate = levels["rate"] or memory.planned.get("rate", rate)
        if not memory.planned:
            self._moving = settings.change  # at first there is little state to move
        # 2. What does a batch take, as it is and as it might be?
        job = self._job()
        present = stages.present_stages(job, self._layout, self._source_tasks)
        costs = self._costs(job, present, cores)
        whole = stages.with_rows(job, settings.costs, costs.work)
        needed, chosen = self._chosen(whole, present, costs, cores, rate)
        # 3. What has to change for that.
        costs_of = settings.costs if isinstance(settings.costs, Calibration) else None
        rows = rate * chosen.period if math.isfinite(chosen.period) else 0.0
        beyond = stages.beyond_measured(costs_of, job, chosen.stages, cores, rows)
        if beyond:
            self._notes.append(settings.note(JOB, beyond))
        plan = stages.as_plan(job, chosen.stages, present, self._layout, self._cluster)
        period = self._period(chosen)
        held_back = (self._current.period or 0.0) if period is None else period
        admit = self._admitted(chosen.batch, needed, held_back)
        figures = {"rate": rate, "off": 1.0}
        figures |= {"fixed": chosen.batch.fixed, "each": chosen.batch.each}
        text = f"batches of {len(chosen.stages.first)} stages"
        if math.isfinite(chosen.cores):
            figures |= {"period": chosen.period, "cores": chosen.cores}
            text += f", begun every {chosen.period:.3g} s"
        takes = chosen.batch.seconds(rows) if rows else chosen.batch.settled(rate)
        expected = {"seconds of a batch": takes} if math.isfinite(takes) else {}
        notes = (*self._notes, planned_note(settings.name, text, figures, expected))
        return plan | Plan(admit=admit, period=period, notes=notes)

    @property
    def _is_paced(self) -> bool:
        execution = self._seen.execution
        return execution is not None and execution.paced

    def _period(self, chosen: Choice) -> float | None:
        """Return how often batches are to begin; None where that stays, or no plan says it.

        Under a bound, batches are as rare as it allows. Without one, none waits for another reason
        than the one before it.
        """
        now = self._current.period or 0.0
        if not self._is_paced:
            return None
        bounded = self._settings.latency is not None and math.isfinite(chosen.period)
        wanted = chosen.period if bounded else 0.0
        band = 1 + self._settings.change
        return None if now / band <= wanted <= now * band else wanted

    def _is_urgent(self, each: float, rate: float) -> bool:
        """Return whether batches only grow, and have for longer than the longest is to take.

        Then each epoch that passes makes what waits longer, and so the epochs.
        """
        waiting = sum(source.waiting or 0.0 for source in self._seen.sources.values())
        longest, last = self._settings.longest, self._seen.batch_times[-1:]
        late = waiting > rate * longest and all(time.seconds > longest for time in last)
        return rate * each >= NEARLY and late

    def _admitted(self, batch: BatchCost, needed: float, period: float) -> dict[str, int]:
        """Return how much sources are to let in, where that is much more or less than now."""
        band = 1 + self._settings.headroom
        rows = stages.most_rows(batch, self._settings.longest, needed, period)
        execution = self._seen.execution
        if execution is not None and execution.cuts:
            largest = max((time.tuples for time in self._seen.batch_times), default=0.0)
            if largest <= rows and not self._current.admit:
                return {}  # to cut costs something, and there is nothing to cut
        wanted = stages.admitted(self._seen, self._observed.flow, rows)
        now = {name: self._current.admit.get(name, 0) for name in wanted}
        return {
            name: number
            for name, number in wanted.items()
            if not now[name] / band <= number <= now[name] * band
        }

    def _job(self) -> StageJob:
        hosts = len({node.name for node in self._cluster.working})
        return stages.stage_job(self._observed.flow, self._topology, hosts, self._source_tasks)

    def _costs(self, job: StageJob, present: Stages, cores: int) -> StageCosts:
        costs = self._settings.costs
        given = stages.given_costs(costs)
        if isinstance(costs, Calibration) and costs.cores != cores:
            text = f"costs= were measured with {costs.cores} tasks at a time, and here are {cores}"
            self._notes.append(self._settings.note(JOB, f"{text}; calibrate with as many"))
        measured = stages.measured_costs(self._seen.batch_times, job, present, cores)
        is_calibrated = isinstance(self._settings.costs, Calibration)  # of batches without triggers
        known = {*given, *(() if is_calibrated or "base" not in given else ("trigger",))}
        assumed = [name for name in measured.assumed if name not in known]
        if assumed:
            text = f"{', '.join(assumed)} of a batch were not measured, and are assumed"
            self._notes.append(self._settings.note(JOB, text))
        costs = replace(measured.costs, **given)
        return replace(costs, base=costs.base + measured.trigger) if is_calibrated else costs

    def _chosen(
        self, job: StageJob, present: Stages, costs: StageCosts, cores: int, rate: float
    ) -> tuple[float, Choice]:
        """Return the rate that is to be carried, and the way that is worth it.

        That is what moves no state, or what does if it gains much more.
        """
        settings = self._settings
        worth = Worth(settings.latency, settings.headroom, settings.change, self._moving)
        calm = stages.pinned(job, present, self._topology)
        needed = needed_rate(job, costs, rate, cores, settings.headroom)
        try:
            return needed, Chooser(costs, cores, rate, needed, worth).choose(job, calm, present)
        except OverloadError as error:
            needed = self._carried(job, costs, cores, rate, error)
        unbounded = replace(worth, latency=None)
        return needed, Chooser(costs, cores, needed, needed, unbounded).choose(job, calm, present)

    def _carried(
        self, job: StageJob, costs: StageCosts, cores: int, rate: float, error: OverloadError
    ) -> float:
        """Return the rate that is planned for in place of one that is too high, and say why."""
        text = str(error)
        try:
            needed = cores_for(job, costs, rate=rate, latency=self._settings.latency)
            text += f"; {needed} cores would do"
        except OverloadError:
            pass  # which the first error tells: more cores do not help
        self._notes.append(self._settings.note(JOB, text))
        return min(rate, NEARLY * highest_rate(job, costs, cores=cores))
