"""Posts with a place and a tag: a stream in which some tags belong to some places, for a while."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from optimizers.folds.aggregates import Count
from optimizers.folds.fold import Emit
from optimizers.simulation import Work
from optimizers.topology import Topology
from optimizers.workloads.workload import Batch, Workload
from sketches.arrays import Floats, Integers

_TUPLES = 100_000
_PLACES = 3_000
_TAGS = 12_000
_COMMUNITIES = 60
_INSIDE = 0.85  # of all posts have a tag of their place's community for certain
_NEW = 0.01  # of all tags are replaced by new ones after a batch
_MOVED = 0.01  # of all tags change community after a batch


@dataclass(slots=True)
class _PostWorld:
    """Places and tags, and which belong together at the moment.

    Both have frequencies by Zipf's law, by rank. The tag of a rank changes as tags come and go.
    """

    rng: np.random.Generator
    tuples: int
    homes: Integers
    communities: Integers
    place_names: Integers
    tag_names: Integers

    @classmethod
    def new(cls, scale: float, seed: int) -> "_PostWorld":
        """Make a world of this size."""
        rng = np.random.default_rng([seed, 41])
        places, tags = (max(_COMMUNITIES, round(keys * scale)) for keys in (_PLACES, _TAGS))
        return cls(
            rng,
            max(1, round(_TUPLES * scale)),
            rng.integers(0, _COMMUNITIES, places),
            rng.integers(0, _COMMUNITIES, tags),
            rng.permutation(places),
            rng.permutation(tags),
        )

    def draw(self) -> tuple[Integers, Integers]:
        """Return the rank of the place and of the tag of each post."""
        place_steps = _steps(_weights(len(self.homes), 0.75))
        weights = _weights(len(self.communities), 0.9)
        places, tags = (self._pick(steps, self.tuples) for steps in (place_steps, _steps(weights)))
        # In order of their communities, the tags of each are one stretch of the running sum.
        order = np.argsort(self.communities, kind="stable")
        steps = _steps(weights[order])
        ends = np.searchsorted(self.communities[order], np.arange(_COMMUNITIES + 1))
        inside = np.flatnonzero(self.rng.random(self.tuples) < _INSIDE)
        low, high = (steps[ends[self.homes[places[inside]] + side]] for side in (0, 1))
        drawn = low + self.rng.random(len(inside)) * (high - low)
        ranks = (np.searchsorted(steps, drawn, side="right") - 1).clip(0, len(order) - 1)
        tags[inside] = np.where(high > low, order[ranks], tags[inside])
        return places, tags

    def drift(self) -> None:
        """Let some tags be replaced by new ones, and some change their community."""
        tags = len(self.communities)
        replaced = np.flatnonzero(self.rng.random(tags) < _NEW)
        self.tag_names[replaced] = self.tag_names.max() + 1 + np.arange(len(replaced))
        changed = np.flatnonzero(self.rng.random(tags) < _MOVED)
        for ranks in (replaced, changed):
            self.communities[ranks] = self.rng.integers(0, _COMMUNITIES, len(ranks))

    def _pick(self, steps: Floats, size: int) -> Integers:
        drawn: Integers = np.searchsorted(steps, self.rng.random(size), side="right") - 1
        return drawn.clip(0, len(steps) - 2)


def trending(scale: float, seed: int) -> Iterator[Batch]:
    """Yield posts, batch by batch, whose tags belong to places and slowly cease to."""
    world = _PostWorld.new(scale, seed)
    while True:
        places, tags = world.draw()
        yield _posts(world.place_names[places], world.tag_names[tags])
        world.drift()


def shuffled(scale: float, seed: int) -> Iterator[Batch]:
    """Yield posts of the same places and tags, without any correlation."""
    world = _PostWorld.new(scale, seed)
    while True:
        places, tags = world.draw()
        yield _posts(world.place_names[places], world.rng.permutation(world.tag_names[tags]))
        world.drift()


def _posts(places: Integers, tags: Integers) -> Batch:
    columns = {"place": _words("place", places), "tag": _words("#tag", tags)}
    return {"posts": pa.table(columns)}


def _words(prefix: str, numbers: Integers) -> pa.Array:
    used, rows = np.unique(numbers, return_inverse=True)
    return pa.array([f"{prefix}{number}" for number in used.tolist()]).take(pa.array(rows))


def _weights(number: int, exponent: float) -> Floats:
    weights: Floats = 1 / np.arange(1, number + 1) ** exponent
    return weights


def _steps(weights: Floats) -> Floats:
    """Return where the share of each begins on a line from 0 to 1, and the end."""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    steps: Floats = sums / sums[-1]
    return steps


_JOB = (
    Topology.source("posts", parallelism=2)
    .then("by_place", key="place", parallelism=6, apply=Count(emit=Emit.TUPLES))
    .then("by_tag", key="tag", parallelism=6, apply=Count())
)

_COUNTING = Work(20e-6, state_bytes=50)  # the costs of engines that work tuple by tuple
_SIMULATED: dict[str, Any] = {
    "work": {"by_place": _COUNTING, "by_tag": _COUNTING},
    "rate": 200_000,  # two thirds of what six instances can count
}

TRENDING = Workload(
    name="trending",
    about=(
        "posts counted by place, then by tag; most tags belong to some places, new ones appear "
        "and old ones move on, so that what was learned fades"
    ),
    topology=_JOB,
    stream=trending,
    **_SIMULATED,
)

SHUFFLED = Workload(
    name="shuffled",
    about=(
        "the same places and tags, just as frequent, but none belongs to any other: nothing can "
        "be gained by routing, and nothing should be lost by trying"
    ),
    topology=_JOB,
    stream=shuffled,
    **_SIMULATED,
)
