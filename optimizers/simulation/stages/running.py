"""A simulated run in micro-batches, stage after stage."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from optimizers.batch_time import BatchTime, StageTime
from optimizers.cluster import Cluster
from optimizers.execution import Execution
from optimizers.layout import Layout
from optimizers.plan import Plan
from optimizers.simulation.edges import EdgeRun, emitted
from optimizers.simulation.network import Network
from optimizers.simulation.observation import Stretch
from optimizers.simulation.rows import Arrivals, Shipments
from optimizers.simulation.run import Running
from optimizers.simulation.stages.micro_batches import Counted, MicroBatches
from optimizers.simulation.stages.parcels import parcels
from optimizers.simulation.stages.slots import scheduled
from optimizers.simulation.stages.tasks import Share, Tasks
from optimizers.simulation.tuples import Tuples
from optimizers.topology import Topology


class StagesRunning(Running):
    """A job as it runs in micro-batches.

    Args:
        topology: the job as declared.
        cluster: the machines as declared.
        network: what links take.
        tuples: what comes in.
        cores: how many cores a node has that does not say so.
        constants: what micro-batches cost.
    """

    hears = False
    unpaced = "batches begin here when what is given for them has come; leave period out"

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        topology: Topology,
        cluster: Cluster,
        network: Network,
        tuples: Tuples,
        cores: float,
        constants: MicroBatches,
    ) -> None:
        super().__init__(topology, cluster, network, tuples, cores)
        self._constants = constants
        self._incoming: dict[str, list[tuple[EdgeRun, Shipments]]] = {}
        self._packed: Mapping[str, int] = {}  # how many tuples a plan has in a parcel

    def begin(self, plan: Plan, number: int, now: float) -> Stretch:
        """Begin a batch under a plan."""
        self._packed = plan.batch
        return super().begin(plan, number, now)

    @property
    def execution(self) -> Execution:
        """How instances run."""
        slots = sum(map(self._sharing.cores_of, self._cluster.nodes))
        known = int(slots) if slots < np.inf else None
        return Execution(
            micro_batches=True,
            slots=known,
            sized=self.topology.sources,
            paced=not self.unpaced,
        )

    def _depends(self, plan: Plan, layout: Layout) -> bool:
        return False

    def advance(self, stretch: Stretch, until: float) -> float:
        """Run a batch of what comes in before a time, and return when it ended."""
        layout, costs = stretch.layout, self._constants.costs
        self._incoming = {name: [] for name in self.topology.order}
        clock = stretch.start + costs.base
        stages, counted = [], []
        for number in range(len(layout.stages)):
            names = [name for name in self.topology.order if layout.stage_of[name] == number]
            clock, time, count = self._stage(stretch, names, clock, until)
            stages.append(time)
            counted.append(count)
        for name, seen in self.seen.items():
            seen.add(stretch.served[name])
        tuples = sum(len(stretch.served[name]) for name in self.topology.sources)
        stretch.ended = clock
        taken = clock - stretch.start
        stretch.times = (
            BatchTime(stretch.number, tuples, taken, costs.base, tuple(stages), commit=0.0),
        )
        stretch.counted = _added(counted)
        return clock

    def _stage(
        self, stretch: Stretch, names: Sequence[str], begin: float, until: float
    ) -> tuple[float, StageTime, Counted]:
        """Run the tasks of a stage, and return when it ends and where its time goes."""
        constants, costs = self._constants, self._constants.costs
        # 1. What each instance gets, and to whom it sends what comes of that.
        crossing, links = self._crossing(names)
        tasks = Tasks(names, stretch.layout, self._nodes)
        shares = []
        for name in names:
            share = self._share(name, stretch, until)
            stretch.served[name] = share.served(begin)
            self._emit(name, stretch)
            if name in stretch.moves:
                tasks.wait(name, stretch.moves[name].pauses)
            shares.append((share, tasks.add(share)))
        # 2. When the tasks begin on their slots, and with that each tuple.
        schedule = scheduled(tasks.seconds, tasks.nodes, self._sharing.cores)
        turns, chain = tasks.turns(self._sharing.cores), schedule.chain
        travelling = costs.byte * crossing + links
        start = begin + costs.stage + costs.task * turns + travelling
        for share, before in shares:
            first = start + tasks.of(share.name, schedule.starts) + before
            stretch.served[share.name] = share.served(begin, first)
        # 3. Where the time went.
        work, rows = float(tasks.work[chain].sum()), float(tasks.rows[chain].sum())
        time = StageTime(
            tuple(names),
            len(tasks.nodes),
            len(chain),
            fixed=costs.stage,
            tasks=costs.task * turns,
            work=costs.work * work,
            shuffle=constants.row * rows + travelling,
            state=float(tasks.waits[chain].sum()),
        )
        counted = Counted(1, turns, crossing, work, rows, links)
        return start + schedule.seconds, time, counted

    def _share(self, name: str, stretch: Stretch, until: float) -> Share:
        """Return what an operator gets in a batch."""
        if not self.inputs[name]:
            queue = self._admit(name, stretch, until)
        else:
            came = [
                Arrivals.of(shipments, shipments.departures, edge_run.number)
                for edge_run, shipments in self._incoming[name]
            ]
            queue = Arrivals.none().joined(*came)
        queue = queue.take(np.argsort(queue.instances, kind="stable"))
        operator_queue = self.operator_queues[name]
        rates = operator_queue.rates[queue.instances]
        work = operator_queue.seconds[queue.rows] * rates
        taking = self._constants.row * rates
        count = len(operator_queue.receiving)
        operator_queue.receiving += np.bincount(queue.instances, taking, count)
        walls = self._constants.costs.work * work
        return Share(name, queue, walls + taking, work, walls, rates)

    def _emit(self, name: str, stretch: Stretch) -> None:
        """Route what comes of what an operator has got."""
        edge_runs = self.outputs[name]
        if not edge_runs:
            return
        found = emitted(stretch.served[name], self.tuples.emitted(name), edge_runs, None)
        for edge_run, shipments in zip(edge_runs, found, strict=True):
            instances = edge_run.route(shipments.rows, shipments.senders)
            sent = replace(shipments, instances=instances)
            self._count(edge_run, stretch, sent.rows, sent.senders, instances)
            if edge_run.edge.target not in stretch.layout.attached:
                size = self._packed.get(name, self._constants.parcel)
                flow = stretch.flows[edge_run.edge.name]
                flow.parcels += parcels(sent, size, self._constants.parcel)
            self._incoming[edge_run.edge.target].append((edge_run, sent))

    def _crossing(self, names: Sequence[str]) -> tuple[float, float]:
        """Return how many bytes cross hosts before a stage, and how long links take for them."""
        passing: Counter[Hashable] = Counter()
        wide: dict[Hashable, float] = {}
        latency, total = 0.0, 0.0
        for name in names:
            for edge_run, sent in self._incoming[name]:
                starts = edge_run.source.nodes[sent.senders]
                ends = edge_run.target.nodes[sent.instances]
                far = starts != ends
                sizes = self.tuples.sizes[sent.rows[far]]
                total += float(sizes.sum())
                pairs, which = np.unique((starts[far] << 32) + ends[far], return_inverse=True)
                for pair, size in zip(
                    pairs.tolist(), np.bincount(which, sizes).tolist(), strict=True
                ):
                    both = pair >> 32, pair & 0xFFFFFFFF
                    latency = max(latency, self._wires.latency(*both))
                    for link, bandwidth in self._wires.path(edge_run.edge.name, *both):
                        passing[link] += size
                        wide[link] = bandwidth
        taken = max((size / wide[link] for link, size in passing.items()), default=0.0)
        return total, latency + taken


def _added(counted: Sequence[Counted]) -> Counted:
    return Counted(
        sum(one.stages for one in counted),
        sum(one.tasks for one in counted),
        sum(one.bytes for one in counted),
        sum(one.work for one in counted),
        sum(one.rows for one in counted),
        sum(one.links for one in counted),
    )
