"""The loads of key groups and instances in an epoch, added up from the reports of its batches."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.runtime.driver.sent_bytes import unsure_senders
from optimizers.runtime.driver.state_sizes import HeldState
from optimizers.runtime.observe.call_models import ModelOf
from optimizers.runtime.observe.call_sums import FACTORS
from optimizers.runtime.task.reports import Reports
from sketches.arrays import Floats, Indices

_ERROR = 0.1
"""The largest error of an amount; an amount that may be off by more is left out."""

_BY_GROUP = {
    "tuples": "group_tuples",
    "keys": "group_keys",
    "measured": "group_seconds",
    "bytes_in": "group_in",
    "remote_in": "group_remote_in",
    "bytes_out": "group_out",
    "remote_out": "group_remote_out",
}
_BY_TASK = ("tuples", "seconds", "calls", "bytes_out", "remote_out")


@dataclass(frozen=True)
class Known:
    """The facts that loads need besides the reports of batches.

    Attributes:
        cluster: the machines.
        seconds: how long the epoch lasted.
        held: how much state there is.
        model_of: the cost models of calls.
    """

    cluster: Cluster
    seconds: float
    held: HeldState
    model_of: ModelOf


class LoadCollector:
    """Adds up the reports on key groups and instances in an epoch.

    Args:
        layout: the job, laid out as it was throughout.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._groups: dict[str, dict[str, Floats]] = {}
        self._instances: dict[str, dict[str, Floats]] = {}
        self._hosts: dict[str, list[str | None]] = {}
        self._unknown: dict[str, set[str]] = defaultdict(set)

    def go_on_under(self, layout: Layout) -> None:
        """Go on with a layout that has the same instances and key groups on other machines."""
        self._layout = layout

    @property
    def observed(self) -> list[str]:
        """The operators whose key groups were observed."""
        return sorted(self._groups)

    @property
    def operators(self) -> list[str]:
        """The operators that did something."""
        return sorted(self._instances)

    def add(self, reports: Reports) -> None:
        """Add the reports of a batch, merged."""
        for name, tasks in reports.tasks.items():
            self._add_groups(reports, name, tasks)
            self._add_instances(reports, name, tasks)
        self._add_arrivals(reports)
        self._note_hosts(reports)

    def groups(self, name: str, known: Known) -> GroupStatistics:
        """Return the loads of the key groups of an operator."""
        home = self._layout.homes[name]
        sums, unknown = self._groups[name], self._unknown[name]
        amounts = {
            fact: None if fact in unknown else sums[fact]
            for fact in ("tuples", "bytes_in", "bytes_out", "remote_in", "remote_out")
        }
        return GroupStatistics.of(
            known.cluster,
            [home.nodes[instance] for instance in home.groups],
            known.seconds,
            seconds=self._group_seconds(name, known),
            state_bytes=known.held.by_group(name, len(home.groups)),
            **amounts,
        )

    def instances(self, name: str, known: Known) -> InstanceStatistics:
        """Return the loads of the instances of an operator."""
        nodes = self._layout.homes[name].nodes
        sums, hosts = self._instances[name], self._hosts[name]
        none = np.zeros(len(nodes))
        keyed = self._layout.topology.operator(name).keyed
        state = known.held.by_instance(name, len(nodes)) if keyed else (none, none)
        remote_out = None if "instance_remote_out" in self._unknown[name] else sums["remote_out"]
        return InstanceStatistics.of(
            known.cluster,
            nodes,
            known.seconds,
            tuple(hosts) if any(host is not None for host in hosts) else None,
            tuples=sums["tuples"],
            seconds=sums["seconds"],
            fixed=self._fixed(name, known),
            state_bytes=None if state is None else state[0],
            resident=None if state is None else state[1],
            bytes_in=sums["bytes_in"],
            bytes_out=sums["bytes_out"],
            remote_in=sums["remote_in"],
            remote_out=remote_out,
        )

    def _add_groups(self, reports: Reports, name: str, tasks: Indices) -> None:
        """Add the tuples of each key group of an operator."""
        groups = reports.vectors("groups").taken(tasks)
        if not len(groups.values):
            return
        number = self._layout.topology.operator(name).key_groups
        sums = self._groups.setdefault(
            name, {fact: np.zeros(number) for fact in (*_BY_GROUP, "held")}
        )
        for fact, column in _BY_GROUP.items():
            told = reports.vectors(column).taken(tasks)
            if (told.lengths != groups.lengths).any():
                self._unknown[name].add(fact)
            else:
                sums[fact] += np.bincount(groups.values, told.values, number)
        working = tasks[reports.numbers("calls")[tasks] > 0]
        held, sizes = (reports.vectors(each).taken(working).values for each in _HELD)
        sums["held"] += np.bincount(held, sizes, number)

    def _add_instances(self, reports: Reports, name: str, tasks: Indices) -> None:
        """Add the work of each instance of an operator, and note where it was."""
        count = len(self._layout.homes[name].nodes)
        numbers = reports.numbers("instance")[tasks]
        sums = self._instances.setdefault(
            name, {fact: np.zeros(count) for fact in (*_BY_TASK, "bytes_in", "remote_in")}
        )
        for fact in _BY_TASK:
            sums[fact] += np.bincount(numbers, reports.numbers(fact)[tasks], count)
        self._hosts.setdefault(name, [None] * count)

    def _add_arrivals(self, reports: Reports) -> None:
        """Add the bytes that arrived at each instance."""
        flows, edges = reports.received, self._layout.topology.edges
        for number in np.unique(flows["edge"]).tolist():
            mine = flows[flows["edge"] == number]
            sums, at = self._instances[edges[number].target], mine["instance"]
            np.add.at(sums["bytes_in"], at, mine["bytes"])
            np.add.at(sums["remote_in"], at, mine["bytes"] - mine["local_bytes"])

    def _note_hosts(self, reports: Reports) -> None:
        """Note where instances were, and which may be wrong about what they sent elsewhere."""
        for name in unsure_senders(reports, self._layout):
            self._unknown[name] |= {"remote_out", "instance_remote_out"}
        if not reports.columns["host"].lengths.any():
            return  # nodes are imaginary
        words, codes = np.unique(reports.hosts, return_inverse=True)
        known = words.tolist()
        numbers, busy = reports.numbers("instance"), reports.numbers("tuples") > 0
        for name, tasks in reports.tasks.items():
            nodes, hosts = self._layout.homes[name].nodes, self._hosts[name]
            tasks = tasks[busy[tasks]]  # noqa: PLW2901
            # The first and the last of the hosts of each instance: one, if it was on one.
            ends = np.full((2, len(nodes)), len(known), dtype=np.int64)
            ends[1] = -1
            np.minimum.at(ends[0], numbers[tasks], codes[tasks])
            np.maximum.at(ends[1], numbers[tasks], codes[tasks])
            first, last = ends.tolist()
            for number in np.flatnonzero(ends[1] >= 0).tolist():
                one = first[number] == last[number]
                hosts[number] = (known[first[number]] or None) if one else None

    def _group_seconds(self, name: str, known: Known) -> Floats | None:
        """Return CPU seconds by key group, without what calls take; None where not known.

        Seconds that were measured key by key are known. The rest is divided by tuples, keys and
        state.
        """
        sums, model = self._groups[name], known.model_of(name)
        measured = sums["measured"]
        by_key = "measured" not in self._unknown[name]
        if not by_key:
            measured = np.zeros(len(measured))
        if model is not None:
            amounts = np.column_stack(
                [np.zeros(len(measured)), sums["tuples"], sums["keys"], sums["held"]]
            )
            seconds: Floats = measured + model.seconds(amounts)
            if 2.0 * model.uncertainty(amounts).sum() <= _ERROR * seconds.sum():
                return seconds
        worked = float(self._instances[name]["seconds"].sum())
        return measured if by_key and measured.sum() >= (1.0 - _ERROR) * worked else None

    def _fixed(self, name: str, known: Known) -> Floats | None:
        """Return how many seconds the calls of each instance took for themselves."""
        sums = self._instances[name]
        if not sums["seconds"].any():
            return np.zeros(len(sums["seconds"]))
        model = known.model_of(name)
        if model is None or (sums["seconds"][sums["calls"] == 0] > 0).any():
            return None
        call = np.eye(1, FACTORS)
        taken = sums["calls"] * float(model.seconds(call)[0])
        sure = 2.0 * float(model.uncertainty(call)[0]) <= _ERROR * float(model.seconds(call)[0])
        return np.minimum(taken, sums["seconds"]) if sure else None


_HELD = ("held_groups", "held_bytes")
