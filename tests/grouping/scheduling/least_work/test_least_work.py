"""LeastWork: its halves on a network that loses what it likes, and its router, against oracles."""

import heapq
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from grouping.groupings import grouping_from_dict, grouping_to_dict
from grouping.scheduling.least_work.costs import InstanceCosts
from grouping.scheduling.least_work.dispatcher import WorkDispatcher
from grouping.scheduling.least_work.grouping import LeastWork, WorkRouter
from grouping.scheduling.least_work.messages import Expected, Report
from sketches.cost_sketch import CostSketch
from sketches.errors import CorruptDataError, InvalidValueError

CODES = st.integers(0, 9)
SECONDS = st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0])


def known(costs):
    """A sketch that knows exactly what some keys cost, having seen each once."""
    sketch = CostSketch(width=64, depth=4, exact=len(costs))
    sketch.update(list(costs), list(costs.values()))
    return sketch


def simulated(grouping, arrivals, codes, seconds, *, instances, delay=0.0, senders=1):
    """Run tuples through dispatchers and reporters; return targets, completion times, messages."""
    dispatchers = [
        grouping.dispatcher(instances, sender=sender, senders=senders) for sender in range(senders)
    ]
    reporters = [
        grouping.reporter(i, instances=instances, senders=senders) for i in range(instances)
    ]
    free, events, targets, done, messages = [0.0] * instances, [], [], [], 0
    for number, (now, code) in enumerate(zip(arrivals, codes, strict=True)):
        while events and events[0][0] <= now:
            time, _, kind, *content = heapq.heappop(events)
            if kind == "letter":
                dispatchers[content[0]].receive(content[1], time)
                continue
            for to, letter in reporters[content[0]].executed(
                *content[1:3], content[3], time, content[4]
            ):
                messages += 1
                heapq.heappush(events, (time + delay, -messages, "letter", to, letter))
        sender = number % senders
        target, carried = dispatchers[sender].dispatch(code, now)
        taken = seconds(target, code, number)
        free[target] = max(free[target], now) + taken
        event = (free[target], number, "done", target, sender, code, taken, carried)
        heapq.heappush(events, event)
        targets.append(target)
        done.append(free[target])
    return targets, np.array(done), messages


def skewed(seed, *, tuples=4_000, instances=5, alpha=1.0, provision=1.0):
    """The synthetic study of the paper, smaller: Zipf's law, 64 costs, given to keys at random."""
    random = np.random.default_rng(seed)
    costs = random.permutation(np.repeat(np.linspace(0.001, 0.064, 64), 8))
    weights = np.arange(1, len(costs) + 1) ** -alpha
    codes = random.choice(len(costs), tuples, p=weights / weights.sum())
    arrivals = np.arange(tuples) * costs[codes].mean() / instances * provision
    return arrivals.tolist(), codes.tolist(), costs


# The halves together.


@given(
    st.lists(st.tuples(CODES, st.sampled_from([0.0, 0.3, 1.0])), max_size=60),
    st.integers(1, 5),
)
def test_with_exact_costs_it_is_the_greedy_scheduler_that_knows_all(tuples, instances):
    costs = {code: float(1 + code % 7) for code in range(10)}
    now, free, greedy, arrivals = 0.0, [0.0] * instances, [], []
    for code, pause in tuples:
        now += pause
        arrivals.append(now)
        best = min(range(instances), key=lambda place: (max(free[place], now), free[place]))
        free[best] = max(free[best], now) + costs[code]
        greedy.append(free[best])
    codes = [code for code, _ in tuples]
    spec = LeastWork(costs=known(costs))
    _, done, _ = simulated(
        spec, arrivals, codes, lambda _, code, __: costs[code], instances=instances
    )
    assert pytest.approx(sorted(greedy)) == sorted(done.tolist())


