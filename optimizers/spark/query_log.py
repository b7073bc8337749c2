"""Spark's own records of a query, in its part of the checkpoint.

Spark writes the offsets of a batch before it hands the batch out, and afterwards a note that it is
done. The query keeps its id as long as these files are there.
"""

import json
from typing import NamedTuple

from optimizers.errors import CheckpointError
from optimizers.runtime.log.mark import SPARK
from optimizers.runtime.log.origins import OfStream
from optimizers.runtime.storage.location import Location

_BEFORE_OFFSETS = 2  # lines: of the format, and of the batch as a whole
_TIME = "batchTimestampMs"  # when Spark fixed what is in a batch, in that of the batch as a whole


class HandedOut(NamedTuple):
    """A batch that Spark hands out.

    Attributes:
        origin: what it is.
        cut: when Spark had fixed what is in it, in seconds of the wall clock; None if that cannot
            be read.
    """

    origin: OfStream
    cut: float | None


def query_at(location: Location) -> str | None:
    """Return the id of the query that has its files here; None if there is none yet."""
    name = f"{SPARK}/metadata"
    if not location.exists(name):
        return None
    try:
        return str(json.loads(location.read_bytes(name))["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{location.path_of(name)} does not tell the id of a query: {error}; bring it back "
            "from a copy, or begin with a new checkpoint"
        ) from error


def begun_at(location: Location) -> str:
    """Return the id of the query that Spark has begun here.

    Raises:
        CheckpointError: its files are not there.
    """
    query = query_at(location)
    if query is None:
        raise CheckpointError(
            f"{location.path_of(SPARK)} has no file 'metadata', though Spark has begun a query "
            "there: Spark and Python do not mean the same folder; give its path as both know it"
        )
    return query


def arrived(location: Location, query: str, number: int) -> HandedOut:
    """Return what Spark has written down of a batch that it hands out.

    Raises:
        CheckpointError: Spark's record of it cannot be read here.
    """
    lines = location.read_bytes(f"{SPARK}/offsets/{number}").decode().splitlines()
    return HandedOut(OfStream(query, number, tuple(lines[_BEFORE_OFFSETS:])), _cut(lines))


def _cut(lines: list[str]) -> float | None:
    try:
        return float(json.loads(lines[1])[_TIME]) / 1e3
    except (IndexError, ValueError, KeyError, TypeError):  # a format of another version
        return None


def is_noted(location: Location, number: int) -> bool:
    """Return whether Spark has recorded that a batch is done."""
    return location.exists(f"{SPARK}/commits/{number}")
