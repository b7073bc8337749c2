"""SpaceSaving as bytes: round trips, damage, and frames with wrong contents."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

# Each kind names twelve keys, by number.
from space_saving_streams import (
    BLOCKS,
    CAPACITIES,
    KINDS,
    STREAMS,
    check_against,
    every_kind,
    exact,
    feed,
    same_now_and_later,
)

from sketches import wire
from sketches.errors import CorruptDataError
from sketches.space_saving import SpaceSaving


class TestBytes:
    @every_kind
    @given(capacity=CAPACITIES, block=BLOCKS, stream=STREAMS, more=STREAMS)
    @settings(max_examples=50)
    def test_a_sketch_comes_back_from_bytes(self, name, capacity, block, stream, more):
        sketch = SpaceSaving(capacity, block=block)
        feed(sketch, name, stream)
        before = sketch.copy()
        restored = SpaceSaving.from_bytes(sketch.to_bytes())
        assert same_now_and_later(before, sketch)
        assert sketch == restored
        assert sketch.top() == restored.top()
        assert (sketch.capacity, sketch.block, sketch.kind, sketch.floor, sketch.total) == (
            restored.capacity,
            restored.block,
            restored.kind,
            restored.floor,
            restored.total,
        )
        truth = exact(stream)
        check_against(restored, truth, name)
        feed(restored, name, more)
        truth.update(exact(more))
        check_against(restored, truth, name)

    @pytest.mark.parametrize(
        "duplicate",
        [
            lambda sketch: pickle.loads(pickle.dumps(sketch)),  # noqa: S301  # our own bytes
            copy.copy,
            copy.deepcopy,
            SpaceSaving.copy,
        ],
        ids=["pickle", "copy.copy", "copy.deepcopy", "copy"],
    )
    def test_a_duplicate_is_equal_and_leads_its_own_life(self, duplicate):
        sketch = SpaceSaving(2, block=3)
        sketch.update(["a", "b", "c", "c"])
        twin = duplicate(sketch)
        assert sketch == twin
        assert twin is not sketch
        twin.update(["b", "b"])
        assert sketch != twin
        assert sketch.total == 4

    def test_sketches_differ_by_what_they_answer_and_by_their_parameters(self):
        def sketch(keys, capacity=3, block=9):
            made = SpaceSaving(capacity, block=block)
            made.update(keys)
            return made

        assert sketch([1, 1, 2]) == sketch([1, 2, 1])
        for other in (
            sketch([1, 2, 2]),
            sketch([1, 1, 3]),
            sketch([1, 1, 2], capacity=4),
            sketch([1, 1, 2], block=8),
            sketch(["1", "1", "2"]),
            SpaceSaving(3, block=9),
            b"",
        ):
            assert sketch([1, 1, 2]) != other

    def test_truncated_bytes_are_refused_at_every_length(self):
        data = sample("text").to_bytes()
        for length in range(len(data)):
            with pytest.raises(CorruptDataError):
                SpaceSaving.from_bytes(data[:length])

    def test_every_flipped_byte_is_refused(self):
        data = bytearray(sample("pairs of text and integers").to_bytes())
        for place in range(len(data)):
            for flip in (0x01, 0xFF):
                data[place] ^= flip
                with pytest.raises(CorruptDataError):
                    SpaceSaving.from_bytes(bytes(data))
                data[place] ^= flip

    @pytest.mark.parametrize(
        "data",
        [b"", b"PNSK", b"not ours at all, sorry", pickle.dumps([1, 2]), 5, "text", None],
    )
    def test_foreign_bytes_are_refused(self, data):
        with pytest.raises(CorruptDataError):
            SpaceSaving.from_bytes(data)

    def test_bytes_of_another_sketch_are_refused(self):
        with pytest.raises(CorruptDataError, match="hold a Scarecrow"):
            SpaceSaving.from_bytes(wire.pack("Scarecrow", 1, {"capacity": 1, "block": 1}, {}))

    def test_stored_bytes_do_not_change_with_the_version_of_penstock(self):
        assert STORED == sample("pairs of text and integers").to_bytes().hex()
        assert sample("pairs of text and integers") == SpaceSaving.from_bytes(bytes.fromhex(STORED))

    def test_bytes_of_the_version_before_are_refused_by_name(self):
        with pytest.raises(CorruptDataError, match=r"SpaceSaving version 1 is not 2; read it with"):
            SpaceSaving.from_bytes(bytes.fromhex(STORED_BY_VERSION_1))


def sample(kind):
    """Return a sketch with a floor above 0 and an unfinished block."""
    sketch = SpaceSaving(3, block=8)
    sketch.update([KINDS[kind](n) for n in (1, 1, 1, 2, 2, 3, 3, 4, 5, 1)])
    return sketch


STORED = (
    "504e534b01fa0000007b2274797065223a225370616365536176696e67222c2276657273696f6e22"
    "3a322c226669656c6473223a7b226361706163697479223a332c22626c6f636b223a382c226b696e"
    "64223a22287374722c20696e7429222c22666c6f6f72223a322e302c22746f74616c223a31302e30"
    "7d2c22617272617973223a5b5b22636f756e7473222c223c6638222c335d2c5b226572726f727322"
    "2c223c6638222c335d2c5b226b6579732e6c6566742e64617461222c227c7531222c31355d2c5b22"
    "6b6579732e6c6566742e6c656e67746873222c223c6938222c335d2c5b226b6579732e7269676874"
    "2e76616c756573222c223c6938222c335d5d7d000000000000104000000000000000400000000000"
    "00004000000000000000000000000000000000000000000000000074616720317461672030746167"
    "20320500000000000000050000000000000005000000000000000100000000000000030000000000"
    "000002000000000000002d2e6ce5"
)

# As it was written while texts had other fingerprints.
STORED_BY_VERSION_1 = (
    "504e534b01fa0000007b2274797065223a225370616365536176696e67222c2276657273696f6e22"
    "3a312c226669656c6473223a7b226361706163697479223a332c22626c6f636b223a382c226b696e"
    "64223a22287374722c20696e7429222c22666c6f6f72223a322e302c22746f74616c223a31302e30"
    "7d2c22617272617973223a5b5b22636f756e7473222c223c6638222c335d2c5b226572726f727322"
    "2c223c6638222c335d2c5b226b6579732e6c6566742e64617461222c227c7531222c31355d2c5b22"
    "6b6579732e6c6566742e6c656e67746873222c223c6938222c335d2c5b226b6579732e7269676874"
    "2e76616c756573222c223c6938222c335d5d7d000000000000104000000000000000400000000000"
    "00004000000000000000000000000000000000000000000000000074616720317461672032746167"
    "20300500000000000000050000000000000005000000000000000100000000000000020000000000"
    "00000300000000000000deee09d2"
)


def edited(kind, *, drop=(), fields=None, **arrays):
    """Return a valid frame of a sample with some of its contents replaced by functions of them."""
    old_fields, old = wire.unpack(sample(kind).to_bytes(), "SpaceSaving", 2)
    old |= {name: change(old[name]) for name, change in arrays.items()}
    old |= {"keys.values": old.pop("values")} if "values" in old else {}
    new = {name: array for name, array in old.items() if name not in drop}
    new_fields = {n: v for n, v in (old_fields | (fields or {})).items() if n not in drop}
    return wire.pack("SpaceSaving", 2, new_fields, new)


def at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


def swapped(array):
    return array[[0, 2, 1]]


WRONG_CONTENTS = {
    "a count that is no number": ("integers", {"counts": at(0, np.nan)}),
    "an infinite count": ("integers", {"counts": at(0, np.inf)}),
    "a negative error": ("integers", {"errors": at(0, -1.0)}),
    "a count below the floor": ("integers", {"counts": at(2, 0.5)}),
    "an error above the floor": ("integers", {"errors": at(2, 99.0)}),
    "an error that is no number": ("integers", {"errors": at(0, np.nan)}),
    "counts that are too few": ("integers", {"counts": lambda a: a[:2]}),
    "errors that are too many": ("integers", {"errors": lambda a: np.append(a, 0.0)}),
    "counts of another type": ("integers", {"counts": lambda a: a.astype(np.uint8).view("u1")[:2]}),
    "no counts": ("integers", {"drop": ["counts"]}),
    "no errors": ("integers", {"drop": ["errors"]}),
    "no keys": ("integers", {"drop": ["keys.values"]}),
    "keys of another type": ("integers", {"keys.values": lambda a: a.astype(np.float64)}),
    "equally heavy keys out of order": ("integers", {"keys.values": swapped}),
    "rows out of order": ("integers", {"counts": lambda a: a[::-1]}),
    "keys that are too few": ("integers", {"keys.values": lambda a: a[:2]}),
    "a key twice": ("integers", {"keys.values": lambda a: a[[0, 1, 1]]}),
    "a count of zero": (
        "integers",
        {"counts": at(2, 0.0), "errors": lambda a: a * 0, "fields": {"floor": 0}},
    ),
    "capacity 0": ("integers", {"fields": {"capacity": 0}}),
    "capacity as text": ("integers", {"fields": {"capacity": "3"}}),
    "no capacity": ("integers", {"drop": ["capacity"]}),
    "more keys than capacity": ("integers", {"fields": {"capacity": 2}}),
    "a floor though there is room": ("integers", {"fields": {"capacity": 4}}),
    "no block": ("integers", {"drop": ["block"]}),
    "no floor": ("integers", {"drop": ["floor"]}),
    "a floor that is no number": ("integers", {"fields": {"floor": float("nan")}}),
    "a floor as text": ("integers", {"fields": {"floor": "1"}}),
    "a total of 0": ("integers", {"fields": {"total": 0}}),
    "an endless total": ("integers", {"fields": {"total": 1e305}}),
    "no total": ("integers", {"drop": ["total"]}),
    "no kind": ("integers", {"drop": ["kind"]}),
    "a kind that there is not": ("integers", {"fields": {"kind": "float"}}),
    "a kind that is no text": ("integers", {"fields": {"kind": ["int"]}}),
    "another kind": ("integers", {"fields": {"kind": "str"}}),
    "a kind of three": ("pairs of small integers", {"fields": {"kind": "(int, int, int)"}}),
    "a kind left open": ("pairs of small integers", {"fields": {"kind": "(int, int"}}),
    "a kind closed by another bracket": (
        "pairs of small integers",
        {"fields": {"kind": "(int, int]"}},
    ),
    "half a pair": ("pairs of small integers", {"drop": ["keys.right.values"]}),
    "sides of two lengths": ("pairs of small integers", {"keys.left.values": lambda a: a[:2]}),
    "text out of order": ("text", {"keys.data": lambda a: np.roll(a, 1)}),
    "text that is too short": ("text", {"keys.data": lambda a: a[:-1]}),
    "text that is too long": ("text", {"keys.data": lambda a: np.append(a, np.uint8(97))}),
    "text that is not UTF-8": ("text", {"keys.data": at(0, 0xFF)}),
    "a negative length": ("text", {"keys.lengths": lambda a: a + np.array([-99, 99, 0])}),
    "lengths that wrap round": (
        "text",
        {"keys.lengths": lambda a: a + np.array([2**62, 2**62, -(2**63)])},
    ),
    "lengths that are too few": ("text", {"keys.lengths": lambda a: np.array([a[0] + a[1], a[2]])}),
}


class TestWrongContents:
    @pytest.mark.parametrize(("kind", "changes"), WRONG_CONTENTS.values(), ids=WRONG_CONTENTS)
    def test_a_sound_frame_with_wrong_contents_is_refused(self, kind, changes):
        with pytest.raises(CorruptDataError):
            SpaceSaving.from_bytes(edited(kind, **changes))

    def test_the_frames_are_sound_apart_from_that(self):
        for kind in ("integers", "text", "pairs of small integers"):
            assert sample(kind) == SpaceSaving.from_bytes(edited(kind))
