"""The scheduler's half: two instances by hand, as in figure 1 of the paper."""

import pytest
from online_shuffle_messages import Cheap, matrices

from grouping.groupings import OnlineShuffle
from grouping.scheduling.online_shuffle.costs import KeyPlaces
from grouping.scheduling.online_shuffle.messages import LoadAnswer, LoadQuestion, Matrices
from grouping.scheduling.online_shuffle.scheduler import OnlineShuffleDispatcher
from sketches.errors import InvalidValueError


def state(dispatcher):
    return dispatcher.state.name


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
    assert (0, LoadQuestion(1, 10.0)) == scheduler.dispatch(b, 2.0)
    # An answer that comes while others are still asked is kept (it is lost in their program).
    scheduler.receive(LoadAnswer(0, 1, 1.5), 2.5)
    assert (1, LoadQuestion(1, 1.0)) == scheduler.dispatch(a, 3.0)
    assert ("WAIT_ALL", [10.0, 1.0]) == (state(scheduler), scheduler.estimates)

    # To the least estimate, while the other answer is awaited; nothing is corrected before.
    assert (1, None) == scheduler.dispatch(b, 3.0)
    assert (0, None) == scheduler.dispatch(a, 3.0)
    assert (1, None) == scheduler.dispatch(a, 3.0)
    assert [12.0, 12.0] == scheduler.estimates
    scheduler.receive(LoadAnswer(1, 1, -4.0), 4.0)
    assert ("RUN", [13.5, 8.0]) == (state(scheduler), scheduler.estimates)

    assert [(1, None), (0, None)] == [scheduler.dispatch(b, 5.0) for _ in range(2)]
    assert [23.5, 18.0] == scheduler.estimates

    # New matrices of one instance: its costs are new at once, and all are asked again.
    scheduler.receive(matrices(1, 2, b=20.0), 6.0)
    assert ("SEND_ALL", 2) == (state(scheduler), scheduler.epoch)
    assert (0, LoadQuestion(2, 33.5)) == scheduler.dispatch(b, 6.0)
    assert (1, LoadQuestion(2, 38.0)) == scheduler.dispatch(b, 6.0)


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

    for answer in (
        LoadAnswer(0, 1, 90.0),
        LoadAnswer(0, 2, 1.0),
        LoadAnswer(0, 2, 70.0),
        LoadAnswer(1, 1, 80.0),
    ):
        waiting.receive(answer, 0.0)
    assert ("WAIT_ALL", [2.0, 2.0]) == (state(waiting), waiting.estimates)

    waiting.receive(LoadAnswer(1, 2, 4.0), 0.0)
    assert ("RUN", [3.0, 6.0]) == (state(waiting), waiting.estimates)

    waiting.receive(LoadAnswer(1, 2, 60.0), 0.0)
    waiting.receive(LoadAnswer(0, 3, 60.0), 0.0)
    assert ("RUN", [3.0, 6.0]) == (state(waiting), waiting.estimates)


def test_matrices_that_are_not_newer_are_passed_over(waiting):
    waiting.receive(matrices(0, 2, a=5.0), 0.0)
    epoch = waiting.epoch

    for number in (1, 2):
        waiting.receive(matrices(0, number, a=50.0), 0.0)

    assert epoch == waiting.epoch
    assert (0, LoadQuestion(2, 1.0 + 5.0)) == waiting.dispatch(Cheap.a, 0.0)


def test_an_instance_that_does_not_answer_is_asked_again_in_the_same_epoch(waiting):
    waiting.receive(LoadAnswer(1, 1, 100.0), 0.0)

    sent = [waiting.dispatch(Cheap.a, 0.0) for _ in range(8)]

    assert [None] * 6 == [question for _, question in sent[:6]]
    assert (0, LoadQuestion(1, 5.0)) == sent[6]
    assert (1, None) == sent[7]
    # The answer to the first question still counts, whenever it comes.
    waiting.receive(LoadAnswer(0, 1, 0.5), 0.0)
    assert ("RUN", [5.5, 105.0]) == (state(waiting), waiting.estimates)


def test_an_answer_that_comes_just_before_asking_again_spares_the_question():
    scheduler = OnlineShuffle(**Cheap.shape, window=1).dispatcher(3)
    for instance in range(3):
        scheduler.receive(matrices(instance), 0.0)
    for _ in range(6):
        scheduler.dispatch(Cheap.a, 0.0)
    assert "SEND_ALL" == state(scheduler)

    scheduler.receive(LoadAnswer(0, 1, 1.0), 0.0)
    assert (1, LoadQuestion(1, 3.0)) == scheduler.dispatch(Cheap.a, 0.0)
    scheduler.receive(LoadAnswer(2, 1, 1.0), 0.0)
    assert "WAIT_ALL" == state(scheduler)
    assert None is scheduler.dispatch(Cheap.a, 0.0)[1]


def test_all_answers_may_come_before_all_are_asked_again(waiting):
    for _ in range(6):
        waiting.dispatch(Cheap.a, 0.0)
    assert "SEND_ALL" == state(waiting)

    waiting.receive(LoadAnswer(0, 1, 1.0), 0.0)
    waiting.receive(LoadAnswer(1, 1, 2.0), 0.0)

    assert ("RUN", [5.0, 6.0]) == (state(waiting), waiting.estimates)
    assert (0, None) == waiting.dispatch(Cheap.a, 0.0)


@pytest.mark.parametrize(("resync", "epochs"), [(None, 1), (5, 2)])
def test_estimates_are_synchronised_now_and_then_if_that_is_asked_for(resync, epochs):
    scheduler = OnlineShuffle(**Cheap.shape, window=3, resync=resync).dispatcher(2)
    scheduler.receive(matrices(0), 0.0)
    scheduler.receive(matrices(1), 0.0)
    for instance in range(2):
        scheduler.dispatch(Cheap.a, 0.0)
        scheduler.receive(LoadAnswer(instance, 1, 0.0), 0.0)

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
        waiting.receive(LoadAnswer(instance, 1, 0.0), 0.0)

    sent = [waiting.dispatch(code, 0.0)[0] for code in (Cheap.b, Cheap.b, Cheap.a, Cheap.a)]

    assert [0, 1, 0, 1] == sent


def test_a_correction_is_no_turn(waiting):
    waiting.dispatch(Cheap.a, 0.0)
    waiting.receive(LoadAnswer(0, 1, 0.0), 0.0)
    waiting.receive(LoadAnswer(1, 1, 1.0), 0.0)

    assert [2.0, 2.0] == waiting.estimates
    assert (1, None) == waiting.dispatch(Cheap.a, 0.0)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "None is neither matrices nor an answer"),
        (LoadQuestion(1, 0.0), "Question.*of one grouping"),
        (matrices(2, 9), "instance=2"),
        (LoadAnswer(2, 1, 0.0), "instance=2"),
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

    for expected in (LoadQuestion(1, 1.0), LoadQuestion(1, 1.0), None):
        with pytest.raises(InvalidValueError, match=f"code={code!r} is not the code of a key"):
            scheduler.dispatch(code, 0.0)
        assert expected == scheduler.dispatch(Cheap.a, 0.0)[1]
