"""Base of suites for groupings: the promises of the grouping, and how to get routers."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from grouping.grouping import Grouping
from grouping.routers import Router
from optimizers.testing.laws import Laws
from optimizers.testing.streams import Keys, example_keys

Routed: TypeAlias = list[int]
"""The instance of each tuple of a stream."""

_COUNTS = (1, 2, 5, 16)


class GroupingSuite(Laws):
    """The grouping that a suite is about, and what it promises.

    Attributes:
        grouping: the grouping.
        routes: whether it routes batches. Set it to False for one that only a simulation can use.
        any_cut: whether tuples go where they would go one by one, for any cut of the stream into
            batches. Set it to False for one that looks at a whole batch.
        spread: to how many instances the tuples of one key go, equally many to each; math.inf for
            all instances, None where it promises no such thing.
    """

    grouping: ClassVar[Grouping]
    routes: ClassVar[bool] = True
    any_cut: ClassVar[bool] = True
    spread: ClassVar[float | None] = None

    def keys(self) -> Iterable[Keys]:
        """Return keys to draw streams from: several lists, each of keys of one kind.

        Override it where the grouping takes keys of one kind only, or knows some keys by name: let
        there be keys that it knows and others.
        """
        return example_keys()

    def instance_counts(self) -> tuple[int, ...]:
        """Return the numbers of instances to ask for."""
        made_for = self.grouping.instances
        return _COUNTS if made_for is None else (made_for,)

    def _spreads(
        self, sender: "Sender", keys: Keys, tuples: int, send: Callable[[list[Any]], Routed]
    ) -> None:
        """Assert that tuples of one key are spread as promised, for each of the keys."""
        assert self.spread is not None
        widest = 0
        for key in keys:
            loads = Counter(send([key] * tuples))
            widest = max(widest, len(loads))
            assert max(loads.values()) - min(loads.values()) <= 1, (
                f"{tuples} tuples of key {key!r} went to instances as {dict(loads)}; loads of "
                "instances that take turns differ by one at most (is each tuple counted once, "
                "where it was sent?)"
            )
        promised = min(self.spread, sender.instances, tuples)
        assert widest == promised, (
            f"{tuples} tuples of one key went to {widest} of {sender.instances} instances, not to "
            f"{promised} as spread={self.spread} promises"
        )


@dataclass(frozen=True)
class Sender:
    """Who asks for a router: how many instances, the sender's number, and which are local."""

    instances: int
    number: int
    local: tuple[int, ...]

    def router(self, grouping: Grouping) -> Router:
        """Return a new router for this sender."""
        return grouping.router(self.instances, sender=self.number, local=self.local)


@lru_cache
def senders(counts: tuple[int, ...]) -> st.SearchStrategy[Sender]:
    """Return senders to one of these numbers of instances."""
    local = st.lists(st.integers(0, 1 << 10), max_size=3)

    def sender(count: int, number: int, wanted: list[int]) -> Sender:
        return Sender(count, number, tuple({place % count: None for place in wanted}))

    return st.builds(sender, st.sampled_from(counts), st.integers(0, 20), local)


def routed(router: Router, batches: Iterable[Keys]) -> Routed:
    """Return where a router sends the tuples of some batches."""
    return [part for batch in batches for part in one_by_one(router.route(len(batch), batch))]


def one_by_one(parts: NDArray[np.int32]) -> Routed:
    """Return a router's answer as a list."""
    return [int(part) for part in parts]
