"""Online shuffle grouping on a network that loses, doubles, delays and reorders what it likes."""

from collections import defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from grouping.groupings import OnlineShuffle
from grouping.scheduling.online_shuffle.messages import LoadAnswer, LoadQuestion, Matrices
from sketches.cost_sketch import CostSketch
from sketches.keys import IntegerKeys

CODES = range(6)
SHAPE = {"width": 3, "depth": 2, "seed": 5}
SETTLES_ALWAYS = 1e9


def cost(instance, code):
    """Instances are of different speed; all sums of these are exact."""
    return (1 + code * code) * (1 + instance / 4)


def tuples_until_run(instances, window):
    """Within how many tuples a scheduler is in RUN, once all tuples and messages arrive at once.

    Matrices of all come within two windows of each instance, answers are asked for again after
    one more, and each epoch takes a tuple for each instance. An instance sends matrices after two
    windows at the earliest, so of n tuples at most n / (2 * window) + instances begin an epoch
    again.
    """
    assert instances < 2 * window
    again = instances * (instances + 1) / (1 - instances / (2 * window))
    return 3 * window * instances + again + 1


class PlainScheduler:
    """What the paper says and the module's remarks add, without regard for speed."""

    def __init__(self, instances, sender, window, resync, sketches):
        self.all = range(instances)
        self.turns = {each: (each - sender) % instances for each in self.all}
        self.window, self.resync = window * instances, resync and resync * instances
        self.sketches = sketches
        self.newest = {}
        self.estimates = [0.0] * instances
        self.epoch = 0
        self.state = "ROUND_ROBIN"
        self.asked, self.answers, self.since = set(), {}, 0
        self.first = sender % instances

    def expected(self, instance, code):
        sketch = self.sketches[instance, self.newest[instance]]
        return float(sketch.estimate(column(code))[0])

    def dispatch(self, code):
        question = None
        if self.state == "SEND_ALL":
            waiting = [each for each in self.all if each not in self.asked]
            chosen = min(waiting, key=lambda each: (each - self.first) % len(self.all))
        else:
            chosen = min(self.all, key=lambda each: (self.estimates[each], self.turns[each]))
        self.turns[chosen] = max(self.turns.values()) + 1
        if self.state != "ROUND_ROBIN":
            self.estimates[chosen] += self.expected(chosen, code)
        self.since += 1
        if self.state == "SEND_ALL":
            question = LoadQuestion(self.epoch, self.estimates[chosen])
            self.asked.add(chosen)
            self.look()
        elif self.state == "WAIT_ALL" and self.since == self.window:
            self.state, self.asked = "SEND_ALL", set(self.answers)
        elif self.state == "RUN" and self.since == self.resync:
            self.begin()
        return chosen, question

    def begin(self):
        self.epoch += 1
        self.state, self.asked, self.answers = "SEND_ALL", set(), {}

    def look(self):
        if self.asked == set(self.all):
            self.state, self.since = "WAIT_ALL", 0

    def receive(self, message):
        instance = message.instance
        if isinstance(message, Matrices):
            if message.number > self.newest.get(instance, 0):
                self.newest[instance] = message.number
                if len(self.newest) == len(self.all):
                    self.begin()
            return
        if self.state not in ("SEND_ALL", "WAIT_ALL") or message.epoch != self.epoch:
            return
        self.answers.setdefault(instance, message.delta)
        if len(self.answers) == len(self.all):
            self.estimates = [self.estimates[each] + self.answers[each] for each in self.all]
            self.state, self.since = "RUN", 0
        elif instance not in self.asked:
            self.asked.add(instance)
            self.look()


def column(code):
    return IntegerKeys(np.array([code], dtype=np.uint64))


class Sent(NamedTuple):
    """A tuple on its way, or done: what was charged for it, and what travelled with it."""

    sender: int
    code: int
    charged: float
    question: LoadQuestion | None


