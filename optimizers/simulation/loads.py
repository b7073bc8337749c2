"""The loads of key groups and instances in a simulated run, counted tuple by tuple."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.operators import Edge, EdgeName
from optimizers.simulation.network import Network
from optimizers.simulation.rows import Sent, Served
from optimizers.simulation.state_moves import KeysMet
from optimizers.simulation.tuples import Rows, Tuples, into
from sketches.arrays import Floats, Parts

Carried: TypeAlias = tuple[Parts | Rows, Edge]
"""The places of the tuples that an edge carried, and the edge."""


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
        shipping: how many seconds each instance of each operator spent on sending.
        receiving: how many seconds each spent on taking in what was sent to it.
        network: what both cost.
    """

    layout: Layout
    cluster: Cluster
    seconds: float
    tuples: Tuples
    seen: Mapping[str, KeysMet]
    served: Mapping[str, Served]
    sent: Mapping[EdgeName, Sent]
    shipping: Mapping[str, Floats]
    receiving: Mapping[str, Floats]
    network: Network

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
            seconds=_summed(groups, served.ended - served.started, number)
            + self._carrying(name, came, went if known else []),
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
        shipping, receiving = self.shipping[name][:number], self.receiving[name][:number]
        worked = _summed(served.instances, served.ended - served.started, number)
        return InstanceStatistics.of(
            self.cluster,
            nodes,
            self.seconds,
            tuples=_summed(served.instances, None, number),
            seconds=worked + receiving + shipping,
            receiving=receiving,
            shipping=shipping,
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

    def _carrying(self, name: str, came: Sequence[Carried], went: Sequence[Carried]) -> Floats:
        """Return how many seconds of sending and receiving are due to each key group.

        Args:
            name: the operator.
            came: the tuples that came to it, and of which key group each is.
            went: the same of those that it sent, where that is known.
        """
        network, number = self.network, len(self.layout.homes[name].groups)
        sent = self._due(
            name,
            self.shipping[name],
            network.per_byte * self._bytes(went, number)
            + network.remote_per_byte * self._bytes(went, number, remote=True),
            network.per_batch * self._tuples(went, number)
            + network.remote_per_batch * self._tuples(went, number, remote=True)
            if went
            else self._tuples(came, number),  # as far as is known
        )
        received = self._due(
            name,
            self.receiving[name],
            network.remote_per_byte * self._bytes(came, number, remote=True),
            network.remote_per_batch * self._tuples(came, number, remote=True)
            if network.charges_both
            else self._tuples(came, number),  # each takes as long, wherever it comes from
        )
        return sent + received

    def _due(self, name: str, spent: Floats, by_bytes: Floats, by_batches: Floats) -> Floats:
        """Share out what each instance of an operator spent among its key groups.

        Args:
            name: the operator.
            spent: how many seconds each spent.
            by_bytes: by group, how many seconds its bytes take.
            by_batches: by group, its weight in what is left, which batches take.
        """
        home = self.layout.homes[name]
        groups, spent = np.array(home.groups), spent[: len(home.nodes)]
        found = _shared(spent, by_bytes, groups, at_most=True)
        left = np.maximum(spent - np.bincount(groups, found, len(spent)), 0.0)  # but for rounding
        return found + _shared(left, by_batches, groups)

    def _tuples(self, places: Sequence[Carried], number: int, *, remote: bool = False) -> Floats:
        """Return how many tuples edges carried, by place; of all, or of those between nodes."""
        total = np.zeros(number)
        for of, edge in places:
            local = self.sent[edge.name].local
            total += _summed(of, (~local).astype(np.float64) if remote else None, number)
        return total

    def _bytes(self, places: Sequence[Carried], number: int, *, remote: bool = False) -> Floats:
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


def _shared(spent: Floats, weights: Floats, groups: Parts, *, at_most: bool = False) -> Floats:
    """Share out what instances spent among their key groups.

    Args:
        spent: by instance.
        weights: of the groups; those of an instance share alike if all of theirs are 0.
        groups: of which instance each group is.
        at_most: whether weights are seconds, so that no group gets more than its weight.
    """
    if not at_most:
        weights = np.where(np.bincount(groups, weights, len(spent))[groups] > 0, weights, 1.0)
    total = np.bincount(groups, weights, len(spent))
    share = np.divide(spent, total, out=np.zeros(len(spent)), where=total > 0)
    found: Floats = weights * (np.minimum(share, 1.0) if at_most else share)[groups]
    return found


def _summed(places: Parts | Rows, amounts: Floats | None, number: int) -> Floats:
    """Return the sums by place, without instances that are gone."""
    there = places < number
    if amounts is not None:
        amounts = amounts[there]
    return np.bincount(places[there], amounts, number).astype(np.float64)
