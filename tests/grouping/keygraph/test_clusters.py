"""Finding clusters: planted ones, keys of few partners, and graphs that METIS would complain of."""

import numpy as np
import pytest
from planted import community_pairs, graph_of, zipf

from grouping.keygraph import metis
from grouping.keygraph.clusters import NOWHERE, find_clusters
from grouping.keygraph.key_pairs import KeyPairs


def blocks(number, size=12):
    """Blocks of keys, each paired with all of its block, and one pair to the next block."""
    left, right = np.divmod(np.arange(number * size * size), size)
    right += left // size * size
    bridge = np.arange(number) * size
    return np.append(left, bridge), np.append(right, np.roll(bridge, 1))


def test_planted_blocks_are_the_clusters():
    left, right = blocks(8)
    graph = graph_of(KeyPairs(left, right, np.ones(len(left))))

    found = find_clusters(graph, 8).reshape(2, 8, 12)

    assert (found == found[0, :, :1]).all()
    assert 8 == len(np.unique(found))


def test_skewed_communities_are_found_mostly():
    pairs, places, tags = community_pairs(0)
    graph = graph_of(pairs)
    planted = pairs.counts[places[pairs.left] == tags[pairs.right]].sum()

    found = find_clusters(graph, 24)

    assert graph.within(found) >= 0.75 * planted


def test_keys_of_few_partners_join_the_one_they_are_paired_with_most():
    left, right = blocks(8)
    # Key 1000 comes with keys of three blocks, 1001 with one key, 1002 and 1003 with each other.
    extra = [(0, 1000, 2), (13, 1000, 5), (30, 1000, 4), (40, 1001, 1), (1002, 1003, 3)]
    more = np.array(extra).T
    counts = np.append(np.full(len(left), 9), more[2])
    pairs = KeyPairs(np.append(left, more[0]), np.append(right, more[1]), counts)
    graph = graph_of(pairs)

    found = find_clusters(graph, 8)

    of_left = dict(zip(graph.columns[0].objects().tolist(), found.tolist(), strict=False))
    of_right = dict(
        zip(graph.columns[1].objects().tolist(), found[graph.span(1)].tolist(), strict=True)
    )
    assert of_left[13] == of_right[1000]
    assert of_left[40] == of_right[1001]
    assert NOWHERE == of_left[1002] == of_right[1003]


def test_keys_without_any_partner_are_in_no_cluster():
    left, right = blocks(8)
    graph = graph_of(KeyPairs(np.append(left, 900), np.append(right, 900), np.ones(len(left) + 1)))
    apart = graph.subgraph(np.arange(len(graph)) != len(graph) - 1)  # without the partner of 900

    found = find_clusters(apart, 8)

    assert [NOWHERE] == found[apart.bounds[1] - 1 :][:1].tolist()
    assert 1 == (found == NOWHERE).sum()


def test_where_most_keys_have_few_partners_all_are_looked_at():
    keys = np.arange(600)
    ring = graph_of(KeyPairs(np.append(keys, keys), np.append(keys, (keys + 1) % 600), [1] * 1200))

    found = find_clusters(ring, 6)

    assert list(range(6)) == np.unique(found).tolist()
    assert ring.within(found) >= 1200 - 4 * 6


def test_of_very_few_keys_each_is_a_cluster():
    graph = graph_of(KeyPairs([1, 2, 3, 3], ["x", "y", "z", "x"], [4, 3, 2, 1]))

    assert list(range(6)) == find_clusters(graph, 2).tolist()
    assert 0 == len(find_clusters(graph_of(KeyPairs([], [], [])), 4))


@pytest.mark.parametrize("seed", range(6))
def test_metis_is_not_brought_to_complain_by_heavy_keys(capfd, seed):
    random = np.random.default_rng(seed)
    left, right = (random.choice(size, 20_000, p=zipf(size, 0.9)) for size in (400, 3000))

    find_clusters(graph_of(KeyPairs(left, right, np.ones(20_000))), 96)

    assert "" == capfd.readouterr().out


def test_equal_questions_have_equal_answers_and_seeds_are_passed_on(monkeypatch):
    graph = graph_of(community_pairs(1)[0])
    seeds = []

    def watched(*given, seed):
        seeds.append(seed)
        return split(*given, seed=seed)

    split = metis.split
    monkeypatch.setattr(metis, "split", watched)
    first, again = find_clusters(graph, 24, seed=3), find_clusters(graph, 24, seed=3)

    assert first.tolist() == again.tolist()
    assert [3, 3] == seeds
