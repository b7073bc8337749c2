"""Balanced keys: equal shares, learned once, within the bound of dealing the heaviest first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping.groupings import DistributionAware, Fields
from grouping.hashing import hash_parts
from grouping.keygraph.key_counts import KeyCounts
from optimizers import Cluster, Plan, Statistics, Topology
from optimizers.errors import InvalidValueError
from optimizers.strategies.balanced_keys import BalancedKeys
from optimizers.testing import OptimizerContract, World
from sketches.keys import as_keys


class TestBalancedKeys(OptimizerContract):
    optimizer = BalancedKeys()


def job(parallelism=4):
    return Topology.source("posts").then("by_place", key="place", parallelism=parallelism)


def ask(counts, *, topology=None, current=None, strategy=None):
    statistics = Statistics(keys={"by_place": counts})
    world = World(topology or job(), Cluster.uniform(2), statistics, current or Plan())
    return world.ask(strategy or BalancedKeys())


COUNTS = st.dictionaries(
    st.integers(-99, 99) | st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, 1000),
    min_size=1,
    max_size=60,
)


@given(COUNTS.filter(lambda counts: any(counts.values())), st.integers(1, 6))
def test_no_instance_has_more_than_its_share_and_the_heaviest_thing_dealt_out(counts, parallelism):
    keys, amounts = np.array(list(counts)), np.array(list(counts.values()), dtype=float)

    owners = ask(KeyCounts(keys, amounts), topology=job(parallelism)).routing["by_place"]

    loads = np.bincount(owners.assign(keys), amounts, parallelism)
    named, _ = owners.table.find(as_keys(keys))
    cells = hash_parts(keys, len(owners.cells))
    by_cell = np.bincount(cells[~named], amounts[~named], len(owners.cells))
    heaviest = max(amounts[named].max(initial=0.0), by_cell.max(initial=0.0))
    assert loads.max() <= amounts.sum() / parallelism + heaviest + 1e-6
    assert amounts.sum() == loads.sum()


def zipf():
    counts = np.round(1e6 / np.arange(1, 3000) ** 1.1)
    return KeyCounts(np.random.default_rng(3).permutation(len(counts)), counts)


def test_it_is_more_even_than_hashing():
    counts = zipf()

    owners = ask(counts).routing["by_place"]

    def fullest(parts):
        loads = np.bincount(parts, counts.counts, 4)
        return loads.max() / loads.mean()

    assert fullest(owners.assign(counts.keys)) < 1.02
    assert fullest(hash_parts(counts.keys, 4)) > 1.1


def test_it_learns_once_for_each_number_of_instances():
    first = ask(zipf())

    assert Plan() == ask(KeyCounts([1], [5]), current=first)
    again = ask(KeyCounts([1], [5]), topology=job(3), current=Plan(routing={"by_place": Fields()}))
    assert 3 == again.routing["by_place"].instances


def test_settings_say_what_a_heavy_key_is_and_how_many_cells_there_are():
    owners = ask(zipf(), strategy=BalancedKeys(threshold=0.05, cells=3)).routing["by_place"]

    assert isinstance(owners, DistributionAware)
    shares = zipf().counts / zipf().total
    assert ((shares >= 0.05).sum(), 12) == (len(owners.table), len(owners.cells))


def test_it_uses_the_hash_of_the_job():
    topology = Topology(job().operators, job().edges, seed=77)
    counts = KeyCounts(np.arange(2000), np.ones(2000))

    owners = ask(counts, topology=topology).routing["by_place"]

    router = owners.router(4)
    loads = np.bincount(router.route(2000, as_keys(np.arange(2000), seed=77)), minlength=4)
    assert loads.max() <= 500 + np.bincount(hash_parts(np.arange(2000), 40, seed=77)).max()


@pytest.mark.parametrize(
    "topology",
    [
        Topology.source("posts").then("clean"),
        Topology.source("posts").then("by_place", key=("place", "tag")),
        Topology.source("posts", key="place"),
    ],
)
def test_it_says_so_where_it_can_do_nothing(topology):
    plan = World(topology, Cluster.uniform(1), Statistics()).ask(BalancedKeys())

    assert not plan
    assert [True] == [note.idle for note in plan.notes]


@pytest.mark.parametrize(("name", "value"), [("threshold", 0.0), ("threshold", 2), ("cells", 0)])
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(InvalidValueError, match=name):
        BalancedKeys(**{name: value})
