"""What two assignments are compared by."""

import numpy as np
import pytest

from grouping.placement import PlacementProblem, Traffic
from grouping.placement.aim import Aim

# Nodes 0 and 1 stay, and are even; node 2 drains.
DRAINING = PlacementProblem.of(
    [6.0, 6.0, 4.0, 1.0, 1.0], [0, 1, 2, 2, 2], 3, budget=5, draining=[2]
)
EVEN = PlacementProblem.of([2.0, 2.0, 2.0, 2.0], [0, 0, 1, 1], 2, budget=4)
TRAFFIC = Traffic([0, 1], [2, 3], [5.0, 4.0], groups=4)


def order(aim, one, other):
    """Whether the first is better, and the second."""
    first, second = np.array(one, np.int32), np.array(other, np.int32)
    return aim.better(first, second), aim.better(second, first)


@pytest.mark.parametrize(
    ("aim", "better", "worse"),
    [
        pytest.param(Aim(EVEN), [0, 1, 0, 1], [0, 0, 0, 1], id="more even"),
        pytest.param(Aim(DRAINING), [0, 1, 0, 1, 1], [0, 1, 0, 1, 2], id="less left to drain"),
        pytest.param(Aim(DRAINING), [0, 0, 2, 0, 0], [0, 0, 2, 0, 2], id="as even, less left"),
        pytest.param(
            Aim(EVEN, TRAFFIC, 1.0), [0, 1, 0, 1], [0, 0, 1, 1], id="as even, more local traffic"
        ),
        pytest.param(
            Aim(EVEN, TRAFFIC, 1.0), [0, 0, 1, 1], [0, 0, 0, 0], id="within the tolerance first"
        ),
        pytest.param(
            Aim(EVEN, TRAFFIC, 9.0), [0, 0, 0, 0], [0, 1, 0, 0], id="within it, only traffic counts"
        ),
        pytest.param(
            Aim(EVEN, TRAFFIC, 9.0, worth=2.0), [0, 0, 1, 1], [0, 1, 0, 1], id="worth its moves"
        ),
        pytest.param(Aim(EVEN, enough=9.0), [0, 0, 1, 1], [1, 0, 0, 1], id="enough, fewer moves"),
    ],
)
def test_one_is_better_and_the_other_is_not(aim, better, worse):
    assert (True, False) == order(aim, better, worse)


def test_neither_is_better_where_the_more_even_one_leaves_more_to_drain():
    # 4 has gone from node 2, or both groups of 1 have.
    assert (False, False) == order(Aim(DRAINING), [0, 1, 0, 2, 2], [0, 1, 2, 0, 1])


def test_neither_is_better_where_nothing_tells_them_apart():
    assert (False, False) == order(Aim(EVEN), [0, 0, 1, 1], [1, 1, 0, 0])
