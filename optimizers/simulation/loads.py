"""The loads of key groups and instances in a simulated run, counted tuple by tuple."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.operators import Edge, EdgeName
from optimizers.simulation.rows import Sent, Served
from optimizers.simulation.state_moves import KeysMet
from optimizers.simulation.tuples import Rows, Tuples, into
from sketches.arrays import Floats, Parts


@dataclass(frozen=True)
class StretchLoads:
    """The work done in a stretch of a run.

    Attributes:
        layout: the job as it was laid out.
        cluster: the machines.
        seconds: how long it lasted.
        tuples: all tuples of the run.
        seen: the keys that each keyed operator has met.
        served: what each operator executed.
        sent: the tuples that each edge carried.
    """

    layout: Layout
    cluster: Cluster
    seconds: float
    tuples: Tuples
    seen: Mapping[str, KeysMet]
    served: Mapping[str, Served]
    sent: Mapping[EdgeName, Sent]

    def groups(self, name: str) -> GroupStatistics:
        """Return the load of each key group of an operator."""
        job, home, served = self.layout.topology, self.layout.homes[name], self.served[name]
        edges, number = into(job, name), len(home.groups)
        groups = np.zeros(len(served), dtype=np.int32)
        for place, edge in enumerate(edges):
            own = served.edges == place
            groups[own] = self._group_of(name, edge, served.rows[own])
        came = [(self._group_of(name, edge, self.sent[edge.name].rows), edge) for edge in edges]
        # The key that a sent tuple came by is known only if all came by one edge.
        went = [
            (self._group_of(name, edges[0], self.sent[edge.name].rows), edge)
            for edge in job.outputs(name)
            if len(edges) == 1
        ]
        known = len(edges) == 1 or not job.outputs(name)
        return GroupStatistics.of(
            self.cluster,
            [home.nodes[instance] for instance in home.groups],
            self.seconds,
            tuples=_summed(groups, None, number),
            seconds=_summed(groups, served.ended - served.started, number),
            state_bytes=state_by_group(self.layout, name, self.tuples, self.seen),
            bytes_in=self._bytes(came, number),
            remote_in=self._bytes(came, number, remote=True),
            bytes_out=self._bytes(went, number) if known else None,
            remote_out=self._bytes(went, number, remote=True) if known else None,
        )

    def instances(self, name: str) -> InstanceStatistics:
        """Return the load of each instance of an operator."""
        job, served = self.layout.topology, self.served[name]
        nodes = self.layout.homes[name].nodes
        number = len(nodes)
        state = self._state(name, number)
        came = [(self.sent[edge.name].instances, edge) for edge in job.inputs(name)]
        went = [(self.sent[edge.name].senders, edge) for edge in job.outputs(name)]
        return InstanceStatistics.of(
            self.cluster,
            nodes,
            self.seconds,
            tuples=_summed(served.instances, None, number),
            seconds=_summed(served.instances, served.ended - served.started, number),
            fixed=np.zeros(number),
            state_bytes=state,
            resident=state,  # nothing is ever written to disks
            bytes_in=self._bytes(came, number),
            remote_in=self._bytes(came, number, remote=True),
            bytes_out=self._bytes(went, number),
            remote_out=self._bytes(went, number, remote=True),
        )

    def _group_of(self, name: str, edge: Edge, rows: Rows) -> Parts:
        """Return the key group of tuples that came to an operator by an edge."""
        columns = self.layout.topology.key_columns(*edge.name)
        keys = self.tuples.keys(edge.source, columns).batch(rows)
        return self.layout.owners(name).group_of(keys)

    def _bytes(
        self, places: Sequence[tuple[Parts | Rows, Edge]], number: int, *, remote: bool = False
    ) -> Floats:
        """Return the bytes of edges' tuples, by place; of all, or of those from node to node."""
        total = np.zeros(number)
        for of, edge in places:
            sent = self.sent[edge.name]
            sizes = self.tuples.sizes[sent.rows]
            total += _summed(of, sizes * ~sent.local if remote else sizes, number)
        return total

    def _state(self, name: str, number: int) -> Floats | None:
        """Return how much state each instance has; None where that is not known."""
        return state_by_instance(self.layout, name, self.tuples, self.seen, number)


def state_by_instance(
    layout: Layout, name: str, tuples: Tuples, seen: Mapping[str, KeysMet], number: int
) -> Floats | None:
    """Return how much state each instance of an operator has; None where that is not known."""
    each = tuples.work(name).state_bytes
    if not each or not layout.topology.operator(name).keyed:
        return np.zeros(number)
    if name not in seen:
        return None
    owners = layout.owners(name)
    found = np.zeros(number)
    for keys in seen[name].columns():
        found += each * _summed(owners.assign(keys), None, number)
    return found


def state_by_group(
    layout: Layout, name: str, tuples: Tuples, seen: Mapping[str, KeysMet]
) -> Floats | None:
    """Return how much state each key group of an operator has; None where that is not known."""
    each = tuples.work(name).state_bytes
    owners = layout.owners(name)
    state = np.zeros(len(owners.groups))
    if not each:
        return state
    if name not in seen:
        return None
    for keys in seen[name].columns():
        state += each * _summed(owners.group_of(keys), None, len(state))
    return state


def _summed(places: Parts | Rows, amounts: Floats | None, number: int) -> Floats:
    """Return the sums by place, without instances that are gone."""
    there = places < number
    if amounts is not None:
        amounts = amounts[there]
    return np.bincount(places[there], amounts, number).astype(np.float64)
