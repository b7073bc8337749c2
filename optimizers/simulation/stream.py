"""Streams of sources: when each tuple comes, and its columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from optimizers.errors import InvalidValueError
from sketches.arrays import Floats
from sketches.checks import amount, number, seed, weights, whole
from sketches.values import FrozenMap, numeric, protected

Columns = Mapping[str, Any]
"""Columns of tuples by their names."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A recorded stream of one source.

    >>> Stream.steady({"tag": ["a", "b", "a"]}, rate=2.0).times.tolist()
    [0.0, 0.5, 1.0]

    Attributes:
        times: when each tuple comes, in seconds; in order.
        columns: the columns of the tuples: by name a numpy array, an Arrow array or a list, with
            one member for each tuple.
        bytes: the size of tuples on their way: a number for all, or one for each.
    """

    times: Floats
    columns: Columns = field(default_factory=FrozenMap)
    bytes: Floats | float = 0.0

    def __post_init__(self) -> None:
        times = numeric("times", self.times)
        times = weights("times", times, times.size)
        if not len(times):
            raise InvalidValueError("a stream without tuples tells nothing; give at least one time")
        later = np.flatnonzero(times[1:] < times[:-1])
        if len(later):
            place = int(later[0])
            raise InvalidValueError(
                f"times[{place + 1}]={times[place + 1]} is before times[{place}]={times[place]}; "
                "sort the tuples by their times"
            )
        object.__setattr__(self, "times", protected(times))
        object.__setattr__(self, "columns", _columns(self.columns, len(times)))
        object.__setattr__(self, "bytes", protected(_sizes(self.bytes, len(times))))

    @classmethod
    def steady(
        cls,
        columns: Columns | None = None,
        *,
        rate: float,
        count: int | None = None,
        bytes: Floats | float = 0.0,  # noqa: A002  # as the attribute is called
        start: float = 0.0,
    ) -> Self:
        """Return a stream whose tuples come at equal distances.

        Args:
            columns: what the tuples hold.
            rate: how many come in a second.
            count: how many there are, if there are no columns.
            bytes: how large they are.
            start: when the first comes.
        """
        given = {} if columns is None else columns
        spaces = np.arange(_count(given, count)) / number("rate", rate, above=0)
        return cls(amount("start", start) + spaces, given, bytes)

    @classmethod
    def poisson(  # noqa: PLR0913
        cls,
        columns: Columns | None = None,
        *,
        rate: float,
        seed: int,
        count: int | None = None,
        bytes: Floats | float = 0.0,  # noqa: A002  # as the attribute is called
        start: float = 0.0,
    ) -> Self:
        """Return a stream whose tuples come at random, each independently of the others.

        Args:
            columns: what the tuples hold.
            rate: how many come in a second on average.
            seed: of the random times.
            count: how many there are, if there are no columns.
            bytes: how large they are.
            start: when the waiting for the first begins.
        """
        given = {} if columns is None else columns
        chance = np.random.default_rng(_seed(seed))
        spaces = chance.exponential(1 / number("rate", rate, above=0), _count(given, count))
        return cls(amount("start", start) + np.cumsum(spaces), given, bytes)

    def __len__(self) -> int:
        """How many tuples there are."""
        return len(self.times)


_seed = seed


def _columns(given: object, length: int) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidValueError(f"columns={given!r} is not a mapping; write {{name: values}}")
    columns = {}
    for name, values in given.items():
        if not isinstance(name, str):
            raise InvalidValueError(f"columns: {name!r} is not a name; name columns by strings")
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise InvalidValueError(f"columns[{name!r}]={values!r} is not a column; give a list")
        if len(values) != length:
            raise InvalidValueError(
                f"columns[{name!r}] has {len(values)} members and there are {length} tuples; "
                "give one for each"
            )
        columns[name] = protected(values) if isinstance(values, np.ndarray) else values
    return columns


def _sizes(given: Any, length: int) -> Floats:
    sizes = numeric("bytes", given)
    return weights("bytes", np.broadcast_to(sizes, length) if not sizes.ndim else sizes, length)


def _count(columns: object, count: int | None) -> int:
    if count is None:
        lengths = [len(values) for values in columns.values()] if columns else []  # type: ignore[attr-defined]
        if not lengths:
            raise InvalidValueError("count=None and no columns: say how many tuples there are")
        return int(lengths[0])
    return whole("count", count, at_least=1)
