"""What is remembered of earlier epochs, so that a strategy without a memory of its own has one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optimizers.errors import InvalidValueError
from optimizers.flow import SourceStatistics
from optimizers.notes import Note
from sketches.arrays import Floats
from sketches.checks import amount, weights, whole
from sketches.values import ArrayValue, FrozenMap, listed, named, numeric, protected

RESOURCES = ("cpu", "memory", "network")
"""The resources for which loads of key groups are remembered."""

MOST_EPOCHS = 128
"""How many epochs are remembered."""

MOST_NOTES = 32
"""How many notes of one decision are remembered."""


@dataclass(frozen=True)
class PastDecision:
    """What was decided at the end of an epoch.

    Attributes:
        parts: what it changed or wanted to change, as in ``("placement", "by_tag")`` or
            ``("drain", "node-3")``.
        applied: whether it changed anything.
        refused: why it could not be carried out; empty if it was.
        notes: why, with the figures that strategies expected, those with figures first; as many
            as are remembered.
        expected: what it would bring, if the stream went on as it was, by the names of figures, see
            `optimizers.control.expecting`; what is not known is left out.
        found: the same figures of the epoch after it; empty until that is over.
        loads: by node, the CPU seconds a second that would come of it; empty where that is not
            known. See `PastEpoch.loads`.
    """

    parts: tuple[tuple[str, str], ...] = ()
    applied: bool = False
    refused: str = ""
    notes: tuple[Note, ...] = ()
    expected: Mapping[str, float] = FrozenMap()
    found: Mapping[str, float] = FrozenMap()
    loads: Mapping[str, float] = FrozenMap()

    def __post_init__(self) -> None:
        parts = tuple(
            sorted((str(part), str(about)) for part, about in listed("parts", self.parts))
        )
        object.__setattr__(self, "parts", parts)
        # What strategies remember of their decisions is in figures.
        notes = sorted(listed("notes", self.notes), key=lambda note: not note.figures)
        object.__setattr__(self, "notes", tuple(notes[:MOST_NOTES]))
        for name in ("expected", "found", "loads"):
            object.__setattr__(self, name, _amounts(name, getattr(self, name)))

    def changed(self, part: str) -> bool:
        """Return whether it was applied and changed this part of the plan."""
        return self.applied and any(name == part for name, _ in self.parts)


@dataclass(frozen=True)
class PastEpoch:
    """One epoch in short.

    Attributes:
        epoch: which one.
        batches: how many batches it had.
        seconds: how long it lasted, without pauses between batches; 0 where that is not known.
        tuples: by operator, how many tuples it received; a source, how many it let in.
        arrivals: by source, how many tuples arrived a second, where that is known.
        busy: by operator, for how many CPU seconds its instances were busy, all in all: working,
            sending and, where the engine knows it, receiving.
        nodes: by node, for how many CPU seconds the instances there were busy. One that ran on
            another node than planned counts where it ran, as far as the engine knows.
        instances: by operator, how many instances it had.
        local: the share of tuples that stayed on their node, between keyed operators.
        taken_over: how many keys changed their instance.
        moved_bytes: how much state travelled between nodes, or was read from other instances'
            files; None where the engine does not know.
        pause: for how many seconds instances waited for state; None where the engine does not know.
        decision: the decision at its end; None where the optimizer was not asked, or has not
            answered yet.
        sources: what came to each source in it, see `Statistics.sources`.
    """

    epoch: int
    batches: int = 0
    seconds: float = 0.0
    tuples: Mapping[str, float] = FrozenMap()
    arrivals: Mapping[str, float] = FrozenMap()
    busy: Mapping[str, float] = FrozenMap()
    nodes: Mapping[str, float] = FrozenMap()
    instances: Mapping[str, int] = FrozenMap()
    local: float = 1.0
    taken_over: int = 0
    moved_bytes: float | None = None
    pause: float | None = None
    decision: PastDecision | None = None
    sources: Mapping[str, SourceStatistics] = FrozenMap()

    def __post_init__(self) -> None:
        for name in ("epoch", "batches", "taken_over"):
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=0))
        object.__setattr__(self, "seconds", amount("seconds", self.seconds))
        object.__setattr__(self, "local", amount("local", self.local, up_to=1.0))
        for name in ("tuples", "arrivals", "busy", "nodes"):
            object.__setattr__(self, name, _amounts(name, getattr(self, name)))
        object.__setattr__(self, "instances", named("instances", self.instances, int))
        object.__setattr__(self, "sources", named("sources", self.sources, SourceStatistics))
        for name in ("moved_bytes", "pause"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, amount(name, getattr(self, name)))

    @property
    def loads(self) -> dict[str, float]:
        """By node, its CPU seconds a second; empty where it is not known how long it lasted."""
        if not self.seconds:
            return {}
        return {node: busy / self.seconds for node, busy in self.nodes.items()}

    def rate(self, operator: str) -> float | None:
        """Return how many tuples a second of work an operator received; None if it is not known.

        The number that came to a source, by wall-clock time, is `rate` of its `sources`.
        """
        if not self.seconds or operator not in self.tuples:
            return None
        return self.tuples[operator] / self.seconds


@dataclass(frozen=True, eq=False)
class PastGroups(ArrayValue):
    """The loads of one operator's key groups, averaged over earlier epochs.

    An epoch counts half as much as the one after it. Element ``g`` is about group ``g``, in the
    units of `GroupStatistics`; None where a load was not observed.

    Attributes:
        cpu: on processors.
        memory: on memory.
        network: on the network.
    """

    cpu: Floats | None = None
    memory: Floats | None = None
    network: Floats | None = None

    def __post_init__(self) -> None:
        lengths = set()
        for name in RESOURCES:
            given = getattr(self, name)
            if given is not None:
                array = np.atleast_1d(numeric(name, given))
                object.__setattr__(self, name, protected(weights(name, array, len(array))))
                lengths.add(len(array))
        if len(lengths) > 1:
            raise InvalidValueError(
                f"loads of {' and '.join(map(str, sorted(lengths)))} key groups are of different "
                "operators; give one for each group"
            )

    def __len__(self) -> int:
        loads = (getattr(self, name) for name in RESOURCES)
        return next((len(given) for given in loads if given is not None), 0)


@dataclass(frozen=True)
class Past:
    """The epochs before the one that statistics are about, as far as they are remembered.

    It begins with the process that drives the job: after a restart it is empty.

    >>> calm, grown = PastEpoch(0, tuples={"s": 10.0}, seconds=1.0), PastEpoch(1)
    >>> past = Past((calm, grown))
    >>> past.epochs[0].rate("s"), past.since("parallelism")
    (10.0, None)

    Attributes:
        epochs: the last epochs, the oldest first; at most `MOST_EPOCHS`.
        groups: by operator, the average loads of its key groups since keys last got other groups.
    """

    epochs: tuple[PastEpoch, ...] = ()
    groups: Mapping[str, PastGroups] = FrozenMap()

    def __post_init__(self) -> None:
        epochs = listed("epochs", self.epochs)
        for epoch in epochs:
            if not isinstance(epoch, PastEpoch):
                raise InvalidValueError(f"epochs holds {epoch!r}, which is not a PastEpoch")
        for one, other in pairwise(epochs):
            if one.epoch >= other.epoch:
                raise InvalidValueError(
                    f"epoch {other.epoch} comes after epoch {one.epoch}; give the oldest first"
                )
        object.__setattr__(self, "epochs", epochs[-MOST_EPOCHS:])
        object.__setattr__(self, "groups", named("groups", self.groups, PastGroups))

    def __bool__(self) -> bool:
        """Whether anything is remembered."""
        return bool(self.epochs or self.groups)

    def without(self, operators: Iterable[str]) -> "Past":
        """Return it without the loads of operators whose keys get other groups."""
        gone = set(operators)
        kept = {name: loads for name, loads in self.groups.items() if name not in gone}
        return Past(self.epochs, kept) if gone else self

    def since(self, part: str) -> int | None:
        """Return how many epochs ended since a decision changed this part of the plan.

        1 if the decision after the last remembered epoch did, so that the epoch of these statistics
        is the first under it; None if no remembered decision did.
        """
        for ago, epoch in enumerate(reversed(self.epochs), start=1):
            if epoch.decision is not None and epoch.decision.changed(part):
                return ago
        return None


def _amounts(name: str, values: object) -> FrozenMap[str, float]:
    given = named(name, values, object)
    return FrozenMap({key: amount(f"{name}[{key!r}]", value) for key, value in given.items()})
