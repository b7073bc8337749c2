"""A simulated run: the queues and edges of a job, going on from batch to batch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError
from optimizers.execution import Execution
from optimizers.layout import Layout
from optimizers.operators import EdgeName
from optimizers.plan import Plan
from optimizers.simulation.edges import EdgeRun, emitted
from optimizers.simulation.events.backlog import CurrentTruth
from optimizers.simulation.events.run import EventRun
from optimizers.simulation.network import Network
from optimizers.simulation.observation import EdgeFlow, Stretch
from optimizers.simulation.queues.conversation import Conversation, Mailbox
from optimizers.simulation.queues.feedback import Listener
from optimizers.simulation.queues.queue import OperatorQueues
from optimizers.simulation.rows import Arrivals, Sent, Served, Shipments
from optimizers.simulation.sharing import Sharing, speed
from optimizers.simulation.state_moves import KeysMet, Move, move_between
from optimizers.simulation.tuples import Tuples, into
from optimizers.simulation.wires import Wires
from optimizers.topology import Topology
from sketches.arrays import Floats, Integers


class Running:
    """A job as it runs.

    Operators are run in the order of the job, each to the end of the batch: queues are infinite, so
    nothing downstream affects an operator, except messages, which go back by one edge.

    Args:
        topology: the job as declared.
        cluster: the machines as declared.
        network: what shipping costs.
        tuples: what comes in.
        cores: how many cores a node has that does not say so.
    """

    hears = True  # senders, from instances, while they send
    unpaced = "instances run all the time here, and no batch waits; leave period out"

    def __init__(
        self,
        topology: Topology,
        cluster: Cluster,
        network: Network,
        tuples: Tuples,
        cores: float,
    ) -> None:
        self.topology = topology
        self.tuples = tuples
        self.network = network
        self.operator_queues = {
            name: OperatorQueues(name, tuples.seconds(name)) for name in topology.order
        }
        self.inputs = {
            name: [
                EdgeRun(
                    edge,
                    number,
                    tuples,
                    self.operator_queues[edge.source],
                    self.operator_queues[name],
                )
                for number, edge in enumerate(into(topology, name))
            ]
            for name in topology.order
        }
        by_edge = {
            edge_run.edge.name: edge_run for each in self.inputs.values() for edge_run in each
        }
        self.edge_runs: dict[EdgeName, EdgeRun] = {
            edge.name: by_edge[edge.name] for edge in topology.edges
        }
        self.outputs = {
            name: [self.edge_runs[edge.name] for edge in topology.outputs(name)]
            for name in topology.order
        }
        self.conversations: dict[str, dict[int, Conversation]] = {
            name: {} for name in topology.order
        }
        self.posts = {name: Mailbox() for name in topology.order}
        self.truths = {name: CurrentTruth() for name in topology.order}
        self._admitted = dict.fromkeys(topology.sources, 0)
        self.seen = {
            operator.name: KeysMet(
                tuples,
                [
                    (edge, topology.key_columns(*edge.name))
                    for edge in into(topology, operator.name)
                ],
            )
            for operator in topology.operators
            if operator.keyed and not operator.partial and topology.inputs(operator.name)
        }
        self._event_run: EventRun | None = None
        self._layout: Layout | None = None
        self._cluster = cluster
        self._nodes: dict[str, int] = {}
        self._wires = Wires(network)
        self._sharing = Sharing(topology, network, tuples, cores)
        network_cost = network.per_batch + tuples.sizes * network.per_byte
        self._unit: Floats | None = network_cost if network.charges else None

    def meet(self, cluster: Cluster) -> None:
        """Go on with other machines, from the next batch on."""
        self._cluster = cluster

    def is_moving(self, now: float) -> bool:
        """Return whether an instance still waits for state from another at a time."""
        queues = self.operator_queues.values()
        return any(bool((operator_queue.paused > now).any()) for operator_queue in queues)

    def begin(self, plan: Plan, number: int, now: float) -> Stretch:
        """Begin a batch under a plan."""
        layout = Layout.of(self.topology, self._cluster, plan)
        machines = self._cluster.under(plan)
        for node in machines.nodes:
            self._nodes.setdefault(node.name, len(self._nodes))
        self._wires.fit(machines, self._nodes)
        before = {name: queue.nodes.tolist() for name, queue in self.operator_queues.items()}
        for name, operator_queue in self.operator_queues.items():
            homes = layout.homes[name].nodes
            speeds = self._speeds(name, len(homes))
            capacities = np.array([speed(machines.node(home)) for home in homes])
            nodes = np.array([self._nodes[home] for home in homes])
            operator_queue.fit(nodes, 1.0 / (speeds * capacities))
        moves = self._move(layout, now)
        for edge_run in self.edge_runs.values():
            edge_run.under(layout)
            self._conversation(edge_run, layout, now)
        after = {name: queue.nodes.tolist() for name, queue in self.operator_queues.items()}
        self._sharing.fit(machines, self._nodes, after)
        if self._event_run is None and self._depends(plan, layout):
            self._event_run = self._follow(before, now)
        if self._event_run is not None:
            self._event_run.begin(plan, layout, self.conversations, self._sharing.cores, now)
        stretch = Stretch(number, now, layout, machines, moves=moves)
        stretch.flows = {name: EdgeFlow() for name in self.edge_runs}
        names = {number: name for name, number in self._nodes.items()}
        stretch.nodes = {
            name: [names[number] for number in operator_queue.nodes.tolist()]
            for name, operator_queue in self.operator_queues.items()
        }
        return stretch

    @property
    def execution(self) -> Execution:
        """How instances run."""
        return Execution(micro_batches=False)

    def full(self, admit: Mapping[str, int]) -> float:
        """Return the time before which all tuples come that sources may let in with the next batch.

        Tuples of one time come in together. Infinite if all remaining ones may come in.
        """
        ends = [math.inf]
        for name, most in admit.items():
            left = self.tuples.times[self.tuples.rows_of(name)][self._admitted[name] :]
            ends += left[most:][left[most:] > left[0]][:1].tolist() if len(left) > most else []
        return min(ends)

    def advance(self, stretch: Stretch, until: float) -> float:
        """Let a batch run to its end, and return when that is."""
        if self._event_run is not None:
            admitted = {name: self._admit(name, stretch, until) for name in self._admitted}
            self._event_run.advance(stretch, admitted, until)
        else:
            for name in self.topology.order:
                stretch.served[name] = self._execute(name, stretch, until)
                self._send(name, stretch)
        for name, seen in self.seen.items():
            seen.add(stretch.served[name])
        return until

    def _move(self, layout: Layout, now: float) -> dict[str, Move]:
        """Move keys that have another place from now on, and let instances wait for their state."""
        before, self._layout = self._layout, layout
        moves: dict[str, Move] = {}
        for name, seen in self.seen.items():
            if before is None or _same_place(name, before, layout):
                continue
            state_bytes = self.tuples.work(name).state_bytes
            move = move_between(
                seen.columns(),
                name,
                before,
                layout,
                numbers=self._nodes,
                state_bytes=state_bytes,
                wires=self._wires,
            )
            paused = self.operator_queues[name].paused
            waits = np.flatnonzero(move.pauses)
            paused[waits] = np.maximum(paused[waits], now + move.pauses[waits])
            moves[name] = move
        return moves

    def _depends(self, plan: Plan, layout: Layout) -> bool:
        """Return whether operators depend on those downstream, so that events must be followed."""
        job = layout.topology
        if any(size > 1 and job.outputs(name) for name, size in plan.batch.items()):
            return True
        listens = any(job.grouping(*edge.name).listens for edge in job.edges)
        packs_once = self.network.buffers != "distinct"
        return (self.network.charges and (listens or packs_once)) or self._sharing.shares

    def _follow(self, nodes: Mapping[str, Sequence[int]], now: float) -> EventRun:
        """Follow events from now on."""
        event_run = EventRun(
            self.operator_queues,
            self.inputs,
            self.edge_runs,
            self.network,
            self.tuples,
            self.posts,
            self.truths,
            self._wires,
            self._sharing.needing,
        )
        waiting = {
            name: len(self.tuples.rows_of(name)) - admitted
            for name, admitted in self._admitted.items()
        }
        for edge_run in self.edge_runs.values():
            self._wires.take_over(edge_run.edge.name, edge_run.links)
        event_run.take_over(waiting, self.conversations, nodes, self._sharing.cores, now)
        return event_run

    def _speeds(self, name: str, instances: int) -> Floats:
        speeds = self.tuples.work(name).speeds
        if speeds is None:
            return np.ones(instances)
        if len(speeds) != instances:
            raise InvalidValueError(wrong_speeds(name, instances, len(speeds)))
        return np.array(speeds)

    def _conversation(self, edge_run: EdgeRun, layout: Layout, now: float) -> None:
        """Begin the conversation of an edge, or go on with it where nothing has changed."""
        source, target = edge_run.edge.name
        conversations, grouping = (
            self.conversations[target],
            layout.topology.grouping(source, target),
        )
        if not grouping.listens:
            conversations.pop(edge_run.number, None)
            self.posts[target].forget(edge_run.number)
            return
        senders, instances = (
            layout.topology.operator(name).parallelism for name in (source, target)
        )
        known = conversations.get(edge_run.number)
        if known is None or known.made_for != (grouping, senders, instances):
            self.posts[target].forget(edge_run.number)
            truth = self.truths[target]
            conversations[edge_run.number] = Conversation(grouping, senders, instances, truth, now)

    def _execute(self, name: str, stretch: Stretch, until: float) -> Served:
        """Let an operator execute what reaches it, as far as it is done before a time."""
        operator_queue, edge_runs = self.operator_queues[name], self.inputs[name]
        if not edge_runs:
            operator_queue.queue = operator_queue.queue.joined(self._admit(name, stretch, until))
        elif self.conversations[name]:
            return self._listen(name, stretch, until)
        else:
            arrivals = (edge_run.travel(self.network, until) for edge_run in edge_runs)
            operator_queue.queue = self._in_order(operator_queue.queue.joined(*arrivals))
        extra = None
        if self._unit is not None and self.outputs[name]:
            count = self.tuples.emitted(name)
            extra = self._unit * len(self.outputs[name]) * (1 if count is None else count)
        return operator_queue.serve(extra, until)

    def _in_order(self, arrivals: Arrivals) -> Arrivals:
        """Return arrivals in the order in which they are served."""
        if not self.network.delays and not self.network.charges:
            return arrivals.take(np.argsort(arrivals.times, kind="stable"))
        keys = (arrivals.senders, arrivals.edges, arrivals.closed, arrivals.times)
        return arrivals.take(np.lexsort(keys))

    def _admit(self, name: str, stretch: Stretch, until: float) -> Arrivals:
        """Return what comes in at a source before a time, dealt out to its instances in turn."""
        rows = self.tuples.rows_of(name)
        times = self.tuples.times[rows]
        first = self._admitted[name]
        last = self._admitted[name] = int(np.searchsorted(times, until))
        places = np.arange(first, last)
        rows, times = rows[places], times[places]
        instances = places % stretch.layout.topology.operator(name).parallelism
        came = Shipments(rows, instances, instances, times, times)
        return Arrivals.of(came, times, -1)

    def _listen(self, name: str, stretch: Stretch, until: float) -> Served:
        edge_runs = self.inputs[name]
        offered = [edge_run.offer() for edge_run in edge_runs]
        arrivals = offered[0].joined(*offered[1:])
        listener = Listener(
            self.operator_queues[name],
            edge_runs,
            self.conversations[name],
            self.posts[name],
            self.network,
            arrivals.take(np.argsort(arrivals.times, kind="stable")),
            until,
        )
        self.truths[name].by = listener.truth
        served, settled = listener.serve()
        for number, conversation in self.conversations[name].items():
            edge_run = edge_runs[number]
            own = settled.take(settled.edges == number)
            self._count(edge_run, stretch, own.rows, own.senders, own.instances)
            stretch.flows[edge_run.edge.name].count(conversation)
        return served

    def _send(self, name: str, stretch: Stretch) -> None:
        """Send what comes of what an operator has executed."""
        edge_runs = self.outputs[name]
        if not edge_runs:
            return
        counts = self.tuples.emitted(name)
        found = emitted(stretch.served[name], counts, edge_runs, self._unit)
        for edge_run, shipments in zip(edge_runs, found, strict=True):
            if edge_run.number not in self.conversations[edge_run.edge.target]:
                instances = edge_run.route(shipments.rows, shipments.senders)
                shipments = replace(shipments, instances=instances)  # noqa: PLW2901
                self._count(edge_run, stretch, shipments.rows, shipments.senders, instances)
            edge_run.departing = edge_run.departing.joined(shipments)

    def _count(
        self,
        edge_run: EdgeRun,
        stretch: Stretch,
        rows: Integers,
        senders: Integers,
        instances: Integers,
    ) -> None:
        """Count what is sent along an edge."""
        flow = stretch.flows[edge_run.edge.name]
        nodes = edge_run.source.nodes[senders], edge_run.target.nodes[instances]
        sizes, stays = self.tuples.sizes[rows], nodes[0] == nodes[1]
        flow.tuples += len(rows)
        flow.bytes += float(sizes.sum())
        flow.local += int(stays.sum())
        flow.local_bytes += float(sizes[stays].sum())
        stretch.sent[edge_run.edge.name] = Sent(rows, senders, instances, stays)


def wrong_speeds(name: str, instances: int, speeds: int) -> str:
    """Return what is wrong with an operator that has not a speed for each instance."""
    return (
        f"operator {name!r} has {instances} instances and speeds for {speeds}; "
        "give one for each, or None"
    )


def _same_place(name: str, before: Layout, after: Layout) -> bool:
    """Return whether all keys of an operator stay where they are."""
    homes = [layout.homes[name] for layout in (before, after)]
    owners = [layout.owners(name) for layout in (before, after)]
    return homes[0] == homes[1] and owners[0] == owners[1]
