"""Traffic between groups adds up to the same in a matrix and by cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.control import collectors
from optimizers.control.collectors import TrafficSums

CELLS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(1, 1 << 30)), max_size=12
)
KINDS = st.sampled_from((np.uint8, np.uint16, np.int64))


@given(st.lists(st.tuples(CELLS, KINDS), max_size=8), st.sampled_from((0, 3, 1 << 16)))
def test_sums_are_those_of_a_dictionary(parts, waiting):
    expected = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collectors, "_WAITING", waiting)
        matrix = TrafficSums(7, 5)
        patch.setattr(collectors, "_LARGEST_MATRIX", 34)
        cells = TrafficSums(7, 5)
        for rows, kind in parts:
            sources, targets, tuples = np.array(rows, dtype=np.int64).reshape(-1, 3).T
            for sums in (matrix, cells):
                sums.add(sources.astype(kind), targets.astype(kind), tuples)
            for source, target, count in rows:
                expected[source, target] = expected.get((source, target), 0) + count
        found = [sums.traffic() for sums in (matrix, cells)]

    assert found[0] == found[1]
    for traffic in found:
        ends = zip(traffic.sources.tolist(), traffic.targets.tolist(), strict=True)
        assert expected == dict(zip(ends, traffic.tuples.tolist(), strict=True))


def test_large_matrices_take_no_memory_until_they_are_full():
    sums = TrafficSums(1 << 20, 1 << 20)
    for _ in range(3):
        sums.add(np.array([1 << 19]), np.array([(1 << 20) - 1]), np.array([5]))

    traffic = sums.traffic()

    assert ([1 << 19], [(1 << 20) - 1], [15.0]) == (
        traffic.sources.tolist(),
        traffic.targets.tolist(),
        traffic.tuples.tolist(),
    )
