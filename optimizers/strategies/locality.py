"""Locality: which instance owns which key, so that tuples stay on their machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from grouping.keygraph.evidence import Evidence, Lesson
from grouping.keygraph.key_graph import KeyGraph
from grouping.keygraph.partition import partition_keys
from optimizers.cluster import Cluster
from optimizers.errors import InvalidValueError
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Note, Plan
from optimizers.statistics import Probe, Statistics
from optimizers.strategies.locality_published import PublishedLocality
from optimizers.strategies.parts.key_layout import Division, KeyLayout
from optimizers.strategies.parts.keyed_hops import decidable_pairs, hindrance
from optimizers.topology import Topology
from sketches import checks

# Before a second epoch, persistence is unknown. 0.75 is worth 3 future epochs, the mean over a
# uniform `lasting` from 0 to 1 that is capped at 0.95.
_UNKNOWN_LASTING = 0.75
_MOST_LASTING = 0.95
_LEAST_LEARNED = 0.01
_SURE = 2.0  # standard deviations, below which apparent persistence counts as luck


@dataclass(frozen=True)
class Locality(Optimizer):
    """Decides which key group each key is in, so that keys that occur together are on one machine.

    >>> from grouping.keygraph.key_pairs import KeyPairs
    >>> job = Topology.source("posts", parallelism=2)
    >>> job = job.then("by_place", key="place", parallelism=2)
    >>> job = job.then("by_tag", key="tag", parallelism=2)
    >>> places, tags = ["Asia", "Europe", "Oceania"], ["#java", "#ruby", "#python"]
    >>> pairs = KeyPairs(places, tags, [3463, 1200, 4011])
    >>> seen = Statistics(pairs={("by_place", "by_tag"): pairs})
    >>> Locality().plan(job, Cluster.uniform(2), seen, Plan()).routing
    FrozenMap({'by_place': GroupTable(3 str keys, ...), 'by_tag': GroupTable(3 str keys, ...)})

    It divides the graph of key pairs among the machines: as few pairs apart as possible, and no
    instance with much more load of its operator than the others. On each instance, keys that belong
    together share a key group, so that they stay together when groups move. From the second time
    on it moves keys only as far as that pays. It learns from earlier epochs too, unless these would
    have misled it about the last one. A new routing is proposed if it is worth the state that has
    to move, judged by pairs it was not made from.

    Attributes:
        imbalance: the largest load of an instance, in averages of its operator.
        offline: whether to decide only once, from the first statistics.
        memory: the weight of an epoch's pairs one epoch later.
        worth: how much a new routing has to gain, until it is outdated, for each unit that moves:
            bytes per byte where sizes are known, else local tuples per key. 0 always proposes.
        inertia: what share of a key's tuples must become local for it to move.
        adopts: whether unknown keys get an owner beside their partners after their first batch;
            else they stay where their hash sends them.
        tries: how many times to divide from scratch; the best is taken.
        seed: equal seeds give equal answers.

    References:
        M. Caneill, A. El Rheddane, V. Leroy, N. De Palma, "Locality-aware routing in stateful
        streaming applications", Middleware 2016.
    """

    imbalance: float = 1.03
    offline: bool = False
    memory: float = 0.85
    worth: float = 1.0
    inertia: float = 0.02
    adopts: bool = True
    tries: int = 2
    seed: int = 0

    # The sizes of state and tuples tell what moving costs.
    observes = frozenset({Probe.PAIRS, Probe.OPERATORS})

    def __post_init__(self) -> None:
        if checks.number("imbalance", self.imbalance) < 1:
            raise InvalidValueError(
                f"imbalance={self.imbalance!r} would leave load without an instance; give 1 or more"
            )
        checks.amount("memory", self.memory, up_to=1.0)
        checks.amount("inertia", self.inertia, up_to=1.0)
        checks.amount("worth", self.worth)
        checks.whole("tries", self.tries, at_least=1)
        checks.seed(self.seed)

    @staticmethod
    def published(*, offline: bool = False, seed: int = 0) -> PublishedLocality:
        """Return the paper's method, as a baseline."""
        return PublishedLocality(offline=offline, seed=seed)

    def plan(
        self, topology: Topology, cluster: Cluster, statistics: Statistics, current: Plan
    ) -> Plan:
        """Propose owners for the keys of all operators whose pairs were seen."""
        evidence = Evidence(
            decidable_pairs(topology, statistics),
            statistics.held_out,
            # In a chain, the history may be there for another strategy.
            earlier=statistics.history if self.memory else {},
            counts=statistics.keys,
            seed=self.seed,
        )
        if not evidence.seen:
            reason = hindrance(topology)
            return self.idle(reason) if reason else Plan()
        layout = KeyLayout(Layout.of(topology, cluster, current), cluster, tuple(evidence.seen))
        if self.offline and layout.decided:
            return Plan()
        trial = _TriedDivision(self, layout, evidence)
        if self.worth and trial.local_now <= trial.local_then:
            note = self._note(layout, "nothing to gain", {**trial.figures, "gained": 0.0})
            return Plan(notes=(note,))
        lesson = evidence.lesson(evidence.seen, with_past=trial.keeps_past)
        graph = lesson.graph(topology.order)
        proposal = self.divide(layout, graph)
        if not self.worth:
            note = self._note(layout, "every new routing is taken", {})
        else:
            figures = self._judge(layout, statistics, trial, proposal)
            if figures["gained"] <= 0 or figures["gained"] < self.worth * figures["moved"]:
                note = self._note(layout, "not worth what would have to move", figures)
                return Plan(notes=(note,))
            note = self._note(layout, "worth what has to move", figures)
        tables = layout.in_groups(proposal, graph)
        return Plan(routing=tables, adopt=tuple(tables) if self.adopts else (), notes=(note,))

    def divide(self, layout: KeyLayout, graph: KeyGraph) -> Division:
        """Return an owner for each key of a graph, and for keys that have one now."""
        partition = partition_keys(
            graph,
            len(layout.nodes),
            imbalance=self.imbalance,
            previous=layout.on_nodes(graph) if layout.decided else None,
            capacities=layout.capacities(graph.names),
            racks=layout.racks,
            inertia=self.inertia,
            tries=self.tries,
            seed=self.seed,
        )
        return layout.kept(layout.divided(graph, partition))

    def _judge(
        self, layout: KeyLayout, statistics: Statistics, trial: "_TriedDivision", proposal: Division
    ) -> dict[str, float]:
        """Estimate what the proposal will gain until it is outdated, and what it moves.

        The gain is measured for a routing made without some of the last epoch's pairs, on these
        pairs: what a routing has merely learned by heart does not count.
        """
        lasting = trial.lasting
        tuples = sum(pairs.total for pairs in trial.evidence.seen.values())
        # The gain fades from epoch to epoch; this is the sum over all epochs to come.
        gained = (trial.local_now - trial.local_then) * tuples * lasting / (1 - lasting)
        figures = {**trial.figures, "lasting": lasting}
        keys, size = layout.moving(proposal, statistics)
        tuple_size = layout.tuple_bytes(statistics)
        if size is None or tuple_size is None:
            return {**figures, "gained": gained, "moved": keys}
        return {**figures, "gained": gained * tuple_size, "moved": size}

    def _note(self, layout: KeyLayout, text: str, figures: Mapping[str, float]) -> Note:
        return self.note(" and ".join(layout.names), text, figures)