def test_nothing_is_said_as_long_as_all_goes_as_expected():
    costs = {code: float(1 + code) for code in range(10)}
    reporter = LeastWork(costs=known(costs)).reporter(0, instances=2)
    said = [
        reporter.executed(0, n % 10, costs[n % 10], float(n), Expected(n + 1, costs[n % 10]))
        for n in range(255)
    ]
    # The first few go to senders that may know nothing yet: after 1, 2, 4, 8 and 16 tuples.
    assert [0, 2, 6, 14, 30] == [n for n, letters in enumerate(said) if letters]


def test_an_instance_speaks_up_once_its_queue_is_longer_than_expected():
    reporter = LeastWork(tolerance=2.0, messages=1.0).reporter(0, instances=2)
    for n in range(31):
        reporter.executed(0, 1, 1.0, float(n), Expected(n + 1, 1.0))
    late = [reporter.executed(0, 1, 1.5, 40.0 + n, Expected(32 + n, 1.0)) for n in range(6)]
    ((to, report),) = late[4]
    assert [(), (), (), ()] == late[:4]
    assert (0, 36, ((1, 5, 7.5),)) == (to, report.done, report.tallies)
    assert () == late[5]


@given(st.sampled_from([0.01, 0.05, 0.3, 1.0]), st.integers(0, 99))
@settings(max_examples=30)
def test_messages_keep_to_their_budget_at_every_moment(messages, seed):
    random = np.random.default_rng(seed)
    reporter = LeastWork(messages=messages, tolerance=1e-9).reporter(0, instances=3)
    said = 0
    for n in range(1, 1_000):
        seconds = float(random.exponential())
        said += len(reporter.executed(0, 1, seconds, float(n), Expected(n, 1.0)))
        assert said <= 5 + n * messages  # four may be saved up, and the first five do not wait


def test_where_costs_are_noise_messages_are_rarer_than_they_may_be():
    random = np.random.default_rng(5)
    reporter = LeastWork(messages=0.05).reporter(0, instances=3)
    said = sum(
        len(reporter.executed(0, 1, float(random.exponential()), float(n), Expected(n + 1, 1.0)))
        for n in range(20_000)
    )
    assert 0.4 * 0.05 < said / 20_000 < 0.9 * 0.05


def test_no_report_is_about_more_than_so_many_tuples():
    reporter = LeastWork().reporter(0, instances=2)
    said = [
        letter.tallies
        for n in range(31 + 3 * 256)
        for _, letter in reporter.executed(0, 1, 1.0, float(n), Expected(n + 1, 1.0))
    ]
    assert [1, 2, 4, 8, 16, 256, 256, 256] == [count for ((_, count, _),) in said]


def test_tuples_that_overtake_each_other_are_all_done():
    reporter = LeastWork().reporter(0, instances=2)
    reporter.executed(0, 1, 1.0, 1.0, Expected(3, 1.0))
    reporter.executed(0, 1, 1.0, 2.0, Expected(2, 1.0))
    ((_, report),) = reporter.executed(0, 1, 1.0, 3.0, Expected(1, 1.0))
    assert 3 == report.done


def test_a_report_puts_the_clock_right_by_what_was_late():
    dispatcher = LeastWork(costs=known({1: 1.0})).dispatcher(1)
    for _ in range(3):
        dispatcher.dispatch(1, 0.0)
    # The first was expected at 1 and done at 5; the two that wait will be done at 6 and 7.
    dispatcher.receive(Report(0, 1, 1, (), 5.0, 5.0), 5.0)
    assert [7.0] == dispatcher.clocks
    dispatcher.receive(Report(0, 2, 3, (), 7.0, 7.0), 9.0)
    assert [9.0] == dispatcher.clocks


def test_what_was_put_right_once_is_not_put_right_again():
    dispatcher = LeastWork(costs=known({1: 1.0})).dispatcher(1)
    for _ in range(3):
        dispatcher.dispatch(1, 0.0)
    dispatcher.receive(Report(0, 1, 1, (), 5.0, 5.0), 5.0)
    dispatcher.receive(Report(0, 2, 2, (), 6.0, 6.0), 6.0)
    assert [7.0] == dispatcher.clocks


