"""The inflow of a job beside sources of which all is known: what came, was let in, and waits."""

import json
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import SourceStatistics
from optimizers.runtime.driver.inflow import Inflow


@dataclass
class Tap:
    """A source with a constant rate, in units a second since its begin."""

    rate: float = 2.0
    exact: bool = True
    born: float = 0.0
    known: bool = True
    late: float = 0.0
    asked: list = field(default_factory=list)

    def latest(self, now):
        self.asked.append(now)
        return max(0.0, now - self.late - self.born) * self.rate if self.known else None

    def age(self, now):
        return self.late

    def admitted(self, offset, tuples):
        return json.loads(offset)


class Clock:
    def __init__(self, now=100.0):
        self.now = now

    def __call__(self):
        return self.now


def watched(*taps, offsets=None, last=()):
    clock = Clock()
    inflow = Inflow(clock)
    meters = {name: (place, tap) for place, (name, tap) in enumerate(zip("ab", taps, strict=False))}
    inflow.watch(meters, len(taps) if offsets is None else offsets, last)
    return inflow, clock


STEPS = st.lists(
    st.tuples(st.floats(0.01, 50.0), st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=20
)


@given(STEPS, st.floats(0.1, 100.0), st.floats(0.01, 100.0))
def test_what_came_was_let_in_or_waits_in_any_epochs(steps, rate, size):
    tap = Tap(rate, born=100.0)
    inflow, clock = watched(tap)
    done = admitted = 0.0
    start, waited = 100.0, 0.0

    for seconds, share, ends in steps:
        clock.now += seconds
        units = ((clock.now - 100.0) * rate - done) * share
        done += units
        admitted += units * size
        inflow.add([json.dumps(done)], {"a": units * size})
        if not ends:
            continue
        found = inflow.end()["a"]
        waiting = ((clock.now - 100.0) * rate - done) * size
        arrived = (clock.now - start) * rate * size
        assert math.isclose(admitted, found.admitted, abs_tol=1e-6)
        assert math.isclose(clock.now - start, found.seconds, abs_tol=1e-9)
        if done and size * done > 1e-6:
            assert math.isclose(arrived, found.arrived, rel_tol=1e-6, abs_tol=1e-6)
            assert math.isclose(waiting, found.waiting, rel_tol=1e-6, abs_tol=1e-5)
            assert math.isclose(waited + arrived, admitted + waiting, rel_tol=1e-6, abs_tol=1e-4)
            assert math.isclose(rate * size, found.rate, rel_tol=1e-6)
        start, waited, admitted = clock.now, waiting, 0.0


def test_pauses_between_batches_count_as_time_in_which_tuples_arrive():
    inflow, clock = watched(Tap(rate=300.0, born=100.0))
    clock.now += 10.0  # of which the batch worked for two seconds, which no one asks about here

    inflow.add(["3000"], {"a": 3000.0})

    assert {"a": SourceStatistics(3000.0, 3000.0, 0.0, 10.0)} == inflow.end()


def test_nothing_arrives_before_a_source_is_there():
    inflow, clock = watched(Tap(rate=5.0, born=110.0))
    clock.now = 120.0
    inflow.add(["40"], {"a": 40.0})

    assert SourceStatistics(50.0, 40.0, 10.0, 10.0) == inflow.end()["a"]


def test_an_epoch_begins_where_it_is_begun():
    inflow, clock = watched(Tap(rate=5.0, born=100.0))
    clock.now = 110.0
    inflow.add(["20"], {"a": 20.0})
    inflow.begin()
    clock.now = 114.0
    inflow.add(["60"], {"a": 40.0})

    assert SourceStatistics(20.0, 40.0, 10.0, 4.0) == inflow.end()["a"]


def test_what_comes_between_two_epochs_is_in_the_second():
    inflow, clock = watched(Tap(rate=5.0, born=100.0))
    clock.now = 103.0
    inflow.begin()  # under the first plan
    clock.now = 110.0
    inflow.add(["20"], {"a": 20.0})
    assert SourceStatistics(50.0, 20.0, 30.0, 10.0) == inflow.end()["a"]
    clock.now = 112.0
    inflow.begin()  # under the plan that was decided meanwhile
    clock.now = 114.0
    inflow.add(["60"], {"a": 40.0})

    assert SourceStatistics(20.0, 40.0, 10.0, 4.0) == inflow.end()["a"]


def test_a_query_that_goes_on_begins_where_it_was():
    inflow, clock = watched(Tap(rate=5.0, born=0.0), last=("440",))
    clock.now = 102.0
    inflow.add(["480"], {"a": 80.0})

    assert SourceStatistics(20.0, 80.0, 60.0, 2.0) == inflow.end()["a"]


@pytest.mark.parametrize("sizes", [[1.0], [1.0, 1.5], [0.0, 1.0, 1.0]])
def test_how_many_tuples_wait_is_absent_where_batches_do_not_agree_on_it(sizes):
    inflow, clock = watched(Tap(rate=5.0, exact=False, born=100.0))
    clock.now = 110.0
    for number, size in enumerate(sizes, start=1):
        inflow.add([json.dumps(10 * number)], {"a": 10 * size})
    found = inflow.end()["a"]

    assert (None, None) == (found.arrived, found.waiting)
    assert 10 * sum(sizes) == found.admitted


def test_how_many_tuples_wait_is_known_where_batches_agree():
    inflow, clock = watched(Tap(rate=5.0, exact=False, born=100.0))
    clock.now = 110.0
    for number, size in enumerate([1.0, 1.08, 0.92], start=1):
        inflow.add([json.dumps(10 * number)], {"a": 10 * size})

    assert pytest.approx(20.0) == inflow.end()["a"].waiting


def test_that_nothing_waits_is_known_whatever_a_unit_is():
    inflow, clock = watched(Tap(rate=5.0, exact=False, born=100.0))
    clock.now = 110.0
    inflow.add(["50"], {"a": 7.0})

    found = inflow.end()["a"]
    assert (None, 7.0, 0.0) == (found.arrived, found.admitted, found.waiting)


def test_a_source_that_tells_nothing_has_let_in_what_it_has():
    inflow, clock = watched(Tap(known=False))
    clock.now = 110.0
    inflow.add(["50"], {"a": 7.0})

    assert SourceStatistics(None, 7.0, None, 10.0) == inflow.end()["a"]


def test_several_sources_have_their_own_offsets():
    inflow, clock = watched(Tap(rate=1.0, born=100.0), Tap(rate=10.0, born=100.0))
    clock.now = 104.0
    inflow.add(["4", "20"], {"a": 8.0, "b": 60.0})

    assert {
        "a": SourceStatistics(8.0, 8.0, 0.0, 4.0),
        "b": SourceStatistics(120.0, 60.0, 60.0, 4.0),
    } == inflow.end()


def test_streams_that_are_one_to_spark_are_not_told_apart():
    inflow, clock = watched(Tap(), Tap())
    clock.now = 104.0
    inflow.add(["4"], {"a": 8.0, "b": 60.0})

    assert {} == inflow.end()


def test_without_sources_nothing_is_told():
    inflow = Inflow()
    inflow.add([], {"a": 3.0})
    inflow.begin()

    assert {} == inflow.end()


class TestOfSourcesThatWereSeenSomeTimeAgo:
    """Of which the last look was three seconds before the end of each epoch."""

    def test_what_arrived_is_told_from_look_to_look(self):
        inflow, clock = watched(Tap(rate=5.0, born=100.0, late=3.0))
        clock.now = 113.0  # it was seen at 110
        inflow.add(["40"], {"a": 40.0})
        first = inflow.end()["a"]
        assert (50.0, 10.0) == (first.arrived, first.seconds)

        clock.now = 133.0
        inflow.add(["140"], {"a": 100.0})

        second = inflow.end()["a"]
        assert (100.0, 20.0, 100.0) == (second.arrived, second.seconds, second.admitted)

    def test_what_waits_is_told_where_it_can_have_changed_by_a_tenth_at_most(self):
        found = {}
        for waiting in (160, 149, 0):
            inflow, clock = watched(Tap(rate=5.0, born=100.0, late=3.0))
            clock.now = 203.0
            inflow.add([str(500 - waiting)], {"a": 500.0 - waiting})
            found[waiting] = inflow.end()["a"].waiting

        # Fifteen tuples may have come since.
        assert {160: 160.0, 149: None, 0: None} == found

    def test_what_waits_is_not_told_where_it_is_not_known_how_much_comes(self):
        inflow, clock = watched(Tap(rate=5.0, born=100.0, late=3.0, known=False))
        clock.now = 203.0
        inflow.add(["100"], {"a": 100.0})

        assert SourceStatistics(None, 100.0, None, 103.0) == inflow.end()["a"]
