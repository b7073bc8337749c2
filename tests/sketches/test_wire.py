"""Frames: what is packed comes back, and nothing else does."""

import json
import struct
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from sketches import wire
from sketches.errors import CorruptDataError

DTYPES = st.sampled_from([np.float64, np.int64, np.uint64, np.uint8])
ARRAYS = st.dictionaries(
    st.text(max_size=5),
    DTYPES.flatmap(lambda t: arrays_of.arrays(t, st.integers(0, 5))),
    max_size=4,
)
FIELDS = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    max_size=4,
)

SAMPLE = wire.pack(
    "Sample", 3, {"width": 7, "name": "ä"}, {"x": np.arange(3.0), "y": np.arange(5, dtype=np.uint8)}
)


def frame(header, content=b"", *, magic=b"PNSK", version=1, length=None):
    """Write a frame by hand, with a checksum that holds."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(raw) if length is None else length
    body = struct.pack("<4sBI", magic, version, size) + raw + content
    return body + struct.pack("<I", zlib.crc32(body))


def header(*arrays, **changes):
    return {"type": "Sample", "version": 3, "fields": {}, "arrays": list(arrays)} | changes


class TestRoundTrip:
    @given(type_name=st.text(), version=st.integers(0, 99), fields=FIELDS, arrays=ARRAYS)
    def test_fields_and_arrays_come_back(self, type_name, version, fields, arrays):
        data = wire.pack(type_name, version, fields, arrays)
        new_fields, new_arrays = wire.unpack(data, type_name, version)
        assert fields == new_fields
        assert list(arrays) == list(new_arrays)
        for name, array in arrays.items():
            assert array.dtype == new_arrays[name].dtype
            assert array.tobytes() == new_arrays[name].tobytes()

    def test_arrays_come_back_flat_and_writable(self):
        square = np.arange(4.0).reshape(2, 2)
        _, arrays = wire.unpack(wire.pack("T", 1, {}, {"a": square.T}), "T", 1)
        arrays["a"][0] = 9
        assert [9.0, 2.0, 1.0, 3.0] == arrays["a"].tolist()
        assert square[0, 0] == 0

    def test_the_order_of_bytes_is_the_same_on_every_machine(self):
        values = [1, 2**40]
        big, little = (np.array(values, dtype=f"{order}i8") for order in "><")
        data = wire.pack("T", 1, {}, {"a": big})
        assert data == wire.pack("T", 1, {}, {"a": little})
        assert struct.pack("<2q", *values) in data
        array = wire.unpack(data, "T", 1)[1]["a"]
        assert array.dtype.isnative
        assert values == array.tolist()

    @pytest.mark.parametrize("container", [bytes, bytearray, memoryview])
    def test_any_container_of_bytes_is_read(self, container):
        assert wire.unpack(container(SAMPLE), "Sample", 3)[0] == {"width": 7, "name": "ä"}

    def test_a_frame_written_by_hand_is_read(self):
        data = frame(header(["x", "<f8", 1], fields={"a": 1}), struct.pack("<d", 2.5))
        fields, arrays = wire.unpack(data, "Sample", 3)
        assert ({"a": 1}, [2.5]) == (fields, arrays["x"].tolist())

    def test_the_format_does_not_change_unnoticed(self):
        data = wire.pack("T", 1, {"a": 1.5}, {"x": np.array([1, 2], dtype=np.uint8)})
        text = b'{"type":"T","version":1,"fields":{"a":1.5},"arrays":[["x","|u1",2]]}'
        assert frame(text, b"\1\2") == data


class TestDamage:
    def test_a_frame_cut_off_anywhere_is_refused(self):
        for length in range(len(SAMPLE)):
            with pytest.raises(CorruptDataError):
                wire.unpack(SAMPLE[:length], "Sample", 3)

    def test_a_frame_that_goes_on_is_refused(self):
        with pytest.raises(CorruptDataError, match="checksum"):
            wire.unpack(SAMPLE + b"\0", "Sample", 3)

    def test_every_flipped_bit_is_refused(self):
        data = bytearray(SAMPLE)
        for place in range(len(data)):
            for bit in range(8):
                data[place] ^= 1 << bit
                with pytest.raises(CorruptDataError):
                    wire.unpack(data, "Sample", 3)
                data[place] ^= 1 << bit

    @given(st.binary(max_size=100))
    def test_foreign_bytes_are_refused(self, data):
        with pytest.raises(CorruptDataError):
            wire.unpack(data, "Sample", 3)
        with pytest.raises(CorruptDataError):
            wire.unpack(frame(data), "Sample", 3)


DEEP = b"[" * 100_000 + b"]" * 100_000

REFUSALS = {
    "no bytes": (b"", r"0 bytes are too few for a Sample; they were truncated"),
    "text": ("text", r"a str is not bytes; pass what Sample.to_bytes\(\) returned"),
    "a number": (99, r"a int is not bytes"),
    "nothing": (None, r"a NoneType is not bytes"),
    "another magic": (frame(header(), magic=b"PK\3\4"), r"b'PK\\x03\\x04' were not written by"),
    "another format": (frame(header(), version=2), r"frame format 2 is not 1"),
    "another type": (frame(header(type="Other")), r"hold a Other, not a Sample; use Other.from_b"),
    "another version": (frame(header(version=4)), r"Sample version 4 is not 3; read it with"),
    "no JSON": (frame(b"{"), r"header of 1 bytes is not JSON"),
    "no UTF-8": (frame(b'{"a": "\xff"}'), r"not JSON"),
    "deep JSON": (frame(DEEP), r"not JSON"),
    "long numbers": (frame(b"1" * (sys.get_int_max_str_digits() + 1)), r"not JSON"),
    "no object": (frame([1, 2]), r"header has not the fields type, version, fields, arrays"),
    "no type": (frame(header(type=None)), r"header has not the fields"),
    "no version": (frame({"type": "Sample", "fields": {}, "arrays": []}), r"has not the fields"),
    "a version of text": (frame(header(version="3")), r"header has not the fields"),
    "fields in a list": (frame(header(fields=[])), r"header has not the fields"),
    "arrays in an object": (frame(header(arrays={})), r"header has not the fields"),
    "a header too long": (frame(header(), length=999), r"header of 999 bytes is longer than"),
    "an array of two parts": (frame(header(["x", "<f8"])), r"\['x', '<f8'\] does not describe"),
    "an array that is text": (frame(header("x<f8")), r"'x<f8' does not describe an array"),
    "an array without a name": (frame(header([1, "<f8", 0])), r"does not describe an array"),
    "an array of objects": (frame(header(["x", "|O", 1]), b"\0" * 8), r"does not describe"),
    "an array of floats": (frame(header(["x", "<f4", 1]), b"\0" * 4), r"does not describe"),
    "a type that is a list": (frame(header(["x", ["<f8"], 1]), b"\0" * 8), r"does not describe"),
    "a negative length": (frame(header(["x", "<f8", -1])), r"does not describe an array"),
    "half a length": (frame(header(["x", "|u1", 0.5])), r"does not describe an array"),
    "a length of text": (frame(header(["x", "|u1", "1"]), b"\0"), r"does not describe an array"),
    "an array that overruns": (
        frame(header(["x", "<f8", 2]), b"\0" * 15),
        r"array 'x' would end at byte 16 of 15; the lengths do not fit",
    ),
    "a giant array": (frame(header(["x", "<f8", 2**62])), r"the lengths do not fit"),
    "a negative after a positive length": (
        frame(header(["x", "|u1", 9], ["y", "|u1", -1]), b"\0" * 8),
        r"would end at byte 9 of 8",
    ),
    "bytes left over": (
        frame(header(["x", "|u1", 2]), b"\0" * 3),
        r"1 arrays of 2 bytes do not fit the 3 bytes that follow the header",
    ),
    "bytes without arrays": (frame(header(), b"\0"), r"0 arrays of 0 bytes do not fit the 1"),
    "two arrays of one name": (
        frame(header(["x", "|u1", 1], ["x", "|u1", 1]), b"\0\0"),
        r"2 arrays of 2 bytes do not fit",
    ),
}


@pytest.mark.parametrize(("data", "words"), REFUSALS.values(), ids=REFUSALS)
def test_what_no_sketch_wrote_is_refused_with_a_reason(data, words):
    with pytest.raises(CorruptDataError, match=words):
        wire.unpack(data, "Sample", 3)
