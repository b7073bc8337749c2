"""Placement problems that are small enough to try all assignments."""

import itertools

import numpy as np
from hypothesis import strategies as st

from grouping.placement import Traffic


@st.composite
def problems(draw, *, most_groups=6, most_nodes=3):
    """Problems that are small enough to try all assignments."""
    groups, nodes = draw(st.integers(1, most_groups)), draw(st.integers(1, most_nodes))
    dimensions = draw(st.integers(1, 2))
    numbers = st.integers(0, 9)
    loads = draw(
        st.lists(
            st.lists(numbers, min_size=groups, max_size=groups),
            min_size=dimensions,
            max_size=dimensions,
        )
    )
    current = draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups))
    draining = draw(st.sets(st.integers(0, nodes - 1), max_size=nodes - 1))
    return {
        "loads": loads,
        "current": current,
        "nodes": nodes,
        "budget": draw(st.integers(0, 8)),
        "migration_cost": draw(st.lists(st.integers(0, 4), min_size=groups, max_size=groups)),
        "capacities": draw(st.lists(st.integers(1, 3), min_size=nodes, max_size=nodes)),
        "draining": sorted(draining),
        "able": draw(st.none() | marks(current, nodes)),
    }


@st.composite
def marks(draw, current, nodes):
    """Which group may be on which node, where it is included."""
    row = st.lists(st.booleans(), min_size=nodes, max_size=nodes)
    able = np.array(draw(st.lists(row, min_size=len(current), max_size=len(current))))
    able[np.arange(len(current)), current] = True
    return able


@st.composite
def sets_of(draw, groups):
    members = st.lists(st.integers(0, groups - 1), min_size=1, max_size=3)
    return draw(st.lists(members, max_size=2))


def affordable(problem):
    """All assignments within the budget that keep sets together."""
    for chosen in itertools.product(range(problem.nodes), repeat=problem.groups):
        assignment = np.array(chosen, dtype=np.int32)
        if problem.affords(problem.cost(assignment)) and problem.whole(assignment):
            yield assignment


def strain(problem, assignment):
    return float(np.abs(problem.excess(assignment)).max())


@st.composite
def traffic_of(draw, groups):
    """Traffic between some of the groups."""
    number = st.integers(0, groups - 1)
    pairs = draw(st.lists(st.tuples(number, number, st.integers(1, 9)), min_size=1, max_size=6))
    sources, targets, rates = zip(*pairs, strict=True)
    return Traffic(sources, targets, [float(rate) for rate in rates], groups=groups)
