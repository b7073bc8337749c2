"""Reconfigurations: every key that changes its owner moves, once, from the old to the new."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.migration.reconfiguration import Reconfiguration, reconfigure
from grouping.routing_table import RoutingTable
from sketches.errors import InvalidKeyError, InvalidValueError, PenstockError
from sketches.keys import as_keys

KEYS = {
    "integers": [5, -7, 0, 1 << 62],
    "text": ["a", "größe", "", "b"],
    "bytes": [b"a", b"\xff\x00", b"", b"b"],
    "pairs": [(1, "a"), (2, "b"), (1, "b"), (2, "a")],
}


class Owners:
    """Stands for a routing table: explicit owners, others by the remainder of their code."""

    def __init__(self, instances, table=None, kind=None):
        self.instances = instances
        self.table = dict(table or {})
        self.kind = kind

    def assign(self, keys):
        column = as_keys(keys)
        if self.kind is not None and column.kind != self.kind:
            raise InvalidKeyError(f"{column.kind} keys; this table was made for {self.kind}")
        rest = (column.codes % np.uint64(self.instances)).tolist()
        named = column.objects().tolist()
        return np.array(
            [self.table.get(key, part) for key, part in zip(named, rest, strict=True)], np.int32
        )

    def __eq__(self, other):
        return (self.instances, self.table) == (other.instances, other.table)

    __hash__ = None


@st.composite
def owners(draw, keys, *, most=5):
    instances = draw(st.integers(1, most))
    known = draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    return Owners(instances, {key: draw(st.integers(0, instances - 1)) for key in known})


def one_kind(kind):
    match kind:
        case "int":
            return st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 20)
        case "str":
            return st.text(st.characters(codec="utf-8"), max_size=4)
        case "bytes":
            return st.binary(max_size=4)
        case _:
            return st.tuples(st.integers(0, 4), st.sampled_from("abc"))


@st.composite
def changes(draw, versions=2):
    """Keys of one kind, and tables one after the other."""
    kind = draw(st.sampled_from(("int", "str", "bytes", "pairs")))
    keys = draw(st.lists(one_kind(kind), unique=True, max_size=20))
    return keys, *(draw(owners(keys)) for _ in range(versions))


def homes(table, keys):
    return dict(zip(keys, table.assign(keys).tolist(), strict=True))


def states(table, keys):
    """What every instance holds under a table: the state of each of its keys."""
    held = {}
    for key, owner in homes(table, keys).items():
        held.setdefault(owner, {})[key] = f"state of {key!r}"
    return held


def applied(reconfiguration, held):
    """Carry a reconfiguration out on a map from instances to states, as an engine would."""
    after = {instance: dict(keys) for instance, keys in held.items()}
    moving = {
        (change.instance, transfer.recipient, key): after[change.instance].pop(key)
        for change in reconfiguration.changes()
        for transfer in change.send
        for key in transfer.keys.tolist()
    }
    for change in reconfiguration.changes():
        for transfer in change.receive:
            for key in transfer.keys.tolist():
                state = moving.pop((transfer.sender, change.instance, key))
                after.setdefault(change.instance, {})[key] = state
    assert {} == moving
    return {instance: keys for instance, keys in after.items() if keys}


@given(changes())
def test_what_is_sent_and_what_is_received_are_each_exactly_the_moved_keys(drawn):
    keys, old, new = drawn
    before, after = homes(old, keys), homes(new, keys)
    expected = {(before[key], after[key], key) for key in keys if before[key] != after[key]}

    result = reconfigure(old, new, keys)
    sent = [
        (change.instance, transfer.recipient, key)
        for change in result.changes()
        for transfer in change.send
        for key in transfer.keys.tolist()
    ]
    received = [
        (transfer.sender, change.instance, key)
        for change in result.changes()
        for transfer in change.receive
        for key in transfer.keys.tolist()
    ]

    assert len(expected) == len(sent) == len(received) == result.moved
    assert expected == set(sent) == set(received)


@given(changes())
def test_each_instance_is_told_who_sends_and_who_receives_and_both_agree(drawn):
    keys, old, new = drawn
    told = reconfigure(old, new, keys).changes()

    assert list(range(max(old.instances, new.instances))) == [change.instance for change in told]
    sends = {(t.sender, t.recipient): t for change in told for t in change.send}
    receives = {(t.sender, t.recipient): t for change in told for t in change.receive}
    assert sends == receives
    for change in told:
        assert change.router is new
        assert all(change.instance == transfer.sender for transfer in change.send)
        assert all(change.instance == transfer.recipient for transfer in change.receive)
        recipients = [transfer.recipient for transfer in change.send]
        senders = [transfer.sender for transfer in change.receive]
        assert sorted(set(recipients)) == recipients
        assert sorted(set(senders)) == senders
        assert change.instance not in recipients + senders
        assert all(len(transfer) > 0 for transfer in change.send)


@given(changes())
def test_carried_out_it_makes_the_new_owners_of_the_old(drawn):
    keys, old, new = drawn

    assert states(new, keys) == applied(reconfigure(old, new, keys), states(old, keys))


@given(changes())
def test_nothing_moves_when_the_owners_stay(drawn):
    keys, old, _ = drawn
    result = reconfigure(old, copy.deepcopy(old), keys)

    assert (0, ()) == (result.moved, result.transfers())
    assert [((), ())] * old.instances == [(c.send, c.receive) for c in result.changes()]


@given(changes(versions=3))
def test_two_steps_lead_where_one_leads(drawn):
    keys, old, middle, new = drawn
    detour = applied(
        reconfigure(middle, new, keys), applied(reconfigure(old, middle, keys), states(old, keys))
    )

    assert detour == applied(reconfigure(old, new, keys), states(old, keys))


@given(changes())
def test_there_and_back_is_the_mirror_image(drawn):
    keys, old, new = drawn
    there, back = reconfigure(old, new, keys), reconfigure(new, old, keys)

    assert {(t.sender, t.recipient): t.keys.tolist() for t in there.transfers()} == {
        (t.recipient, t.sender): t.keys.tolist() for t in back.transfers()
    }


@given(changes(), st.randoms(use_true_random=False))
def test_the_order_of_the_keys_does_not_matter(drawn, random):
    keys, old, new = drawn
    sizes = {key: float(place) for place, key in enumerate(keys)}
    shuffled = random.sample(keys, len(keys))

    assert reconfigure(old, new, keys, sizes=[sizes[key] for key in keys]) == reconfigure(
        old, new, shuffled, sizes=[sizes[key] for key in shuffled]
    )


@given(changes())
def test_sizes_are_added_up_over_what_moves(drawn):
    keys, old, new = drawn
    before, after = homes(old, keys), homes(new, keys)
    sizes = [float(1 << place) for place in range(len(keys))]  # every sum of these is exact
    by_key = dict(zip(keys, sizes, strict=True))

    result = reconfigure(old, new, keys, sizes=sizes)

    assert sum(by_key[key] for key in keys if before[key] != after[key]) == result.bytes
    for transfer in result.transfers():
        assert sum(by_key[key] for key in transfer.keys.tolist()) == transfer.bytes


@given(changes())
def test_it_travels(drawn):
    result = reconfigure(*drawn[1:], drawn[0])

    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):  # noqa: S301
        assert result == other
        assert list(result.transfers()) == list(other.transfers())
        assert not other.keys.flags.writeable
    for transfer in result.transfers():
        other = pickle.loads(pickle.dumps(transfer))  # noqa: S301
        assert transfer == other
        assert not other.keys.flags.writeable


def test_without_sizes_nobody_knows_how_much_moves():
    result = reconfigure(Owners(1), Owners(2), [1, 2, 3])

    assert 2 == result.moved
    assert result.bytes is None
    assert [None] == [transfer.bytes for transfer in result.transfers()]


def test_scaling_in_empties_the_instances_that_go():
    result = reconfigure(Owners(4), Owners(2), list(range(8)))

    assert 4 == result.instances
    assert [[], [], [(0, [2, 6])], [(1, [3, 7])]] == [
        [(t.recipient, t.keys.tolist()) for t in change.send] for change in result.changes()
    ]


def test_pairs_of_instances_beyond_16_bits_are_told_apart():
    # Of 300 instances, the pair (218, 137) is number 65537, which in 16 bits is that of (0, 1).
    old, new = Owners(300, {0: 218, 1: 0}), Owners(300, {0: 137, 1: 1})

    assert [(0, 1, [1]), (218, 137, [0])] == [
        (t.sender, t.recipient, t.keys.tolist()) for t in reconfigure(old, new, [0, 1]).transfers()
    ]


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_kind_come_out_as_they_went_in(kind):
    keys = KEYS[kind]
    result = reconfigure(Owners(2, dict.fromkeys(keys, 0)), Owners(2, dict.fromkeys(keys, 1)), keys)

    assert sorted(keys) == sorted(result.keys.tolist())
    assert (np.int64 if kind == "integers" else np.object_) == result.keys.dtype


@pytest.mark.parametrize("container", [np.array, pa.array, as_keys, tuple])
def test_any_container_will_do(container):
    keys = ["a", "b", "c"]
    old, new = Owners(3), Owners(3, {"b": 0, "c": 1})

    assert reconfigure(old, new, keys) == reconfigure(old, new, container(keys))


def test_tables_send_keys_by_name_and_the_rest_by_their_hash():
    keys = [f"key {number}" for number in range(100)]
    hashed, table = (
        RoutingTable([], [], 3),
        RoutingTable(keys[:50], [number % 3 for number in range(50)], 3),
    )
    homes = hashed.assign(keys[:50]).tolist()

    result = reconfigure(hashed, table, keys)

    assert {keys[n] for n in range(50) if homes[n] != n % 3} == set(result.keys.tolist())


def test_tables_refuse_keys_of_another_kind():
    with pytest.raises(InvalidKeyError, match="int"):
        reconfigure(RoutingTable(["a"], [0], 2), RoutingTable(["a"], [1], 2), [1, 2])


def test_no_keys_are_of_no_kind_and_fit_any_table():
    result = reconfigure(Owners(2, kind="str"), Owners(3, kind="str"), [])

    assert (0, 3, 0) == (result.moved, result.instances, len(result.transfers()))


def test_a_key_that_is_listed_twice_is_refused_by_name():
    with pytest.raises(InvalidKeyError, match=r"'b' is listed twice; .* list it once"):
        reconfigure(Owners(1), Owners(2), ["a", "b", "c", "b"])


class Careless:
    """Owners that answer what they are told to."""

    instances = 2

    def __init__(self, answer):
        self.answer = answer

    def assign(self, keys):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ([0, 2, 0], "give key 'b' to instance 2; there are 2, counted from 0"),
        ([0, 0, -1], "give key 'c' to instance -1"),
        ([0, 0], "to 3 keys; it must be one integer for each"),
        ([0.0, 0.0, 0.0], "float64.* it must be one integer for each"),
    ],
)
@pytest.mark.parametrize("which", ["old", "new"])
def test_owners_that_do_not_own_are_refused(answer, match, which):
    pair = [Owners(2), Careless(answer)]
    old, new = pair if which == "new" else reversed(pair)

    with pytest.raises(InvalidValueError, match=f"{which} owners .*{match}"):
        reconfigure(old, new, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("instances", "match"),
    [(None, "old owners .* any number of instances; give those"), (0, "old.instances=0 is out")],
)
def test_owners_of_no_number_of_instances_are_refused(instances, match):
    with pytest.raises(InvalidValueError, match=match):
        reconfigure(Owners(instances), Owners(2), [])


@pytest.mark.parametrize("sizes", [[1], [1, -1], [1, float("nan")], "ab"])
def test_sizes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(PenstockError, match="sizes"):
        reconfigure(Owners(1), Owners(2), [1, 2], sizes=sizes)


def test_nobody_can_write_into_the_answer():
    result = reconfigure(Owners(1), Owners(2), [1, 2, 3], sizes=[1, 2, 3])

    for array in (result.keys, result.senders, result.recipients, result.sizes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_it_keeps_its_own_copy_of_arrays():
    keys = np.array([1, 2])
    result = Reconfiguration(Owners(2), 2, keys, np.array([0, 0]), np.array([1, 1]))
    keys[0] = 9

    assert [1, 2] == result.keys.tolist()


def test_a_million_keys_of_64_instances_come_out_in_the_right_lists():
    generator = np.random.default_rng(7)
    keys = generator.permutation(1_000_000)
    before, after = (generator.integers(0, 64, len(keys), np.int32) for _ in range(2))

    class Fixed(Careless):
        instances = 64

    result = reconfigure(Fixed(before), Fixed(after), keys)
    home, goal = (np.empty(len(keys), np.int32) for _ in range(2))
    home[keys], goal[keys] = before, after
    moved = np.concatenate([transfer.keys for transfer in result.transfers()])

    assert int((before != after).sum()) == result.moved == len(moved)
    assert np.array_equal(np.flatnonzero(home != goal), np.sort(moved))
    for transfer in result.transfers():
        assert (home[transfer.keys] == transfer.sender).all()
        assert (goal[transfer.keys] == transfer.recipient).all()
