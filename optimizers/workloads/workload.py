"""What a workload is: a job, and a stream of any length for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from optimizers.errors import InvalidValueError, PenstockError
from optimizers.names import check_name
from optimizers.runtime.task.user_errors import raised_by, said
from optimizers.topology import Topology
from sketches import checks

_LARGEST = 1000.0  # scale; a batch of it already takes tens of gigabytes

Batch = dict[str, pa.Table]
"""The tuples of each source in one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job with data to go with it.

    Attributes:
        name: how it is called.
        about: in a sentence, what the stream is like and what can be seen on it.
        topology: the job.
        stream: makes the batches, without end, for a scale and a seed.
    """

    name: str
    about: str
    topology: Topology
    stream: Callable[[float, int], Iterator[Batch]]

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
        """Yield what the stream does, and say whose it is if that raises."""
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
