"""The instance's half: when costs have settled, against the definition with exact sums."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from online_shuffle_messages import column, shapes

from grouping.groupings import OnlineShuffle
from grouping.scheduling.online_shuffle.costs import EstimatedCosts, KeyPlaces, MeasuredCosts
from grouping.scheduling.online_shuffle.instance import CostWatch
from grouping.scheduling.online_shuffle.messages import LoadAnswer, LoadQuestion
from sketches.cost_sketch import CostSketch
from sketches.errors import InvalidValueError


def slow_letters(tuples, window, tolerance, shape):
    """After which tuples matrices are sent, and of which tuples they are."""
    sent, since, snapshot = [], [], None
    for number, each in enumerate(tuples):
        since.append(each)
        if len(since) % window:
            continue
        sketch = CostSketch(**shape)
        for code, seconds in since:
            sketch.update(column([code]), [seconds])
        now = sketch.averages()
        if snapshot is not None:
            change, norm = abs(snapshot - now).sum(), snapshot.sum()
            if change == 0 or (norm > 0 and change / norm <= tolerance):
                sent.append((number, tuple(since), sketch))
                since, snapshot = [], None
                continue
        snapshot = now
    return sent


@given(
    shapes,
    st.integers(1, 6),
    st.sampled_from([0.0, 0.05, 0.3, 9.0]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60),
)
def test_matrices_are_sent_once_costs_have_settled_and_begin_anew(shape, window, tolerance, tuples):
    grouping = OnlineShuffle(window=window, tolerance=tolerance, **shape)
    instance = grouping.reporter(2, instances=3, senders=2)

    sent = []
    for number, (code, seconds) in enumerate(tuples):
        letters = instance.executed(number % 2, code, seconds, float(number), None)
        if letters:
            assert [0, 1] == [sender for sender, _ in letters]
            assert letters[0][1] == letters[1][1]
            sent.append((number, letters[0][1]))

    expected = slow_letters(tuples, window, tolerance, shape)
    assert [number for number, _, _ in expected] == [number for number, _ in sent]
    assert [*range(1, len(sent) + 1)] == [matrices.number for _, matrices in sent]
    for (_, since, sketch), (_, matrices) in zip(expected, sent, strict=True):
        estimated = EstimatedCosts(matrices, KeyPlaces(**shape))
        codes = [code for code, _ in since]
        assert sketch.estimate(column(codes)).tolist() == pytest.approx(
            [estimated[code] for code in codes], rel=1e-12
        )
        assert len(since) == sum(matrices.counts[: shape["width"]])


def test_costs_that_move_more_than_tolerated_are_compared_with_the_latest_snapshot():
    watch = CostWatch(MeasuredCosts(1, 1), window=1, tolerance=0.25)

    # Means 1, 2, 2.5: a change of 1 of 1 is too much, one of 0.5 of 2 is not.
    assert [False, False, True] == [watch.settled_with(7, cost) for cost in (1.0, 3.0, 3.5)]


def test_an_answer_is_the_work_for_the_sender_that_asked_less_its_estimate():
    instance = OnlineShuffle().reporter(1, instances=2, senders=2)
    instance.executed(0, 7, 2.0, 10.0, None)
    instance.executed(1, 7, 5.0, 15.0, None)

    letters = instance.executed(0, 7, 1.0, 30.0, LoadQuestion(4, 2.5))

    assert [(0, LoadAnswer(instance=1, epoch=4, delta=0.5))] == letters


def test_by_the_clock_on_the_wall_an_answer_counts_idle_time_since_the_first_tuple_began():
    instance = OnlineShuffle(wall_clock=True).reporter(1, instances=2, senders=2)
    instance.executed(0, 7, 2.0, 10.0, None)

    letters = instance.executed(1, 7, 1.0, 30.0, LoadQuestion(4, 2.5))

    assert [(1, LoadAnswer(instance=1, epoch=4, delta=22.0 - 2.5))] == letters


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seconds": math.nan}, "seconds=nan"),
        ({"seconds": -1.0}, r"seconds=-1.0 is out of range; it must be in \[0"),
        ({"seconds": math.inf}, "seconds=inf"),
        ({"seconds": None}, "seconds=None"),
        ({"sender": 2}, "sender=2"),
        ({"code": -1}, "code=-1 is not the code of a key.*as_keys"),
        ({"code": 1 << 64}, "code=18446744073709551616"),
        ({"code": "k"}, "code='k'"),
        ({"carried": LoadAnswer(0, 1, 0.0)}, "carried=LoadAnswer.*of one grouping"),
        ({"now": math.nan}, "now=nan"),
    ],
)
def test_what_cannot_have_been_executed_is_refused_and_not_counted(changed, words):
    tuples = {"sender": 0, "code": 7, "seconds": 1.0, "now": 5.0, "carried": None}
    grouping = OnlineShuffle(window=1, wall_clock=True)
    instance, twin = (grouping.reporter(0, instances=1, senders=2) for _ in range(2))

    with pytest.raises(InvalidValueError, match=words):
        instance.executed(**{**tuples, **changed})

    later = [{**tuples, "seconds": 3.0, "now": 9.0}, {**tuples, "carried": LoadQuestion(1, 0.5)}]
    assert [twin.executed(**each) for each in later] == [instance.executed(**e) for e in later]
