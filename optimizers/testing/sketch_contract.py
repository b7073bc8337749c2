"""The contract of a sketch as a test suite: bounds, merging, order, bytes, and refusals."""

import math
import operator
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from optimizers.errors import PenstockError
from optimizers.testing.laws import law, refused
from optimizers.testing.other_process import answer_elsewhere
from optimizers.testing.sketch_suite import SketchSuite, numbers
from optimizers.testing.streams import batches, containers

_CHANCE = 1e-9
_TRIALS = 200
_DISTINCT = 400


class SketchContract(SketchSuite):
    """The laws of every sketch. Say in a subclass which one it is, and what it does not promise."""

    @law
    def test_estimates_are_never_below_the_truth(self, data: st.DataObject) -> None:
        """An estimate is at least the weight of its key, in the stream or not."""
        keys, stream = self._asked(data)
        self._upper_bounds(self._filled([stream]), keys, stream)

    @law
    def test_lower_bounds_are_never_above_the_truth(self, data: st.DataObject) -> None:
        """Its lower bounds are never above the weight."""
        keys, stream = self._asked(data)
        self._lower_bounds(self._filled([stream]), keys, stream)

    def test_errors_are_as_rare_as_promised(self) -> None:
        """Estimates exceed the truth by more than ε of all weights in a share of δ at most.

        Each of 200 streams has random keys of its own, and so random hashes. A sketch that keeps
        its promise fails with a probability of at most 1e-9 over these draws, by Hoeffding's bound
        for the mean of 200 independent shares. The draws come from fixed seeds: the test gives
        the same answer each time.
        """
        if self.error is None:
            return  # it promises none
        epsilon, delta = self.error
        shares = [self._beyond(epsilon, seed) for seed in range(_TRIALS)]
        most = _least_unlikely(delta, _TRIALS)
        share = sum(shares) / _TRIALS
        assert share <= most, (
            f"{share:.4f} of the estimates exceed the truth by more than {epsilon:.4g} of all "
            f"weights, where δ={delta:.4g} is promised (of {_TRIALS} streams, chance explains up "
            f"to {most:.4f})"
        )

    @law
    def test_the_order_of_the_stream_makes_no_difference(self, data: st.DataObject) -> None:
        """Counted in another order, the answers are the same."""
        keys, stream = self._asked(data)
        if self.any_order:
            order = Random(data.draw(st.integers(0, 1 << 32), label="seed of the order"))  # noqa: S311
            other = _shuffled(stream, order)
            self._agree("in another order", keys, self._filled([stream]), self._filled([other]))

    @law
    def test_how_the_stream_is_cut_makes_no_difference(self, data: st.DataObject) -> None:
        """Counted in several updates, the answers are those of one."""
        keys, stream = self._asked(data)
        if self.any_cut:
            cut = data.draw(batches(list(zip(*stream, strict=True))), label="batches")
            parts = [_unzipped(batch) for batch in cut]
            self._agree(
                f"in batches of {[len(part[0]) for part in parts]}",
                keys,
                self._filled([stream]),
                self._filled(parts),
            )

    @law
    def test_keys_count_the_same_in_every_container(self, data: st.DataObject) -> None:
        """Lists, arrays and Arrow's arrays of the same keys are counted and asked the same way."""
        keys, (stream, weights) = self._asked(data)
        expected = self._filled([(stream, weights)])
        for container, held in containers(stream):
            sketch = self.empty()
            sketch.update(getattr(held, "column", held), weights)
            self._agree(f"given as {container}", keys, expected, sketch)
        for container, held in containers(list(keys)):
            asked = expected.estimate(getattr(held, "column", held))
            assert numbers(asked) == self._answers(expected, keys), (
                f"asked for {container}, the answers are {asked}"
            )

    @law
    def test_a_merge_is_the_sketch_of_both_streams(self, data: st.DataObject) -> None:
        """Sketches of parts add up, in any order and grouping, and stay as they are."""
        keys, stream = self._asked(data)
        cut = data.draw(batches(list(zip(*stream, strict=True))), label="parts of the stream")
        parts = [_unzipped(part) for part in cut]
        sketches = [self._filled([part]) for part in parts]
        before = [self._answers(sketch, keys) for sketch in sketches]
        turns = Random(data.draw(st.integers(0, 1 << 32), label="seed of the order"))  # noqa: S311
        left, mixed = _joined(sketches, None), _joined(sketches, turns)
        twice = left | left
        for how, sketch, of in (
            ("one after the other", left, stream),
            ("in another order", mixed, stream),
            ("with itself", twice, tuple(map(list.__add__, stream, stream))),
            ("with an empty one", left | self.empty(), stream),
        ):
            if self.merges_exactly:
                self._agree(f"merged {how}", keys, self._filled([of]), sketch)
            else:
                self._bounds(sketch, keys, of, f", merged {how},")
        assert before == [self._answers(sketch, keys) for sketch in sketches], (
            "a merge changed the sketches it was made of; let | return a new one"
        )

    @law
    def test_it_passes_through_bytes(self, data: st.DataObject) -> None:
        """A sketch that was read answers and is written as the first, and goes on counting."""
        keys, stream = self._asked(data)
        sketch = self._filled([stream])
        written = sketch.to_bytes()
        assert isinstance(written, bytes), f"to_bytes returned {written!r}; return bytes"
        back = type(sketch).from_bytes(written)
        self._agree("written and read", keys, sketch, back)
        assert not self.same_bytes or back.to_bytes() == written, (
            "read and written again, the bytes differ; write what is in it in one order"
        )
        _, more = self._asked(data, keys)
        sketch.update(*more)
        back.update(*more)
        both = tuple(map(list.__add__, stream, more))
        if self.resumes:
            self._agree("read, and then going on", keys, sketch, back)
        else:
            self._bounds(back, keys, both, ", read, and then going on,")

    @law
    def test_it_refuses_damaged_bytes(self, data: st.DataObject) -> None:
        """Bytes that are cut off, too long, changed or missing are refused by our errors."""
        _, stream = self._asked(data)
        if not self.checks_bytes:
            return  # it says so
        written = self._filled([stream]).to_bytes()
        place = data.draw(st.integers(0, len(written) - 1), label="place of the damage")
        bit = 1 << data.draw(st.integers(0, 7), label="bit that is changed")
        changed = written[:place] + bytes([written[place] ^ bit]) + written[place + 1 :]
        for how, damaged in (
            (f"cut off at {place}", written[:place]),
            (f"changed at {place}", changed),
            ("with a byte too many", written + b"\0"),
            ("of none", b""),
            ("in place of bytes, a text", "text"),
        ):
            try:
                result = type(self.empty()).from_bytes(damaged)
            except PenstockError:
                continue
            except Exception as error:
                raise AssertionError(
                    f"bytes {how} are refused by {type(error).__name__}: {error}; raise a "
                    "CorruptDataError of optimizers.errors"
                ) from error
            raise AssertionError(
                f"bytes {how} were read as {result!r}; write a checksum, and refuse what does not "
                "fit it"
            )

    @law
    def test_it_refuses_what_cannot_be_counted_and_is_as_it_was(self, data: st.DataObject) -> None:
        """Bad keys and weights get an error of ours, and count for nothing."""
        keys, stream = self._asked(data, next(iter(self.keys())))
        sketch = self._filled([stream])
        before = self._answers(sketch, keys)
        for batch, weights, names in self.bad_batches():
            refused(
                f"counting {batch} by {weights}",
                partial(sketch.update, batch, weights),
                names=names,
            )
        refused("asking for a missing key", partial(sketch.estimate, [None]), names="None")
        assert before == self._answers(sketch, keys), "a batch that was refused was counted"

    def test_it_refuses_to_be_merged_with_what_does_not_fit(self) -> None:
        """Sketches of other settings are refused, not added up to nonsense."""
        keys = next(iter(self.keys()))
        for other in self.unfit():
            sketch = self._filled([(list(keys), [1.0] * len(keys))])
            other.update(list(keys), [1.0] * len(keys))
            before = self._answers(sketch, keys)
            for left, right in ((sketch, other), (other, sketch)):
                _refuses_merge(left, right)
            assert before == self._answers(sketch, keys), "a merge that was refused changed it"

    @law
    def test_asking_changes_nothing(self, data: st.DataObject) -> None:
        """A key has the same answer alone and among others, the second time as the first."""
        keys, stream = self._asked(data)
        sketch = self._filled([stream])
        written = sketch.to_bytes()
        together = self._answers(sketch, keys)
        alone = [self._answers(sketch, [key])[0] for key in keys]
        assert together == alone, f"asked one by one, the answers are {alone} and not {together}"
        assert written == sketch.to_bytes(), "the sketch was changed by being asked"

    def test_gives_the_same_answers_in_another_process(self) -> None:
        """Another process, with another seed for built-in hashes, counts and writes the same."""
        for keys, here, there in zip(
            map(list, self.keys()),
            map(self._answered, self._questions()),
            answer_elsewhere(type(self).__name__, _tell_all, list(self._questions())),
            strict=True,
        ):
            assert here == there, (
                f"in a process with another PYTHONHASHSEED, the sketch of {keys} has other "
                "answers or bytes (look for hash() and for sets that are iterated)"
            )

    def _questions(self) -> Iterator[tuple[type[Any], bytes, list[Any], list[float]]]:
        for keys in self.keys():
            stream = [keys[place * place * 7 % 31 % len(keys)] for place in range(60)]
            weights = [float(place % 8) for place in range(60)]
            sketch = self.empty()
            yield type(sketch), sketch.to_bytes(), stream, weights

    def _answered(self, question: tuple[type[Any], bytes, list[Any], list[float]]) -> Any:
        return _tell_all([question])[0]

    def _beyond(self, epsilon: float, seed: int) -> float:
        """Return the share of the keys of one stream whose estimates are beyond the error."""
        random = np.random.default_rng(seed)
        keys = list(self.fresh_keys(random.integers(0, 1 << 62, _DISTINCT).tolist()))
        weights = np.floor(1e4 * np.arange(1, _DISTINCT + 1) ** -random.uniform(0.0, 1.5))
        sketch = self.empty()
        sketch.update(keys, weights.tolist())
        excess = np.array(numbers(sketch.estimate(keys))) - weights
        return float((excess > epsilon * weights.sum() * (1 + 1e-12)).mean())


