"""Baselines: the shortest queue, two choices and full knowledge, against plain loops."""

import copy
import itertools
import json
import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import (
    OnlineShuffle,
    PartialKey,
    Shuffle,
    grouping_from_dict,
    grouping_to_dict,
)
from grouping.scheduling.baseline_dispatchers import Acknowledgement, PairDraws
from grouping.scheduling.baselines import FullKnowledge, ShortestQueue, TwoChoices
from grouping.scheduling.online_shuffle.messages import LoadAnswer
from sketches.errors import CorruptDataError, InvalidValueError
from sketches.keys import as_keys

EACH = (
    ShortestQueue(),
    ShortestQueue(acknowledge=8),
    ShortestQueue(instant=True),
    TwoChoices(),
    TwoChoices(seed=9, acknowledge=3),
    TwoChoices(instant=True),
    FullKnowledge(),
)
KNOWING = (ShortestQueue(instant=True), TwoChoices(instant=True), FullKnowledge())


class Shown:
    """The truth as a test wants it."""

    def __init__(self, instances):
        self.taken = [0.0] * instances
        self.left = [0.0] * instances
        self.queue = [0] * instances

    def seconds(self, instance):
        return self.taken[instance]

    def backlog(self, instance):
        return self.left[instance]

    def waiting(self, instance):
        return self.queue[instance]


class SlowQueues:
    """Who has sent how much where, as far as it was told; looked through for every tuple."""

    def __init__(self, instances, sender):
        self.sent = [0] * instances
        self.heard = [0] * instances
        self.turns = [(each - sender) % instances for each in range(instances)]

    def waiting(self, instance):
        return self.sent[instance] - self.heard[instance]

    def choose(self, among):
        chosen = min(among, key=lambda each: (self.waiting(each), self.turns[each]))
        self.turns[chosen] = max(self.turns) + 1
        self.sent[chosen] += 1
        return chosen


@given(
    st.integers(1, 4),
    st.integers(0, 1),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from("sed"), st.integers(0, 99)), max_size=120),
)
def test_the_shortest_queue_is_that_of_fewest_tuples_without_acknowledgement(
    instances, sender, every, steps
):
    """Acknowledgements may be late, lost, doubled, and overtake each other."""
    grouping = ShortestQueue(acknowledge=every)
    dispatcher = grouping.dispatcher(instances, sender=sender, senders=2)
    reporters = [grouping.reporter(i, instances=instances, senders=2) for i in range(instances)]
    slow, done, letters = SlowQueues(instances, sender), [0] * instances, []
    for what, number in steps:
        instance = number % instances
        if what == "s":
            assert (slow.choose(range(instances)), None) == dispatcher.dispatch(number, 0.0)
        elif what == "e" and done[instance] < slow.sent[instance]:
            done[instance] += 1
            letters += reporters[instance].executed(sender, number, 1.0, 0.0, None)
        elif what == "d" and letters:
            to, message = letters[number % len(letters)]
            assert sender == to
            dispatcher.receive(message, 0.0)
            heard = slow.heard[message.instance]
            slow.heard[message.instance] = max(heard, message.done)

        assert [slow.waiting(each) for each in range(instances)] == dispatcher.waiting


def test_an_acknowledgement_that_was_overtaken_or_comes_twice_says_nothing_new():
    dispatcher = ShortestQueue().dispatcher(1)
    for _ in range(5):
        dispatcher.dispatch(7, 0.0)

    waiting = []
    for done in (2, 1, 2, 4, 3):
        dispatcher.receive(Acknowledgement(0, done), 0.0)
        waiting += dispatcher.waiting

    assert [3, 3, 3, 1, 1] == waiting


def test_an_instance_acknowledges_to_each_sender_what_is_done_for_it():
    instance = ShortestQueue(acknowledge=2).reporter(1, instances=3, senders=2)

    told = [instance.executed(sender, 7, 1.0, 0.0, None) for sender in (0, 1, 0, 0, 1, 0)]

    assert told == [
        (),
        (),
        ((0, Acknowledgement(1, 2)),),
        (),
        ((1, Acknowledgement(1, 2)),),
        ((0, Acknowledgement(1, 4)),),
    ]


