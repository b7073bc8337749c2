"""Base of suites for sketches: the promises of the sketch, and how to fill and query it."""

import math
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from hypothesis import strategies as st

from optimizers.testing.laws import Laws
from optimizers.testing.streams import Keys, example_keys, streams

_LARGEST = 8


class Sketch(Protocol):
    """The methods of a sketch that the suite uses. Adapt another library's sketch to these five."""

    def update(self, keys: Any, weights: Any) -> None:
        """Count keys by their weights."""

    def estimate(self, keys: Any) -> Any:
        """Return a number for each key."""

    def __or__(self, other: Any) -> Self:
        """Return a new sketch of both streams."""

    def to_bytes(self) -> bytes:
        """Return it as bytes."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the sketch that was written."""


Weighed: TypeAlias = tuple[list[Any], list[float]]
"""Keys and the weight of each."""


class SketchSuite(Laws):
    """The sketch that a suite is about, and what it promises.

    Attributes:
        never_below: whether an estimate is never below the truth.
        error: ε and δ, if it promises that an estimate exceeds the truth by more than ε times the
            sum of all weights with a probability of δ at most.
        merges_exactly: whether ``a | b`` answers as the sketch of one stream after the other, in
            any order. Otherwise it only has to keep its bounds.
        any_order: whether the order of the stream makes no difference.
        any_cut: whether it makes no difference how the stream is cut into updates.
        resumes: whether a sketch that was read goes on exactly as the one that was written.
        same_bytes: whether a sketch that was read is written as the same bytes.
        checks_bytes: whether it refuses bytes that were damaged or cut off.
    """

    never_below: ClassVar[bool] = True
    error: ClassVar[tuple[float, float] | None] = None
    merges_exactly: ClassVar[bool] = True
    any_order: ClassVar[bool] = True
    any_cut: ClassVar[bool] = True
    resumes: ClassVar[bool] = True
    same_bytes: ClassVar[bool] = True
    checks_bytes: ClassVar[bool] = True

    def empty(self) -> Any:
        """Return a new sketch; a small one, so that keys collide in it."""
        raise AssertionError(
            f"{type(self).__name__} does not say which sketch it is about; define "
            "empty(self), and return a new sketch"
        )

    def unfit(self) -> Iterable[Any]:
        """Return sketches that it cannot be merged with, such as some of other settings."""
        raise AssertionError(
            f"{type(self).__name__} does not say what its sketch cannot be merged with; define "
            "unfit(self), and return sketches of other settings"
        )

    def keys(self) -> Iterable[Keys]:
        """Return keys to draw streams from: several lists, each of keys of one kind."""
        return example_keys()

    def bad_batches(self) -> Iterable[tuple[Any, Any, str]]:
        """Return keys and weights that cannot be counted, and what the error has to name."""
        key, *_ = next(iter(self.keys()))
        yield [key, None], [1, 1], "1"
        yield [1.5], [1], "1.5"
        for weight in (-1, math.nan, math.inf):
            yield [key, key], [1, weight], "[1]"
        yield [key, key], [1], "2"

    def fresh_keys(self, numbers: list[int]) -> Keys:
        """Return keys made of random numbers. Override it where integers cannot be counted."""
        return numbers

    def truth(self, stream: Weighed) -> dict[Any, float]:
        """Return the exact answer for each key of a stream: the sum of its weights."""
        sums: dict[Any, float] = {}
        for key, weight in zip(*stream, strict=True):
            sums[key] = sums.get(key, 0.0) + weight
        return sums

    def at_least(self, sketch: Any, keys: Keys) -> Sequence[float] | None:
        """Return lower bounds of the weights, where the sketch promises them."""
        return None

    def _asked(self, data: st.DataObject, keys: Keys | None = None) -> tuple[Keys, Any]:
        """Draw keys of one kind, and a stream of some of them with weights."""
        pool = keys or data.draw(st.sampled_from(tuple(self.keys())), label="keys")
        stream = data.draw(streams(pool[: -1 - len(pool) // 3], longest=80), label="stream")
        random = Random(data.draw(st.integers(0, 1 << 32), label="seed of the weights"))  # noqa: S311
        return pool, (stream, [float(random.randint(0, _LARGEST)) for _ in stream])

    def _filled(self, parts: Iterable[Any]) -> Any:
        sketch = self.empty()
        for keys, weights in parts:
            sketch.update(keys, weights)
        return sketch

    def _answers(self, sketch: Any, keys: Keys) -> list[float]:
        return numbers(sketch.estimate(list(keys)))

    def _agree(self, how: str, keys: Keys, expected: Any, actual: Any) -> None:
        first, second = self._answers(expected, keys), self._answers(actual, keys)
        assert first == second, f"{how}, the sketch answers {second} and not {first}"

    def _bounds(self, sketch: Any, keys: Keys, stream: Any, how: str) -> None:
        self._upper_bounds(sketch, keys, stream, how)
        self._lower_bounds(sketch, keys, stream, how)

    def _upper_bounds(self, sketch: Any, keys: Keys, stream: Any, how: str = "") -> None:
        if not self.never_below:
            return
        truth = self.truth(stream)
        for key, estimate in zip(keys, self._answers(sketch, keys), strict=True):
            assert estimate >= truth.get(key, 0.0), (
                f"the sketch{how} estimates {estimate} for {key!r}, whose weight is "
                f"{truth.get(key, 0.0)}"
            )

    def _lower_bounds(self, sketch: Any, keys: Keys, stream: Any, how: str = "") -> None:
        truth = self.truth(stream)
        bounds = self.at_least(sketch, keys)
        if bounds is None:
            return
        for key, least in zip(keys, bounds, strict=True):
            assert least <= truth.get(key, 0.0), (
                f"the sketch{how} says that {key!r} weighs at least {least}, and it weighs "
                f"{truth.get(key, 0.0)}"
            )


def numbers(estimates: Any) -> list[float]:
    """Return the answers of a sketch as a list."""
    return [float(estimate) for estimate in estimates]
