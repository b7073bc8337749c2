"""Online shuffle grouping: each half against what it says it does, in the obvious, slow way."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import Fields, OnlineShuffle, PartialKey
from grouping.scheduling.online_shuffle.costs import EstimatedCosts, KeyPlaces, MeasuredCosts
from grouping.scheduling.online_shuffle.instance import CostWatch
from grouping.scheduling.online_shuffle.loads import Loads
from grouping.scheduling.online_shuffle.messages import Answer, Matrices, Question
from grouping.scheduling.online_shuffle.scheduler import OnlineShuffleDispatcher
from sketches.cost_sketch import CostSketch
from sketches.errors import InvalidValueError
from sketches.keys import IntegerKeys
from sketches.row_hashes import RowHashes

CODES = st.integers(0, 9) | st.integers(0, (1 << 64) - 1)
SECONDS = st.integers(0, 64).map(lambda milliseconds: milliseconds / 1000)
SHAPES = {"width": st.integers(1, 9), "depth": st.integers(1, 4), "seed": st.integers(0, 99)}
shapes = st.fixed_dictionaries(SHAPES)


def column(codes):
    return IntegerKeys(np.array(codes, dtype=np.uint64))


def state(dispatcher):
    return dispatcher.state.name


# The matrices, against CostSketch.


@given(shapes, st.lists(CODES, max_size=20))
def test_a_key_has_its_cells_where_the_sketches_hash_it_to(shape, codes):
    places = KeyPlaces(**shape)

    expected = [
        [row * shape["width"] + columns for row, columns in enumerate(of_key)]
        for _, part in RowHashes(**shape).columns(column(codes).codes)
        for of_key in part.T.tolist()
    ]

    assert expected == [list(places[code]) for code in codes]


@given(shapes, st.lists(st.tuples(CODES, SECONDS), min_size=1, max_size=40), st.lists(CODES))
def test_estimates_are_those_of_the_cost_sketch(shape, tuples, unseen):
    sketch, measured = CostSketch(**shape), MeasuredCosts(**shape)
    for code, seconds in tuples:
        sketch.update(column([code]), [seconds])
    measured.measure(*zip(*tuples, strict=True))
    sent = measured.matrices(instance=3, number=8)
    estimated = EstimatedCosts(sent, KeyPlaces(**shape))

    asked = [code for code, _ in tuples] + unseen
    expected = sketch.estimate(column(asked)).tolist()

    assert expected == pytest.approx([estimated[code] for code in asked], rel=1e-12)
    assert expected == pytest.approx([estimated[code] for code in asked], rel=1e-12)
    assert (3, 8) == (sent.instance, sent.number)


def test_what_is_remembered_of_keys_stays_small_and_right(monkeypatch):
    monkeypatch.setattr("grouping.scheduling.online_shuffle.costs._MOST_KEYS", 10)
    measured = MeasuredCosts(5, 3)
    codes = list(range(200))
    measured.measure(codes, [code / 7 for code in codes])
    places = KeyPlaces(width=5, depth=3, seed=0)
    estimated = EstimatedCosts(measured.matrices(instance=0, number=1), places)

    for _ in range(2):
        assert measured.estimate(codes).tolist() == [estimated[code] for code in codes]
        assert len(estimated) <= 10
        assert len(places) <= 10


def test_a_key_that_was_never_seen_costs_the_mean_and_not_nothing():
    sent = Matrices(0, 1, counts=(2, 0), costs=(6, 0), mean=3)
    places = KeyPlaces(width=2, depth=1, seed=0)
    estimated = EstimatedCosts(sent, places)
    empty = next(code for code in range(99) if places[code] == (1,))

    assert sent.mean == estimated[empty]


# The order of loads, against looking through all.


class SlowLoads:
    """Loads in a list, looked through whenever the least is asked for."""

    def __init__(self, count, first):
        self.loads = [0] * count
        self.turns = [(each - first) % count for each in range(count)]

    def least(self):
        return min(range(len(self.loads)), key=lambda i: (self.loads[i], self.turns[i]))

    def give(self, instance, load):
        self.loads[instance] += load
        self.turns[instance] = max(self.turns) + 1

    def change(self, instance, load):
        self.loads[instance] += load


@given(
    st.integers(1, 5),
    st.integers(0, 4),
    st.lists(
        st.tuples(
            st.sampled_from(["give", "change", "least"]), st.integers(0, 4), st.integers(0, 3)
        ),
        max_size=200,
    ),
)
def test_the_least_is_found_and_of_equals_whose_turn_is_longest_ago(count, first, steps):
    slow, fast = SlowLoads(count, first), Loads([0] * count, first=first)
    for what, instance, load in steps:
        if what == "least":
            slow.give(slow.least(), load)
            fast.give(fast.least, load)
        else:
            amount = load - 2 if what == "change" else load
            getattr(slow, what)(instance % count, amount)
            getattr(fast, what)(instance % count, amount)

        assert slow.least() == fast.least
        assert slow.loads == fast.all
        assert slow.loads == [fast[each] for each in range(count)]


def test_entries_that_no_longer_hold_do_not_pile_up():
    loads = Loads([0.0] * 3)
    for _ in range(1_000):
        loads.change(2, 1.0)

    assert len(loads._heap) < 40  # noqa: SLF001  # nothing else shows what is kept
    assert [0.0, 0.0, 1_000.0] == loads.all


# The instance's half, against the definition of η with exact sums.


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

    letters = instance.executed(0, 7, 1.0, 30.0, Question(4, 2.5))

    assert [(0, Answer(instance=1, epoch=4, delta=0.5))] == letters


def test_by_the_clock_on_the_wall_an_answer_counts_idle_time_since_the_first_tuple_began():
    instance = OnlineShuffle(wall_clock=True).reporter(1, instances=2, senders=2)
    instance.executed(0, 7, 2.0, 10.0, None)

    letters = instance.executed(1, 7, 1.0, 30.0, Question(4, 2.5))

    assert [(1, Answer(instance=1, epoch=4, delta=22.0 - 2.5))] == letters


# The scheduler's half, by hand: two instances, as in figure 1 of the paper.


class Cheap:
    """Keys by their cell in matrices of one row of two cells."""

    shape = {"width": 2, "depth": 1, "seed": 0}  # noqa: RUF012  # never written to
    places = KeyPlaces(**shape)
    a = next(code for code in range(99) if KeyPlaces(width=2, depth=1, seed=0)[code] == (0,))
    b = next(code for code in range(99) if KeyPlaces(width=2, depth=1, seed=0)[code] == (1,))


def matrices(instance, number=1, *, a=1.0, b=10.0):
    return Matrices(instance, number, counts=(1, 1), costs=(a, b), mean=(a + b) / 2)


def test_a_scheduler_goes_through_its_states_as_worked_out_by_hand():
    a, b = Cheap.a, Cheap.b
    scheduler = OnlineShuffle(**Cheap.shape, window=1024).dispatcher(2)

    # Nothing is known: in turn, and nothing is charged.
    assert [(0, None), (1, None), (0, None)] == [scheduler.dispatch(c, 0.0) for c in (a, b, b)]
    scheduler.receive(matrices(1), 1.0)
    assert (1, None) == scheduler.dispatch(b, 1.0)
    assert ("ROUND_ROBIN", [0.0, 0.0]) == (state(scheduler), scheduler.estimates)

    # Matrices of both: the next two tuples ask, each is charged first.
    scheduler.receive(matrices(0, a=2.0), 2.0)
    assert "SEND_ALL" == state(scheduler)
    assert (0, Question(1, 10.0)) == scheduler.dispatch(b, 2.0)
    # An answer that comes while others are still asked is kept (it is lost in their program).
    scheduler.receive(Answer(0, 1, 1.5), 2.5)
    assert (1, Question(1, 1.0)) == scheduler.dispatch(a, 3.0)
    assert ("WAIT_ALL", [10.0, 1.0]) == (state(scheduler), scheduler.estimates)

    # To the least estimate, while the other answer is awaited; nothing is corrected before.
    assert (1, None) == scheduler.dispatch(b, 3.0)
    assert (0, None) == scheduler.dispatch(a, 3.0)
    assert (1, None) == scheduler.dispatch(a, 3.0)
    assert [12.0, 12.0] == scheduler.estimates
    scheduler.receive(Answer(1, 1, -4.0), 4.0)
    assert ("RUN", [13.5, 8.0]) == (state(scheduler), scheduler.estimates)

    assert [(1, None), (0, None)] == [scheduler.dispatch(b, 5.0) for _ in range(2)]
    assert [23.5, 18.0] == scheduler.estimates

    # New matrices of one instance: its costs are new at once, and all are asked again.
    scheduler.receive(matrices(1, 2, b=20.0), 6.0)
    assert ("SEND_ALL", 2) == (state(scheduler), scheduler.epoch)
    assert (0, Question(2, 33.5)) == scheduler.dispatch(b, 6.0)
    assert (1, Question(2, 38.0)) == scheduler.dispatch(b, 6.0)


@pytest.fixture
def waiting():
    """A scheduler that has asked its two instances in epoch 1."""
    scheduler = OnlineShuffle(**Cheap.shape, window=3).dispatcher(2)
    scheduler.receive(matrices(0), 0.0)
    scheduler.receive(matrices(1), 0.0)
    scheduler.dispatch(Cheap.a, 0.0)
    scheduler.dispatch(Cheap.a, 0.0)
    return scheduler


def test_an_answer_counts_once_and_only_in_its_epoch(waiting):
    waiting.receive(matrices(0, 2), 0.0)
    waiting.dispatch(Cheap.a, 0.0)
    waiting.dispatch(Cheap.a, 0.0)

    for answer in (Answer(0, 1, 90.0), Answer(0, 2, 1.0), Answer(0, 2, 70.0), Answer(1, 1, 80.0)):
        waiting.receive(answer, 0.0)
    assert ("WAIT_ALL", [2.0, 2.0]) == (state(waiting), waiting.estimates)

    waiting.receive(Answer(1, 2, 4.0), 0.0)
    assert ("RUN", [3.0, 6.0]) == (state(waiting), waiting.estimates)

    waiting.receive(Answer(1, 2, 60.0), 0.0)
    waiting.receive(Answer(0, 3, 60.0), 0.0)
    assert ("RUN", [3.0, 6.0]) == (state(waiting), waiting.estimates)


def test_matrices_that_are_not_newer_are_passed_over(waiting):
    waiting.receive(matrices(0, 2, a=5.0), 0.0)
    epoch = waiting.epoch

    for number in (1, 2):
        waiting.receive(matrices(0, number, a=50.0), 0.0)

    assert epoch == waiting.epoch
    assert (0, Question(2, 1.0 + 5.0)) == waiting.dispatch(Cheap.a, 0.0)


def test_an_instance_that_does_not_answer_is_asked_again_in_the_same_epoch(waiting):
    waiting.receive(Answer(1, 1, 100.0), 0.0)

    sent = [waiting.dispatch(Cheap.a, 0.0) for _ in range(8)]

    assert [None] * 6 == [question for _, question in sent[:6]]
    assert (0, Question(1, 5.0)) == sent[6]
    assert (1, None) == sent[7]
    # The answer to the first question still counts, whenever it comes.
    waiting.receive(Answer(0, 1, 0.5), 0.0)
    assert ("RUN", [5.5, 105.0]) == (state(waiting), waiting.estimates)


def test_an_answer_that_comes_just_before_asking_again_spares_the_question():
    scheduler = OnlineShuffle(**Cheap.shape, window=1).dispatcher(3)
    for instance in range(3):
        scheduler.receive(matrices(instance), 0.0)
    for _ in range(6):
        scheduler.dispatch(Cheap.a, 0.0)
    assert "SEND_ALL" == state(scheduler)

    scheduler.receive(Answer(0, 1, 1.0), 0.0)
    assert (1, Question(1, 3.0)) == scheduler.dispatch(Cheap.a, 0.0)
    scheduler.receive(Answer(2, 1, 1.0), 0.0)
    assert "WAIT_ALL" == state(scheduler)
    assert None is scheduler.dispatch(Cheap.a, 0.0)[1]


def test_all_answers_may_come_before_all_are_asked_again(waiting):
    for _ in range(6):
        waiting.dispatch(Cheap.a, 0.0)
    assert "SEND_ALL" == state(waiting)

    waiting.receive(Answer(0, 1, 1.0), 0.0)
    waiting.receive(Answer(1, 1, 2.0), 0.0)

    assert ("RUN", [5.0, 6.0]) == (state(waiting), waiting.estimates)
    assert (0, None) == waiting.dispatch(Cheap.a, 0.0)


@pytest.mark.parametrize(("resync", "epochs"), [(None, 1), (5, 2)])
def test_estimates_are_synchronised_now_and_then_if_that_is_asked_for(resync, epochs):
    scheduler = OnlineShuffle(**Cheap.shape, window=3, resync=resync).dispatcher(2)
    scheduler.receive(matrices(0), 0.0)
    scheduler.receive(matrices(1), 0.0)
    for instance in range(2):
        scheduler.dispatch(Cheap.a, 0.0)
        scheduler.receive(Answer(instance, 1, 0.0), 0.0)

    asked = [scheduler.dispatch(Cheap.a, 0.0)[1] for _ in range(11)]

    assert [None] * 10 == asked[:10]
    assert epochs == scheduler.epoch
    assert (asked[10] is None) == (resync is None)


@pytest.mark.parametrize("sender", [0, 1, 2])
def test_senders_begin_with_different_instances(sender):
    scheduler = OnlineShuffle(**Cheap.shape).dispatcher(3, sender=sender, senders=3)
    turn = [sender, (sender + 1) % 3, (sender + 2) % 3]

    assert turn * 2 == [scheduler.dispatch(Cheap.a, 0.0)[0] for _ in range(6)]
    for instance in range(3):
        scheduler.receive(matrices(instance), 0.0)
    assert turn == [scheduler.dispatch(Cheap.a, 0.0)[0] for _ in range(3)]


def test_of_equal_estimates_the_turn_that_is_longest_ago_and_not_the_lowest_number(waiting):
    for instance in range(2):
        waiting.receive(Answer(instance, 1, 0.0), 0.0)

    sent = [waiting.dispatch(code, 0.0)[0] for code in (Cheap.b, Cheap.b, Cheap.a, Cheap.a)]

    assert [0, 1, 0, 1] == sent


def test_a_correction_is_no_turn(waiting):
    waiting.dispatch(Cheap.a, 0.0)
    waiting.receive(Answer(0, 1, 0.0), 0.0)
    waiting.receive(Answer(1, 1, 1.0), 0.0)

    assert [2.0, 2.0] == waiting.estimates
    assert (1, None) == waiting.dispatch(Cheap.a, 0.0)


# Refusals: each names the value, and changes nothing.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"window": 0}, "window=0"),
        ({"window": 1 << 25}, "window=33554432"),
        ({"window": 1.5}, "window=1.5"),
        ({"tolerance": -0.1}, "tolerance=-0.1"),
        ({"tolerance": math.nan}, "tolerance=nan"),
        ({"tolerance": math.inf}, "tolerance=inf"),
        ({"width": 0}, "width=0"),
        ({"depth": 256}, "depth=256"),
        ({"seed": -1}, "seed=-1"),
        ({"resync": 0}, "resync=0"),
        ({"resync": True}, "resync=True"),
        ({"wall_clock": 1}, "wall_clock=1"),
    ],
)
def test_a_parameter_out_of_range_is_refused(arguments, words):
    with pytest.raises(InvalidValueError, match=words):
        OnlineShuffle(**arguments)


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
        ({"carried": Answer(0, 1, 0.0)}, "carried=Answer.*of one grouping"),
        ({"now": math.nan}, "now=nan"),
    ],
)
def test_what_cannot_have_been_executed_is_refused_and_not_counted(changed, words):
    tuples = {"sender": 0, "code": 7, "seconds": 1.0, "now": 5.0, "carried": None}
    grouping = OnlineShuffle(window=1, wall_clock=True)
    instance, twin = (grouping.reporter(0, instances=1, senders=2) for _ in range(2))

    with pytest.raises(InvalidValueError, match=words):
        instance.executed(**{**tuples, **changed})

    later = [{**tuples, "seconds": 3.0, "now": 9.0}, {**tuples, "carried": Question(1, 0.5)}]
    assert [twin.executed(**each) for each in later] == [instance.executed(**e) for e in later]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "None is neither matrices nor an answer"),
        (Question(1, 0.0), "Question.*of one grouping"),
        (matrices(2, 9), "instance=2"),
        (Answer(2, 1, 0.0), "instance=2"),
        (Matrices(0, 9, (1, 1, 1), (1, 1, 1), 1), "3 cells came where there are 2; give"),
    ],
)
def test_what_no_instance_can_have_sent_is_refused(waiting, message, words):
    with pytest.raises(InvalidValueError, match=words):
        waiting.receive(message, 0.0)

    assert ("WAIT_ALL", 1, [1.0, 1.0]) == (state(waiting), waiting.epoch, waiting.estimates)


@pytest.mark.parametrize("code", [-1, 1 << 64, None, 1.0])
def test_a_code_that_is_none_is_refused_and_nothing_is_sent(code):
    scheduler = OnlineShuffleDispatcher(2, KeyPlaces(**Cheap.shape))
    scheduler.receive(matrices(0), 0.0)
    scheduler.receive(matrices(1), 0.0)

    for expected in (Question(1, 1.0), Question(1, 1.0), None):
        with pytest.raises(InvalidValueError, match=f"code={code!r} is not the code of a key"):
            scheduler.dispatch(code, 0.0)
        assert expected == scheduler.dispatch(Cheap.a, 0.0)[1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Question(0, 1.0), "epoch=0"),
        (lambda: Question(1, math.nan), "estimate=nan"),
        (lambda: Answer(-1, 1, 0.0), "instance=-1"),
        (lambda: Answer(0, 0, 0.0), "epoch=0"),
        (lambda: Answer(0, 1, math.inf), "delta=inf"),
        (lambda: Matrices(-1, 1, (1,), (1,), 1), "instance=-1"),
        (lambda: Matrices(0, 0, (1,), (1,), 1), "number=0"),
        (lambda: Matrices(0, 1, (-1,), (1,), 1), r"counts\[0\]=-1"),
        (lambda: Matrices(0, 1, (1,), (math.nan,), 1), r"costs\[0\]=nan"),
        (lambda: Matrices(0, 1, (1,), (1, 2), 1), "costs of shape"),
        (lambda: Matrices(0, 1, (1,), (1,), -1), "mean=-1.0 is negative"),
        (lambda: Matrices(0, 1, (1,), (1,), math.nan), "mean=nan"),
    ],
)
def test_a_message_that_means_nothing_cannot_be_made(make, words):
    with pytest.raises(InvalidValueError, match=words):
        make()


def test_a_grouping_that_does_not_listen_says_so():
    for grouping in (Fields(), PartialKey()):
        assert not grouping.listens
        with pytest.raises(InvalidValueError, match=f"a {grouping.kind} grouping hears nothing"):
            grouping.dispatcher(3)
