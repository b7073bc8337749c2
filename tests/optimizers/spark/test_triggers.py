"""What triggers take around their batches, from progress that is made up."""

from datetime import UTC, datetime

import pytest

from optimizers import BatchTime
from optimizers.spark.triggers import Triggers

BEGUN = 1_800_000_000.0


def batch(seconds, trigger=0.0):
    return BatchTime(0, 10, seconds + (trigger or 0.0), 0.1, (), 0.1, trigger)


def progress(number, took, begun=BEGUN):
    stamp = datetime.fromtimestamp(begun, UTC).isoformat().replace("+00:00", "Z")
    return {"batchId": number, "timestamp": stamp, "durationMs": {"triggerExecution": took}}


def watching(told, cut=BEGUN + 0.1, begun=BEGUN + 0.3, time=None):
    triggers = Triggers()
    triggers.watch(lambda: told)
    triggers.after(3, cut, begun, batch(0.5) if time is None else time)
    return triggers


def test_what_comes_before_is_of_the_batch_and_what_comes_after_of_the_one_before():
    # Of 1.2 s the last batch had 0.2 before it and 0.5 of its own, so 0.5 are around that.
    found = watching(progress(3, 1200)).before(4, BEGUN + 5.0, BEGUN + 5.25)

    assert 0.25 + 0.5 == pytest.approx(found, abs=1e-6)


def test_what_a_trigger_took_around_a_batch_is_not_the_batch_own_time():
    told = watching(progress(3, 1200), time=batch(0.5, trigger=0.75))

    assert 0.75 == pytest.approx(told.before(4, BEGUN + 5.0, BEGUN + 5.25), abs=1e-6)


def test_for_how_long_a_plan_held_the_query_back_is_no_part_of_a_trigger():
    triggers = watching(progress(3, 3200))
    triggers.paused(2.0)

    assert 0.25 + 0.5 == pytest.approx(triggers.before(4, BEGUN + 5.0, BEGUN + 5.25), abs=1e-6)


UNKNOWN = {
    "the first batch": lambda: Triggers().before(4, BEGUN, BEGUN),
    "no progress yet": lambda: watching(None).before(4, BEGUN, BEGUN),
    "progress of another batch": lambda: watching(progress(2, 900)).before(4, BEGUN, BEGUN),
    "a batch was left out": lambda: watching(progress(3, 900)).before(5, BEGUN, BEGUN),
    "no time of the cut": lambda: watching(progress(3, 900)).before(4, None, BEGUN),
    "no time of the cut before": lambda: watching(progress(3, 900), cut=None).before(4, BEGUN, 0),
    "the batch before was cut by a query before": lambda: watching(
        progress(3, 900), cut=BEGUN - 60.0
    ).before(4, BEGUN, BEGUN),
    "no time of the trigger": lambda: watching({**progress(3, 900), "durationMs": {}}).before(
        4, BEGUN, BEGUN
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_cannot_be_known_is_absent(case):
    assert UNKNOWN[case]() is None


def test_nothing_is_known_after_a_batch_that_came_once_more():
    triggers = watching(progress(3, 1200))
    triggers.forget()

    assert triggers.before(4, BEGUN, BEGUN) is None


def test_nothing_is_known_after_a_batch_whose_time_is_not():
    triggers = watching(progress(3, 1200))
    triggers.after(4, BEGUN, BEGUN, None)

    assert triggers.before(5, BEGUN, BEGUN) is None
