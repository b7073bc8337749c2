"""A state that does not fit its declared type makes the rows of its key bad, and no others."""

from collections import Counter

import pyarrow as pa
import pytest
from any_job import Driver, temporary
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers import Topology
from optimizers.errors import FoldError
from optimizers.folds import DELETE, Count, EachKey, Emit
from optimizers.statistics import Probe

POISON = {13: "oops", 14: 2**63, 15: 1.5, 16: [1], 17: object()}
GONE = 18
BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, GONE)), min_size=1, max_size=12),
    min_size=1,
    max_size=3,
)


def added(key, rows, state):
    """Add up; but a poison is returned as it is, and one number deletes."""
    values = rows["x"].to_pylist()
    for value in values:
        if value in POISON:
            return POISON[value]
    return DELETE if GONE in values else (state or 0) + sum(values)


def said(key, rows, state):
    return added(key, rows, state), {"k": key[0]}


FOLDS = {
    "changes": EachKey(added, pa.int64()),
    "tuples": EachKey(added, pa.int64(), emit=Emit.TUPLES),
    "own": EachKey(said, pa.int64(), output=pa.schema([("k", pa.string())])),
}


def table(rows):
    keys, values = zip(*rows, strict=True)
    return pa.table({"k": list(keys), "x": list(values)})


@pytest.mark.parametrize("kind", FOLDS)
@settings(max_examples=25)
@given(batches=BATCHES, mode=st.sampled_from(["skip", "aside"]), observed=st.booleans())
def test_only_the_rows_of_such_keys_go(kind, batches, mode, observed):
    job = Topology.source("s").then("m", key="k", parallelism=2, apply=FOLDS[kind], on_error=mode)
    job = job.then("n", key="k", apply=Count())
    state, sent = {}, Counter()
    with temporary() as folder:
        driver = Driver(folder, job, observes=tuple(Probe) if observed else ())
        for rows in batches:
            values = {}
            for k, x in rows:
                values.setdefault(k, []).append(x)
            bad = 0
            for k, mine in values.items():
                if any(x in POISON for x in mine):
                    bad += len(mine)
                    continue
                gone = GONE in mine
                state[k] = state.get(k, 0) + sum(mine)
                if gone:
                    del state[k]
                sent[k] += {"changes": not gone, "tuples": len(mine), "own": 1}[kind]

            summary = driver.batch({"s": [table(rows)]})

            assert bad == sum({**summary.skipped, **summary.aside}.values())
        kept = driver.checkpoint.read("m")
        assert state == (driver.results("m") if len(kept) else {})
        passed = driver.checkpoint.read("n")
        assert dict(+sent) == (driver.results("n") if len(passed) else {})


@pytest.mark.parametrize("poison", POISON)
def test_by_default_the_key_the_value_and_the_row_are_named(tmp_path, poison):
    job = Topology.source("s").then("m", key="k", apply=FOLDS["changes"])
    driver = Driver(tmp_path, job)

    message = r"'m': .* returned for key \('b',\).*int64; convert.*row of key \('b',\) of batch 0"
    with pytest.raises(FoldError, match=message) as failed:
        driver.batch({"s": [table([("a", 1), ("b", poison), ("c", 2)])]})

    assert "\n" not in str(failed.value)