def test_by_default_there_is_an_acknowledgement_for_every_tuple():
    for grouping in (ShortestQueue(), TwoChoices()):
        instance = grouping.reporter(0, instances=1)
        told = [instance.executed(0, 7, 1.0, 0.0, None) for _ in range(3)]

        assert [1, 2, 3] == [message.done for letters in told for _, message in letters]


@given(st.integers(1, 5), st.integers(0, 4), st.lists(st.lists(st.integers(0, 2), min_size=5)))
def test_who_knows_all_queues_takes_the_shortest_and_of_equals_in_turn(instances, sender, looks):
    truth = Shown(instances)
    dispatcher = ShortestQueue(instant=True).dispatcher(
        instances, sender=sender % instances, senders=instances, truth=truth
    )
    turns = [(each - sender % instances) % instances for each in range(instances)]
    for look in looks:
        truth.queue = look[:instances]
        chosen = min(range(instances), key=lambda each: (look[each], turns[each]))
        turns[chosen] = max(turns) + 1

        assert (chosen, None) == dispatcher.dispatch(7, 0.0)


def test_of_shortest_queues_that_stay_equal_all_get_tuples_in_turn():
    dispatcher = ShortestQueue(instant=True).dispatcher(3, truth=Shown(3))

    assert [0, 1, 2] * 2 == [dispatcher.dispatch(7, 0.0)[0] for _ in range(6)]


# Full knowledge.


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40),
)
def test_full_knowledge_sends_each_tuple_to_where_it_is_done_first(paces, tuples):
    """Greedy online scheduling with the true costs: the argmin of max(C, now) + w."""
    count, now = len(paces), 0
    truth, ends, turns = Shown(count), [0] * count, list(range(count))
    dispatcher = FullKnowledge().dispatcher(count, truth=truth)
    for gap, cost in tuples:
        now += gap
        truth.taken = [cost * pace for pace in paces]
        truth.left = [max(0, end - now) for end in ends]
        done = [max(end, now) + cost * pace for end, pace in zip(ends, paces, strict=True)]
        expected = min(range(count), key=lambda each: (done[each], turns[each]))

        assert (expected, None) == dispatcher.dispatch(7, float(now))

        ends[expected] = done[expected]
        turns[expected] = max(turns) + 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 3))
def test_full_knowledge_is_as_good_as_graham_says(costs, instances):
    truth = Shown(instances)
    dispatcher = FullKnowledge().dispatcher(instances, truth=truth)
    for cost in costs:
        truth.taken = [cost] * instances
        truth.left[dispatcher.dispatch(7, 0.0)[0]] += cost

    best = min(
        np.bincount(division, costs, instances).max()
        for division in itertools.product(range(instances), repeat=len(costs))
    )
    assert max(truth.left) <= (2 - 1 / instances) * best + 1e-9


# Two choices.


@pytest.mark.parametrize("instances", [2, 3, 7])
def test_all_pairs_of_different_instances_are_drawn_about_as_often(instances):
    size = 40_000
    first, second = PairDraws(instances, seed=5, sender=0).take(size)
    counts = Counter(zip(first.tolist(), second.tolist(), strict=True))

    assert set(itertools.permutations(range(instances), 2)) == set(counts)
    share = 1 / (instances * (instances - 1))
    deviation = math.sqrt(size * share * (1 - share))
    assert max(abs(count - size * share) for count in counts.values()) < 4.5 * deviation


def test_one_instance_is_drawn_twice_where_there_is_no_other():
    first, second = PairDraws(1, seed=5, sender=0).take(3)

    assert [[0, 0, 0]] * 2 == [first.tolist(), second.tolist()]


def test_draws_are_the_same_however_they_are_taken_and_differ_by_seed_and_sender():
    def draws(seed, sender, *sizes):
        drawn = PairDraws(9, seed=seed, sender=sender)
        return [pair for size in sizes for pair in zip(*map(list, drawn.take(size)), strict=True)]

    expected = draws(3, 0, 1_500)

    assert expected == draws(3, 0, 700, 0, 1, 799)
    one_by_one = PairDraws(9, seed=3, sender=0).one_by_one()
    assert expected == list(itertools.islice(one_by_one, 1_500))
    assert expected != draws(4, 0, 1_500)
    assert expected != draws(3, 1, 1_500)