class World:
    """Schedulers, instances, and all that is between them."""

    def __init__(self, instances, senders, window, resync=None):
        self.grouping = OnlineShuffle(
            window=window, tolerance=SETTLES_ALWAYS, resync=resync, **SHAPE
        )
        self.instances, self.window = instances, window
        self.schedulers = [
            self.grouping.dispatcher(instances, sender=sender, senders=senders)
            for sender in range(senders)
        ]
        self.reporters = [
            self.grouping.reporter(each, instances=instances, senders=senders)
            for each in range(instances)
        ]
        self.sketches = {}
        self.plain = [
            PlainScheduler(instances, sender, window, resync, self.sketches)
            for sender in range(senders)
        ]
        self.stretch = defaultdict(list)
        self.matrices_sent = [0] * instances
        self.queues = [deque() for _ in range(instances)]
        self.history = [[] for _ in range(instances)]  # all that was sent to each, in order
        self.done = [0] * instances
        self.letters = []

    def send(self, sender, code):
        scheduler = self.schedulers[sender]
        before = scheduler.estimates
        expected = self.plain[sender].dispatch(code)
        instance, question = scheduler.dispatch(code, now=0.0)
        assert expected == (instance, question)
        assert 0 <= instance < self.instances
        charged = scheduler.estimates[instance] - before[instance]
        sent = Sent(sender, code, charged, question)
        self.history[instance].append(sent)
        self.queues[instance].append(sent)
        return instance

    def lose_question(self, instance, place):
        place %= len(self.queues[instance])
        self.queues[instance][place] = self.queues[instance][place]._replace(question=None)

    def execute(self, instance):
        """Execute the first tuple that waits, and check what is said of it."""
        sender, code, _, question = self.queues[instance].popleft()
        self.done[instance] += 1
        self.stretch[instance].append(code)
        letters = self.reporters[instance].executed(
            sender, code, cost(instance, code), now=0.0, carried=question
        )
        expected = []
        if question is not None:
            worked = sum(cost(instance, each.code) for each in self.past(instance, sender))
            delta = worked - question.estimate
            expected.append((sender, LoadAnswer(instance, question.epoch, delta)))
        if len(self.stretch[instance]) == 2 * self.window:
            self.matrices_sent[instance] += 1
            sketch = CostSketch(**SHAPE)
            for each in self.stretch.pop(instance):
                sketch.update(column(each), [cost(instance, each)])
            self.sketches[instance, self.matrices_sent[instance]] = sketch
            expected.extend((each, letters[-1][1]) for each in range(len(self.schedulers)))
            assert self.matrices_sent[instance] == letters[-1][1].number
        assert expected == letters
        self.letters.extend(letters)

    def past(self, instance, sender):
        return [
            each for each in self.history[instance][: self.done[instance]] if each.sender == sender
        ]

    def deliver(self, place, *, again=False):
        sender, message = self.letters[place]
        if not again:
            del self.letters[place]
        scheduler, plain = self.schedulers[sender], self.plain[sender]
        state, before = scheduler.state.name, scheduler.estimates
        epoch = scheduler.epoch
        scheduler.receive(message, now=0.0)
        plain.receive(message)
        if scheduler.estimates != before:
            assert isinstance(message, LoadAnswer)
            assert epoch == message.epoch
            assert state in ("SEND_ALL", "WAIT_ALL")
            assert "RUN" == scheduler.state.name
            for instance, estimate in enumerate(scheduler.estimates):
                self.check_synchronised(sender, instance, epoch, estimate)

    def check_synchronised(self, sender, instance, epoch, estimate):
        """True work up to a question of the epoch, and what is believed of all tuples since."""
        mine = [each for each in self.history[instance] if each.sender == sender]
        believed = []
        for place, each in enumerate(mine):
            if each.question is not None and each.question.epoch == epoch:
                true = sum(cost(instance, past.code) for past in mine[: place + 1])
                believed.append(true + sum(later.charged for later in mine[place + 1 :]))
        assert any(estimate == pytest.approx(each) for each in believed), (estimate, believed)

    def check(self):
        for scheduler, plain in zip(self.schedulers, self.plain, strict=True):
            assert plain.state == scheduler.state.name
            assert plain.epoch == scheduler.epoch
            assert plain.estimates == scheduler.estimates

    def heal(self, sender, codes):
        """Let all arrive at once from now on, and count the tuples until RUN."""
        for instance, queue in enumerate(self.queues):
            while queue:
                self.execute(instance)
        while self.letters:
            self.deliver(0)
        needed = 0
        while self.schedulers[sender].state.name != "RUN":
            instance = self.send(sender, codes[needed % len(codes)])
            self.execute(instance)
            while self.letters:
                self.deliver(0)
            needed += 1
            assert needed <= tuples_until_run(self.instances, self.window)
        self.check()
        return needed


