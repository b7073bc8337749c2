"""Output buffers: nothing lost, nothing doubled, no batch for two instances, in order."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from buffer_laws import RULES, check_once, check_order, streams
from hypothesis import given
from hypothesis import strategies as st

from batching.buffers import FlushRules, OfColumns, OutputBuffers, PoolBuffers, pools_of
from batching.errors import DataflowError
from sketches.errors import InvalidValueError


def run(stream, rules, *, shared):
    """Send a stream, a piece each second, and return all batches with the time of each."""
    instances, alike, pieces = stream.instances, stream.alike, stream.pieces
    buffers = OutputBuffers(instances, rules, shared=shared, alike=alike)
    sent = []
    for now, (columns, targets, sizes) in enumerate(pieces):
        sent += [(now, batch) for batch in buffers.due(now)]
        sent += [(now, each) for each in buffers.add(columns, targets, sizes=sizes, now=now)]
    return buffers, [*sent, *((len(pieces), batch) for batch in buffers.end())]


def received(sent):
    found = defaultdict(list)
    for _, batch in sent:
        for receiver in batch.receivers:
            found[receiver] += batch.columns["number"].tolist()
    return found


@given(streams(), RULES)
def test_distinct_batches_bring_each_instance_its_tuples_in_their_order(stream, rules):
    _, sent = run(stream, rules, shared=False)

    check_order(stream, received(sent))


@given(streams(), RULES)
def test_shared_batches_bring_each_instance_its_tuples_once(stream, rules):
    _, sent = run(stream, rules, shared=True)

    check_once(stream, received(sent))
    for _, batch in sent:
        assert [*range(len(stream.instances))] == sorted(
            consumer for consumer, _ in batch.receivers
        )
    together = defaultdict(list)
    for _, batch in sent:
        together[batch.receivers] += batch.columns["number"].tolist()
    assert all(numbers == sorted(numbers) for numbers in together.values())


@given(streams(), RULES, st.booleans())
def test_batches_leave_by_the_first_rule_that_applies(stream, rules, shared):
    _, sent = run(stream, rules, shared=shared)

    last = len(stream.pieces)
    came = {
        int(number): now for now, piece in enumerate(stream.pieces) for number in piece[0]["number"]
    }
    for now, batch in sent:
        size = batch.columns["size"]
        assert 1 <= len(batch) <= rules.rows
        if rules.bytes is not None:
            assert size[:-1].sum() < rules.bytes  # no tuple comes to a batch that is full
        full = len(batch) == rules.rows or (rules.bytes is not None and size.sum() >= rules.bytes)
        assert full == (batch.cause in {"rows", "bytes"})
        assert (len(batch) == rules.rows) == (batch.cause == "rows")
        waited = now - came[int(batch.columns["number"][0])]
        due = rules.seconds is not None and waited >= rules.seconds
        assert due or batch.cause != "seconds"
        assert full or due or now == last
        if rules.seconds is not None and now < last:
            assert waited < rules.seconds + 1  # it is looked once a second


@given(streams(), RULES)
def test_there_are_as_many_buffers_as_the_paper_says(stream, rules):
    instances, alike = stream.instances, stream.alike
    apart = instances[1:] if alike else instances

    assert sum(apart) == run(stream, rules, shared=False)[0].count
    assert np.prod(apart) == run(stream, rules, shared=True)[0].count


@given(streams(), st.booleans())
def test_pools_say_who_gets_which_tuples_in_which_order(stream, shared):
    instances, alike, pieces = stream.instances, stream.alike, stream.pieces
    columns, targets, _ = pieces[0]
    pools = pools_of(instances, shared=shared, alike=alike)

    found = defaultdict(list)
    for pool in pools:
        order, starts = pool.sort([targets[group[0]] for group in pool.groups])
        assert (len(order), pool.count + 1) == (len(columns["number"]), len(starts))
        for place, (start, end) in enumerate(pairwise(starts.tolist())):
            assert [*order[start:end]] == sorted(order[start:end])
            for who in pool.receivers(place):
                found[who] += columns["number"][order[start:end]].tolist()

    mine = replace(stream, pieces=pieces[:1]).expected
    everyone = {(number, one) for number, count in enumerate(instances) for one in range(count)}
    assert everyone == set(found)
    assert {who: sorted(got) for who, got in found.items() if got} == mine


def test_consumers_that_are_alike_get_one_batch():
    buffers = OutputBuffers([2, 2, 3], FlushRules(rows=1), alike=[(0, 1)])

    sent = buffers.add({"x": np.array([5])}, [np.array([1]), np.array([1]), np.array([2])])

    assert [((0, 1), (1, 1)), ((2, 2),)] == [batch.receivers for batch in sent]


ONE = {"x": np.array([1, 2])}
TO = [np.array([0, 1])]


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: OutputBuffers([], FlushRules(1)), DataflowError, "without a consumer"),
        (lambda: OutputBuffers([0], FlushRules(1)), InvalidValueError, r"instances\[0\]=0"),
        (lambda: FlushRules(0), InvalidValueError, "rows=0"),
        (lambda: FlushRules(1, bytes=0.0), InvalidValueError, "bytes=0.0"),
        (
            lambda: OutputBuffers([2, 3], FlushRules(1), alike=[(0, 1)]),
            DataflowError,
            r"have \[2, 3\] instances",
        ),
        (
            lambda: OutputBuffers([2], FlushRules(1), alike=[(0, 1)]),
            DataflowError,
            "names consumer 1",
        ),
        (lambda: OutputBuffers([2, 2], FlushRules(1)).add(ONE, TO), InvalidValueError, "there are"),
        (
            lambda: OutputBuffers([1], FlushRules(1)).add(ONE, TO),
            InvalidValueError,
            r"targets\[0\]\[1\]=1: consumer 0 has 1 instances",
        ),
        (
            lambda: OutputBuffers([2], FlushRules(1)).add(ONE, [np.array([0])]),
            InvalidValueError,
            r"targets\[0\] has 1 elements for 2 tuples",
        ),
        (
            lambda: OutputBuffers([2], FlushRules(1, bytes=5.0)).add(ONE, TO),
            InvalidValueError,
            "sizes=None",
        ),
    ],
)
def test_what_means_nothing_is_refused(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_the_first_tuple_waits_no_longer_than_it_may():
    buffers = OutputBuffers([1], FlushRules(rows=9, seconds=2.0))
    buffers.add({"x": np.array([1])}, [np.array([0])], now=0.0)
    buffers.add({"x": np.array([2])}, [np.array([0])], now=1.5)

    assert [] == buffers.due(1.9)
    assert [[1, 2]] == [batch.columns["x"].tolist() for batch in buffers.due(2.0)]
    assert [] == buffers.due(9.0)


def test_what_waits_does_not_change_with_the_columns_that_it_came_in():
    buffers, numbers = OutputBuffers([1], FlushRules(rows=9)), np.array([1, 2])
    buffers.add({"x": numbers}, [np.array([0, 0])])

    numbers[:] = 7

    assert [[1, 2]] == [batch.columns["x"].tolist() for batch in buffers.end()]


@given(streams(), RULES)
def test_what_leaves_at_once_is_what_would_leave_by_and_by(stream, rules):
    instances, alike, pieces = stream.instances, stream.alike, stream.pieces
    columns, targets, sizes = pieces[0]
    for pool in pools_of(instances, alike=alike):
        whose = [targets[group[0]] for group in pool.groups]
        one, other = (PoolBuffers(pool, rules, OfColumns()) for _ in range(2))
        first = [*one.add(columns, whose, sizes=sizes, ends=True), *one.end()]
        second = [*other.add(columns, whose, sizes=sizes), *other.end()]

        assert [each.place for each in first] == sorted(each.place for each in first)
        found = [
            [(each.place, each.cause, each.tuples["number"].tolist()) for each in sent]
            for sent in (first, sorted(second, key=lambda each: each.place))
        ]
        assert found[0] == found[1]


def test_at_the_end_all_leaves_that_waited():
    (pool,) = pools_of([2])
    buffers = PoolBuffers(pool, FlushRules(rows=9), OfColumns())
    assert [] == [*buffers.add({"x": np.array([1])}, [np.array([0])])]

    sent = [*buffers.add({"x": np.array([2])}, [np.array([1])], ends=True)]

    assert {(0, 1), (1, 2)} == {(each.place, int(each.tuples["x"][0])) for each in sent}
    assert ["end"] * 2 == [each.cause for each in sent]
    assert [] == [*buffers.end()]


def test_batches_come_in_the_order_in_which_they_fill_up():
    buffers = OutputBuffers([2], FlushRules(rows=1))

    sent = buffers.add({"x": np.array([1, 2, 3])}, [np.array([1, 0, 1])])

    assert [1, 2, 3] == [int(batch.columns["x"][0]) for batch in sent]
