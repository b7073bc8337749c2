"""Keys that are in no table get an owner beside their partners, after their first batch.

Several senders route a batch at once, on machines of their own, and none of them sees the others'
tuples. So they cannot agree on an owner for a new key before a batch is routed. In its first batch
the key goes by hash, as the plan in force says. At the end of the batch the driver knows the key's
partners from the reports, and moves it to where most of them live: by a plan that comes into force
with the next batch, written down before it like any other. So a key has one owner in every batch,
and its state goes with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.key_table import KeyTable
from grouping.keygraph.first_touch import first_touch
from grouping.keygraph.key_pairs import KeyPairs
from grouping.keygraph.spreading import spread
from grouping.owners import KeyOwners
from grouping.routing_table import GroupTable, RoutingTable
from optimizers.control.summary import BatchSummary
from optimizers.layout import Instance, Layout
from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.topology import Topology
from sketches.arrays import Floats, Parts
from sketches.key_identity import distinct
from sketches.keys import KeyColumn, as_keys

_WORTH = 0.01  # the share of tuples whose keys must be unknown for a plan of its own
_KEYS_A_BATCH = 1 << 16  # a plan is written down whole, so not in each batch where tables are large


def adopting(plan: Plan) -> dict[str, KeyTable]:
    """Return the tables of the operators whose unknown keys are to get an owner."""
    tables = {name: plan.routing[name] for name in plan.adopt}
    return {name: table for name, table in tables.items() if isinstance(table, KeyTable)}


def adopting_hops(topology: Topology, plan: Plan) -> list[EdgeName]:
    """Return the hops on which unknown keys are to get owners, at both ends."""
    return [hop for hop in topology.keyed_hops if {*hop} <= {*plan.adopt}]


class Adoption:
    """Gives unknown keys an owner, batch by batch, under one division of the known ones."""

    def __init__(self) -> None:
        self._loads: dict[str, Floats] = {}
        self._batches = 0  # since keys were given owners

    def after(
        self,
        plan: Plan,
        layout: Layout,
        pairs_of: Callable[[EdgeName], KeyPairs],
        summary: BatchSummary,
    ) -> dict[str, KeyTable]:
        """Return the tables of operators that got new keys in a batch.

        Args:
            plan: the plan in force.
            layout: the job as it is laid out.
            pairs_of: returns the pairs of keys on a hop in the batch.
            summary: what each instance did in it.
        """
        tables = adopting(plan)
        known = dict(tables)
        self._batches += 1
        due = self._batches * _KEYS_A_BATCH > sum(map(len, tables.values()))
        for hop in adopting_hops(layout.topology, plan) if due else ():
            pairs = pairs_of(hop)
            if _unknown_share(pairs, tables[hop[0]], tables[hop[1]]) >= _WORTH:
                tables |= _KeyedHop(layout, hop, self._loads).adopted(pairs, tables)
        self._count(layout, summary)
        changed = {name: table for name, table in tables.items() if table is not known[name]}
        if changed:
            self._batches = 0
        return changed

    def _count(self, layout: Layout, summary: BatchSummary) -> None:
        for instance in summary.instances:
            operator = layout.topology.operator(instance.operator)
            loads = self._loads.setdefault(operator.name, np.zeros(operator.parallelism))
            if instance.number < len(loads):  # not for one that a plan has taken away
                loads[instance.number] += instance.tuples


@dataclass(frozen=True)
class _KeyedHop:
    """Two keyed operators, where one feeds the other, on their nodes."""

    layout: Layout
    names: EdgeName
    loads: Mapping[str, Floats]

    def adopted(self, pairs: KeyPairs, tables: Mapping[str, KeyTable]) -> dict[str, KeyTable]:
        """Return both tables with the keys of all pairs in them."""
        # 1. Number the nodes, and find the known keys of each side and where they live.
        nodes = sorted({node for name in self.names for node in self._homes(name)})
        numbers = {node: number for number, node in enumerate(nodes)}
        sides = [
            self._side(name, keys, tables[name], numbers)
            for name, keys in zip(self.names, pairs.columns, strict=True)
        ]
        # 2. Known keys are settled, and on the left also keys without known partners: they have
        # nowhere to go, so they stay, and others may join them.
        left = sides[0]
        numbered, _ = distinct(left.keys)
        silent = np.bincount(numbered, sides[1].known)[numbered] == 0
        small = (
            left.on_nodes(left.known | silent, len(nodes)),
            sides[1].on_nodes(sides[1].known, len(nodes)),
        )
        # 3. Put the others on the nodes of their partners, as far as there is room.
        shares = np.array([np.bincount(side.homes, minlength=len(nodes)) for side in sides])
        loads = np.array([np.bincount(side.homes, side.loads, len(nodes)) for side in sides])
        placed = first_touch(pairs, small, loads, shares=shares, seed=self.layout.topology.seed)
        # 4. On its node, each key gets an instance.
        return {
            name: side.with_all(tables[name], nodes_of.assign(side.keys), pairs.counts)
            for name, side, nodes_of in zip(self.names, sides, placed, strict=True)
        }

    def _side(
        self, name: str, keys: Any, table: KeyTable, numbers: Mapping[str, int]
    ) -> "_HopSide":
        column = as_keys(keys, seed=self.layout.topology.seed)
        known, _ = table.find(column)
        owners = replace(self.layout.owners(name), table=table)
        homes = np.array([numbers[node] for node in self._homes(name)], dtype=np.int32)
        loads = self.loads.get(name, np.zeros(len(homes)))
        return _HopSide(column, known, owners, owners.assign(column), homes, loads)

    def _homes(self, name: str) -> list[str]:
        number = self.layout.topology.operator(name).parallelism
        return [self.layout.node_of(Instance(name, place)) for place in range(number)]


@dataclass(frozen=True)
class _HopSide:
    """The keys of one operator, one for each pair.

    Attributes:
        keys: the keys.
        known: which of them are in its table.
        present: the present owners of keys.
        owners: the instance that has each.
        homes: for each instance, the number of its node.
        loads: how many tuples each instance had so far.
    """

    keys: KeyColumn
    known: NDArray[np.bool_]
    present: KeyOwners
    owners: Parts
    homes: Parts
    loads: Floats

    def on_nodes(self, which: NDArray[np.bool_], nodes: int) -> RoutingTable:
        """Return a table of the nodes that some of the keys are on."""
        return RoutingTable(
            self.keys.take(np.flatnonzero(which)), self.homes[self.owners[which]], nodes
        )

    def with_all(self, table: KeyTable, nodes: Parts, counts: Floats) -> KeyTable:
        """Return the operator's table with its unknown keys added, on these nodes."""
        rows = np.flatnonzero(~self.known)
        if not len(rows):
            return table
        numbers, firsts = distinct(self.keys.take(rows))
        first = rows[firsts]
        amounts = np.bincount(numbers, counts[rows]).astype(np.float64, copy=False)
        chosen = spread(nodes[first], amounts, self.homes, self.owners[first])
        keys = self.keys.take(first)
        if isinstance(table, GroupTable):
            chosen = self.present.groups_on(chosen, keys)
        return table.with_keys(keys, chosen)


def _unknown_share(pairs: KeyPairs, first: KeyTable, second: KeyTable) -> float:
    """Return the share of tuples whose key is not in the table."""
    if not pairs.total:
        return 0.0
    left, right = pairs.columns
    unknown = ~(first.find(left)[0] & second.find(right)[0])
    return float(pairs.counts[unknown].sum()) / pairs.total
