"""Meters of Spark's sources: how much has come to a stream, by what its kind lets one know.

What is known of each kind:

- ``rate``: it makes a number of rows a second since a moment that Spark writes down, in seconds.
- files: those in the folder, and those that Spark's log says were read; in bytes.
- a recording of `SparkEngine.replay`: all of it is there from the beginning; in rows.
- Kafka: up to which places Spark found rows when it began the batch before; in places.
- any other: whether Spark found, then, that nothing was left; in tuples.

Of a stream that is made of several nothing is known, as no one knows of which a tuple came.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyspark.sql import DataFrame

from optimizers.runtime.driver.inflow import SourceMeter
from optimizers.runtime.log.mark import SPARK
from optimizers.runtime.storage.location import Location
from optimizers.spark.progress_meters import (
    KAFKA,
    CaughtUpMeter,
    KafkaMeter,
    LastProgress,
    Looks,
)
from optimizers.spark.query_log import query_at
from optimizers.spark.replay import NAME, RECORDED, ROWS

_ROW_BY_ROW = {"Project", "SubqueryAlias", "EventTimeWatermark"}
_READS_OTHERWISE = {
    *("recursivefilelookup", "pathglobfilter", "maxfileage", "filenameonly", "cleansource"),
    *("modifiedbefore", "modifiedafter"),
}
_GLOBS = set("*?[{\\")
_FORGOTTEN = 7 * 24 * 3600.0  # seconds; Spark lets files be that are so much older than the newest


class _Now:
    """What tells what is true at the time it is asked for."""

    def age(self, now: float) -> float:
        """Return 0, as of what has just been seen."""
        return 0.0


@dataclass
class RateMeter(_Now):
    """Of rows made at a steady rate; counts seconds.

    Attributes:
        location: the checkpoint.
        number: which of the query's streams it is.
        exact: whether every row becomes a tuple.
    """

    location: Location
    number: int
    exact: bool

    @cached_property
    def _began(self) -> float:
        name = f"{SPARK}/sources/{self.number}/0"
        *_, began = self.location.read_bytes(name).decode().split("\n")
        return float(began) / 1e3

    @property
    def born(self) -> float:
        """When the source was begun, before which nothing came; infinite until that is known."""
        known = self.location.exists(f"{SPARK}/sources/{self.number}/0")
        return self._began if known else math.inf

    def latest(self, now: float) -> float | None:
        """Return how many seconds the source is old."""
        born = self.born
        return max(0.0, now - born) if born < math.inf else None

    def admitted(self, offset: str, tuples: float) -> float | None:
        """Return of how many seconds all rows were let in."""
        return float(json.loads(offset))


@dataclass
class ReplayMeter(_Now):
    """Of a recording; counts rows.

    Attributes:
        rows: how many there are.
        exact: whether every row becomes a tuple.
    """

    rows: int
    exact: bool
    born: float = 0.0

    def latest(self, now: float) -> float | None:  # at any time
        """Return how many rows there are: all of them, always."""
        return float(self.rows)

    def admitted(self, offset: str, tuples: float) -> float | None:
        """Return how many rows were let in."""
        return float(json.loads(offset)[ROWS])


@dataclass
class FilesMeter(_Now):
    """Of the files of a folder on this machine; counts bytes.

    Attributes:
        location: the checkpoint.
        number: which of the query's streams it is.
        folder: the folder.
    """

    location: Location
    number: int
    folder: str
    exact: bool = False
    born: float = 0.0
    _read: int = field(default=-1, init=False)  # the last entry of Spark's log that was read
    _done: set[str] = field(default_factory=set, init=False)  # files that were let in
    _there: dict[str, int] = field(default_factory=dict, init=False)  # the size of those waiting
    _admitted: float = field(default=0.0, init=False)
    _lost: bool = field(default=False, init=False)  # whether a file came and went unseen
    _looked: tuple[float, float | None] = field(default=(-1.0, None), init=False)

    def latest(self, now: float) -> float | None:
        """Return how large all files are that were let in or wait."""
        when, found = self._looked
        if now <= when:  # that of a time gone by is not known but as it was seen
            return found if now == when else None
        listed = self._listed()
        lost, self._lost = self._lost, False
        if listed is None or lost:
            self._looked = now, None
            return None
        self._done &= listed.keys()
        self._there = {name: size for name, size in listed.items() if name not in self._done}
        self._looked = now, self._admitted + sum(self._there.values())
        return self._looked[1]

    def admitted(self, offset: str, tuples: float) -> float | None:
        """Return how large the files were that were let in."""
        for name in self._files_up_to(int(json.loads(offset)["logOffset"])):
            size = self._there.pop(name, None)
            if size is None:
                try:
                    size = Path(name).stat().st_size
                except FileNotFoundError:  # read and taken away since the last look
                    size, self._lost = 0, self._looked[0] >= 0
            self._admitted += size
            self._done.add(name)
        return None if self._lost else self._admitted

    def _files_up_to(self, last: int) -> list[str]:
        """Return the files of the entries of Spark's log that were not read yet, up to this."""
        folder = f"{SPARK}/sources/{self.number}"
        first, self._read = self._read + 1, last
        found = []
        names = self.location.list(folder) if first < last else {}
        whole = [int(Path(name).stem) for name in names if name.endswith(".compact")]
        compact = max((number for number in whole if first <= number <= last), default=None)
        entries = range(first if compact is None else compact, last + 1)
        for number in entries:
            for suffix in (".compact", ""):
                if self.location.exists(f"{folder}/{number}{suffix}"):
                    text = self.location.read_bytes(f"{folder}/{number}{suffix}").decode()
                    records = [json.loads(line) for line in text.splitlines()[1:]]
                    found += [each for each in records if each["batchId"] >= first]
                    break
        return list(dict.fromkeys(_local(str(each["path"])) for each in found))

    def _listed(self) -> dict[str, int] | None:
        """Return the files that Spark would find, and their sizes; None if there are folders."""
        found: dict[str, int] = {}
        times: dict[str, float] = {}
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if _is_hidden(entry.name):
                        continue
                    if entry.is_dir():
                        return None
                    seen = entry.stat()
                    found[entry.path], times[entry.path] = seen.st_size, seen.st_mtime
        except FileNotFoundError:  # the folder, or a file that was there a moment ago
            return None
        newest = max(times.values(), default=0.0)
        return {name: size for name, size in found.items() if times[name] >= newest - _FORGOTTEN}


