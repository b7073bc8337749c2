"""A stream whose batches a plan can size."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from optimizers.errors import InvalidValueError
from sketches.checks import whole


@dataclass(frozen=True)
class Sized:
    """A stream whose batches a plan can size: a function from a number of tuples to the stream.

    It may be called several times while a job runs, and has to return the same stream each time,
    apart from the limit. Give it a source of Spark with an option for that: ``maxFilesPerTrigger``
    or ``maxBytesPerTrigger`` of files, ``maxOffsetsPerTrigger`` of Kafka, ``rowsPerBatch`` of
    ``rate-micro-batch``. If the option does not count tuples, convert. Do not use ``rowsPerSecond``
    of ``rate``: it is not a limit, but changes the tuples.

    >>> def read(rows):
    ...     stream = session.readStream.format("rate-micro-batch")
    ...     return stream.option("rowsPerBatch", rows).load()
    >>> Sized(read, 500).rows
    500

    Attributes:
        read: the function.
        rows: how many tuples are let in at once, until a plan says otherwise.
    """

    read: Callable[[int], DataFrame]
    rows: int

    def __post_init__(self) -> None:
        if not callable(self.read):
            raise InvalidValueError(
                f"read={self.read!r} is not a function; give one from a number of tuples to a "
                "stream, such as lambda rows: spark.readStream..."
            )
        object.__setattr__(self, "rows", whole("rows", self.rows, at_least=1))
