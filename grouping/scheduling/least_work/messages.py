"""The messages between the scheduler of `LeastWork` and the instances."""

from dataclasses import dataclass

from grouping.scheduling.least_work.costs import Tally


@dataclass(frozen=True, slots=True)
class Expected:
    """Travels with a tuple: its expected cost.

    Attributes:
        number: counts the tuples of this sender for this instance, from 1.
        seconds: how long it is expected to take there.
    """

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """An instance's report to one sender, when its work differed from what was expected.

    All numbers but the tallies count from the beginning, so a report makes up for lost ones before
    it.

    Attributes:
        instance: the instance.
        serial: counts its reports for this sender, from 1.
        done: the number of the last tuple of this sender that was executed.
        tallies: the tuples of this sender that were executed since the report before, by key.
        mine: how many seconds the instance has worked on tuples of this sender.
        busy: how many it has worked on those of all senders.
    """

    instance: int
    serial: int
    done: int
    tallies: tuple[Tally, ...]
    mine: float
    busy: float
