"""The contract of `Grouping` as a test suite: the laws of its routers, and how it travels."""

import copy
import json
from collections.abc import Iterable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from hypothesis import strategies as st

from grouping.grouping import Grouping
from grouping.groupings import grouping_from_dict, grouping_to_dict
from grouping.routers import Router
from optimizers.errors import PenstockError
from optimizers.testing.feedback_laws import FeedbackLaws
from optimizers.testing.grouping_suite import (
    Routed,
    Sender,
    one_by_one,
    routed,
    senders,
)
from optimizers.testing.laws import law, refused
from optimizers.testing.network import delivered_at_once, run
from optimizers.testing.other_process import answer_elsewhere, pickled
from optimizers.testing.streams import Keys, batches, containers, streams

_NO_ROWS: tuple[Any, ...] = (-1, 2.0, None, True, 1 << 31)
_NO_SENDERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"instances": 0}, "instances=0"),
    ({"instances": 2.0}, "instances=2.0"),
    ({"instances": True}, "instances=True"),
    ({"sender": -1}, "sender=-1"),
    ({"sender": 0.5}, "sender=0.5"),
    ({"local": [1 << 31]}, "local[0]="),
    ({"local": [0, 0]}, "local=[0, 0]"),
)


class GroupingContract(FeedbackLaws):
    """The laws of every grouping. Set `grouping` in a subclass, and say what it promises."""

    def test_is_a_value(self) -> None:
        """A copy of it is equal, has the same hash, and routes as it does."""
        name = self.grouping.kind
        for how, twin in (
            ("pickled", pickled(name, self.grouping)),
            ("copied", copy.deepcopy(self.grouping)),
        ):
            assert self.grouping == twin, f"{how}, {name} is {twin!r}, not equal to itself"
            assert hash(self.grouping) == hash(twin), (
                f"{how}, {name} has another hash; make equal groupings of equal hash"
            )
            self._routes_as(twin, how)
        assert self.grouping != object(), f"{name} equals anything; compare what is in it"

    def test_passes_through_json(self) -> None:
        """Written to a document and read, it is unchanged."""
        try:
            document = json.dumps(grouping_to_dict(self.grouping), allow_nan=False)
            back = grouping_from_dict(json.loads(document))
        except (PenstockError, TypeError, ValueError) as error:
            raise AssertionError(
                f"{self.grouping!r} does not pass through JSON: {error}; let to_dict return all "
                "fields as JSON types, and from_dict read them"
            ) from error
        assert self.grouping == back, f"written as JSON and read, it is {back!r}; write all fields"
        self._routes_as(back, "written as JSON and read")

    def test_refuses_a_document_with_a_field_too_many(self) -> None:
        """Unknown fields of a document are refused."""
        document = {**grouping_to_dict(self.grouping), "no_such_field": 1}
        refused(
            "a document with the field 'no_such_field'",
            lambda: grouping_from_dict(document),
            names="no_such_field",
        )

    @law
    def test_each_tuple_goes_to_an_instance_that_exists(self, data: st.DataObject) -> None:
        """There is one instance for each tuple, and it is one of those there are."""
        for sender, stream in self._asked(data):
            router = sender.router(self.grouping)
            assert router.instances == sender.instances, (
                f"a router to {sender.instances} instances says that it has {router.instances}"
            )
            for batch in data.draw(batches(stream), label="batches"):
                parts = router.route(len(batch), batch)
                assert isinstance(parts, np.ndarray), (
                    f"the router returned a {type(parts).__name__}; return an array of int32"
                )
                assert parts.dtype.kind == "i", (
                    f"the router returned an array of {parts.dtype}; return one of int32"
                )
                assert parts.shape == (len(batch),), (
                    f"{len(batch)} tuples were routed, and the answer has the shape {parts.shape}"
                )
                wrong = parts[(parts < 0) | (parts >= sender.instances)]
                assert not len(wrong), (
                    f"a tuple was sent to instance {wrong[0]} of {sender.instances}"
                )

    @law
    def test_how_the_stream_is_cut_changes_nothing(self, data: st.DataObject) -> None:
        """Tuples go where they would go one by one, in any batches."""
        if not self.any_cut:
            return  # it says that it looks at the whole batch
        for sender, stream in self._asked(data):
            cut = data.draw(batches(stream), label="batches")
            _agree(
                f"in batches of {[len(batch) for batch in cut]} keys",
                routed(sender.router(self.grouping), [stream]),
                routed(sender.router(self.grouping), cut),
            )

    @law
    def test_the_same_keys_go_the_same_way_in_every_container(self, data: st.DataObject) -> None:
        """Lists, arrays and Arrow's arrays of the same keys are routed the same way."""
        for sender, stream in self._asked(data):
            expected = routed(sender.router(self.grouping), [stream])
            for container, keys in containers(stream):
                _agree(
                    f"given as {container}",
                    expected,
                    one_by_one(sender.router(self.grouping).route(len(stream), keys)),
                )

    @law
    def test_routers_share_nothing(self, data: st.DataObject) -> None:
        """One router's tuples make no difference to another of the same grouping."""
        for sender, stream in self._asked(data):
            other = data.draw(senders((sender.instances,)), label="another sender")
            cut = data.draw(batches(stream), label="batches")
            alone = routed(sender.router(self.grouping), cut)
            router, busy = sender.router(self.grouping), other.router(self.grouping)
            beside: list[int] = []
            for batch in cut:
                routed(busy, [batch])
                beside += routed(router, [batch])
            _agree("beside another router", alone, beside)

    @law
    def test_a_key_has_one_owner_where_that_is_promised(self, data: st.DataObject) -> None:
        """All tuples of a key reach one instance, of any sender, at any time."""
        if not self.grouping.one_owner:
            return  # several instances may have a part of it
        assert self.grouping.needs_key, (
            f"{self.grouping.kind} promises one owner for each key and needs none; "
            "set needs_key = True"
        )
        for sender, stream in self._asked(data):
            owners: dict[Any, int] = {}
            for each in (sender, data.draw(senders((sender.instances,)), label="another sender")):
                mixed = data.draw(st.permutations(stream), label="the stream in another order")
                parts = routed(each.router(self.grouping), [mixed, stream])
                for key, part in zip([*mixed, *stream], parts, strict=True):
                    assert owners.setdefault(key, part) == part, (
                        f"key {key!r} was sent to {owners[key]} and to {part}, but "
                        f"{self.grouping.kind} promises one_owner"
                    )

    @law
    def test_the_tuples_of_a_key_are_spread_as_evenly_as_promised(
        self, data: st.DataObject
    ) -> None:
        """Loads are counted right: tuples of one key alone are dealt out to its instances."""
        if self.spread is None or not self.routes:
            return  # it promises none
        sender = data.draw(senders(self.instance_counts()), label="sender")
        tuples = data.draw(st.integers(1, 200), label="tuples of one key")
        keys = data.draw(st.sampled_from(tuple(self.keys())), label="keys")
        self._spreads(
            sender, keys, tuples, lambda sent: routed(sender.router(self.grouping), [sent])
        )

    @law
    def test_it_leaves_its_arguments_and_answers_alone(self, data: st.DataObject) -> None:
        """A router changes neither keys nor earlier answers, and does not look at them again."""
        for sender, stream in self._asked(data):
            router, twin = (sender.router(self.grouping) for _ in range(2))
            before = copy.deepcopy(self.grouping)
            keys = np.empty(len(stream), dtype=object)
            keys[:] = stream
            first = router.route(len(stream), keys if not _pairs(stream) else stream)
            kept = first.copy()
            assert keys.tolist() == stream, "the router changed the keys it was given"
            second = one_by_one(router.route(len(stream), stream))
            assert kept.tolist() == one_by_one(first), (
                "the router changed an earlier answer; return a new array each time"
            )
            _agree("after another batch", routed(twin, [stream, stream])[len(stream) :], second)
            if first.flags.writeable:
                first[:] = (first + 1) % sender.instances
            third = one_by_one(router.route(len(stream), stream))
            _agree("after an answer was written over", routed(twin, [stream]), third)
            assert self.grouping == before, (
                f"{self.grouping.kind} was changed by its router; keep state in the router"
            )

    @law
    def test_it_does_without_keys_it_does_not_need(self, data: st.DataObject) -> None:
        """A router that does not choose by keys ignores them."""
        for sender, stream in self._asked(data):
            rows = len(stream)
            if not self._chooses_without_keys(sender):
                continue
            expected = one_by_one(sender.router(self.grouping).route(rows))
            for what, keys in (("keys", stream), ("no keys at all", object())):
                _agree(
                    f"given {what} that it does not need",
                    expected,
                    one_by_one(sender.router(self.grouping).route(rows, keys)),
                )

    @law
    def test_refuses_what_is_no_batch_and_is_as_it_was(self, data: st.DataObject) -> None:
        """Bad rows and keys get an error of ours, and count for nothing."""
        for sender, stream in self._asked(data):
            router, twin = (sender.router(self.grouping) for _ in range(2))
            _agree("asked twice", routed(twin, [stream]), routed(router, [stream]))
            _refuses_bad_rows(router, stream)
            if not self._chooses_without_keys(sender):
                _refuses_bad_keys(router, stream)
            _agree("after refusals", routed(twin, [stream]), routed(router, [stream]))

    def test_refuses_numbers_that_fit_no_sender(self) -> None:
        """A router cannot be made of wrong numbers."""
        count = self.instance_counts()[0]
        right = {"instances": count, "sender": 0, "local": ()}
        for wrong, names in _NO_SENDERS:
            arguments = {**right, **wrong}
            refused(
                f"a router with {wrong}", partial(self.grouping.router, **arguments), names=names
            )
        if self.grouping.instances is not None:
            more = self.grouping.instances + 1
            refused(
                f"a router to {more} instances of a grouping made for {more - 1}",
                lambda: self.grouping.router(more),
                names=f"instances={more}",
            )
        if not self.routes:
            refused(
                "a router of a grouping that routes no batches",
                lambda: self.grouping.router(count),
                names=type(self.grouping).__name__,
            )

    def test_gives_the_same_answers_in_another_process(self) -> None:
        """Another process, with another seed for built-in hashes, routes and sends the same."""
        here = _answers_of(*self._asked_of_all(self.grouping))
        there = answer_elsewhere(
            self.grouping.kind, _answers_of, *self._asked_of_all(self.grouping)
        )
        for first, second in zip(here, there, strict=True):
            _agree(
                "in a process with another PYTHONHASHSEED (look for hash() and for sets that are "
                "iterated)",
                first,
                second,
            )

    def _asked_of_all(self, grouping: Grouping) -> tuple[Any, ...]:
        """Return questions to ask the grouping, and anything that should answer as it does."""
        counts = cycle(self.instance_counts())
        pools = tuple((list(keys), next(counts)) for keys in self.keys())
        return grouping, pools if self.routes else (), pools if grouping.listens else ()

    def _routes_as(self, twin: Grouping, how: str) -> None:
        answers = (_answers_of(*self._asked_of_all(each)) for each in (self.grouping, twin))
        for first, second in zip(*answers, strict=True):
            _agree(how, first, second)

    def _asked(self, data: st.DataObject) -> Iterable[tuple[Sender, list[Any]]]:
        """Yield a sender and a stream of one kind of key."""
        if not self.routes:
            return
        sender = data.draw(senders(self.instance_counts()), label="sender")
        keys = data.draw(st.sampled_from(tuple(self.keys())), label="keys to draw from")
        yield sender, data.draw(streams(keys), label="stream")

    def _chooses_without_keys(self, sender: Sender) -> bool:
        """Return whether a router takes batches without keys, as some do that could use them."""
        if not self.grouping.needs_key:
            return True
        try:
            sender.router(self.grouping).route(2)
        except PenstockError:
            return False
        return True