@dataclass(frozen=True)
class _TriedDivision:
    """What can be learned from some of the pairs, tested on those held out."""

    strategy: Locality
    layout: KeyLayout
    evidence: Evidence

    @cached_property
    def local_then(self) -> float:
        """The share of the pairs held out that is local under the present owners."""
        return self.layout.locality(self.evidence.tested)

    @cached_property
    def local_now(self) -> float:
        """The share of them that is local under owners learned from the others."""
        return self.layout.locality(self.evidence.tested, self.learned)

    @property
    def figures(self) -> dict[str, float]:
        """What a note says of it."""
        return {
            "local then": self.local_then,
            "local now": self.local_now,
            "with past": float(self.keeps_past),
        }

    @cached_property
    def keeps_past(self) -> bool:
        """Whether to learn from earlier epochs, too: unless that clearly does harm."""
        if not self.evidence.past:
            return False
        tested = self.evidence.tested
        with_past = self.layout.locality(tested, self._with_past)
        without_past = self.layout.locality(tested, self._without_past)
        # A difference between two shares of that number of tuples varies by no more than that.
        deviation = 1 / math.sqrt(sum(pairs.total for pairs in tested.values()))
        return without_past - with_past <= _SURE * deviation

    @property
    def learned(self) -> Division:
        """What the pairs teach that are not held out."""
        return self._with_past if self.keeps_past else self._without_past

    @cached_property
    def lasting(self) -> float:
        """How much of what could be learned an epoch ago is still true, from 0 to 1.

        It is compared with what can be learned from the last epoch, on pairs that neither knows.
        The routing in force is no measure: it may be much older, and outdated where a new one would
        not be.
        """
        past = self.evidence.past
        if not past:
            return _UNKNOWN_LASTING
        tested = {hop: pairs for hop, pairs in self.evidence.tested.items() if hop in past}
        of_past = self._learned_from(Lesson(past, self.evidence.counts))
        before = self.layout.locality(tested, of_past) - self.layout.chance
        if before < _SURE * self.layout.luck(tested):
            return 0.0
        now = self.layout.locality(tested, self._without_past) - self.layout.chance
        return float(np.clip(before / max(now, _LEAST_LEARNED), 0.0, _MOST_LASTING))

    @cached_property
    def _with_past(self) -> Division:
        return self._learned_from(self.evidence.lesson(self.evidence.taught, with_past=True))

    @cached_property
    def _without_past(self) -> Division:
        return self._learned_from(self.evidence.lesson(self.evidence.taught, with_past=False))

    def _learned_from(self, lesson: Lesson) -> Division:
        graph = lesson.graph(self.layout.layout.topology.order)
        return self.strategy.divide(self.layout, graph)
