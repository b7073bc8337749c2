"""Keys that are dates, timestamps, booleans and decimals, from every container and back."""

import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.routing_table import RoutingTable
from sketches.cost_sketch import CostSketch
from sketches.count_min import CountMin
from sketches.errors import CorruptDataError, InvalidKeyError
from sketches.keys import Pairs, as_keys
from sketches.space_saving import SpaceSaving
from sketches.space_saving_stored import restored

DIGITS = 10**38 - 1
DECIMALS = st.integers(-DIGITS, DIGITS).map(Decimal) | st.decimals(
    allow_nan=False, allow_infinity=False, places=6, min_value=-1e20, max_value=1e20
)
# Of named zones, Python holds times that come twice in a year for unequal to those of others.
ZONES = st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-800, 800))
SAFE = {"min_value": datetime(2, 1, 1), "max_value": datetime(9998, 1, 1)}  # noqa: DTZ001
KINDS = {
    "bool": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(**SAFE, timezones=ZONES, allow_imaginary=False),
    "timestamp_ntz": st.datetimes(),
    "decimal": DECIMALS,
}
TYPES = {
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "Europe/Berlin"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal": None,
}
EVERY = pytest.mark.parametrize("kind", KINDS)


def columns(kind, **limits):
    return st.lists(KINDS[kind], min_size=1, max_size=30, **limits)


@EVERY
@given(data=st.data())
def test_keys_come_back_as_they_were_from_every_container(kind, data):
    keys = data.draw(columns(kind))
    column = as_keys(keys)

    assert kind == column.kind
    assert keys == column.objects().tolist()
    assert [type(key) for key in keys] == [type(key) for key in column.objects().tolist()]
    for other in (
        np.array(keys, dtype=object),
        pa.array(keys, TYPES[kind]),
        pa.array(keys, TYPES[kind]).dictionary_encode(),
        pa.chunked_array([pa.array(keys, TYPES[kind])] * 2).slice(len(keys)),
        column,
        as_keys(column, seed=5),
    ):
        assert kind == as_keys(other).kind
        assert keys == as_keys(other).objects().tolist()
        assert np.array_equal(column.codes, as_keys(other, seed=0).codes)


@EVERY
@given(data=st.data())
def test_equal_keys_have_one_code_and_others_another(kind, data):
    keys = data.draw(columns(kind))
    codes = dict(zip(keys, as_keys(keys).codes.tolist(), strict=True))

    assert len(set(keys)) == len(set(codes.values()))


@given(columns("decimal"), st.integers(0, 5))
def test_a_decimal_is_one_key_however_it_is_written(keys, zeros):
    with localcontext(prec=60):
        written = [key.quantize(Decimal(1).scaleb(key.as_tuple().exponent - zeros)) for key in keys]

    assert np.array_equal(as_keys(keys).codes, as_keys(written).codes)


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1), st.integers(0, 18))
def test_decimals_that_fit_64_bits_are_read_as_all_others_are(numbers, scale):
    keys = [Decimal(number).scaleb(-scale) for number in numbers]
    narrow = pa.array(keys, pa.decimal128(38, scale))
    wide = pa.array([*keys, Decimal(10**19)], pa.decimal128(38, scale))

    assert keys == as_keys(narrow).objects().tolist()
    assert np.array_equal(as_keys(wide).codes[:-1], as_keys(narrow).codes)
    assert np.array_equal(as_keys(wide).codes[:-1], as_keys(keys).codes)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_is_one_key_in_every_unit_and_zone(unit):
    moment = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    expected = as_keys([moment])

    for zone in ("UTC", "America/New_York", "+05:30"):
        found = as_keys(pa.array([moment], pa.timestamp(unit, zone)))
        assert ("timestamp", [moment]) == (found.kind, found.objects().tolist())
        assert expected.codes == found.codes
    berlin = moment.astimezone(zoneinfo.ZoneInfo("Europe/Berlin"))
    assert expected.codes == as_keys([berlin]).codes
    plain = moment.replace(tzinfo=None)
    for keys in (pa.array([plain], pa.timestamp(unit)), np.array([plain], f"M8[{unit}]")):
        assert ("timestamp_ntz", [plain]) == (as_keys(keys).kind, as_keys(keys).objects().tolist())


@pytest.mark.parametrize("type_", [pa.date32(), pa.date64()], ids=str)
def test_a_day_is_a_date_in_every_type(type_):
    days = [date.min, date(1969, 12, 31), date(2024, 2, 29), date.max]

    assert days == as_keys(pa.array(days, type_)).objects().tolist()
    assert days == as_keys(np.array(days, "M8[D]")).objects().tolist()
    assert days == as_keys([np.datetime64(day) for day in days]).objects().tolist()