def _agree(how: str, expected: Routed, actual: Routed) -> None:
    assert expected == actual, f"{how}, tuples go to {actual} and not to {expected}"


def _pairs(stream: Keys) -> bool:
    return bool(stream) and isinstance(stream[0], tuple)


def _refuses_bad_rows(router: Router, stream: list[Any]) -> None:
    for rows in _NO_ROWS:
        refused(f"rows={rows!r}", partial(router.route, rows, stream[:2]), names=f"rows={rows}")


def _refuses_bad_keys(router: Router, stream: list[Any]) -> None:
    rows = len(stream)
    refused("a batch without keys", lambda: router.route(rows + 1), names=str(rows + 1))
    refused(
        f"rows={rows + 1} and {rows} keys",
        lambda: router.route(rows + 1, stream),
        names=f"rows={rows + 1}",
    )
    if not stream:
        return
    refused(
        f"a missing key at {rows}",
        lambda: router.route(rows + 1, [*stream, None]),
        names=f"{rows}",
    )
    refused(
        "a key of no kind at 0",
        lambda: router.route(1, [1.5]),
        names="0",
    )


def _answers_of(
    grouping: Grouping,
    to_route: Iterable[tuple[list[Any], int]],
    to_dispatch: Iterable[tuple[list[Any], int]],
) -> list[Routed]:
    """Return where some streams go to some numbers of instances, by routers and dispatchers."""
    answers: list[Routed] = []
    for keys, instances in to_route:
        for sender in (0, 3):
            router = grouping.router(instances, sender=sender, local=[instances - 1])
            answers.append(routed(router, [_fixed_stream(keys)]))
    for keys, instances in to_dispatch:
        answers.append(run(grouping, instances, 2, _fixed_stream(keys), delivered_at_once()).chosen)
    return answers


def _fixed_stream(keys: list[Any]) -> list[Any]:
    return [keys[place * place * 7 % 31 % len(keys)] for place in range(300)]
