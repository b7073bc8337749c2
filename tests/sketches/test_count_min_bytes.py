"""Frames of bytes of a Count-Min sketch: read by hand, and refused where they cannot be."""

import math
import sys

import numpy as np
import pytest

from sketches import wire
from sketches.count_min import CountMin
from sketches.errors import (
    CorruptDataError,
)

FIELDS = {
    "width": 3,
    "depth": 2,
    "seed": 0,
    "conservative": False,
    "backend": "numpy",
    "kind": "int",
    "total": 4.0,
}
TABLE = [4.0, 0.0, 0.0, 0.0, 3.0, 1.0]


def test_a_frame_made_by_hand_is_read():
    data = wire.pack("CountMin", 2, FIELDS, {"table": np.array(TABLE)})
    assert CountMin.from_bytes(data).total == 4.0


@pytest.mark.parametrize(
    ("fields", "table"),
    [
        ({}, TABLE[:-1]),
        ({}, [*TABLE, 0.0]),
        ({}, []),
        ({}, [math.nan, *TABLE[1:]]),
        ({}, [math.inf, *TABLE[1:]]),
        ({}, [-1.0, *TABLE[1:]]),
        ({}, None),
        ({"width": 2}, TABLE),
        ({"width": 0}, TABLE),
        ({"width": 3.0}, TABLE),
        ({"width": None}, TABLE),
        ({"width": 2**28}, TABLE),
        ({"depth": 3}, TABLE),
        ({"depth": "2"}, TABLE),
        ({"seed": -1}, TABLE),
        ({"seed": None}, TABLE),
        ({"conservative": 1}, TABLE),
        ({"backend": "abacus"}, TABLE),
        ({"backend": ["numpy"]}, TABLE),
        ({"kind": "float"}, TABLE),
        ({"kind": ["int"]}, TABLE),
        ({"total": -1.0}, TABLE),
        ({"total": math.nan}, TABLE),
        ({"total": math.inf}, TABLE),
        ({"total": sys.float_info.max}, TABLE),
        ({"total": "4"}, TABLE),
    ],
)
def test_whole_frames_with_an_impossible_content_are_refused(fields, table):
    arrays = {} if table is None else {"table": np.array(table, dtype=np.float64)}
    data = wire.pack("CountMin", 2, {**FIELDS, **fields}, arrays)
    with pytest.raises(CorruptDataError):
        CountMin.from_bytes(data)


@pytest.mark.parametrize("missing", FIELDS)
def test_a_frame_without_one_of_its_fields_is_refused(missing):
    fields = {name: value for name, value in FIELDS.items() if name != missing}
    with pytest.raises(CorruptDataError, match=missing):
        CountMin.from_bytes(wire.pack("CountMin", 2, fields, {"table": np.array(TABLE)}))
