"""Parcels: tuples on their way from one instance to another.

Between two stages travel rows of one fixed schema, for tuples of any: each row is a
parcel, some tuples of one edge for one instance as an Arrow stream. So a task may feed any number
of operators with tuples of any schema through a single exchange, the bytes of an edge are known,
and a receiver can put what it got in the order in which it was sent, however it arrived.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from optimizers.errors import DeliveryError

SCHEMA = pa.schema(
    [
        ("task", pa.int32()),  # of the next stage
        ("edge", pa.int32()),  # by its place in the topology; REPORT for reports of tasks
        ("target", pa.int32()),  # the instance of the edge's target
        ("sender", pa.int32()),
        ("number", pa.int32()),  # of the sender's parcels on this edge
        ("rows", pa.int64()),
        ("place", pa.string()),  # the machine that it was packed on
        ("body", pa.binary()),
    ]
)

REPORT = -1
"""The edge of a parcel that holds a report, which every stage passes on."""

# Bytes of parcels that are handed on together: few, so that others may work on them meanwhile.
_AT_ONCE = 1 << 20
_LEAST_ALONE = 1 << 16  # bytes: to hand on fewer takes longer than what it tells


@dataclass(frozen=True, slots=True)
class Parcel:
    """Tuples of one edge for one instance; see `SCHEMA`."""

    task: int
    edge: int
    target: int
    sender: int
    number: int
    rows: int
    body: Any
    place: str = ""

    @property
    def order(self) -> tuple[int, int, int]:
        """Where it stands among the parcels that an instance gets."""
        return self.edge, self.sender, self.number

    @property
    def size(self) -> int:
        """How many bytes its tuples take."""
        return memoryview(self.body).nbytes

    @property
    def digest(self) -> int:
        """A number by which lost, doubled and changed parcels show.

        It does not know the task, nor the machine: the same parcel may be made again elsewhere.
        """
        return self.digest_with(checksum(self.body))

    def digest_with(self, body: int) -> int:
        """Return the digest, given the checksum of the body, which several parcels may share."""
        head = np.array([self.edge, self.target, self.sender, self.number, self.rows], np.int64)
        return zlib.crc32(head.tobytes(), body) << 1 | 1

    def through(self, task: int) -> "Parcel":
        """Return the same parcel, on its way through another task."""
        return replace(self, task=task)

    def tuples(self) -> pa.Table:
        """Unpack the tuples."""
        try:
            tuples = pa.ipc.open_stream(self.body).read_all()
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(str(error)) from error
        if len(tuples) != self.rows:
            raise self._damaged(f"it holds {len(tuples)} tuples, not {self.rows}")
        return tuples

    def _damaged(self, why: str) -> DeliveryError:
        return DeliveryError(
            f"parcel {self.number} of sender {self.sender} arrived damaged: {why}; "
            "run the batch again, and look at the network if this comes back"
        )


def checksum(body: Any) -> int:
    """Return the checksum of the body of a parcel."""
    return zlib.crc32(body)


def packed(tuples: pa.RecordBatch) -> Any:
    """Pack tuples into the body of a parcel."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as writer:
        writer.write_batch(tuples)
    return sink.getvalue()


Sending: TypeAlias = Parcel | None
"""A parcel, or that all before are to be handed on: their sender wants to know what that takes."""


def as_batches(parcels: Iterable[Sending]) -> Iterator[pa.RecordBatch]:
    """Turn parcels into record batches of a bounded size."""
    waiting: list[Parcel] = []
    size = 0
    for parcel in parcels:
        if parcel is not None:
            waiting.append(parcel)
            size += parcel.size
        if size >= (_AT_ONCE if parcel is not None else _LEAST_ALONE):
            yield _as_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _as_batch(waiting)


def _as_batch(parcels: list[Parcel]) -> pa.RecordBatch:
    bodies = [np.frombuffer(parcel.body, dtype=np.uint8) for parcel in parcels]
    offsets = np.zeros(len(parcels) + 1, dtype=np.int32)
    offsets[1:] = np.cumsum([len(body) for body in bodies])
    data = [None, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(bodies))]
    numbers = [
        pa.array([getattr(parcel, field.name) for parcel in parcels], field.type)
        for field in SCHEMA
        if field.name != "body"
    ]
    body = pa.BinaryArray.from_buffers(pa.binary(), len(parcels), data)
    return pa.RecordBatch.from_arrays([*numbers, body], schema=SCHEMA)


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
    """Read the parcels in record batches, without copying what is in them."""
    for batch in batches:
        columns = [batch.column(field.name) for field in SCHEMA]
        numbers = (column.to_pylist() for column in columns[:-1])
        for *fields, body in zip(*numbers, columns[-1], strict=True):
            task, edge, target, sender, number, rows, place = fields
            yield Parcel(task, edge, target, sender, number, rows, body.as_buffer(), place)
