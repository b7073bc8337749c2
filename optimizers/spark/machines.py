"""The machines of a session as a cluster, looked at again while executors come and go."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from optimizers.cluster import Cluster, Node
from optimizers.errors import InvalidValueError
from optimizers.layout import Layout
from optimizers.spark.cores import cores_of_task, memory_of_executor, slots_of
from optimizers.spark.executors import Host, HostReader, rack_of
from optimizers.spark.host_properties import Hosts, complemented
from optimizers.spark.machine_facts import MachineFacts, bandwidth_of_each, memory_of_each
from optimizers.spark.pinning import Pins
from optimizers.spark.survey import Survey
from optimizers.topology import Topology

_LOG = logging.getLogger(__name__)


class Machines:
    """The hosts that executors run on, as nodes; and what holds instances there.

    Args:
        session: the session.
        topology: the job.
        given: the cluster, if it is given. It has these nodes and no others, and what it does not
            say of hosts is filled in. Without one, hosts are its nodes, each as capable as its
            executors have cores, with what they tell of themselves; or where there is but one, as
            many virtual nodes as the most parallel operator has instances, which share its cores
            and its memory equally.
        hosts: what the user says of hosts, whichever are there; it counts before what they tell.

    Attributes:
        cluster: the machines, as they were at the last look.
    """

    def __init__(
        self,
        session: SparkSession,
        topology: Topology,
        given: Cluster | None,
        hosts: Hosts | None = None,
    ) -> None:
        self._session = session
        self._given = given
        self._said = hosts
        self._is_begun = False
        self._read = HostReader(session)
        self._survey = Survey(session)
        self._hosts: Mapping[str, Host] = self._read()
        if given is not None:
            self.cluster = self._filled(given)
        elif len(self._hosts) > 1:
            self.cluster = Cluster(self._nodes())
        else:
            self.cluster = self._virtual(max(op.parallelism for op in topology.operators))
        self._is_virtual = given is not None or len(self._hosts) < 2
        self._pins = self._new_pins()
        if isinstance(hosts, Mapping) and self._hosts and not hosts.keys() & self._hosts.keys():
            _LOG.warning(
                "hosts=... says nothing of any of the hosts %s, but of %s; name them as Spark does",
                list(self._hosts),
                list(hosts),
            )
        self._is_begun = True

    def look(self) -> Cluster:
        """Return the cluster as it is by now; no tasks may be running.

        Hosts that came take the places of those that left. Where no executor is left, there will
        be others, and nothing is known of them.
        """
        hosts = self._read()
        if not hosts or hosts == self._hosts:
            return self.cluster
        left, came = sorted(set(self._hosts) - set(hosts)), sorted(set(hosts) - set(self._hosts))
        if left or came:
            _LOG.warning("executors run on other hosts: %s left, %s came", left, came)
        self._hosts = hosts
        if self._given is not None:
            self.cluster = self._filled(self._given)
        elif len(hosts) > 1 or not self._is_virtual:
            self.cluster = self.cluster.became(self._nodes())
            self._is_virtual = False
        else:
            self.cluster = self._virtual(len(self.cluster.nodes))
        self.rest()
        self._pins = self._new_pins()
        return self.cluster

    @property
    def are_hosts(self) -> bool:
        """Whether any node of the cluster is a host, not virtual."""
        return len(self._hosts) > 1 and any(n.name in self._hosts for n in self.cluster.nodes)

    @property
    def slots(self) -> int:
        """How many tasks run at a time on all executors that were there at the last look."""
        cores = sum(host.cores for host in self._hosts.values())
        return max(1, cores // cores_of_task(self._session)) if cores else slots_of(self._session)

    def held(self, parcels: DataFrame, layout: Layout, stage: int) -> DataFrame:
        """Return what arrives at a stage, task by task on the hosts that the layout names."""
        if self._pins is None:
            return parcels
        return self._pins.held(parcels, _homes(layout, stage))

    def forget_others(self, layout: Layout) -> None:
        """Give back what it takes to hold instances where this layout does not have them."""
        if self._pins is not None:
            self._pins.forget(_homes(layout, stage) for stage in range(1, len(layout.stages)))

    def rest(self) -> None:
        """Give back all of it; where it is wanted again, it is made again."""
        if self._pins is not None:
            self._pins.forget(())

    def _new_pins(self) -> Pins | None:
        """Return what holds instances on their nodes, where there is a choice of hosts."""
        if len(self._hosts) < 2:
            return None
        if not self.are_hosts:
            _LOG.warning(
                "no node of %s is called as one of the hosts %s, so instances run anywhere; give "
                "the nodes the names of hosts, or leave the cluster out",
                [node.name for node in self.cluster.nodes],
                list(self._hosts),
            )
            return None
        return Pins(self._session, {name: host.executors for name, host in self._hosts.items()})

    def _nodes(self) -> tuple[Node, ...]:
        """Return the hosts as nodes."""
        each, facts = cores_of_task(self._session), self._survey.of(self._hosts)
        memory, bandwidth = self._memory(facts), bandwidth_of_each(facts)
        return tuple(
            self._complemented(
                Node(
                    name,
                    host.cores,
                    rack_of(self._session, name) or Node(name).rack,
                    cores=max(1, host.cores // each),
                    memory=memory.get(name),
                    bandwidth=bandwidth.get(name),
                )
            )
            for name, host in self._hosts.items()
        )

    def _complemented(self, node: Node) -> Node:
        """Return a host's node with what the user says of it; a job does not end for an error."""
        try:
            return complemented(node, self._said)
        except InvalidValueError as error:
            if not self._is_begun:
                raise
            _LOG.warning("host %s is taken as it was read: %s", node.name, error)
            return node

    def _filled(self, given: Cluster) -> Cluster:
        """Return a cluster that says of hosts what they tell, where it is not said by itself."""
        if not any(node.name in self._hosts for node in given.nodes):
            return given
        found = {node.name: node for node in self._nodes()}
        nodes = []
        for node in given.nodes:
            told = found.get(node.name, node)
            sizes = {
                name: getattr(told if getattr(node, name) is None else node, name)
                for name in ("cores", "memory", "bandwidth")
            }
            nodes.append(replace(node, **sizes))
        return replace(given, nodes=tuple(nodes))

    def _virtual(self, count: int) -> Cluster:
        """Return virtual nodes, each with an equal part of the cores and memory that are there."""
        here = self._survey.here
        if self._hosts:
            (shared,) = self._nodes()
        elif here is not None:
            shared = Node("here", cores=self.slots, memory=self._memory({"here": here}).get("here"))
        else:
            shared = Node("unknown")
        cores, memory = (
            None if has is None else has / count for has in (shared.cores, shared.memory)
        )
        nodes = Cluster.uniform(count).nodes
        return Cluster(tuple(replace(node, cores=cores, memory=memory) for node in nodes))

    def _memory(self, facts: Mapping[str, MachineFacts]) -> dict[str, float]:
        """Return by host what its executors may take, by what it has and what they were given."""
        found, each = memory_of_each(facts), memory_of_executor(self._session)
        if each is not None:
            for name, host in self._hosts.items():
                given = each * len(host.executors)
                found[name] = min(given, found.get(name, given))
        said = {name: self._complemented(Node(name)).memory for name in self._hosts}
        return {**found, **{name: size for name, size in said.items() if size is not None}}


def _homes(layout: Layout, stage: int) -> list[str]:
    return [layout.node_of(task) for task in layout.stages[stage]]
