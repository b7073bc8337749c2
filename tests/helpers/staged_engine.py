"""An engine of micro-batches that takes just as long as the model says, with noise if asked for.

So a strategy can be tried on loads of any shape in milliseconds: what comes waits until a batch
admits it, a batch begins as soon as the last one ended, and after some the strategy is asked.
"""

import math
from dataclasses import replace

import numpy as np

from batching.stages import StageCosts, batch_cost, slowest_share
from optimizers import Cluster, Plan
from optimizers.batch_time import BatchTime, StageTime
from optimizers.control.remembering import parts_of
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.layout import Layout
from optimizers.past import Past, PastDecision, PastEpoch
from optimizers.statistics import EdgeStatistics, OperatorStatistics, Statistics
from optimizers.strategies.parts.aeolus_stages import present_stages, stage_job
from optimizers.strategies.parts.observed_dataflow import observed_dataflow

COSTS = StageCosts(base=0.1, stage=0.03, task=0.05)
LEAST = 0.05  # seconds between the beginnings of two batches
STEP = 0.02  # seconds in which tuples come evenly


class StagedEngine:
    """Runs a job of one source.

    Args:
        topology: the job.
        seconds: what each operator works for a tuple.
        strategy: decides what changes.
        rate: the tuples a second that come at a time.
        costs: what a batch takes beside its work.
        slots: how many tasks run at a time.
        every: after how many batches the strategy is asked.
        noise: by how much a batch may take longer or shorter.
        hottest: the share of the hottest key of operators.
        sized: whether a plan can say how much is let in.
        paced: whether a plan can say how often a batch begins.
    """

    def __init__(
        self,
        topology,
        seconds,
        strategy,
        rate,
        *,
        costs=COSTS,
        slots=8,
        every=4,
        noise=0.0,
        seed=0,
        hottest=None,
        sized=True,
        paced=True,
    ):
        self.topology = topology
        self.seconds = seconds
        self.strategy = strategy
        self.rate = rate
        self.costs = costs
        self.slots = slots
        self.every = every
        self.noise = noise
        self.random = np.random.default_rng(seed)
        self.hottest = hottest or {}
        self.source = topology.sources[0]
        self.sized = (self.source,) if sized else ()
        self.paced = paced
        self.cluster = Cluster.uniform(2)
        self.plan = Plan()
        self.past = Past()
        self.now = self.waiting = 0.0
        self.known = None
        self.core_seconds = 0.0
        self.backlogs, self.decided, self.spans = [], [], []
        self.arrived = [(0.0, 0.0)]  # until when, how many tuples

    def layout(self):
        return Layout.of(self.topology, self.cluster, self.plan)

    def stages(self, job, layout):
        return present_stages(job, layout, layout.topology.operator(self.source).parallelism)

    def run(self, seconds):
        while self.now < seconds:
            number = self.past.epochs[-1].epoch + 1 if self.past.epochs else 0
            statistics = self.epoch(number)
            plan = self.strategy.plan(
                self.topology.under(self.plan), self.cluster, statistics, self.plan
            )
            before = self.plan
            if plan:
                self.plan = self.plan.amended(plan, self.cluster)
                self.plan.check(self.topology, self.cluster)
            applied = replace(self.plan, notes=()) != replace(before, notes=())
            if applied:
                self.decided.append((self.now, plan))
            told = PastDecision(parts_of(plan), applied, "", plan.notes)
            ended = PastEpoch(number, batches=self.every, decision=told)
            self.past = Past((*self.past.epochs, ended))
        return self

    def epoch(self, number):
        times, arrived, let_in, start = [], 0.0, 0.0, self.now
        for _ in range(self.every):
            came = self.came(LEAST if not times else 0.0)
            arrived += came
            if self.spans and self.plan.period:  # it may be too early for another batch
                due = self.spans[-1][0] + self.plan.period - self.now
                arrived += self.came(due) if due > 0 else 0.0
            rows = min(self.waiting, self.plan.admit.get(self.source, np.inf))
            self.waiting -= rows
            let_in += rows
            times.append(self.time(len(times), rows))
            begun = self.now
            arrived += self.came(max(LEAST, times[-1].seconds))
            self.backlogs.append((self.now, self.waiting))
            self.spans.append((begun, rows, times[-1].seconds))
        return self.statistics(number, times, arrived, let_in, self.now - start)

    def came(self, seconds):
        """Let time pass, and what comes in it wait; the rate may change at any time."""
        steps, before = max(1, math.ceil(seconds / STEP)), self.arrived[-1][1]
        for _ in range(steps):
            rows = self.rate(self.now + seconds / steps / 2) * seconds / steps
            self.now += seconds / steps
            self.arrived.append((self.now, self.arrived[-1][1] + rows))
        came = self.arrived[-1][1] - before
        self.waiting += came
        return came

    def time(self, number, rows):
        job, stages = self.as_laid_out()
        off = 1 + self.random.uniform(-self.noise, self.noise)
        share = slowest_share(job.hottest[stages.begins], stages.tasks, self.slots)
        work = rows * job.work * share * self.costs.work * off
        found = []
        for first in stages.first.tolist():
            size = int(stages.tasks[first])
            members = np.flatnonzero(stages.begins == first)
            found.append(
                StageTime(
                    tuple(job.names[place] for place in members),
                    size,
                    -(-size // self.slots),
                    fixed=self.costs.stage * off,
                    tasks=self.costs.task * size / self.slots * off,
                    work=float(work[members].sum()),
                )
            )
        planning = self.costs.base * off
        seconds = planning + sum(stage.seconds for stage in found)
        as_modelled = batch_cost(job, self.costs, stages, self.slots)
        self.core_seconds += as_modelled.cores + rows * as_modelled.cores_each
        expected = as_modelled.seconds(rows)
        assert abs(seconds - expected * off) < 1e-9 * (1 + seconds)
        return BatchTime(number, rows, seconds, planning, tuple(found), 0.0)

    def as_laid_out(self):
        """The job and its stages under the plan in force."""
        about = self.plan, tuple(self.seconds.items())
        if self.known is None or self.known[0] != about:
            job = self.truth()
            self.known = about, (job, self.stages(job, self.layout()))
        return self.known[1]

    def truth(self):
        """The job as it is, by the strategy's own reading of statistics without noise."""
        seen = self.statistics(0, [], 1.0, 1.0, 1.0, exact=True)
        flow = observed_dataflow(self.topology.under(self.plan), seen).flow
        tasks = self.topology.under(self.plan).operator(self.source).parallelism
        return stage_job(flow, self.topology.under(self.plan), len(self.cluster.nodes), tasks)

    def statistics(self, number, times, arrived, let_in, seconds, *, exact=False):
        off = 1.0 if exact else 1 + self.random.uniform(-self.noise, self.noise)
        return Statistics(
            epoch=number,
            seconds=seconds,
            operators={
                name: OperatorStatistics(
                    let_in, let_in * self.seconds[name] * off, hottest_key=self.hottest.get(name)
                )
                for name in self.topology.order
            },
            edges={edge.name: EdgeStatistics(let_in, let_in * 100) for edge in self.topology.edges},
            sources={self.source: SourceStatistics(arrived, let_in, self.waiting, seconds)},
            batch_times=tuple(times),
            execution=Execution(
                micro_batches=True, slots=self.slots, sized=self.sized, paced=self.paced
            ),
            past=self.past,
        )
