"""Columns of dates, times, truth and decimals as keys at the doors for DataFrames.

What Spark runs in its tasks is called here without Spark.
"""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import BooleanType, DateType, DecimalType, TimestampNTZType, TimestampType

from grouping.groupings import Fields
from grouping.routing_table import RoutingTable
from optimizers.control.checking import check_kind
from optimizers.errors import InvalidKeyError
from optimizers.spark.checks import check_key_type
from optimizers.spark.hash_slots import slots
from optimizers.spark.repartition import _Spreading

KINDS = {
    "boolean": (BooleanType(), pa.bool_(), [False, True]),
    "date": (DateType(), pa.date32(), [date(2024, 1, day) for day in range(1, 29)]),
    "timestamp": (
        TimestampType(),
        pa.timestamp("us", "Europe/Berlin"),
        [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 29)],
    ),
    "timestamp_ntz": (
        TimestampNTZType(),
        pa.timestamp("us"),
        [datetime(2024, 1, day) for day in range(1, 29)],  # noqa: DTZ001
    ),
    "decimal": (
        DecimalType(10, 2),
        pa.decimal128(10, 2),
        [Decimal(cents) / 10 for cents in range(28)],
    ),
}
EVERY = pytest.mark.parametrize("kind", KINDS)

pytestmark = pytest.mark.spark


@EVERY
def test_a_column_may_be_a_key(kind):
    spark, arrow, keys = KINDS[kind]
    table = RoutingTable(keys, np.arange(len(keys)) % 3, 3)

    check_key_type("k", spark)
    check_kind(table, 3, [str(arrow)])
    check_kind(table, 3, [str(pa.dictionary(pa.int32(), arrow))])
    for other in ("int64", "string", "binary"):
        with pytest.raises(InvalidKeyError, match="are unknown to a table of"):
            check_kind(table, 3, [other])


@EVERY
def test_rows_are_spread_by_it(kind):
    _, arrow, keys = KINDS[kind]
    parts = np.arange(len(keys)) % 3
    batch = pa.record_batch({"k": pa.array(keys, arrow)})
    for grouping, expected in (
        (RoutingTable(keys, parts, 3), parts),
        (Fields(), Fields().router(3).route(len(keys), keys)),
    ):
        (spread,) = _Spreading(grouping, 3, ("k",))([batch])

        assert slots(3)[expected].tolist() == spread.column(1).to_pylist()
