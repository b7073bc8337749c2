"""The migration protocol, message by message: who says what, when, and what is refused."""

from collections import Counter

import pytest
from protocol_cluster import (
    CHAIN,
    Cluster,
    Owners,
)

from grouping.migration.protocol import (
    MANAGER,
    OUTSIDE,
    Ack,
    Address,
    Begin,
    Configuration,
    DataTuple,
    Decided,
    Done,
    GetMetrics,
    Job,
    Manager,
    Message,
    Migrate,
    Phase,
    Propagate,
    ProtocolInstance,
    Save,
    Saved,
    SendMetrics,
    SendReconfiguration,
)
from sketches.errors import InvalidKeyError, InvalidValueError

# One job for what follows: key 1 of "count" moves from instance 1 to instance 0.
SMALL = Job({"read": 1, "count": 2}, (("read", "count"),))
READ, COUNT_0, COUNT_1 = Address("read"), Address("count", 0), Address("count", 1)
OLD = Configuration(0, {"count": Owners(2)})
NEW = Configuration(1, {"count": Owners(2, ((1, 0),))})


def spoken(wish):
    """Lead a job to other owners, always by the first channel with a message; return all said."""
    cluster = Cluster(SMALL, OLD.owners)
    cluster.tell_manager(Begin())
    said = []
    handle = cluster.handle
    cluster.handle = lambda message: (said.append(message), handle(message))
    cluster.drain(lambda _: 0, wish.owners)
    cluster.check_at_rest()
    return said


def told(instance, *messages):
    """Return an instance after messages that were numbered in order, and all that it sent."""
    sent = []
    for sender, body in messages:
        number = None if sender == MANAGER else instance.received.get(sender, 0)
        instance, more = instance.handle(Message(sender, instance.address, body, number))
        sent += more
    return instance, [(message.recipient, message.body) for message in sent]


def fresh(address):
    return ProtocolInstance.fresh(address, SMALL, OLD)


def of_key(key, number=0):
    return DataTuple(number, {"count": key})


def test_the_messages_come_in_the_order_of_the_papers_figure():
    said = spoken(NEW)
    kinds = [GetMetrics, SendMetrics, SendReconfiguration, Ack, Propagate, Migrate, Done]
    first = {kind: [type(m.body) for m in said].index(kind) for kind in kinds}
    last = {kind: max(n for n, m in enumerate(said) if isinstance(m.body, kind)) for kind in kinds}

    assert last[GetMetrics] < first[SendReconfiguration]
    assert last[SendMetrics] < first[SendReconfiguration]
    assert last[Ack] < first[Propagate] < first[Migrate]
    assert {
        "GetMetrics": 3,
        "SendMetrics": 3,
        "SendReconfiguration": 3,
        "Ack": 3,
        "Propagate": 3,
        "Migrate": 2,
        "Done": 3,
    } == Counter(type(message.body).__name__ for message in said)


def test_the_manager_saves_before_it_tells_anyone():
    manager = Manager(SMALL, OLD, Phase.DECIDING)
    manager, asked = manager.handle(Decided(NEW.owners))

    assert (Save(NEW),) == asked

    _, asked = manager.handle(Saved(1))

    assert [SendReconfiguration(NEW)] * 3 == [message.body for message in asked]


def test_metrics_say_how_often_each_key_came():
    _, sent = told(
        fresh(COUNT_1),
        (READ, of_key(1)),
        (READ, of_key(3)),
        (READ, of_key(1)),
        (MANAGER, GetMetrics(0)),
    )

    assert [(MANAGER, SendMetrics(0, {1: 2, 3: 1}))] == sent


def test_a_tuple_waits_for_state_that_another_instance_still_has():
    instance, sent = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(1)),
    )

    assert ((READ, of_key(1)),) == instance.waiting
    assert (MANAGER, Done(1)) not in sent


def test_a_tuple_of_a_key_that_stays_does_not_wait():
    instance, _ = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(0)),
    )

    assert ((), {0: ((0, READ),)}) == (instance.waiting, instance.state)


