"""Keys of every kind through a job: counted, moved by name, adopted, divided by their pairs."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver
from cut_hash import cut_hash

from grouping.routing_table import RoutingTable
from optimizers import Locality, Operator, Plan, Topology
from optimizers.folds import Count, Emit
from optimizers.runtime.observe.cost_tally import CostTally, KeyedRows, count_costs
from optimizers.runtime.state import cache
from sketches.cost_sketch import CostSketch

NUMBERS = range(60)
KINDS = {
    "integers": (pa.int64(), list(NUMBERS)),
    "texts": (pa.string(), [f"key {n}" for n in NUMBERS]),
    "bytes": (pa.binary(), [b"%d" % n for n in NUMBERS]),
    "truth": (pa.bool_(), [False, True]),
    "dates": (pa.date32(), [date(2024, 1, 1) + timedelta(n) for n in NUMBERS]),
    "moments": (
        pa.timestamp("us", "Europe/Berlin"),
        [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in NUMBERS],
    ),
    "times": (
        pa.timestamp("us"),
        [datetime(2024, 1, 1) + timedelta(hours=n) for n in NUMBERS],  # noqa: DTZ001
    ),
    "decimals": (pa.decimal128(12, 2), [Decimal(n) / 4 for n in NUMBERS]),
}
EVERY = pytest.mark.parametrize("kind", KINDS)
CUT = pytest.mark.parametrize("bits", [8, 64])


@pytest.fixture(autouse=True)
def _nothing_is_known():
    cache.forget()


def rows(kind, numbers):
    type_, keys = KINDS[kind]
    return pa.array([keys[n % len(keys)] for n in numbers], type_)


@EVERY
@CUT
def test_keys_of_each_kind_are_counted_and_moved_by_name(tmp_path, kind, bits):
    keys = KINDS[kind][1]
    random = np.random.default_rng(3)
    with cut_hash(bits):
        owners = [random.integers(0, 4, len(keys)) for _ in range(2)]
        plans = [Plan(routing={"a": RoutingTable(keys, parts, 4)}) for parts in owners]
        job = Topology.source("s").then(Operator("a", "k", 4, apply=Count())).seeded(11)
        driver = Driver(tmp_path, job, plans)
        expected = Counter()
        for _ in range(4):
            numbers = random.integers(0, 1000, 300)
            expected.update(rows(kind, numbers).to_pylist())
            driver.batch({"s": pa.table({"k": rows(kind, numbers)})})
        found = driver.results("a")

    assert expected == found


@EVERY
@CUT
def test_locality_divides_and_adopts_keys_of_each_kind(tmp_path, kind, bits):
    keys = KINDS[kind][1]
    random = np.random.default_rng(4)
    with cut_hash(bits):
        job = (
            Topology.source("s", parallelism=2)
            .then(Operator("a", "k", 4, apply=Count(emit=Emit.TUPLES)))
            .then(Operator("b", "l", 4, apply=Count()))
            .seeded(12)
        )
        driver = Driver(tmp_path, job, Locality(worth=0.0))
        left, right = Counter(), Counter()
        for batch in range(5):
            numbers = random.integers(0, len(keys) * (batch + 2) // 6 + 1, 400)
            table = pa.table({"k": rows(kind, numbers), "l": rows(kind, numbers)})
            left.update(table.column("k").to_pylist())
            right.update(table.column("l").to_pylist())
            driver.batch({"s": [table.slice(0, 200), table.slice(200)]})

        assert left == driver.results("a")
        assert right == driver.results("b")
        assert any(decision.applied for decision in driver.coordinator.decisions)


@EVERY
@CUT
def test_costs_of_keys_of_each_kind_are_told(kind, bits):
    type_, keys = KINDS[kind]
    some = keys[:5]
    with cut_hash(bits):
        tally = CostTally(most_keys=3)
        for columns in (["k"], ["k", "n"]):
            batch = pa.record_batch({"k": pa.array(some * 2, type_), "n": [7] * (2 * len(some))})
            seconds = np.arange(2.0 * len(some))
            tally.add(KeyedRows.of(batch, columns, "test"), seconds)
        tables = dict(tally.tables())
        assert 2 == len(tables)
        for name, table in tables.items():
            sketch = CostSketch(50, 3, exact=9)
            count_costs(sketch, table)
            assert name == sketch.kind
            heaviest = some[::-1][:3]
            costs = [float(2 * some.index(key) + len(some)) for key in heaviest]
            assert heaviest == table.column(0).to_pylist()[:3]
            assert costs == table.column("seconds").to_pylist()[: len(heaviest)]
            if bits == 64:  # a sketch may take keys for one another
                asked = heaviest if table.num_columns == 3 else [(key, 7) for key in heaviest]
                assert [cost / 2 for cost in costs] == sketch.estimate(asked).tolist()
            assert sum(seconds) == pytest.approx(sum(table.column("seconds").to_pylist()))
