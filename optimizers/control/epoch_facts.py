"""What is told of an epoch: all facts that strategies decide by, as a document.

These are the facts of `Statistics` without its sketches and pairs of keys, which are large and no
facts to read; where the time of batches went is told with each batch. Groups and instances are
columns, as they are in the statistics.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from optimizers.cluster import Cluster, Node
from optimizers.documents import Record
from optimizers.execution import Execution
from optimizers.flow import SourceStatistics
from optimizers.loads import GroupStatistics, InstanceStatistics
from optimizers.notes import note_from_record
from optimizers.operators import EdgeName
from optimizers.past import MOST_EPOCHS, Past, PastDecision, PastEpoch
from optimizers.statistics import (
    EdgeStatistics,
    GroupTraffic,
    OperatorStatistics,
    Statistics,
)
from sketches.values import FrozenMap

T = TypeVar("T")

LEFT_OUT: Mapping[str, Any] = FrozenMap(
    {
        **dict.fromkeys(("pairs", "costs", "history", "held_out", "keys"), FrozenMap()),
        "batch_times": (),
        "past": Past(),
    }
)
"""The parts of statistics that are not told, as they are then: sketches, and what is told apart."""

MOST_NUMBERS = 1 << 19
"""How many numbers all epochs that are kept have in their columns at most."""


@dataclass(frozen=True)
class EpochFacts:
    """The facts of one epoch, and the decision at its end.

    Attributes:
        after: the last batch of it.
        statistics: the facts that the optimizer was told, but those `LEFT_OUT`.
        nodes: the machines that were there at its end.
        wanted: how many nodes the plan in force wanted; None for the present number.
        past: the epoch in short: its loads by node, and the decision at its end with the loads that
            were expected of it. What was found of them are the loads of the next epoch.
    """

    after: int
    statistics: Statistics
    nodes: tuple[Node, ...] = ()
    wanted: int | None = None
    past: PastEpoch | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "statistics", replace(self.statistics, **LEFT_OUT))

    def __len__(self) -> int:
        """How many numbers there are in its columns."""
        seen = self.statistics
        columns = [
            column
            for part in (seen.groups, seen.instances)
            for each in part.values()
            for column in each.columns.values()
        ]
        return sum(map(len, columns)) + 3 * sum(map(len, seen.traffic.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as JSON types; what is not known is left out."""
        seen = self.statistics
        found: dict[str, Any] = {"after": self.after, "epoch": seen.epoch, "seconds": seen.seconds}
        found["nodes"] = [node.to_dict() for node in self.nodes]
        found["wanted"] = self.wanted
        found["operators"] = {
            name: {**_known(each), **_if_known("selectivity", each.selectivity)}
            for name, each in seen.operators.items()
        }
        found["instances"] = {name: _known(each) for name, each in seen.instances.items()}
        found["groups"] = {name: _known(each) for name, each in seen.groups.items()}
        found["edges"] = _by_edge(seen.edges)
        found["traffic"] = _by_edge(seen.traffic)
        found["sources"] = {name: _known(each) for name, each in seen.sources.items()}
        found["execution"] = None if seen.execution is None else _known(seen.execution)
        found["past"] = None if self.past is None else _past_dict(self.past)
        return found

    @classmethod
    def from_record(cls, record: Record) -> "EpochFacts":
        """Build it from the record of a document."""
        execution, past = record.optional("execution", dict), record.optional("past", dict)
        statistics = Statistics(
            epoch=record.take("epoch", int),
            seconds=record.take("seconds", float),
            operators=_each(record, "operators", _operator),
            instances=_each(record, "instances", _instances),
            groups=_each(record, "groups", lambda one: GroupStatistics(**_columns(one, _GROUPS))),
            edges=_each_edge(record, "edges", lambda one: _flat(one, EdgeStatistics)),
            traffic=_each_edge(record, "traffic", _traffic),
            sources=_each(record, "sources", SourceStatistics.from_record),
            execution=None
            if execution is None
            else Record(execution, "execution").into(_execution),
        )
        return cls(
            record.take("after", int),
            statistics,
            tuple(record.each("nodes", Node.from_record)),
            record.optional("wanted", int),
            None if past is None else Record(past, "past").into(_past),
        )


@dataclass
class ToldEpochs:
    """Keeps the facts of the last epochs, so that they never grow.

    Of jobs with very many groups or instances it keeps fewer: all that are kept have
    `MOST_NUMBERS` numbers at most, but that the last is always there.
    """

    _kept: deque[EpochFacts] = field(default_factory=lambda: deque(maxlen=MOST_EPOCHS))

    def add(self, after: int, statistics: Statistics, cluster: Cluster, wanted: int | None) -> None:
        """Keep the facts of an epoch that is over."""
        self._kept.append(EpochFacts(after, statistics, cluster.nodes, wanted))
        while len(self._kept) > 1 and sum(map(len, self._kept)) > MOST_NUMBERS:
            self._kept.popleft()

    def told(self, epochs: Iterable[PastEpoch]) -> tuple[EpochFacts, ...]:
        """Return them, each with what is remembered of the epoch."""
        known = {past.epoch: past for past in epochs}
        return tuple(replace(each, past=known.get(each.statistics.epoch)) for each in self._kept)


