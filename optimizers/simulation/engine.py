"""The engine: simulates a job under a plan, or under an optimizer that changes it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError, TopologyError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.simulation.control import Control
from optimizers.simulation.network import Network
from optimizers.simulation.observation import Observer
from optimizers.simulation.result import (
    EdgeResult,
    OperatorResult,
    Simulated,
)
from optimizers.simulation.rows import Served
from optimizers.simulation.run import Running
from optimizers.simulation.service import Work
from optimizers.simulation.stream import Stream
from optimizers.simulation.tuples import Tuples
from optimizers.strategies.fixed import Fixed
from optimizers.topology import Topology
from sketches.checks import number, seed, whole


@dataclass(frozen=True, kw_only=True)
class SimulationEngine:
    """Simulates jobs tuple by tuple.

    Each instance has an infinite queue and executes one tuple at a time, first come first served,
    at a speed of its own and of its node; instances on one node are not in each other's way.
    Tuples that come in are dealt out to the instances of their source in turn. The same question
    has the same answer, to the last bit.

    A decision applies to all that is sent from then on, on every edge. What was sent before is
    executed where it was sent, and what has begun takes as long as it would have. Where keys have
    state (see `Work.state_bytes`), that of keys that change their place travels between nodes at
    once, and an instance that gets some begins nothing else until it is all there. What is not
    simulated: that receivers are full, that instances share a processor, failures, and time that
    decisions take.

    >>> from optimizers import Topology
    >>> job = Topology.source("words").then("count", key="word", parallelism=2)
    >>> stream = Stream.steady({"word": [1, 2, 3, 4] * 250}, rate=1000.0)
    >>> run = SimulationEngine().run(job, stream, work={"count": Work(0.0015)})
    >>> run.operators["count"].tuples.tolist()
    [750, 250]

    Attributes:
        cluster: the machines; by default a node for each instance of the most parallel operator.
        network: what it costs to ship tuples.
        every: after how many tuples of the streams the optimizer is asked; None for at the
            beginning only.
        every_seconds: after how many seconds it is asked, in place of ``every``.
        seed: of all that happens by chance.
    """

    cluster: Cluster | None = None
    network: Network = field(default_factory=Network)
    every: int | None = None
    every_seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.cluster is not None and not isinstance(self.cluster, Cluster):
            raise InvalidValueError(f"cluster={self.cluster!r} is not a Cluster")
        if not isinstance(self.network, Network):
            raise InvalidValueError(f"network={self.network!r} is not a Network")
        if self.every is not None and self.every_seconds is not None:
            raise InvalidValueError("every and every_seconds are both given; leave one of them out")
        if self.every is not None:
            object.__setattr__(self, "every", whole("every", self.every, at_least=1))
        if self.every_seconds is not None:
            seconds = number("every_seconds", self.every_seconds, above=0)
            object.__setattr__(self, "every_seconds", seconds)
        object.__setattr__(self, "seed", seed(self.seed))

    def run(
        self,
        topology: Topology,
        streams: Mapping[str, Stream] | Stream,
        optimizer: Optimizer | Plan | None = None,
        *,
        work: Mapping[str, Work] | None = None,
    ) -> Simulated:
        """Run a job on recorded streams, and return what came of it.

        Args:
            topology: the job.
            streams: the stream of each source, by its name; of the only source, alone.
            optimizer: who decides, before the first tuple and at the end of each epoch; or a plan
                that stays. Without one, the job runs as declared.
            work: what the work of each operator takes; of those not named, nothing.

        Raises:
            UnknownNameError: an operator, a source or a column is not there.
            PlanError: the plan that is to stay does not fit the job.
            TopologyError: a source has no stream.
            InvalidValueError: a time is negative or NaN, or numbers do not fit.
        """
        given = _by_source(topology, streams)
        tuples = Tuples(topology, given, {} if work is None else work, self.seed)
        cluster = self.cluster or Cluster.uniform(max(o.parallelism for o in topology.operators))
        running = Running(topology, cluster, self.network, tuples)
        if isinstance(optimizer, Plan):
            optimizer.check(topology, cluster)
        asked = _optimizer(optimizer)
        observer = Observer(tuples, running.seen, asked.observes, self.seed)
        control = Control(topology, cluster, asked, running, observer)
        start = float(tuples.times.min())
        for place, until in enumerate(self._ends(tuples)):
            epoch = control.begin(place, start)
            running.advance(epoch, until)
            control.end(epoch, until)
            start = until
        return _result(running, control)

    def _ends(self, tuples: Tuples) -> Iterator[float]:
        """Yield when each epoch ends, the last never."""
        times = np.sort(tuples.times)
        before = float(times[0])
        place, count = 0, 1
        while True:
            if self.every is not None:
                place += self.every
                end = float(times[place]) if place < len(times) else math.inf
            elif self.every_seconds is not None:
                end = float(times[0]) + count * self.every_seconds
                count += 1
            else:
                end = math.inf
            if end > float(times[-1]):
                yield math.inf
                return
            if end > before:
                yield end
                before = end


def _optimizer(given: Optimizer | Plan | None) -> Optimizer:
    if given is None or isinstance(given, Plan):
        return Fixed(given or Plan())
    if not isinstance(given, Optimizer):
        raise InvalidValueError(f"optimizer={given!r} is not an Optimizer; give one, or a Plan")
    return given


def _by_source(topology: Topology, streams: Mapping[str, Stream] | Stream) -> Mapping[str, Stream]:
    if isinstance(streams, Stream):
        if len(topology.sources) != 1:
            raise TopologyError(
                f"the job has sources {list(topology.sources)} and one stream is given; "
                "give a dict with one for each"
            )
        return {topology.sources[0]: streams}
    if not isinstance(streams, Mapping):
        raise InvalidValueError(
            f"streams={streams!r} is not a Stream; write Stream(times, columns)"
        )
    return streams


def _result(running: Running, control: Control) -> Simulated:
    tuples, epochs = running.tuples, control.epochs
    completed = tuples.times.copy()
    operators = {}
    for name in running.topology.order:
        served = Served.none().joined(*(epoch.served[name] for epoch in epochs))
        np.maximum.at(completed, served.rows, served.ended)
        operators[name] = OperatorResult(
            served.rows,
            served.instances,
            served.arrived,
            served.started,
            served.ended,
            running.stations[name].shipping,
        )
    edges = {
        name: EdgeResult(
            **{
                part: sum(getattr(epoch.flows[name], part) for epoch in epochs)
                for part in ("tuples", "bytes", "local", "messages", "carried")
            }
        )
        for name in running.passages
    }
    told = tuple(
        replace(
            each,
            keys_moved=sum(move.keys for move in epoch.moves.values()),
            bytes_moved=sum(move.bytes for move in epoch.moves.values()),
            pause=max((float(move.pauses.max()) for move in epoch.moves.values()), default=0.0),
        )
        for epoch, each in zip(epochs, control.results, strict=True)
    )
    happened = control.loop.happened
    return Simulated(
        tuples.times,
        completed,
        operators,
        edges,
        told,
        tuple(happened.batches),
        tuple(happened.decisions),
    )
