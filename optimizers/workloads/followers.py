"""Followers: a made-up social network, and how far a message gets in it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimizers.errors import InvalidValueError
from sketches.arrays import Integers
from sketches.checks import seed as checked_seed
from sketches.checks import whole
from sketches.values import protected

_MUTUAL = 0.6  # correlation of having many followers with following many: 0 none, 1 full
_STEEPNESS = 1.0  # with which the numbers of followers fall off, from the most popular user on


@dataclass(frozen=True, eq=False)
class Followers:
    """A directed graph: from each user to the followers who see the user's messages.

    >>> network = Followers.made_up(users=100, edges=800, most=40, seed=1)
    >>> int(network.counts.sum()), int(network.counts.max())
    (800, 40)

    Attributes:
        starts: where the followers of each user begin in ``users``, and where the last ones end.
        users: the followers of all users, one user's after the other's, each in ascending order.
    """

    starts: Integers
    users: Integers

    @classmethod
    def made_up(
        cls, *, users: int = 9_960, edges: int = 183_005, most: int = 734, seed: int = 0
    ) -> "Followers":
        """Make a network up, in which few have many followers and many have few.

        The numbers are by default those of the network that the paper on online shuffle grouping
        has from a benchmark's generator.

        Args:
            users: how many users.
            edges: how many followers they have together.
            most: how many the most popular one has.
            seed: equal seeds give equal networks.
        """
        number = whole("users", users, at_least=2)
        most = whole("most", most, at_least=1, at_most=number - 1)
        total = whole("edges", edges, at_least=most, at_most=number * most)
        counts = _falling(number, total, most)
        rng = np.random.default_rng([checked_seed(seed), 47])
        counts = rng.permutation(counts)
        # Users with many followers also follow many, so messages get far in few steps.
        weights = np.maximum(counts, 0.5) ** _MUTUAL
        drawn = []
        for user, count in enumerate(counts.tolist()):
            waiting = rng.exponential(size=number) / weights
            waiting[user] = np.inf
            drawn.append(np.sort(np.argpartition(waiting, count - 1)[:count] if count else []))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(protected(starts), protected(np.concatenate(drawn).astype(np.int64)))

    def __len__(self) -> int:
        """How many users there are."""
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> Integers:
        """How many followers each user has."""
        return np.diff(self.starts)

    def reach(self, user: int, depth: int = 3) -> tuple[int, int]:
        """Return how many users a message reaches in ``depth`` steps, and how many edges it takes.

        Args:
            user: who writes it.
            depth: how often it is passed on: followers, their followers, and so on.
        """
        author = whole("user", user, at_least=0, at_most=len(self) - 1)
        seen = np.zeros(len(self), dtype=np.bool_)
        seen[author] = True
        latest = np.array([author])
        edges = 0
        for _ in range(whole("depth", depth, at_least=0)):
            followers = self._followers(latest)
            edges += len(followers)
            new = np.zeros_like(seen)
            new[followers] = True
            new &= ~seen
            latest = np.flatnonzero(new)
            seen |= new
        return int(seen.sum()) - 1, edges

    def _followers(self, users: Integers) -> Integers:
        """Return the followers of some users, one's after the other's."""
        counts = self.counts[users]
        before = np.cumsum(counts) - counts
        places = np.repeat(self.starts[users] - before, counts) + np.arange(counts.sum())
        followers: Integers = self.users[places]
        return followers


def _falling(number: int, total: int, most: int) -> Integers:
    """Return numbers that fall off from ``most`` like a power, and add up to ``total``."""
    ranks = np.arange(number)

    def at(scale: float) -> Integers:
        falling: Integers = (most * (1 + ranks / scale) ** -_STEEPNESS).astype(np.int64)
        return falling

    low, high = 1e-9, 1e12
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if at(middle).sum() < total else (low, middle)
    counts = at(low)
    missing = total - int(counts.sum())
    room = np.flatnonzero(counts < most)
    if missing > len(room):
        raise InvalidValueError(
            f"{total} edges do not fall off from {most} over {number} users; give others"
        )
    counts[room[:missing]] += 1
    return counts
