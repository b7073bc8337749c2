"""The shipped suite for sketches: each of its tests catches a sketch with a fault."""

from math import comb

import faulty_sketches as faulty
import planted_faults
import pytest

from optimizers.testing import SketchContract
from optimizers.testing.sketch_contract import _least_unlikely

TESTS = [name for name in dir(SketchContract) if name.startswith("test_")]

BELOW = "test_estimates_are_never_below_the_truth"
ABOVE = "test_lower_bounds_are_never_above_the_truth"
ERRORS = "test_errors_are_as_rare_as_promised"
ORDER = "test_the_order_of_the_stream_makes_no_difference"
CUT = "test_how_the_stream_is_cut_makes_no_difference"
CONTAINER = "test_keys_count_the_same_in_every_container"
MERGE = "test_a_merge_is_the_sketch_of_both_streams"
BYTES = "test_it_passes_through_bytes"
DAMAGE = "test_it_refuses_damaged_bytes"
BATCH = "test_it_refuses_what_cannot_be_counted_and_is_as_it_was"
UNFIT = "test_it_refuses_to_be_merged_with_what_does_not_fit"
ASKING = "test_asking_changes_nothing"
ELSEWHERE = "test_gives_the_same_answers_in_another_process"
AT_HOME = [name for name in TESTS if name != ELSEWHERE]

BAD = {
    # the sketch: the tests that must fail (the first is meant for it), words of it
    faulty.Halves: ([BELOW], ["the sketch estimates", "whose weight is"]),
    faulty.SaysTooMuch: ([ABOVE], ["weighs at least 1.0", "and it weighs 0.0"]),
    faulty.AddsATenth: ([ERRORS], ["of the estimates exceed the truth by more than 0.01", "0.1"]),
    faulty.FavoursTheLast: ([ORDER, MERGE], ["in another order, the sketch answers"]),
    faulty.CountsUpdates: ([CUT], ["in batches of", "the sketch answers"]),
    faulty.CountsWords: ([CONTAINER], ["given as an Arrow dictionary array"]),
    faulty.TakesTheLarger: ([MERGE], ["merged", "the sketch answers"]),
    faulty.MergesInPlace: ([MERGE], ["merged one after the other"]),
    faulty.WritesHalf: ([BYTES, UNFIT], ["written and read, the sketch answers"]),
    faulty.CannotGoOn: ([BYTES], ["read, and then going on, the sketch answers"]),
    faulty.CountsItsReadings: ([BYTES], ["read and written again, the bytes differ"]),
    faulty.MergesBelow: ([MERGE], ["the sketch, merged", "estimates", "whose weight is"]),
    faulty.GoesOnBelow: ([BYTES], ["the sketch, read, and then going on, estimates"]),
    faulty.NoChecksum: ([DAMAGE], ["were read as", "write a checksum"]),
    faulty.ForeignErrors: ([DAMAGE], ["refused by TypeError", "CorruptDataError"]),
    faulty.CountsHalfABatch: ([BATCH], ["a batch that was refused was counted"]),
    faulty.TakesNegative: ([BATCH], ["by [1, -1] is not refused"]),
    faulty.SaysNoRemedy: ([BATCH], ["names no remedy"]),
    faulty.MergesAnything: ([UNFIT], ["is not refused"]),
    faulty.RemembersQuestions: ([ASKING, BYTES], ["was changed by being asked"]),
    faulty.AnswersInProportion: ([ASKING], ["asked one by one"]),
    faulty.HashesWords: ([ELSEWHERE], ["PYTHONHASHSEED", "hash()"]),
}


def name_of(sketch):
    return sketch.__name__


def suite_for(kind):
    """Return the suite for a sketch, as its author would write it."""

    class Suite(SketchContract):
        error = (0.01, 0.1)
        examples = None
        merges_exactly = resumes = kind.exactly

        def empty(self):
            return kind()

        def unfit(self):
            return (kind(2),)

        def keys(self):
            return [f"key {number}" for number in range(12)], list(range(12))

        def at_least(self, sketch, keys):
            least = getattr(sketch, "least", None)
            return None if least is None else list(map(least, keys))

    return Suite()


@pytest.fixture(autouse=True)
def as_many_as_for_ours():
    with planted_faults.as_many_as(SketchContract):
        yield


def failures(suite, tests=TESTS):
    return planted_faults.failures(suite, tests)


@pytest.mark.parametrize("bad", BAD, ids=name_of)
def test_a_faulty_sketch_fails_the_test_that_is_for_it_in_words_that_help(bad):
    expected, words = BAD[bad]
    # A process takes half a second, and what fails at home need not be asked abroad as well.
    tests = TESTS if ELSEWHERE in expected else AT_HOME

    found = failures(suite_for(bad), tests)

    assert sorted(expected) == sorted(found)
    assert [] == [word for word in words if word not in found[expected[0]]]


def test_what_the_faults_were_planted_in_passes():
    assert {} == failures(suite_for(faulty.Exact))


def test_each_test_of_the_suite_is_shown_to_catch_something():
    assert {*TESTS} == {expected[0] for expected, _ in BAD.values()}


@pytest.mark.parametrize("missing", ["empty", "unfit"])
def test_an_author_who_forgot_something_is_asked_for_it(missing):
    with pytest.raises(AssertionError, match=f"SketchContract does not say.*define {missing}"):
        getattr(SketchContract(), missing)()


@pytest.mark.parametrize("delta", [0.001, 0.01, 0.05, 0.2, 0.5])
def test_chance_explains_hardly_more_than_it_does(delta):
    chances = [comb(200, k) * delta**k * (1 - delta) ** (200 - k) for k in range(201)]
    unlikely = next(k for k in range(201) if sum(chances[k:]) < 1e-9)

    # Hoeffding's bound is never below the exact tail of 200 draws of 0 or 1, and close to it.
    assert unlikely - 1 <= 200 * _least_unlikely(delta, 200) <= unlikely + 2
    assert _least_unlikely(0.0, 200) == 0.0
