"""Jobs whose keys share their hashes all the time: no key is taken for another, anywhere.

The hash is cut down to a few bits, so that places and codes of different keys are equal wherever
state, routing tables and counts go by them; what is expected comes of plain dictionaries.
"""

import tempfile

import any_job
import numpy as np
import pyarrow as pa
import pytest
from cut_hash import cut_hash
from folding import exactly
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers import Operator, Plan, Topology
from optimizers.control.settings import Asking
from optimizers.folds import Count, Distinct, Last, Together, key_numbers
from optimizers.runtime.driver.coordinator import Coordinator
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.state import cache
from optimizers.runtime.storage.location import Location
from optimizers.runtime.work import Settings


@pytest.mark.parametrize("bits", [8, 16])
@settings(max_examples=25)
@given(data=st.data())
def test_any_job_is_right_with_a_hash_of_few_bits(bits, data):
    with cut_hash(bits), tempfile.TemporaryDirectory() as folder:
        cache.forget()
        drawn = data.draw(any_job.jobs())
        batches = data.draw(any_job.streams(drawn, data.draw(st.integers(1, 5))))
        reference = any_job.Reference(drawn)
        coordinator = begun(data, drawn, folder, len(batches))
        for batch in batches:
            assignment = coordinator.assign()
            seed = data.draw(st.integers(0, 1 << 20))
            reports = any_job.run_shuffled(assignment.work, assignment.ticket, batch, seed)
            coordinator.commit(assignment, reports, 1.0)
            _, emitted = reference.run({s: any_job.rows_in(p) for s, p in batch.items()})
            checkpoint = Checkpoint.open(Location(folder))

            sinks = drawn.topology.sinks
            left = {name: any_job.counted(emitted[name]) for name in sinks if emitted[name]}
            assert left == any_job.outputs_of(checkpoint)
            match data.draw(st.sampled_from(["on", "on", "restart", "compact"])):
                case "restart":
                    coordinator = begun(data, drawn, folder, len(batches))
                case "compact":
                    checkpoint.compact()
                    coordinator = begun(data, drawn, folder, len(batches))
        assert not any(decision.refused for decision in coordinator.decisions)
        for name, state in reference.state.items():
            assert state == any_job.results(drawn, Checkpoint.open(Location(folder)), name)


def begun(data, drawn, folder, plans):
    """A driver that goes on where the checkpoint ends."""
    checkpoint = Checkpoint.create_or_open(Location(folder), drawn.topology)
    last = checkpoint.last_commit()
    plan = checkpoint.plan_of(0 if last is None else last.batch + 1)
    script = data.draw(
        any_job.scripts(drawn, plans, None if plan is None else plan.plan.parallelism)
    )
    return Coordinator(
        drawn.topology,
        any_job.CLUSTER,
        any_job.Scripted(script),
        checkpoint,
        asking=Asking(every=1),
        settings=Settings(looked_at=20),
    )


TEXTS = [f"key {number}" for number in range(3_000)]


def test_thousands_of_keys_at_few_places_stay_apart(tmp_path):
    with cut_hash(8):
        plans = [Plan(), Plan(parallelism={"a": 4}), Plan(parallelism={"a": 2})]
        fold = Together(count=Count(), last=Last("x"), kinds=Distinct("x"))
        job = Topology.source("in").then(Operator("a", "k", 3, apply=fold))
        driver = any_job.Driver(tmp_path, job, plans)
        random = np.random.default_rng(1)
        expected = {}
        for _ in range(5):
            texts = random.permutation(TEXTS)[:2_000].tolist()
            x = random.permutation(TEXTS)[:2_000].tolist()
            cache.forget()
            driver.batch({"in": pa.table({"k": texts, "x": x})})
            for key, value in zip(texts, x, strict=True):
                expected.setdefault(key, []).append(value)
        (table,) = [driver.checkpoint.read("a")]
        found = {
            row["k"]: (row["count.count"], row["last.last"], row["kinds.values"])
            for row in table.to_pylist()
        }

    assert len(found) == len(table)
    assert {
        key: (len(values), values[-1], sorted(set(values))) for key, values in expected.items()
    } == found


def test_keys_of_one_code_have_numbers_of_their_own():
    with cut_hash(8):
        for columns in (["k"], ["k", "n"], ["n", "k", "n2"]):
            table = pa.table({"k": TEXTS, "n": range(len(TEXTS)), "n2": [0] * len(TEXTS)})
            keys, firsts, codes = key_numbers(table, columns)

            assert len(set(codes.tolist())) <= 256
            assert sorted(keys.tolist()) == list(range(len(TEXTS)))
            assert keys[firsts].tolist() == list(range(len(TEXTS)))


# Orders called by their date and a number of the day: a former fingerprint took 16,000 of 1,000,000
# for others of them.
ORDERS = [f"2020022{day}{number:08}" for day in range(10) for number in range(0, 100_000, 37)]


def test_orders_by_date_and_number_are_all_counted(tmp_path):
    fold = Together(orders=Count(), different=Distinct("order"))
    job = (
        Topology.source("in")
        .then("by_order", key="order", parallelism=4, apply=Count(emit="tuples"))
        .then("by_shop", key="shop", apply=fold)
    )
    driver = any_job.Driver(tmp_path, job)
    for half in (ORDERS[::2], ORDERS[1::2], ORDERS[::2]):
        driver.batch({"in": pa.table({"order": half, "shop": [1] * len(half)})})

    assert dict.fromkeys(ORDERS[::2], 2) | dict.fromkeys(ORDERS[1::2], 1) == driver.results(
        "by_order"
    )
    (shop,) = driver.checkpoint.read("by_shop").to_pylist()
    assert exactly(sorted(ORDERS)) == exactly(shop["different.values"])


def test_a_chosen_twin_is_another_key(tmp_path):
    # A former fingerprint had the same code for both; see the review of the engine, e05.
    victim, twin = "#trending-topic!", "v780I2jipn0VJ-+O"
    with cut_hash(1):
        driver = any_job.Driver(tmp_path, Topology.source("s").then("count", key="tag"))
        for tags in ([victim], [twin], [twin, victim, twin]):
            driver.batch({"s": pa.table({"tag": tags})})

        assert {victim: 2, twin: 3} == driver.results("count")