@given(st.integers(1, 4), st.lists(st.integers(-1, 3), max_size=60))
def test_two_choices_take_the_one_with_fewer_tuples_without_acknowledgement(instances, steps):
    grouping = TwoChoices(seed=6)
    dispatcher = grouping.dispatcher(instances, sender=1, senders=2)
    pairs = PairDraws(instances, seed=6, sender=1).one_by_one()
    reporters = [grouping.reporter(i, instances=instances, senders=2) for i in range(instances)]
    waiting = [0] * instances
    for step in steps:
        if step < 0 or step >= instances or not waiting[step]:
            first, second = next(pairs)
            expected = second if waiting[second] < waiting[first] else first
            assert (expected, None) == dispatcher.dispatch(7, 0.0)
            waiting[expected] += 1
        else:
            ((_, message),) = reporters[step].executed(1, 7, 1.0, 0.0, None)
            dispatcher.receive(message, 0.0)
            waiting[step] -= 1

        assert waiting == dispatcher.waiting


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), max_size=40))
def test_two_choices_that_know_take_the_one_with_less_work(looks):
    truth = Shown(4)
    dispatcher = TwoChoices(seed=6, instant=True).dispatcher(4, truth=truth)
    pairs = PairDraws(4, seed=6, sender=0).one_by_one()
    for look in looks:
        truth.left = look
        first, second = next(pairs)

        assert (second if look[second] < look[first] else first, None) == dispatcher.dispatch(7, 0)


def test_two_choices_in_batches_go_by_what_was_sent_and_are_far_better_than_one():
    parts = TwoChoices(seed=1).router(50, sender=2).route(10_000)
    first, second = PairDraws(50, seed=1, sender=2).take(10_000)
    loads, expected = [0] * 50, []
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        expected.append(other if loads[other] < loads[one] else one)
        loads[expected[-1]] += 1

    assert expected == parts.tolist()
    # log log 50 / log 2 = 2, against sqrt(2 * 200 * log 50) = 40 for one choice.
    assert np.bincount(parts).max() - 200 < 6
    assert np.bincount(first).max() - 200 > 20


# All of them.


@pytest.mark.parametrize("grouping", EACH, ids=repr)
def test_a_baseline_is_a_value_and_comes_back_from_json(grouping):
    written = json.dumps(grouping_to_dict(grouping))

    assert written.startswith(f'{{"kind": "{grouping.kind}"')
    for other in (
        grouping_from_dict(json.loads(written)),
        pickle.loads(pickle.dumps(grouping)),  # noqa: S301
        copy.deepcopy(grouping),
    ):
        assert grouping == other
        assert hash(grouping) == hash(other)
    assert (grouping.listens, grouping.needs_key, grouping.one_owner) == (True, False, False)


def test_any_groupings_serve_one_stream_beside_each_other():
    keys = np.arange(60) % 7
    codes = as_keys(keys).codes.tolist()
    for grouping in (*EACH, OnlineShuffle(window=2), PartialKey(), Shuffle()):
        if grouping.listens:
            truth = Shown(4)
            dispatcher = grouping.dispatcher(4, truth=truth)
            reporters = [grouping.reporter(each, instances=4) for each in range(4)]
            parts = []
            for code in codes:
                truth.taken = [1.0] * 4
                instance, carried = dispatcher.dispatch(code, 0.0)
                for _, message in reporters[instance].executed(0, code, 1.0, 0.0, carried):
                    dispatcher.receive(message, 0.0)
                parts.append(instance)
        else:
            parts = grouping.router(4).route(60, keys).tolist()

        assert {*range(4)} == {*parts}, grouping