class OnAnyNetwork(RuleBasedStateMachine):
    """All that can happen, in any order."""

    @initialize(
        instances=st.integers(1, 4),
        senders=st.integers(1, 2),
        window=st.integers(3, 5),
        resync=st.none() | st.integers(1, 4),
        warm=st.booleans(),
    )
    def begin(self, instances, senders, window, resync, warm):
        self.world = World(instances, senders, window, resync)
        if warm:  # most of what can go wrong comes after the first epoch
            self.world.heal(0, CODES)

    @rule(data=st.data(), codes=st.lists(st.sampled_from(CODES), min_size=1, max_size=12))
    def send(self, data, codes):
        sender = data.draw(st.integers(0, len(self.world.schedulers) - 1))
        for code in codes:
            self.world.send(sender, code)

    @precondition(lambda self: any(self.world.queues))
    @rule(data=st.data(), most=st.integers(1, 12))
    def execute(self, data, most):
        waiting = [i for i, queue in enumerate(self.world.queues) if queue]
        instance = data.draw(st.sampled_from(waiting))
        for _ in range(min(most, len(self.world.queues[instance]))):
            self.world.execute(instance)

    @precondition(lambda self: any(self.world.queues))
    @rule(data=st.data(), place=st.integers(0, 99))
    def lose_question(self, data, place):
        waiting = [i for i, queue in enumerate(self.world.queues) if queue]
        self.world.lose_question(data.draw(st.sampled_from(waiting)), place)

    @precondition(lambda self: self.world.letters)
    @rule(data=st.data(), again=st.booleans())
    def deliver(self, data, again):
        place = data.draw(st.integers(0, len(self.world.letters) - 1))
        self.world.deliver(place, again=again)

    @precondition(lambda self: self.world.letters)
    @rule(data=st.data())
    def lose(self, data):
        del self.world.letters[data.draw(st.integers(0, len(self.world.letters) - 1))]

    @rule(data=st.data(), codes=st.lists(st.sampled_from(CODES), min_size=1, max_size=9))
    def heal(self, data, codes):
        sender = data.draw(st.integers(0, len(self.world.schedulers) - 1))
        self.world.heal(sender, codes)

    @invariant()
    def schedulers_are_as_the_plain_ones(self):
        if hasattr(self, "world"):
            self.world.check()


TestOnAnyNetwork = OnAnyNetwork.TestCase
TestOnAnyNetwork.settings = settings(max_examples=100, stateful_step_count=50)


@pytest.mark.parametrize("lost", range(24))
@pytest.mark.parametrize("instances", [1, 3])
def test_whichever_message_is_lost_the_next_tuples_lead_to_run(instances, lost):
    world = World(instances, senders=1, window=3)
    for number in range(12 * instances):
        instance = world.send(0, number % len(CODES))
        if world.queues[instance][0].question is not None:
            lost -= 1
            if lost == 0:
                world.lose_question(instance, 0)
        world.execute(instance)
        while world.letters:
            lost -= 1
            if lost == 0:
                del world.letters[0]
            else:
                world.deliver(0)
        world.check()

    world.heal(0, CODES)


def test_a_network_without_faults_needs_two_windows_of_each_instance_and_one_epoch():
    world = World(3, senders=1, window=4)

    assert 2 * 4 * 3 + 3 == world.heal(0, [0])


def test_answers_that_take_long_end_their_epoch_all_the_same():
    """Asking again must not make the first answer void, or long queues would wedge it."""
    world = World(2, senders=1, window=3)
    while world.schedulers[0].state.name != "SEND_ALL":
        world.execute(world.send(0, 1))
        while world.letters:
            world.deliver(0)
    for _ in range(40):  # nothing is executed meanwhile, and each is asked several times
        world.send(0, 1)
    epoch = world.schedulers[0].epoch
    world.execute(0)
    world.execute(1)
    world.deliver(0)
    world.deliver(0)

    assert (epoch, "RUN") == (world.schedulers[0].epoch, world.schedulers[0].state.name)