_GROUPS = tuple(each.name for each in fields(GroupStatistics))
_INSTANCES = tuple(
    each.name for each in fields(InstanceStatistics) if each.name not in {"nodes", "hosts"}
)


def _known(value: Any) -> dict[str, Any]:
    """Return the fields of a value as JSON types, but those that are not known."""
    named = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: _plain(found) for name, found in named.items() if found is not None}


def _if_known(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        # 0 takes a third of the room of 0.0, and most of what is told of groups are whole numbers.
        return [int(one) if one == int(one) else one for one in value.tolist()]
    return list(value) if isinstance(value, tuple) else value


def _by_edge(named: Mapping[EdgeName, Any]) -> list[dict[str, Any]]:
    return [{"edge": list(name), **_known(each)} for name, each in named.items()]


def _past_dict(past: PastEpoch) -> dict[str, Any]:
    found = {each.name: getattr(past, each.name) for each in fields(past)}
    maps = {name: dict(each) for name, each in found.items() if isinstance(each, Mapping)}
    maps["sources"] = {name: _known(each) for name, each in past.sources.items()}
    decision = None if past.decision is None else _decision_dict(past.decision)
    return {**found, **maps, "decision": decision, "loads": past.loads}


def _decision_dict(decision: PastDecision) -> dict[str, Any]:
    return {
        **{each.name: getattr(decision, each.name) for each in fields(decision)},
        "parts": [list(part) for part in decision.parts],
        "notes": [note.to_dict() for note in decision.notes],
        **{name: dict(getattr(decision, name)) for name in _FIGURES},
    }


_FIGURES = ("expected", "found", "loads")


def _each(record: Record, name: str, build: Callable[[Record], T]) -> dict[str, T]:
    return record.mapping(name, lambda value, where: Record(value, where).into(build))


def _each_edge(record: Record, name: str, build: Callable[[Record], T]) -> dict[EdgeName, T]:
    def entry(one: Record) -> tuple[EdgeName, T]:
        source, target = one.strings("edge")
        return (source, target), build(one)

    return dict(record.each(name, entry))


def _flat(record: Record, kind: type[T]) -> T:
    """Build a value whose fields are all numbers, some of which may not be known."""
    named = {each.name: record.optional(each.name, float) for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: found for name, found in named.items() if found is not None})


def _operator(record: Record) -> OperatorStatistics:
    record.optional("selectivity", float)  # which follows from the others
    return _flat(record, OperatorStatistics)


def _columns(record: Record, names: Iterable[str]) -> dict[str, Any]:
    return {name: np.array(found) for name in names if (found := record.floats(name))}


def _instances(record: Record) -> InstanceStatistics:
    nodes, hosts = record.strings("nodes"), record.optional("hosts", list)
    given = None if hosts is None else tuple(hosts)
    return InstanceStatistics(nodes, given, **_columns(record, _INSTANCES))


def _traffic(record: Record) -> GroupTraffic:
    sources, targets = (np.array(record.integers(end), np.int64) for end in ("sources", "targets"))
    return GroupTraffic(sources, targets, np.array(record.floats("tuples")))


def _execution(record: Record) -> Execution:
    slots = record.optional("slots", int)
    return Execution(
        record.take("micro_batches", bool),
        slots,
        record.strings("sized"),
        paced=record.take("paced", bool, default=False),
        cuts=record.take("cuts", bool, default=False),
    )


def _past(record: Record) -> PastEpoch:
    record.take("loads", dict, {})  # which follow from the others
    decision = record.optional("decision", dict)
    amounts = {
        name: record.mapping(name, _as_it_is) for name in ("tuples", "arrivals", "busy", "nodes")
    }
    return PastEpoch(
        record.take("epoch", int),
        record.take("batches", int),
        record.take("seconds", float),
        **amounts,
        instances=record.mapping("instances", _as_it_is),
        local=record.take("local", float),
        taken_over=record.take("taken_over", int),
        moved_bytes=record.optional("moved_bytes", float),
        pause=record.optional("pause", float),
        decision=None if decision is None else Record(decision, "decision").into(_decision),
        sources=_each(record, "sources", SourceStatistics.from_record),
    )


def _decision(record: Record) -> PastDecision:
    return PastDecision(
        tuple((str(part), str(about)) for part, about in record.take("parts", list)),
        record.take("applied", bool),
        record.take("refused", str),
        tuple(record.each("notes", note_from_record)),
        *(record.mapping(name, _as_it_is) for name in _FIGURES),
    )


def _as_it_is(value: Any, _: str) -> Any:
    return value  # what it is given to refuses what is no number