@pytest.mark.parametrize("grouping", [ShortestQueue(acknowledge=4), OnlineShuffle()], ids=repr)
def test_batches_are_dealt_out_in_turn_where_nothing_is_heard(grouping):
    router = grouping.router(3, sender=2)

    assert [2, 0, 1, 2] == [*router.route(1).tolist(), *router.route(3).tolist()]


# Refusals: each names the value and the remedy.


@pytest.mark.parametrize("grouping", KNOWING, ids=repr)
def test_what_needs_the_truth_is_of_no_use_without(grouping):
    with pytest.raises(InvalidValueError, match=r"truth=None, but .* goes by it; .*ShortestQueue"):
        grouping.dispatcher(3)
    with pytest.raises(InvalidValueError, match=r"needs the truth, .* ask for its dispatcher"):
        grouping.router(3)
    reporter = grouping.reporter(0, instances=3)
    assert () == reporter.executed(0, 7, 1.0, 0.0, None)


@pytest.mark.parametrize("grouping", EACH, ids=repr)
def test_there_is_no_choice_among_no_instances(grouping):
    with pytest.raises(InvalidValueError, match="instances=0"):
        grouping.dispatcher(0, truth=Shown(1))
    with pytest.raises(InvalidValueError, match="instance=3"):
        grouping.reporter(3, instances=3)


@pytest.mark.parametrize("wrong", [math.nan, -1.0, math.inf])
@pytest.mark.parametrize("grouping", KNOWING, ids=repr)
def test_a_truth_that_cannot_be_is_refused(grouping, wrong):
    truth = Shown(2)
    dispatcher = grouping.dispatcher(2, truth=truth)
    truth.left = truth.queue = [0.0, wrong]

    with pytest.raises(InvalidValueError, match=f"load={wrong!r} of an instance"):
        dispatcher.dispatch(7, 0.0)


def test_work_that_rounding_left_below_none_is_none():
    truth = Shown(2)
    truth.left = [0.0, -1e-12]

    assert (1, None) == FullKnowledge().dispatcher(2, truth=truth).dispatch(7, 0.0)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "None is not an acknowledgement; let dispatcher and reporter be of one"),
        (LoadAnswer(0, 1, 0.0), "Answer.* is not an acknowledgement"),
        (Acknowledgement(2, 1), "instance=2"),
        (Acknowledgement(0, 2), "done=2 tuples at instance 0, which was sent 1; begin with new"),
    ],
)
@pytest.mark.parametrize("grouping", [ShortestQueue(), TwoChoices()], ids=repr)
def test_what_no_instance_can_have_acknowledged_is_refused(grouping, message, words):
    dispatcher = grouping.dispatcher(2)
    while dispatcher.waiting[0] == 0:
        dispatcher.dispatch(7, 0.0)
    before = dispatcher.waiting

    with pytest.raises(InvalidValueError, match=words):
        dispatcher.receive(message, 0.0)

    assert before == dispatcher.waiting


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ShortestQueue(acknowledge=0), "acknowledge=0"),
        (lambda: ShortestQueue(acknowledge=1.5), "acknowledge=1.5"),
        (lambda: ShortestQueue(instant=1), "instant=1 is neither True nor False"),
        (lambda: ShortestQueue(instant=True, acknowledge=2), "acknowledge=2 and instant=True"),
        (lambda: TwoChoices(seed=-1), "seed=-1"),
        (lambda: TwoChoices(acknowledge=0), "acknowledge=0"),
        (lambda: TwoChoices(instant=None), "instant=None"),
        (lambda: Acknowledgement(-1, 1), "instance=-1"),
        (lambda: Acknowledgement(0, 0), "done=0"),
        (lambda: ShortestQueue().reporter(0, instances=1).executed(1, 7, 1, 0, None), "sender=1"),
    ],
)
def test_parameters_out_of_range_are_refused(make, words):
    with pytest.raises(InvalidValueError, match=words):
        make()


@pytest.mark.parametrize("kind", ["shortest_queue", "two_choices", "full_knowledge"])
def test_a_document_with_unknown_fields_is_refused(kind):
    with pytest.raises(CorruptDataError, match="patience"):
        grouping_from_dict({"kind": kind, "patience": 3})
