"""The machines of a session as a cluster, looked at again while executors come and go."""

import logging
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from optimizers.cluster import Cluster, Node
from optimizers.layout import Layout
from optimizers.spark.pinning import Pins, executor_hosts
from optimizers.topology import Topology

_LOG = logging.getLogger(__name__)

Hosts = Mapping[str, Sequence[str]]
"""For each host its executors."""


class Machines:
    """The hosts that executors run on, as nodes; and what holds instances there.

    Args:
        session: the session.
        topology: the job.
        given: the cluster, if it is given and stays as it is. Without one, hosts are its nodes,
            each as capable as it has executors; or where there is but one, as many virtual nodes
            as the most parallel operator has instances.
    """

    def __init__(self, session: SparkSession, topology: Topology, given: Cluster | None) -> None:
        self._session = session
        self._given = given
        self._hosts: Hosts = executor_hosts(session)
        if given is not None:
            self.cluster = given
        elif len(self._hosts) > 1:
            self.cluster = Cluster(_nodes(self._hosts))
        else:
            self.cluster = Cluster.uniform(max(op.parallelism for op in topology.operators))
        self._thought_of = given is not None or len(self._hosts) < 2
        self._pins = self._new_pins()

    def look(self) -> Cluster:
        """Return the cluster as it is by now; no tasks may be running.

        Hosts that came take the places of those that left. Where no executor is left, there will
        be others, and nothing is known of them.
        """
        hosts = executor_hosts(self._session)
        if not hosts or hosts == self._hosts:
            return self.cluster
        left, came = sorted(set(self._hosts) - set(hosts)), sorted(set(hosts) - set(self._hosts))
        if left or came:
            _LOG.warning("executors run on other hosts: %s left, %s came", left, came)
        self._hosts = hosts
        if self._given is None and (len(hosts) > 1 or not self._thought_of):
            self.cluster = self.cluster.became(_nodes(hosts))
            self._thought_of = False
        self.rest()
        self._pins = self._new_pins()
        return self.cluster

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
        if not any(node.name in self._hosts for node in self.cluster.nodes):
            _LOG.warning(
                "no node of %s is called as one of the hosts %s, so instances run anywhere; give "
                "the nodes the names of hosts, or leave the cluster out",
                [node.name for node in self.cluster.nodes],
                list(self._hosts),
            )
            return None
        return Pins(self._session, self._hosts)


def _nodes(hosts: Hosts) -> tuple[Node, ...]:
    return tuple(Node(host, float(len(names))) for host, names in hosts.items())


def _homes(layout: Layout, stage: int) -> list[str]:
    return [layout.node_of(task) for task in layout.stages[stage]]
