"""The control loop of a simulated run: its input for each batch, and its effects."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from optimizers.control.checking import EngineLimits
from optimizers.control.loop import Change, ControlLoop, Observed, Pasts
from optimizers.control.provisioning import Provisioning
from optimizers.control.settings import Asking
from optimizers.errors import PlanError
from optimizers.flow import SourceStatistics
from optimizers.layout import Layout, completed
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.simulation.machines import Leftovers, SimulatedMachines
from optimizers.simulation.observation import Observer, Stretch, joined
from optimizers.simulation.run import Running, wrong_speeds
from optimizers.simulation.summary import summary_of
from optimizers.statistics import Statistics
from optimizers.topology import Topology
from sketches.arrays import Floats


class Control:
    """Leads a simulated run from batch to batch.

    Args:
        topology: the job as declared.
        machines: the machines as they come and go.
        optimizer: decides what changes.
        asking: when it is asked.
        running: the run.
        observer: collects the statistics that are asked for.

    Attributes:
        loop: the control loop.
        batches: the work done in each batch so far.
        plans: the plan that was in force in each.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        topology: Topology,
        machines: SimulatedMachines,
        optimizer: Optimizer,
        asking: Asking,
        running: Running,
        observer: Observer,
    ) -> None:
        self._topology = topology
        self._machines = machines
        self._leftovers = Leftovers(topology)
        self._cluster = cluster = machines.look()
        self._running = running
        self._observer = observer
        self._plan, self._planned = completed(Plan(), topology, cluster), 0
        self._shipped: Mapping[str, Floats] = {}
        self._epoch: list[Stretch] = []  # the batches since the optimizer was asked
        self._met: set[str] = set()  # the operators that have met a key
        self._let_in = dict.fromkeys(topology.sources, 0)  # tuples, so far
        self._arrived = dict.fromkeys(topology.sources, 0)  # until the last look at them
        self._looked = float(running.tuples.times.min())
        provisioning = Provisioning(machines)
        self.loop = ControlLoop(topology, cluster, optimizer, asking, provisioning)
        self.batches: list[Stretch] = []
        self.plans: list[Plan] = []
        self._change = Change(self.loop.ask_first(self._plan, self._limits))

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    @property
    def period(self) -> float:
        """How many seconds there have to be between the beginnings of two batches, from now on."""
        decided = self._change.plan.period
        return (self._plan.period if decided is None else decided) or 0.0

    def begin(self, number: int, now: float) -> Stretch:
        """Begin a batch, under the plan that was decided before it."""
        # The decision names the machines of its time; it is then fitted to the present ones.
        changes = number == 0 or bool(self._change.plan)
        if changes:
            amended = self._plan.amended(self._change.plan, self._cluster)
            self._plan = completed(amended, self._topology, self._cluster)
            self._planned = number
        self._meet(now)
        batch = self._running.begin(self._plan, number, now)
        if changes and self._change.adopts:
            self.loop.adopted(batch.layout)
        elif changes:
            self.loop.begin(batch.layout)
        self._change = Change()
        self.plans.append(self._plan)
        self._spent = {
            name: (queues.shipping.copy(), queues.receiving.copy())
            for name, queues in self._running.operator_queues.items()
        }
        return batch

    def end(self, batch: Stretch, until: float, *, more: bool) -> None:
        """Tell the loop what happened in a batch, and ask what is to change if another follows.

        Args:
            batch: the batch.
            until: when it ended; infinite for the end of its last tuple.
            more: whether another follows.
        """
        self.batches.append(batch)
        self._leftovers.add(batch)
        self._epoch.append(batch)
        self._met |= {name for name in self._running.seen if len(batch.served[name])}
        tuples = self._running.tuples
        for name, queues in self._running.operator_queues.items():
            shipped, received = self._spent[name]
            batch.shipping[name] = queues.shipping - shipped
            batch.receiving[name] = queues.receiving - received
        for name in self._topology.sources:
            self._let_in[name] += len(batch.served[name])
        ended = until if until < math.inf else _last_end(batch)
        summary = replace(
            summary_of(batch, self._planned, ended, tuples, self._running.seen),
            nodes=tuple(node.name for node in batch.cluster.nodes),
            wanted=self._plan.nodes,
        )
        came = sum(len(batch.served[name]) for name in self._topology.sources)
        self.loop.hear(summary, came, self.plans[-1])
        if more:
            self._meet(until)
            seen = Observed(
                lambda pasts: self._statistics(until, pasts),
                lambda hop: self._observer.pairs_on(batch, hop),
            )
            self._change = self.loop.decide(self._plan, seen, self._limits)
            self._provide(batch, until)

    def _meet(self, now: float) -> None:
        """Use the machines that are there at a time."""
        self._machines.now = now
        cluster = self._machines.look()
        if cluster == self._cluster:
            return
        known = {node.name for node in (*self._cluster.nodes, *self._plan.add)}
        came = [node.name for node in cluster.nodes if node.name not in known]
        self._cluster = cluster
        done = len(self.batches) - 1
        fit = self.loop.fitted(self._plan, cluster, done, came)
        self._plan = completed(fit, self._topology, cluster)
        self._running.meet(cluster)
        self.loop.meet(cluster, Layout.of(self._topology, cluster, self._plan))

    def _provide(self, batch: Stretch, now: float) -> None:
        """Acquire and give back nodes as the plan in force wants."""
        self._machines.added = self._plan.add
        left = self._leftovers.nodes(batch)
        if self._running.is_moving(now):  # state, which may come from any node
            left |= {node.name for node in self._cluster.nodes}
        layouts, done = [batch.layout], len(self.batches) - 1
        self.loop.provide(self._plan, self._change.plan, layouts, done, now, left)

    def _statistics(self, until: float, pasts: Pasts) -> Statistics:
        """Return the statistics of the epoch that ends at a time, and begin the next."""
        epoch = joined(self._epoch, self.loop.epochs)
        self._epoch = []
        found = self._observer.statistics(epoch, until, pasts)
        sources, execution = self._inflow(epoch, until), self._running.execution
        return replace(found, sources=sources, execution=execution)

    def _inflow(self, epoch: Stretch, until: float) -> dict[str, SourceStatistics]:
        """Return what came to each source since the epoch before, and what waits at a time."""
        tuples, found = self._running.tuples, {}
        for name in self._topology.sources:
            times, let_in = tuples.times[tuples.rows_of(name)], self._let_in[name]
            by_then = max(let_in, int(np.searchsorted(times, until)))
            came, self._arrived[name] = by_then - self._arrived[name], by_then
            admitted, seconds = len(epoch.served[name]), until - self._looked
            found[name] = SourceStatistics(came, admitted, by_then - let_in, seconds)
        self._looked = until
        return found

    @property
    def _limits(self) -> EngineLimits:
        running = self._running
        return EngineLimits(
            self._check_change, self._key_types, hears=running.hears, unpaced=running.unpaced
        )

    def _key_types(self) -> dict[str, tuple[str, ...]]:
        tuples, found = self._running.tuples, {}
        for name in sorted(self._met):
            edge = self._topology.inputs(name)[0]
            columns = self._topology.key_columns(*edge.name)
            found[name] = tuples.key_types(edge.source, columns)
        return found

    def _check_change(self, old: Topology, new: Topology) -> None:
        # Checking folds needs Arrow, which runs without decisions need not load.
        from optimizers.runtime.work import check_change  # noqa: PLC0415

        check_change(old, new)
        for operator in new.operators:
            speeds = self._running.tuples.work(operator.name).speeds
            if speeds is not None and len(speeds) != operator.parallelism:
                raise PlanError(wrong_speeds(operator.name, operator.parallelism, len(speeds)))


def _last_end(batch: Stretch) -> float:
    return max(
        (float(each.ended.max()) for each in batch.served.values() if len(each)),
        default=batch.start,
    )