def meters_of(
    location: Location, streams: Mapping[str, DataFrame]
) -> tuple[dict[str, tuple[int, SourceMeter]], int]:
    """Return the meters of the sources of a query, and how many streams it reads in all.

    Args:
        location: the checkpoint.
        streams: the stream of each source, in the order in which they are united.
    """
    found: dict[str, tuple[int, SourceMeter]] = {}
    read = {name: _leaves(stream) for name, stream in streams.items()}
    offsets = sum(len(leaves) for leaves, _ in read.values())
    number = 0
    for name, (leaves, is_whole) in read.items():
        if len(leaves) == 1:
            looks = Looks(last_progress(location, streams), number, offsets)
            meter = _meter(location, number, leaves[0], looks, is_whole=is_whole)
            found[name] = number, meter
        number += len(leaves)
    return found, offsets


def last_progress(location: Location, streams: Mapping[str, DataFrame]) -> LastProgress:
    """Return what tells how the query of a checkpoint has come on, for as long as it runs.

    Args:
        location: the checkpoint.
        streams: the stream of each source; the query is in the session of the first.
    """
    session = next(iter(streams.values())).sparkSession

    def told() -> Mapping[str, Any] | None:
        name = query_at(location)
        query = None if name is None else session.streams.get(name)
        return None if query is None else query.lastProgress

    return told


def _leaves(stream: DataFrame) -> tuple[list[Any], bool]:
    """Return what a stream is read from, and whether every row of that is a row of the stream."""
    frame: Any = stream._jdf  # noqa: SLF001  # PySpark has no other way
    plan = frame.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    streaming = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]
    while plan.children().size() == 1 and str(plan.nodeName()) in _ROW_BY_ROW:
        plan = plan.children().apply(0)
    return streaming, plan.children().size() == 0


def _meter(
    location: Location, number: int, leaf: Any, looks: Looks, *, is_whole: bool
) -> SourceMeter:
    """Return the meter of what a stream is read from, by its kind."""
    kind = str(leaf.getClass().getSimpleName())
    if kind == "StreamingRelationV2":
        name, options = str(leaf.sourceName()).lower(), leaf.extraOptions()
        if name == "rate" and str(options.get("rampUpTime") or "0s").strip() in {"0", "0s"}:
            return RateMeter(location, number, is_whole)
        if name == NAME and options.get("checkpoint") == location.root:
            return ReplayMeter(_recorded(location, str(options.get("source"))), is_whole)
        if name == KAFKA:
            return KafkaMeter(location, looks)
    if kind == "StreamingRelation" and str(leaf.sourceName()).startswith("FileSource["):
        folder = _folder(leaf.dataSource().options())
        if folder is not None:
            return FilesMeter(location, number, folder)
    return CaughtUpMeter(looks)


def _folder(options: Any) -> str | None:
    """Return the folder of a stream of files; None if it is not as plain as one."""
    given = {}
    pairs = options.toSeq()
    for place in range(pairs.size()):
        pair = pairs.apply(place)
        given[str(pair._1()).lower()] = str(pair._2())  # noqa: SLF001  # so Scala calls it
    path = given.get("path")
    if path is None or _READS_OTHERWISE & given.keys() or _GLOBS & set(path):
        return None
    if urlparse(path).scheme not in {"", "file"}:
        return None
    return os.path.realpath(_local(path))


def _local(path: str) -> str:
    """Return a path without its scheme."""
    parsed = urlparse(path)
    return os.path.realpath(unquote(parsed.path)) if parsed.scheme else path


def _recorded(location: Location, source: str) -> int:
    content = location.read(f"{RECORDED}/{source}.arrow", mapped=True)
    return int(pa.ipc.open_file(content).read_all().num_rows)


def _is_hidden(name: str) -> bool:
    """Return whether Spark leaves a file out by its name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
