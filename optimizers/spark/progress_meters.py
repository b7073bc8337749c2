"""Meters by what Spark tells of a query's progress: of sources that are not looked at otherwise.

With each batch Spark tells up to where it has read each source, up to where there was something to
read when it began the batch, and when that was. What a batch leaves for the next is in there, and
so is when nothing was left. It is told when the batch is done: so in a batch the last look at the
source is that of the batch before.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from optimizers.runtime.log.mark import SPARK
from optimizers.runtime.storage.location import Location

LastProgress = Callable[[], Mapping[str, Any] | None]
"""Returns what Spark has told of the last batch of a query that is done; None before the first."""

KAFKA = "kafka"
"""How Spark calls a source that is Kafka."""

_KEPT = 8  # batches; what is told is of the last but one


@dataclass(frozen=True, slots=True)
class _Look:
    """What Spark saw of a source as it began a batch.

    Attributes:
        at: when, in seconds of the wall clock.
        end: up to where the batch has read it.
        latest: up to where there was something to read.
    """

    at: float
    end: Any
    latest: Any


@dataclass
class Looks:
    """The looks at one source of a query.

    Attributes:
        progress: tells of the last batch.
        number: which of the query's sources it is.
        offsets: how many it should have.
    """

    progress: LastProgress
    number: int
    offsets: int

    def last(self, now: float) -> _Look | None:
        """Return the last look, unless it came after a time."""
        told = self.progress()
        if told is None or len(told["sources"]) != self.offsets:
            return None  # streams that are one to Spark are not told apart
        source = told["sources"][self.number]
        end, latest = (_read(source.get(name)) for name in ("endOffset", "latestOffset"))
        begun = datetime.fromisoformat(told["timestamp"]).timestamp()
        at = begun + told.get("durationMs", {}).get("latestOffset", 0) / 1e3
        return None if latest is None or at > now else _Look(at, end, latest)


@dataclass
class CaughtUpMeter:
    """Of any source: where a batch left nothing, as much has come as was let in; counts tuples.

    Attributes:
        looks: the looks at it.
    """

    looks: Looks
    exact: bool = True
    born: float = 0.0
    _done: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)
    _at: float | None = field(default=None, init=False)

    def latest(self, now: float) -> float | None:
        """Return how many tuples had come when the last batch but one began, if it left none."""
        look = self.looks.last(now)
        self._at = None
        if look is None or look.end != look.latest:
            return None
        found = self._done.get(_written(look.end))
        self._at = None if found is None else look.at
        return found

    def age(self, now: float) -> float:
        """Return how many seconds ago that was."""
        return 0.0 if self._at is None else now - self._at

    def admitted(self, offset: str, tuples: float) -> float | None:
        """Return how many tuples were let in so far."""
        last = next(reversed(self._done.values()), 0.0)
        self._done[_written(_read(offset))] = last + tuples
        while len(self._done) > _KEPT:
            self._done.popitem(last=False)
        return last + tuples


@dataclass
class KafkaMeter:
    """Of topics of Kafka; counts places in their partitions.

    Not each place need hold a row: some are left by what was compacted or is not committed.

    Attributes:
        location: the checkpoint.
        looks: the looks at it.
    """

    location: Location
    looks: Looks
    exact: bool = False
    born: float = 0.0
    _began: float | None = field(default=None, init=False)
    _at: float | None = field(default=None, init=False)

    def latest(self, now: float) -> float | None:
        """Return how many places there were, after the first, when the last batch but one began."""
        look = self.looks.last(now)
        found = None if look is None else self._after_first(look.latest)
        self._at = None if look is None or found is None else look.at
        return found

    def age(self, now: float) -> float:
        """Return how many seconds ago that was."""
        return 0.0 if self._at is None else now - self._at

    def admitted(self, offset: str, tuples: float) -> float | None:
        """Return up to which place, after the first, was let in."""
        return self._after_first(_read(offset))

    def _after_first(self, offset: Any) -> float | None:
        """Return how many places are between the first and an offset."""
        if self._began is None:
            name = f"{SPARK}/sources/{self.looks.number}/0"
            if not self.location.exists(name):
                return None
            # A byte that tells versions of Spark apart, a line with the version, then the offset.
            self._began = _places(_read(self.location.read_bytes(name).decode().partition("\n")[2]))
        places = _places(offset)
        return None if places is None or self._began is None else places - self._began


def _places(offset: Any) -> float | None:
    """Return the sum of the places of all partitions; None if it is not that of Kafka."""
    if not isinstance(offset, dict) or not all(isinstance(each, dict) for each in offset.values()):
        return None
    found = [place for topic in offset.values() for place in topic.values()]
    return float(sum(found)) if all(type(place) is int and place >= 0 for place in found) else None


def _read(offset: Any) -> Any:
    """Return an offset as JSON values; as it is if it is no JSON."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:  # some are written in another way; and PySpark writes None as a text
        return offset


def _written(offset: Any) -> str:
    """Return an offset as one text, however its fields are ordered."""
    return json.dumps(offset, sort_keys=True)
