"""What a workload is: a job, and a stream of any length for it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from optimizers.errors import InvalidValueError, PenstockError
from optimizers.names import check_name
from optimizers.runtime.task.user_errors import raised_by, said
from optimizers.simulation import Network, SimulationEngine, Work
from optimizers.topology import Topology
from sketches import checks
from sketches.values import FrozenMap

NETWORK = Network(latency=0.0005, bandwidth=125e6)
"""Between the nodes of a simulation, unless another is given: half a millisecond, 1 Gbit/s."""

_LARGEST = 1000.0  # scale; a batch of it already takes tens of gigabytes

Batch = dict[str, pa.Table]
"""The tuples of each source in one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job with data to go with it.

    Attributes:
        name: its name.
        about: a sentence on what the stream is like and what it shows.
        topology: the job.
        stream: makes the batches, without end, for a scale and a seed.
        work: the work of each operator in a simulation, which does not call functions; operators
            that are not named take no time.
        rate: how many tuples a second come in there, at each source.
    """

    name: str
    about: str
    topology: Topology
    stream: Callable[[float, int], Iterator[Batch]]
    work: Mapping[str, Work] = field(default_factory=FrozenMap)
    rate: float | None = None

    def __post_init__(self) -> None:
        check_name("workload", self.name)
        if not isinstance(self.about, str):
            raise InvalidValueError(
                f"workload {self.name!r}: about={self.about!r} is not text; say in a sentence what "
                "the stream is like"
            )
        if not isinstance(self.topology, Topology):
            raise InvalidValueError(
                f"workload {self.name!r}: topology={self.topology!r} is not a Topology; give the "
                "job, such as Topology.source(...).then(...)"
            )
        if not callable(self.stream):
            raise InvalidValueError(
                f"workload {self.name!r}: stream={self.stream!r} is not a function; give one of a "
                "scale and a seed that yields batches"
            )
        given: object = self.work
        if not isinstance(given, Mapping) or not all(isinstance(w, Work) for w in given.values()):
            raise InvalidValueError(
                f"workload {self.name!r}: work={self.work!r} does not name the work of operators; "
                "write {'count': Work(20e-6)}"
            )
        object.__setattr__(self, "work", FrozenMap(self.work))
        for operator in self.work:
            self.topology.operator(operator)  # or say which there are
        if self.rate is not None:
            object.__setattr__(self, "rate", checks.number("rate", self.rate, above=0))

    def simulation(
        self,
        *,
        every: int = 3,
        rate: float | None = None,
        network: Network = NETWORK,
        seed: int = 0,
    ) -> SimulationEngine:
        """Return an engine that simulates the job at the workload's rate.

        >>> from optimizers.workloads import workload
        >>> workload("trending").simulation().rate
        200000.0

        Args:
            every: after how many batches the optimizer is asked.
            rate: how many tuples a second come in at each source; by default as the workload says.
            network: the links between the nodes.
            seed: of all randomness.

        Raises:
            InvalidValueError: the workload does not say what takes time, or how fast tuples come.
        """
        if not self.work:
            last = self.topology.order[-1]
            raise InvalidValueError(
                f"workload {self.name!r} does not say what takes time, and a simulation does not "
                f"run functions; give Workload(work={{{last!r}: Work(20e-6)}}), or run it on "
                "Spark"
            )
        if rate is None and self.rate is None:
            raise InvalidValueError(
                f"workload {self.name!r} does not say how fast tuples come in a simulation; give "
                "Workload(rate=1000), say, or another rate"
            )
        return SimulationEngine(
            every=every,
            rate=self.rate if rate is None else rate,
            work=self.work,
            network=network,
            seed=seed,
        )

    def batches(self, number: int, *, scale: float = 1.0, seed: int = 0) -> Iterator[Batch]:
        """Return the first batches of the stream.

        Args:
            number: how many.
            scale: how large; tuples and keys grow in proportion.
            seed: equal seeds give equal tuples; a longer stream begins like a shorter one.
        """
        whole = checks.whole("number", number, at_least=0)
        scaled = checks.number("scale", scale, above=0, up_to=_LARGEST)
        return islice(self._stream(scaled, checks.seed(seed)), whole)

    def _stream(self, scale: float, seed: int) -> Iterator[Batch]:
        """Yield the batches of the stream; name the workload if that raises."""
        try:
            yield from self.stream(scale, seed)
        except PenstockError:
            raise
        except Exception as error:
            shown = raised_by(f"workload {self.name!r}: its stream", error)
            raise shown or InvalidValueError(
                f"workload {self.name!r}: its stream cannot be drawn from: {said(error)}; give a "
                "function of a scale and a seed that yields batches"
            ) from error