def test_a_report_that_was_overtaken_moves_no_clock():
    dispatcher = LeastWork(costs=known({1: 1.0})).dispatcher(1)
    for _ in range(2):
        dispatcher.dispatch(1, 0.0)
    dispatcher.receive(Report(0, 2, 2, (), 3.0, 3.0), 3.0)
    dispatcher.receive(Report(0, 1, 1, (), 1.0, 1.0), 20.0)
    assert [3.0] == dispatcher.clocks


def test_a_clock_is_moved_on_by_what_others_send_meanwhile():
    dispatcher = LeastWork(costs=known({1: 1.0})).dispatcher(1, sender=0, senders=2)
    dispatcher.dispatch(1, 0.0)
    # Of four seconds of work one was for this sender.
    dispatcher.receive(Report(0, 1, 1, (), 1.0, 4.0), 4.0)
    dispatcher.dispatch(1, 4.0)
    assert [8.0] == dispatcher.clocks


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("provision", [1.0, 1.1])
def test_it_is_far_better_than_dealing_out_in_turn_and_near_to_knowing_all(alpha, provision):
    mean = Counter()
    for seed in range(4):
        arrivals, codes, costs = skewed(seed, alpha=alpha, provision=provision)
        seconds = [float(costs[code]) for code in codes]
        _, done, messages = simulated(
            LeastWork(),
            arrivals,
            codes,
            lambda _, __, number, each=seconds: each[number],
            instances=5,
            delay=0.001,
        )
        mean["ours"] += (done - arrivals).mean()
        turns, greedy = [0.0] * 5, [0.0] * 5
        for number, (now, cost) in enumerate(zip(arrivals, seconds, strict=True)):
            for name, free in (("in turn", turns), ("all known", greedy)):
                place = number % 5 if free is turns else min(range(5), key=free.__getitem__)
                free[place] = max(free[place], now) + cost
                mean[name] += (free[place] - now) / len(seconds)
        assert messages <= 0.05 * len(codes) + 5 * 9
    assert mean["ours"] < 0.8 * mean["in turn"]
    assert mean["ours"] < 1.3 * mean["all known"]


