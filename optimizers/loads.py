"""What key groups and instances need of their machines: processor, memory and network.

Loads are given twice: as amounts (seconds, bytes), and as shares of what their node has, times its
capacity. So a node of capacity 2 is full, of whichever resource, when its loads come to 2. A fact
that was not observed is None, and so is its share where it is not known how much nodes have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError
from sketches.arrays import Floats
from sketches.checks import weights
from sketches.values import ArrayValue, listed, numeric, protected

REMOTE = ("remote_in", "remote_out")
"""Facts that are known only for the nodes on which instances were."""

_LEAST_SECONDS = 1e-9


class _Columns(ArrayValue):
    """Base of values with a column for each fact that was observed."""

    @property
    def columns(self) -> dict[str, Floats]:
        """The columns that are known, by their names."""
        named = {name: getattr(self, name) for name in _names(self)}
        return {name: column for name, column in named.items() if column is not None}

    def without(self, *names: str) -> Self:
        """Return the same without these columns, which are no longer known."""
        return replace(self, **dict.fromkeys(names))  # type: ignore[type-var]  # a dataclass

    def _protect(self, length: int | None = None) -> None:
        """Make each given column a read-only array, all of one length."""
        for name, given in self.columns.items():
            array = numeric(name, given)
            length = np.atleast_1d(array).shape[0] if length is None else length
            object.__setattr__(self, name, protected(weights(name, array, length)))
        if length is None:
            raise InvalidValueError(
                f"{type(self).__name__} without any column says nothing; leave it out"
            )


def _names(value: Any) -> list[str]:
    """Return the names of the columns."""
    return [field.name for field in fields(value) if field.name not in {"nodes", "hosts"}]


@dataclass(frozen=True, eq=False)
class GroupStatistics(_Columns):
    """The key groups of one operator during an epoch; element ``g`` is about group ``g``.

    Attributes:
        cpu: the load each puts on the processor: ``seconds``, as a share of the time of all cores;
            a node with an unknown number of cores counts as having one.
        memory: the load each puts on the memory: ``state_bytes``, as a share of it.
        network: the load each puts on the link: the larger of ``remote_in`` and ``remote_out``, as
            a share of what the link carries each way in that time.
        state_bytes: how much state each holds at the end.
        tuples: how many tuples each received.
        seconds: how many CPU seconds they took, from taking in to sending on, without the fixed
            cost of each task, see `InstanceStatistics.fixed`.
        bytes_in: how large the tuples were that each received.
        bytes_out: how large the tuples were that each sent.
        remote_in: how large those were of ``bytes_in`` that came from other hosts.
        remote_out: how large those were of ``bytes_out`` that went to other hosts.
    """

    cpu: Floats | None = None
    memory: Floats | None = None
    network: Floats | None = None
    state_bytes: Floats | None = None
    tuples: Floats | None = None
    seconds: Floats | None = None
    bytes_in: Floats | None = None
    bytes_out: Floats | None = None
    remote_in: Floats | None = None
    remote_out: Floats | None = None

    def __post_init__(self) -> None:
        self._protect()

    @classmethod
    def of(
        cls, cluster: Cluster, nodes: Sequence[str], time: float, **amounts: Floats | None
    ) -> "GroupStatistics":
        """Return these amounts with their shares of a node.

        Args:
            cluster: the machines.
            nodes: where each group was.
            time: how long the epoch lasted.
            amounts: the amounts, by the names of attributes.
        """
        return cls(**amounts, **_shares(cluster, nodes, time, amounts))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def weights(self) -> Floats:
        """The fact that best compares the work of the groups of one operator.

        Tuples if they were counted, else the first load that is known; equal weights if none is.
        """
        known = (self.tuples, self.seconds, self.cpu, self.network, self.memory)
        found = (amounts for amounts in known if amounts is not None and amounts.any())
        return next(found, np.ones(len(self)))


@dataclass(frozen=True, eq=False)
class InstanceStatistics(_Columns):
    """The instances of one operator during an epoch; element ``i`` is about instance ``i``.

    Attributes:
        nodes: where each was planned to be.
        hosts: where each really ran, in the last batch in which it had tuples: the engine's name of
            the host. None for an instance that was on several hosts, as partitions of a source can
            be, or whose host is not known; None for all where nodes are virtual.
        tuples: how many tuples each received; a source: how many it let in.
        seconds: how many CPU seconds its tasks took, all in all; on Spark without the 2 ms or so
            in which a Python worker reads what it is to do, and without its start.
        receiving: how many of those went to taking in what arrived, to state, to observing, and to
            whatever else is neither the operator's own work nor `shipping`.
        shipping: how many of those went to routing and packing what it emitted.
        fixed: how many of those do not grow with the tuples, as it takes to call a function or to
            write a file.
        state_bytes: how much state each holds at the end; 0 for an operator that keeps none.
        resident: how much of that stays in memory after the last batch, to save reading it again.
        bytes_in: how large the tuples were that each received from other operators.
        bytes_out: how large the tuples were that each sent to other operators.
        remote_in: how large those were of ``bytes_in`` that came from other hosts.
        remote_out: how large those were of ``bytes_out`` that went to other hosts.
        cpu: ``seconds`` as a share, as in `GroupStatistics`, fixed costs included.
        memory: ``state_bytes`` as a share, with what is not ``resident``: all of it is in memory
            while an instance works on a batch.
        network: the larger of ``remote_in`` and ``remote_out`` as a share.
    """

    nodes: tuple[str, ...]
    hosts: tuple[str | None, ...] | None = None
    tuples: Floats | None = None
    seconds: Floats | None = None
    receiving: Floats | None = None
    shipping: Floats | None = None
    fixed: Floats | None = None
    state_bytes: Floats | None = None
    resident: Floats | None = None
    bytes_in: Floats | None = None
    bytes_out: Floats | None = None
    remote_in: Floats | None = None
    remote_out: Floats | None = None
    cpu: Floats | None = None
    memory: Floats | None = None
    network: Floats | None = None

    def __post_init__(self) -> None:
        nodes = listed("nodes", self.nodes)
        object.__setattr__(self, "nodes", nodes)
        if self.hosts is not None:
            object.__setattr__(self, "hosts", listed("hosts", self.hosts))
        for name, given in (("nodes", self.nodes), ("hosts", self.hosts or nodes)):
            if len(given) != len(nodes) or not all(
                isinstance(one, str) or (one is None and name == "hosts") for one in given
            ):
                raise InvalidValueError(
                    f"{name}={given!r} are not the names of {len(nodes)} machines; give one for "
                    "each instance"
                )
        self._protect(len(nodes))

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        nodes: tuple[str, ...],
        time: float,
        hosts: tuple[str | None, ...] | None = None,
        **amounts: Floats | None,
    ) -> "InstanceStatistics":
        """Return these amounts with their shares of a node.

        Args:
            cluster: the machines.
            nodes: where each instance was planned to be.
            time: how long the epoch lasted.
            hosts: where each really was.
            amounts: the amounts, by the names of attributes.
        """
        return cls(nodes, hosts, **amounts, **_shares(cluster, nodes, time, amounts))

    def __len__(self) -> int:
        return len(self.nodes)


def _shares(
    cluster: Cluster, nodes: Sequence[str], time: float, amounts: Mapping[str, Floats | None]
) -> dict[str, Floats | None]:
    """Return these amounts as shares of what their nodes have in that time, full as capacities."""
    typical, lasted = cluster.typical, max(time, _LEAST_SECONDS)
    there = {node.name: node for node in cluster.nodes}
    hosts = [there.get(name, typical) for name in nodes]

    def share(amount: Floats | None, has: Sequence[float | None]) -> Floats | None:
        known = [each for each in has if each is not None]
        if amount is None or len(known) < len(has):
            return None
        found: Floats = amount * [node.capacity for node in hosts] / np.array(known, dtype=float)
        return found

    far_in, far_out = amounts.get("remote_in"), amounts.get("remote_out")
    far = None if far_in is None or far_out is None else np.maximum(far_in, far_out) / lasted
    seconds = amounts.get("seconds")
    return {
        "cpu": share(
            None if seconds is None else seconds / lasted, [node.cores or 1.0 for node in hosts]
        ),
        "memory": share(amounts.get("state_bytes"), [node.memory for node in hosts]),
        "network": share(far, [node.bandwidth for node in hosts]),
    }
