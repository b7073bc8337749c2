"""Columns of values that Arrow holds and Python, or a key, may not; drawn by Hypothesis."""

import pyarrow as pa
from hypothesis import strategies as st

ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "+05:30", "Nowhere/No"])
UNITS = st.sampled_from(["s", "ms", "us", "ns"])
FAR = 253_402_300_800  # the seconds from 1970 to the end of the year 9999


def raw(kind):
    """Columns of a type that is a number underneath, of any such number."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    most = 2 ** (kind.bit_width - 1)
    near = [scale * FAR + step for scale in (1, 10**3, 10**6) for step in (-1, 0)]
    edges = [-most, -most + 1, -1, 0, 1, 86_400 * 10**6, most - 1, *near]
    numbers = st.sampled_from([each for each in edges if -most <= each < most])
    numbers |= st.integers(-most, most - 1)
    return several(numbers).map(lambda values: pa.array(values, width).view(kind))


def several(values):
    """Some values, a few of them missing."""
    return st.lists(values | st.none(), min_size=1, max_size=6)


def texts(kind=pa.string(), offsets=pa.int32()):  # noqa: B008  # never changed
    """Texts, some of which are not UTF-8."""

    def column(values):
        held = pa.array(values, pa.binary() if offsets == pa.int32() else pa.large_binary())
        return pa.Array.from_buffers(kind, len(held), held.buffers())

    return several(st.sampled_from([b"ok", b"", b"\xff", b"\xed\xa0\x80"])).map(column)


times = st.builds(pa.timestamp, UNITS, ZONES) | st.sampled_from([pa.date32(), pa.date64()])

KEYS = (
    times.flatmap(raw)
    | texts()
    | texts(pa.large_string(), pa.int64())
    | texts().map(lambda column: column.dictionary_encode())
    | raw(pa.timestamp("us", "UTC")).map(lambda column: column.dictionary_encode())
    | several(st.integers(0, 2**64 - 1)).map(lambda values: pa.array(values, pa.uint64()))
    | several(st.decimals(-(10**60), 10**60, places=0)).map(
        lambda values: pa.array(values, pa.decimal256(76, 2))
    )
)
"""Columns of types that have keys, with values that cannot be any."""

_PLAIN = (
    KEYS
    | st.builds(pa.duration, UNITS).flatmap(raw)
    | st.sampled_from([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]).flatmap(
        raw
    )
    | several(st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 3)).map(
        lambda values: pa.array(values, pa.month_day_nano_interval())
    )
    | several(st.floats(width=32)).map(lambda values: pa.array(values, pa.float32()))
    | several(st.binary(max_size=3)).map(lambda values: pa.array(values, pa.binary()))
    | several(st.binary(min_size=16, max_size=16)).map(
        lambda values: pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    )
)


def _nested(column):
    """The same values in lists, structs, structs with two fields of one name, and maps."""
    size = len(column)
    rows = list(range(size + 1))
    filled = pa.array([str(row) for row in range(size)])
    return [
        column,
        pa.ListArray.from_arrays(rows, column),
        pa.LargeListArray.from_arrays(rows, column),
        pa.FixedSizeListArray.from_arrays(column, 1),
        pa.StructArray.from_arrays([column], names=["a"]),
        pa.StructArray.from_arrays([column, column], names=["a", "a"]),
        pa.MapArray.from_arrays(rows, filled, column),
    ]


COLUMNS = _PLAIN.flatmap(lambda column: st.sampled_from(_nested(column)))
"""Columns of any type that Spark or Arrow may hand over."""