class LossyNetwork(RuleBasedStateMachine):
    """Dispatchers and instances with a network between them that does to letters what it likes."""

    @initialize(instances=st.integers(1, 4), senders=st.integers(1, 3))
    def begin(self, instances, senders):
        spec = LeastWork(messages=1.0, tolerance=0.5)
        self.costs = [InstanceCosts(instances, keys=6) for _ in range(senders)]
        self.dispatchers = [
            WorkDispatcher(costs, instances, sender=sender)
            for sender, costs in enumerate(self.costs)
        ]
        self.reporters = [
            spec.reporter(i, instances=instances, senders=senders) for i in range(instances)
        ]
        self.queues = [[] for _ in range(instances)]
        self.letters = []
        self.now = 0.0

    def equal(self, sender):
        return self.costs[sender].uniform

    @rule(sender=st.integers(0, 2), code=CODES, pause=st.sampled_from([0.0, 0.1, 5.0]))
    def send(self, sender, code, pause):
        self.now += pause
        sender %= len(self.dispatchers)
        before = self.dispatchers[sender].clocks
        instance, carried = self.dispatchers[sender].dispatch(code, self.now)
        assert carried.seconds >= 0
        assert len(self.queues) == len(before)
        if carried.seconds and self.equal(sender):
            assert min(before) == before[instance]
        self.queues[instance].append((sender, code, carried))

    @rule(instance=st.integers(0, 3), seconds=SECONDS)
    def execute(self, instance, seconds):
        instance %= len(self.queues)
        if self.queues[instance]:
            self.now += seconds
            sender, code, carried = self.queues[instance].pop(0)
            letters = self.reporters[instance].executed(sender, code, seconds, self.now, carried)
            self.letters += letters

    @precondition(lambda self: self.letters)
    @rule(data=st.data(), fate=st.sampled_from(["arrive", "arrive twice", "be lost", "be kept"]))
    def deliver(self, data, fate):
        place = data.draw(st.integers(0, len(self.letters) - 1))
        to, letter = self.letters[place]
        for _ in range({"arrive": 1, "arrive twice": 2, "be kept": 1}.get(fate, 0)):
            self.dispatchers[to].receive(letter, self.now)
        if fate != "be kept":
            self.letters.pop(place)

    def teardown(self):
        """Once nothing is lost any more, the next report of an instance puts its clock right."""
        right = set()
        wanted = {
            (sender, instance)
            for sender in range(len(getattr(self, "dispatchers", ())))
            for instance in range(len(self.queues))
        }
        for _ in range(3_000):
            if wanted <= right:
                return
            for sender, dispatcher in enumerate(self.dispatchers):
                self.now += 1.0
                instance, carried = dispatcher.dispatch(1, self.now)
                self.queues[instance].append((sender, 1, carried))
                while self.queues[instance]:
                    whose, code, what = self.queues[instance].pop(0)
                    told = self.reporters[instance].executed(whose, code, 1.0, self.now, what)
                    for to, letter in told:
                        self.dispatchers[to].receive(letter, self.now)
                        if whose not in [sender for sender, *_ in self.queues[instance]]:
                            assert self.now == self.dispatchers[to].clocks[instance]
                            right.add((to, instance))
        raise AssertionError(f"never heard: {wanted - right}")


LossyNetwork.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLossyNetwork = LossyNetwork.TestCase


def test_a_report_is_recognised_when_it_comes_again_however_late():
    costs = InstanceCosts(1, keys=10)
    dispatcher = WorkDispatcher(costs, 1, sender=0)
    for serial in (3, 3, 1, 2, 1, 70, 3, 69, 69):
        tallies = ((5, 1, 2.0**serial),)
        dispatcher.receive(Report(0, serial, 0, tallies, 2.0, 2.0), 1.0)
    # Each once; of number 3, when it comes so late, it is not known any more, so it is left out.
    assert sum(2.0**serial for serial in (3, 1, 2, 70, 69)) / 5 == costs.shared.mean


# The router.


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(1, 6), st.integers(0, 7))
def test_the_router_is_the_greedy_scheduler_over_all_batches(keys, instances, sender):
    costs = {key: float(1 + key) for key in range(10)}
    spec = LeastWork(costs=known(costs))
    mean = np.mean(list(costs.values()))
    loads, expected = [0.0] * instances, []
    for key in keys:
        turn = sorted(range(instances), key=lambda place: (place - sender) % instances)
        best = min(turn, key=loads.__getitem__)
        loads[best] += costs.get(key, mean)
        expected.append(best)
    router = spec.router(instances, sender=sender)
    cut = len(keys) // 3
    parts = [router.route(cut, keys[:cut]), router.route(len(keys) - cut, keys[cut:])]
    assert expected == np.concatenate(parts).tolist()


def test_costs_so_different_that_they_fit_no_float_together_are_divided_alike():
    costs = known({1: 1e-12, 2: 1e9, 3: 3e9})
    keys = [2, 3, 1, 1, 2, 3, 2] * 3
    whole = LeastWork(costs=costs).router(3).route(len(keys), keys).tolist()
    router = LeastWork(costs=costs).router(3)
    assert whole == [int(router.route(1, [key])[0]) for key in keys]
    work = np.bincount(whole, [{1: 0.0, 2: 1.0, 3: 3.0}[key] for key in keys])
    assert work.max() <= 9.0 + 3.0  # of 27 in all, the costliest of 3
    many = known({1: 1e-300, 2: 1e300})
    assert {0, 1, 2} == set(LeastWork(costs=many).router(3).route(9, [2] * 9).tolist())