def test_the_state_comes_before_the_tuples_that_waited_for_it_in_their_order():
    instance, sent = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(1, number=8)),
        (READ, of_key(1, number=9)),
        (COUNT_1, Migrate(1, {1: ((7, READ),)})),
    )

    assert ((), {1: ((7, READ), (8, READ), (9, READ))}) == (instance.waiting, instance.state)
    assert (MANAGER, Done(1)) == sent[-1]


def test_an_empty_migrate_lets_waiting_tuples_go():
    instance, _ = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
        (READ, of_key(1)),
        (COUNT_1, Migrate(1, {})),
    )

    assert ((), {1: ((0, READ),)}) == (instance.waiting, instance.state)


def test_state_that_comes_before_the_switch_is_kept_for_it():
    instance, sent = told(
        fresh(COUNT_0),
        (MANAGER, SendReconfiguration(NEW)),
        (COUNT_1, Migrate(1, {1: ((7, READ),)})),
    )

    assert [(MANAGER, Ack(1))] == sent

    instance, sent = told(instance, (READ, Propagate(1)), (READ, of_key(1, number=8)))

    assert [(COUNT_1, Migrate(1, {})), (MANAGER, Done(1))] == sent
    assert {1: ((7, READ), (8, READ))} == instance.state


def test_a_key_that_came_after_the_metrics_moves_as_well():
    instance, sent = told(
        fresh(COUNT_1),
        (MANAGER, GetMetrics(0)),
        (READ, of_key(1)),
        (MANAGER, SendReconfiguration(NEW)),
        (READ, Propagate(1)),
    )

    assert (MANAGER, SendMetrics(0, {})) == sent[0]
    assert (COUNT_0, Migrate(1, {1: ((0, READ),)})) in sent
    assert {} == instance.state


def test_an_instance_goes_on_without_waiting_for_its_siblings_state():
    instance, sent = told(
        ProtocolInstance.fresh(
            Address("a"), CHAIN, Configuration(0, {"a": Owners(2), "b": Owners(2)})
        ),
        (MANAGER, SendReconfiguration(Configuration(1, {"a": Owners(1), "b": Owners(2)}))),
        (READ, Propagate(1)),
    )

    assert instance.switched
    assert [(Address("b", n), Propagate(1)) for n in range(2)] == sent[1:]


def test_an_operator_whose_owners_stay_exchanges_nothing():
    said = spoken(OLD)

    assert [] == [message for message in said if isinstance(message.body, Migrate)]


def test_an_instance_that_is_done_says_so_again_to_a_manager_that_crashed():
    done, _ = told(fresh(READ), (MANAGER, SendReconfiguration(NEW)), (MANAGER, Propagate(1)))

    again, sent = told(done, (MANAGER, SendReconfiguration(NEW)), (MANAGER, Propagate(1)))

    assert done == again
    assert [(MANAGER, Ack(1)), (MANAGER, Done(1))] == sent


def test_a_wish_during_a_reconfiguration_waits_for_its_end():
    manager, _ = Manager.restarted(SMALL, NEW)
    manager, asked = manager.handle(Begin())

    assert () == asked

    for body in (Ack(1), Done(1)):
        for address in SMALL.addresses:
            manager, asked = manager.handle(Message(address, MANAGER, body))

    assert [GetMetrics(1)] * 3 == [message.body for message in asked]
    assert (Phase.MEASURING, False) == (manager.phase, manager.again)


def test_where_the_present_owners_shall_stay_nothing_is_saved_or_sent():
    manager, asked = Manager(SMALL, OLD, Phase.DECIDING).handle(Decided(None))

    assert ((), Manager(SMALL, OLD)) == (asked, manager)


@pytest.mark.parametrize(
    ("address", "messages", "match"),
    [
        (COUNT_0, [(READ, of_key(1))], "who does not own its key; route by the owners"),
        (
            COUNT_1,
            [
                (MANAGER, SendReconfiguration(NEW)),
                (READ, Propagate(1)),
                (READ, of_key(1)),
            ],
            "who does not own its key",
        ),
        (READ, [(MANAGER, Propagate(1))], "of epoch 1, which is not under way there; switch only"),
        (COUNT_0, [(COUNT_1, Migrate(1, {}))], "of epoch 1, which is not under way"),
        (COUNT_0, [(COUNT_1, Migrate(0, {}))], "of epoch 0, which is not under way"),
        (
            COUNT_0,
            [(MANAGER, SendReconfiguration(Configuration(2, OLD.owners)))],
            "asked for epoch 2 before it has ended 1; wait until all",
        ),
        (READ, [(MANAGER, Done(1))], "is for the manager, not for .*read.*; send it there"),
    ],
)
def test_what_cannot_come_if_all_keep_to_the_protocol_is_refused(address, messages, match):
    with pytest.raises(InvalidValueError, match=match):
        told(fresh(address), *messages)


