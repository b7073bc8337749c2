"""The loads of key groups and instances in an epoch, added up from the reports of its batches."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizers.cluster import Cluster
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.runtime.driver.sent_bytes import unsure_senders
from optimizers.runtime.driver.state_sizes import HeldState
from optimizers.runtime.observe.call_models import READING, ModelOf
from optimizers.runtime.observe.call_sums import CallModel
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
_PARTS = ("seconds", "receiving", "shipping")
"""What the CPU seconds of a task add up from."""

_BY_TASK = (
    "tuples",
    "calls",
    "call_seconds",
    "reading_in",
    "bytes_out",
    "remote_out",
    *_PARTS,
)
_BY_INSTANCE = ("keys", "measured", "held")
"""Facts on key groups that are added up by instance as well."""


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
            seconds=_whole(sums),
            receiving=sums["receiving"],
            shipping=sums["shipping"],
            fixed=self._fixed(name, known),
            state_bytes=state[0],
            resident=state[1],
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
        # The same by instance, for what its calls had to do.
        count = len(self._layout.homes[name].nodes)
        owns = self._instances.setdefault(name, self._nothing(count))
        own, work = reports.numbers("instance")[tasks], reports.numbers("instance")[working]
        for fact, column in (("keys", "group_keys"), ("measured", "group_seconds")):
            told = reports.vectors(column).taken(tasks)
            owns[fact] += np.bincount(own[told.rows], told.values, count)
        told = reports.vectors("held_bytes").taken(working)
        owns["held"] += np.bincount(work[told.rows], told.values, count)

    @staticmethod
    def _nothing(count: int) -> dict[str, Floats]:
        facts = (*_BY_TASK, *_BY_INSTANCE, "bytes_in", "remote_in")
        return {fact: np.zeros(count) for fact in facts}

    def _add_instances(self, reports: Reports, name: str, tasks: Indices) -> None:
        """Add the work of each instance of an operator, and note where it was."""
        count = len(self._layout.homes[name].nodes)
        numbers = reports.numbers("instance")[tasks]
        sums = self._instances.setdefault(name, self._nothing(count))
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

        Seconds that were measured key by key are known. Of the rest, the call model says how much
        grows with what comes. It is divided as the model says, where that is sure of each group,
        else by tuples: all cost about the same. What it took to read parcels goes by their bytes.
        """
        sums, model = self._groups[name], known.model_of(name)
        by_key = "measured" not in self._unknown[name]
        measured = sums["measured"] if by_key else np.zeros(len(sums["measured"]))
        if model is not None:
            amounts = np.column_stack(
                [np.zeros(len(measured)), sums["tuples"], sums["keys"], sums["held"]]
            )
            pace = self._pace(name, model)
            grows = model.seconds(amounts) * pace
            # What is tried right after a call begins faster than the call did.
            each = min(_SLOWER * float(model.rates[0]) * pace, _SLOWER_AT_MOST)
            slow = each * float(self._instances[name]["calls"].sum())
            grows *= max(0.0, 1.0 - slow / max(float(grows.sum()), slow, _TINY))
            reading, unsure = self._reading(name, known)
            unsure = float(np.hypot(unsure, slow))
            sized = "bytes_in" not in self._unknown[name] and sums["bytes_in"].any()
            rest = measured + _divided(reading, sums["bytes_in" if sized else "tuples"])
            allowed = _ERROR * float((rest + grows).sum())
            # Both errors are independent.
            if np.hypot(2.0 * model.uncertainty(amounts).sum(), unsure) <= allowed:
                return rest + grows
            if np.hypot(2.0 * _uncertainty_of_all(model, amounts), unsure) <= allowed:
                return rest + _divided(float(grows.sum()), sums["tuples"])
        worked = float(_whole(self._instances[name]).sum())
        return measured if by_key and measured.sum() >= (1.0 - _ERROR) * worked else None

    def _reading(self, name: str, known: Known) -> tuple[float, float]:
        """Return how much of the time to read what arrived grows with it, and how sure that is."""
        own, model = self._instances[name], known.model_of(READING)
        whole = float(own["reading_in"].sum())
        found, unsure = whole / 2, whole / 2  # whatever it is
        if model is not None:
            amounts = np.array([[0.0, own["bytes_in"].sum(), 0.0, 0.0]])
            error = 2.0 * float(model.uncertainty(amounts)[0])
            if error < unsure:
                found, unsure = min(whole, float(model.seconds(amounts)[0])), error
        return found, unsure

    def _pace(self, name: str, model: CallModel) -> float:
        """Return how many times what the model says calls took this time."""
        own = self._instances[name]
        modelled = float(model.seconds(_amounts(own)).sum())
        worked = float(own["call_seconds"].sum())
        return worked / modelled if worked and modelled else 1.0

    def _fixed(self, name: str, known: Known) -> Floats | None:
        """Return how many CPU seconds of each instance do not grow with what comes to it."""
        own, model = self._instances[name], known.model_of(name)
        whole = _whole(own)
        if not whole.any():
            return np.zeros(len(whole))
        if model is None or (whole[own["calls"] == 0] > _IDLE * whole.sum()).any():
            return None
        amounts = _amounts(own)
        amounts[:, 0] = 0.0
        grows = own["measured"] + model.seconds(amounts) * self._pace(name, model)
        error = 2.0 * _uncertainty_of_all(model, amounts)
        if self._layout.topology.operator(name).keyed:  # else the call is the task
            reading, unsure = self._reading(name, known)
            grows += _divided(reading, own["bytes_in"])
            error = float(np.hypot(error, unsure))
        fixed = np.maximum(whole - grows, 0.0)
        return fixed if error <= _ERROR * float(fixed.sum()) else None


_SLOWER = 0.15
"""Of what a call takes for itself: by so much it may be more, or twice that, or not at all.

It was a quarter in one process, and a third on Spark, where tasks wait between batches.
"""

_SLOWER_AT_MOST = 4e-4
"""Seconds a call; what users' functions take for themselves is the same each time."""

_TINY = 1e-12

_IDLE = 0.01
"""The share of an operator's CPU time that an instance to which nothing came may have."""


def _whole(sums: Mapping[str, Floats]) -> Floats:
    """Return the CPU seconds of tasks."""
    found: Floats = np.sum([sums[part] for part in _PARTS], axis=0)
    return found


def _amounts(own: Mapping[str, Floats]) -> Floats:
    """Return by instance its calls, tuples, keys and bytes of state, as call models have them."""
    return np.column_stack([own[fact] for fact in ("calls", "tuples", "keys", "held")])


def _uncertainty_of_all(model: CallModel, amounts: NDArray[np.float64]) -> float:
    """Return the standard error of what all of these take together."""
    return float(model.uncertainty(amounts.sum(axis=0, keepdims=True))[0])


def _divided(amount: float, weights: Floats) -> Floats:
    """Return an amount divided by weights."""
    total = float(weights.sum())
    return weights * (amount / total) if total else np.zeros(len(weights))


_HELD = ("held_groups", "held_bytes")
