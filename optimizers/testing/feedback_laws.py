"""The laws of groupings that listen, for dispatchers and reporters."""

import math
from itertools import cycle
from typing import Any

from hypothesis import strategies as st

from grouping.feedback import Message
from optimizers.errors import PenstockError
from optimizers.testing.grouping_suite import GroupingSuite, Sender
from optimizers.testing.laws import law, refused
from optimizers.testing.network import Fate, NetworkRun, delivered_at_once, run
from optimizers.testing.other_process import pickled
from optimizers.testing.streams import streams

_FAULTY = st.builds(
    Fate,
    late=st.sampled_from((0, 0, 1, 5)),
    lost=st.sampled_from((False, False, True)),
    again=st.sampled_from((None, 0, 3)),
)
_BAD_WORK: tuple[dict[str, Any], ...] = (
    {"seconds": -1.0},
    {"seconds": math.nan},
    {"seconds": math.inf},
    {"sender": -1},
    {"sender": 2},
)
_FOREIGN = ("no message", 7, None)


class FeedbackLaws(GroupingSuite):
    """The laws of a grouping whose dispatchers hear from the instances."""

    @law
    def test_dispatchers_choose_instances_that_exist_in_any_network(
        self, data: st.DataObject
    ) -> None:
        """Messages may be lost, late or doubled; tuples and letters still go where they can."""
        if self.grouping.listens:
            fates = data.draw(st.lists(_FAULTY, min_size=1, max_size=8), label="fates of messages")
            self._sent(data, fates)

    @law
    def test_a_message_that_comes_twice_counts_once(self, data: st.DataObject) -> None:
        """Loads are counted right: a message that comes twice counts once."""
        if self.grouping.listens:
            again = data.draw(st.integers(0, 10), label="tuples between the two")
            late = data.draw(st.integers(0, 3), label="tuples before the first")
            asked = self._question(data)
            once = run(*asked, cycle([Fate(late)]))
            twice = run(*asked, cycle([Fate(late, again=again)]))
            assert once.chosen == twice.chosen, (
                f"where messages come twice, tuples go to {twice.chosen} and not to {once.chosen}; "
                "number the messages, and pass over those that were heard"
            )

    @law
    def test_messages_travel(self, data: st.DataObject) -> None:
        """Messages pass through pickle unchanged."""
        if self.grouping.listens:
            asked = self._question(data)
            here = run(*asked, delivered_at_once())
            there = run(*asked, delivered_at_once(), wire=_over_the_wire)
            assert here.chosen == there.chosen, (
                f"where messages pass through pickle, tuples go to {there.chosen} and not to "
                f"{here.chosen}"
            )

    @law
    def test_dispatchers_share_nothing(self, data: st.DataObject) -> None:
        """The same tuples and messages lead to the same choices every time."""
        if self.grouping.listens:
            asked = self._question(data)
            first, second = (run(*asked, delivered_at_once()) for _ in range(2))
            assert first.chosen == second.chosen, (
                f"asked twice, dispatchers send tuples to {first.chosen} and {second.chosen}; keep "
                "state in them and not in the grouping, and draw from a seed"
            )

    @law
    def test_as_long_as_it_hears_nothing_it_spreads_a_key_as_promised(
        self, data: st.DataObject
    ) -> None:
        """Loads are counted right: a dispatcher that hears nothing uses what it has sent."""
        if not self.grouping.listens or self.spread is None:
            return  # it promises nothing
        instances = data.draw(st.sampled_from(self.instance_counts()), label="instances")
        tuples = data.draw(st.integers(1, 60), label="tuples of one key")

        def sent(keys: list[Any]) -> list[int]:
            return run(self.grouping, instances, 1, keys, cycle([Fate(lost=True)])).chosen

        keys = data.draw(st.sampled_from(tuple(self.keys())), label="keys")
        self._spreads(Sender(instances, 0, ()), keys, tuples, sent)

    def test_refuses_what_no_instance_sends(self) -> None:
        """Wrong numbers, foreign messages and work that cannot be are refused by errors of ours."""
        count = self.instance_counts()[-1]
        grouping, name = self.grouping, self.grouping.kind
        if not grouping.listens:
            refused(
                "a dispatcher of what does not listen",
                lambda: grouping.dispatcher(count),
                names=name,
            )
            refused(
                "a reporter of what does not listen",
                lambda: grouping.reporter(0, instances=count),
                names=name,
            )
            return
        refused("senders=0", lambda: grouping.dispatcher(count, senders=0), names="senders=0")
        refused("sender=1 of 1", lambda: grouping.dispatcher(count, sender=1), names="sender=1")
        refused(
            f"instance={count} of {count}",
            lambda: grouping.reporter(count, instances=count),
            names=f"instance={count}",
        )
        for wrong in _BAD_WORK:
            work = {"sender": 0, "code": 7, "seconds": 1.0, "now": 1.0, "carried": None, **wrong}
            reporter = grouping.reporter(0, instances=count, senders=2)
            try:
                letters = reporter.executed(**work)
            except PenstockError:
                continue
            except Exception as error:
                raise AssertionError(
                    f"a reporter refuses {wrong} by {type(error).__name__}: {error}; raise an "
                    "InvalidValueError"
                ) from error
            for recipient, message in letters:
                assert 0 <= recipient < 2, (
                    f"a reporter for 2 senders took {wrong} and sent {message!r} to {recipient}"
                )

    @law
    def test_a_foreign_message_is_refused_or_changes_nothing(self, data: st.DataObject) -> None:
        """Messages that no reporter of its own has sent make no difference to a dispatcher."""
        if not self.grouping.listens:
            return
        asked = self._question(data)
        expected = run(*asked, cycle([Fate(lost=True)])).chosen
        disturbed = run(*asked, cycle([Fate(lost=True)]), foreign=_FOREIGN).chosen
        assert expected == disturbed, (
            f"after messages that are none, tuples go to {disturbed} and not to {expected}"
        )

    def _question(self, data: st.DataObject) -> tuple[Any, int, int, list[Any]]:
        keys = data.draw(st.sampled_from(tuple(self.keys())), label="keys to draw from")
        return (
            self.grouping,
            data.draw(st.sampled_from(self.instance_counts()), label="instances"),
            data.draw(st.integers(1, 3), label="senders"),
            data.draw(streams(keys, longest=200), label="stream"),
        )

    def _sent(self, data: st.DataObject, fates: list[Fate]) -> NetworkRun:
        return run(*self._question(data), cycle(fates))


def _over_the_wire(message: Message) -> Message:
    arrived = pickled("a message", message)
    assert arrived == message, f"pickled, {message!r} is {arrived!r}; make messages frozen values"
    return arrived
