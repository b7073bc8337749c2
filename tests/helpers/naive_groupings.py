"""Groupings that hear from their instances, in as few lines as can be: for simulated jobs."""

from dataclasses import dataclass

from grouping.feedback import Dispatcher, Reporter
from grouping.groupings import Grouping


@dataclass(frozen=True, slots=True)
class Echo(Grouping):
    """Sends to the instance heard to have the least on the way; notes go along and back."""

    every: int = 2
    kind = "echo"
    listens = True

    def _dispatcher(self, instances, sender, senders, truth):
        return EchoDispatcher(instances, sender, self.every)

    def _reporter(self, instance, instances, senders):
        return EchoReporter(senders, self.every)


class EchoDispatcher(Dispatcher):
    def __init__(self, instances, sender, every):
        self.open = [0.0] * instances
        self.sent = sender
        self.every = every

    def dispatch(self, code, now):
        self.sent += 1
        best = min(range(len(self.open)), key=lambda i: (self.open[i], (i + self.sent) % 3))
        self.open[best] += 1.0
        return best, (self.sent, now) if self.sent % self.every == 0 else None

    def receive(self, message, now):
        instance, weight, made = message
        assert made <= now
        self.open[instance % len(self.open)] -= weight


class EchoReporter(Reporter):
    def __init__(self, senders, every):
        self.senders, self.every = senders, every
        self.done = 0

    def executed(self, sender, code, seconds, now, carried):
        self.done += 1
        letters = []
        if carried is not None:
            assert carried[1] <= now
            letters += [(whom, (carried[0] + whom, 0.25, now)) for whom in range(self.senders)]
        if self.done % self.every:
            letters.append((sender, (code % 5, 1.0 + seconds, now)))
        return letters


@dataclass(frozen=True, slots=True)
class Knowing(Grouping):
    """Sends to where the tuple would be done first, or where the fewest wait."""

    count: bool = False
    kind = "knowing"
    listens = True

    def _dispatcher(self, instances, sender, senders, truth):
        return KnowingDispatcher(instances, truth, self.count)

    def _reporter(self, instance, instances, senders):
        return EchoReporter(senders, 1_000_000)


class KnowingDispatcher(Dispatcher):
    def __init__(self, instances, truth, count):
        self.instances, self.truth, self.count = instances, truth, count

    def dispatch(self, code, now):
        truth = self.truth
        costs = [
            truth.waiting(i) if self.count else truth.backlog(i) + truth.seconds(i)
            for i in range(self.instances)
        ]
        return costs.index(min(costs)), None
