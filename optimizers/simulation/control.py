"""The control loop of a simulated run: what it gets of each epoch, and what comes of that."""

import math
from collections.abc import Mapping

from grouping.keygraph.key_pairs import KeyPairs
from optimizers.cluster import Cluster
from optimizers.control.checking import Limits
from optimizers.control.loop import Change, ControlLoop, Observed
from optimizers.control.settings import Asking
from optimizers.errors import PlanError
from optimizers.layout import completed
from optimizers.operators import EdgeName
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.simulation.observation import Epoch, Observer
from optimizers.simulation.result import EpochResult
from optimizers.simulation.run import Running, wrong_speeds
from optimizers.simulation.summary import summary_of
from optimizers.topology import Topology
from sketches.arrays import Floats

_ALL = 1 << 31  # batches and decisions that are remembered: a run ends, and so do they


class Control:
    """Leads a simulated run from epoch to epoch; what engines call a batch is an epoch here.

    Args:
        topology: the job as declared.
        cluster: the machines as declared.
        optimizer: who decides.
        running: the run.
        observer: who sees what is asked for.

    Attributes:
        loop: the control loop.
        epochs: the epochs that are over.
        results: what is reported of them.
    """

    def __init__(
        self,
        topology: Topology,
        cluster: Cluster,
        optimizer: Optimizer,
        running: Running,
        observer: Observer,
    ) -> None:
        self._topology = topology
        self._running = running
        self._observer = observer
        self._cluster = cluster
        self._plan, self._planned = completed(Plan(), topology, cluster), 0
        self._shipped: Mapping[str, Floats] = {}
        self.loop = ControlLoop(
            topology, cluster, optimizer, Asking(every=1, drift=None, remember=_ALL)
        )
        self.epochs: list[Epoch] = []
        self.results: list[EpochResult] = []
        self._change = Change(self.loop.ask_first(self._plan, self._limits))

    def begin(self, number: int, now: float) -> Epoch:
        """Begin an epoch, under the plan that was decided before it."""
        if number == 0 or self._change.plan:
            amended = self._plan.amended(self._change.plan, self._cluster)
            self._plan = completed(amended, self._topology, self._cluster)
            self._planned = number
        epoch = self._running.begin(self._plan, number, now)
        if self._planned == number:
            if self._change.adopts:
                self.loop.adopted(epoch.layout)
            else:
                self.loop.begin(epoch.layout)
        said = self.loop.happened.decisions[-1]
        self.results.append(EpochResult(now, self._plan, said.plan, said.refused))
        stations = self._running.stations.items()
        self._shipped = {name: station.shipping.copy() for name, station in stations}
        return epoch

    def end(self, epoch: Epoch, until: float) -> None:
        """Tell the loop what happened in an epoch, and ask what is to change if another follows."""
        self.epochs.append(epoch)
        ended = until if until < math.inf else _last_end(epoch)
        shipping = {
            name: station.shipping - self._shipped[name]
            for name, station in self._running.stations.items()
        }
        tuples = self._running.tuples
        summary = summary_of(epoch, self._planned, ended, tuples, shipping)
        self.loop.hear(summary, sum(len(epoch.served[name]) for name in self._topology.sources))
        if until < math.inf:
            seen = Observed(
                lambda pasts: self._observer.statistics(epoch, until, pasts),
                lambda hop: self._pairs(epoch, hop),
            )
            self._change = self.loop.decide(self._plan, seen, self._limits)

    def _pairs(self, epoch: Epoch, hop: EdgeName) -> KeyPairs:
        return self._observer.pairs_on(epoch, hop)

    @property
    def _limits(self) -> Limits:
        tuples = self._running.tuples
        key_types = {}
        for name in self._running.seen:
            if any(len(epoch.served[name]) for epoch in self.epochs):
                edge = self._topology.inputs(name)[0]
                columns = self._topology.key_columns(*edge.name)
                key_types[name] = tuples.key_types(edge.source, columns)
        return Limits(self._check_change, key_types, hears=True)

    def _check_change(self, old: Topology, new: Topology) -> None:
        # What folds can do is known where Arrow is, which runs without decisions need not load.
        from optimizers.runtime.work import check_change  # noqa: PLC0415

        check_change(old, new)
        for operator in new.operators:
            speeds = self._running.tuples.work(operator.name).speeds
            if speeds is not None and len(speeds) != operator.parallelism:
                raise PlanError(wrong_speeds(operator.name, operator.parallelism, len(speeds)))


def _last_end(epoch: Epoch) -> float:
    return max(
        (float(each.ended.max()) for each in epoch.served.values() if len(each)),
        default=epoch.start,
    )