def test_one_number_is_another_key_of_each_kind():
    same = [
        [1],
        [True],
        [date(1970, 1, 2)],
        [datetime(1970, 1, 1, 0, 0, 0, 1)],  # noqa: DTZ001
        [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
        [Decimal(1)],
        ["1"],
    ]
    for place, keys in enumerate(same):
        table = RoutingTable(keys, [0], 2)
        assert [0] == table.assign(keys).tolist()
        for other in same[:place] + same[place + 1 :]:
            with pytest.raises(InvalidKeyError, match="are unknown to a table of"):
                table.assign(other)
            one, two = as_keys(keys), as_keys(other)
            if type(one) is type(two):
                first = np.array([0])
                assert not one.same(first, two, first).any()


@EVERY
@given(data=st.data())
def test_a_table_of_them_comes_back_from_a_document(kind, data):
    keys = data.draw(columns(kind, unique=True))
    for some in (keys, [(key, "x") for key in keys]):
        table = RoutingTable(some, np.arange(len(some)) % 3, 3)
        back = RoutingTable.from_dict(table.to_dict())

        assert table == back
        assert table.key_kind == back.key_kind
        assert (np.arange(len(some)) % 3).tolist() == back.assign(some).tolist()
        assert table == RoutingTable(table.keys, table.parts, 3)


@EVERY
@given(data=st.data())
def test_sketches_of_them_come_back_from_bytes(kind, data):
    keys = data.draw(columns(kind, unique=True))
    for sketch in (SpaceSaving(9), CountMin(50, 3), CostSketch(50, 3)):
        sketch.update(keys, *([np.ones(len(keys))] if isinstance(sketch, CostSketch) else []))
        back = type(sketch).from_bytes(sketch.to_bytes())

        assert sketch == back
        back.update(keys[:1], *([[1.0]] if isinstance(sketch, CostSketch) else []))
        with pytest.raises(InvalidKeyError, match=kind):
            back.update([1], *([[1.0]] if isinstance(sketch, CostSketch) else []))
    pairs = SpaceSaving(9)
    pairs.update(Pairs(keys, keys))
    back = SpaceSaving.from_bytes(pairs.to_bytes())
    assert pairs.top() == back.top()
    assert {hitter.key for hitter in back.top()} <= {(key, key) for key in keys}


@EVERY
@given(data=st.data())
def test_what_learns_from_keys_learns_from_them(kind, data):
    keys = data.draw(columns(kind, unique=True))
    pairs = KeyPairs(keys, keys, np.ones(len(keys)))
    graph = KeyGraph.of({("a", "b"): pairs}, counts={"a": KeyCounts(keys, np.full(len(keys), 2.0))})

    assert set(keys) == set(graph.columns[0].objects().tolist())
    assert [len(keys)] * 2 == [len(column) for column in graph.columns]


@pytest.mark.parametrize(
    ("kind", "arrays"),
    [
        ("bool", {"keys.values": np.array([2])}),
        ("date", {"keys.values": np.array([2932897])}),
        ("timestamp", {"keys.values": np.array([-(1 << 62)])}),
        ("decimal", {"keys.data": np.zeros(16, np.uint8), "keys.lengths": np.array([16])}),
        (
            "decimal",  # 10 with one digit behind the point is 1
            {
                "keys.data": np.array([10] + 15 * [0] + [1], np.uint8),
                "keys.lengths": np.array([17]),
            },
        ),
        (
            "decimal",
            {"keys.data": np.array(16 * [0] + [39], np.uint8), "keys.lengths": np.array([17])},
        ),
    ],
)
def test_stored_numbers_that_are_no_such_keys_are_refused(kind, arrays):
    rows = {"counts": np.ones(1), "errors": np.zeros(1), **arrays}

    with pytest.raises(CorruptDataError, match="stored"):
        restored({"kind": kind, "floor": 0.0, "total": 1.0}, rows, 5)


@pytest.mark.parametrize(
    "key", [{"date": "2020-13-01"}, {"timestamp": "noon"}, {"decimal": "many"}], ids=str
)
def test_a_document_with_something_else_is_refused(key):
    with pytest.raises(CorruptDataError, match="cannot be read; write it as Penstock does"):
        RoutingTable.from_dict({"instances": 1, "keys": [key], "parts": [0]})


def test_codes_of_them_are_for_ever():
    decimals = [Decimal("12.5"), Decimal(0), Decimal(-(10**37))]

    assert GOLDEN == [hex(code) for code in as_keys(decimals).codes.tolist()]
    assert [1, 0] == as_keys([True, False]).codes.tolist()
    assert [18321] == as_keys([date(2020, 2, 29)]).codes.tolist()
    assert [1] == as_keys([datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]).codes.tolist()


GOLDEN = ["0x2c5528de7032ea3e", "0xf219eac634f769e3", "0x1f4601aecd398155"]