def _least_unlikely(delta: float, trials: int) -> float:
    """Return the largest mean of shares, each δ at most on average, that chance explains.

    A mean of q or more has the probability exp(-trials · KL(q ‖ δ)) at most (W. Hoeffding,
    "Probability inequalities for sums of bounded random variables", 1963, Theorem 1).

    >>> round(_least_unlikely(0.05, 200), 2)
    0.18
    """
    if not delta:
        return 0.0
    low, high = delta, 1.0
    for _ in range(60):
        mean = (low + high) / 2
        rest = (1 - mean) * math.log((1 - mean) / (1 - delta)) if mean < 1 else 0.0
        if trials * (mean * math.log(mean / delta) + rest) < -math.log(_CHANCE):
            low = mean
        else:
            high = mean
    return high


def _joined(sketches: list[Any], turns: Random | None) -> Any:
    """Merge sketches from left to right, or in a random order."""
    left = list(sketches)
    while len(left) > 1:
        first = left.pop(0 if turns is None else turns.randrange(len(left)))
        second = left.pop(0 if turns is None else turns.randrange(len(left)))
        left.insert(0, first | second)
    return left[0]


def _refuses_merge(left: Any, right: Any) -> None:
    what = f"{left!r} merged with {right!r}"
    if type(left) is type(right):
        refused(what, partial(operator.or_, left, right), names="")
        return
    try:
        left | right
    except (PenstockError, TypeError):
        return
    raise AssertionError(f"{what} is not refused; return NotImplemented for other classes")


def _shuffled(stream: Any, random: Random) -> Any:
    rows = list(zip(*stream, strict=True))
    random.shuffle(rows)
    return _unzipped(rows)


def _unzipped(rows: Sequence[Any]) -> Any:
    return [key for key, _ in rows], [weight for _, weight in rows]


def _tell_all(questions: list[tuple[type[Any], bytes, list[Any], list[float]]]) -> list[Any]:
    """Return what sketches answer and write that begin empty and count these."""
    answers = []
    for kind, empty, stream, weights in questions:
        sketch = kind.from_bytes(empty)
        sketch.update(stream, weights)
        answers.append((numbers(sketch.estimate(stream)), sketch.to_bytes()))
    return answers
