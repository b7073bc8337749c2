"""Key pairs with planted communities, and what a division of their keys holds."""

import numpy as np

from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.partition import reachable_limits

IMBALANCE = 1.03
# Limits leave that much for sums of the same loads in another order.
ROUNDING = 1 + 1e-8


def zipf(size, exponent):
    shares = 1 / np.arange(1, size + 1) ** exponent
    return shares / shares.sum()


def community_pairs(seed, *, tuples=40_000, keys=(400, 3000), number=24, inside=0.85):
    """Pairs of skewed keys in communities: (pairs, community of left keys, of right keys)."""
    random = np.random.default_rng(seed)
    sides = [random.integers(0, number, size) for size in keys]
    left = random.choice(keys[0], tuples, p=zipf(keys[0], 0.75))
    right = random.choice(keys[1], tuples, p=zipf(keys[1], 0.9))
    within = random.random(tuples) < inside
    for community in range(number):
        rows = np.flatnonzero(within & (sides[0][left] == community))
        members = np.flatnonzero(sides[1] == community)
        shares = zipf(keys[1], 0.9)[members]
        right[rows] = random.choice(members, len(rows), p=shares / shares.sum())
    return counted(left, right), *sides


def counted(left, right):
    """Pairs of rows, each pair once."""
    codes, counts = np.unique(left * (1 << 32) + right, return_counts=True)
    return KeyPairs(codes >> 32, codes & ((1 << 32) - 1), counts)


def graph_of(pairs):
    return KeyGraph.of({("left", "right"): pairs})


def parts_of(graph, tables):
    """The part of each vertex."""
    owners = zip(tables, graph.columns, strict=True)
    return np.concatenate([table.assign(column) for table, column in owners])


def fullness(graph, tables, shares=None):
    """For each operator, how many times its share the fullest part has."""
    found = []
    for operator, (table, column) in enumerate(zip(tables, graph.columns, strict=True)):
        loads = graph.loads[graph.span(operator)]
        held = np.bincount(table.assign(column), loads, table.instances)
        share = np.full(table.instances, 1 / table.instances)
        share = share if shares is None else shares[operator]
        assert not held[share == 0].any()
        found.append((held[share > 0] / (share[share > 0] * loads.sum())).max())
    return found


def even_limits(graph, parts, imbalance=IMBALANCE):
    shares = np.full((len(graph.names), parts), 1 / parts)
    return reachable_limits(graph, shares, imbalance)


def drifting_weeks(number, *, seed=7, tuples=150_000, keys=(2000, 20_000), communities=60):
    """Weeks of pairs: from each to the next 30 % of the tags are new and 20 % belong elsewhere."""
    random = np.random.default_rng(seed)
    places = random.integers(0, communities, keys[0])
    tags, names = random.integers(0, communities, keys[1]), np.arange(keys[1])
    weeks = []
    for week in range(number):
        if week:
            fresh, moved = random.random(keys[1]) < 0.3, random.random(keys[1]) < 0.2
            names = np.where(fresh, names + keys[1], names)
            tags = np.where(fresh | moved, random.integers(0, communities, keys[1]), tags)
        left = random.choice(keys[0], tuples, p=zipf(keys[0], 0.75))
        right = random.choice(keys[1], tuples, p=zipf(keys[1], 0.9))
        inside = random.random(tuples) < 0.85
        for community in range(communities):
            rows = np.flatnonzero(inside & (places[left] == community))
            members = np.flatnonzero(tags == community)
            shares = zipf(keys[1], 0.9)[members]
            right[rows] = random.choice(members, len(rows), p=shares / shares.sum())
        weeks.append(counted(left, names[right]))
    return weeks
