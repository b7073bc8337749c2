"""The bytes of key groups, beside a loop over rows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.runtime.observe.group_loads import Arrived, BytesOut, groups_seen
from optimizers.runtime.observe.row_sizes import row_sizes

GROUPS = 5


def table_of(kind, rows):
    if kind == "fixed":
        return pa.table({"k": list(range(rows)), "x": np.zeros(rows)})
    return pa.table({"t": ["x" * (row % 7) for row in range(rows)], "k": list(range(rows))})


def scaled(sums, total):
    return sums * (total / sums.sum()) if sums.any() else sums


@given(st.data())
def test_bytes_that_are_sent_are_those_of_the_rows_of_each_group(data):
    found, sums = BytesOut(GROUPS), np.zeros((2, GROUPS))
    for kind in data.draw(st.lists(st.sampled_from(["fixed", "text"]), min_size=1, max_size=4)):
        rows = data.draw(st.integers(1, 20))
        table = table_of(kind, rows)
        groups = np.array(
            data.draw(st.lists(st.integers(0, GROUPS - 1), min_size=rows, max_size=rows))
        )
        remote = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
        found.add(table, groups, remote if remote.any() or data.draw(st.booleans()) else None)
        for group, size, far in zip(groups, row_sizes(table), remote, strict=True):
            sums[:, group] += size, size * far

    expected = [scaled(sums[0], 900), scaled(sums[1], 300)]
    assert np.array(expected) == pytest.approx(found.sums(900, 300))


@given(st.data())
def test_bytes_that_arrive_are_those_of_the_rows_of_each_group(data):
    groups = np.array(data.draw(st.lists(st.integers(0, GROUPS - 1), min_size=1, max_size=6)))
    parcels = data.draw(
        st.lists(st.tuples(st.integers(1, 9), st.integers(1, 999), st.booleans()), min_size=1)
    )
    rows = sum(count for count, _, _ in parcels)
    keys = st.integers(0, len(groups) - 1)
    numbers = np.array(data.draw(st.lists(keys, min_size=rows, max_size=rows)))
    table = table_of(data.draw(st.sampled_from(["fixed", "text"])), rows)
    arrived = Arrived(*(np.array(column) for column in zip(*parcels, strict=True)))

    counts = np.bincount(numbers, minlength=len(groups))
    seen = groups_seen(groups, numbers, counts, table, arrived)

    far = [remote for count, _, remote in parcels for _ in range(count)]
    tuples, whole, part = (np.zeros(GROUPS) for _ in range(3))
    for number, size, remote in zip(numbers, row_sizes(table), far, strict=True):
        group = groups[number]
        tuples[group] += 1
        whole[group] += size
        part[group] += size * remote
    there = np.flatnonzero(tuples)
    assert there.tolist() == seen.groups.tolist()
    assert tuples[there].tolist() == seen.tuples.tolist()
    assert np.bincount(groups, minlength=GROUPS)[there].tolist() == seen.keys.tolist()
    total = sum(size for _, size, _ in parcels)
    remotely = sum(size for _, size, remote in parcels if remote)
    assert scaled(whole, total)[there] == pytest.approx(seen.bytes_in)
    assert scaled(part, remotely)[there] == pytest.approx(seen.remote_in)
