"""One edge as it runs: its tuples on their way from instance to instance."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grouping.grouping import Grouping
from grouping.owners import KeyOwners
from grouping.routers import Router
from optimizers.errors import PlanError
from optimizers.layout import Layout
from optimizers.operators import Edge
from optimizers.simulation.network import Network
from optimizers.simulation.queues.queue import OperatorQueues
from optimizers.simulation.rows import Arrivals, Served, Shipments
from optimizers.simulation.tuples import Tuples
from sketches.arrays import Codes, Floats, Integers


class EdgeRun:
    """One edge: how its tuples are spread, and those that are between two instances.

    Args:
        edge: the edge.
        number: its number among the edges into its target.
        tuples: all tuples of the run.
        source: where its tuples come from.
        target: where they go.

    Attributes:
        departing: tuples that will leave their sender later.
        links: when the connection of two nodes is free again.
        grouping: how tuples are spread.
        instances: how many instances they are spread over.
        columns: the columns of their keys; none where the edge has no key.
        ownership: the owners of keys; None where keys have no owner.
    """

    def __init__(
        self,
        edge: Edge,
        number: int,
        tuples: Tuples,
        source: OperatorQueues,
        target: OperatorQueues,
    ) -> None:
        self.edge = edge
        self.number = number
        self.tuples = tuples
        self.source = source
        self.target = target
        self.departing = Shipments.none()
        self.links: dict[int, float] = {}
        self.grouping: Grouping | None = None
        self.instances = 0
        self.columns: tuple[str, ...] = ()
        self.ownership: KeyOwners | None = None
        self._routers: dict[int, tuple[tuple[int, ...], Router]] = {}
        self._in_force: dict[int, Router] = {}
        self._layout: Layout | None = None

    def under(self, layout: Layout) -> None:
        """Spread tuples as a layout says from now on; routers that still fit go on."""
        grouping = layout.topology.grouping(*self.edge.name)
        instances = layout.topology.operator(self.edge.target).parallelism
        if (grouping, instances) != (self.grouping, self.instances):
            self._routers = {}
        if not self._same_surroundings(layout):
            self._in_force = {}
        self.grouping, self.instances = grouping, instances
        self.columns = layout.topology.key_columns(*self.edge.name)
        self.ownership = layout.owners_on(self.edge)
        self._layout = layout

    def _same_surroundings(self, layout: Layout) -> bool:
        """Return whether all senders have the same routers as before."""
        before = self._layout
        if before is None or not self._routers:
            return False
        return all(before.homes[end] == layout.homes[end] for end in self.edge.name)

    def route(self, rows: Integers, senders: Integers) -> Integers:
        """Return the instance that each tuple is sent to; tuples of one sender are consecutive."""
        if self.ownership is not None:
            keys = self.tuples.keys(self.edge.source, self.columns)
            return self.ownership.assign(keys.batch(rows)).astype(np.int64)
        instances = np.empty(len(rows), dtype=np.int64)
        cuts = np.flatnonzero(np.diff(senders)) + 1
        for start, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
            if start < end:
                span = slice(start, end)
                instances[span] = self.route_from(int(senders[start]), rows[span])
        return instances

    def route_from(self, sender: int, rows: Integers) -> Integers:
        """Return the instance that each of the next tuples of one sender is sent to."""
        keys = None
        if self.needs_key:
            keys = self.tuples.keys(self.edge.source, self.columns).batch(rows)
        return self.router(sender).route(len(rows), keys).astype(np.int64)

    @property
    def needs_key(self) -> bool:
        """Whether tuples are spread by a key."""
        return self.grouping is not None and self.grouping.needs_key

    def owners(self) -> Integers | None:
        """Return the instance that owns each tuple of the run; None where keys have no owner."""
        if self.ownership is None:
            return None
        rows = self.tuples.reaching(self.edge.source)
        found = np.full(len(self.tuples), -1)
        found[rows] = self.route(rows, rows)
        return found

    def codes(self) -> Codes:
        """Return the code of the key of each tuple of the run; 0 where the edge has no key."""
        found = np.zeros(len(self.tuples), dtype=np.uint64)
        if self.columns:
            rows = self.tuples.reaching(self.edge.source)
            found[rows] = self.tuples.keys(self.edge.source, self.columns).codes(rows)
        return found

    def router(self, sender: int) -> Router:
        """Return the router of a sender under the layout in force."""
        router = self._in_force.get(sender)
        if router is None:
            router = self._in_force[sender] = self._new_router(sender)
        return router

    def _new_router(self, sender: int) -> Router:
        if self._layout is None or self.grouping is None:
            raise PlanError(f"edge {self.edge} has no layout yet; begin an epoch first")
        homes = self._layout.homes[self.edge.source].nodes
        local: tuple[int, ...] = ()
        if sender < len(homes):
            local = self._layout.local(self.edge.target, homes[sender])
        known = self._routers.get(sender)
        if known is not None and known[0] == local:
            return known[1]
        router = self.grouping.router(self.instances, sender=sender, local=local)
        self._routers[sender] = local, router
        return router

    def offer(self) -> Arrivals:
        """Return tuples that leave their senders, with the time; they have yet to travel."""
        shipments, self.departing = self.departing, Shipments.none()
        return Arrivals.of(shipments, shipments.departures, self.number)

    def travel(self, network: Network, until: float) -> Arrivals:
        """Return the arrivals of tuples that leave before a time; the others come later."""
        shipments = self.departing
        if not network.delays:
            self.departing = Shipments.none()
            return Arrivals.of(shipments, shipments.departures, self.number)
        leave = shipments.departures < until
        self.departing = shipments.take(~leave)
        shipments = shipments.take(leave)
        order = np.lexsort((shipments.senders, shipments.closed, shipments.departures))
        shipments = shipments.take(order)
        return Arrivals.of(shipments, self._through(shipments, network), self.number)

    def _through(self, shipments: Shipments, network: Network) -> Floats:
        """Return when tuples arrive that leave one by one, in this order."""
        starts = self.source.nodes[shipments.senders]
        ends = self.target.nodes[shipments.instances]
        times = shipments.departures.copy()
        remote = np.flatnonzero(starts != ends)
        if network.bandwidth < np.inf:
            times[remote] = _through_links(
                self.links,
                (starts[remote] << 32) + ends[remote],
                times[remote],
                self.tuples.sizes[shipments.rows[remote]] / network.bandwidth,
            )
        times[remote] += network.latency
        return times


def _through_links(
    links: dict[int, float], which: Integers, times: Floats, taken: Floats
) -> Floats:
    """Return when tuples have passed their links, which take one after the other."""
    through: list[float] = []
    for link, time, seconds in zip(which.tolist(), times.tolist(), taken.tolist(), strict=True):
        free = links[link] = max(time, links.get(link, 0.0)) + seconds
        through.append(free)
    return np.array(through)


def emitted(
    served: Served, counts: Integers | None, edge_runs: Sequence[EdgeRun], unit: Floats | None
) -> list[Shipments]:
    """Return the tuples that leave an operator by each of its edges, those of one sender together.

    Their instances are still open.

    Args:
        served: the tuples that the operator has executed.
        counts: how many tuples it emits for each tuple of the run; None for one.
        edge_runs: the edges out of the operator.
        unit: how long sending each tuple of the run takes; None for no time.
    """
    order = np.argsort(served.instances.astype(np.int32), kind="stable")
    served = served.take(order)
    rows, senders, ended = served.rows, served.instances, served.ended
    copy = np.zeros(len(rows), dtype=np.int64)
    count = np.ones(len(rows), dtype=np.int64)
    if counts is not None:
        each = counts[rows]
        copy = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        count = np.repeat(each, each)
        rows, senders, ended = rows.repeat(each), senders.repeat(each), ended.repeat(each)
    found = Shipments(rows, senders, np.full(len(rows), -1), ended, ended)
    if unit is None:
        return [found] * len(edge_runs)
    return [
        replace(found, departures=ended + (place * count + copy + 1) * unit[rows])
        for place in range(len(edge_runs))
    ]
