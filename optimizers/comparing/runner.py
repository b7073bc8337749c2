"""The work of a comparison: every variant runs each batch, and its results are checked."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from optimizers import __version__
from optimizers.cluster import Cluster
from optimizers.comparing.compare import Step
from optimizers.comparing.comparison import Comparison
from optimizers.comparing.diff.tables import output_difference, state_difference
from optimizers.comparing.measuring import batch_facts
from optimizers.comparing.outcome import BatchFacts, DecisionFacts, Difference, Outcome
from optimizers.comparing.recording import Recording, recordings
from optimizers.comparing.reference import Reference
from optimizers.comparing.results import outputs_of, results_of
from optimizers.errors import CheckpointError, InvalidValueError
from optimizers.layout import Layout
from optimizers.optimizer import Optimizer
from optimizers.plan import Plan
from optimizers.runtime.log.checkpoint import Checkpoint
from optimizers.runtime.storage.location import Location
from optimizers.runtime.task.user_errors import said
from optimizers.spark.engine import SparkEngine
from optimizers.spark.session import local_session
from optimizers.topology import Topology
from sketches.checks import whole
from sketches.values import FrozenMap

_EVERY = 3  # batches between decisions, unless an engine says otherwise
_SHOWN = 200  # characters of a strategy's description


def run_contest(  # noqa: PLR0913
    topology: Topology,
    source: Any,
    variants: Mapping[str, Optimizer | None],
    *,
    engine: SparkEngine | None,
    warm_up: int,
    title: str,
    watch: Callable[[Step], None] | None,
) -> Comparison:
    """Do what `compare` promises."""
    _check_variants(variants)
    whole("warm_up", warm_up, at_least=0)
    tell = watch or _ignored
    with ExitStack() as open_folders:
        folder = open_folders.enter_context(TemporaryDirectory(prefix="penstock-compare-"))
        engine = engine or SparkEngine(checkpoint=f"{folder}/variants", every=_EVERY)
        session = engine.spark or local_session()
        cluster = engine.cluster or Cluster.uniform(_widest(topology))
        engine = replace(engine, spark=session, cluster=cluster)
        keep_output = engine.settings.keep_output
        batches = recordings(session, topology, source, warm_up)
        reference = Reference(topology, f"{folder}/reference", keep_output=keep_output)
        lanes = [Lane(engine, topology, name, optimizer) for name, optimizer in variants.items()]
        for number, batch in enumerate(batches):
            started = perf_counter()
            reference.execute(batch.tables)
            expected = reference.outputs()
            tell(Step(number, "", perf_counter() - started))
            # In another order each time, so that no one always comes first, or after another.
            turn = number % len(lanes)
            for lane in [*lanes[turn:], *lanes[:turn]]:
                if lane.failure is None:
                    started = perf_counter()
                    lane.execute(batch, expected)
                    tell(Step(number, lane.name, perf_counter() - started))
            _go_on(lanes)
        master = str(session.sparkContext.master)
        outcomes = [lane.outcome(reference) for lane in lanes if lane.failure is None]
        _go_on(lanes)
        return Comparison(
            title=title,
            topology=str(topology),
            where=f"Spark {session.version} on {master}, Penstock {__version__}, "
            f"{os.cpu_count()} cores",
            nodes=len(cluster.nodes),
            imagined=len(cluster.nodes) > 1
            and master.startswith("local")
            and not master.startswith("local-cluster"),
            warm_up=warm_up,
            variants=tuple(outcome for outcome in outcomes if outcome is not None),
            failed=FrozenMap({lane.name: lane.told for lane in lanes if lane.failure is not None}),
        )


class Lane:
    """One variant as it runs.

    Args:
        engine: how; a folder for this variant is made in its checkpoint.
        topology: the job.
        name: of the variant.
        optimizer: the strategy that decides; None for no decisions.
    """

    def __init__(
        self, engine: SparkEngine, topology: Topology, name: str, optimizer: Optimizer | None
    ) -> None:
        self.name = name
        self._topology = topology
        self._cluster = engine.cluster or Cluster.uniform(_widest(topology))
        self._strategy = "keys by hash" if optimizer is None else repr(optimizer)
        observes = () if optimizer is None else optimizer.observes
        self._observes = tuple(sorted(probe.value for probe in observes))
        location = Location.of(engine.checkpoint).within(quote(name, safe=""))
        if location.list(""):
            raise CheckpointError(
                f"variant {name!r} would be run in {location}, where there are files already; "
                "give the engine an empty folder"
            )
        with _telling(name, "before the first batch"):
            # Comparisons can be repeated, and all variants hash keys in one way.
            seeded = replace(engine, checkpoint=location, seed=engine.seed or 0)
            self._run = seeded.run(topology, [], optimizer)
        self._checkpoint = Checkpoint.create_or_open(location, topology)
        self._plan, self._layout = Plan(), Layout.of(topology, self._cluster, Plan())
        self._facts: list[BatchFacts] = []
        self._difference: Difference | None = None
        self.failure: Exception | None = None

    @property
    def told(self) -> str:
        """Why it failed, and when, in one line; empty if it did not."""
        if self.failure is None:
            return ""
        return " ".join([said(self.failure), *getattr(self.failure, "__notes__", ())])

    def execute(self, batch: Recording, expected: Mapping[str, pa.Table]) -> None:
        """Run the next batch, and compare what left the job.

        Args:
            batch: the batch.
            expected: what leaves the job in the reference, by operator.
        """
        number = self._run.next_batch
        with self._failing(f"in batch {number}"):
            self._run.execute(batch.frames)
            self._look(number, batch, outputs_of(self._checkpoint), expected)

    def _look(
        self,
        number: int,
        batch: Recording,
        found: Mapping[str, pa.Table],
        expected: Mapping[str, pa.Table],
    ) -> None:
        """Take down what became of a batch."""
        plan = replace(self._run.plan, notes=())
        changed = plan != self._plan
        if changed:
            self._plan, self._layout = plan, Layout.of(self._topology, self._cluster, plan)
        summary = self._run.batches[-1]
        self._facts.append(
            batch_facts(summary, self._layout, batch.tuples, changed=changed and number > 0)
        )
        for name in sorted({*expected, *found}):
            self._difference = self._difference or output_difference(
                name, number, expected.get(name), found.get(name)
            )

    def outcome(self, reference: Reference) -> Outcome | None:
        """Compare the results of all keys, and return what the variant came to, if it was fine."""
        with self._failing("as its results were read"):
            for operator in self._topology.operators:
                if operator.keyed and self._difference is None:
                    found = results_of(self._checkpoint, self._topology, operator.name)
                    self._difference = state_difference(
                        operator.name, operator.key_columns, reference.results(operator.name), found
                    )
        if self.failure is not None:
            return None
        decisions = tuple(
            DecisionFacts(
                d.after,
                d.applied,
                d.refused,
                d.seconds,
                str(d),
                tuple(f"{note.by} {note.text}" for note in d.notes if note.idle),
            )
            for d in self._run.decisions
        )
        strategy = self._strategy[:_SHOWN]
        return Outcome(
            self.name, strategy, tuple(self._facts), decisions, self._difference, self._observes
        )

    @contextmanager
    def _failing(self, when: str) -> Iterator[None]:
        """Take down an error as the end of this variant, and of no other."""
        try:
            with _telling(self.name, when):
                yield
        except Exception as error:  # noqa: BLE001  # `_go_on` raises it if all have failed
            self.failure = error


@contextmanager
def _telling(name: str, when: str) -> Iterator[None]:
    """Add to any error of which variant it was."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in variant {name!r}, {when}")
        raise


def _go_on(lanes: Sequence[Lane]) -> None:
    """Go on if there is a variant that has not failed; else raise the error of the first."""
    failures = [lane.failure for lane in lanes if lane.failure is not None]
    if len(failures) == len(lanes):
        raise failures[0]


def _ignored(_: Step) -> None:
    """Report nothing."""


def _check_variants(variants: Any) -> None:
    if not variants or not isinstance(variants, Mapping):
        raise InvalidValueError(
            f"variants={variants!r} has nothing to compare; give a dict such as "
            '{"hash": None, "locality": Locality()}'
        )
    for name, optimizer in variants.items():
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"{name!r} does not name a variant; use a text")
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise InvalidValueError(
                f"variant {name!r} is {optimizer!r}, not an Optimizer; make one, such as "
                "Locality(), or give None for keys by hash"
            )


def _widest(topology: Topology) -> int:
    return max(operator.parallelism for operator in topology.operators)