def test_a_slow_instance_is_sent_less_and_equal_work_is_finished_together():
    costs = known({1: 1.0, 2: 4.0})
    router = LeastWork(costs=costs, paces=(1.0, 3.0)).router(2)
    keys = [1, 2] * 4_000
    work = np.bincount(router.route(len(keys), keys), [1.0, 4.0] * 4_000)
    assert pytest.approx(3.0, rel=0.01) == work[0] / work[1]


@pytest.mark.parametrize("paces", [(), (1.0, 2.0, 1.0)])
def test_longest_first_divides_a_batch_more_evenly(paces):
    costs = known({key: float(2**key) for key in range(8)})
    keys = [key for key in range(8) for _ in range(2)]

    def makespan(spec):
        targets = spec.router(3).route(len(keys), keys)
        weights = np.array(paces or (1.0, 1.0, 1.0))
        return (np.bincount(targets, [2.0**key for key in keys], 3) * weights).max()

    in_order = makespan(LeastWork(costs=costs, paces=paces))
    longest = makespan(LeastWork(costs=costs, paces=paces, longest_first=True))
    least = sum(2.0**key for key in keys) / sum(1 / pace for pace in (paces or (1, 1, 1)))
    assert longest < in_order
    assert longest <= 1.1 * least


def test_without_costs_tuples_are_dealt_out_in_turn():
    assert [1, 2, 0, 1] == LeastWork().router(3, sender=1).route(4, ["a"] * 4).tolist()


def test_a_router_of_work_leaves_its_arguments_alone():
    sketch = known({1: 1.0})
    spec = LeastWork(costs=sketch)
    sketch.update([2], [100.0])
    assert 1.0 == spec.costs.mean
    WorkRouter(2, spec.costs).route(2, [1, 1])
    assert 1.0 == spec.costs.total


# What may be given.


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": 0.0},
        {"messages": 1.5},
        {"messages": float("nan")},
        {"tolerance": 0.0},
        {"tolerance": float("nan")},
        {"keys": 0},
        {"costs": {"a": 1.0}},
        {"paces": (1.0, -1.0)},
        {"paces": (1.0, float("inf"))},
        {"longest_first": 1},
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(InvalidValueError, match=name):
        LeastWork(**wrong)


def test_paces_are_of_as_many_instances_as_there_are():
    with pytest.raises(InvalidValueError, match="instances=3"):
        LeastWork(paces=(1.0, 2.0)).router(3)
    with pytest.raises(InvalidValueError, match="instances=0"):
        LeastWork().dispatcher(0)


@given(st.booleans(), st.lists(st.sampled_from([0.5, 1.0]), max_size=3), st.booleans())
def test_it_travels_as_a_document(has_costs, paces, longest):
    costs = known({"a": 1.0, "b": 2.0}) if has_costs else None
    spec = LeastWork(costs=costs, paces=tuple(paces), longest_first=longest, messages=0.1)
    again = grouping_from_dict(grouping_to_dict(spec))
    assert spec == again
    assert LeastWork(messages=0.2) != spec


@pytest.mark.parametrize("costs", ["no base64!", "AAAA", 7])
def test_a_damaged_document_is_refused(costs):
    with pytest.raises(CorruptDataError):
        grouping_from_dict({"kind": "least_work", "costs": costs})


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, float("inf")])
def test_a_duration_that_is_none_is_refused_and_nothing_is_counted(seconds):
    reporter = LeastWork().reporter(0, instances=2)
    with pytest.raises(InvalidValueError, match=f"seconds={seconds}"):
        reporter.executed(0, 1, seconds, 1.0, Expected(1, 1.0))
    ((_, report),) = reporter.executed(0, 1, 2.0, 1.0, Expected(2, 1.0))
    assert (((1, 1, 2.0),), 2.0) == (report.tallies, report.busy)
