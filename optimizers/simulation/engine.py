"""The engine: simulates a job under a plan, or under an optimizer that changes it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from optimizers.cluster import Cluster
from optimizers.control.engine import Engine
from optimizers.control.settings import ALL, Asking
from optimizers.errors import InvalidValueError, TopologyError
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.simulation.collect import result_of
from optimizers.simulation.control import Control
from optimizers.simulation.harness import SimulationHarness
from optimizers.simulation.machines import SimulatedMachines
from optimizers.simulation.network import Network
from optimizers.simulation.observation import Observer
from optimizers.simulation.result import Simulated
from optimizers.simulation.run import Running
from optimizers.simulation.service import Work
from optimizers.simulation.stages.micro_batches import MicroBatches
from optimizers.simulation.stages.pace import Pace, run_paced
from optimizers.simulation.stages.running import StagesRunning
from optimizers.simulation.stream import Stream
from optimizers.simulation.tuples import Tuples
from optimizers.strategies.fixed import Fixed
from optimizers.topology import Topology
from sketches.checks import amount, number, seed, whole
from sketches.values import FrozenMap


@dataclass(frozen=True, kw_only=True)
class SimulationEngine(Asking):
    """Simulates jobs tuple by tuple.

    Each instance has an infinite queue and executes one tuple at a time, first come first served,
    at a speed of its own and of its node, and on one of its node's cores, for which it takes turns.
    Tuples that come in are dealt out to the instances of their source in turn. Equal runs have
    equal results, to the last bit.

    A decision applies to all tuples sent from then on, on every edge. Earlier tuples are executed
    where they were sent, and work that has begun goes on as before. Where keys have state (see
    `Work.state_bytes`), the state of keys that move travels between nodes at once, and an instance
    that gets some begins nothing else until all of it is there. Not simulated: full receivers,
    failures, and the time of decisions. ``every`` and ``drift`` say when the optimizer is asked, as
    on any engine: see `optimizers.control.settings.Asking`.

    >>> from optimizers import Topology
    >>> job = Topology.source("words").then("count", key="word", parallelism=2)
    >>> stream = Stream.steady({"word": [1, 2, 3, 4] * 250}, rate=1000.0)
    >>> run = SimulationEngine().run(job, stream, work={"count": Work(0.0015)})
    >>> run.operators["count"].tuples.tolist()
    [750, 250]

    Attributes:
        cluster: the machines; by default a node for each instance of the most parallel operator.
        node_delay: how many seconds a node takes to come that a plan adds. Nodes that a plan drains
            go once nothing is left on them.
        network: what it costs to ship tuples.
        cores: how many cores a node has, if it does not say: that number of its instances work at a
            time. Infinite for a core for each instance.
        micro_batches: the costs of micro-batches, to run the job in such, as on Spark: see
            `MicroBatches`. A batch then begins when the one before is over, with all tuples that
            have come; or every ``batch_seconds``, if it can; or whenever ``batch_tuples`` have
            come.
        batch_tuples: how many tuples of the streams come in with a batch, after which the plan may
            change; None for one batch, so that the optimizer is asked at the beginning only.
        batch_seconds: how many seconds a batch lasts, instead of ``batch_tuples``.
        every: by default after each batch, as batches here are as large as they are said to be.
        drift: by default None, so that all strategies are asked about the same epochs.
        meanwhile: is refused: the time of decisions is not simulated.
        remember: by default all, as a simulation ends.
        work: the work of each operator, unless `run` is given other work; operators that are not
            named take no time.
        rate: how many tuples a second come from tables, which have no times; see `compare`.
        seed: of all randomness.
    """

    cluster: Cluster | None = None
    node_delay: float = 0.0
    network: Network = field(default_factory=Network)
    cores: float = 1
    micro_batches: MicroBatches | None = None
    batch_tuples: int | None = None
    batch_seconds: float | None = None
    every: int = 1
    drift: float | None = None
    remember: int = ALL
    work: Mapping[str, Work] = field(default_factory=FrozenMap)
    rate: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.meanwhile:
            raise InvalidValueError(
                "meanwhile=True means nothing to a simulation, where decisions take no time; leave "
                "it out"
            )
        if self.cluster is not None and not isinstance(self.cluster, Cluster):
            raise InvalidValueError(f"cluster={self.cluster!r} is not a Cluster")
        object.__setattr__(self, "node_delay", amount("node_delay", self.node_delay))
        if not isinstance(self.network, Network):
            raise InvalidValueError(f"network={self.network!r} is not a Network")
        if self.cores != math.inf:
            object.__setattr__(self, "cores", whole("cores", self.cores, at_least=1))
        self._check_micro_batches()
        if self.batch_tuples is not None and self.batch_seconds is not None:
            raise InvalidValueError(
                "batch_tuples and batch_seconds are both given; leave one of them out"
            )
        if self.batch_tuples is not None:
            tuples = whole("batch_tuples", self.batch_tuples, at_least=1)
            object.__setattr__(self, "batch_tuples", tuples)
        if self.batch_seconds is not None:
            seconds = number("batch_seconds", self.batch_seconds, above=0)
            object.__setattr__(self, "batch_seconds", seconds)
        if not isinstance(self.work, Mapping):
            raise InvalidValueError(f"work={self.work!r} is not a mapping; write {{name: Work()}}")
        object.__setattr__(self, "work", FrozenMap(self.work))
        if self.rate is not None:
            object.__setattr__(self, "rate", number("rate", self.rate, above=0))
        object.__setattr__(self, "seed", seed(self.seed))

    def _check_micro_batches(self) -> None:
        given, network = self.micro_batches, self.network
        if given is None:
            return
        if not isinstance(given, MicroBatches):
            raise InvalidValueError(
                f"micro_batches={given!r} is not a MicroBatches; write MicroBatches(costs)"
            )
        waits = network.linger != math.inf or network.batch_bytes != math.inf
        if network.charges or waits or network.buffers != "distinct":
            raise InvalidValueError(
                f"network={network!r} says what sending costs, and micro_batches={given!r}; say "
                "that as their row and costs.byte, and here what links take"
            )

    def run(
        self,
        topology: Topology,
        streams: Mapping[str, Stream] | Stream,
        optimizer: Optimizer | Plan | None = None,
        *,
        work: Mapping[str, Work] | None = None,
    ) -> Simulated:
        """Run a job on recorded streams, and return the result.

        Args:
            topology: the job.
            streams: the stream of each source, by its name; of the only source, alone.
            optimizer: decides before the first tuple and after every ``every`` batches; or a plan
                that stays. Without one, the job runs as declared.
            work: the work of each operator; by default that of the engine.

        Raises:
            UnknownNameError: an operator, a source or a column does not exist.
            PlanError: the plan that is to stay does not fit the job.
            TopologyError: a source has no stream.
            InvalidValueError: a time is negative or NaN, or numbers do not fit.
        """
        one = self.batch_tuples is None and self.batch_seconds is None
        if self.every > 1 and one and self.micro_batches is None:
            raise InvalidValueError(
                f"every={self.every} batches, and the run is one batch; say how large a batch is, "
                "as in batch_tuples=1000"
            )
        return self.simulate(topology, streams, optimizer, work=work)

    def harness(self, topology: Topology) -> SimulationHarness:
        """Return the setting of a comparison of optimizers on a job; see `compare`."""
        return SimulationHarness(self, topology)

    def simulate(
        self,
        topology: Topology,
        streams: Mapping[str, Stream] | Stream,
        optimizer: Optimizer | Plan | None = None,
        *,
        work: Mapping[str, Work] | None = None,
        ends: Sequence[float] | None = None,
    ) -> Simulated:
        """Run a job as `run` does, in batches that end at these times.

        Args:
            topology: the job.
            streams: the stream of each source.
            optimizer: decides.
            work: the work of each operator; by default that of the engine.
            ends: when each batch ends but the last, rising; None for as the engine says.
        """
        given = _by_source(topology, streams)
        tuples = Tuples(topology, given, self.work if work is None else work, self.seed)
        cluster = self.cluster or Cluster.uniform(max(o.parallelism for o in topology.operators))
        running = self._running(topology, cluster, tuples)
        if isinstance(optimizer, Plan):
            optimizer.check(topology, cluster)
        asked = _optimizer(optimizer)
        observer = Observer(
            tuples, running.seen, asked.observes, self.seed, self.network, self.cores
        )
        machines = SimulatedMachines(cluster, self.node_delay)
        control = Control(topology, machines, asked, Asking.of(self), running, observer)
        if self.micro_batches is not None:
            pace = self._pace(tuples, ends)
            if pace.ends is None:
                running.unpaced = ""  # a batch takes what has come when it begins
            run_paced(running, control, pace, topology.sources)
            return result_of(running, control)
        start = float(tuples.times.min())
        for until in self._ends(tuples) if ends is None else [*ends, math.inf]:
            while start < until:
                batch = control.begin(len(control.batches), start)
                end = min(until, running.full(control.plan.admit))
                running.advance(batch, end)
                control.end(batch, end, more=end < math.inf)
                start = end
        return result_of(running, control)

    def _running(self, topology: Topology, cluster: Cluster, tuples: Tuples) -> Running:
        basics = topology, cluster, self.network, tuples, self.cores
        if self.micro_batches is None:
            return Running(*basics)
        return StagesRunning(*basics, self.micro_batches)

    def _pace(self, tuples: Tuples, ends: Sequence[float] | None) -> Pace:
        """Return when micro-batches begin."""
        times = np.sort(tuples.times)
        if ends is not None:
            return Pace(times, ends)
        if self.batch_tuples is not None:
            return Pace(times, [end for end in self._ends(tuples) if end < math.inf])
        return Pace(times, interval=self.batch_seconds or 0.0)

    def _ends(self, tuples: Tuples) -> Iterator[float]:
        """Yield when each batch ends, the last never."""
        times = np.sort(tuples.times)
        before = float(times[0])
        place, count = 0, 1
        while True:
            if self.batch_tuples is not None:
                place += self.batch_tuples
                end = float(times[place]) if place < len(times) else math.inf
            elif self.batch_seconds is not None:
                end = float(times[0]) + count * self.batch_seconds
                count += 1
            else:
                end = math.inf
            if end > float(times[-1]):
                yield math.inf
                return
            if end > before:
                yield end
                before = end


if TYPE_CHECKING:
    _ENGINE: type[Engine] = SimulationEngine  # which it fulfils


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
