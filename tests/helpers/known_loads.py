"""A job whose true loads, state and traffic are known by construction, and what they are.

Tuples take a time, and have a size, that their key says; so does what is kept of a key. Time is
taken from the processor by asking for it, so that a busy machine changes nothing.
"""

from collections import defaultdict

import busy
import numpy as np
import pyarrow as pa

from optimizers import Operator, Optimizer, Plan, Probe, Topology
from optimizers.folds import EachKey, Emit
from sketches.keys import as_keys

JOB = (
    Topology.source("s", parallelism=2)
    .then("f", parallelism=2, apply=busy.slow_batch)
    .then(Operator("a", "k", 2, EachKey(busy.by_key, pa.string(), emit=Emit.TUPLES), key_groups=8))
    .then(Operator("b", "l", 2, busy.Spinning(emit=Emit.NOTHING), key_groups=8))
)
COLUMN = {"a": "k", "b": "l"}
LETTERS = 40  # of the text of a tuple, for each number of its key


class Placing(Optimizer):
    """Decides a plan before the first batch, and keeps the statistics."""

    observes = frozenset({Probe.OPERATORS, Probe.GROUPS})

    def __init__(self, plan):
        self.decision = plan
        self.heard = []

    def plan(self, topology, cluster, statistics, current):
        self.heard.append(statistics)
        return self.decision if len(self.heard) == 1 else Plan()


def tuples(batch, rows):
    """The tuples of a batch."""
    random = np.random.default_rng(batch)
    left, right = random.integers(0, 60, (2, rows))
    return pa.table({"k": left, "l": right, "t": ["t" * (LETTERS * int(key)) for key in left]})


def group_of(layout, name, keys):
    """The key group of keys of an operator."""
    return layout.owners(name).group_of(as_keys(keys, seed=layout.topology.seed))


def node_of(layout, name, groups):
    """The node of key groups of an operator."""
    home = layout.homes[name]
    return np.array(home.nodes)[np.array(home.groups)[groups]]


def truth(layout, tables, source):
    """By operator and fact, the true amount of each key group.

    Args:
        layout: the job as it was laid out.
        tables: the tuples of each batch.
        source: the node of all instances of ``s`` and ``f``.
    """
    whole = pa.concat_tables(tables)
    keys = {name: whole.column(column).to_numpy() for name, column in COLUMN.items()}
    groups = {name: group_of(layout, name, keys[name]) for name in keys}
    nodes = {name: node_of(layout, name, groups[name]) for name in keys}
    size = 8 + 8 + 4 + LETTERS * keys["a"]
    found = defaultdict(dict)

    def summed(name, fact, amounts):
        number = len(layout.homes[name].groups)
        found[name][fact] = np.bincount(groups[name], amounts, number)

    for name in keys:
        summed(name, "tuples", np.ones(len(whole)))
        summed(name, "bytes_in", size)
    summed("a", "seconds", [busy.cost_of(key) for key in keys["a"]])
    summed("b", "seconds", np.full(len(whole), busy.Spinning.tuple))
    summed("a", "remote_in", size * (nodes["a"] != source))
    summed("b", "remote_in", size * (nodes["a"] != nodes["b"]))
    summed("a", "bytes_out", size)
    summed("a", "remote_out", size * (nodes["a"] != nodes["b"]))
    for name, each in (("a", lambda key: 8 + 8 + 4 + busy.size_of(key)), ("b", lambda _: 24)):
        known = np.unique(keys[name])
        number = len(layout.homes[name].groups)
        sizes = [each(int(key)) for key in known]
        found[name]["state_bytes"] = np.bincount(group_of(layout, name, known), sizes, number)
    return found


def wrong(told, true, least):
    """Which facts of groups are neither absent nor within a tenth, or ``least``, of the truth."""
    found = {}
    for fact, amounts in true.items():
        column = getattr(told, fact)
        if column is not None:
            off = np.abs(column - amounts) > 0.1 * amounts + least.get(fact, 0.0)
            if off.any():
                found[fact] = column[off].tolist(), amounts[off].tolist()
    return found
