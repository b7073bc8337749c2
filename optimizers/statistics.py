"""The facts about a job during one epoch, by which strategies decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grouping.keygraph.key_counts import KeyCounts
from grouping.keygraph.key_pairs import KeyPairs
from optimizers.batch_time import BatchTime, listed_times
from optimizers.errors import InvalidValueError, UnknownNameError
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.layout import Layout
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.operators import EdgeName
from optimizers.past import Past
from optimizers.projection import Projection
from optimizers.topology import Topology
from sketches.checks import amount, optional_amount, weights, whole
from sketches.cost_sketch import CostSketch
from sketches.keys import Pairs
from sketches.space_saving import SpaceSaving
from sketches.values import ArrayValue, FrozenMap, listed, named, named_by_pair, numeric, protected

_REMEMBERED_PAIRS = 1 << 20  # of each hop, the heaviest


class Probe(StrEnum):
    """What an engine can observe; each costs something, so each has to be asked for."""

    OPERATORS = "operators"
    """What operators and instances did, what edges carried and sources got, where time went."""
    PAIRS = "pairs"
    """How often a key of one keyed operator is followed by which key of the next."""
    COSTS = "costs"
    """What tuples cost to process, by the value of an attribute, at each instance."""
    GROUPS = "groups"
    """Load, state and traffic of each key group; see `GroupStatistics`."""


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """One operator during an epoch, over all of its instances.

    Attributes:
        tuples: how many tuples it received (a source: how many it let in).
        seconds: for how many CPU seconds its instances were at its own work on them, together.
        state_bytes: how much state it holds at the end; 0 for an operator that keeps none, None
            where that is not known, as after a restart until all instances with state have looked.
        hottest_key: the share of its tuples that had the most frequent key, from 0 to 1; None
            where that was not observed.
        emitted: how many tuples it emitted; each counts once, also where several edges carry it.
            This and the following are None where they were not observed.
        shipping: CPU seconds of its instances for routing and packing what they emitted.
        wall: how long its instances were at that work by the clock, together: `seconds`, and all
            that they waited in it for a core, or for another service. A tuple that waits in its
            queue, a task that has not begun, and waiting for state are not in it.
        receiving: CPU seconds of its instances for all that is neither `seconds` nor `shipping`:
            taking in what arrived, state, observing.
    """

    tuples: float = 0.0
    seconds: float = 0.0
    state_bytes: float | None = None
    hottest_key: float | None = None
    emitted: float | None = None
    shipping: float | None = None
    wall: float | None = None
    receiving: float | None = None

    def __post_init__(self) -> None:
        for name in ("tuples", "seconds"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))
        share = optional_amount("hottest_key", self.hottest_key, up_to=1.0)
        object.__setattr__(self, "hottest_key", share)
        for name in ("state_bytes", "emitted", "shipping", "wall", "receiving"):
            object.__setattr__(self, name, optional_amount(name, getattr(self, name)))

    @property
    def selectivity(self) -> float | None:
        """How many tuples it emitted for each that it received; None where that is not known."""
        return None if self.emitted is None or not self.tuples else self.emitted / self.tuples


@dataclass(frozen=True, slots=True)
class EdgeStatistics:
    """One edge during an epoch.

    Attributes:
        tuples: how many tuples it carried.
        bytes: their size together.
        local: how many of the tuples stayed on their node.
        local_bytes: the size of those together; None where that is not known.
        parcels: how many parcels they came in, if they are packed; None where that is not known, or
            they are not.
    """

    tuples: float = 0.0
    bytes: float = 0.0
    local: float = 0.0
    local_bytes: float | None = None
    parcels: float | None = None

    def __post_init__(self) -> None:
        for name in ("tuples", "bytes"):
            object.__setattr__(self, name, amount(name, getattr(self, name)))
        object.__setattr__(self, "local", amount("local", self.local, up_to=self.tuples))
        local_bytes = optional_amount("local_bytes", self.local_bytes, up_to=self.bytes)
        object.__setattr__(self, "local_bytes", local_bytes)
        object.__setattr__(self, "parcels", optional_amount("parcels", self.parcels))

    def with_gain(self, share: float, *, repacked: bool = False) -> "EdgeStatistics":
        """Return it with a larger share of local tuples; a smaller one if ``share`` is negative.

        Tuples that become local have the mean size of those that were not, and the reverse. Where
        they are packed for other instances, the number of parcels is not known.
        """
        if repacked and self.parcels is not None:
            return replace(self, parcels=None).with_gain(share)
        if not share or not self.tuples:
            return self
        local = min(max(self.local + share * self.tuples, 0.0), self.tuples)
        if self.local_bytes is None:
            return replace(self, local=local)
        if local > self.local:
            turned = (local - self.local) / (self.tuples - self.local)
            size = self.local_bytes + turned * (self.bytes - self.local_bytes)
        else:
            size = self.local_bytes * (local / self.local) if self.local else 0.0
        return replace(self, local=local, local_bytes=min(size, self.bytes))


@dataclass(frozen=True, eq=False)
class GroupTraffic(ArrayValue):
    """The tuples between key groups of two operators; row ``i`` is one pair of groups.

    Attributes:
        sources: the groups that sent.
        targets: the groups that received.
        tuples: how many tuples went from the one to the other.
    """

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    tuples: NDArray[np.float64]

    def __post_init__(self) -> None:
        length = np.atleast_1d(numeric("sources", self.sources)).shape[0]
        for name in ("sources", "targets"):
            object.__setattr__(
                self, name, protected(_group_numbers(name, getattr(self, name), length))
            )
        object.__setattr__(
            self, "tuples", protected(weights("tuples", numeric("tuples", self.tuples), length))
        )

    def __len__(self) -> int:
        return len(self.tuples)


@dataclass(frozen=True)
class Statistics:
    """A snapshot of one epoch. Facts that were not observed are absent, never zero.

    Attributes:
        epoch: which epoch it is about, counted from 0.
        seconds: how long the epoch lasted, without pauses between batches, in which nothing can
            work: what its batches took together; 0 where that is not known.
        operators: load of each operator.
        edges: traffic of each edge, by (source, target).
        pairs: key pairs of each two consecutive keyed operators, by their names; operators
            without a key in between are passed through.
        costs: sketches of the seconds that tuples took, of each operator that was observed.
        groups: load of each key group, by operator.
        traffic: tuples between key groups of two consecutive keyed operators, by their names.
        held_out: pairs of tuples that ``pairs`` does not count, from a sketch of their own (of
            every other batch, say), to test what was learned from ``pairs``.
        history: pairs of all earlier epochs, older ones with less weight; see `Optimizer.memory`.
        keys: the keys of each keyed operator; pairs alone say too little about those with many rare
            partners.
        sources: how much came to each source and how much waits; absent where the engine does not
            know, as for bounded data.
        batch_times: where the time of the last batches went, the oldest first.
        execution: how the engine runs the job; None where it does not say.
        past: earlier epochs in short, with the decision after each; the control loop of every
            engine fills it.
        instances: load of each instance, and where it ran, by operator.
    """

    epoch: int = 0
    seconds: float = 0.0
    operators: Mapping[str, OperatorStatistics] = FrozenMap()
    edges: Mapping[EdgeName, EdgeStatistics] = FrozenMap()
    pairs: Mapping[EdgeName, KeyPairs] = FrozenMap()
    costs: Mapping[str, tuple[CostSketch, ...]] = FrozenMap()
    groups: Mapping[str, GroupStatistics] = FrozenMap()
    traffic: Mapping[EdgeName, GroupTraffic] = FrozenMap()
    history: Mapping[EdgeName, KeyPairs] = FrozenMap()
    held_out: Mapping[EdgeName, KeyPairs] = FrozenMap()
    keys: Mapping[str, KeyCounts] = FrozenMap()
    sources: Mapping[str, SourceStatistics] = FrozenMap()
    batch_times: tuple[BatchTime, ...] = ()
    execution: Execution | None = None
    past: Past = field(default_factory=Past)
    instances: Mapping[str, InstanceStatistics] = FrozenMap()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", whole("epoch", self.epoch, at_least=0))
        object.__setattr__(self, "seconds", amount("seconds", self.seconds))
        costs = {
            name: _sketches(name, given)
            for name, given in named("costs", self.costs, object).items()
        }
        object.__setattr__(self, "costs", FrozenMap(costs))
        object.__setattr__(self, "batch_times", listed_times(self.batch_times))
        for part, wanted in _BY_OPERATOR.items():
            object.__setattr__(self, part, named(part, getattr(self, part), wanted))
        for part, wanted in _BY_EDGE.items():
            object.__setattr__(self, part, named_by_pair(part, getattr(self, part), wanted))
        if not isinstance(self.execution, Execution | None):
            raise InvalidValueError(
                f"execution={self.execution!r} is not an Execution; leave it out, or give one"
            )
        if not isinstance(self.past, Past):
            raise InvalidValueError(f"past={self.past!r} is not a Past; leave it out, or give one")

    def __bool__(self) -> bool:
        """Whether anything at all was observed."""
        return any(getattr(self, part) for part in _PARTS)

    def remembered(self, memory: float) -> dict[EdgeName, KeyPairs]:
        """Return the next epoch's `history` for the hops seen in this one.

        Args:
            memory: the weight of an epoch one epoch later, see `Optimizer.memory`.
        """
        found = {}
        for hop, pairs in self.pairs.items():
            sketch = SpaceSaving(_REMEMBERED_PAIRS)
            for known in (self.history.get(hop), pairs, self.held_out.get(hop)):
                if known is not None and len(known):
                    sketch.update(Pairs(*known.columns), known.counts)
            found[hop] = KeyPairs.of(sketch).faded(memory)
        return found

    def under(self, old: Layout, new: Layout) -> "Statistics":
        """Return the statistics that the same stream would have under another layout.

        Named keys are followed: for them this equals what is then measured, as far as a key's
        tuples cost the same. Other keys stay in their key groups. Sums over keys and operators
        stay; costs that an instance measured stay with it, or go to another on its node if it is
        gone. Where batches would spend their time under another layout is not known, nor how many
        parcels there would be for another number of instances.

        Args:
            old: the layout of these statistics.
            new: the job as a decision would lay it out.
        """
        seen = Projection(
            old,
            new,
            self.keys,
            {hop: self._all_pairs(hop) for hop in self.pairs},
            {name: operator.tuples for name, operator in self.operators.items()},
        )
        return replace(
            self,
            edges={
                name: edge.with_gain(
                    seen.gained(old.topology.edge(*name), edge.tuples),
                    repacked=not seen.is_as_wide(*name),
                )
                for name, edge in self.edges.items()
            },
            batch_times=self.batch_times if old == new else (),
            costs={
                name: _inherited(
                    sketches, seen.heirs(name, len(sketches)), len(new.homes[name].nodes)
                )
                for name, sketches in self.costs.items()
            },
            groups={name: seen.groups(name, groups) for name, groups in self.groups.items()},
            instances=seen.instances(self.instances, self.groups),
            past=self.past.without([name for name in self.past.groups if seen.regroups(name)]),
            traffic={
                hop: GroupTraffic(*seen.traffic(hop, known.sources, known.targets, known.tuples))
                if any(map(seen.regroups, hop))
                else known
                for hop, known in self.traffic.items()
            },
        )

    def _all_pairs(self, hop: EdgeName) -> KeyPairs:
        held_out = self.held_out.get(hop)
        return self.pairs[hop] if held_out is None else self.pairs[hop].together(held_out)

    def check(self, topology: Topology) -> None:
        """Refuse statistics about things that the topology does not have.

        Raises:
            UnknownNameError: an operator or edge is not in the topology.
            InvalidValueError: an operator has another number of key groups, or traffic is of a
                group that it does not have.
        """
        for name in (*self.operators, *self.costs, *self.groups, *self.keys, *self.instances):
            topology.operator(name)
        for name in self.sources:
            if name not in topology.sources:
                raise UnknownNameError.among("source", name, topology.sources)
        for source, target in self.edges:
            topology.edge(source, target)
        for hop in (*self.pairs, *self.traffic, *self.history, *self.held_out):
            if hop not in topology.keyed_hops:
                raise UnknownNameError.among(
                    "hop between keyed operators", hop, topology.keyed_hops
                )
        _check_counts("groups", self.groups, topology)
        # Of some, no load was ever observed.
        past = {name: known for name, known in self.past.groups.items() if len(known)}
        _check_counts("past.groups", past, topology)
        for hop, traffic in self.traffic.items():
            for name, numbers in zip(hop, (traffic.sources, traffic.targets), strict=True):
                expected = topology.operator(name).key_groups
                if len(numbers) and numbers.max() >= expected:
                    raise InvalidValueError(
                        f"traffic[{hop!r}] speaks of group {numbers.max()} of operator {name!r}, "
                        f"which has {expected}; observe the topology that runs"
                    )


_BY_OPERATOR: dict[str, type] = {
    "operators": OperatorStatistics,
    "groups": GroupStatistics,
    "keys": KeyCounts,
    "sources": SourceStatistics,
    "instances": InstanceStatistics,
}
_BY_EDGE: dict[str, type] = {
    "edges": EdgeStatistics,
    "pairs": KeyPairs,
    "traffic": GroupTraffic,
    "history": KeyPairs,
    "held_out": KeyPairs,
}
_PARTS = ("batch_times", "costs", *_BY_OPERATOR, *_BY_EDGE)


def _check_counts(where: str, groups: Mapping[str, Any], topology: Topology) -> None:
    """Refuse columns for another number of key groups than an operator has."""
    for name, known in groups.items():
        expected = topology.operator(name).key_groups
        if len(known) != expected:
            raise InvalidValueError(
                f"{where}[{name!r}] has {len(known)} key groups and operator {name!r} has "
                f"{expected}; observe the topology that runs"
            )


def _inherited(
    sketches: tuple[CostSketch, ...], heirs: list[int], instances: int
) -> tuple[CostSketch, ...]:
    """Return the costs measured at each instance after others have taken over some."""
    if heirs == list(range(instances)):
        return sketches
    first = sketches[0]
    found = [
        CostSketch(first.width, first.depth, first.seed, exact=first.exact)
        for _ in range(instances)
    ]
    for heir, sketch in zip(heirs, sketches, strict=True):
        found[heir] |= sketch
    return tuple(found)


def _sketches(name: str, given: object) -> tuple[CostSketch, ...]:
    sketches = listed(f"costs[{name!r}]", given)
    if not sketches:
        raise InvalidValueError(
            f"costs[{name!r}] is empty; give one CostSketch an instance, or leave it out"
        )
    for sketch in sketches:
        if not isinstance(sketch, CostSketch):
            raise InvalidValueError(f"costs[{name!r}] holds {sketch!r}; give a CostSketch")
    # Copies: the instances go on counting in theirs.
    return tuple(sketch.copy() for sketch in sketches)


def _group_numbers(name: str, values: Any, length: int) -> NDArray[np.int64]:
    array = numeric(name, values)
    if array.shape != (length,):
        raise InvalidValueError(
            f"{name} of shape {array.shape} do not fit {length} rows; give one group for each"
        )
    if length and array.dtype.kind not in "iu":
        raise InvalidValueError(f"{name} of type {array.dtype} are not key groups; give integers")
    if length and not 0 <= array.min() <= array.max() <= np.iinfo(np.int64).max:
        raise InvalidValueError(
            f"{name} reach from {array.min()} to {array.max()}; key groups are counted from 0"
        )
    return array.astype(np.int64, copy=False)
