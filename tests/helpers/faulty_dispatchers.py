"""Groupings whose dispatchers or reporters have one fault each; see `faulty_groupings`."""

from dataclasses import dataclass

from faulty_groupings import named

from grouping.grouping import Grouping
from grouping.routers import RoundRobinRouter
from grouping.scheduling.baseline_dispatchers import (
    Acknowledgement,
    Acknowledger,
    ShortestQueueDispatcher,
)
from sketches.errors import InvalidValueError


@dataclass(frozen=True)
class Listening(Grouping):
    """Sends tuples to the shortest queue; the base of those whose halves have a fault."""

    listens = True

    def _router(self, instances, sender, local):
        return RoundRobinRouter(instances, among=range(instances), start=sender)

    def _dispatcher(self, instances, sender, senders, truth):
        return type(self).sends(instances, sender=sender)

    def _reporter(self, instance, instances, senders):
        return type(self).reports(instance, senders=senders, every=2)

    sends = ShortestQueueDispatcher
    reports = Acknowledger


@named
class ListensRight(Listening):
    pass


class Subtracts(ShortestQueueDispatcher):
    """Takes each acknowledgement for two more tuples, though it may have come before."""

    def receive(self, message, now):
        if not isinstance(message, Acknowledgement):
            raise InvalidValueError(f"{message!r} is none; send an acknowledgement")
        if self._waiting[message.instance] >= 2:
            self._waiting.change(message.instance, -2)


@named
class HearsTwice(Listening):
    sends = Subtracts


class GivesUp(ShortestQueueDispatcher):
    """Sends tuples nowhere once an acknowledgement is missing."""

    missing = False

    def receive(self, message, now):
        if isinstance(message, Acknowledgement):
            self.missing |= message.done > self._done[message.instance] + 2
        super().receive(message, now)

    def dispatch(self, code, now):
        instance, carried = super().dispatch(code, now)
        return (-1 if self.missing else instance), carried


@named
class SendsNowhere(Listening):
    sends = GivesUp


class ToAnother(Acknowledger):
    def executed(self, sender, code, seconds, now, carried):
        letters = super().executed(sender, code, seconds, now, carried)
        return [(to + 1, message) for to, message in letters]


@named
class AnswersOthers(Listening):
    reports = ToAnother


@dataclass(frozen=True)
class Untravelled:
    """An acknowledgement that knows where it was made."""

    said: Acknowledgement
    made: object

    def __eq__(self, other):
        return self.made is other.made

    __hash__ = None


class SaysWhere(Acknowledger):
    def executed(self, sender, code, seconds, now, carried):
        letters = super().executed(sender, code, seconds, now, carried)
        return [(to, Untravelled(message, object())) for to, message in letters]


class ReadsWhere(ShortestQueueDispatcher):
    def receive(self, message, now):
        super().receive(getattr(message, "said", message), now)


@named
class MessagesStayAtHome(Listening):
    sends = ReadsWhere
    reports = SaysWhere


class RemembersAll(ShortestQueueDispatcher):
    made = [0]  # noqa: RUF012  # the fault

    def __init__(self, instances, *, sender):
        self.made[0] += 1
        super().__init__(instances, sender=sender + self.made[0])


@named
class BeginsElsewhereEachTime(Listening):
    sends = RemembersAll


class HearsAnything(ShortestQueueDispatcher):
    def receive(self, message, now):
        if isinstance(message, Acknowledgement):
            super().receive(message, now)
        else:
            self._waiting.give(0, 1)


@named
class TakesForeignMessages(Listening):
    sends = HearsAnything


class TakesAnySender(Acknowledger):
    def executed(self, sender, code, seconds, now, carried):
        return ((sender, Acknowledgement(self._instance, 1)),)


@named
class TakesForeignWork(Listening):
    reports = TakesAnySender


class AlwaysFirst(ShortestQueueDispatcher):
    def _choose(self):
        return 0 if self._waiting[0] < 3 else self._waiting.least


@named
class FillsTheFirst(Listening):
    sends = AlwaysFirst


@named
@dataclass(frozen=True)
class DeafAllTheSame(Listening):
    """Says that it does not listen, and has a dispatcher."""

    listens = False
