"""Routers: the executor's half of a grouping, which sends whole batches of tuples.

A grouping is the specification; a router carries it out for one sender. It may remember what it has
sent, so each sender has its own. The cut of the stream into batches makes no difference: two
batches are routed as their tuples would be in one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from grouping.hashing import LARGEST_PARTS, code_parts
from grouping.key_batch import KeyBatch
from sketches.arrays import Parts
from sketches.checks import whole
from sketches.errors import InvalidKeyError, InvalidValueError


class Router(ABC):
    """Chooses an instance for each tuple of a batch, for one sender.

    Args:
        instances: how many instances there are to choose from.
    """

    def __init__(self, instances: int) -> None:
        self._instances = instances

    @property
    def instances(self) -> int:
        """How many instances it chooses from."""
        return self._instances

    @abstractmethod
    def route(self, rows: int, keys: Any = None) -> Parts:
        """Return the instance of each tuple of the next batch.

        Args:
            rows: how many tuples the batch has.
            keys: their keys, one for each, in any container that `sketches.keys.as_keys` reads.
                Routers that choose without a key ignore them, so that a caller need not know which
                kind it has.

        Raises:
            InvalidKeyError: the router chooses by keys and there are none, or they are no keys.
            InvalidValueError: the number of keys is not that of rows. The router is unchanged.
        """


class RoundRobinRouter(Router):
    """Deals tuples out to some instances in turn, and goes on with the next batch.

    >>> router = RoundRobinRouter(4, among=[0, 1, 2, 3], start=3)
    >>> router.route(3).tolist(), router.route(2).tolist()
    ([3, 0, 1], [2, 3])

    Args:
        instances: how many instances there are.
        among: those that get tuples.
        start: which of them is the first; counted in turn beyond the last.
    """

    def __init__(self, instances: int, *, among: Sequence[int], start: int = 0) -> None:
        super().__init__(instances)
        self._among = np.array(among, dtype=np.int32)
        self._next = start % len(among)

    def route(self, rows: int, keys: Any = None) -> Parts:
        """Return the instance of each tuple of the next batch."""
        count = _rows(rows)
        turns = np.arange(self._next, self._next + count) % len(self._among)
        self._next = (self._next + count) % len(self._among)
        return self._among[turns]


class KeyRouter(Router):
    """Base of the routers that choose by a key."""

    def route(self, rows: int, keys: Any = None) -> Parts:
        """Return the instance of each tuple of the next batch."""
        count = _rows(rows)
        if keys is None:
            raise InvalidKeyError(
                f"{type(self).__name__} chooses by a key and got {count} rows without; "
                "give one key for each row"
            )
        batch = KeyBatch.read(keys)
        if len(batch) != count:
            raise InvalidValueError(f"rows={count} and {len(batch)} keys; give one for each row")
        return self._route(batch)

    @abstractmethod
    def _route(self, batch: KeyBatch) -> Parts:
        """Return the instance of each row."""


class OwnerRouter(KeyRouter):
    """Sends each key to the one instance that owns it.

    Args:
        instances: how many instances there are.
        assign: which instance owns each of some keys.
    """

    def __init__(self, instances: int, assign: Callable[[Any], Parts]) -> None:
        super().__init__(instances)
        self._assign = assign

    def _route(self, batch: KeyBatch) -> Parts:
        return self._assign(batch)


class PartialKeyRouter(KeyRouter):
    """Sends each tuple to the least loaded of the few instances that its key's hashes choose.

    The load is the number of tuples that this router has sent; a tie goes to the first choice.
    Hashes may choose one instance twice, as published.

    Each choice depends on all before, so the choices are a loop over tuples; hashing is not.

    >>> PartialKeyRouter(4, choices=2).route(4, ["Asia"] * 4).tolist()
    [2, 1, 2, 1]

    Args:
        instances: how many instances there are.
        choices: how many of them share a key.

    References:
        Nasir et al., "The power of both choices: Practical load balancing for distributed
        stream processing engines", ICDE 2015.
    """

    def __init__(self, instances: int, *, choices: int) -> None:
        super().__init__(instances)
        self._choices = choices
        self._loads = [0] * instances

    def _route(self, batch: KeyBatch) -> Parts:
        columns = [row.tolist() for row in candidates(batch, self._instances, self._choices)]
        if self._choices == 2:
            chosen = less_loaded(self._loads, *columns)
        else:
            chosen = _least_loaded(self._loads, zip(*columns, strict=True))
        return np.array(chosen, dtype=np.int32)


def candidates(batch: KeyBatch, instances: int, choices: int) -> list[Parts]:
    """Return for each choice the instance that it offers to each row."""
    codes, seed = batch.column.codes, batch.column.seed
    return [
        batch.spread(code_parts(codes, instances, choice=choice, seed=seed))
        for choice in range(choices)
    ]


def less_loaded(loads: list[int], first: Iterable[int], second: Iterable[int]) -> list[int]:
    """Choose for each tuple the less loaded of two instances, and count it there."""
    chosen: list[int] = []
    choose = chosen.append
    for one, other in zip(first, second, strict=True):
        part = other if loads[other] < loads[one] else one
        loads[part] += 1
        choose(part)
    return chosen


def _least_loaded(loads: list[int], offers: Iterable[tuple[int, ...]]) -> list[int]:
    """Choose for each tuple the least loaded of several instances, and count it there."""
    chosen: list[int] = []
    for offer in offers:
        part = min(offer, key=loads.__getitem__)  # the first of equals
        loads[part] += 1
        chosen.append(part)
    return chosen


def _rows(rows: int) -> int:
    return whole("rows", rows, at_least=0, at_most=LARGEST_PARTS)