def test_a_tuple_without_the_key_of_an_operator_is_refused():
    data = DataTuple(5, {"other": 1})

    with pytest.raises(InvalidKeyError, match=r"tuple 5 has no key for 'count'.*for \['other'\]"):
        told(fresh(READ), (OUTSIDE, data))
    with pytest.raises(InvalidKeyError, match="tuple 5 has no key for 'count'"):
        told(fresh(COUNT_0), (READ, data))


def test_a_lost_message_is_noticed():
    with pytest.raises(InvalidValueError, match=r"message 1 of .*, not 0; channels must be first"):
        fresh(COUNT_0).handle(Message(READ, COUNT_0, of_key(0), 1))


def test_a_message_that_came_before_is_passed_over():
    instance, _ = told(fresh(COUNT_0), (READ, of_key(0)))

    assert (instance, ()) == instance.handle(Message(READ, COUNT_0, of_key(0), 0))


@pytest.mark.parametrize(
    ("phase", "event", "match"),
    [
        (Phase.IDLE, Decided(NEW.owners), "hears a decision while it is idle, not deciding"),
        (Phase.IDLE, Saved(1), "that epoch 1 was saved while it is idle, not saving; answer only"),
        (Phase.DECIDING, Decided({}), r"decided for \[\]; decide for \['count'\], which keep"),
        (Phase.DECIDING, Decided({"count": Owners(3)}), r"instances=3 is out of range"),
        (Phase.IDLE, Message(READ, MANAGER, Propagate(1)), "is for an instance, not for the man"),
    ],
)
def test_the_manager_refuses_answers_that_it_did_not_ask_for(phase, event, match):
    with pytest.raises(InvalidValueError, match=match):
        Manager(SMALL, OLD, phase).handle(event)


@pytest.mark.parametrize("body", [Ack(0), Ack(2), Done(0), Done(2), SendMetrics(1, {})])
@pytest.mark.parametrize("phase", sorted(Phase))
def test_the_manager_passes_over_answers_of_another_epoch(phase, body):
    manager = Manager(SMALL, NEW, phase)
    if phase is Phase.MEASURING and isinstance(body, SendMetrics):
        body = SendMetrics(0, {})

    assert (manager, ()) == manager.handle(Message(READ, MANAGER, body))


@pytest.mark.parametrize(
    ("instances", "edges", "match"),
    [
        ({"a": 0}, (), r"instances\['a'\]=0 is out of range"),
        ({"a": 1}, (("a", "b"),), r"there is no operator 'b'; name one of \['a'\]"),
        ({"a": 1, "b": 1}, (("a", "b"), ("a", "b")), "name an edge twice"),
        ({"a": 1, "b": 1}, ("ab",), "'ab' is not an edge; write"),
        ({"(manager)": 1}, (), "which is taken; rename it"),
        ({"a": 1, "b": 1}, (("a", "b"), ("b", "a")), "feed each other, so each would wait"),
    ],
)
def test_a_job_that_cannot_run_is_refused(instances, edges, match):
    with pytest.raises(InvalidValueError, match=match):
        Job(instances, edges)


@pytest.mark.parametrize(
    ("owners", "match"),
    [
        ({"read": Owners(1)}, r"owners\['read'\]: no operator of that name is fed"),
        ({"lost": Owners(1)}, r"owners\['lost'\]: no operator of that name"),
        ({"count": Owners(3)}, r"owners\['count'\].instances=3 is out of range"),
        ({"count": Owners(0)}, "instances=0 is out of range"),
    ],
)
def test_owners_that_do_not_fit_the_job_are_refused(owners, match):
    with pytest.raises(InvalidValueError, match=match):
        Configuration(0, owners).check(SMALL)
