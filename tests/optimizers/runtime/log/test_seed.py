"""A job's seed: engine and strategies find the same owners by it, and others than by 0."""

import numpy as np
import pyarrow as pa
import pytest
from any_job import Driver

from grouping.hashing import hash_parts
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.key_pairs import KeyPairs
from grouping.owners import KeyOwners, handover
from grouping.routing_table import RoutingTable
from optimizers import Cluster, Plan, Topology
from optimizers.folds import Count
from optimizers.layout import Layout
from optimizers.strategies.parts.key_layout import KeyLayout
from sketches.keys import as_keys

KEYS = [f"key {n}" for n in range(500)]
JOB = Topology.source("s").then("a", key="k", parallelism=8).then("b", key="l", parallelism=8)
TABLE = RoutingTable(KEYS[:50], np.arange(50) % 8, 8)
HOP = ("a", "b")


def owners(seed, table=None, keys=KEYS):
    plan = Plan() if table is None else Plan(routing={"a": table})
    layout = Layout.of(JOB.seeded(seed), Cluster.uniform(8), plan)
    return layout.owners("a").assign(keys).tolist()


@pytest.mark.parametrize("table", [None, TABLE])
def test_another_seed_sends_unknown_keys_elsewhere_and_known_ones_where_they_were(table):
    by_0, by_7 = owners(0, table), owners(7, table)
    known = 0 if table is None else 50

    assert by_0[:known] == by_7[:known] == (np.arange(known) % 8).tolist()
    same = np.mean(np.equal(by_0, by_7)[known:])
    assert 0.05 < same < 0.25  # one in eight by chance


@pytest.mark.parametrize("table", [None, TABLE])
def test_keys_that_were_read_by_another_seed_have_the_owners_of_the_job(table):
    assert owners(7, table) == owners(7, table, as_keys(KEYS))
    assert owners(7, table) == owners(7, table, as_keys(KEYS, seed=3))
    assert owners(7, table) == owners(7, table, pa.array(KEYS).dictionary_encode())


@pytest.mark.parametrize("table", [None, TABLE])
def test_who_decides_sees_the_owners_that_the_engine_has(table):
    plan = Plan() if table is None else Plan(routing={"a": table})
    job = JOB.seeded(7)
    cluster = Cluster.uniform(8)
    layout = KeyLayout(Layout.of(job, cluster, plan), cluster, (HOP,))
    pairs = KeyPairs(KEYS, KEYS[::-1], np.ones(len(KEYS)))
    graph = KeyGraph.of({HOP: pairs})
    column = graph.columns[0]
    nodes = layout.layout.homes["a"].nodes
    numbers = [nodes.index(layout.nodes[part]) for part in range(8)]
    on_nodes = layout.on_nodes(graph)[0]

    assert owners(7, table) == layout.owners("a", KEYS).tolist()
    assert owners(7, table, column) == np.take(numbers, on_nodes.assign(column)).tolist()


def test_a_handover_has_the_places_of_the_seed():
    groups = tuple(n % 8 for n in range(128))
    old, new = (KeyOwners(groups, table, None, 8, seed=7) for table in (TABLE, None))
    change = handover(old, new)
    names = {int(code): key for key, code in zip(KEYS, as_keys(KEYS, seed=7).codes, strict=True)}

    moved = [names[code] for code in change.codes.tolist()]
    assert change.senders.tolist() == old.assign(moved).tolist()
    assert change.recipients.tolist() == new.assign(moved).tolist()
    assert len(moved) == int((old.assign(KEYS[:50]) != new.assign(KEYS[:50])).sum())


def test_a_table_by_a_seed_is_the_same_value():
    column = as_keys(KEYS[:50], seed=9)
    table = RoutingTable(column, np.arange(50) % 8, 8)

    assert TABLE == table
    assert TABLE.assign(column).tolist() == TABLE.assign(KEYS[:50]).tolist()
    assert hash_parts(KEYS, 8, seed=9).tolist() != hash_parts(KEYS, 8).tolist()


def test_a_job_counts_alike_by_every_seed(tmp_path):
    found = []
    for seed in (0, 7):
        job = Topology.source("s").then("a", key="k", parallelism=4, apply=Count())
        driver = Driver(tmp_path / str(seed), job.seeded(seed))
        driver.batch({"s": pa.table({"k": KEYS * 2})})
        driver.batch({"s": pa.table({"k": KEYS[:100]})})
        found.append(driver.results("a"))
    assert found[0] == found[1]
    assert found[0]["key 7"] == 3
